"""Expectation propagation (RW06 section 3.6)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

from gpclass.inference.approximation import Approximation, Outcome, SitePosterior, described
from gpclass.inference.cavities import Cavities, CavityDetail, CavityTerms, Copies, Rows, match
from gpclass.inference.energy import Energy
from gpclass.inference.method import GaussianMethod, check_choice, check_limits, usable_sites
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.double_loop import DoubleLoop
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.newton import ModePoint
from gpclass.inference.solvers.response import FOURTH, SiteJacobian, site_slopes
from gpclass.inference.solvers.rule import SiteRule, Solver, Sweep, first_to_converge, mismatch
from gpclass.inference.solvers.sequential import SequentialSweeps
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.linalg import Array
from gpclass.priors import Prior

SCHEDULES: Final = ("parallel", "sequential")


@final
@dataclass(frozen=True)
class EPApproximation(Approximation):
    """The Gaussian whose marginals match the tilted ones (RW06 section 3.6), and its EP energy.

    Parameters
    ----------
    posterior, log_evidence, outcome, n_iter, n_factorisations
        As in `Approximation`. The log evidence is ``log Z_EP`` (RW06 eq. 3.65).
    energy : Energy
        Cavities and tilted moments at the end.

    Examples
    --------
    One row, where EP is exact: ``Z = Phi(0) = 1/2``, and ``m = 2 phi(0) / sqrt(2)``.

    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> q = EP()([[1.0]], [1], Probit())
    >>> q
    EPApproximation(CONVERGED, log_evidence=-0.693147, n_sites=1)
    >>> q.posterior.mean.round(6)
    array([0.56419])
    """

    __repr__ = described

    energy: Energy

    def evidence_pullback(self) -> Any:
        """``d log Z_EP / dK`` at fixed sites, where it is stationary (RW06 eq. 5.27)."""
        return self.posterior.pullback()

    def likelihood_gradient(self) -> Array:
        """``d log Z_EP / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.energy.copies.log_z_gradient(*self.energy.cavities)

    def site_jacobian(self, prior: Prior, copies: Copies) -> SiteJacobian:
        """Through the cavities, which move with the sites."""
        return SiteJacobian.of(EPRule(prior, copies), self.posterior, FOURTH).resolved()

    def site_slopes(self, prior: Prior, copies: Copies) -> Array:
        """Derivatives of the matching sites by the likelihood's theta, through the cavities too."""
        return site_slopes(EPRule(prior, copies), self.posterior)


@final
@dataclass(frozen=True)
class EPRule(SiteRule):
    """Sites whose tilted moments are the marginals', by cavities of every copy of a row."""

    @property
    def cavity_counts(self) -> Array:
        """Copies of each row: sites depend on cavities."""
        return self.copies.count

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Cavities of a posterior and the sites that match under them."""
        posterior = posterior.with_covariance()
        count = self.copies.count
        cavities = Cavities.of(posterior, count)
        if not cavities.proper:
            return Sweep(posterior, cavities.v, posterior.sites, np.inf, np.nan, None)
        moments = self.copies.moments(*cavities)
        update = match(moments, cavities.v)
        target = Sites(count * update.nu, count * update.tau)
        residual = mismatch(target, posterior.sites, posterior.variance, count)
        detail = CavityDetail(cavities.x, moments)
        return Sweep(posterior, cavities.v, target, residual, np.nan, detail)

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites that match, as functions of marginals and the sites; NaN without a cavity."""
        count = self.copies.count if rows is None else self.copies.count[rows]
        x, v = Cavities.from_marginals(m, variance, nu / count, tau / count)
        improper = ~np.isfinite(v)
        x, v = np.where(improper, 0.0, x), np.where(improper, 1.0, v)
        update = match(self.copies.moments(x, v, rows), v)
        usable = np.where(improper, np.nan, count)
        return Sites(usable * update.nu, usable * update.tau)

    def terms(self, v: Array) -> ConcaveTerms:
        """Concave terms under cavities of variance v."""
        return CavityTerms(self.copies, v)

    def hint(self, sweep: Sweep, v: Array) -> Terms:
        """Cavity means of the sweep, and the moments there."""
        x, moments = sweep.detail
        if not np.array_equal(v, sweep.v):
            moments = self.copies.moments(x, v)
        return Terms(0.0, x, x, CavityDetail(x, moments))

    def sites(self, mode: ModePoint) -> Sites:
        """Sites of a mode: its slope and curvature."""
        # these terms are concave: a negative precision is rounding
        tau = np.maximum(-mode.terms.second, 0.0)
        return Sites(mode.terms.first + tau * mode.f, tau)


