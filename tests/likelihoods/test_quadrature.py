import numpy as np
import pytest
from scipy.special import ndtr

from gpclass.likelihoods.quadrature import (
    BENDS,
    DROP,
    ORDER,
    RADIUS,
    mass_interval,
    panel_edges,
    panel_rule,
    site_blocks,
    standardise,
)

MEANS = np.array([-1e5, -40.0, -3.0, 0.0, 2.0, 40.0])


def parabola(centre, precision):
    def exponent(f, sites):
        off = f - centre
        return -0.5 * precision * off * off, -precision * off, np.full_like(f, -precision)

    return exponent


def logistic(f, sites):
    e = np.exp(-np.abs(f))
    other = np.where(f > 0, e, 1.0) / (1 + e)
    return np.minimum(f, 0) - np.log1p(e), other, -e / (1 + e) ** 2


@pytest.mark.parametrize("sd", [0.0, 1e-4, 1.0, 1e3])
@pytest.mark.parametrize("precision", [0.0, 1e-3, 1.0, 1e6])
def test_interval_of_a_parabola(sd, precision):
    centre, means = 5.0, MEANS[1:]  # from -1e5 the exponent is rounded by more than DROP
    interval = mass_interval(parabola(centre, precision), means, np.full_like(means, sd))
    total = 1 + precision * sd * sd
    mode = precision * sd * (centre - means) / total
    deviation = 1 / np.sqrt(total)
    # within MODE_GAP = 0.05 of the maximum, and at most a few percent too wide
    assert np.all(np.abs(interval.mode - mode) <= np.sqrt(0.1) * deviation + 1e-12 * np.abs(mode))
    for end, sign in ((interval.lower, -1), (interval.upper, 1)):
        reach = sign * (end - mode) / deviation
        assert np.all(reach >= RADIUS - 0.05)
        assert np.all(reach <= RADIUS * 1.1)


@pytest.mark.parametrize("v", [0.0, 1e-8, 1.0, 30.0, 1e6, 1e20])
def test_interval_of_a_logistic_drops_as_far_as_it_says(v):
    sd = np.full_like(MEANS, np.sqrt(v))
    interval = mass_interval(logistic, MEANS, sd)

    def log_product(x):
        return logistic(MEANS + sd * x, slice(None))[0] - 0.5 * x * x

    # the grid knows the maximum to its own resolution, from below
    grid = np.linspace(interval.lower, interval.upper, 40001)
    top = log_product(grid).max(axis=0)
    rounding = 1e-10 * (1 + np.abs(top))
    assert np.all(log_product(interval.mode) >= top - 0.05 - rounding)
    for end in (interval.lower, interval.upper):
        assert np.all(log_product(end) <= top - DROP + 0.06 + rounding)
    assert np.all(interval.lower < interval.mode)
    assert np.all(interval.mode < interval.upper)


@pytest.mark.parametrize("mean", [-1e150, -1e8, 0.0, 1e150])
@pytest.mark.parametrize("sd", [0.0, 1e-150, 1.0, 1e150])
def test_interval_is_finite_and_ordered_at_the_ends_of_the_number_range(mean, sd):
    interval = mass_interval(logistic, np.array([mean]), np.array([sd]))
    assert np.isfinite(interval).all()
    assert interval.lower < interval.mode < interval.upper


def test_standardise():
    x = standardise(np.array([1.0, 4.0]), np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    np.testing.assert_array_equal(x, [0.0, 2.0])
    assert standardise(np.array([1.0]), np.array([0.0]), np.array([0.0])) > 1e300


def test_edges_are_sorted_and_bends_clipped():
    points = [np.array([-8.0, -8.0]), np.array([0.5, 0.0]), np.array([8.0, 8.0])]
    bends = [np.full(2, bend) for bend in BENDS]
    edges = panel_edges(points, bends, np.array([0.0, 100.0]), np.array([1.0, 10.0]))
    np.testing.assert_array_equal(edges[0], [-8, -8, -3, 0.5, 3, 8, 8])
    np.testing.assert_array_equal(edges[1], [-8, -8, -8, -8, -8, 0, 8])


def test_rule_is_exact_for_polynomials_and_for_half_a_bell():
    edges = np.array([[0.0, RADIUS], [-1.0, -1.0]])
    x, weights = panel_rule(edges)
    assert x.shape == weights.shape == (2, ORDER)
    np.testing.assert_allclose((weights[0] * x[0] ** 9).sum(), RADIUS**10 / 10, rtol=1e-13)
    bell = (weights[0] * np.exp(-0.5 * x[0] ** 2)).sum() / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(bell, ndtr(RADIUS) - 0.5, rtol=1e-14)
    np.testing.assert_array_equal(weights[1], 0.0)


def test_blocks_cover_every_site_once():
    sites = np.arange(1000)[::3]
    blocks = list(site_blocks(sites, panels=9))
    np.testing.assert_array_equal(np.concatenate(blocks), sites)
    assert len(blocks) > 1
    assert list(site_blocks(sites[:0], panels=9)) == []
