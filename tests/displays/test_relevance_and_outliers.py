import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.naive_bayes import GaussianNB

from gpclass import GaussianProcessClassifier
from gpclass.displays import OutlierDisplay, RelevanceDisplay


def test_relevances_are_inverse_length_scales(ax):
    X, y = load_iris(return_X_y=True)
    lengths = np.array([4.0, 1e5, 0.5, 2.0])
    model = GaussianProcessClassifier(RBF(lengths), optimizer=None).fit(X[50:], y[50:])
    shown = RelevanceDisplay.from_estimator(model, ax=ax)
    expected = X[50:].std(axis=0) / lengths
    order = np.argsort(-expected)
    assert shown.names.tolist() == [f"column {j}" for j in order]
    np.testing.assert_allclose(shown.relevance[0], expected[order])
    assert shown.matters[0].tolist() == [True, True, True, False]
    (line,) = shown.lines_
    np.testing.assert_allclose(line.get_xdata(), expected[order][:3])
    assert [text.get_text() for text in ax.get_yticklabels()] == shown.names.tolist()
    assert ax.get_legend().get_texts()[0].get_text() == "does not matter"


def test_a_kernel_for_each_problem_has_its_name(ax):
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(RBF([1.0] * 4), multi_class="one_vs_rest")
    model.fit(X[::5], y[::5])
    shown = RelevanceDisplay.from_estimator(model, ax=ax, most=2)
    assert shown.kernels == ("0 or not", "1 or not", "2 or not")
    assert len(shown.lines_) == 3
    assert "2 less relevant columns left out" in ax.get_xlabel()


def test_mistakes_of_relevances():
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X[50:], y[50:])
    with pytest.raises(ValueError, match="no kernel of the model has a length-scale for each"):
        RelevanceDisplay.compute(model)
    with pytest.raises(NotFittedError):
        RelevanceDisplay.compute(GaussianProcessClassifier())


def test_outliers_are_the_least_probable_rows(ax):
    y = np.array(["a", "b", "b", "c"])
    P = np.array([[0.98, 0.01, 0.01], [0.9, 0.04, 0.06], [0.1, 0.8, 0.1], [0.97, 0.02, 0.01]])
    shown = OutlierDisplay.from_predictions(y, P, ax=ax)
    np.testing.assert_allclose(shown.own, [0.98, 0.04, 0.8, 0.01])
    assert shown.outliers.tolist() == [3, 1]
    assert shown.predicted.tolist() == [0, 0, 1, 0]
    assert [line.get_xydata().tolist() for line in shown.lines_] == [
        [[0, 0.98]],
        [[1, 0.04], [2, 0.8]],
        [[3, 0.01]],
    ]
    assert [text.get_text() for text in ax.texts] == ["0.05", "3", "1"]


def test_training_rows_are_left_out(ax):
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:].copy()
    y[7] = 2  # a wrong label
    model = GaussianProcessClassifier(1.0 * RBF(2.0)).fit(X, y)
    shown = OutlierDisplay.from_estimator(model, ax=ax, threshold=0.5)
    np.testing.assert_allclose(shown.own, model.loo_proba_[np.arange(100), y - 1])
    assert shown.outliers[0] == 7
    # by the posterior that has the row, the wrong label is less improbable
    assert shown.own[7] < model.predict_proba(X)[7, 1]


def test_mistakes_of_outliers():
    with pytest.raises(ValueError, match="threshold"):
        OutlierDisplay.compute([0, 1], [0.1, 0.9], threshold=0.0)
    with pytest.raises(TypeError, match="GaussianNB has no predict_latent"):
        OutlierDisplay.from_estimator(GaussianNB())


def test_nothing_is_drawn_before_it_is_asked_for():
    code = (
        "import sys, gpclass, gpclass.displays, gpclass.app.commands, gpclass.app.report\n"
        "gpclass.GaussianProcessClassifier\n"
        "assert not any(name.startswith(('matplotlib', 'PIL')) for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_computing_needs_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    found = OutlierDisplay.compute([0, 1], [0.1, 0.9])
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[cli\]'"):
        found.plot()
