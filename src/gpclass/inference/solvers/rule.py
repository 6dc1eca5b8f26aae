"""What the solvers ask of a method, how they end, and which one takes over from which."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, Self, final

import numpy as np

from gpclass.inference.approximation import LARGEST_EVIDENCE, Outcome, SitePosterior
from gpclass.inference.cavities import Copies, Rows
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.newton import ModePoint
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.linalg import EPS, Array
from gpclass.priors import Prior

# Largest mismatch that is attributed to rounding where site precisions grow without bound.
ROUNDING_OF_LARGE_SITES: Final = 1e-6
# A residual (`Sweep.residual`) above this is no solution, and no start for another solver.
LARGEST_RESIDUAL: Final = 1e-3
# Rounding of K, in its own units, that is as large as the information of a label: the precision
# of a probit or logit site is at most one.
LARGEST_ROUNDING: Final = 0.25
# Sweeps where rounding of K leaves no solution to be found.
SWEEPS_UNDER_ROUNDING: Final = 5
# Rounding of an objective, in units of float64's at its size: it is a sum over pairs of rows.
OBJECTIVE_NOISE: Final = 1e4


class Sweep(NamedTuple):
    """A posterior, its marginals' ``target`` sites, and their `mismatch`, the ``residual``.

    The sites depend on the variances ``v``: of the cavities for EP, else of the posterior.
    ``objective`` must not fall; it is NaN where the method has none.
    """

    posterior: SitePosterior
    v: Array
    target: Sites
    residual: float
    objective: float
    detail: Any

    def without_covariance(self) -> "Sweep":
        """The same without the memory of the posterior's covariance."""
        return self._replace(posterior=self.posterior.without_covariance())


@dataclass(frozen=True)
class SiteRule(ABC):
    """How sites follow from the posterior: one method, on one prior and likelihood terms."""

    prior: Prior
    copies: Copies

    @final
    def with_likelihood(self, theta: Array) -> Self:
        """The same rule at other hyperparameters of the likelihood."""
        likelihood = self.copies.likelihood.with_theta(theta)
        return replace(self, copies=replace(self.copies, likelihood=likelihood))

    @property
    @abstractmethod
    def cavity_counts(self) -> Array | None:
        """Copies of each row where `target` takes one out of the posterior first, else None."""

    @abstractmethod
    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Sites that the marginals ask for; the posterior is given its covariance."""

    @abstractmethod
    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites of all rows, or some, as functions of their marginals and sites."""

    @abstractmethod
    def terms(self, v: Array) -> ConcaveTerms:
        """Terms whose mode has the means that belong to variances v."""

    @abstractmethod
    def hint(self, sweep: Sweep, v: Array) -> Terms | None:
        """Where searches inside the terms of v may start, from a sweep nearby."""

    @abstractmethod
    def sites(self, mode: ModePoint) -> Sites:
        """Sites at a mode of the terms."""


class MarginalRule(SiteRule):
    """A rule whose sites are functions of the marginals and of the likelihood alone."""

    @property
    def cavity_counts(self) -> None:
        """None: there are no cavities."""
        return None

    def hint(self, sweep: Sweep, v: Array) -> None:
        """None: nothing is searched for inside the terms."""


class Solver(Protocol):
    """An iteration that searches for sites that match."""

    def run(self, sites: Sites) -> "SolverResult":
        """Iterate from sites."""


class SolverResult(NamedTuple):
    """The best sweep, why the iteration ended, and what it took."""

    sweep: Sweep
    outcome: Outcome
    n_iter: int
    n_factorisations: int

    def after(self, first: "SolverResult") -> "SolverResult":
        """Count the cost of the iteration that this one took over from."""
        return self._replace(
            n_iter=first.n_iter + self.n_iter,
            n_factorisations=first.n_factorisations + self.n_factorisations,
        )

    def fields(
        self, rule: SiteRule, evidence: float
    ) -> tuple[SitePosterior, float, Outcome, int, int]:
        """Fields of `Approximation`, the outcome judged by the evidence."""
        outcome = final_outcome(self, rule, evidence)
        return self.sweep.posterior, evidence, outcome, self.n_iter, self.n_factorisations


def final_outcome(end: SolverResult, rule: SiteRule, evidence: float) -> Outcome:
    """Outcome of an end whose evidence is known: a log evidence above zero is impossible.

    Where rounding of K is as large as what a label says, the end depends on the start. An end
    limited by rounding must still have a small mismatch.
    """
    if not evidence <= LARGEST_EVIDENCE and end.outcome is not Outcome.NO_FIXED_POINT:
        return Outcome.IMPOSSIBLE
    matched = end.outcome.converged and end.outcome is not Outcome.ROUNDING
    if matched:
        return end.outcome if rule.copies.likelihood.log_concave else Outcome.ONE_OF_SEVERAL
    if rounding_dominates(rule.prior):
        return Outcome.LIMITED
    if end.outcome is Outcome.ROUNDING and end.sweep.residual > LARGEST_RESIDUAL:
        return Outcome.STALLED
    return end.outcome


