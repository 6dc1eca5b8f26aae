"""The laws of a prior."""

import numpy as np
from numpy.typing import NDArray

from gpclass.priors import Prior

Array = NDArray[np.float64]


def check_prior(prior: Prior, *, seed: int = 0, rtol: float = 1e-8) -> None:
    """Check the laws that the docstrings of `Prior` and `SiteFactor` state.

    Parameters
    ----------
    prior : Prior
        With at most a few hundred latent values: the laws are checked with n^3 loops.
    seed : int, default=0
        Of the random site precisions and vectors.
    rtol : float, default=1e-8
        Relative to the largest entry of what is compared.

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
    for tau in (np.zeros(n), rng.uniform(0.0, 2.0, n), 10.0 ** rng.uniform(-12, 3, n)):
        factor = prior.factor(tau)
        _close("tau is what was given", factor.tau, tau, rtol)
        system = np.eye(n) + tau[:, None] * K
        # relative to the terms that cancel in the residual
        size = float((np.abs(system) @ np.abs(factor.shrink(v))).max())
        _close("shrink solves (I + T K) x = r", system @ factor.shrink(v), v, rtol, size)
        Sigma = np.stack([prior.multiply(factor.shrink(e)) for e in np.eye(n)])
        _close(
            "marginal_variances is the diagonal of multiply(shrink(.))",
            factor.marginal_variances(),
            np.diagonal(Sigma),
            rtol,
        )
        _close("log_det is that of I + T K", factor.log_det, np.linalg.slogdet(system)[1], rtol)
        R = np.stack([factor.shrink(tau * e) for e in np.eye(n)])
        _close(
            "reduced_variance is diag(K' R K)",
            factor.reduced_variance(K.copy()),
            np.diagonal(K @ R @ K),
            rtol,
        )


def _close(law: str, got: object, want: object, rtol: float, scale: float = 0.0) -> None:
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    scale = max(1e-300, scale, float(np.abs(want).max(initial=0.0)))
    error = float(np.abs(got - want).max(initial=0.0)) / scale
    assert error <= rtol, f"{law}: off by {error:.2e} of the largest entry, allowed {rtol:g}"
