"""What an iteration asks of a method: how its sites follow from the posterior."""

from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.newton import EPS, ConcaveTerms, State, Terms
from gpclass.priors import Prior

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

RUNNING_AWAY: Final = 1e-6
# A mismatch of relative size beyond this is no solution, whatever the reason.
LARGEST: Final = 1e-3
# Rounding of K beyond this is beside the precision of a probit or logit, at most one, no detail.
DROWNED: Final = 0.25
# Rounding of an objective, in units of its own.
NOISE: Final = 1e4
# A log evidence that no data have, in nats.
IMPOSSIBLE: Final = 1.0


class Sweep(NamedTuple):
    """A posterior and the sites that its marginals ask for.

    ``v`` has the variances that those sites depend on: of the cavities for EP, else of the
    posterior. ``residual`` is the largest difference of ``target`` and the posterior's sites (see
    `mismatch`). ``merit`` is an objective that must not fall, NaN where the method has none.
    ``detail`` is the method's own.
    """

    posterior: SitePosterior
    v: Array
    target: Sites
    residual: float
    merit: float
    detail: Any


class SiteRule(Protocol):
    """How sites follow from the posterior: one method, on one problem."""

    @property
    def prior(self) -> Prior:
        """Prior of the latent values."""

    @property
    def copies_taken_out(self) -> Array | None:
        """Copies of each row where `target` takes one out of the posterior first, else None."""

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Sites that the marginals ask for."""

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites as functions of marginal means and variances and the sites there are.

        Of all rows, or of some, whose values are given.
        """

    def terms(self, v: Array) -> ConcaveTerms:
        """Terms whose mode has the means that belong to variances v."""

    def hint(self, sweep: Sweep, v: Array) -> Terms | None:
        """Where searches inside the terms of v may start, from a sweep nearby."""

    def sites(self, state: State) -> Sites:
        """Sites at a mode of the terms."""


class End(NamedTuple):
    """The best sweep, why the iteration ended, and what it took."""

    sweep: Sweep
    outcome: Outcome
    n_iter: int
    n_factorisations: int

    def after(self, first: "End") -> "End":
        """Count the cost of the iteration that this one took over from."""
        return self._replace(
            n_iter=first.n_iter + self.n_iter,
            n_factorisations=first.n_factorisations + self.n_factorisations,
        )


def checked(end: End, value: float, prior: Prior) -> Outcome:
    """Outcome of an end whose evidence is known: rounding gone wild is no convergence.

    Probabilities are below one, so a log evidence well above zero is impossible; and where
    rounding is the excuse the mismatch must still be small, and so must the rounding of K itself.
    """
    large = rounding_of(prior) > DROWNED or end.sweep.residual > LARGEST
    wild = end.outcome is Outcome.ROUNDING and large
    if end.outcome.converged and (wild or not value <= IMPOSSIBLE):
        return Outcome.STALLED
    return end.outcome


def mismatch(target: Sites, sites: Sites, variance: Array, count: Array) -> float:
    """Largest difference of the natural parameters of a row, for each of its copies.

    In units of the posterior's deviation, or absolute where that is smaller and the precisions are
    below one: under a large signal variance the natural parameters themselves are tiny, and those
    of a likelihood that jumps have no scale but the posterior's.
    """
    reach = np.maximum(variance, 1.0 / np.maximum(1.0, np.abs(target.tau) / count))
    return max(
        float((reach * np.abs(target.tau - sites.tau) / count).max(initial=0.0)),
        float((np.sqrt(reach) * np.abs(target.nu - sites.nu) / count).max(initial=0.0)),
    )


def rounding_of(prior: Prior) -> float:
    """Size that negative eigenvalues of K may have by rounding alone."""
    return float(prior.n * EPS * prior.diagonal.max(initial=0.0))


def noise_of_merit(prior: Prior, sweep: Sweep) -> float:
    """Difference of two merits that rounding alone can make, near a sweep."""
    rounding = rounding_of_sites(prior, sweep.posterior.sites)
    return NOISE * EPS * max(1.0, abs(sweep.merit)) + rounding


def rounding_of_sites(prior: Prior, sites: Sites) -> float:
    """Size of a mismatch that rounding of K alone can cause, beside sites like these."""
    rounding = rounding_of(prior)
    precision = max(1.0, float(np.abs(sites.tau).max(initial=0.0)))
    # precisions that run away are no excuse
    return max(rounding, min(rounding * precision, RUNNING_AWAY))
