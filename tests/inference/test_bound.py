"""The tangent bounds against quadrature, their definitions, plain EM and hostility."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, log_expit

from gpclass.inference import EP, Laplace, Outcome
from gpclass.inference.bound import TangentBound, TangentRule
from gpclass.inference.cavities import Copies
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, Probit
from gpclass.priors import DensePrior
from gpclass.testing import check_inference
from helpers import noisy_problem, rbf

BOTH = pytest.mark.parametrize("side", ["lower", "upper"])


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_laws(side, seed):
    check_inference(TangentBound(side), Logit(), seed=seed)


def brute_force(K, y, weights=None, mean=0.0, points=201):
    """Log evidence by the trapezoidal rule on a grid of whitened latents, for few rows."""
    n = len(y)
    weights = np.ones(n) if weights is None else weights
    t = np.linspace(-9, 9, points)
    grid = np.stack(np.meshgrid(*[t] * n, indexing="ij")).reshape(n, -1)
    f = np.linalg.cholesky(K) @ grid + np.reshape(mean, (-1, 1))
    log_p = (weights[:, None] * log_expit(y[:, None] * f)).sum(0) - 0.5 * (grid**2).sum(0)
    return np.log(np.exp(log_p).sum() * ((t[1] - t[0]) / np.sqrt(2 * np.pi)) ** n)


def both_sides(K, y, **options):
    return [
        TangentBound(side)(K, y, Logit(), **options).log_evidence for side in ("lower", "upper")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("signal", [0.3, 1.0, 3.0])
def test_the_truth_lies_between(n, signal):
    for seed in range(3):
        X, y = noisy_problem(n, seed)
        K = rbf(X, signal) + 1e-6 * np.eye(n)
        low, high = both_sides(K, y)
        assert low < brute_force(K, y) < high


@pytest.mark.slow
def test_the_truth_lies_between_with_weights_and_a_prior_mean():
    X, y = noisy_problem(3)
    weights, mean = np.array([0.4, 2.5, 1.0]), np.array([1.0, -2.0, 0.5])
    prior = DensePrior(rbf(X, 2.0), mean=mean)
    low, high = both_sides(prior, y, weights=weights)
    assert low < brute_force(prior.K, y, weights, mean) < high


def test_a_tight_prior_makes_both_bounds_exact():
    X, y = noisy_problem(3)
    K = 1e-10 * rbf(X)
    assert both_sides(K, y) == pytest.approx([3 * np.log(0.5)] * 2, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("signal", [0.5, 2.0, 20.0, 500.0])
def test_the_bounds_are_ordered(signal):
    for seed in range(3):
        X, y = noisy_problem(50, seed)
        K = rbf(X, signal)
        low, high = both_sides(K, y)
        assert low < high
        # not a law, but EP's error is far smaller than the gaps
        assert low < EP()(K, y, Logit()).log_evidence < high


def lower_bound(K, y, c, weights, mean):
    """log int p(f) prod of tangents at c, by the matrix that is never inverted otherwise."""
    slope = np.tanh(c / 2) / (4 * c)
    tau, nu = 2 * weights * slope, weights * (0.5 * y - 2 * slope * mean)
    C = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    at_zero = log_expit(c) - c / 2 + slope * c**2 + 0.5 * y * mean - slope * mean**2
    half_log_det = 0.5 * np.linalg.slogdet(np.eye(len(y)) + tau[:, None] * K)[1]
    return weights @ at_zero - half_log_det + 0.5 * nu @ C @ nu, C @ nu, np.diag(C)


def upper_bound(K, y, mu, weights, mean):
    nu = weights * y * mu
    entropy = -mu * np.log(mu) - (1 - mu) * np.log1p(-mu)
    return 0.5 * nu @ K @ nu + nu @ mean - weights @ entropy


def weighted_problem():
    X, y = noisy_problem(15)
    rng = np.random.default_rng(1)
    weights, mean = rng.uniform(0.2, 3.0, 15), rng.standard_normal(15)
    return DensePrior(rbf(X, 3.0) + 1e-3 * np.eye(15), mean=mean), y, weights, mean


def test_other_points_of_contact_make_the_lower_bound_worse():
    prior, y, weights, mean = weighted_problem()
    q = TangentBound("lower")(prior, y, Logit(), weights=weights)
    variance = q.posterior.with_covariance().variance
    c = np.sqrt((q.posterior.mean + mean) ** 2 + variance)
    best, m, v = lower_bound(prior.K, y, c, weights, mean)
    assert q.log_evidence == pytest.approx(best, abs=1e-10)
    np.testing.assert_allclose(q.posterior.mean, m, atol=1e-7)
    np.testing.assert_allclose(variance, v, rtol=1e-7)
    np.testing.assert_allclose(q.sites.tau, weights * np.tanh(c / 2) / (2 * c), atol=1e-9)
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-1, 1.0):
        other = c * np.exp(size * rng.standard_normal(15))
        assert lower_bound(prior.K, y, other, weights, mean)[0] < best


def test_other_slopes_make_the_upper_bound_worse():
    prior, y, weights, mean = weighted_problem()
    q = TangentBound("upper")(prior, y, Logit(), weights=weights)
    mu = q.posterior.mean_weights / (weights * y)
    best = upper_bound(prior.K, y, mu, weights, mean)
    assert q.log_evidence == pytest.approx(best, abs=1e-10)
    np.testing.assert_allclose(mu, expit(-y * (q.posterior.mean + mean)), atol=1e-9)
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-1, 1.0):
        other = expit(np.log(mu) - np.log1p(-mu) + size * rng.standard_normal(15))
        assert upper_bound(prior.K, y, other, weights, mean) > best


def test_sites_of_any_marginals_touch_at_the_second_moment_about_the_prior_mean():
    """``c^2 = (m + mean)^2 + v``, and the tangent's ``tau = tanh(c / 2) / (2 c)``."""
    prior, y, weights, mean = weighted_problem()
    rng = np.random.default_rng(3)
    m, v = rng.standard_normal(15), rng.uniform(0.1, 4.0, 15)
    c = np.sqrt((m + mean) ** 2 + v)
    tau = weights * np.tanh(c / 2) / (2 * c)
    rule = TangentRule(prior, Copies(Logit(), y, weights, mean))
    for rows in (None, np.array([3, 0, 11])):
        part = slice(None) if rows is None else rows
        sites = rule.target(m[part], v[part], np.zeros(15), np.zeros(15), rows)
        np.testing.assert_allclose(sites.tau, tau[part], rtol=1e-13)
        np.testing.assert_allclose(sites.nu, (weights * y / 2 - tau * mean)[part], rtol=1e-12)


