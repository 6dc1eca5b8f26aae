"""Variational inference against its definition: the bound, its optimum, and what it is beside."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, ndtr

from gpclass.inference import EP, Variational
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import noisy_problem, rbf

LIKELIHOOD = pytest.mark.parametrize(
    "likelihood",
    [Logit(), Probit(), NoisyThreshold(0.01), NoisyThreshold(0.1), NoisyThreshold(0.3)],
    ids=repr,
)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
WEIGHTS = WEIGHTS / np.sqrt(2 * np.pi)


def expected(likelihood, y, m, v):
    """``E[log p(y|f)]`` for f ~ N(m, v); by Gauss-Hermite rules where there is no closed form."""
    if isinstance(likelihood, NoisyThreshold):
        right = ndtr(y * m / np.sqrt(v))
        return right * np.log1p(-likelihood.epsilon) + (1 - right) * np.log(likelihood.epsilon)
    log_p = {"logit": log_expit, "probit": log_ndtr}[likelihood.name]
    return log_p(y[:, None] * (m[:, None] + np.sqrt(v)[:, None] * NODES)) @ WEIGHTS


def bound(K, y, likelihood, sites, weights=None):
    """``E[log p(y|f)] - KL(q || p)``; None where the sites leave no density."""
    weights = np.ones(len(y)) if weights is None else weights
    precision = np.linalg.inv(K) + np.diag(sites.tau)
    if np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    Sigma = np.linalg.inv(precision)
    m = Sigma @ sites.nu
    kl = 0.5 * (
        np.trace(np.linalg.solve(K, Sigma))
        + m @ np.linalg.solve(K, m)
        - len(y)
        + np.linalg.slogdet(K)[1]
        - np.linalg.slogdet(Sigma)[1]
    )
    return weights @ expected(likelihood, y, m, np.diag(Sigma)) - kl


@LIKELIHOOD
@pytest.mark.parametrize("signal", [0.5, 2.0])
def test_the_sites_are_the_derivatives_of_the_expectations(likelihood, signal):
    X, y = noisy_problem(20)
    q = Variational()(rbf(X, signal) + 0.1 * np.eye(20), y, likelihood)
    assert q.converged
    m, v = q.posterior.mean, q.posterior.with_covariance().variance
    h = 2e-3

    def slope(function):
        return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)

    by_mean = slope(lambda t: expected(likelihood, y, m + t, v))
    by_variance = slope(lambda t: expected(likelihood, y, m, v * np.exp(t))) / v
    # the differences have errors near 1e-10, which the comparison to 1e-8 leaves room for
    np.testing.assert_allclose(q.sites.tau, -2 * by_variance, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.sites.nu, by_mean + q.sites.tau * m, rtol=1e-8, atol=1e-8)


@LIKELIHOOD
@pytest.mark.parametrize("weighted", [False, True])
def test_the_value_is_the_bound_and_no_other_sites_have_a_higher_one(likelihood, weighted):
    n = 10
    rng = np.random.default_rng(3)
    X, y = noisy_problem(n)
    K = rbf(X, 1.5) + 0.1 * np.eye(n)
    weights = rng.uniform(0.2, 2.5, n) if weighted else None
    q = Variational()(K, y, likelihood, weights=weights)
    highest = bound(K, y, likelihood, q.sites, weights)
    assert q.log_evidence == pytest.approx(highest, abs=1e-9)
    lowered = 0
    for step in np.repeat([1e-3, 1e-2, 0.1, 0.3], 25):
        d_nu, d_tau = step * rng.standard_normal((2, n))
        other = bound(K, y, likelihood, Sites(q.sites.nu + d_nu, q.sites.tau + d_tau), weights)
        if other is not None:
            assert other < highest
            lowered += 1
    assert lowered > 60


@LIKELIHOOD
def test_the_other_evidence_is_the_energy_at_the_same_sites(likelihood):
    X, y = noisy_problem(15)
    K = rbf(X, 1.0) + 0.1 * np.eye(15)
    a, b = Variational("bound")(K, y, likelihood), Variational("ep")(K, y, likelihood)
    np.testing.assert_array_equal(a.sites.nu, b.sites.nu)
    np.testing.assert_array_equal(a.sites.tau, b.sites.tau)
    ep = EP()(K, y, likelihood).log_evidence
    assert a.log_evidence < ep
    # the energy is stationary at EP's sites, so it is off in second order only
    assert abs(b.log_evidence - ep) < abs(a.log_evidence - ep)


@pytest.mark.parametrize("evidence", ["bound", "ep"])
def test_a_likelihood_with_zeros_is_refused(evidence):
    with pytest.raises(ValueError, match="epsilon"):
        Variational(evidence)(np.eye(2), [1, -1], NoisyThreshold(0.0))


@pytest.mark.parametrize(
    "settings", [{"max_iter": 0}, {"tol": 0.0}, {"tol": -1.0}, {"evidence": "exact"}]
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Variational(**settings)
