"""The ONNX graph says what predict_proba says, run by onnxruntime."""

import sys
import warnings

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.estimator.export import to_onnx
from gpclass.estimator.export.integrals import logistic_mixture
from gpclass.inference import Laplace
from gpclass.kernels import ColumnKernel
from gpclass.montecarlo import MonteCarlo

X, Y = make_classification(60, 4, n_informative=3, n_redundant=0, random_state=0)
NEW = np.vstack([X[:5], 2.0 * np.random.default_rng(0).standard_normal((40, 4)), 50.0 * X[:3]])
IRIS = load_iris()
FLOWERS = np.vstack([IRIS.data[::3] + 0.1, 1.5 * IRIS.data[::9]])
KERNEL = 4.0 * RBF([1.0, 2.0, 1.5, 1.0]) + 0.5 * DotProduct(1.0)


def run(model, rows, **settings):
    pytest.importorskip("onnx", reason="the export needs onnx")
    runtime = pytest.importorskip("onnxruntime", reason="it is checked by onnxruntime")
    import onnx

    written = to_onnx(model, **settings)
    onnx.checker.check_model(written)
    session = runtime.InferenceSession(written.SerializeToString())
    assert "Solve" not in {node.op_type for node in written.graph.node}
    return session.run(["probabilities"], {"X": rows})[0]


def check(model, rows, atol=1e-5, **settings):
    found = run(model, rows, **settings)
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=atol)


