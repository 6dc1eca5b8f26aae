"""Forecasts of sites along an optimiser's way."""

import numpy as np
import pytest

from gpclass.inference.sites import Sites
from gpclass.learning.trail import MOST, SPARE, Trail


def sites_at(theta):
    """Precisions log-linear in theta, with first parameters of both signs."""
    slope = np.array([1.0, -2.0, 0.5])
    tau = np.exp(theta @ np.array([[0.3, -0.5, 0.1], [0.2, 0.0, -0.4]]))
    return Sites(np.array([1.0, -1.0, 1.0]) * np.exp(theta[0] * slope), tau)


def gap(found, wanted):
    return np.abs(np.log(found.tau / wanted.tau)).max() + np.abs(found.nu - wanted.nu).max()


def test_nothing_is_known_at_first_and_one_point_stands():
    trail = Trail()
    assert trail.forecast(np.zeros(2)) is None
    sites = sites_at(np.zeros(2))
    trail.add(np.zeros(2), sites)
    assert trail.forecast(np.ones(2)) is sites


def test_a_forecast_comes_closer_than_the_last_sites():
    rng = np.random.default_rng(0)
    foretold, stood = [], []
    for _ in range(200):
        trail, theta = Trail(), rng.standard_normal(2)
        for _ in range(4):
            trail.add(theta, sites_at(theta))
            last, theta = theta, theta + 0.3 * rng.standard_normal(2)
        wanted = sites_at(theta)
        foretold.append(gap(trail.forecast(theta), wanted))
        stood.append(gap(sites_at(last), wanted))
    assert np.median(np.array(foretold) / stood) < 0.3
    assert np.quantile(foretold, 0.95) < 0.7 * np.quantile(stood, 0.95)


def test_a_point_that_is_known_is_met():
    trail = Trail()
    for theta in np.eye(2):
        trail.add(theta, sites_at(theta))
    found = trail.forecast(np.array([1.0, 0.0]))
    np.testing.assert_allclose(found.tau, sites_at(np.array([1.0, 0.0])).tau)


def test_a_point_far_away_does_not_mislead():
    trail = Trail()
    trail.add(np.array([11.5, 11.5]), sites_at(np.array([11.5, 11.5])))
    near = np.array([0.0, 0.0])
    trail.add(near, sites_at(near))
    found = trail.forecast(np.array([0.1, 0.1]))
    assert gap(found, sites_at(np.array([0.1, 0.1]))) < 0.3


@pytest.mark.parametrize("p", [1, 3, 20])
def test_few_points_are_kept(p):
    trail = Trail()
    for k in range(40):
        trail.add(np.full(p, float(k)), Sites(np.ones(1), np.ones(1)))
    assert len(trail.known) == min(p + 1 + SPARE, MOST)
    assert trail.known[-1][0][0] == 39.0


def test_sites_of_other_kinds_and_overflow_fall_back_on_the_last():
    trail = Trail()
    for theta in (0.0, 1.0):
        trail.add(np.array([theta]), f"sites at {theta}")
    assert trail.forecast(np.array([2.0])) == "sites at 1.0"
    wild = Trail()
    wild.add(np.array([0.0]), Sites(np.ones(1), np.full(1, 1e-300)))
    wild.add(np.array([1e-9]), Sites(np.ones(1), np.full(1, 1e300)))
    assert np.isfinite(wild.forecast(np.array([1.0])).tau).all()


def test_parameters_of_changing_sign_are_combined_as_they_are():
    trail = Trail()
    trail.add(np.array([0.0]), Sites(np.array([-1.0]), np.array([0.0])))
    trail.add(np.array([1.0]), Sites(np.array([1.0]), np.array([2.0])))
    found = trail.forecast(np.array([0.5]))
    np.testing.assert_allclose(found.nu, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.tau, 1.0)
