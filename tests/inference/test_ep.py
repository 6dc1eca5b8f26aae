"""EP against the textbook loop and quadrature."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from gpclass.inference import EP, Laplace, Outcome
from gpclass.inference.cavities import CavityTerms, Copies
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, NoisyThreshold, Probit, by_quadrature
from helpers import noisy_problem, rbf

BOTH = pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda x: x.name)


SCHEDULE = pytest.mark.parametrize("schedule", ["parallel", "sequential"])


def textbook(K, y, likelihood, sweeps=200, evidence=True):
    """RW06 Algorithm 3.5: one site after the other, Sigma by rank-one updates; eq. 3.65."""
    n = len(y)
    nu, tau = np.zeros(n), np.zeros(n)
    Sigma, mu = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        before = np.r_[nu, tau]
        for i in range(n):
            tau_cavity = 1 / Sigma[i, i] - tau[i]
            nu_cavity = mu[i] / Sigma[i, i] - nu[i]
            m = likelihood.tilted_moments(y[i], nu_cavity / tau_cavity, 1 / tau_cavity)
            change = 1 / m.variance - tau_cavity - tau[i]
            tau[i] += change
            nu[i] = m.mean / m.variance - nu_cavity
            s = Sigma[:, i]
            Sigma = Sigma - change / (1 + change * Sigma[i, i]) * np.outer(s, s)
            mu = Sigma @ nu
        Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
        mu = Sigma @ nu
        if np.abs(np.r_[nu, tau] - before).max() < 1e-12:
            break
    if not evidence:
        return mu, np.diag(Sigma), None
    v = 1 / (1 / np.diag(Sigma) - tau)
    x = v * (mu / np.diag(Sigma) - nu)
    log_z = likelihood.tilted_moments(y, x, v).log_z
    mean = nu / tau
    third = (np.log(v + 1 / tau) / 2 + (x - mean) ** 2 / (2 * (v + 1 / tau))).sum()
    S = K + np.diag(1 / tau)
    value = log_z.sum() - np.linalg.slogdet(S)[1] / 2 - mean @ np.linalg.solve(S, mean) / 2 + third
    return mu, np.diag(Sigma), value


@BOTH
@pytest.mark.parametrize("signal", [0.7, 3.0])
def test_the_textbook_loop_ends_at_the_same_fixed_point(likelihood, signal):
    X, y = noisy_problem(25)
    K = rbf(X, signal) + 1e-3 * np.eye(25)
    q = EP()(K, y, likelihood)
    mean, variance, value = textbook(K, y, likelihood)
    np.testing.assert_allclose(q.posterior.mean, mean, atol=1e-7)
    np.testing.assert_allclose(q.posterior.with_covariance().variance, variance, atol=1e-7)
    assert q.log_evidence == pytest.approx(value, abs=1e-8)


def tilted_gaps(q, y, likelihood, count=1.0, power=1.0):
    """Moments of a copy's tilted density less those of the marginal."""
    variance, tau, nu = q.posterior.with_covariance().variance, q.sites.tau, q.sites.nu
    v = variance / (1 - tau / count * variance)
    x = q.posterior.mean - v / count * (nu - tau * q.posterior.mean)
    assert (v > 0).all()
    if power == 1.0:
        moments = likelihood.tilted_moments(y, x, v)
    else:
        moments = likelihood.power_moments(power, y, x, v)
    return moments.mean - q.posterior.mean, moments.variance / variance - 1


@SCHEDULE
@pytest.mark.parametrize(
    "likelihood",
    [Logit(), Probit(), NoisyThreshold(0.0), NoisyThreshold(0.05), NoisyThreshold(0.3)],
    ids=repr,
)
@pytest.mark.parametrize("signal", [0.5, 10.0])
def test_the_fixed_point_equations_hold(likelihood, schedule, signal):
    X, y = noisy_problem(60)
    q = EP(schedule)(rbf(X, signal) + 0.1 * signal**2 * np.eye(60), y, likelihood)
    assert q.converged
    mean, variance = tilted_gaps(q, y, likelihood)
    np.testing.assert_allclose(mean / np.sqrt(q.posterior.with_covariance().variance), 0, atol=1e-8)
    np.testing.assert_allclose(variance, 0, atol=1e-8)


