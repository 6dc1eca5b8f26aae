"""The greedy choice of inducing inputs, against conditional variances by dense algebra."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel

from gpclass.kernels import ColumnKernel, MixedRBF, default_kernel, rectangle
from gpclass.priors.points import choose_inducing, inducing_inputs


def conditional(kernel, X, rows):
    K = rectangle(kernel, X, X)
    return K - K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], K[rows])


@pytest.mark.parametrize(
    "kernel",
    [2.0 * Matern([1.0, 2.0, 0.5], nu=1.5), Matern(nu=0.5) * DotProduct(0.3), MixedRBF(discrete=2)],
    ids=str,
)
def test_every_choice_has_the_largest_conditional_variance(kernel):
    X = np.random.default_rng(0).normal(size=(80, 3)).round(1)
    found = choose_inducing(kernel, X, 20)
    variances = rectangle(kernel, X, X).diagonal()
    assert found.rows[0] == variances.argmax()
    for j in range(1, 20):
        left = conditional(kernel, X, found.rows[:j]).diagonal()
        assert left[found.rows[j]] == pytest.approx(left.max(), rel=1e-9)
        assert found.trace_left[j - 1] == pytest.approx(left.sum() / variances.sum(), rel=1e-9)


def test_it_is_the_same_whatever_the_noise_is():
    X = np.random.default_rng(0).normal(size=(60, 3))
    found = choose_inducing(RBF(1.0) + WhiteKernel(0.7), X, 15)
    np.testing.assert_array_equal(found.rows, choose_inducing(RBF(1.0), X, 15).rows)


def test_duplicates_are_never_chosen_and_ties_go_to_the_lowest_row():
    X = np.repeat(np.random.default_rng(1).normal(size=(7, 2)), 3, axis=0)
    found = choose_inducing(Matern(0.5, nu=0.5), X, 21)
    assert len(found.rows) == 7
    assert (found.rows % 3 == 0).all()
    assert found.rows[0] == 0
    assert found.trace_left[-1] < 1e-12
    assert (np.diff(found.trace_left) < 0).all()


def test_it_ends_where_nothing_is_left():
    X = np.linspace(0.0, 1.0, 500)[:, None]
    found = choose_inducing(RBF(1.0), X, 100)
    assert len(found.rows) < 12
    assert conditional(RBF(1.0), X, found.rows).diagonal().max() < 1e-7
    assert len(choose_inducing(RBF(1.0), X, 100, tol=1e-3).rows) < len(found.rows)


@pytest.mark.parametrize("m", [0, -3])
def test_a_number_that_is_not_positive(m):
    with pytest.raises(ValueError, match="m must be positive"):
        choose_inducing(RBF(1.0), np.zeros((3, 1)), m)


def test_a_kernel_without_variance():
    with pytest.raises(ValueError, match="largest variance"):
        choose_inducing(DotProduct(0.0), np.zeros((3, 1)), 2)


def left(kernel, X, Z):
    """Sum of the conditional variances, by dense algebra."""
    K, K_xz = rectangle(kernel, Z, Z), rectangle(kernel, X, Z)
    variances = rectangle(kernel, X, X).diagonal()
    return (variances - np.einsum("ij,ji->i", K_xz, np.linalg.solve(K, K_xz.T))).sum()


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * Matern([0.5, 1.0, 5.0], nu=2.5),
        default_kernel(np.random.default_rng(0).normal(size=(50, 3))),
        RBF(1.5) + WhiteKernel(0.5),
    ],
    ids=str,
)
def test_means_are_taken_where_they_leave_less_than_rows(kernel):
    X = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 1.0, 20.0]
    Z, rows = (
        inducing_inputs(kernel, X, np.ones(len(X)), 20, means=True),
        X[choose_inducing(kernel, X, 20).rows],
    )
    assert Z.shape == (20, 3)
    assert left(kernel, X, Z) < left(kernel, X, rows)
    other = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(
        inducing_inputs(kernel, X[other], np.ones(len(X)), 20, means=True), Z
    )


@pytest.mark.parametrize(
    ("kernel", "n"),
    [
        (MixedRBF([1.0, 2.0], (2,), (0.8,)), 300),
        (ColumnKernel([0, 1], RBF([1.0, 2.0])), 300),
        (RBF(1.0), 60),
        (RBF([1e-200, 1.0, 1.0]), 300),
    ],
    ids=["levels", "a column without a part", "few rows", "squares overflow"],
)
def test_rows_are_taken_where_there_is_no_mean_of_them(kernel, n):
    X = np.random.default_rng(0).normal(size=(n, 3)).round(1)
    Z = inducing_inputs(kernel, X, np.ones(len(X)), 20, means=True)
    assert {tuple(z) for z in Z} <= {tuple(x) for x in X}


def test_as_many_as_are_enough():
    X = np.random.default_rng(0).normal(size=(600, 2))
    Z = inducing_inputs(RBF(1.0), X, np.ones(len(X)), None, means=True)
    assert len(Z) == 64
    assert left(RBF(1.0), X, Z) < 0.01 * len(X)


def test_means_of_few_different_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(25, 2)).round(1), 8, axis=0)
    assert (
        len(np.unique(inducing_inputs(RBF(1.0), X, np.ones(len(X)), 20, means=True), axis=0)) == 20
    )
