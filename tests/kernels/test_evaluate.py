import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.kernels import cross, diagonal, evaluate


def by_loops(function, X, Y):
    """Kernel matrix in extended precision by a loop over pairs."""
    X, Y = X.astype(np.longdouble), Y.astype(np.longdouble)
    return np.array([[function(x, y) for y in Y] for x in X])


def squared(x, y, scale):
    return np.sum(((x - y) / np.asarray(scale, dtype=np.longdouble)) ** 2)


SCALES = [0.5, 1.0, 2.0, 4.0, 1.5, 3.0, 0.9]
FORMULAS = {
    "rbf": (RBF(SCALES), lambda x, y: np.exp(-0.5 * squared(x, y, SCALES))),
    "matern 1/2": (
        Matern(SCALES, nu=0.5),
        lambda x, y: np.exp(-np.sqrt(squared(x, y, SCALES))),
    ),
    "matern 3/2": (
        Matern(SCALES, nu=1.5),
        lambda x, y: (
            (1 + np.sqrt(3 * squared(x, y, SCALES))) * np.exp(-np.sqrt(3 * squared(x, y, SCALES)))
        ),
    ),
    "matern 5/2": (
        Matern(SCALES, nu=2.5),
        lambda x, y: (
            (1 + np.sqrt(5 * squared(x, y, SCALES)) + 5 * squared(x, y, SCALES) / 3)
            * np.exp(-np.sqrt(5 * squared(x, y, SCALES)))
        ),
    ),
    "rational quadratic": (
        RationalQuadratic(1.3, 0.7),
        lambda x, y: (1 + squared(x, y, 1.3) / np.longdouble(1.4)) ** -np.longdouble(0.7),
    ),
    "rational quadratic near rbf": (
        RationalQuadratic(1.3, 1e5),
        lambda x, y: np.exp(-np.longdouble(1e5) * np.log1p(squared(x, y, 1.3) / 2e5)),
    ),
    "periodic": (
        ExpSineSquared(1.3, 2.1),
        lambda x, y: np.exp(
            -2
            * (
                np.sin(np.longdouble("3.14159265358979323846") * np.sqrt(squared(x, y, 2.1)))
                / np.longdouble(1.3)
            )
            ** 2
        ),
    ),
    "dot": (DotProduct(0.8), lambda x, y: np.longdouble(0.8) ** 2 + np.sum(x * y)),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_values_are_the_formula_in_extended_precision(name, offset):
    kernel, formula = FORMULAS[name]
    X = np.random.default_rng(0).standard_normal((25, 7)) + offset
    exact = by_loops(formula, X, X)
    # the dot product grows with the offset, and the sine sees an error of a distance pi / p times
    tolerance = 1e-13 * np.abs(exact).max()
    np.testing.assert_allclose(evaluate(kernel, X), exact, rtol=0, atol=tolerance)
    np.testing.assert_allclose(cross(kernel, X, X[:9]), exact[:, :9], rtol=0, atol=tolerance)


def test_evaluate_is_scikit_learns_call(kernel, X):
    K, expected = evaluate(kernel, X), kernel(X)
    np.testing.assert_allclose(K, expected, rtol=0, atol=2e-13 * np.abs(expected).max())
    assert K.flags.c_contiguous
    np.testing.assert_array_equal(K, K.T)


def test_cross_and_diagonal_are_scikit_learns(kernel, X):
    new = np.random.default_rng(5).standard_normal((11, 7))
    expected = kernel(X, new)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(cross(kernel, X, new), expected, rtol=0, atol=2e-13 * scale)
    np.testing.assert_allclose(diagonal(kernel, new), kernel.diag(new), rtol=1e-15)


@pytest.mark.parametrize("nu", [0.2, 0.8, 1.0, 2.2, 3.5, 7.0])
def test_any_matern(X, nu):
    kernel = 1.3 * Matern(SCALES, nu=nu)
    distinct = np.delete(X, 200, axis=0)
    np.testing.assert_allclose(evaluate(kernel, distinct), kernel(distinct), rtol=0, atol=1e-13)
    assert evaluate(kernel, X)[200, 3] == evaluate(kernel, X)[3, 3]


def test_a_prediction_does_not_depend_on_its_batch(kernel, X):
    if any(isinstance(part, PairwiseKernel) for part in kernel.get_params().values()):
        pytest.skip("values by the kernel's own call")
    new = np.random.default_rng(5).standard_normal((400, 7))
    whole = cross(kernel, X, new)
    for rows in (slice(0, 1), slice(17, 18), slice(3, 8), slice(100, 330), slice(399, 400)):
        np.testing.assert_array_equal(cross(kernel, X, new[rows]), whole[:, rows])
        np.testing.assert_array_equal(diagonal(kernel, new[rows]), diagonal(kernel, new)[rows])


@pytest.mark.parametrize("columns", [1, 2, 9, 64])
def test_a_dot_product_does_not_depend_on_its_batch(columns):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((70, columns)), rng.standard_normal((70, columns))
    whole = cross(DotProduct(), X, new)
    for j in range(70):
        np.testing.assert_array_equal(cross(DotProduct(), X, new[j : j + 1])[:, 0], whole[:, j])


def test_duplicates_are_one_point():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) * 3.0 + 1e4
    X[300:] = X[:100]
    for kernel in (RBF(2.0), Matern(2.0, nu=0.5), Matern(2.0, nu=1.5), RationalQuadratic(2.0)):
        K = evaluate(kernel, X)
        np.testing.assert_array_equal(np.diagonal(K), 1.0)
        np.testing.assert_allclose(np.diagonal(K, 300), 1.0, rtol=1e-13)
        np.testing.assert_allclose(K[300:], K[:100], rtol=0, atol=1e-13)


