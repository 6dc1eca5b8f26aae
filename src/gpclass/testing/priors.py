"""The laws of a prior."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.linalg import Array
from gpclass.priors import Prior, PriorForm, SiteFactor
from gpclass.testing.comparison import check_close


def check_prior(
    prior: Prior, *, seed: int = 0, rtol: float = 1e-8, for_ep_only: bool = False
) -> None:
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
    for_ep_only : bool, default=False
        Leave out the laws that EP on log-concave likelihoods does not need: negative precisions,
        which such sites never have, and cotangents of K, of which a `NestedPrior` has only those
        by the covariances of the classes.

    Raises
    ------
    AssertionError
        Naming the law that fails.
    """
    rng = np.random.default_rng(seed)
    n = prior.n
    K = np.stack([prior.multiply(e) for e in np.eye(n)])
    check_close("multiply is symmetric", K, K.T, rtol)
    check_close("diagonal is that of multiply", prior.diagonal, np.diagonal(K), rtol)
    v, w = rng.standard_normal((2, n))
    both = 2 * prior.multiply(v) - prior.multiply(w)
    check_close("multiply is linear", prior.multiply(2 * v - w), both, rtol)
    # K^-1 has no eigenvalue below this
    lowest = 1.0 / float(linalg.symmetric_eigen(K)[0].max())
    both = rng.uniform(-0.6, 1.5, n) * lowest
    both[0] = -0.5 * lowest
    few = np.where(np.arange(n) % 5 == 0, -0.5 * lowest, rng.uniform(0.0, 1.0, n))
    taus = [np.zeros(n), rng.uniform(0.0, 2.0, n), 10.0 ** rng.uniform(-12, 3, n)]
    if not for_ep_only:
        taus += [both, few, np.full(n, -0.5 * lowest)]
    for tau in taus:
        factor = prior.factor(tau)
        check_close("tau is what was given", factor.tau, tau, rtol)
        P = _check_factor(factor, K, v, rtol)
        _check_sequential(prior, factor, K @ P, rng, rtol)
        if not for_ep_only:
            _check_pullback(prior, factor, K, P, rng, rtol)
    improper = np.zeros(n)
    i = int(np.argmax(prior.diagonal))
    improper[i] = -2.0 / float(prior.diagonal[i])
    for tau in (improper, np.full(n, -2.0 * lowest)):
        try:
            prior.factor(tau)
        except NotPositiveDefiniteError:
            continue
        raise AssertionError("a posterior that is not proper must be refused by factor")


def _check_factor(factor: SiteFactor, K: Array, v: Array, rtol: float) -> Array:
    """Laws of a factor; returns ``P = (I + T K)^-1`` by its own solves."""
    n, tau = len(K), factor.tau
    units = np.eye(n)
    system = units + tau[:, None] * K
    # relative to the terms that cancel in the residual
    size = float((np.abs(system) @ np.abs(factor.solve(v))).max())
    check_close("solve is by I + T K", system @ factor.solve(v), v, rtol, size)
    # |I + T K| = |det(J + S K S)|, which is symmetric
    s, signs = np.sqrt(np.abs(tau)), np.where(tau < 0.0, -1.0, 1.0)
    log_det = np.log(np.abs(linalg.symmetric_eigen(s[:, None] * K * s + np.diag(signs))[0])).sum()
    check_close("log_det is that of I + T K", factor.log_det, log_det, rtol)
    P = np.stack([factor.solve(e) for e in units], axis=1)
    Sigma = K @ P
    # the covariances with some new latents, as the factor takes them and in full
    B = np.stack([factor.new_weights(e) for e in units])
    K_cross = B.T @ K
    full = B @ K_cross
    reduced = full.T @ (P * tau) @ full
    found = factor.reduced_variance(K_cross.copy())
    check_close("reduced_variance is diag(K' R K)", found, np.diagonal(reduced), rtol)
    found = factor.conditional_covariance(K_cross.copy(), K.copy())
    size = max(float(np.abs(K).max()), float(np.abs(reduced).max()))
    check_close("conditional_covariance is K - K' R K", found, K - reduced, rtol, size)
    explained = K_cross.T @ factor.explained_precision(len(K_cross)) @ K_cross
    check_close("explained_precision is R", explained, reduced, rtol, size)
    covariance = factor.covariance()
    check_close("variances are those of Sigma", covariance.variances, np.diagonal(Sigma), rtol)
    if factor.has_products:
        products, scaled = covariance.products(), s[:, None] * Sigma * s
        # S Sigma S has no entry above one where T has one sign
        found = np.stack([s * products.multiply(s * e) for e in units])
        check_close("multiply is by Sigma", found, scaled, rtol, 1.0)
        found = np.stack([s**2 * products.multiply_squared(s**2 * e) for e in units])
        check_close("multiply_squared is by Sigma o Sigma", found, scaled**2, rtol, 1.0)
    return P