@pytest.mark.parametrize(("signal", "times"), [(0.5, 1), (3.0, 1), (20.0, 3)])
def test_plain_em_ends_at_the_same_lower_bound_with_more_factorisations(signal, times):
    X, y = noisy_problem(20)
    K = rbf(X, signal) + 1e-2 * np.eye(20)
    q = TangentBound("lower")(K, y, Logit())
    c, last, steps = np.ones(20), -np.inf, 0
    while True:
        value, m, v = lower_bound(K, y, c, np.ones(20), np.zeros(20))
        assert value >= last - 1e-10
        c, old, last, steps = np.sqrt(m**2 + v), c, value, steps + 1
        if np.abs(c - old).max() < 1e-9:
            break
    assert q.log_evidence == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(q.posterior.mean, m, atol=1e-6)
    assert times * q.n_factorisations <= steps


def test_the_upper_bound_is_the_log_joint_density_at_the_mode():
    X, y = noisy_problem(40)
    K = rbf(X, 4.0)
    q, mode = TangentBound("upper")(K, y, Logit()), Laplace()(K, y, Logit())
    log_joint = mode.log_evidence + 0.5 * mode.posterior.factor.log_det
    assert q.log_evidence == pytest.approx(log_joint, abs=1e-9)
    np.testing.assert_allclose(q.posterior.mean, mode.posterior.mean, atol=1e-8)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_the_upper_bound_of_a_new_label_has_the_posterior_s_moments(label):
    """Derivatives of the bound by the weight of a new row, at weight zero: see `TangentBound`."""
    X, y = noisy_problem(13)
    K, y = rbf(X, 3.0), np.r_[y[:12], label]
    q = TangentBound("upper")(K[:12, :12], y[:12], Logit())
    mean, variance = q.posterior.predict(np.ascontiguousarray(K[:12, 12:]), K[12:, 12])
    step = 1e-4

    def bound(k):
        weights = np.r_[np.ones(12), k * step]
        return TangentBound("upper", tol=1e-12)(K, y, Logit(), weights=weights).log_evidence

    b = [bound(k) for k in range(5)]
    # one-sided differences, of fourth and third order
    first = (-25 * b[0] + 48 * b[1] - 36 * b[2] + 16 * b[3] - 3 * b[4]) / (12 * step)
    second = (35 * b[0] - 104 * b[1] + 114 * b[2] - 56 * b[3] + 11 * b[4]) / (12 * step**2)
    z = label * mean[0]
    assert first == pytest.approx(log_expit(z), rel=1e-6)
    assert second == pytest.approx(expit(-z) ** 2 * variance[0], rel=1e-3)


