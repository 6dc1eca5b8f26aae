"""The comparison of learning objectives: it resumes, and its committed table is its records'."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    not (ROOT / "experiments").is_dir(), reason="this copy has no experiments folder"
)


@pytest.fixture(scope="module")
def comparison():
    from experiments import learning_objectives

    return learning_objectives


def tiny_table(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) * [1.0, 100.0]
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(40) > 0, 1.0, -1.0)


def test_the_committed_tables_are_those_of_the_records(comparison):
    page = comparison.PAGE.read_text()
    assert comparison.render(comparison.read_records()) in page


def test_the_committed_records_are_one_a_fit(comparison):
    records = comparison.read_records()
    keys = [comparison.key(record) for record in records]
    assert len(set(keys)) == len(keys) > 0
    assert {record["set"] for record in records} <= set(comparison.SETS)
    assert {record["method"] for record in records} == set(comparison.ORDER)
    assert all(np.isfinite(record["log_likelihood"]) for record in records)


def test_folds_are_standardised_by_their_training_part(comparison):
    X, y = tiny_table("any")
    parts = [comparison.fold_of(X, y, 3, fold) for fold in range(comparison.FOLDS)]
    for part in parts:
        np.testing.assert_allclose(part.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(part.X.std(axis=0), 1, rtol=1e-12)
        assert abs((part.y_test > 0).mean() - (y > 0).mean()) < 0.1
    assert sum(len(part.y_test) for part in parts) == len(y)


def test_a_run_goes_on_where_the_last_one_stopped(comparison, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(comparison, "binary_table", tiny_table)
    monkeypatch.setitem(comparison.DRAWS, "glass", 5)
    path = tmp_path / "records.json"
    methods = ["laplace", "mcmc"]
    comparison.run(["glass"], methods, [0], path, seconds=0.0)
    assert "time is up" in capsys.readouterr().out
    comparison.run(["glass"], methods, [0], path)
    first = path.read_text()
    assert len(json.loads(first)) == 10
    comparison.run(["glass"], methods, [0], path)
    assert path.read_text() == first
    # the seeds make an MCMC record repeatable, but for its time
    records = comparison.read_records(path)
    (found,) = (r for r in records if r["method"] == "mcmc" and r["fold"] == 2)
    part = comparison.fold_of(*tiny_table("glass"), 0, 2)
    again = comparison.integrate(part, 5, [comparison.SETS.index("glass"), 0, 2])
    assert again["log_likelihood"] == found["log_likelihood"]


def test_only_folds_that_all_methods_have_are_compared(comparison):
    extra = {"half_normal": -0.3}
    records = [
        {"set": "glass", "method": method, "repetition": 0, "fold": fold, "log_likelihood": value}
        | extra
        for method, value in zip(
            comparison.ORDER, [-0.35, -0.32, -0.308, -0.29, -0.305, -0.3], strict=True
        )
        for fold in range(5)
        if fold < 3 or method != "mcmc"
    ]
    assert "| glass | 3 |" in comparison.same_folds_table(records)
    table = comparison.difference_table(records)
    assert "**-0.050 ± 0.000**" in table
    assert "**-0.020 ± 0.000**" in table
    assert "| -0.008 ± 0.000 |" in table
