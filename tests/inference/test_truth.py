"""Evidence and moments of up to three rows against integrals over the latents."""

import numpy as np
import pytest

from gpclass.inference import EP, PosteriorLinearisation, Variational
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.priors import DensePrior

LIKELIHOODS = {
    "probit": Probit(),
    "logit": Logit(),
    "threshold-0.02": NoisyThreshold(0.02),
    "threshold-0.2": NoisyThreshold(0.2),
}
SMOOTH_K = {
    1: np.array([[4.0]]),
    2: np.array([[4.0, 2.9], [2.9, 5.0]]),
    3: np.array([[1.0, 0.6, 0.3], [0.6, 2.0, 0.8], [0.3, 0.8, 3.0]]),
}


def truth(K, y, likelihood, mean=None, weights=None, points=80):
    """Log evidence, posterior means and variances.

    Gauss-Legendre rules in each latent on either side of zero, so that a jump costs nothing:
    twice as many points change no digit of twelve.
    """
    n = len(y)
    mean = np.zeros(n) if mean is None else mean
    weights = np.ones(n) if weights is None else weights
    t, w = np.polynomial.legendre.leggauss(points)
    nodes, masses = [], []
    for i in range(n):
        reach = 8.5 * np.sqrt(K[i, i])
        low, high = min(mean[i] - reach, -1.0), max(mean[i] + reach, 1.0)
        halves = [(low, 0.0), (0.0, high)]
        f = np.concatenate([(b - a) / 2 * t + (a + b) / 2 for a, b in halves])
        mass = np.concatenate([(b - a) / 2 * w for a, b in halves])
        nodes.append(f)
        masses.append(mass * np.exp(weights[i] * likelihood.log_prob(np.full_like(f, y[i]), f)))
    centred = [f - m for f, m in zip(nodes, mean, strict=True)]
    precision = np.linalg.inv(K)
    exponent = 0.0
    for i in range(n):
        for j in range(n):
            shape_i, shape_j = [1] * n, [1] * n
            shape_i[i] = shape_j[j] = -1
            exponent = exponent + precision[i, j] * (
                centred[i].reshape(shape_i) * centred[j].reshape(shape_j)
            )
    density = np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(2 * np.pi * K))
    for i in range(n):
        shape = [1] * n
        shape[i] = -1
        density = density * masses[i].reshape(shape)
    Z = density.sum()
    means, variances = np.zeros(n), np.zeros(n)
    for i in range(n):
        marginal = density.sum(axis=tuple(j for j in range(n) if j != i)) / Z
        means[i] = marginal @ nodes[i]
        variances[i] = marginal @ (nodes[i] - means[i]) ** 2
    return np.log(Z), means, variances


def errors(method, K, y, likelihood):
    """Absolute error of log Z, largest of the means and of the variances, in prior units."""
    q = method(K, y, likelihood)
    assert q.converged
    log_z, mean, variance = truth(K, y, likelihood)
    k = np.diag(K)
    return (
        q.log_evidence - log_z,
        (np.abs(q.posterior.mean - mean) / np.sqrt(k)).max(),
        (np.abs(q.posterior.with_covariance().variance - variance) / k).max(),
    )


def cases(n):
    """Labels that agree with the correlations, and labels that do not."""
    yield np.ones(n)
    if n > 1:
        yield np.where(np.arange(n) == n - 1, -1.0, 1.0)


@pytest.mark.slow
def test_the_integrals_have_converged():
    y = np.array([1.0, 1.0, -1.0])
    for likelihood in LIKELIHOODS.values():
        coarse, fine = (truth(SMOOTH_K[3], y, likelihood, points=k) for k in (50, 80))
        np.testing.assert_allclose(coarse[0], fine[0], atol=1e-10)
        np.testing.assert_allclose(coarse[1], fine[1], atol=1e-10)


# Largest |error| of log Z (nats), mean (prior deviations) and variance (prior variances) over the
# problems of `SMOOTH_K` and `cases`, measured and then rounded up by less than a factor of two.
LARGEST = {
    ("ep", "probit"): (0.0027, 0.00096, 0.007),
    ("ep", "logit"): (0.00085, 0.00056, 0.0027),
    ("ep", "threshold-0.02"): (0.005, 0.0024, 0.013),
    ("ep", "threshold-0.2"): (0.01, 0.0083, 0.031),
    ("pl", "probit"): (0.0042, 0.066, 0.019),
    ("pl", "logit"): (0.0011, 0.029, 0.0029),
    ("pl", "threshold-0.2"): (0.0083, 0.067, 0.22),
    ("vi-bound", "probit"): (0.039, 0.0052, 0.056),
    ("vi-bound", "logit"): (0.0078, 0.0037, 0.015),
    ("vi-bound", "threshold-0.02"): (0.61, 0.11, 0.19),
    ("vi-bound", "threshold-0.2"): (0.23, 0.077, 0.088),
    ("vi-ep", "probit"): (0.0032, 0.0052, 0.056),
    ("vi-ep", "logit"): (0.00088, 0.0037, 0.015),
    ("vi-ep", "threshold-0.2"): (0.011, 0.077, 0.088),
}
METHODS = {
    "ep": EP(),
    "pl": PosteriorLinearisation(),
    "vi-bound": Variational("bound"),
    "vi-ep": Variational("ep"),
}


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [pytest.param(*k, marks=() if k[1] == "probit" else pytest.mark.slow) for k in LARGEST],
)
def test_errors_are_no_larger_than_measured(method, likelihood):
    allowed = np.array(LARGEST[method, likelihood])
    largest = np.zeros(3)
    for n, K in SMOOTH_K.items():
        for y in cases(n):
            found = errors(METHODS[method], K, y, LIKELIHOODS[likelihood])
            largest = np.maximum(largest, np.abs(found))
    assert (largest <= allowed).all(), largest
    assert (largest >= 0.5 * allowed).all(), f"the figures can be sharpened: {largest}"


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_variational_bound_is_below_the_truth(likelihood, n):
    rng = np.random.default_rng(n)
    for _ in range(3):
        A = rng.standard_normal((n, n))
        K = 10 ** rng.uniform(-1, 1) * (A @ A.T + 0.3 * np.eye(n))
        mean = rng.standard_normal(n)
        weights = rng.uniform(0.3, 2.0, n)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        q = Variational()(DensePrior(K, mean=mean), y, likelihood, weights=weights)
        assert q.log_evidence < truth(K, y, likelihood, mean, weights, points=60)[0]


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_ep_is_exact_for_one_row(likelihood, schedule, weight):
    K, y, mean = np.array([[4.0]]), np.array([1.0]), np.array([-1.3])
    prior = DensePrior(K, mean=mean)
    q = EP(schedule)(prior, y, likelihood, weights=[weight])
    log_z, m, v = truth(K, y, likelihood, mean, [weight], points=200)
    assert q.log_evidence == pytest.approx(log_z, abs=1e-9)
    assert q.posterior.mean + mean == pytest.approx(m, abs=1e-8)
    assert q.posterior.with_covariance().variance == pytest.approx(v, abs=1e-8)
