import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.kernels import Precomputed, evaluate, pullback


def assert_is_the_contraction(kernel, X, G, rtol=1e-10, X_exact=None):
    """Against einsum over the tensor, relative to the sum of the absolute terms."""
    tensor = kernel(X if X_exact is None else X_exact, eval_gradient=True)[1]
    expected = np.einsum("ij,ijk->k", G, tensor)
    scale = np.einsum("ij,ijk->k", np.abs(G), np.abs(tensor))
    for K in (None, evaluate(kernel, X)):
        pulled = pullback(kernel, X, G, K)
        assert pulled.shape == (kernel.n_dims,)
        assert (np.abs(pulled - expected) <= rtol * scale + 1e-290).all(), (pulled, expected, scale)


def by_differences(kernel, X, G, step=1e-3):
    """Central differences with one Richardson step."""

    def central(k, h):
        shift = np.zeros(kernel.n_dims)
        shift[k] = h
        up = np.sum(G * kernel.clone_with_theta(kernel.theta + shift)(X))
        return (up - np.sum(G * kernel.clone_with_theta(kernel.theta - shift)(X))) / (2 * h)

    return np.array(
        [(4 * central(k, step / 2) - central(k, step)) / 3 for k in range(kernel.n_dims)]
    )


def test_pullback_is_the_contraction(kernel, X, G):
    # scikit-learn's own gradient of a PairwiseKernel is a forward difference, with its noise
    assert_is_the_contraction(kernel, X, G, rtol=1e-7 if differenced(kernel) else 1e-10)


def differenced(kernel):
    return any(isinstance(part, PairwiseKernel) for part in kernel.get_params().values())


def test_pullback_is_the_derivative(kernel, X, G):
    if differenced(kernel):
        pytest.skip("scikit-learn's own gradient is a forward difference")
    scale = np.abs(G * kernel(X)).sum()
    np.testing.assert_allclose(
        pullback(kernel, X, G), by_differences(kernel, X, G), rtol=1e-7, atol=1e-9 * scale
    )


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.3, 0.8, 1.0, 2.2, 3.5, 7.0])
@pytest.mark.parametrize("scales", [1.3, [0.5, 1.0, 2.0, 4.0, 1.5, 3.0, 0.9]])
def test_any_matern(X, G, nu, scales):
    # scikit-learn's gradient is a forward difference here, ours is exact
    kernel = 1.3 * Matern(scales, nu=nu)
    distinct = np.delete(X, 200, axis=0)
    G = np.delete(np.delete(G, 200, axis=0), 200, axis=1)
    np.testing.assert_allclose(
        pullback(kernel, distinct, G), by_differences(kernel, distinct, G), rtol=1e-7, atol=1e-6
    )


