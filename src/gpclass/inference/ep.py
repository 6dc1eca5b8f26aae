"""Expectation propagation (RW06 section 3.6), all sites at once."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import (
    Approximation,
    Outcome,
    SitePosterior,
    as_problem,
    initial_sites,
)
from gpclass.inference.cavities import CavityDetail, CavityTerms, Copies, match
from gpclass.inference.newton import EPS, NewtonSearch, Terms
from gpclass.likelihoods.base import Likelihood, TiltedMoments
from gpclass.priors import Prior
from gpclass.sites import Sites

Array = NDArray[np.float64]

NEWTON_STEPS: Final = 60
# Factorisations without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 6
# Least fraction of a step, in the logarithms of the cavity variances.
SMALLEST_STEP: Final = 1.0 / 16.0


@final
@dataclass(frozen=True)
class EPApproximation(Approximation):
    """The Gaussian whose marginals match the tilted ones; `Approximation` has the fields."""

    def evidence_pullback(self) -> Array:
        """``d log Z_EP / dK``, ndarray of shape (n, n).

        The EP energy is stationary in the sites, so only K moves it: ``(a a^T - R) / 2``.

        References
        ----------
        RW06 eq. 5.27 (of the same book).
        """
        G: Array = self.posterior.factor.pullback(  # type: ignore[assignment]
            self.posterior.mean_weights, None
        )
        return G


class _Sweep(NamedTuple):
    """A posterior, its cavities, and the sites that would match there."""

    posterior: SitePosterior
    v: Array
    x: Array
    moments: TiltedMoments
    residual: float


@final
@dataclass(frozen=True)
class EP:
    """Expectation propagation, by factorisations for the variances and solves for the means.

    A parallel sweep of RW06 Algorithm 3.5 computes all marginals from one factor, and then all
    sites. Most of its sweeps serve the means, which need no new factor: here, between two
    factorisations, the cavity variances stay and the means are solved for to the end, a concave
    problem (`gpclass.inference.cavities.CavityTerms`) for the Newton iteration that Laplace's
    method uses too. What is left is a fixed point in the cavity variances, and it contracts fast.
    The fixed points are those of EP.

    Parameters
    ----------
    max_iter : int, default=100
        Renewals of the cavity variances.
    tol : float, default=1e-8
        Largest change of a site's natural parameters at which the sites count as matched, in
        units of the posterior's deviation where that is above one.

    References
    ----------
    RW06 Algorithms 3.5 and 3.6, eq. 3.65; Opper & Winther (2000) for cavities as unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> q = EP()(np.eye(2), [1, -1], Probit())
    >>> bool(np.isclose(q.log_evidence, 2 * np.log(0.5), atol=1e-10))
    True
    """

    max_iter: int = 100
    tol: float = 1e-8

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.max_iter < 1 or not self.tol > 0:
            raise ValueError(
                f"max_iter must be at least 1 and tol positive, got {self.max_iter}, {self.tol}"
            )

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> EPApproximation:
        """Find the sites whose tilted moments match.

        Parameters
        ----------
        prior : Prior, or array-like of shape (n, n)
            Prior of the latent values; an array is taken as `DensePrior`.
        y : array-like of shape (n,)
            Labels, -1 or +1.
        likelihood : Likelihood
            Log-concave.
        weights : array-like of shape (n,), default=None
            Powers of the likelihood terms.
        init : Approximation or Sites, default=None
            Where to start; None: at the prior.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths, and for a likelihood that is not log-concave.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        prior, labels, powers = as_problem(prior, y, weights)
        if not likelihood.log_concave:
            raise ValueError(f"EP needs a log-concave likelihood, and {likelihood.name!r} is not")
        copies = Copies(likelihood, labels, powers)
        sites = initial_sites(init, prior.n)
        if sites is None or (sites.tau < 0).any():
            sites = Sites(np.zeros(prior.n), np.zeros(prior.n))
        search = _FixedPoint(prior, copies, self.tol, self.max_iter)
        end = search.run(_sweep(copies, SitePosterior.from_sites(prior, sites)))
        return EPApproximation(
            posterior=end.sweep.posterior,
            log_evidence=_energy(copies, end.sweep),
            outcome=end.outcome,
            n_iter=end.n_iter,
            n_factorisations=end.n_factorisations,
        )


class _End(NamedTuple):
    """The best sweep, why the iteration ended, and what it took."""

    sweep: _Sweep
    outcome: Outcome
    n_iter: int
    n_factorisations: int


