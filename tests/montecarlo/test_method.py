import pickle

import numpy as np
import pytest
from tests.montecarlo.conftest import integrate

from gpclass.inference import EP, Outcome
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.montecarlo import MonteCarlo, SamplePosterior
from gpclass.montecarlo.method import MonteCarloApproximation
from gpclass.priors import DensePrior

QUICK = {"n_samples": 2000, "n_burn": 30, "n_chains": 40, "thin": 12, "n_temperatures": 100}


@pytest.mark.slow
@pytest.mark.parametrize("start", ["auto", "ep", "prior"])
def test_truth_on_a_small_problem(small, likelihood, start):
    K, y = small
    q = MonteCarlo(**QUICK, start=start)(K, y, likelihood)
    exact = integrate(K, y, likelihood)
    assert isinstance(q, MonteCarloApproximation)
    assert q.outcome is Outcome.CONVERGED
    assert q.converged
    assert abs(q.log_evidence - exact.log_evidence) < 4 * q.log_evidence_error < 0.3
    mean, variance = q.posterior.predict(K, np.diag(K))
    error = np.sqrt(exact.variance / q.draws.effective_sample_size)
    assert (np.abs(mean - exact.mean) < 4 * error).all()
    assert (np.abs(variance / exact.variance - 1) < 0.3).all()
    assert q.n_iter == 30 + 50 * 12


@pytest.mark.slow
def test_init_is_where_to_start(small):
    K, y = small
    ep = EP()(K, y, Probit())
    given = MonteCarlo(**QUICK)(K, y, Probit(), init=ep)
    own = MonteCarlo(**QUICK)(K, y, Probit())
    np.testing.assert_array_equal(given.sites.weights, own.sites.weights)
    assert given.log_evidence == own.log_evidence


def test_rebuilt_from_its_samples(small):
    K, y = small
    q = MonteCarlo(**QUICK, evidence=False)(K, y, Probit())
    samples = pickle.loads(pickle.dumps(q.sites))
    again = SamplePosterior.from_samples(K, samples)
    for one, other in zip(
        again.predict(K, np.diag(K)), q.posterior.predict(K, np.diag(K)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_no_evidence_and_no_gradient(small):
    K, y = small
    q = MonteCarlo(**QUICK, evidence=False)(K, y, NoisyThreshold(0.0))
    assert np.isnan(q.log_evidence)
    assert np.isnan(q.log_evidence_error)
    with pytest.raises(ValueError, match="no gradient of the evidence"):
        q.evidence_pullback()


def test_short_chains_say_so(small):
    K, y = small
    short = {"n_samples": 40, "n_burn": 0, "n_chains": 2, "thin": 1, "evidence": False}
    assert MonteCarlo(**short)(K, y, Probit()).outcome is Outcome.SHORT_CHAINS
    fewest = short | {"n_samples": 2, "n_chains": 1}
    assert not MonteCarlo(**fewest)(K, y, Probit()).converged


def test_bad_settings():
    with pytest.raises(ValueError, match="n_chains"):
        MonteCarlo(n_chains=0)
    with pytest.raises(ValueError, match="start must be"):
        MonteCarlo(start="laplace")


@pytest.mark.slow
def test_a_prior_mean_is_an_offset_of_the_latent():
    K, y, mean = np.array([[2.0]]), [1.0], np.array([1.5])
    q = MonteCarlo(**QUICK)(DensePrior(K, mean=mean), y, Probit())
    exact = Probit().tilted_moments(1.0, mean, K.diagonal())
    assert abs(q.log_evidence - exact.log_z[0]) < 4 * q.log_evidence_error < 0.1
    # latent values are about the mean
    error = np.sqrt(exact.variance / q.draws.effective_sample_size)
    assert abs(q.draws.mean - (exact.mean - mean)) < 4 * error
    far = MonteCarlo(**QUICK, start="prior")(DensePrior(K, mean=mean), y, Probit())
    assert abs(far.log_evidence - exact.log_z[0]) < 4 * far.log_evidence_error < 0.1