RADIAL = [
    RBF(1.0),
    RBF([1e-6, 1.0, 1e6]),
    Matern(1.0, nu=0.5),
    Matern(1e-6, nu=1.5),
    Matern(1e-6, nu=2.5),
    Matern(1.0, nu=1.2),
    Matern(1.0, nu=7.5),
    RationalQuadratic(1.0, 1e-5),
    RationalQuadratic(1e-6, 1e5),
    ExpSineSquared(1.0, 1.0),
]


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
@pytest.mark.parametrize("far", [1e150, 1e154, 1e200, 1e304, 1.7e308])
def test_points_may_be_infinitely_far(kernel, far):
    X = np.zeros((5, 3))
    X[1], X[2], X[3, 1] = far, -far, far
    K = evaluate(kernel, X)
    assert np.isfinite(K).all()
    np.testing.assert_array_equal(np.diagonal(K), 1.0)
    assert K[0, 4] == 1.0
    if not isinstance(kernel, (RationalQuadratic, ExpSineSquared)):
        assert (K[0, 1:4] == 0.0).all()
    np.testing.assert_allclose(cross(kernel, X, X[:2]), K[:, :2], rtol=1e-13)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    X=arrays(np.float64, (4, 2), elements=st.floats(-1e300, 1e300)),
    scales=arrays(np.float64, 2, elements=st.floats(1e-6, 1e6)),
    variance=st.floats(1e-10, 1e8),
)
def test_finite_inputs_give_finite_values(X, scales, variance):
    with np.errstate(all="raise"):
        for kernel in (RBF(scales), Matern(scales, nu=0.5), Matern(scales, nu=2.5)):
            K = evaluate(variance * kernel, X)
            assert np.isfinite(K).all()
            assert K.min() >= 0.0
            assert K.max() <= variance
            np.testing.assert_array_equal(np.diagonal(K), variance)


def test_no_denormal_numbers():
    # every product with one is a hundred times slower than with 0
    K = evaluate(RBF(1.0), np.arange(0.0, 45.0, 0.25)[:, None])
    assert K[K > 0.0].min() > 1e-305
    assert (K == 0.0).any()


def test_an_overflow_is_quiet():
    X = np.array([[1e200, 1.0], [-1e200, 2.0]])
    with np.errstate(all="raise"):
        K = evaluate(DotProduct() + RBF(1.0), X)
        cross(DotProduct(), X, X)
        diagonal(DotProduct(), X)
    assert not np.isfinite(K).all()


def test_structured_inputs():
    X, new = ["ACGT", "AC", "GGTA"], ["A", "TT"]
    kernel = 2.0 * MiniSeqKernel(0.4) + WhiteKernel(0.1)
    np.testing.assert_allclose(evaluate(kernel, X), kernel(X), rtol=1e-14)
    np.testing.assert_allclose(cross(kernel, X, new), kernel(X, new), rtol=1e-14)
    np.testing.assert_allclose(diagonal(kernel, new), kernel.diag(new), rtol=1e-14)


class Halved(RBF):
    """A subclass with values of its own, which the rule for RBF must not serve."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            K, dK = super().__call__(X, Y, eval_gradient=True)
            return 0.5 * K, 0.5 * dK
        return 0.5 * super().__call__(X, Y)

    def diag(self, X):
        return 0.5 * super().diag(X)


class Renamed(RBF):
    """A subclass that inherits the values."""


def test_a_subclass_keeps_its_own_values(X):
    np.testing.assert_array_equal(evaluate(Halved(1.3), X), Halved(1.3)(X))
    np.testing.assert_array_equal(evaluate(Renamed(1.3), X), evaluate(RBF(1.3), X))


def test_bad_arguments_are_named(X):
    with pytest.raises(ValueError, match=r"length_scale has shape \(3,\), but X has 7 columns"):
        evaluate(RBF([1.0, 2.0, 3.0]), X)
    with pytest.raises(ValueError, match="CompoundKernel"):
        evaluate(CompoundKernel([RBF(1.0)]), X)
    with pytest.raises(ValueError, match="CompoundKernel"):
        diagonal(CompoundKernel([RBF(1.0)]), X)
    with pytest.raises(ValueError, match="one length_scale"):
        evaluate(RationalQuadratic([1.0, 2.0]), X)
    with pytest.raises(ValueError, match="X has 6 columns, but the kernel was fitted to 7"):
        cross(RBF(1.0), X, X[:, :6])


def test_evaluate_needs_no_memory_beside_its_result():
    X = np.random.default_rng(0).standard_normal((1000, 20))
    matrix = 8 * 1000**2
    tracemalloc.start()
    for kernel in (1.5 * RBF(np.ones(20)), 1.5 * Matern(np.ones(20), nu=2.5) + WhiteKernel()):
        tracemalloc.reset_peak()
        K = evaluate(kernel, X)
        peak = tracemalloc.get_traced_memory()[1]
        del K
        assert peak < 1.4 * matrix
    tracemalloc.stop()
