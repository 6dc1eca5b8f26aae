import numpy as np
import pytest

from gpclass.montecarlo import effective_sample_size, split_rhat


def autoregressive(rho, n_draws, n_chains, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty((n_draws, n_chains))
    x[0] = rng.standard_normal(n_chains)
    for t in range(1, n_draws):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(n_chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.3])
@pytest.mark.parametrize("n_chains", [1, 8])
def test_an_autoregression_has_the_size_that_theory_says(rho, n_chains):
    x = autoregressive(rho, 16000 // n_chains, n_chains)
    expected = x.size * (1 - rho) / (1 + rho)
    assert effective_sample_size(x) == pytest.approx(expected, rel=0.15)
    assert split_rhat(x) == pytest.approx(1.0, abs=0.02)


def test_latents_are_measured_one_by_one():
    x = np.stack([autoregressive(rho, 500, 4, seed) for seed, rho in enumerate((0.0, 0.8))])
    ess, rhat = effective_sample_size(x), split_rhat(x)
    assert ess.shape == rhat.shape == (2,)
    for i in range(2):
        assert ess[i] == effective_sample_size(x[i])
        assert rhat[i] == split_rhat(x[i])


def test_chains_apart_or_drifting_are_found():
    x = autoregressive(0.0, 200, 4)
    apart = x + np.array([0.0, 0.0, 0.0, 3.0])
    assert split_rhat(apart) > 1.3
    assert effective_sample_size(apart) < 20
    assert split_rhat((x + np.linspace(0, 4, 200)[:, None])[:, :1]) > 1.3


def test_constant_and_short_chains():
    assert effective_sample_size(np.ones((10, 3))) == 30
    assert split_rhat(np.ones((10, 3))) == 1
    assert split_rhat(np.ones((10, 3)) * np.arange(3)) == np.inf
    assert np.isnan(effective_sample_size(np.ones((3, 3))))
    assert np.isnan(split_rhat(np.ones((3, 3))))
