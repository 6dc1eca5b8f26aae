import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from gpclass.kernels import (
    Precomputed,
    cross,
    diagonal,
    evaluate,
    restrict,
    take,
    validate_precomputed,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((30, 2)), rng.standard_normal((8, 2))
    kernel = 2.0 * RBF(1.0)
    return kernel(X), kernel(new, X), kernel.diag(new)


def test_the_matrix_is_the_kernel(problem):
    K, rows, variances = problem
    np.testing.assert_array_equal(evaluate(Precomputed(), K), K)
    np.testing.assert_array_equal(diagonal(Precomputed(), K), np.diagonal(K))
    np.testing.assert_array_equal(cross(Precomputed(), K, rows), rows.T)
    assert cross(Precomputed(), K, rows).flags.c_contiguous
    with_variances = np.column_stack([rows, 3.0 * variances])
    np.testing.assert_array_equal(cross(Precomputed(), K, with_variances), rows.T)
    np.testing.assert_array_equal(
        diagonal(Precomputed(), with_variances, X_train=K), 3.0 * variances
    )
    np.testing.assert_array_equal(diagonal(Precomputed(), rows, X_train=K), variances)


def test_a_square_batch_of_new_rows_is_not_the_training_matrix(problem):
    K, rows, _ = problem
    square = np.column_stack([np.resize(rows, (31, 30)), np.full(31, 5.0)])
    np.testing.assert_array_equal(diagonal(Precomputed(), square, X_train=K), 5.0)


def test_expressions_of_a_matrix(problem):
    K, rows, variances = problem
    kernel = 2.0 * Precomputed() ** 2 + 0.5
    np.testing.assert_allclose(evaluate(kernel, K), 2.0 * K**2 + 0.5, rtol=1e-15)
    np.testing.assert_allclose(cross(kernel, K, rows), 2.0 * rows.T**2 + 0.5, rtol=1e-15)
    np.testing.assert_allclose(
        diagonal(kernel, rows, X_train=K), 2.0 * variances**2 + 0.5, rtol=1e-15
    )
    np.testing.assert_allclose(kernel(K), 2.0 * K**2 + 0.5, rtol=1e-15)


def test_it_is_a_kernel_of_scikit_learn(problem):
    K, rows, _ = problem
    kernel = clone(Precomputed())
    assert kernel == Precomputed()
    assert repr(kernel) == "Precomputed()"
    assert kernel.theta.shape == (0,)
    assert not kernel.is_stationary()
    value, gradient = kernel(K, eval_gradient=True)
    np.testing.assert_array_equal(value, K)
    assert gradient.shape == (30, 30, 0)
    np.testing.assert_array_equal(kernel(K, rows), rows.T)
    with pytest.raises(ValueError, match="gradient"):
        kernel(K, rows, eval_gradient=True)


def test_subsets(problem):
    K, rows, variances = problem
    for chosen in (np.array([4, 1, 9]), np.arange(30) % 3 == 0, slice(2, 20)):
        index = np.arange(30)[chosen]
        np.testing.assert_array_equal(take(Precomputed(), K, chosen), K[np.ix_(index, index)])
        np.testing.assert_array_equal(
            restrict(2.0 * Precomputed(), rows, chosen, 30), rows[:, index]
        )
        appended = restrict(Precomputed(), np.column_stack([rows, variances]), chosen, 30)
        np.testing.assert_array_equal(appended, np.column_stack([rows[:, index], variances]))
    X = np.arange(60.0).reshape(30, 2)
    np.testing.assert_array_equal(take(RBF(), X, np.array([3, 1])), X[[3, 1]])
    assert take(RBF(), list("abcd"), np.array([True, False, True, False])) == ["a", "c"]
    assert restrict(RBF(), X, np.array([3, 1]), 30) is X


def test_what_cannot_be_known_is_asked_for(problem):
    K, rows, _ = problem
    uneven = K + np.diag(np.arange(30.0))
    with pytest.raises(ValueError, match=r"append it as the last column, shape \(m, 31\)"):
        diagonal(Precomputed(), rows, X_train=uneven)
    with pytest.raises(ValueError, match=r"X has shape \(8, 29\)"):
        cross(Precomputed(), K, rows[:, :29])
    with pytest.raises(ValueError, match=r"X has shape \(8, 30\)"):
        restrict(Precomputed(), rows, slice(None), 12)
    with pytest.raises(ValueError, match="square Gram matrix"):
        evaluate(Precomputed(), rows)


def test_validation(problem):
    K = problem[0]
    assert validate_precomputed(K) is K
    assert validate_precomputed(np.eye(3, dtype=int)).dtype == np.float64
    with pytest.raises(ValueError, match="X has shape"):
        validate_precomputed(K[:3])
    lopsided = K.copy()
    lopsided[0, 1] += 1e-6
    with pytest.raises(ValueError, match="X, the Gram matrix, is not symmetric"):
        validate_precomputed(lopsided)
    with pytest.raises(ValueError, match=r"X\[4, 4\] = -1"):
        validate_precomputed(K - 3.0 * np.diag(np.eye(30)[4]))
    with pytest.raises(ValueError, match="not finite"):
        validate_precomputed(np.full((2, 2), np.nan))
    large = np.array([[1e308, -1e308], [1e308, 1e308]])
    with pytest.raises(ValueError, match="not symmetric"):
        validate_precomputed(large)
