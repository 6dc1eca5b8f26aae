"""Experiments with tables of their own: pieces against the record, and what the tables say."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from gpclass.app.datasets import Dataset
from gpclass.app.reproduce import load
from gpclass.experiments import experiments, ljs23, pairs, truth_binary
from gpclass.experiments.runner import plain
from helpers import folder

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
with_records = pytest.mark.skipif(not RECORDS.is_dir(), reason="this copy has no docs folder")


def record(name):
    text = (RECORDS / f"{name}.json").read_text(encoding="utf-8")
    return {key: piece["result"] for key, piece in json.loads(text)["pieces"].items()}


def again(name, key):
    """Run a piece of the full run, and return the result and that on record."""
    (piece,) = (one for one in experiments()[name].pieces("full") if one.name == key)
    if piece.data:
        folder("GPCLASS_DATA")
    tables = [load(one) for one in piece.data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(piece.run(*tables, **piece.arguments)), record(name)[key]


@with_records
@pytest.mark.slow
@pytest.mark.parametrize(
    "label",
    ['`"laplace"`', '`"ep"`, parallel', '`"bound"`, lower', "`TangentBound`, upper"],
)
def test_pairs_are_as_the_record_says(label):
    for likelihood in pairs.LIKELIHOODS:
        found, kept = again("pairs", f"{label} {likelihood}")
        assert found == kept


@with_records
def test_what_learning_without_a_gradient_says():
    kept = record("pairs")['`"mcmc"` probit']
    for column in ('learning="evidence"', 'learning="em"'):
        assert pairs.CELLS[column]("mcmc", "probit") == kept[column]


def test_reasons_are_numbered():
    ways = dict.fromkeys(pairs.CELLS, "yes")
    results = {"`a` probit": ways, "`b c` logit": ways | {"weights": "no_way [1] <2>"}}
    made = pairs.tables(results)
    assert made["pairs"][2][1] == ["`b c`", "logit", "yes", "yes", "yes", "no (1)"]
    assert made["reasons"][2] == [["1", r"no\_way \[1\] \<2\>"]]


@with_records
@pytest.mark.slow
@pytest.mark.parametrize("key", ["heart_hungarian Laplace 0", "heart_hungarian EP 3"])
def test_scores_of_the_objectives_are_those_on_record(key):
    found, kept = again("ljs23", key)
    for what in ("log_likelihood", "error", "log_evidence", "converged"):
        np.testing.assert_allclose(found[what], kept[what], rtol=1e-4)


@with_records
@pytest.mark.slow
def test_a_truth_is_that_on_record():
    found, kept = again("truth-binary", "pima_tr probit 0.3")
    # a seed gives the same chains, but for the last digits of other libraries
    assert found["truth"]["log_evidence"] == pytest.approx(kept["truth"]["log_evidence"], abs=1e-3)
    for method, one in kept["methods"].items():
        assert found["methods"][method]["error"] == pytest.approx(one["error"], abs=1e-3)


@with_records
def test_the_truth_is_known_well_enough():
    for label, found in record("truth-binary").items():
        assert found["truth"]["standard_error"] < 0.05, label
        assert found["truth"]["effective_chains"] > 50, label
        if "sampling" in found:
            assert found["sampling"]["outcome"] == "CONVERGED", label


def problem(name, truth, **evidences):
    methods = {method: {"error": value - truth, "mean": 0.1} for method, value in evidences.items()}
    estimate = {"log_evidence": truth, "standard_error": 0.01, "effective_chains": 90.0}
    return {name: {"truth": estimate, "methods": methods, "sampling": {"mean_error": 0.01}}}


def test_a_bound_that_is_broken_is_missed():
    evidences = dict.fromkeys(truth_binary.METHODS, -10.1) | {"Laplace": -11.0}
    good = problem("pima_tr logit 1", -10.0, **evidences | {"bound, upper": -9.0})
    bad = problem("pima_tr logit 1", -10.0, **evidences | {"VI": -9.9, "bound, upper": -10.2})
    for results, holds in ((good, True), (bad, False)):
        cells = truth_binary.found(results)
        assert cells[truth_binary.LOWER, "holds"] is holds
        assert cells[truth_binary.UPPER, "holds"] is holds


def small():
    """Two columns of very different size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) * [1.0, 100.0]
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(40) > 0, "b", "a")
    return Dataset("small", X, y, "y", "", "")


def test_folds_are_standardised_by_their_training_part():
    table = small()
    parts = list(ljs23.folds_of(table, 3))
    for part in parts:
        np.testing.assert_allclose(part.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(part.X.std(axis=0), 1, rtol=1e-12)
        assert abs((part.y_test > 0).mean() - (table.y == "b").mean()) < 0.1
    assert sum(len(part.y_test) for part in parts) == len(table.y)


@pytest.mark.slow
def test_seeds_make_the_average_repeatable():
    one, other = (ljs23.integrate(small(), 0, 5, [1], 1) for _ in range(2))
    assert one == other
    assert ljs23.integrate(small(), 0, 5, [2], 1)["log_likelihood"] != one["log_likelihood"]


def test_differences_from_mcmc_are_bold_where_worse():
    scores = {"Laplace": -0.35, "EP": -0.32, "VI": -0.308, "VI, EP energy": -0.29, "PL": -0.305}
    results = {
        f"glass {method} 0": {
            "log_likelihood": [value] * 3,
            "variance": [1.0, 2.0, 1e6],
            "at_bounds": [0, 0, 1],
            "converged": [True, True, False],
        }
        for method, value in scores.items()
    }
    chains = ("half_normal", "rhat", "ess", "monte_carlo_error", "acceptance")
    results["glass MCMC 0"] = {
        "log_likelihood": [-0.3] * 3,
        **{what: [1.0] * 3 for what in (*chains, "evaluations_per_slice")},
    }
    made = ljs23.tables(results)
    ((_, laplace, ep, vi, energy, *_),) = made["differences"][2]
    assert (laplace, ep) == ("**-0.050 ± 0.000**", "**-0.020 ± 0.000**")
    assert (vi, energy) == ("-0.008 ± 0.000", "0.010 ± 0.000")
    assert made["learnt"][2][0][1] == "2, 1 on a bound, 1 failed"
    # claims are about all sets and folds
    assert set(ljs23.found(results)) == set()
