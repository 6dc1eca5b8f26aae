"""The laws of a prior."""

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.priors import Prior, SiteFactor

Array = NDArray[np.float64]


def check_prior(prior: Prior, *, seed: int = 0, rtol: float = 1e-8) -> None:
    """Check the laws that the docstrings of `Prior` and `SiteFactor` state.

    Site precisions of one sign and of both; every answer against its formula in dense matrices;
    `NotPositiveDefiniteError` for precisions so negative that the posterior is not proper.

    Parameters
    ----------
    prior : Prior
        With at most a few hundred latent values: the laws are checked with n^3 loops. Not all of
        its variances are zero.
    seed : int, default=0
        Of the random site precisions and vectors.
    rtol : float, default=1e-8
        Relative to the largest entry of what is compared, or of what cancels in it.

    Raises
    ------
    AssertionError
        Naming the law that fails.
    """
    rng = np.random.default_rng(seed)
    n = prior.n
    K = np.stack([prior.multiply(e) for e in np.eye(n)])
    _close("multiply is symmetric", K, K.T, rtol)
    _close("diagonal is that of multiply", prior.diagonal, np.diagonal(K), rtol)
    v, w = rng.standard_normal((2, n))
    _close(
        "multiply is linear",
        prior.multiply(2 * v - w),
        2 * prior.multiply(v) - prior.multiply(w),
        rtol,
    )
    # K^-1 has no eigenvalue below this
    lowest = 1.0 / float(np.linalg.eigvalsh(K).max())
    both = rng.uniform(-0.6, 1.5, n) * lowest
    both[0] = -0.5 * lowest
    few = np.where(np.arange(n) % 5 == 0, -0.5 * lowest, rng.uniform(0.0, 1.0, n))
    for tau in (
        np.zeros(n),
        rng.uniform(0.0, 2.0, n),
        10.0 ** rng.uniform(-12, 3, n),
        both,
        few,
        np.full(n, -0.5 * lowest),
    ):
        _check_factor(prior.factor(tau), K, tau, rng, rtol)
    improper = np.zeros(n)
    i = int(np.argmax(prior.diagonal))
    improper[i] = -2.0 / float(prior.diagonal[i])
    for tau in (improper, np.full(n, -2.0 * lowest)):
        try:
            prior.factor(tau)
        except NotPositiveDefiniteError:
            continue
        raise AssertionError("a posterior that is not proper must be refused by factor")


def _check_factor(
    factor: SiteFactor, K: Array, tau: Array, rng: np.random.Generator, rtol: float
) -> None:
    n = len(tau)
    v = rng.standard_normal(n)
    _close("tau is what was given", factor.tau, tau, rtol)
    system = np.eye(n) + tau[:, None] * K
    # relative to the terms that cancel in the residual
    size = float((np.abs(system) @ np.abs(factor.shrink(v))).max())
    _close("shrink solves (I + T K) x = r", system @ factor.shrink(v), v, rtol, size)
    _close("log_det is that of I + T K", factor.log_det, np.linalg.slogdet(system)[1], rtol)
    P = np.stack([factor.shrink(e) for e in np.eye(n)], axis=1)
    R, Sigma = P * tau, K @ P
    K_size = float(np.abs(K).max())
    _close(
        "marginal_variances is the diagonal of multiply(shrink(.))",
        factor.marginal_variances(),
        np.diagonal(Sigma),
        rtol,
    )
    _close("reduced_variance is diag(K' R K)", factor.reduced_variance(K.copy()), _diag(K, R), rtol)
    _close("multiply is by Sigma", factor.multiply(v), Sigma @ v, rtol, K_size)
    lower = np.tril_indices(n)
    _close("covariance is Sigma", factor.covariance()[lower], Sigma[lower], rtol, K_size)
    # S Sigma S has no entry above one where T has one sign
    s = np.sqrt(np.abs(tau))
    want = s[:, None] * Sigma * s
    for last in (False, True):
        weighted = s[:, None] * factor.weighted_covariance(last=last) * s
        _close("weighted_covariance is Sigma", weighted[lower], want[lower], rtol, 1.0)

    a, g, h = rng.standard_normal((3, n))
    # where a site says nothing the evidence does not ask for its marginal
    h = np.where(tau == 0.0, 0.0, h)
    explicit = 0.5 * (np.outer(a, a) - R)
    u = P @ g
    means = 0.5 * (np.outer(u, a) + np.outer(a, u))
    variances = (P * h) @ P.T
    for law, arguments, cotangent in (
        ("pullback", (a,), explicit),
        ("pullback of means", (a, g), explicit + means),
        ("pullback of means and variances", (a, g, h), explicit + means + variances),
        ("pullback of variances", (a, None, h), explicit + variances),
    ):
        G = np.asarray(factor.pullback(*arguments))
        _close(law, G, cotangent, rtol)
        _close(f"{law} is symmetric", G, G.T, rtol)
    factor.release()
    again = factor.pullback(a, g, h)
    _close("pullback after release", again, explicit + means + variances, rtol)
    _close("variances after release", factor.marginal_variances(), np.diagonal(Sigma), rtol)


def _diag(K: Array, R: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", K, R @ K))


def _close(law: str, got: object, want: object, rtol: float, scale: float = 0.0) -> None:
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    scale = max(1e-300, scale, float(np.abs(want).max(initial=0.0)))
    error = float(np.abs(got - want).max(initial=0.0)) / scale
    assert error <= rtol, f"{law}: off by {error:.2e} of the largest entry, allowed {rtol:g}"
