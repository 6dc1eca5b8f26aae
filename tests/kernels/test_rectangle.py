"""Covariances with inducing inputs, and their pullbacks, for every kernel of `conftest`."""

from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern, PairwiseKernel, WhiteKernel
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.kernels import (
    columns_of,
    cross,
    diagonal,
    pullback_cross,
    pullback_diagonal,
    rectangle,
)

N = 200


def by_differences(kernel, value, step=1e-3):
    """Central differences with one Richardson step."""

    def central(k, h):
        shift = h * np.eye(kernel.n_dims)[k]
        up, down = (kernel.clone_with_theta(kernel.theta + s * shift) for s in (1, -1))
        return (value(up) - value(down)) / (2 * h)

    columns = range(kernel.n_dims)
    return np.array([(4 * central(k, step / 2) - central(k, step)) / 3 for k in columns])


def tolerance(kernel):
    # scikit-learn's own gradient of a PairwiseKernel is a forward difference, with its noise
    parts = kernel.get_params().values()
    return 1e-5 if any(isinstance(part, PairwiseKernel) for part in parts) else 1e-8


def test_values(kernel, X):
    expected = cross(kernel, X[:N], X[N:])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        rectangle(kernel, X[:N], X[N:]), expected, rtol=1e-10, atol=1e-12 * scale
    )


def test_columns_of_the_rows(kernel, X):
    column = columns_of(kernel, X)
    for j in (0, 192, 204):
        expected = cross(kernel, X, X[j : j + 1])[:, 0]
        atol = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(column(j), expected, rtol=1e-10, atol=atol)


def test_pullback_cross_is_the_derivative(kernel, X, G):
    # one inducing input is a duplicate of a row
    A, Z = X[:N], X[N:]
    C = G[:N, N:]
    pulled = pullback_cross(kernel, A, Z, C)
    scale = np.abs(C * cross(kernel, A, Z)).sum()
    expected = by_differences(kernel, lambda one: np.sum(C * cross(one, A, Z)))
    np.testing.assert_allclose(pulled, expected, rtol=1e-7, atol=tolerance(kernel) * scale)


def test_pullback_diagonal_is_the_derivative(kernel, X, G):
    g = G[0]
    pulled = pullback_diagonal(kernel, X, g)
    scale = np.abs(g * diagonal(kernel, X)).sum()
    expected = by_differences(kernel, lambda one: g @ diagonal(one, X))
    np.testing.assert_allclose(pulled, expected, rtol=1e-7, atol=tolerance(kernel) * scale)


def test_noise_is_on_the_diagonal_alone(X):
    kernel = RBF(1.0) + WhiteKernel(0.5)
    np.testing.assert_allclose(rectangle(kernel, X[:5], X[:5]).diagonal(), 1.0)
    gradient = pullback_cross(kernel, X[:5], X[:5], np.eye(5))
    np.testing.assert_allclose(gradient, [0.0, 0.0], atol=1e-13)
    assert gradient[1] == 0.0
    np.testing.assert_allclose(pullback_diagonal(kernel, X[:5], np.ones(5)), [0.0, 2.5])


def test_objects_that_are_no_vectors():
    words, inducing = ["A", "AC", "GTTA", "CAT"], ["AA", "TAC"]
    kernel, C = 2.0 * MiniSeqKernel(0.4), np.arange(8.0).reshape(4, 2)
    # its own gradient is by the similarity itself, and not by the logarithm
    unit = np.array([1.0, 0.4])
    np.testing.assert_allclose(rectangle(kernel, words, inducing), kernel(words, inducing))
    np.testing.assert_allclose(
        unit * pullback_cross(kernel, words, inducing, C),
        by_differences(kernel, lambda one: np.sum(C * one(words, inducing))),
        rtol=1e-8,
    )
    np.testing.assert_allclose(
        unit * pullback_diagonal(kernel, words, C[:, 0]),
        by_differences(kernel, lambda one: C[:, 0] @ one.diag(words)),
        rtol=1e-8,
    )


@pytest.mark.parametrize("shape", [(3, 2), (4, 1), (4,)])
def test_shapes_that_do_not_fit(X, shape):
    with pytest.raises(ValueError, match="G has shape"):
        pullback_cross(RBF(1.0), X[:4], X[:2], np.zeros(shape))
    with pytest.raises(ValueError, match="g has shape"):
        pullback_diagonal(RBF(1.0), X[:7], np.zeros(shape))


@pytest.mark.parametrize("kernel", [RBF, partial(Matern, nu=2.5)], ids=["RBF", "Matern"])
def test_a_column_of_a_short_length_scale_is_no_part_of_the_product(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 60), rng.standard_normal((60, 9))])
    Z = X[:7] + np.r_[0.0, np.full(9, 0.1)]
    kernel, widths = kernel(np.r_[1e-3, np.full(9, 2.0)]), []

    def seen(A, B, **keywords):
        widths.append(A.shape[1])
        return cdist(A, B, **keywords)

    monkeypatch.setattr("gpclass.kernels.distances.cdist", lambda A, B, m: seen(A, B, metric=m))
    np.testing.assert_allclose(rectangle(kernel, X, Z), kernel(X, Z), rtol=1e-10, atol=1e-14)
    assert set(widths) == {1}
