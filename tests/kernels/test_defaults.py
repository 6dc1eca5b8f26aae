import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from gpclass.kernels import (
    default_kernel,
    diagonal,
    evaluate,
    expected_lengths,
    median_distance,
    two_valued,
)


def test_a_smooth_part_a_linear_part_and_a_constant():
    X = np.random.default_rng(0).standard_normal((60, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
    kernel = default_kernel(X)
    np.testing.assert_allclose(kernel.k1.k1.k2.length_scale, np.sqrt(3) * X.std(axis=0))
    assert kernel.k1.k1.k2.nu == 2.5
    # variances at rows like those of X
    parts = kernel.k1.k1, kernel.k1.k2, kernel.k2
    means = [diagonal(part, X).mean() for part in parts]
    np.testing.assert_allclose(means, [3.0, 1.0, 3.0])
    np.testing.assert_allclose(kernel.diag(X), np.sum([part.diag(X) for part in parts], axis=0))
    assert len(kernel.theta) == 3 + 3


@pytest.mark.parametrize("of", [default_kernel, median_distance])
@pytest.mark.parametrize("n", [40, 3000])
def test_neither_order_nor_repetition_matters(n, of):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    expected = of(X)
    assert of(X[rng.permutation(n)]) == expected
    assert of(np.repeat(X, rng.integers(1, 4, n), axis=0)) == expected


@pytest.mark.parametrize("unit", [1e-140, 1e-9, 1e9, 1e140])
def test_the_kernel_scales_with_the_unit(unit):
    X = np.random.default_rng(0).standard_normal((50, 3))
    np.testing.assert_allclose(
        evaluate(default_kernel(unit * X), unit * X), evaluate(default_kernel(X), X), rtol=1e-10
    )


def test_a_constant_column_has_a_length_scale_too():
    X = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    kernel = default_kernel(X)
    assert kernel.k1.k1.k2.length_scale[1] == 1.0
    assert np.isfinite(evaluate(kernel, X)).all()
    assert np.isfinite(default_kernel(np.zeros((3, 2))).theta).all()


def test_levels_of_a_category_share_a_length_scale():
    rng = np.random.default_rng(0)
    codes = np.append(np.arange(3), rng.integers(0, 3, 17))
    X = np.column_stack([rng.standard_normal(20), np.sqrt(0.5) * np.eye(3)[codes]])
    alone, kernel = default_kernel(X), default_kernel(X, [0, 1, 1, 1])
    shared = kernel.k1.k1.k2
    np.testing.assert_allclose(shared.spread.length_scale, alone.k1.k1.k2.length_scale)
    assert (shared.n_dims, kernel.n_dims) == (2, 5)
    np.testing.assert_allclose(evaluate(kernel, X), evaluate(alone, X))
    assert default_kernel(X, range(4)) == alone


def test_levels_have_one_unit_however_rare_they_are():
    """As `MixedTable` has them: sqrt(1/2) or 0, so that two levels have distance 1."""
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((200, 2)) * [1.0, 7.0]
    codes = rng.choice(3, size=200, p=[0.9, 0.08, 0.02])
    levels = np.sqrt(0.5) * (codes[:, None] == np.arange(3))
    X = np.hstack([numbers, levels])
    np.testing.assert_array_equal(two_valued(X), [False, False, True, True, True])
    total = 2.0 + levels.var(axis=0).sum()
    expected = np.sqrt(total) * np.r_[numbers.std(axis=0), 1.0, 1.0, 1.0]
    np.testing.assert_allclose(expected_lengths(X), expected)


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e9, 1e150, 1e300])
def test_it_scales_with_the_unit(unit):
    X = np.random.default_rng(0).standard_normal((50, 3))
    np.testing.assert_allclose(median_distance(unit * X), unit * median_distance(X), rtol=1e-12)


def test_columns_in_different_units():
    X = np.random.default_rng(0).standard_normal((50, 2)) * [1e-9, 1e9]
    np.testing.assert_allclose(median_distance(X), np.median(pdist(X)), rtol=1e-12)


def test_one_distinct_row_has_no_scale():
    assert median_distance(np.full((7, 2), 3.0)) == 1.0
    assert median_distance(np.full((1, 2), 3.0)) == 1.0


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (5, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_any_finite_table(X):
    with np.errstate(all="raise", under="ignore"):
        kernel = default_kernel(X)
    assert np.isfinite(kernel.theta).all()
    assert np.isfinite(kernel.bounds).all()
    assert (kernel.bounds[:, 0] < kernel.theta).all()
    assert (kernel.theta < kernel.bounds[:, 1]).all()


@pytest.mark.parametrize("X", [np.zeros(3), np.array([[np.nan]]), np.array([[np.inf]])])
def test_what_is_no_table_is_named(X):
    with pytest.raises(ValueError, match="X has shape"):
        default_kernel(X)
