"""Gradients of the evidence against central differences of fourth order."""

import numpy as np
import pytest

from gpclass.inference import EP, PosteriorLinearisation, Variational
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import each, pairs

# At the default tolerance the energy, where it is not stationary, carries noise of 1e-8, and its
# differences noise of 1e-5.
TOL = 1e-10
METHODS = {
    "ep": EP(tol=TOL),
    "ep-sequential": EP("sequential", tol=TOL),
    "pl": PosteriorLinearisation(tol=TOL),
    "pl-sequential": PosteriorLinearisation("sequential", tol=TOL),
    "vi-bound": Variational("bound", tol=TOL),
    "vi-ep": Variational("ep", tol=TOL),
}
# a solve a difference, by a schedule or a method that needs many sweeps
SLOW = ("ep-sequential", "pl-sequential", "vi-ep")
LIKELIHOODS = {
    "probit": Probit(),
    "logit": Logit(),
    "threshold-0.1": NoisyThreshold(0.1),
    "threshold-0.3": NoisyThreshold(0.3),
}
# Smallest eigenvalues of K, in signal variances: 1e-2, 1e-2, 1e-10 and 1e-4.
PROBLEMS = {
    "jittered": (10, 1.0, 1.0, 1e-2),
    "strong": (10, 5.0, 1.0, 1e-2),
    "near-singular": (12, 2.0, 5.0, 0.0),
    "rough": (8, 30.0, 0.5, 0.0),
}


def difference(function, step=1e-3):
    value = [function(t * step) for t in (-2, -1, 1, 2)]
    return (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * step)


def made_up(problem, weighted, seed=0):
    n, signal, length, jitter = problem
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    weights = rng.uniform(0.2, 2.5, n) if weighted else None

    def covariance(v):
        """v moves the logarithms of signal and length-scales."""
        Z = X * np.exp(-v[1:]) / length
        squares = ((Z[:, None] - Z[None]) ** 2).sum(-1)
        return (signal * np.exp(v[0])) ** 2 * (np.exp(-0.5 * squares) + jitter * np.eye(n))

    return covariance, y, weights


def check(method, likelihood, problem, weighted, seed=0):
    covariance, y, weights = made_up(problem, weighted, seed)
    q = method(covariance(np.zeros(3)), y, likelihood, weights=weights)
    assert q.converged, q.outcome
    G = q.evidence_pullback()
    for direction in np.eye(3):

        def value(t, direction=direction):
            K = covariance(t * direction)
            return method(K, y, likelihood, weights=weights, init=q.sites).log_evidence

        dK = difference(lambda t, direction=direction: covariance(t * direction))
        got, want = (G * dK).sum(), difference(value)
        # along the signal variance a threshold's evidence may not change at all, so that only
        # rounding is left of either number
        assert abs(got - want) <= 1e-5 * max(abs(want), 0.1), (direction, got, want)
    slopes = q.likelihood_gradient()
    assert slopes.shape == likelihood.theta.shape
    for k in range(len(slopes)):

        def value(t, k=k):
            theta = likelihood.theta
            theta[k] += t
            moved = likelihood.with_theta(theta)
            K = covariance(np.zeros(3))
            return method(K, y, moved, weights=weights, init=q.sites).log_evidence

        want = difference(value)
        assert abs(slopes[k] - want) <= 1e-5 * max(abs(want), 0.1), (k, slopes[k], want)


@pytest.mark.parametrize(
    ("method", "likelihood", "problem", "weighted"),
    pairs(
        METHODS,
        LIKELIHOODS,
        PROBLEMS,
        [False, True],
        marks=lambda method, *_: pytest.mark.slow if method in SLOW else (),
    ),
)
def test_gradients(method, likelihood, problem, weighted):
    check(METHODS[method], LIKELIHOODS[likelihood], PROBLEMS[problem], weighted)


@pytest.mark.parametrize(("method", "likelihood"), each(METHODS, LIKELIHOODS))
def test_the_gradient_by_k_is_symmetric(method, likelihood):
    covariance, y, weights = made_up(PROBLEMS["jittered"], True)
    q = METHODS[method](covariance(np.zeros(3)), y, LIKELIHOODS[likelihood], weights=weights)
    G = q.evidence_pullback()
    np.testing.assert_allclose(G, G.T, atol=1e-12)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_fixed_epsilon_has_no_gradient(method):
    covariance, y, weights = made_up(PROBLEMS["jittered"], True)
    likelihood = NoisyThreshold(0.1, epsilon_bounds="fixed")
    q = method(covariance(np.zeros(3)), y, likelihood, weights=weights)
    assert q.likelihood_gradient().shape == (0,)
