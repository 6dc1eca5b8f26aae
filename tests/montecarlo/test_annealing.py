import numpy as np
import pytest
from tests.montecarlo.conftest import integrate

from gpclass.inference import EP
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.montecarlo import annealed_importance_sampling

GUIDED = pytest.mark.parametrize("guides", ["none", "auto"])


@pytest.mark.slow
@GUIDED
def test_evidence_from_the_prior(small, likelihood, guides):
    K, y = small
    estimate = annealed_importance_sampling(
        K, y, likelihood, n_chains=500, n_temperatures=100, guides=guides, random_state=0
    )
    assert estimate.standard_error < 0.04
    exact = integrate(K, y, likelihood).log_evidence
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error


@pytest.mark.slow
def test_evidence_from_an_approximation(small, likelihood):
    K, y = small
    start = EP()(K, y, Probit())
    estimate = annealed_importance_sampling(
        K, y, likelihood, n_chains=500, n_temperatures=100, start=start, random_state=0
    )
    assert estimate.standard_error < 0.03
    exact = integrate(K, y, likelihood).log_evidence
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error


def test_evidence_from_sites_of_negative_precision(small):
    K, y = small
    start = Sites(np.array([0.5, -0.5, 0.2]), np.array([0.3, 0.3, -0.05]))
    estimate = annealed_importance_sampling(
        K, y, Logit(), n_chains=500, n_temperatures=100, start=start, random_state=0
    )
    exact = integrate(K, y, Logit()).log_evidence
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["adaptive", "power"])
@pytest.mark.parametrize("start", ["prior", "ep"])
def test_errors_are_as_large_as_they_say(small, start, schedule):
    K, y = small
    exact = integrate(K, y, Probit()).log_evidence
    begin = "prior" if start == "prior" else EP()(K, y, Probit())
    z = []
    for seed in range(40):
        estimate = annealed_importance_sampling(
            K,
            y,
            Probit(),
            n_chains=60,
            n_temperatures=20,
            start=begin,
            schedule=schedule,
            guides="none",
            random_state=seed,
        )
        z.append((estimate.log_evidence - exact) / estimate.standard_error)
    # 40 standard normal numbers: mean 0 +- 0.16, deviation 1 +- 0.11
    assert abs(np.mean(z)) < 0.65
    assert 0.65 < np.std(z) < 1.45


@pytest.mark.slow
def test_singular_prior_and_weights_as_repetitions(small):
    K, y = small
    twice = [0, 0, 1]
    settings = {"n_chains": 400, "n_temperatures": 60}
    repeated = annealed_importance_sampling(
        K[np.ix_(twice, twice)], y[twice], Probit(), random_state=0, **settings
    )
    weighted = annealed_importance_sampling(
        K, y, Probit(), weights=[2, 1, 0], random_state=1, **settings
    )
    exact = integrate(K, y, Probit(), [2, 1, 0]).log_evidence
    for estimate in (repeated, weighted):
        assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error < 0.15


def test_nothing_to_learn_is_exact(small):
    K, y = small
    estimate = annealed_importance_sampling(
        K, y, Probit(), weights=np.zeros(3), n_chains=5, n_temperatures=5, random_state=0
    )
    assert estimate.log_evidence == 0.0
    assert estimate.standard_error == 0.0
    assert estimate.effective_sample_size == estimate.n_chains == 5


def test_one_chain_has_no_error_estimate(small):
    K, y = small
    estimate = annealed_importance_sampling(
        K, y, Probit(), n_chains=1, n_temperatures=50, random_state=0
    )
    assert np.isfinite(estimate.log_evidence)
    assert estimate.standard_error == np.inf
    assert estimate.effective_sample_size == 1


@pytest.mark.slow
@pytest.mark.parametrize("n_temperatures", [1, 2, 7])
def test_few_temperatures(small, n_temperatures):
    K, y = small
    estimate = annealed_importance_sampling(
        K, y, Probit(), n_chains=2000, n_temperatures=n_temperatures, random_state=0
    )
    assert estimate.temperatures[0] == 0
    assert estimate.temperatures[-1] == 1
    assert (np.diff(estimate.temperatures) > 0).all()
    exact = integrate(K, y, Probit()).log_evidence
    assert abs(estimate.log_evidence - exact) < 4 * estimate.standard_error


@pytest.mark.slow
def test_bits_depend_on_the_random_state_only(small):
    K, y = small
    calls = []

    def run(seed, progress=None):
        return annealed_importance_sampling(
            K, y, Probit(), n_chains=8, n_temperatures=60, random_state=seed, progress=progress
        ).log_weights

    np.testing.assert_array_equal(run(3), run(3, lambda *now: calls.append(now)))
    assert (run(3) != run(4)).any()
    assert calls[-1] == (110, 110)


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"n_chains": 0}, ValueError, "n_chains"),
        ({"n_temperatures": 0}, ValueError, "n_temperatures"),
        ({"start": "ep"}, ValueError, "start must be"),
        ({"start": None}, TypeError, "start must be"),
        ({"start": 3}, TypeError, "start must be"),
        ({"schedule": "linear"}, ValueError, "schedule must be"),
        ({"guides": "laplace"}, ValueError, "guides must be"),
        ({"start": Sites(np.zeros(2), np.zeros(2))}, ValueError, "start must have sites of 3 rows"),
    ],
)
def test_bad_arguments(small, more, error, match):
    K, y = small
    with pytest.raises(error, match=match):
        annealed_importance_sampling(K, y, Probit(), **more)


def test_a_likelihood_that_is_zero_somewhere_is_refused(small):
    K, y = small
    with pytest.raises(ValueError, match="positive everywhere"):
        annealed_importance_sampling(K, y, NoisyThreshold(0.0), guides="none", random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("signal", [3.0, 10.0])
def test_both_starts_agree_on_a_hundred_points(signal):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(100) > 0, 1.0, -1.0)
    K = signal**2 * np.exp(-((X[:, None] - X) ** 2).sum(-1) / 6)
    near = annealed_importance_sampling(K, y, Probit(), start=EP()(K, y, Probit()), random_state=0)
    far = annealed_importance_sampling(K, y, Probit(), n_temperatures=3000, random_state=0)
    assert near.standard_error < 0.05
    assert far.standard_error < 0.2
    error = np.hypot(near.standard_error, far.standard_error)
    assert abs(near.log_evidence - far.log_evidence) < 4 * error
