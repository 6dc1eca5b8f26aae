import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass.app.evaluation import SCORES, check_classes, compare, default_models
from gpclass.exceptions import CostWarning
from gpclass.metrics import information_bits


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:120], y.to_numpy()[:120]


def test_scores_are_those_of_a_loop_by_hand(cancer):
    X, y = cancer
    comparison = compare({"nb": GaussianNB()}, X, y, n_splits=4, random_state=3)
    scores = comparison.models["nb"]
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    for k, (train, test) in enumerate(folds.split(X, y)):
        p = GaussianNB().fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])
        assert (comparison.fold[test] == k).all()
        np.testing.assert_array_equal(comparison.probabilities["nb"][test], p)
        assert scores.folds.log_loss[k] == pytest.approx(log_loss(y[test], p))
        assert scores.folds.brier[k] == pytest.approx(brier_score_loss(y[test], p[:, 1]))
        assert scores.folds.error[k] == pytest.approx(np.mean(p.argmax(axis=1) != y[test]))
        bits = information_bits(y[test], p, baseline=np.bincount(y[train]))
        assert scores.folds.information[k] == pytest.approx(bits)
    assert np.isnan(scores.folds.log_evidence).all()
    assert (scores.folds.seconds > 0).all()


def test_out_of_fold_probabilities_are_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    y = np.array(["c", "a", "b"])[y]
    comparison = compare({"nb": GaussianNB()}, X, y, n_splits=3)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")
    np.testing.assert_array_equal(comparison.probabilities["nb"], expected)
    assert comparison.classes.tolist() == ["a", "b", "c"]
    assert comparison.n_splits == 3


def test_training_frequencies_are_no_information(cancer):
    X, y = cancer
    scores = compare({"prior": DummyClassifier()}, X, y, n_splits=5).models["prior"]
    np.testing.assert_allclose(scores.folds.information, 0, atol=1e-14)


def test_evidence_is_that_of_the_fitted_step(cancer):
    X, y = cancer
    gp = make_pipeline(StandardScaler(), SklearnClassifier())
    scores = compare({"gp": gp, "bare": SklearnClassifier()}, X, y, n_splits=2).models
    assert np.isfinite(scores["gp"].folds.log_evidence).all()
    assert np.isfinite(scores["bare"].folds.log_evidence).all()


def test_json_has_none_where_there_is_no_evidence(cancer):
    X, y = cancer
    comparison = compare({"nb": GaussianNB()}, X, y, n_splits=2)
    content = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert content["models"]["nb"]["log_evidence"]["mean"] is None
    assert set(content["models"]["nb"]) == {*SCORES, "warnings"}
    assert content["class_counts"] == np.bincount(y).tolist()


def test_progress_counts_up_to_the_end(cancer):
    X, y = cancer
    calls = []
    compare(
        {"a": GaussianNB(), "b": GaussianNB()},
        X,
        y,
        n_splits=2,
        progress=lambda *c: calls.append(c),
    )
    assert calls == [("a", 0, 4), ("b", 1, 4), ("a", 2, 4), ("b", 3, 4), ("", 4, 4)]


class Warner(GaussianNB):
    def fit(self, X, y):
        warnings.warn("take  care", UserWarning, stacklevel=2)
        warnings.warn("take  care", UserWarning, stacklevel=2)
        return super().fit(X, y)


def test_warnings_are_kept_and_counted_by_fold(cancer):
    X, y = cancer
    scores = compare({"w": Warner(), "nb": GaussianNB()}, X, y, n_splits=3).models
    assert scores["w"].warnings == {"UserWarning: take care": 3}
    assert scores["nb"].warnings == {}


class Costly(GaussianNB):
    def fit(self, X, y):
        warnings.warn(f"takes {len(X)} minutes", CostWarning, stacklevel=2)
        return super().fit(X, y)


def test_what_a_fit_will_cost_is_shown_at_once_and_once(cancer, monkeypatch):
    X, y = cancer
    said = []
    monkeypatch.setattr(
        warnings, "showwarning", lambda message, *where: said.append((str(message), len(calls)))
    )
    calls = []
    found = compare({"c": Costly()}, X, y, n_splits=3, progress=lambda *c: calls.append(c))
    assert said == [("takes 80 minutes", 1)]
    assert found.models["c"].warnings == {"CostWarning: said before the fit": 3}


def test_models_are_left_unfitted(cancer):
    X, y = cancer
    model = LogisticRegression(max_iter=10_000)
    compare({"lr": model}, X, y, n_splits=2)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.zeros(20), {}, "one class only"),
        (np.linspace(0, 1, 20), {}, "continuous"),
        ([0] * 18 + [1] * 2, {"n_splits": 3}, "class 1 of the target y has 2 rows, but 3"),
        ([0] * 19 + [1], {"n_splits": 3}, "has 1 row, but 3"),
        ([0, 1] * 10, {"n_splits": 1}, "at least 2"),
        (np.arange(30), {"n_splits": 3}, "the target y has 30 classes in 30 rows, as an id"),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_mistakes(y, options, message):
    with pytest.raises(ValueError, match=message):
        compare({"nb": GaussianNB()}, np.zeros((len(y), 1)), y, **options)


def test_no_model():
    with pytest.raises(ValueError, match="no model"):
        compare({}, [[0], [1]], [0, 1])


def test_check_classes_returns_them_sorted():
    assert check_classes(["b", "a", "b"]).tolist() == ["a", "b"]


def test_default_models_take_our_parameters():
    models = default_models(3, gp_parameters={"likelihood": "probit"})
    assert models["gpclass"].likelihood == "probit"
    assert models["gpclass"].random_state == 3
    with pytest.raises(ValueError, match="Invalid parameter"):
        default_models(gp_parameters={"likelihod": "probit"})


def test_logistic_regression_with_a_rare_class_warns_of_nothing():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)))
    y = np.repeat(["common", "rare"], [56, 4])
    model = default_models()["logistic regression"]
    assert compare({"lr": model}, X, y, n_splits=2).models["lr"].warnings == {}


@pytest.mark.slow
def test_default_models_side_by_side():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:200], y.to_numpy()[:200]
    comparison = compare(default_models(), X, y, n_splits=3)
    ours = comparison.models["gpclass"]
    assert ours.folds.information.mean() > 0.7
    fixed = comparison.models["scikit-learn GP, as it comes"]
    assert ours.folds.log_loss.mean() < fixed.folds.log_loss.mean()
    learnt = comparison.models["scikit-learn GP"]
    assert (ours.folds.log_evidence >= learnt.folds.log_evidence - 1e-3).all()
    assert not comparison.models["logistic regression"].warnings
    for scores in comparison.models.values():
        assert all(math.isfinite(scores.folds[score].mean()) for score in SCORES[:4])
