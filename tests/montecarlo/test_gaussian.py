import numpy as np
import pytest

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Probit
from gpclass.montecarlo.gaussian import LatentGaussian, SiteTerms
from gpclass.priors import DensePrior


def given(gaussian, nu, tau):
    return gaussian.given(SiteTerms.of(Sites(nu, tau)))


def test_prior_has_the_covariance_and_pairs_belong_together(small):
    K, _ = small
    g = LatentGaussian.prior(K)
    (root,) = g.roots
    np.testing.assert_allclose(root @ root.T, K, atol=1e-12)
    f, a = g.draw(np.random.default_rng(0), 20000)
    np.testing.assert_allclose(K @ a, f, atol=1e-10)
    np.testing.assert_allclose(g.inverse_times(f), a, atol=1e-10)
    np.testing.assert_allclose(np.cov(f), K, atol=0.15)


def test_a_singular_prior_needs_no_jitter():
    x = np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    g = LatentGaussian.prior(K)
    assert g.rank == 2
    f, a = g.draw(np.random.default_rng(0), 7)
    np.testing.assert_allclose(f[0], f[1], atol=1e-14)
    np.testing.assert_allclose(K @ a, f, atol=1e-13)
    zero = LatentGaussian.prior(np.zeros((2, 2)))
    assert zero.rank == 0
    assert not zero.draw(np.random.default_rng(0), 3).f.any()
    assert given(zero, np.ones(2), np.ones(2)).log_mass == 0.0


def test_given_sites_is_the_site_posterior(small):
    K, y = small
    sites = EP()(K, y, Probit()).sites
    q, g = SitePosterior.from_sites(DensePrior(K), sites), LatentGaussian.prior(K)
    kept = [part.copy() for part in (*g.roots, *g.weight_roots)]
    b = g.given(SiteTerms.of(sites))
    np.testing.assert_allclose(b.mean, q.mean, atol=1e-12)
    np.testing.assert_allclose(b.mean_weights, q.mean_weights, atol=1e-12)
    Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(sites.tau))
    (root,), (weight_root,) = b.roots, b.weight_roots
    np.testing.assert_allclose(root @ root.T, Sigma, atol=1e-12)
    np.testing.assert_allclose(K @ weight_root, root, atol=1e-12)
    # the prior is not touched, whatever the memory order of its eigenvectors
    for part, before in zip((*g.roots, *g.weight_roots), kept, strict=True):
        np.testing.assert_array_equal(part, before)


@pytest.mark.parametrize("tau", [(0.7, 0.2, 1.5), (-0.05, 0.3, 0.4)])
def test_mass_is_that_of_the_integral(small, tau):
    K, _ = small
    sites = Sites(np.array([0.4, -1.0, 0.3]), np.array(tau))
    P = np.linalg.inv(K) + np.diag(sites.tau)
    logs = -0.5 * (np.linalg.slogdet(K)[1] + np.linalg.slogdet(P)[1])
    expected = logs + 0.5 * sites.nu @ np.linalg.solve(P, sites.nu)
    assert given(LatentGaussian.prior(K), sites.nu, sites.tau).log_mass == pytest.approx(
        expected, abs=1e-12
    )


def test_what_cannot_be_is_refused(small):
    K, _ = small
    g = LatentGaussian.prior(K)
    with pytest.raises(NotPositiveDefiniteError, match="no proper Gaussian"):
        given(g, np.zeros(3), np.full(3, -1.0))
    with pytest.raises(ValueError, match="some already"):
        given(given(g, np.ones(3), np.ones(3)), np.ones(3), np.ones(3))
    with pytest.raises(NotPositiveDefiniteError):
        LatentGaussian.prior(np.array([[1.0, 2.0], [2.0, 1.0]]))
