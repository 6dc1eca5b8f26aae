"""Convergence diagnostics of chains: effective sample size and split R-hat."""

from typing import Final

import numpy as np

from gpclass.linalg import Array

# Draws a chain below which its halves have no variance.
MIN_DRAWS: Final = 4


def effective_sample_size(draws: Array) -> Array:
    """Number of independent draws whose average is as precise, all chains together.

    The autocorrelation ``rho_t = 1 - (W - c_t) / V`` combines the chains: W is the mean of their
    variances, V the variance of all draws, c_t the mean autocovariance at lag t. Its sums over
    pairs of lags are cut before the first that is not positive, and made monotone. The result is
    at most ``S log10(S)`` for S draws in all, which only antithetic chains approach.

    Parameters
    ----------
    draws : ndarray of shape (..., n_draws, n_chains)

    Returns
    -------
    ess : ndarray of shape (...)
        NaN where a chain has fewer than 4 draws; S where the draws do not differ.

    References
    ----------
    Geyer, Practical Markov chain Monte Carlo, Statistical Science 7, 1992, section 3.3; several
    chains: Gelman et al., Bayesian Data Analysis, 3rd edition, eq. 11.7 and 11.8.

    Examples
    --------
    >>> import numpy as np
    >>> independent = np.random.default_rng(0).standard_normal((500, 4))
    >>> 1500 < effective_sample_size(independent) < 2500
    np.True_
    """
    n_draws, n_chains = draws.shape[-2:]
    if n_draws < MIN_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    within, whole = _variances(draws)
    centred = draws - draws.mean(axis=-2, keepdims=True)
    # zeros to twice the length keep the circular correlation from wrapping round
    spectrum = np.fft.rfft(centred, 2 * n_draws, axis=-2)
    power = (spectrum.real**2 + spectrum.imag**2).sum(axis=-1)
    covariance = np.fft.irfft(power, 2 * n_draws, axis=-1)[..., :n_draws] / (n_draws * n_chains)
    constant = whole <= 0.0
    scale = np.where(constant, 1.0, whole)
    rho = 1.0 - (within[..., None] - covariance) / scale[..., None]
    rho[..., 0] = 1.0
    pairs = rho[..., : n_draws - n_draws % 2].reshape(*rho.shape[:-1], -1, 2).sum(axis=-1)
    initial = np.logical_and.accumulate(pairs > 0.0, axis=-1)
    monotone = np.minimum.accumulate(np.where(initial, pairs, 0.0), axis=-1)
    time = 2.0 * monotone.sum(axis=-1) - 1.0
    total = n_draws * n_chains
    ess = total / np.maximum(time, 1.0 / np.log10(total))
    return np.where(constant, float(total), ess)


def split_rhat(draws: Array) -> Array:
    """Square root of the variance of all half-chains over that within them; 1 when they agree.

    Parameters
    ----------
    draws : ndarray of shape (..., n_draws, n_chains)

    Returns
    -------
    rhat : ndarray of shape (...)
        NaN where a chain has fewer than 4 draws; 1 where the draws do not differ.

    References
    ----------
    Gelman et al., Bayesian Data Analysis, 3rd edition, section 11.4.
    """
    half = draws.shape[-2] // 2
    if draws.shape[-2] < MIN_DRAWS:
        return np.full(draws.shape[:-2], np.nan)
    halves = np.concatenate([draws[..., :half, :], draws[..., -half:, :]], axis=-1)
    within, whole = _variances(halves)
    differ = whole > 0.0
    ratio = np.where(differ, whole, 1.0) / np.where(within > 0.0, within, 1.0)
    return np.where(differ & (within <= 0.0), np.inf, np.sqrt(ratio))


def _variances(draws: Array) -> tuple[Array, Array]:
    """Mean variance within the chains, and the estimate of the whole variance (BDA3 eq. 11.3)."""
    n_draws, n_chains = draws.shape[-2:]
    within = draws.var(axis=-2, ddof=1).mean(axis=-1)
    whole = within * (n_draws - 1) / n_draws
    if n_chains > 1:
        whole = whole + draws.mean(axis=-2).var(axis=-1, ddof=1)
    return within, whole