@SCHEDULE
@pytest.mark.parametrize("likelihood", [Logit(), Probit(), NoisyThreshold(0.1)], ids=repr)
@pytest.mark.parametrize(("weight", "count"), [(0.4, 1.0), (1.6, 1.6), (3.0, 3.0)])
def test_a_weight_is_copies_or_a_power(likelihood, schedule, weight, count):
    X, y = noisy_problem(20)
    q = EP(schedule)(rbf(X, 2.0) + np.eye(20), y, likelihood, weights=np.full(20, weight))
    mean, variance = tilted_gaps(q, y, likelihood, count, weight / count)
    np.testing.assert_allclose(mean, 0, atol=1e-8)
    np.testing.assert_allclose(variance, 0, atol=1e-8)


@SCHEDULE
@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_the_textbook_loop_agrees_on_negative_precisions(schedule, epsilon):
    # one wrong label among many right ones
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.where(np.arange(12) == 2, -1.0, 1.0)
    K = rbf(X, 1.0, 2.0) + 0.1 * np.eye(12)
    likelihood = NoisyThreshold(epsilon)
    q = EP(schedule)(K, y, likelihood)
    assert (q.sites.tau < 0).any()
    # the textbook's evidence has logarithms of site precisions: moments only
    mean, variance, _ = textbook(K, y, likelihood, evidence=False)
    np.testing.assert_allclose(q.posterior.mean, mean, atol=1e-7)
    np.testing.assert_allclose(q.posterior.with_covariance().variance, variance, atol=1e-7)


@BOTH
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_one_row_is_exact(likelihood, weight):
    """With one row nothing is approximated: the evidence is an integral over one latent."""

    def integrand(f):
        return np.exp(
            weight * likelihood.log_prob(np.array(1.0), np.array(f)) - f * f / (2 * 4.0)
        ) / np.sqrt(2 * np.pi * 4.0)

    truth = np.log(quad(integrand, -40, 40, epsabs=1e-14, limit=200, points=[0.0])[0])
    q = EP()(np.array([[4.0]]), [1], likelihood, weights=[weight])
    assert q.log_evidence == pytest.approx(truth, abs=1e-10)


@BOTH
def test_brute_force_two_rows_and_closer_than_laplace(likelihood):
    K, y = np.array([[4.0, 2.9], [2.9, 5.0]]), np.array([1.0, 1.0])
    t = np.linspace(-9, 9, 901)
    C = np.linalg.cholesky(K)
    F = C @ np.stack(np.meshgrid(t, t, indexing="ij")).reshape(2, -1)
    log_p = likelihood.log_prob(y[:, None], F).sum(0)
    log_p -= 0.5 * (np.linalg.solve(C, F) ** 2).sum(0)
    truth = np.log(np.exp(log_p).sum() * (t[1] - t[0]) ** 2 / (2 * np.pi))
    error = abs(EP()(K, y, likelihood).log_evidence - truth)
    assert 1e-8 < error < 3e-3
    assert error < 0.2 * abs(Laplace()(K, y, likelihood).log_evidence - truth)


@BOTH
def test_fractional_weights_lie_between_the_whole_ones(likelihood):
    X, y = noisy_problem(20)
    K = rbf(X, 2.0)
    value = [
        EP()(K, y, likelihood, weights=np.full(20, w)).log_evidence for w in (0.5, 1.0, 1.5, 2.0)
    ]
    assert value[0] > value[1] > value[2] > value[3]
    for w, there in ((1.0 - 1e-9, value[1]), (1.0 + 1e-9, value[1]), (2.0 + 1e-9, value[3])):
        close = EP()(K, y, likelihood, weights=np.full(20, w))
        assert close.log_evidence == pytest.approx(there, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e4, 1e6])
