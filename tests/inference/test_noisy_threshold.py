"""The noisy threshold: examples of two rows from GTS19, and RW06 exercise 3.10.1."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, PosteriorLinearisation
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.priors import DensePrior

SCHEDULE = pytest.mark.parametrize("schedule", ["parallel", "sequential"])

# GTS19, the example of EP's failure: prior correlation 0.8 and means far on the labels' wrong side
K = np.array([[1.0, 0.8], [0.8, 1.0]])
MEAN = np.array([-0.5, -3.0])
Y = np.ones(2)
EPSILON = 0.01


def cavities(q, mean):
    variance = q.posterior.with_covariance().variance
    v = 1 / (1 / variance - q.sites.tau)
    m = q.posterior.mean + mean
    # with a prior mean the sites are about it
    return mean + v * (q.posterior.mean / variance - q.sites.nu), v, m, variance


def tilted(epsilon, y, x, v):
    """Moments of a noisy threshold under N(x, v): truncated and whole Gaussians, mixed."""
    sd = np.sqrt(v)
    z = y * x / sd
    Z = epsilon + (1 - 2 * epsilon) * ndtr(z)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    first = (1 - 2 * epsilon) * y * sd * density / Z
    # E[(f - x)^2] of the half: v (Phi - z phi)
    second = v * (epsilon + (1 - 2 * epsilon) * (ndtr(z) - z * density)) / Z
    return x + first, second - first**2


def test_the_truth_by_orthants():
    Z, first = 0.0, np.zeros(2)
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        s = np.array(signs)
        p = np.prod(np.where(s > 0, 1 - EPSILON, EPSILON))
        mass = multivariate_normal(-s * MEAN, K * np.outer(s, s)).cdf(np.zeros(2))
        Z += p * mass
    assert np.log(Z) == pytest.approx(-5.418695854492, abs=1e-6)
    # means by one integral: given f_1, the other is a Gaussian, whose tilted mean is known
    t, w = np.polynomial.legendre.leggauss(400)
    total = 0.0
    for a, b, p in ((-10.0, 0.0, EPSILON), (0.0, 10.0, 1 - EPSILON)):
        f = (b - a) / 2 * t + (a + b) / 2
        mass = (b - a) / 2 * w * p * np.exp(-0.5 * (f - MEAN[0]) ** 2) / np.sqrt(2 * np.pi)
        m, v = MEAN[1] + 0.8 * (f - MEAN[0]), 1 - 0.8**2
        likely = EPSILON + (1 - 2 * EPSILON) * ndtr(m / np.sqrt(v))
        total += (mass * likely).sum()
        first += [(mass * likely * f).sum(), (mass * likely * tilted(EPSILON, 1, m, v)[0]).sum()]
    assert np.log(total) == pytest.approx(-5.418695854492, abs=1e-10)
    assert first / total == pytest.approx([1.05426109, -1.40767038], abs=1e-7)


@SCHEDULE
def test_ep_has_a_proper_fixed_point_where_the_paper_found_none(schedule):
    """GTS19 report that EP breaks down here; what breaks is the iteration without safeguards."""
    q = EP(schedule)(DensePrior(K, mean=MEAN), Y, NoisyThreshold(EPSILON))
    assert q.converged
    assert q.log_evidence == pytest.approx(-5.387183, abs=1e-6)
    assert q.posterior.mean + MEAN == pytest.approx([1.05453, -1.34244], abs=1e-5)
    assert q.sites.tau == pytest.approx([0.58343, -0.79412], abs=1e-5)
    x, v, m, variance = cavities(q, MEAN)
    assert (v > 0).all()
    mean, var = tilted(EPSILON, Y, x, v)
    np.testing.assert_allclose(mean, m, atol=1e-8)
    np.testing.assert_allclose(var, variance, atol=1e-8)
    # and it is close to the truth
    assert abs(q.log_evidence + 5.418695854492) < 0.04
    assert np.abs(m - [1.05426109, -1.40767038]).max() < 0.07


def plain_ep(K, mean, y, epsilon, sweeps):
    """RW06 Algorithm 3.5 as it stands; yields each cavity."""
    nu, tau = np.zeros(2), np.zeros(2)
    for _ in range(sweeps):
        for i in range(2):
            Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
            m = Sigma @ (np.linalg.solve(K, mean) + nu)
            v = 1 / (1 / Sigma[i, i] - tau[i])
            x = v * (m[i] / Sigma[i, i] - nu[i])
            yield x, v
            t_mean, t_variance = tilted(epsilon, y[i], x, v)
            tau[i], nu[i] = 1 / t_variance - 1 / v, t_mean / t_variance - x / v


def test_the_iteration_without_safeguards_meets_a_negative_variance():
    found = []
    for x, v in plain_ep(K, MEAN, Y, EPSILON, 3):
        found.append((x, v))
        if v < 0:
            break
    # GTS19 report -117.9 at the first row's second visit
    assert len(found) == 3
    assert found[-1][1] == pytest.approx(-117.9, abs=0.05)


@SCHEDULE
def test_linearisation_of_the_same_example(schedule):
    q = PosteriorLinearisation(schedule)(DensePrior(K, mean=MEAN), Y, NoisyThreshold(EPSILON))
    assert q.converged
    assert q.posterior.mean + MEAN == pytest.approx([2.0427, 0.1770], abs=1e-4)
    assert (q.sites.tau > 0).all()


# A problem whose undamped sequential iteration runs in a cycle
CYCLE = -0.8360038161159684
CYCLE_K = np.array([[1.0, CYCLE], [CYCLE, 1.0]])
CYCLE_MEAN = np.array([-2.670899306087457, 1.64388401698199])
CYCLE_EPSILON = 0.00012277564861984


def test_the_undamped_iteration_cycles():
    visits = np.array(list(plain_ep(CYCLE_K, CYCLE_MEAN, Y, CYCLE_EPSILON, 400)))
    assert np.isfinite(visits).all()
    late = visits[400:].reshape(-1, 2, 2)
    # after 200 sweeps the first row's cavity still moves by more than a thousandth each sweep
    assert np.abs(np.diff(late[:, 0, 0])).max() > 1e-3


@SCHEDULE
def test_ep_converges_where_the_undamped_iteration_cycles(schedule):
    q = EP(schedule)(DensePrior(CYCLE_K, mean=CYCLE_MEAN), Y, NoisyThreshold(CYCLE_EPSILON))
    assert q.converged
    assert q.log_evidence == pytest.approx(-7.557445, abs=1e-6)
    assert q.sites.nu == pytest.approx([1.1981345, 0.81290073], abs=1e-7)
    assert q.sites.tau == pytest.approx([-0.87471426, 0.33674203], abs=1e-7)
    x, v, m, variance = cavities(q, CYCLE_MEAN)
    assert (v > 0).all()
    mean, var = tilted(CYCLE_EPSILON, Y, x, v)
    np.testing.assert_allclose(mean, m, atol=1e-7)
    np.testing.assert_allclose(var, variance, atol=1e-7)


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((n, 2)), rng.standard_normal((15, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0), Z


# RW06 exercise 3.10.1: a threshold on f plus noise of variance s is a probit on f / sqrt(s)
@SCHEDULE
@pytest.mark.parametrize(
    ("n", "signal", "noise"),
    [(20, 1.0, 1.0), (30, 3.0, 0.5), (40, 2.0, 0.1), (20, 10.0, 1e-3), (60, 1.0, 0.3)],
)
def test_noise_in_the_latent_and_a_hard_threshold_are_a_probit(schedule, n, signal, noise):
    X, y, Z = drawn(n, 0)

    def k(A, B):
        return signal**2 * np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1))

    hard, probit = NoisyThreshold(0.0), Probit()
    a = EP(schedule)(k(X, X) + noise * np.eye(n), y, hard)
    b = EP(schedule)(k(X, X) / noise, y, probit)
    assert a.converged
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-6)
    prior = np.full(len(Z), signal**2)
    p = hard.predict_proba(*a.posterior.predict(k(X, Z), prior + noise))
    q = probit.predict_proba(*b.posterior.predict(k(X, Z) / noise, prior / noise))
    np.testing.assert_allclose(p, q, atol=1e-6)


@SCHEDULE
def test_the_same_through_the_classifier(schedule):
    X, y, Z = drawn(40, 1)
    noise = 0.5
    hard = GaussianProcessClassifier(
        ConstantKernel(4.0) * RBF(1.0) + WhiteKernel(noise),
        optimizer=None,
        likelihood=NoisyThreshold(0.0),
        inference=EP(schedule),
    ).fit(X, y)
    probit = GaussianProcessClassifier(
        ConstantKernel(4.0 / noise) * RBF(1.0),
        optimizer=None,
        likelihood="probit",
        inference=EP(schedule),
    ).fit(X, y)
    assert hard.log_marginal_likelihood_value_ == pytest.approx(
        probit.log_marginal_likelihood_value_, abs=1e-6
    )
    np.testing.assert_allclose(hard.predict_proba(Z), probit.predict_proba(Z), atol=1e-6)
