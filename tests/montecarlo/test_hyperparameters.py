"""Sampling of hyperparameters and latent values together, against brute force."""

import itertools

import numpy as np
import pytest
from scipy.special import log_ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass.inference import EP
from gpclass.kernels import evaluate
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.montecarlo.hyperparameters import sample_hyperparameters

BOUNDS = np.log([[0.05, 50.0], [0.1, 20.0]])


def kernel_at(variance, length):
    (a, b), (c, d) = np.exp(BOUNDS)
    return ConstantKernel(variance, (a, b)) * Matern(length, (c, d), nu=2.5)


def log_prior(theta):
    """Log-normal, so that a grid has an end."""
    return -0.5 * float(((theta - np.array([0.5, 0.3])) ** 2 / np.array([1.0, 0.36])).sum())


def grid(points):
    axes = [np.linspace(low, high, points) for low, high in BOUNDS]
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def exact(X, y, X_new, order=24, points=25):
    """Moments of theta and predictions, by Gauss-Hermite in f = L u and a grid over theta.

    Order 30 and 31 points change no digit that the tests below compare.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    n = len(y)
    u = np.array(list(itertools.product(nodes, repeat=n))).T
    mass = np.prod(list(itertools.product(weights, repeat=n)), axis=1)
    thetas, evidence, positive = grid(points), [], []
    for theta in thetas:
        kernel = kernel_at(1.0, 1.0).clone_with_theta(theta)
        L = np.linalg.cholesky(kernel(X))
        density = mass * np.exp(log_ndtr(y[:, None] * (L @ u)).sum(axis=0))
        V = np.linalg.solve(L, kernel(X, X_new))
        z = (V.T @ u) / np.sqrt(1 + kernel.diag(X_new) - (V**2).sum(axis=0))[:, None]
        evidence.append(density.sum())
        positive.append(np.exp(log_ndtr(z)) @ density / density.sum())
    p = np.array(evidence) * np.exp([log_prior(theta) for theta in thetas])
    p /= p.sum()
    return moments(thetas, p), p @ np.array(positive)


def moments(thetas, p):
    mean = p @ thetas
    return mean, np.sqrt(p @ (thetas - mean) ** 2)


@pytest.mark.slow
def test_theta_and_predictions_are_those_of_brute_force():
    X, y = np.array([[0.0], [0.7], [2.0]]), np.array([1.0, 1.0, -1.0])
    X_new = np.array([[0.3], [1.2], [4.0]])
    (mean, deviation), positive = exact(X, y, X_new)
    draws = sample_hyperparameters(
        kernel_at(1.5, 1.5), X, y, Probit(), X_new, log_prior=log_prior, random_state=0
    )
    assert draws.rhat.max() < 1.02
    error = deviation / np.sqrt(draws.effective_sample_size[:2])
    assert np.abs((draws.theta.mean(axis=(1, 2)) - mean) / error).max() < 4
    np.testing.assert_allclose(draws.theta.std(axis=(1, 2)), deviation, rtol=0.06)
    log_p = draws.log_probabilities()
    np.testing.assert_allclose(np.exp(log_p[:, 1]), positive, atol=0.012)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-12)


@pytest.fixture(scope="module")
def sixty():
    """Rows whose labels follow a curve, one in ten of them wrong."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 2))
    y = np.where(X[:, 0] + np.sin(2 * X[:, 1]) > 0, 1.0, -1.0)
    y[rng.uniform(size=60) < 0.1] *= -1
    return X, y


@pytest.mark.slow
def test_theta_follows_the_evidence_over_a_grid(sixty):
    # EP's evidence is within a few hundredths of a nat here, so its grid is nearly the truth
    X, y = sixty
    draws = sample_hyperparameters(
        kernel_at(2.0, 1.5), X, y, Probit(), X[:5], log_prior=log_prior, random_state=1
    )
    thetas, log_p, init = grid(17), [], None
    for theta in thetas:
        K = evaluate(kernel_at(1.0, 1.0).clone_with_theta(theta), X)
        init = EP(tol=1e-5)(K, y, Probit(), init=init)
        log_p.append(init.log_evidence + log_prior(theta))
    p = np.exp(np.array(log_p) - max(log_p))
    mean, deviation = moments(thetas, p / p.sum())
    assert draws.rhat.max() < 1.02
    assert np.abs((draws.theta.mean(axis=(1, 2)) - mean) / deviation).max() < 0.1
    np.testing.assert_allclose(draws.theta.std(axis=(1, 2)), deviation, rtol=0.1)


@pytest.mark.slow
def test_weights_give_another_prior(sixty):
    X, y = sixty
    X_new = np.array([[0.5, 0.5], [-2.0, 1.0], [0.0, 3.0]])
    flat = sample_hyperparameters(kernel_at(2.0, 1.5), X, y, Probit(), X_new, random_state=2)
    other = sample_hyperparameters(
        kernel_at(2.0, 1.5), X, y, Probit(), X_new, log_prior=log_prior, random_state=3
    )
    weights = np.apply_along_axis(log_prior, 0, flat.theta)
    np.testing.assert_allclose(
        np.exp(flat.log_probabilities(weights)), np.exp(other.log_probabilities()), atol=0.015
    )


@pytest.mark.slow
def test_a_seed_gives_the_same_bits_and_a_duplicate_row_does_no_harm(sixty):
    X, y = np.r_[sixty[0], sixty[0][:3]], np.r_[sixty[1], -sixty[1][:3]]
    first, second = (
        sample_hyperparameters(
            kernel_at(2.0, 1.5), X, y, Probit(), X[:2], n_draws=5, n_burn=2, random_state=4
        )
        for _ in range(2)
    )
    assert np.array_equal(first.log_p, second.log_p)
    assert np.isfinite(first.log_p).all()
    assert first.theta.shape == (2, 5, 32)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": RBF([1.0, 1.0, 1.0, 1.0])}, "1 to 3 free"),
        ({"kernel": RBF(1.0, (1e-3, np.inf))}, "finite"),
        ({"kernel": RBF(1.0, (0.9, 1.1))}, "wider"),
        ({"likelihood": NoisyThreshold(0.1)}, "log-concave"),
        ({"y": [0.0, 1.0]}, "labels"),
        ({"n_draws": 0}, "n_draws"),
    ],
)
def test_what_cannot_be_sampled_is_refused(changes, words):
    arguments = {
        "kernel": kernel_at(1.0, 1.0),
        "X": np.array([[0.0], [1.0]]),
        "y": [-1.0, 1.0],
        "likelihood": Probit(),
        "X_new": [[0.5]],
    } | changes
    with pytest.raises(ValueError, match=words):
        sample_hyperparameters(**arguments)


def test_a_posterior_that_needs_too_many_nodes_is_refused(sixty):
    with pytest.raises(ValueError, match="more than 10 nodes"):
        sample_hyperparameters(kernel_at(2.0, 1.5), *sixty, Probit(), sixty[0][:1], max_nodes=10)