def columns_of_many_kinds(rng, n):
    X = rng.standard_normal((n, 8))
    X[:, 1] = 1e6 + 1e-3 * X[:, 1]
    X[:, 2] *= 1e-9
    X[:, 3] *= 1e9
    X[:, 4] = 7.0
    X[:, 5] = rng.integers(0, 2, n)
    X[0, 6] = 1e5
    X[n // 2 :, :] = X[: n - n // 2]
    return X


@pytest.mark.parametrize("relative", [1e-3, 0.03, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_columns_of_many_kinds(relative, nu):
    rng = np.random.default_rng(0)
    X = columns_of_many_kinds(rng, 230)
    scales = relative * np.array([1.0, 1e-3, 1e-9, 1e9, 1.0, 1.0, 1.0, 1.0])
    G = rng.standard_normal((230, 230))
    # scikit-learn scales before it subtracts: there an offset of 1e9 length-scales costs 9 digits
    exact = X - 1e6 * (np.arange(8) == 1)
    assert_is_the_contraction(2.0 * Matern(scales, nu=nu), X, G + G.T, X_exact=exact)


def test_short_length_scales_keep_their_digits():
    # pairs 1e-4 apart inside a range of 1: the products of a contraction cancel to 1e-8
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((150, 6)), 2, axis=0)
    X[1::2] += 1e-4 * rng.standard_normal((150, 6))
    G = rng.standard_normal((300, 300))
    for kernel in (RBF(np.full(6, 1e-4)), RBF(1e-4), Matern(np.full(6, 1e-4), nu=1.5)):
        assert_is_the_contraction(kernel, X, G + G.T)


@pytest.mark.parametrize("weight", [1e3, 1e6, 1e12])
def test_a_heavy_diagonal_costs_no_digits(X, G, weight):
    for kernel in (RBF(np.full(7, 2.0)), RBF(2.0), Matern(np.full(7, 2.0), nu=2.5)):
        np.testing.assert_allclose(
            pullback(kernel, X, G + weight * np.eye(205)), pullback(kernel, X, G), rtol=1e-12
        )


@pytest.mark.parametrize("far", [1e150, 1e200, 1.7e308])
def test_points_may_be_infinitely_far(far):
    X = np.zeros((5, 3))
    X[1], X[2], X[3, 1], X[4] = far, -far, far, 1.0
    G = np.ones((5, 5))
    near = np.array([[0.0] * 3, [1.0] * 3])
    with np.errstate(all="raise"):
        for kernel in (RBF([1.0, 2.0, 1e-1]), Matern([1.0] * 3, nu=0.5), Matern(1.0, nu=2.5)):
            np.testing.assert_allclose(
                pullback(kernel, X, G), pullback(kernel, near, np.ones((2, 2))), rtol=1e-12
            )
        for kernel in (RationalQuadratic(1.0, 0.1), ExpSineSquared(), Matern(1.0, nu=1.2)):
            assert np.isfinite(pullback(kernel, X, G)).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(-6.0, 6.0),
    nu=st.sampled_from([0.5, 1.5, 2.5, np.inf]),
    variance=st.floats(1e-10, 1e8),
)
def test_over_length_scales(seed, scale, nu, variance):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 3))
    scales = 10.0**scale * np.exp(rng.standard_normal(3))
    G = rng.standard_normal((30, 30))
    assert_is_the_contraction(variance * Matern(scales, nu=nu), X, G + G.T)


def test_structured_inputs():
    X = ["ACGT", "AC", "GGTA", "TTA"]
    G = np.random.default_rng(0).standard_normal((4, 4))
    kernel = 2.0 * MiniSeqKernel(0.4) * ConstantKernel(1.5, "fixed") + WhiteKernel(0.1)
    assert_is_the_contraction(kernel, X, G + G.T)


def test_arguments_are_not_written_to(kernel, X, G):
    K = evaluate(kernel, X)
    before = X.copy(), G.copy(), K.copy()
    pullback(kernel, X, G, K)
    for after, copy in zip((X, G, K), before, strict=True):
        np.testing.assert_array_equal(after, copy)


def test_memory_order_does_not_matter(X, G):
    kernel = 1.7 * RBF(np.ones(7))
    np.testing.assert_array_equal(
        pullback(kernel, X, np.asfortranarray(G)), pullback(kernel, X, np.ascontiguousarray(G))
    )


def test_nothing_free_is_nothing_to_pull(G):
    assert pullback(Precomputed(), G, G).shape == (0,)


def test_bad_arguments_are_named(X, G):
    with pytest.raises(ValueError, match=r"G has shape \(3, 3\), expected \(205, 205\)"):
        pullback(RBF(1.0), X, G[:3, :3])
    with pytest.raises(ValueError, match=r"K has shape \(3, 3\), expected \(205, 205\)"):
        pullback(RBF(1.0), X, G, G[:3, :3])
    with pytest.raises(ValueError, match="CompoundKernel"):
        pullback(CompoundKernel([RBF(1.0), DotProduct()]), X, G)


def test_pullback_needs_less_than_a_matrix():
    X = np.random.default_rng(0).standard_normal((1000, 20))
    G = np.ones((1000, 1000))
    tracemalloc.start()
    for kernel in (
        1.5 * RBF(np.ones(20)),
        1.5 * Matern(np.ones(20), nu=2.5) * DotProduct() + WhiteKernel(),
    ):
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        pullback(kernel, X, G)
        assert tracemalloc.get_traced_memory()[1] - base < 0.5 * 8 * 1000**2
    tracemalloc.stop()