@BOTH
def test_extreme_latents_neither_overflow_nor_lose_the_bound(side):
    K = np.array([[1e6, 1e6 - 1.0], [1e6 - 1.0, 1e6]])
    for y in ([1.0, 1.0], [1.0, -1.0]):
        q = TangentBound(side)(K, y, Logit())
        assert q.outcome is Outcome.CONVERGED
        assert -20 < q.log_evidence < 0
        G = q.evidence_pullback()
        assert np.isfinite(G).all()
    far = DensePrior(np.eye(2), mean=np.array([1e4, -1e4]))
    assert TangentBound(side)(far, [1.0, -1.0], Logit()).log_evidence == pytest.approx(
        0.0, abs=1e-4
    )
    assert TangentBound(side)(far, [-1.0, 1.0], Logit()).log_evidence == pytest.approx(
        -2e4 + 1.0, abs=1e-4
    )


@BOTH
def test_a_prior_variance_of_zero(side):
    """Points of contact at c = 0, where lambda is 1 / 8 and the terms are exact."""
    q = TangentBound(side)(np.zeros((2, 2)), [1.0, -1.0], Logit())
    assert q.outcome is Outcome.CONVERGED
    assert q.log_evidence == pytest.approx(2 * np.log(0.5), abs=1e-15)
    if side == "lower":
        assert q.sites.tau.tolist() == [0.25, 0.25]


@BOTH
def test_small_points_of_contact_are_continuous(side):
    values = [TangentBound(side)([[t]], [1.0], Logit()).log_evidence for t in (0.0, 1e-17, 1e-15)]
    np.testing.assert_allclose(values, np.log(0.5), atol=1e-14)


def hostile(rows):
    rng = np.random.default_rng(0)
    for n, signal, length, twins in itertools.product(
        rows, (0.0, 1e-3, 1.0, 10.0, 100.0, 1e3), (1e-3, 0.3, 1.0, 10.0, 1e3), (0, 1, 2)
    ):
        X = rng.standard_normal((n, 2))
        y = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
        if twins == 1:
            X[n // 2 :], y[n // 2 :] = X[: n - n // 2], -y[n // 2 :]
        if twins == 2:
            X[:] = X[0]
        yield signal, length, X, y


@pytest.mark.parametrize("rows", [(2, 10, 60), pytest.param((300,), marks=pytest.mark.slow)])
def test_every_problem_converges(rows):
    for signal, length, X, y in hostile(rows):
        case = f"signal {signal}, length {length}, n {len(y)}"
        value = []
        for side in ("lower", "upper"):
            q = TangentBound(side)(rbf(X, signal, length), y, Logit())
            assert q.outcome in (Outcome.CONVERGED, Outcome.ROUNDING), (side, case)
            assert np.isfinite(q.evidence_pullback()).all(), (side, case)
            assert q.n_factorisations <= 80, (side, case)
            value.append(q.log_evidence)
        # independent rows of deviation 1000 have -3.5 each
        assert -4 * len(y) < value[0] <= value[1] + 1e-9, case
        assert value[1] <= 0, case


@BOTH
def test_warm_starts_from_any_method(side):
    X, y = noisy_problem(200)
    K = rbf(X, 3.0)
    cold = TangentBound(side)(K, y, Logit())
    starts = [TangentBound("lower"), TangentBound("upper"), EP(), Laplace()]
    for init in [m(K, y, Logit()) for m in starts] + [Sites(y, np.full(200, -1e-3))]:
        warm = TangentBound(side)(K, y, Logit(), init=init)
        assert warm.outcome is Outcome.CONVERGED
        assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-8)
    again = TangentBound(side)(K, y, Logit(), init=cold)
    assert again.n_factorisations < cold.n_factorisations


@BOTH
def test_the_iteration_limit_is_reported_and_the_bound_is_one(side):
    X, y = noisy_problem(30)
    K = rbf(X, 20.0)
    q = TangentBound(side, max_iter=2)(K, y, Logit())
    best = TangentBound(side)(K, y, Logit()).log_evidence
    assert q.outcome is Outcome.MAX_ITER
    assert q.log_evidence < best if side == "lower" else q.log_evidence > best


@BOTH
def test_other_likelihoods_are_refused(side):
    with pytest.raises(ValueError, match=r"'probit'.*logistic"):
        TangentBound(side)(np.eye(2), [1, -1], Probit())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [1, 0]}, "-1 and"),
        ({"weights": [1.0, -1.0]}, "weights"),
        ({"init": Sites(np.zeros(3), np.zeros(3))}, "init has 3 sites"),
    ],
)
@BOTH
def test_bad_arguments_are_named(side, arguments, words):
    call = {"prior": np.eye(2), "y": [1, -1], "likelihood": Logit()} | arguments
    with pytest.raises(ValueError, match=words):
        TangentBound(side)(**call)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"max_iter": 0}, "max_iter"), ({"tol": 0.0}, "tol"), ({"side": "both"}, "side must be")],
)
def test_bad_settings(settings, words):
    with pytest.raises(ValueError, match=words):
        TangentBound(**settings)