def _check_pullback(
    prior: Prior, factor: SiteFactor, K: Array, P: Array, rng: np.random.Generator, rtol: float
) -> None:
    """Cotangents along K itself."""
    tau, covariance = factor.tau, factor.covariance()
    a, g, h = rng.standard_normal((3, len(K)))
    h = np.where(tau == 0.0, 0.0, h)
    explicit = 0.5 * (a @ K @ a - ((P * tau) * K).sum())
    by_means, by_variances = g @ P.T @ K @ a, h @ np.diagonal(P.T @ K @ P)
    size = 0.5 * a @ K @ a + abs(by_means) + np.abs(h) @ covariance.variances
    for law, arguments, want in (
        ("pullback", (a,), explicit),
        ("pullback of means", (a, g), explicit + by_means),
        ("pullback of means and variances", (a, g, h), explicit + by_means + by_variances),
        ("pullback of variances", (a, None, h), explicit + by_variances),
    ):
        along_K = prior.inner(covariance.pullback(*arguments))
        check_close(f"{law}, along K", along_K, want, rtol, float(size))


def _check_sequential(
    prior: Prior, factor: SiteFactor, Sigma: Array, rng: np.random.Generator, rtol: float
) -> None:
    """Rows of Sigma before and after a change of the precisions of a block."""
    n, tau = len(Sigma), factor.tau.copy()
    K_size = float(prior.diagonal.max())
    sequential = factor.sequential_covariance()
    part = slice(n // 3, n // 3 + max(1, n // 4))
    rows = sequential.rows(part)
    shared = np.array([sequential.own_variance(i, tau) for i in range(n)])
    close = "rows of the sequential covariance are those of Sigma"
    check_close(close, rows, (Sigma - np.diag(shared))[part], rtol, K_size)
    d_tau = rng.uniform(0.0, 1.0, part.stop - part.start) / K_size
    sequential.update(part, rows, d_tau)
    tau[part] += d_tau
    changed = prior.factor(tau).covariance().variances
    for i in range(n):
        variance = sequential.rows(slice(i, i + 1))[0, i] + sequential.own_variance(i, tau)
        check_close("update changes the precisions of a block", variance, changed[i], rtol, K_size)


def check_prior_form(
    form: PriorForm, kernel: Kernel, X: ArrayLike, *, seed: int = 0, rtol: float = 1e-6
) -> None:
    """Check a form: `check_prior` of what it makes, ``pull`` by central differences, ``cross``.

    ``kernel`` has some free hyperparameters and ``X`` at most a few hundred rows; ``rtol`` is
    relative to the gradient's largest entry. The AssertionError names the law that fails.
    """
    X = np.asarray(X)
    prior = form.make(kernel, X, 0.0)
    prior.check()
    check_prior(prior, seed=seed)
    shifted = form.make(kernel, X, 0.5)
    check_close("jitter is added to the variances", shifted.diagonal, prior.diagonal + 0.5, rtol)
    rng = np.random.default_rng(seed)
    nu, g, h = rng.standard_normal((3, prior.n))
    tau = rng.uniform(0.1, 2.0, prior.n)

    def evidence(theta: Array) -> float:
        there = form.make(kernel.clone_with_theta(theta), X, 0.0)
        factor = there.factor(tau)
        m = there.multiply(factor.solve(nu))
        terms = 0.5 * (nu @ m - factor.log_det) + g @ m + h @ factor.covariance().variances
        return float(terms)

    factor = prior.factor(tau)
    G = factor.covariance().pullback(factor.solve(nu), g, h)
    steps = 1e-5 * np.eye(len(kernel.theta))
    slopes = [(evidence(kernel.theta + s) - evidence(kernel.theta - s)) / 2e-5 for s in steps]
    check_close("pull is the gradient by theta", form.pull(kernel, X, prior, G), slopes, rtol)
    K_cross, k_diag = form.cross(kernel, X, X[: min(3, len(X))] + 0.1)
    size = len(factor.new_weights(nu))
    assert K_cross.shape == (size, len(k_diag)), f"K_cross has shape {K_cross.shape}"
    assert len(form.points(X)) == size, f"there are {len(form.points(X))} points"
    left = k_diag - factor.reduced_variance(K_cross)
    assert (left >= -rtol * k_diag).all(), f"new variances given the sites: {left.min()}"
