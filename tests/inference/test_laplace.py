"""Laplace's method against the textbook loop, brute force, other implementations and hostility."""

import itertools

import numpy as np
import pytest
from scipy.special import expit

from gpclass.inference import Laplace, Outcome
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, Probit
from gpclass.testing import check_inference
from helpers import rbf


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda x: x.name)
@pytest.mark.parametrize("seed", range(3))
def test_laws(likelihood, seed):
    check_inference(Laplace(), likelihood, seed=seed)


def textbook(K, y):
    """RW06 Algorithm 3.1 for the logistic, as printed, until nothing changes."""
    n = len(y)
    f = np.zeros(n)
    for _ in range(200):
        pi = expit(f)
        W = pi * (1 - pi)
        B = np.eye(n) + np.sqrt(W)[:, None] * K * np.sqrt(W)
        b = W * f + (y + 1) / 2 - pi
        a = b - np.sqrt(W) * np.linalg.solve(B, np.sqrt(W) * (K @ b))
        if np.allclose(K @ a, f, rtol=0, atol=1e-14):
            break
        f = K @ a
    value = -0.5 * a @ f - np.log1p(np.exp(-y * f)).sum() - 0.5 * np.linalg.slogdet(B)[1]
    return f, value


@pytest.mark.parametrize("signal", [0.5, 2.0, 5.0])
def test_the_textbook_loop_finds_the_same_mode(signal):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = np.where(X[:, 0] + rng.standard_normal(80) > 0, 1.0, -1.0)
    K = rbf(X, signal)
    q = Laplace()(K, y, Logit())
    f, value = textbook(K, y)
    np.testing.assert_allclose(q.posterior.mean, f, atol=1e-9)
    assert q.log_evidence == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda x: x.name)
def test_brute_force_bounds_the_error_for_two_rows(likelihood):
    K = np.array([[1.5, 0.9], [0.9, 2.0]])
    y = np.array([1.0, -1.0])
    t = np.linspace(-9, 9, 601)
    F = np.linalg.cholesky(K) @ np.stack(np.meshgrid(t, t, indexing="ij")).reshape(2, -1)
    log_p = likelihood.log_prob(y[:, None], F).sum(0) - 0.5 * (
        np.linalg.solve(np.linalg.cholesky(K), F) ** 2
    ).sum(0)
    truth = np.log(np.exp(log_p).sum() * (t[1] - t[0]) ** 2 / (2 * np.pi))
    q = Laplace()(K, y, likelihood)
    assert q.log_evidence == pytest.approx(truth, abs=0.06)
    assert q.log_evidence != pytest.approx(truth, abs=1e-6)


def hostile():
    rng = np.random.default_rng(0)
    for n, variance, length, twins in itertools.product(
        (2, 10, 60), (1e-10, 1e-4, 1.0, 1e4, 1e8), (1e-6, 0.3, 10.0, 1e6), (0, 1, 2)
    ):
        X = rng.standard_normal((n, 2))
        y = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
        if twins == 1:
            X[n // 2 :], y[n // 2 :] = X[: n - n // 2], -y[n // 2 :]
        if twins == 2:
            X[:] = X[0]
        yield np.sqrt(variance), length, X, y


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda x: x.name)
def test_newton_ends_at_the_mode_of_hostile_problems(likelihood):
    for signal, length, X, y in hostile():
        q = Laplace()(rbf(X, signal, length), y, likelihood)
        case = f"signal {signal}, length {length}, n {len(y)}"
        assert q.converged, case
        residual = likelihood.derivatives(y, q.posterior.mean).first - q.posterior.mean_weights
        if q.outcome is Outcome.CONVERGED:
            assert np.abs(residual).max() <= 1e-10, case
        assert np.isfinite(q.log_evidence), case
        assert np.isfinite(q.evidence_pullback()).all(), case


def test_the_iteration_limit_is_reported():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    q = Laplace(max_iter=1)(rbf(X, 20.0), y, Logit())
    assert q.outcome is Outcome.MAX_ITER
    assert not q.converged
    assert np.isfinite(q.log_evidence)
    assert "max_iter" in q.outcome.value


def test_warm_starts_need_fewer_factorisations():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(400) > 0, 1.0, -1.0)
    cold = Laplace()(rbf(X, 3.0), y, Logit())
    warm = Laplace()(rbf(X, 3.05), y, Logit(), init=cold)
    assert warm.n_factorisations < cold.n_factorisations
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [1, 0]}, "-1 and"),
        ({"y": [1, -1, 1]}, "one label for each"),
        ({"weights": [1.0, -1.0]}, "weights"),
        ({"weights": [1.0, np.nan]}, "weights"),
        ({"init": Sites(np.zeros(3), np.zeros(3))}, "init has 3 sites"),
        ({"prior": np.zeros((2, 3))}, "square"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    call = {"prior": np.eye(2), "y": [1, -1], "likelihood": Logit()} | arguments
    with pytest.raises(ValueError, match=words):
        Laplace()(**call)


@pytest.mark.parametrize("settings", [{"max_iter": 0}, {"tol": 0.0}, {"tol": np.nan}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match="max_iter"):
        Laplace(**settings)
