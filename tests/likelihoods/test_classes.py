import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr

from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.classes import (
    MultinomialProbitLikelihood,
    SoftmaxLikelihood,
    log_mean_orthant,
)

BOTH = pytest.mark.parametrize(
    "likelihood", [SoftmaxLikelihood(), MultinomialProbitLikelihood()], ids=lambda q: q.name
)


@BOTH
@pytest.mark.parametrize("C", [2, 3, 5, 20])
def test_probabilities_sum_to_one(likelihood, C):
    F = np.random.default_rng(C).normal(scale=4.0, size=(3, 7, C))
    assert likelihood.probabilities(F).shape == F.shape
    assert np.abs(likelihood.probabilities(F).sum(axis=-1) - 1).max() < 1e-10


@BOTH
def test_only_contrasts_matter_and_classes_permute(likelihood):
    rng = np.random.default_rng(0)
    F, codes, order = rng.normal(scale=3.0, size=(6, 4)), np.array([0, 1, 2, 3, 1, 2]), [2, 0, 3, 1]
    value = likelihood.log_prob(codes, F)
    assert np.allclose(likelihood.log_prob(codes, F + 7.0), value, atol=1e-10)
    permuted = likelihood.log_prob(np.argsort(order)[codes], F[:, order])
    assert np.allclose(permuted, value, atol=1e-10)
    # chains before rows, in whatever memory order
    chains = np.moveaxis(np.stack([F, -F], axis=-1), -1, 0)
    assert np.array_equal(likelihood.log_prob(codes, chains)[0], value)


def test_two_classes_are_the_binary_likelihoods():
    f = np.linspace(-30.0, 30.0, 61)
    F, y = np.stack([np.zeros(61), f], axis=1), np.ones(61, dtype=int)
    logit = Logit().log_prob(1.0, f)
    assert np.allclose(SoftmaxLikelihood().log_prob(y, F), logit, rtol=1e-12, atol=1e-12)
    probit = Probit().log_prob(1.0, f / np.sqrt(2.0))
    assert np.abs(MultinomialProbitLikelihood().log_prob(y, F) - probit).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("J", [1, 2, 5, 9, 49])
def test_integral_over_the_shared_noise(J):
    rng = np.random.default_rng(J)
    scale = rng.choice([0.1, 1.0, 3.0, 10.0, 40.0], size=200)
    z = rng.normal(size=(J, 200)) * scale + rng.choice([-4.0, 0.0, 2.0, 5.0], size=200)
    # points 0.006 apart around the mode, found by bisection
    low, high = np.zeros(200), np.full(200, 300.0)
    for _ in range(60):
        u = 0.5 * (low + high)
        slope = np.exp(stats.norm.logpdf(z + u) - log_ndtr(z + u)).sum(axis=0) - u
        low, high = np.where(slope > 0, u, low), np.where(slope > 0, high, u)
    u = low + np.linspace(-12.0, 12.0, 4001)[:, None]
    log_f = stats.norm.logpdf(u) + sum(log_ndtr(row + u) for row in z)
    exact = np.logaddexp.reduce(log_f, axis=0) + np.log(24.0 / 4000)
    assert np.abs(log_mean_orthant(z) - exact).max() < 1e-10


def test_extremes_are_finite():
    z = np.array([[1e300, -1e300, -100.0, 50.0], [1e300, 3.0, -100.0, -1e6]])
    found = log_mean_orthant(z)
    assert np.isfinite(found).all()
    assert (found <= 0.0).all()
    # far in the tail: u must do the work of both, log Z = -z^2 / 3 and a little
    assert found[2] == pytest.approx(-(100.0**2) / 3, rel=1e-2)


@BOTH
def test_the_probit_scale_is_that_of_the_differences(likelihood):
    # near in the middle, where most rows are
    F = np.random.default_rng(1).normal(size=(200, 3))
    scaled = MultinomialProbitLikelihood().probabilities(F / likelihood.probit_scale)
    assert np.abs(likelihood.probabilities(F) - scaled).max() < 0.05
