"""The experiment behind docs/quality.md: its scores, its statistics, and that it goes on."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GaussianProcessClassifier
from gpclass.estimator.inputs import TableEncoder
from helpers import folder

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="this copy has no benchmarks"
)


@pytest.fixture
def module(monkeypatch):
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT))
    yield lambda name: importlib.import_module(f"benchmarks.quality.{name}")
    for name in set(sys.modules) - before:
        if name.startswith("benchmarks.quality"):
            del sys.modules[name]


def test_scores_of_a_class_that_training_lacked(module):
    P = np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]])
    found = module("run").scores(P, np.array(["a", "b"]), np.array(["a", "a", "c"]))
    expected = -(np.log(0.8) + np.log(0.4) + np.log(1e-15)) / 3
    assert found["log_loss"] == pytest.approx(expected)
    assert found["brier"] == pytest.approx((0.08 + 0.72 + 1.5) / 3)
    assert found["error"] == pytest.approx(2 / 3)
    assert found["gaps"][8] == pytest.approx(-0.2)
    assert np.sum(found["gaps"]) == pytest.approx(0.8 + 0.6 + 0.5 - 1)


def test_critical_differences_are_those_of_demsar(module):
    """Demsar 2006, table 5: q = 2.343 for three models, 2.728 for five, 3.164 for ten."""
    for k, q in ((3, 2.343), (5, 2.728), (10, 3.164)):
        expected = q * np.sqrt(k * (k + 1) / (6 * 14))
        assert module("summary").critical_difference(k, 14) == pytest.approx(expected, rel=1e-3)


def test_calibration_errors(module):
    """Rows of all folds count together: what one fold has too much another may lack."""
    scores, classes = module("run").scores, np.array(["a", "b"])
    folds = [
        scores(np.array([[0.75, 0.25], [0.25, 0.75]]), classes, np.array(["a", "b"])),
        scores(np.array([[0.75, 0.25], [0.25, 0.75]]), classes, np.array(["a", "a"])),
        scores(np.array([[1.0, 0.0], [0.45, 0.55]]), classes, np.array(["a", "a"])),
    ]
    found = [
        {"table": "x", "fold": k, "model": "m", "n_test": 2, **one} for k, one in enumerate(folds)
    ]
    errors = module("summary").calibration_errors(module("summary").frame_of(found, ["m"]))
    assert errors.loc["x", "m"] == pytest.approx(0.55 / 6)


def records(folds=(0, 1)):
    return [
        {"table": t, "fold": k, "model": m, "log_loss": loss + 0.1 * k, "brier": 0.1, "error": 0.1,
         "seconds": 1.0}
        for k in folds
        for t, losses in {"x": (0.1, 0.2), "y": (0.4, 0.3)}.items()
        for m, loss in zip(("a", "b"), losses, strict=True)
    ]  # fmt: skip


def test_only_folds_that_all_models_have_seen_count(module):
    summary = module("summary")
    frame = summary.frame_of([*records(), {**records()[0], "fold": 2, "log_loss": 9.0}], ["a", "b"])
    losses = summary.by_table(frame, "log_loss")
    np.testing.assert_allclose(losses.loc["x"], [0.15, 0.25])
    np.testing.assert_allclose(summary.mean_ranks(losses), [1.5, 1.5])
    change = summary.differences(frame, "a", "b")
    np.testing.assert_allclose(change["mean"], [-0.1, 0.1])
    np.testing.assert_allclose(change["error"], 0.0, atol=1e-15)


def test_a_run_goes_on_where_it_stopped(module, tmp_path):
    run = module("run")
    made = []

    def dummy(X, y):
        made.append(len(X))
        return DummyClassifier(strategy="prior")

    path = tmp_path / "results" / "found.jsonl"
    models = {"dummy": dummy}
    assert not run.run(models, ["iris"], 1, 1, path, limit=-1.0)
    assert run.run(models, ["iris"], 1, 1, path, limit=60.0)
    assert run.run(models, ["iris"], 1, 2, path, limit=60.0)
    assert made == [120, 120]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["table"], one["fold"], one["n"]) for one in lines] == [
        ("iris", 0, 120),
        ("iris", 1, 120),
    ]
    assert lines[0]["log_loss"] == pytest.approx(np.log(3))


def test_the_page_has_what_the_records_say(module):
    page = module("page")
    text = page.PAGE.read_text(encoding="utf-8")
    summary, read, models = module("summary"), module("run").read, module("models").MODELS
    found = read(module("run").RESULTS)
    seen = {record["model"] for record in found}
    frame = summary.frame_of(found, [model for model in models if model in seen])
    for name, block in page.blocks_of(frame).items():
        assert block in text, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gpclass.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("as_it_came", [True, False])
def test_a_length_scale_a_column_does_not_end_below_one_for_all(module, as_it_came):
    """Kernels of one's own, without a hyperprior, on at most 90 rows of each table."""
    folder("GPCLASS_DATA")
    tables, below = module("tables"), {}
    for name in sorted(tables.TABLES.keys() - {"digits", "nycflights", "boston_corrected"}):
        X, y = tables.load(name)
        rows = np.random.default_rng(2).permutation(len(y))[:90]
        rows = rows[np.isin(y[rows], [c for c in set(y) if np.sum(y[rows] == c) > 1])]
        X, y = X.iloc[rows], y[rows]
        numbers = X.select_dtypes("number").dropna(axis=1).to_numpy(float)
        Z = numbers if as_it_came else TableEncoder().fit_transform(X)
        one, each = (
            GaussianProcessClassifier(ConstantKernel(1.0) * RBF(lengths)).fit(Z, y)
            for lengths in (1.0, np.ones(Z.shape[1]))
        )
        below[name] = one.log_marginal_likelihood_value_ - each.log_marginal_likelihood_value_
    assert max(below.values()) < 1e-3, below