@final
@dataclass(frozen=True)
class EP(GaussianMethod[EPApproximation]):
    """Expectation propagation: sites whose tilted moments are the posterior's marginals.

    The parallel schedule needs few factorisations: see `gpclass.inference.solvers.variances`,
    where the variances that stay between them are those of the cavities, and the means are the
    mode of a concave problem (`gpclass.inference.cavities.CavityTerms`). The sequential
    schedule is RW06 Algorithm 3.5, its rank-one updates gathered into blocks. For likelihoods
    that are not log-concave, or jump, the parallel schedule is plain sweeps, damped where they
    turn back, with Newton's method at the end, and then the sequential one; site precisions may
    be negative. Where none of these ends at a fixed point a double loop takes over, which
    converges where there is one (`gpclass.inference.solvers.double_loop`). All have the same fixed
    points.

    Parameters
    ----------
    schedule : {"parallel", "sequential"}, default="parallel"
    max_iter : int, default=100
        Sweeps over all rows, of the first solver.
    tol : float, default=1e-8
        Largest change of a site's natural parameters at which the sites count as matched, in
        units of the posterior's deviation where that is above one.
    fallback : int, default=6
        Sweeps that all solvers which take over from the first may make together, in units of
        `max_iter`; 0 for the first solver alone.

    References
    ----------
    RW06 Algorithms 3.5 and 3.6, eq. 3.65; KG06 section 3; Opper & Winther (2000) for cavities as
    unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> q = EP()(np.eye(2), [1, -1], Probit())
    >>> bool(np.isclose(q.log_evidence, 2 * np.log(0.5), atol=1e-10))
    True
    """

    schedule: str = "parallel"
    max_iter: int = 100
    tol: float = 1e-8
    fallback: int = 6

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_choice("schedule", self.schedule, SCHEDULES)
        check_limits(self.max_iter, self.tol, self.fallback)

    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> EPApproximation:
        """Find the sites whose tilted moments match."""
        rule, sites = EPRule(prior, copies), usable_sites(init, prior)
        concave = copies.likelihood.log_concave and copies.likelihood.smooth
        if concave and self.schedule == "parallel":
            sites = Sites(sites.nu, np.maximum(sites.tau, 0.0))
        end = first_to_converge(
            rule, self._solvers(rule, concave), sites, self.max_iter, self.fallback
        )
        last, detail = end.sweep, end.sweep.detail
        if detail is None:  # a cavity that is not proper, which this says
            energy = Energy.of(copies, last.posterior)
        else:
            cavities = Cavities(detail.cavity_mean, last.v)
            energy = Energy(copies, last.posterior, cavities, detail.moments)
        return EPApproximation(*end.fields(rule, energy.value), energy)

    def _solvers(self, rule: EPRule, concave: bool) -> list[Callable[[int], Solver]]:
        sequential = partial(SequentialSweeps, rule, self.tol)
        double_loop = partial(DoubleLoop, rule, self.tol)
        if self.schedule == "sequential":
            return [sequential, double_loop]
        if concave:
            return [partial(VarianceIteration, rule, self.tol), double_loop]
        parallel = partial(NaturalSteps, rule, self.tol, outcome=Outcome.CONVERGED)
        return [parallel, sequential, double_loop]
