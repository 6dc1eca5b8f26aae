import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from gpclass.kernels import default_kernel, evaluate, median_distance


def test_it_starts_at_the_median_distance():
    X = np.random.default_rng(0).standard_normal((60, 3))
    kernel = default_kernel(X)
    assert kernel.k1.constant_value == 1.0
    np.testing.assert_allclose(kernel.k2.length_scale, np.median(pdist(X)), rtol=1e-12)
    np.testing.assert_allclose(
        kernel.k2.length_scale_bounds, kernel.k2.length_scale * np.array([1e-3, 1e3])
    )
    assert not kernel.k2.anisotropic


@pytest.mark.parametrize("n", [40, 3000])
def test_neither_order_nor_repetition_matters(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    expected = median_distance(X)
    assert median_distance(X[rng.permutation(n)]) == expected
    assert median_distance(np.repeat(X, rng.integers(1, 4, n), axis=0)) == expected


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e9, 1e150, 1e300])
def test_it_scales_with_the_unit(unit):
    X = np.random.default_rng(0).standard_normal((50, 3))
    np.testing.assert_allclose(median_distance(unit * X), unit * median_distance(X), rtol=1e-12)
    assert np.isfinite(evaluate(default_kernel(unit * X), unit * X)).all()


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