def test_weights_of_any_size_end_where_their_sites_match(size):
    # a posterior that thousands of copies make narrow, under a wide prior: steps must be damped
    X, y = noisy_problem(40)
    weights = np.ceil(np.random.default_rng(0).uniform(0, size, 40)) - 0.5
    q = EP()(1e4 * rbf(X, 0.5), y, Probit(), weights=weights)
    assert q.converged
    assert q.n_factorisations < 150


@pytest.mark.parametrize("power", [1.0, 0.7, 0.1])
@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (-3.0, 0.1), (4.0, 30.0), (-20.0, 100.0)])
def test_power_moments(power, mean, var):
    sd = np.sqrt(var)
    for likelihood, y in itertools.product((Logit(), Probit()), (1.0, -1.0)):

        def weigh(f, k, likelihood=likelihood, y=y):
            log_p = power * float(likelihood.log_prob(np.array(y), np.array(f)))
            return f**k * np.exp(log_p - (f - mean) ** 2 / (2 * var)) / (sd * np.sqrt(2 * np.pi))

        ends = (mean - 12 * sd - var, mean + 12 * sd + var)
        cuts = [c for c in (0.0, mean, mean + y * var) if ends[0] < c < ends[1]]
        Z, first, second = (
            quad(weigh, *ends, args=(k,), points=cuts, epsabs=0, epsrel=1e-12, limit=500)[0]
            for k in range(3)
        )
        got = by_quadrature.power_moments(likelihood, power, y, mean, var)
        assert float(got.log_z) == pytest.approx(np.log(Z), rel=1e-9, abs=1e-11)
        assert float(got.mean) == pytest.approx(first / Z, rel=1e-8, abs=1e-8)
        assert float(got.variance) == pytest.approx(second / Z - (first / Z) ** 2, rel=1e-6)


def test_the_iteration_limit_is_reported():
    X, y = noisy_problem(30)
    q = EP(max_iter=2)(rbf(X, 20.0), y, Probit())
    assert q.outcome is Outcome.MAX_ITER
    assert np.isfinite(q.log_evidence)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [1, 0]}, "-1 and"),
        ({"weights": [1.0, -1.0]}, "weights"),
        ({"init": Sites(np.zeros(3), np.zeros(3))}, "init has 3 sites"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    call = {"prior": np.eye(2), "y": [1, -1], "likelihood": Logit()} | arguments
    with pytest.raises(ValueError, match=words):
        EP()(**call)


@pytest.mark.parametrize("settings", [{"max_iter": 0}, {"tol": 0.0}, {"schedule": "random"}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        EP(**settings)


def term_of_the_mean(f, v):
    """phi(f) of `CavityTerms` and its derivative for a probit label of 1, by bisection."""
    lower, upper = f - 100 * mp.sqrt(1 + v), f
    for _ in range(200):
        x = (lower + upper) / 2
        z = x / mp.sqrt(1 + v)
        slope = mp.npdf(z) / mp.ncdf(z) / mp.sqrt(1 + v)
        lower, upper = (x, upper) if x + v * slope < f else (lower, x)
    return mp.log(mp.ncdf(z)) + v * slope**2 / 2, slope


@pytest.mark.parametrize("v", [1.0, 1e4, 1e8])
def test_terms_of_the_posterior_mean_do_not_depend_on_where_the_search_ends(v):
    """It ends within 1e-11 deviations of the root, and what is left counts in first order."""
    counts = np.array([1.0, 2.5])
    terms = CavityTerms(Copies(Probit(), np.ones(2), counts, np.zeros(2)), np.full(2, v))
    f = np.sqrt(v) * np.array([0.5, 1.5])
    with mp.workdps(40):
        value, slope = zip(*(term_of_the_mean(mp.mpf(one), mp.mpf(v)) for one in f), strict=True)
        total = float(value[0] + mp.mpf(2.5) * value[1])
    for nearby in (None, terms(1.3 * f, None), terms(0.8 * f, None)):
        found = terms(f, nearby)
        assert found.total == pytest.approx(total, rel=4e-15)
        np.testing.assert_allclose(found.first, counts * np.array(slope, dtype=float), rtol=1e-13)
