"""Posterior linearisation against its definition, by quadrature, and where it has no answer."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from gpclass.inference import PosteriorLinearisation
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import noisy_problem, rbf

SCHEDULE = pytest.mark.parametrize("schedule", ["parallel", "sequential"])
LIKELIHOOD = pytest.mark.parametrize(
    "likelihood", [Logit(), Probit(), NoisyThreshold(0.1), NoisyThreshold(0.3)], ids=repr
)


def regression(likelihood, y, m, v):
    """GTS19 eq. 15 to 17: slope, intercept and noise of y regressed on f ~ N(m, v).

    The integrals by Gauss-Legendre rules on either side of zero, where a likelihood may jump.
    """
    t, w = np.polynomial.legendre.leggauss(400)
    nu, tau = np.zeros(len(m)), np.zeros(len(m))
    for i, (mean, sd) in enumerate(zip(m, np.sqrt(v), strict=True)):
        low, high = mean - 12 * sd, mean + 12 * sd
        cuts = [low, 0.0, high] if low < 0.0 < high else [low, high]
        f = np.concatenate([(b - a) / 2 * t + (a + b) / 2 for a, b in itertools.pairwise(cuts)])
        weight = np.concatenate([(b - a) / 2 * w for a, b in itertools.pairwise(cuts)])
        weight = weight * np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        expected = 2 * np.exp(likelihood.log_prob(np.ones_like(f), f)) - 1  # E[y|f], y = -1, 1
        alpha = weight @ expected
        slope = weight @ ((f - mean) * expected) / sd**2
        noise = 1 - alpha**2 - slope**2 * sd**2  # E[y^2] = 1
        intercept = alpha - slope * mean
        tau[i] = slope**2 / noise
        nu[i] = slope * (y[i] - intercept) / noise
    return nu, tau


@SCHEDULE
@LIKELIHOOD
@pytest.mark.parametrize("signal", [0.5, 3.0])
def test_the_sites_are_the_posteriors_own_regressions(likelihood, schedule, signal):
    X, y = noisy_problem(20)
    q = PosteriorLinearisation(schedule)(rbf(X, signal) + 0.1 * np.eye(20), y, likelihood)
    assert q.converged
    nu, tau = regression(likelihood, y, q.posterior.mean, q.posterior.with_covariance().variance)
    np.testing.assert_allclose(q.sites.tau, tau, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.sites.nu, nu, rtol=1e-8, atol=1e-8)


@LIKELIHOOD
def test_weights_multiply_the_sites(likelihood):
    X, y = noisy_problem(15)
    weights = np.random.default_rng(1).uniform(0.2, 2.5, 15)
    q = PosteriorLinearisation()(rbf(X, 2.0) + 0.1 * np.eye(15), y, likelihood, weights=weights)
    nu, tau = regression(likelihood, y, q.posterior.mean, q.posterior.with_covariance().variance)
    np.testing.assert_allclose(q.sites.tau, weights * tau, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.sites.nu, weights * nu, rtol=1e-8, atol=1e-8)


@LIKELIHOOD
def test_no_site_has_a_negative_precision(likelihood):
    for seed in range(5):
        X, y = noisy_problem(20, seed)
        assert (PosteriorLinearisation()(rbf(X, 3.0), y, likelihood).sites.tau >= 0.0).all()


@LIKELIHOOD
def test_sites_to_start_from_may_be_improper(likelihood):
    X, y = noisy_problem(15)
    K = rbf(X, 2.0) + 0.1 * np.eye(15)
    there = Sites(np.ones(15), np.linspace(-3.0, 1.0, 15))
    got = PosteriorLinearisation()(K, y, likelihood, init=there)
    want = PosteriorLinearisation()(K, y, likelihood)
    assert got.log_evidence == pytest.approx(want.log_evidence, abs=1e-8)


def twins_collapse(epsilon):
    """``tau v`` of two opposite labels at one place: their mean is zero, where all is explicit.

    The slope is ``(1 - 2 eps) sqrt(2 / (pi v))``, the noise ``1 - (1 - 2 eps)^2 2 / pi``.
    """
    explained = (1 - 2 * epsilon) ** 2 * 2 / np.pi
    return explained / (1 - explained)


@SCHEDULE
@pytest.mark.parametrize("epsilon", [0.14, 0.15, 0.2, 0.3])
def test_opposite_twins_have_the_closed_form(schedule, epsilon):
    # tau = c / v and 1 / v = 1 + 2 tau
    q = PosteriorLinearisation(schedule)(np.ones((2, 2)), [1, -1], NoisyThreshold(epsilon))
    c = twins_collapse(epsilon)
    assert q.converged
    np.testing.assert_allclose(q.sites.tau, c / (1 - 2 * c), rtol=1e-6)
    np.testing.assert_allclose(q.posterior.mean, 0.0, atol=1e-7)


@SCHEDULE
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1])
def test_opposite_twins_without_a_fixed_point_are_reported(schedule, epsilon):
    # 1 / v = 1 + 2 c / v has no solution from c = 1/2 on: every step shrinks the variance
    assert twins_collapse(epsilon) >= 0.5
    q = PosteriorLinearisation(schedule)(np.ones((2, 2)), [1, -1], NoisyThreshold(epsilon))
    assert q.outcome.name == "NO_FIXED_POINT"
    assert not q.converged
    assert np.isfinite(q.log_evidence)
    assert np.isfinite([q.sites.nu, q.sites.tau]).all()


def test_the_bound_on_epsilon_that_the_docstring_names():
    assert twins_collapse(0.137) > 0.5 > twins_collapse(0.139)


def test_the_evidence_is_the_ep_energy():
    """RW06 eq. 3.65, term by term."""
    X, y = noisy_problem(12)
    K = rbf(X, 2.0) + 0.1 * np.eye(12)
    epsilon = 0.1
    q = PosteriorLinearisation()(K, y, NoisyThreshold(epsilon))
    nu, tau = q.sites.nu, q.sites.tau
    Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, s = Sigma @ nu, np.diag(Sigma)
    v = 1 / (1 / s - tau)
    x = v * (m / s - nu)
    S = K + np.diag(1 / tau)
    site = nu / tau
    value = (
        np.log(epsilon + (1 - 2 * epsilon) * ndtr(y * x / np.sqrt(v))).sum()
        + 0.5 * np.log(v + 1 / tau).sum()
        + ((x - site) ** 2 / (2 * (v + 1 / tau))).sum()
        - 0.5 * np.linalg.slogdet(S)[1]
        - 0.5 * site @ np.linalg.solve(S, site)
    )
    assert q.log_evidence == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize(
    "settings", [{"max_iter": 0}, {"tol": 0.0}, {"tol": -1.0}, {"schedule": "random"}]
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        PosteriorLinearisation(**settings)