KERNELS = [
    4.0 * RBF([1.0, 2.0, 1.0, 3.0]) + 0.3 * DotProduct(1.0) + WhiteKernel(0.2),
    Matern(2.0, nu=0.5),
    Matern([1.0, 2.0, 3.0, 4.0], nu=1.5) * 3.0,
    Matern(2.0, nu=2.5) + DotProduct(1.0) ** 2 * 0.1,
    RBF(1.0) * ColumnKernel([2, 0], DotProduct(1.0)) + ColumnKernel(1, RBF(0.5)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_two_classes(kernel, inference):
    check(GaussianProcessClassifier(kernel, optimizer=None, inference=inference).fit(X, Y), NEW)


@pytest.mark.parametrize("inference", ["ep", "laplace", "vi"])
def test_inducing_points_that_are_nearly_equal(inference):
    kernel, points = 100.0 * RBF(30.0), X[:40]
    model = GaussianProcessClassifier(
        kernel, optimizer=None, inference=inference, inducing=points, calibration=None
    )
    check(model.fit(X, Y), NEW)


@pytest.mark.parametrize("likelihood", ["logit", "threshold"])
def test_likelihoods_of_two_classes(likelihood):
    model = GaussianProcessClassifier(KERNEL, optimizer=None, likelihood=likelihood)
    check(model.fit(X[:30], Y[:30]), NEW)


def test_the_logistic_is_a_mixture_of_normals():
    f = np.linspace(-40.0, 40.0, 1001)
    slopes, weights = logistic_mixture()
    np.testing.assert_allclose(ndtr(np.multiply.outer(f, slopes)) @ weights, expit(f), atol=1e-8)


THREE = {
    "nested EP": {},
    "softmax": {"inference": "laplace"},
    "variational": {"inference": Laplace(marginals="variational")},
    "differences": {"multi_class": "differences", "inference": "vi"},
    "differences by the logit": {"multi_class": "differences", "likelihood": "logit"},
    "differences by the threshold": {"multi_class": "differences", "likelihood": "threshold"},
    "one against the rest": {"multi_class": "one_vs_rest"},
}


@pytest.mark.parametrize("model", THREE)
def test_three_classes(model):
    model = GaussianProcessClassifier(KERNEL, optimizer=None, **THREE[model])
    check(model.fit(IRIS.data[::2], IRIS.target[::2]), FLOWERS)


def test_the_default_of_three_classes():
    check(GaussianProcessClassifier().fit(IRIS.data[::3], IRIS.target[::3]), FLOWERS)


def test_a_kernel_a_class():
    kernels = [KERNEL, 2.0 * RBF(1.0), Matern(2.0, nu=2.5)]
    model = GaussianProcessClassifier(kernels, optimizer=None)
    check(model.fit(IRIS.data[::2], IRIS.target[::2]), FLOWERS)


@pytest.mark.parametrize("model", THREE)
def test_rows_far_away(model):
    atol = 1e-4 if model in ("softmax", "variational", "differences by the logit") else 1e-5
    # an RBF knows nothing there, and all means are equal
    for kernel in (KERNEL, 4.0 * RBF(1.0)):
        fitted = GaussianProcessClassifier(kernel, optimizer=None, **THREE[model])
        fitted.fit(IRIS.data[::5], IRIS.target[::5])
        check(fitted, np.array([[3.0], [10.0], [50.0]]) * IRIS.data[::50], atol=atol)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_averaged_hyperparameters(n_classes):
    some = IRIS.data[50 * (3 - n_classes) :: 10], IRIS.target[50 * (3 - n_classes) :: 10]
    model = GaussianProcessClassifier(4.0 * RBF(1.0), learning="ccd", hyperprior="weak")
    model.fit(*some)
    assert len(model.models_[0].settings()) > 1
    check(model, FLOWERS)


@pytest.mark.parametrize(("inference", "atol"), [("ep", 5e-4), ("laplace", 5e-4)])
def test_five_classes(inference, atol):
    rows, labels = make_classification(
        80, 5, n_informative=5, n_redundant=0, n_classes=5, n_clusters_per_class=1, random_state=0
    )
    model = GaussianProcessClassifier(4.0 * RBF(2.0), optimizer=None, inference=inference)
    check(model.fit(rows, labels), np.vstack([1.5 * rows, 5.0 * rows, 50.0 * rows]), atol=atol)


def test_the_default_kernel_with_a_constant_column_and_missing_entries():
    table = np.column_stack([1e4 + 100.0 * X[:, 0], np.ones(60), X[:, 1:]])
    table[::7, 2] = np.nan
    model = GaussianProcessClassifier().fit(table, Y)
    new = table.copy()
    new[1, 0] = new[2, 2] = np.nan  # the one column had none in training
    check(model, new)


def test_what_cannot_be_written_is_named():
    pytest.importorskip("onnx", reason="the export needs onnx")
    some = (IRIS.data[::5], IRIS.target[::5])
    fixed = {"optimizer": None}
    with pytest.raises(ValueError, match="no Solve: take multi_class='joint' or 'one_vs_rest'"):
        to_onnx(GaussianProcessClassifier(RBF(1.0), multi_class="one_vs_one", **fixed).fit(*some))
    with pytest.raises(ValueError, match="does not know the kernel RationalQuadratic"):
        to_onnx(GaussianProcessClassifier(RationalQuadratic(), **fixed).fit(X, Y))
    with pytest.raises(ValueError, match="nu 1/2, 3/2 and 5/2"):
        to_onnx(GaussianProcessClassifier(Matern(1.0, nu=1.1), **fixed).fit(X, Y))
    K = RBF(1.0)(X)
    with pytest.raises(ValueError, match="table of numbers"):
        to_onnx(GaussianProcessClassifier("precomputed", **fixed).fit(K, Y))
    model = GaussianProcessClassifier(RBF(1.0), **fixed).fit(X, Y)
    with pytest.raises(ValueError, match="n_points must be a power of two"):
        to_onnx(model, n_points=1000)
    text = np.column_stack([X.astype(object), np.where(X[:, 0] > 0, "a", "b")])
    with pytest.raises(ValueError, match="the columns 4 have levels"):
        to_onnx(GaussianProcessClassifier(inference="laplace").fit(text, Y))


def test_likelihoods_and_posteriors_that_cannot_be_written():
    pytest.importorskip("onnx", reason="the export needs onnx")
    rows = np.repeat(IRIS.data[::30], 2, axis=0)
    model = GaussianProcessClassifier(
        RBF(1.0), optimizer=None, multi_class="differences", likelihood="threshold"
    ).fit(rows + 0.1 * np.arange(10)[:, None], np.arange(10) % 4)
    with pytest.raises(ValueError, match="the threshold has none"):
        to_onnx(model)
    sampled = MonteCarlo(n_samples=200, n_burn=100, evidence=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the chains are short
        model = GaussianProcessClassifier(RBF(1.0), optimizer=None, inference=sampled)
        model.fit(X[:10], Y[:10])
    with pytest.raises(ValueError, match="inference='mcmc' has samples"):
        to_onnx(model)


def test_without_onnx_the_error_says_what_to_type(monkeypatch):
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, Y)
    monkeypatch.setitem(sys.modules, "onnx.helper", None)
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[onnx\]'"):
        to_onnx(model)
