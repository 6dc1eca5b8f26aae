"""The ONNX graph says what predict_proba says, run by onnxruntime."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.estimator.export import to_onnx

X, Y = make_classification(60, 4, n_informative=3, n_redundant=0, random_state=0)
NEW = np.vstack([X[:5], 2.0 * np.random.default_rng(0).standard_normal((40, 4)), 50.0 * X[:3]])
IRIS = load_iris()


def run(model, rows):
    pytest.importorskip("onnx", reason="the export needs onnx")
    runtime = pytest.importorskip("onnxruntime", reason="it is checked by onnxruntime")
    import onnx

    written = to_onnx(model)
    onnx.checker.check_model(written)
    session = runtime.InferenceSession(written.SerializeToString())
    assert "Solve" not in {node.op_type for node in written.graph.node}
    return session.run(["probabilities"], {"X": rows})[0]


KERNELS = [
    4.0 * RBF([1.0, 2.0, 1.0, 3.0]) + 0.3 * DotProduct(1.0) + WhiteKernel(0.2),
    Matern(2.0, nu=0.5),
    Matern([1.0, 2.0, 3.0, 4.0], nu=1.5) * 3.0,
    Matern(2.0, nu=2.5) + DotProduct(1.0) ** 2 * 0.1,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_two_classes(kernel, inference):
    model = GaussianProcessClassifier(kernel, optimizer=None, inference=inference).fit(X, Y)
    np.testing.assert_allclose(run(model, NEW), model.predict_proba(NEW), rtol=0, atol=1e-5)


def test_three_classes():
    model = GaussianProcessClassifier(2.0 * RBF(1.5), optimizer=None, multi_class="one_vs_rest")
    model.fit(IRIS.data, IRIS.target)
    rows = IRIS.data + 0.1
    np.testing.assert_allclose(run(model, rows), model.predict_proba(rows), rtol=0, atol=1e-5)


def test_the_default_kernel_with_a_constant_column():
    table = np.column_stack([1e4 + 100.0 * X[:, 0], np.ones(60), X[:, 1:]])
    model = GaussianProcessClassifier().fit(table, Y)
    np.testing.assert_allclose(run(model, table), model.predict_proba(table), rtol=0, atol=1e-5)


def test_what_cannot_be_written_is_named():
    pytest.importorskip("onnx", reason="the export needs onnx")
    some = (IRIS.data[::5], IRIS.target[::5])
    fixed = {"optimizer": None}
    with pytest.raises(ValueError, match="one_vs_rest"):
        to_onnx(GaussianProcessClassifier(RBF(1.0), **fixed).fit(*some))
    with pytest.raises(ValueError, match="probit"):
        to_onnx(GaussianProcessClassifier(RBF(1.0), likelihood="logit", **fixed).fit(X, Y))
    with pytest.raises(ValueError, match="does not know the kernel RationalQuadratic"):
        to_onnx(GaussianProcessClassifier(RationalQuadratic(), **fixed).fit(X, Y))
    with pytest.raises(ValueError, match="nu 1/2, 3/2 and 5/2"):
        to_onnx(GaussianProcessClassifier(Matern(1.0, nu=1.1), **fixed).fit(X, Y))
    K = RBF(1.0)(X)
    with pytest.raises(ValueError, match="table of numbers"):
        to_onnx(GaussianProcessClassifier("precomputed", **fixed).fit(K, Y))


def test_without_onnx_the_error_says_what_to_type(monkeypatch):
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, Y)
    monkeypatch.setitem(sys.modules, "onnx.helper", None)
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[onnx\]'"):
        to_onnx(model)
