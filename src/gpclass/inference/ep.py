"""Expectation propagation (RW06 section 3.6)."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import (
    Approximation,
    Outcome,
    SitePosterior,
    as_problem,
    starting_sites,
)
from gpclass.inference.cavities import (
    Cavities,
    CavityDetail,
    CavityTerms,
    Copies,
    Rows,
    match,
)
from gpclass.inference.energy import Energy
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.double_loop import DoubleLoop
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.newton import ConcaveTerms, State, Terms
from gpclass.inference.solvers.rule import (
    DROWNED,
    LARGEST,
    End,
    Sweep,
    checked,
    mismatch,
    rounding_of,
    rounding_of_sites,
)
from gpclass.inference.solvers.sequential import SequentialSweeps
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.likelihoods.base import Likelihood, TiltedMoments
from gpclass.priors import Prior

Array = NDArray[np.float64]

# Sweeps where rounding alone decides.
FEW: Final = 5
SCHEDULES: Final = ("parallel", "sequential")


@final
@dataclass(frozen=True)
class EPApproximation(Approximation):
    """The Gaussian whose marginals match the tilted ones; `Approximation` has the other fields.

    Parameters
    ----------
    energy : Energy
    """

    energy: Energy

    def evidence_pullback(self) -> Any:
        """``d log Z_EP / dK``; see `SitePosterior.pullback`.

        The EP energy is stationary in the sites, so only K moves it: ``(a a^T - R) / 2``.

        References
        ----------
        RW06 eq. 5.27 (of the same book).
        """
        return self.posterior.pullback()

    def likelihood_gradient(self) -> Array:
        """``d log Z_EP / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.energy.copies.log_z_gradient(*self.energy.cavities)


class _Way(Protocol):
    def run(self, sites: Sites) -> End: ...


class _Detail(NamedTuple):
    cavities: Cavities
    moments: TiltedMoments


@final
@dataclass(frozen=True)
class EPRule:
    """Sites whose tilted moments are the marginals', by cavities of every copy of a row."""

    prior: Prior
    copies: Copies

    @property
    def copies_taken_out(self) -> Array:
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
        variance = posterior.variance
        residual = mismatch(target, posterior.sites, variance, count)
        return Sweep(posterior, cavities.v, target, residual, np.nan, _Detail(cavities, moments))

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites that match, as functions of marginals and the sites; NaN without a cavity."""
        count = self.copies.count if rows is None else self.copies.count[rows]
        x, v = Cavities.from_marginals(m, variance, nu / count, tau / count)
        improper = ~np.isfinite(v)
        x, v = np.where(improper, 0.0, x), np.where(improper, 1.0, v)
        update = match(self.copies.moments(x, v, rows), v)
        nothing = np.where(improper, np.nan, count)
        return Sites(nothing * update.nu, nothing * update.tau)

    def terms(self, v: Array) -> ConcaveTerms:
        """Concave terms under cavities of variance v."""
        return CavityTerms(self.copies, v)

    def hint(self, sweep: Sweep, v: Array) -> Terms:
        """Cavity means of the sweep, and the moments there."""
        (x, _), moments = sweep.detail
        found = moments if v is sweep.v else self.copies.moments(x, v)
        return Terms(0.0, x, x, CavityDetail(x, found))

    def sites(self, state: State) -> Sites:
        """Sites of a mode: its slope and curvature."""
        # these terms are concave: a negative precision is rounding
        tau = np.maximum(-state.terms.second, 0.0)
        return Sites(state.terms.first + tau * state.f, tau)


@final
@dataclass(frozen=True)
class EP:
    """Expectation propagation: sites whose tilted moments are the posterior's marginals.

    The parallel schedule needs few factorisations: see `gpclass.inference.solvers.variances`,
    where the variances that stay between them are those of the cavities, and the means are the
    mode of a concave problem (`gpclass.inference.cavities.CavityTerms`). The sequential
    schedule is RW06 Algorithm 3.5, its rank-one updates gathered into blocks. For likelihoods
    that are not log-concave, or jump, the parallel schedule is plain sweeps, damped where they
    turn back, with Newton's method at the end, and then the sequential one; site precisions may
    be negative. Where none of these ends at a fixed point a double loop takes over, which does
    not depend on luck (`gpclass.inference.solvers.double_loop`). All have the same fixed
    points.

    Parameters
    ----------
    schedule : {"parallel", "sequential"}, default="parallel"
    max_iter : int, default=100
        Sweeps over all rows, of each of the iterations that are tried.
    tol : float, default=1e-8
        Largest change of a site's natural parameters at which the sites count as matched, in
        units of the posterior's deviation where that is above one.

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

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {SCHEDULES}, got {self.schedule!r}")
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
        weights : array-like of shape (n,), default=None
            Powers of the likelihood terms.
        init : Approximation or Sites, default=None
            Where to start; None: at the prior.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        problem = as_problem(prior, y, weights)
        copies = Copies(likelihood, problem.y, problem.weights, problem.offset)
        rule = EPRule(problem.prior, copies)
        end = self._solve(rule, starting_sites(init, problem.prior))
        energy = Energy.of(copies, end.sweep.posterior)
        value = energy.value
        outcome = checked(end, value, problem.prior)
        return EPApproximation(
            posterior=end.sweep.posterior,
            log_evidence=value,
            outcome=outcome,
            n_iter=end.n_iter,
            n_factorisations=end.n_factorisations,
            energy=energy,
        )

    def _solve(self, rule: EPRule, sites: Sites) -> End:
        likelihood = rule.copies.likelihood
        # no iteration leads to a solution where rounding rules; see `checked`
        drowned = rounding_of(rule.prior) > DROWNED
        max_iter = min(self.max_iter, FEW) if drowned else self.max_iter
        sequential = SequentialSweeps(rule, self.tol, max_iter)
        # its steps are many and small where it is needed
        ways: list[_Way] = [DoubleLoop(rule, self.tol, 5 * max_iter)]
        if self.schedule == "sequential":
            ways.insert(0, sequential)
        elif likelihood.log_concave and likelihood.smooth:
            ways.insert(0, VarianceIteration(rule, self.tol, max_iter))
            sites = Sites(sites.nu, np.maximum(sites.tau, 0.0))
        else:
            parallel = NaturalSteps(rule, self.tol, max_iter, Outcome.CONVERGED)
            ways = [parallel, sequential, *ways]
        end = ways[0].run(sites)
        if drowned or rounding_of_sites(rule.prior, sites) > LARGEST:
            return end  # no other way leads on where rounding rules
        for way in ways[1:]:
            if end.outcome.converged:
                break
            # what is near a fixed point is the better start, and the better end if none is found
            near = end.sweep.residual <= LARGEST
            following = way.run(end.sweep.posterior.sites if near else sites).after(end)
            worse = following.sweep.residual > end.sweep.residual
            if worse and not following.outcome.converged:
                following = following._replace(sweep=end.sweep, outcome=end.outcome)
            end = following
        return end