def first_to_converge(
    rule: SiteRule,
    solvers: Sequence[Callable[[int], Solver]],
    sites: Sites,
    max_iter: int,
    fallback: int,
) -> SolverResult:
    """Run one solver after the other until one converges; else the end that is nearest to it.

    Each of ``solvers`` makes a solver for a number of sweeps: ``max_iter`` for the first, at most
    ``fallback`` times as many for all others together. It starts where the one before ended
    if that is near a fixed point or has raised an objective, else from ``sites``. Where rounding
    of K leaves no solution only the first solver runs.
    """
    few = min(max_iter, SWEEPS_UNDER_ROUNDING)
    end = solvers[0](few if rounding_dominates(rule.prior) else max_iter).run(sites)
    left = fallback * max_iter
    for i, solver in enumerate(solvers[1:], 2):
        if end.outcome.converged or left < 1 or rounding_of(rule.prior) > LARGEST_RESIDUAL:
            break
        last = end.sweep.without_covariance()
        near = last.residual <= LARGEST_RESIDUAL or np.isfinite(last.objective)
        most = left if i == len(solvers) else min(left, max_iter)
        following = solver(most).run(last.posterior.sites if near else sites)
        left -= max(following.n_iter, following.n_factorisations)
        following = following.after(end)
        if not following.outcome.converged and following.sweep.residual > end.sweep.residual:
            following = following._replace(sweep=end.sweep, outcome=end.outcome)
        end = following
    return end


def first_sweep(rule: SiteRule, sites: Sites) -> tuple[Sweep, int]:
    """Sweep from given sites, or from none where these do not belong; and the factorisations."""
    sweep = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
    if np.isfinite(sweep.residual):
        return sweep, 1
    return rule.sweep(SitePosterior.from_sites(rule.prior, Sites.zero(rule.prior.n))), 2


@final
@dataclass
class BestSweep:
    """The least residual so far, its sites, and the steps since it fell by half."""

    rule: SiteRule
    tol: float
    success: Outcome = Outcome.CONVERGED
    sites: Sites = field(default_factory=lambda: Sites.zero(0), init=False)
    residual: float = field(default=np.inf, init=False)
    since_halved: int = field(default=-1, init=False)

    def add(self, sweep: Sweep) -> None:
        """Compare with one more sweep."""
        self.since_halved = 0 if sweep.residual < 0.5 * self.residual else self.since_halved + 1
        if sweep.residual < self.residual:
            self.sites, self.residual = sweep.posterior.sites, sweep.residual

    @property
    def limited_by_rounding(self) -> bool:
        """Whether rounding alone may have caused the least residual."""
        return self.residual <= rounding_of_sites(self.rule.prior, self.sites)

    def end(self, last: Sweep, outcome: Outcome, n_iter: int, made: int) -> SolverResult:
        """End at the best sites, with ``outcome`` unless these match or rounding hides the rest."""
        if self.residual < last.residual:
            last = self.rule.sweep(SitePosterior.from_sites(self.rule.prior, self.sites))
            made += 1
        last = last._replace(posterior=last.posterior.with_covariance())
        if self.residual <= self.tol:
            outcome = self.success
        elif self.limited_by_rounding:
            outcome = Outcome.ROUNDING
        return SolverResult(last, outcome, n_iter, made)


def mismatch(target: Sites, sites: Sites, variance: Array, count: Array) -> float:
    """Largest difference of the natural parameters of a row, for each of its copies.

    In units of the posterior's deviation, or absolute where that is smaller and the precisions are
    below one: under a large signal variance the natural parameters themselves are tiny.
    """
    reach = np.maximum(variance, 1.0 / np.maximum(1.0, np.abs(target.tau) / count))
    by_tau = reach * np.abs(target.tau - sites.tau) / count
    by_nu = np.sqrt(reach) * np.abs(target.nu - sites.nu) / count
    return max(float(by_tau.max(initial=0.0)), float(by_nu.max(initial=0.0)))


def falls(rule: SiteRule, before: Sweep, after: Sweep) -> bool:
    """Whether the objective of a method that has one falls, by more than rounding."""
    rounding = rounding_of_sites(rule.prior, before.posterior.sites)
    noise = OBJECTIVE_NOISE * EPS * max(1.0, abs(before.objective)) + rounding
    return after.objective < before.objective - noise


def rounding_dominates(prior: Prior) -> bool:
    """Whether rounding of K is as large as the information of a label: no end is a solution."""
    return rounding_of(prior) > LARGEST_ROUNDING


def rounding_of(prior: Prior) -> float:
    """Size that negative eigenvalues of K may have by rounding alone."""
    return float(prior.n * EPS * prior.diagonal.max(initial=0.0))


def rounding_of_sites(prior: Prior, sites: Sites) -> float:
    """Size of a mismatch that rounding of K alone can cause, given sites like these."""
    rounding = rounding_of(prior)
    precision = max(1.0, float(np.abs(sites.tau).max(initial=0.0)))
    return max(rounding, min(rounding * precision, ROUNDING_OF_LARGE_SITES))
