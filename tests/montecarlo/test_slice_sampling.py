import numpy as np
import pytest
from tests.montecarlo.conftest import integrate

from gpclass.inference import EP
from gpclass.inference.sites import Sites
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.montecarlo import elliptical_slice_sampling

SHORT = {"n_samples": 400, "n_burn": 20, "n_chains": 10, "thin": 1}


def deviations(draws, exact):
    """Posterior means and variances in units of their standard errors."""
    n_effective = draws.effective_sample_size
    mean = (draws.mean - exact.mean) / np.sqrt(exact.variance / n_effective)
    spread = (draws.variance / exact.variance - 1) / np.sqrt(3.0 / n_effective)
    return np.r_[mean, spread]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["prior", "sites"])
def test_moments_are_those_of_quadrature(small, likelihood, start):
    K, y = small
    init = EP()(K, y, Probit()) if start == "sites" else None
    draws = elliptical_slice_sampling(
        K,
        y,
        likelihood,
        n_samples=20000,
        n_burn=50,
        n_chains=200,
        thin=10,
        random_state=1,
        init=init,
    )
    assert draws.effective_sample_size.min() > 1500
    assert draws.rhat.max() < 1.03
    assert draws.n_stuck == 0
    assert np.abs(deviations(draws, integrate(K, y, likelihood))).max() < 4


def test_negative_site_precisions_can_guide(small):
    K, y = small
    init = Sites(np.array([0.5, -0.5, 0.2]), np.array([0.3, 0.3, -0.05]))
    draws = elliptical_slice_sampling(
        K, y, Probit(), n_samples=10000, n_burn=50, n_chains=100, thin=3, random_state=2, init=init
    )
    assert np.abs(deviations(draws, integrate(K, y, Probit()))).max() < 4


@pytest.mark.slow
def test_a_weight_is_a_repetition(small):
    K, y = small
    draws = elliptical_slice_sampling(
        K,
        y,
        Probit(),
        weights=[2, 1, 0],
        n_samples=10000,
        n_burn=50,
        n_chains=100,
        thin=3,
        random_state=3,
    )
    twice = [0, 0, 1]
    repeated = elliptical_slice_sampling(
        K[np.ix_(twice, twice)],
        y[twice],
        Probit(),
        n_samples=10000,
        n_burn=50,
        n_chains=100,
        thin=3,
        random_state=4,
    )
    np.testing.assert_allclose(repeated.f[0], repeated.f[1], atol=1e-6)
    error = np.sqrt(2 * draws.variance[:2] / draws.effective_sample_size[:2])
    assert (np.abs(draws.mean[:2] - repeated.mean[[0, 2]]) < 4 * error).all()
    assert np.abs(deviations(draws, integrate(K, y, Probit(), [2, 1, 0]))).max() < 4


def test_weights_of_draws_reproduce_them(small):
    K, y = small
    draws = elliptical_slice_sampling(K, y, Probit(), random_state=0, **SHORT)
    assert draws.f.shape == draws.a.shape == (3, 40, 10)
    np.testing.assert_allclose(np.einsum("ij,jsr->isr", K, draws.a), draws.f, atol=1e-10)
    expected = Probit().log_prob(y[:, None, None], draws.f).sum(0)
    np.testing.assert_allclose(draws.log_likelihood, expected, atol=1e-12)
    assert draws.samples.weights.shape == (3, 400)


def test_bits_depend_on_the_random_state_only(small):
    K, y = small

    def run(seed, **more):
        return elliptical_slice_sampling(K, y, Probit(), random_state=seed, **SHORT, **more).f

    calls = []
    np.testing.assert_array_equal(run(7), run(7, progress=lambda *now: calls.append(now)))
    assert calls[0] == (1, 60)
    assert calls[-1] == (60, 60)
    assert (run(7) != run(8)).any()
    state = np.random.RandomState(0)
    first = run(state)
    assert (first != run(state)).any()
    np.testing.assert_array_equal(first, run(np.random.RandomState(0)))


def test_a_line_on_stderr(small, capsys):
    K, y = small
    elliptical_slice_sampling(K, y, Probit(), random_state=0, progress=True, **SHORT)
    captured = capsys.readouterr()
    assert captured.err.endswith("elliptical slice sampling: 100 %\n")
    assert not captured.out


def test_one_chain_and_uneven_counts(small):
    K, y = small
    draws = elliptical_slice_sampling(
        K, y, Probit(), n_samples=50, n_burn=0, n_chains=1, thin=1, random_state=0
    )
    assert draws.f.shape == (3, 50, 1)
    assert np.isfinite(draws.rhat).all()
    uneven = elliptical_slice_sampling(
        K, y, Probit(), n_samples=10, n_burn=0, n_chains=4, thin=1, random_state=0
    )
    assert uneven.f.shape == (3, 3, 4)


def test_a_hard_threshold_truncates():
    draws = elliptical_slice_sampling(
        np.eye(2),
        [1, -1],
        NoisyThreshold(0.0),
        n_samples=4000,
        n_burn=100,
        n_chains=40,
        thin=2,
        random_state=0,
    )
    assert (draws.f[0] > 0).all()
    assert (draws.f[1] < 0).all()
    np.testing.assert_allclose(draws.mean, np.sqrt(2 / np.pi) * np.array([1, -1]), atol=0.06)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"n_burn": -1}, "n_burn"),
        ({"n_chains": 1.5}, "n_chains"),
        ({"thin": True}, "thin"),
        ({"weights": [1, -1, 1]}, "weights"),
        ({"init": Sites(np.zeros(2), np.zeros(2))}, "init must have sites of 3 rows"),
    ],
)
def test_bad_arguments(small, more, match):
    K, y = small
    with pytest.raises(ValueError, match=match):
        elliptical_slice_sampling(K, y, Probit(), **more)


def test_bad_init(small):
    K, y = small
    with pytest.raises(TypeError, match="init must be"):
        elliptical_slice_sampling(K, y, Probit(), init="ep")