@final
@dataclass(frozen=True)
class _FixedPoint:
    """The iteration in the cavity variances."""

    prior: Prior
    copies: Copies
    tol: float
    max_iter: int

    def run(self, sweep: _Sweep) -> _End:
        """Iterate from a sweep."""
        best, v, last, damping, since_best = sweep, sweep.v, np.inf, 1.0, 0
        n_factorisations = 1
        # a rounding error of K of this size moves sites, whose precision is at most about one
        rounding = self.prior.n * EPS * float(self.prior.diagonal.max(initial=0.0))
        for n_iter in range(1, self.max_iter + 1):
            # Below tol one more factorisation is worth its price while it still gains a digit.
            stuck = sweep.residual > 0.1 * last
            if sweep.residual <= 0.1 * self.tol or (sweep.residual <= self.tol and stuck):
                return _End(sweep, Outcome.CONVERGED, n_iter, n_factorisations)
            if since_best > PATIENCE and best.residual <= rounding:
                return _End(best, Outcome.ROUNDING, n_iter, n_factorisations)
            if n_iter == self.max_iter:
                break
            if sweep.residual > last:
                damping = max(0.5 * damping, SMALLEST_STEP)
            elif sweep.residual < 0.9 * last:
                damping = min(2.0 * damping, 1.0)
            v = sweep.v if damping == 1.0 else v * (sweep.v / v) ** damping
            last = sweep.residual
            try:
                posterior, made = _solve_means(self.prior, self.copies, v, sweep, self.tol)
                n_factorisations += made
                sweep = _sweep(self.copies, posterior)
            except NotPositiveDefiniteError:
                # only overflow can bring this about: the prior itself was factorised before
                return _End(best, Outcome.STALLED, n_iter, n_factorisations)
            if not np.isfinite(sweep.residual):
                return _End(best, Outcome.STALLED, n_iter, n_factorisations)
            since_best = 0 if sweep.residual < 0.5 * best.residual else since_best + 1
            best = sweep if sweep.residual < best.residual else best
        outcome = Outcome.CONVERGED if best.residual <= self.tol else Outcome.MAX_ITER
        return _End(best, outcome, self.max_iter, n_factorisations)


def _sweep(copies: Copies, posterior: SitePosterior) -> _Sweep:
    """Cavities of a posterior and the sites that match under them."""
    count = copies.count
    tau, nu = posterior.sites.tau / count, posterior.sites.nu / count
    variance = posterior.factor.marginal_variances()
    # 1 / v = 1 / variance - tau; positive, since the other sites and the prior only add to it
    v = variance / np.maximum(1.0 - tau * variance, 1e-300)
    x = posterior.mean - v * (nu - tau * posterior.mean)
    moments = copies.moments(x, v)
    update = match(moments, v)
    # absolute, and relative to what the posterior leaves open: under a large signal variance the
    # natural parameters themselves are tiny
    reach = np.maximum(1.0, variance)
    residual = max(
        float((reach * np.abs(update.tau - tau)).max(initial=0.0)),
        float((np.sqrt(reach) * np.abs(update.nu - nu)).max(initial=0.0)),
    )
    return _Sweep(posterior, v, x, moments, residual)


def _solve_means(
    prior: Prior, copies: Copies, v: Array, sweep: _Sweep, tol: float
) -> tuple[SitePosterior, int]:
    """Posterior means that EP has for cavities of variance v, and the factorisations made."""
    # what the cavity variances are still off by need not be undercut by far
    goal = max(1e-2 * tol, min(1e-3, 1e-2 * sweep.residual))
    search = NewtonSearch(prior, CavityTerms(copies, v), goal, NEWTON_STEPS)
    posterior = sweep.posterior
    if np.any(posterior.sites.tau):
        found = CavityDetail(sweep.x, sweep.moments if v is sweep.v else copies.moments(sweep.x, v))
        hint = Terms(0.0, sweep.x, sweep.x, found)
        start = search.at(posterior.mean_weights, posterior.mean, hint)
        mode = search.run(start, posterior.factor)
    else:
        zero = np.zeros(prior.n)
        mode = search.run(search.at(zero, zero), None)
    state = mode.state
    tau = -state.terms.second
    # conditioning on the new sites is one more Newton step, by a factor that is needed anyway
    sites = Sites(state.terms.first + tau * state.f, tau)
    return SitePosterior.from_sites(prior, sites), mode.n_factorisations + 1


def _energy(copies: Copies, sweep: _Sweep) -> float:
    """``log Z_EP`` of the posterior's sites (RW06 eq. 3.65).

    ``log int p(f) prod site df + sum (log Z_i - log int cavity_i site_i df)``, the first
    ``-log |B| / 2 + nu^T m / 2``, the integral under the cavity in closed form.
    """
    posterior, v, x = sweep.posterior, sweep.v, sweep.x
    count = copies.count
    tau, nu = posterior.sites.tau / count, posterior.sites.nu / count
    scale = 1.0 + tau * v
    overlap = -0.5 * np.log(scale) + 0.5 * (v * nu**2 + 2 * x * nu - tau * x**2) / scale
    return (
        -0.5 * posterior.factor.log_det
        + 0.5 * float(posterior.sites.nu @ posterior.mean)
        + float(count @ (sweep.moments.log_z - overlap))
    )
