import numpy as np
import pytest

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import SitePosterior
from gpclass.inference.sites import Sites
from gpclass.priors import DensePrior
from gpclass.testing import check_prior


def covariance(n, signal=1.0, length=1.0, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return signal**2 * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / length**2)


@pytest.mark.parametrize(
    ("n", "signal"),
    [(1, 1e-3), (2, 1.0), (40, 30.0), (64, 1e-3), (65, 1.0), (65, 30.0), (130, 30.0)],
)
def test_laws(n, signal):
    check_prior(DensePrior(covariance(n, signal)), rtol=1e-7)


def test_laws_of_a_singular_covariance():
    check_prior(DensePrior(np.ones((9, 9))))


def test_pullback_is_half_of_aa_minus_R_plus_the_implicit_term():
    K = covariance(30)
    rng = np.random.default_rng(1)
    tau, a, slope = rng.uniform(0.1, 1, 30), rng.standard_normal(30), rng.standard_normal(30)
    R = np.linalg.inv(K + np.diag(1 / tau))
    Sigma = K - K @ R @ K
    u = np.linalg.solve(np.eye(30) + tau[:, None] * K, slope * np.diag(Sigma))
    want = 0.5 * (np.outer(a, a) - R) + 0.5 * (np.outer(u, a) + np.outer(a, u))
    factor = DensePrior(K).factor(tau)
    np.testing.assert_allclose(
        factor.covariance().pullback(a, slope * np.diag(Sigma)), want, atol=1e-10
    )
    np.testing.assert_allclose(
        factor.covariance().pullback(a, None), 0.5 * (np.outer(a, a) - R), atol=1e-10
    )


def test_tiny_and_zero_precisions_keep_the_digits_of_the_variance():
    K = covariance(50)
    tau = np.full(50, 1e-30)
    tau[:10] = 0.0
    np.testing.assert_allclose(DensePrior(K).factor(tau).covariance().variances, np.diag(K))
    tau[10:] = 0.5
    R = (
        np.diag(np.sqrt(tau))
        @ np.linalg.inv(np.eye(50) + np.sqrt(tau)[:, None] * K * np.sqrt(tau))
        @ np.diag(np.sqrt(tau))
    )
    want = np.diag(K - K @ R @ K)
    np.testing.assert_allclose(DensePrior(K).factor(tau).covariance().variances, want, rtol=1e-9)


def test_not_positive_semi_definite_names_the_kernel_and_the_remedy():
    prior = DensePrior(np.array([[1.0, 5.0], [5.0, 1.0]]), "my kernel")
    with pytest.raises(NotPositiveDefiniteError, match=r"my kernel.*WhiteKernel"):
        prior.factor(np.ones(2))


def test_not_finite_names_the_kernel():
    with pytest.raises(NotPositiveDefiniteError, match="my kernel gives NaN or infinity"):
        DensePrior(np.array([[1.0, np.inf], [np.inf, 1.0]]), "my kernel")


def test_not_square():
    with pytest.raises(ValueError, match="square"):
        DensePrior(np.zeros((2, 3)))


def test_posterior_has_its_covariance_only_where_it_was_formed():
    posterior = SitePosterior.from_sites(DensePrior(covariance(5)), Sites(np.ones(5), np.ones(5)))
    with pytest.raises(ValueError, match="with_covariance"):
        _ = posterior.variance
    formed = posterior.with_covariance()
    assert formed.with_covariance() is formed
    G = posterior.pullback()
    np.testing.assert_array_equal(G, formed.pullback())
    np.testing.assert_array_equal(G, formed.pullback())  # nothing is used up
    assert formed.without_covariance().covariance is None
