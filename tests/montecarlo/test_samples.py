import numpy as np
import pytest
from scipy.special import logsumexp

from gpclass.likelihoods import Logit, Probit
from gpclass.montecarlo import SamplePosterior, Samples


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2))
    X[3] = X[4]
    new = rng.standard_normal((150, 2))

    def kernel(A, B):
        return 9.0 * np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(-1))

    K = kernel(X, X)
    samples = Samples(rng.standard_normal((12, 37)))
    return SamplePosterior.from_samples(K, samples), K, kernel(X, new), np.full(150, 9.0)


def test_moments_are_those_of_the_mixture(posterior):
    p, K, K_cross, k_diag = posterior
    means = p.samples.weights.T @ K_cross
    reduced = (K_cross * (np.linalg.pinv(K, hermitian=True) @ K_cross)).sum(0)
    mean, variance = p.predict(K_cross, k_diag)
    np.testing.assert_allclose(mean, means.mean(0), atol=1e-12)
    np.testing.assert_allclose(variance, k_diag - reduced + means.var(0), atol=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=lambda x: x.name)
def test_probabilities_are_averages_of_probabilities(posterior, likelihood):
    p, K, K_cross, k_diag = posterior
    means = p.samples.weights.T @ K_cross
    rest = k_diag - (K_cross * (np.linalg.pinv(K, hermitian=True) @ K_cross)).sum(0)
    log_p = p.log_probabilities(likelihood, K_cross, k_diag)
    for column, label in enumerate((-1.0, 1.0)):
        each = likelihood.tilted_moments(label, means, np.maximum(rest, 0.0)).log_z
        np.testing.assert_allclose(
            log_p[:, column], logsumexp(each, axis=0) - np.log(37), rtol=1e-7, atol=1e-10
        )
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1.0, atol=1e-14)


def test_small_probabilities_keep_their_digits():
    p = SamplePosterior.from_samples(np.eye(1), Samples(np.array([[30.0, 32.0]])))
    log_p = p.log_probabilities(Probit(), np.ones((1, 1)), np.ones(1))
    expected = np.log(0.5) + logsumexp(Probit().log_prob(-1.0, np.array([30.0, 32.0])))
    assert log_p[0, 0] == pytest.approx(expected, rel=1e-12)
    assert -1e-190 < log_p[0, 1] <= 0.0


def test_a_skewed_mixture_takes_the_smaller_side():
    # the mean is positive though nearly every sample is far below zero
    weights = np.r_[np.full(999, -9.0), 1e5][None]
    p = SamplePosterior.from_samples(np.eye(1), Samples(weights))
    log_p = p.log_probabilities(Probit(), np.ones((1, 1)), np.ones(1))
    assert log_p[0, 1] == pytest.approx(np.log(1e-3), rel=1e-12)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=lambda x: x.name)
def test_a_row_does_not_depend_on_its_batch(posterior, likelihood):
    p, _, K_cross, k_diag = posterior
    mean, variance = p.predict(K_cross, k_diag)
    log_p = p.log_probabilities(likelihood, K_cross, k_diag)
    for part in (slice(0, 1), slice(77, 78), slice(60, 70), slice(3, 150)):
        there = p.predict(K_cross[:, part], k_diag[part])
        np.testing.assert_array_equal(there[0], mean[part])
        np.testing.assert_array_equal(there[1], variance[part])
        np.testing.assert_array_equal(
            p.log_probabilities(likelihood, K_cross[:, part], k_diag[part]), log_p[part]
        )


def test_offset_is_the_prior_mean(posterior):
    p, _, K_cross, k_diag = posterior
    log_p = p.log_probabilities(Probit(), K_cross, k_diag, np.full(150, 100.0))
    assert (log_p[:, 1] > log_p[:, 0]).all()
    same = p.log_probabilities(Probit(), K_cross, k_diag, np.zeros(150))
    np.testing.assert_array_equal(same, p.log_probabilities(Probit(), K_cross, k_diag))


def test_nothing_to_predict(posterior):
    p, _, K_cross, k_diag = posterior
    assert p.log_probabilities(Probit(), K_cross[:, :0], k_diag[:0]).shape == (0, 2)


def test_bad_shapes(posterior):
    p, K, K_cross, k_diag = posterior
    with pytest.raises(ValueError, match="K_cross must have shape"):
        p.predict(K_cross[:5], k_diag)
    with pytest.raises(ValueError, match="K_cross must have shape"):
        p.predict(K_cross, k_diag[:5])
    with pytest.raises(ValueError, match="weights must have shape"):
        Samples(np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        Samples(np.full((3, 1), np.nan))
    with pytest.raises(ValueError, match="samples are of 2 rows"):
        SamplePosterior.from_samples(K, Samples(np.zeros((2, 3))))
