"""The fixed point that EP, PL and variational inference share, in the variances of the rows.

A parallel sweep computes all marginals from one factor, and then all sites. Most sweeps serve the
means, which need no new factor. Here, between two factorisations, the variances that the sites
depend on stay as they are and the means are solved for to the end, by the Newton iteration that
Laplace's method uses too. What is left is a fixed point in the variances, and it contracts fast.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.acceleration import extrapolate
from gpclass.inference.solvers.newton import TINY, NewtonSearch, State
from gpclass.inference.solvers.response import newton_steps
from gpclass.inference.solvers.rule import End, SiteRule, Sweep, noise_of_merit, rounding_of_sites

Array = NDArray[np.float64]

# Factorisations without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 6
# Least fraction of a step, in the logarithms of the variances.
SMALLEST_STEP: Final = 1.0 / 16.0
# Growth of a residual beyond which what was combined is forgotten; a little of it is no sign.
GROWS: Final = 2.0
# Newton's method takes over below this residual.
NEWTON_FROM: Final = 0.1
# Points that an extrapolation combines.
MEMORY: Final = 8
# Newton steps of one search for the means.
NEWTON_STEPS: Final = 60


@final
class _History:
    """Variances that were tried and found, for Anderson's acceleration of their renewal."""

    def __init__(self) -> None:
        self._tried: list[Array] = []
        self._found: list[Array] = []

    def following(self, sweep: Sweep, last: float, damping: float) -> Array:
        """Variances to try after a sweep; plainly renewed, and damped, where residuals grow.

        ``last`` is the residual of the sweep before.
        """
        found = np.log(np.maximum(sweep.v, TINY))
        if sweep.residual > GROWS * last:
            # what was combined misled: begin anew, from the last variances
            self._found.clear()
            del self._tried[:-1]
            following = (
                found if not self._tried else found + (1 - damping) * (self._tried[-1] - found)
            )
            self._tried.clear()
        elif self._tried:
            self._found.append(found)
            following = extrapolate(self._tried[-MEMORY:], self._found[-MEMORY:])
        else:
            following = found
        self._tried.append(following)
        return np.asarray(np.exp(following))


@final
@dataclass(frozen=True)
class VarianceIteration:
    """Renewal of the variances until the sites match.

    Parameters
    ----------
    rule : SiteRule
    tol : float
        `Sweep.residual` at which the sites count as matched.
    max_iter : int
        Renewals.
    """

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> End:
        """Iterate from sites."""
        rule, n_factorisations = self.rule, 1
        sweep = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
        if not np.isfinite(sweep.residual):
            # rounding, under a covariance that these sites do not belong to
            nothing = Sites(np.zeros(rule.prior.n), np.zeros(rule.prior.n))
            sweep = rule.sweep(SitePosterior.from_sites(rule.prior, nothing))
        n_iter, outcome = 0, Outcome.MAX_ITER
        best, v, damping, since_best = sweep, sweep.v, 1.0, 0
        last = tried = np.inf
        history = _History()
        while True:
            n_iter += 1
            # Below tol one more factorisation is worth its price while it still gains a digit.
            stuck = sweep.residual > 0.1 * last or not sweep.posterior.factor.has_products
            if sweep.residual <= 0.1 * self.tol or (sweep.residual <= self.tol and stuck):
                return End(sweep, Outcome.CONVERGED, n_iter, n_factorisations)
            rounding = rounding_of_sites(rule.prior, best.posterior.sites)
            if since_best > PATIENCE and best.residual <= rounding:
                outcome = Outcome.ROUNDING
                break
            if n_iter == self.max_iter:
                break
            if sweep.residual < min(NEWTON_FROM, 0.1 * tried):
                tried = sweep.residual
                sweep, made = newton_steps(rule, sweep, 0.1 * self.tol)
                n_factorisations += made
                if sweep.residual < tried:
                    best, last, v = sweep, tried, sweep.v
                    if sweep.residual <= self.tol:
                        continue
            if sweep.residual > last:
                damping = max(0.5 * damping, SMALLEST_STEP)
            elif sweep.residual < 0.9 * last:
                damping = min(2.0 * damping, 1.0)
            light = sweep._replace(posterior=sweep.posterior.without_covariance())
            sweep, best = light, light if best is sweep else best
            try:
                if sweep.posterior.factor.has_products:
                    v = sweep.v if damping == 1.0 else v * (sweep.v / v) ** damping
                else:
                    v = history.following(sweep, last, damping)
                posterior, made = self._solve_means(v, sweep)
                n_factorisations += made
                following = rule.sweep(posterior)
            except NotPositiveDefiniteError:
                # overflow, or sites of negative precision: the prior itself was factorised before
                outcome = Outcome.STALLED
                break
            noise = noise_of_merit(rule.prior, sweep)
            if not np.isfinite(following.residual) or following.merit < sweep.merit - noise:
                outcome = Outcome.STALLED
                break
            last, sweep = sweep.residual, following
            since_best = 0 if sweep.residual < 0.5 * best.residual else since_best + 1
            if sweep.residual < best.residual:
                best = sweep
        if best.residual <= self.tol:
            outcome = Outcome.CONVERGED
        best = best._replace(posterior=best.posterior.with_covariance())
        return End(best, outcome, n_iter, n_factorisations)

    def _solve_means(self, v: Array, sweep: Sweep) -> tuple[SitePosterior, int]:
        """Posterior whose means belong to the variances v, and the factorisations made."""
        rule = self.rule
        # what the variances are still off by need not be undercut by far
        goal = max(1e-2 * self.tol, min(1e-3, 1e-2 * sweep.residual))
        state, made = self._means(v, sweep, goal)
        # conditioning on the new sites is one more Newton step, by a factor that is needed anyway
        return SitePosterior.from_sites(rule.prior, rule.sites(state)), made + 1

    def _means(self, v: Array, sweep: Sweep, tol: float) -> tuple[State, int]:
        """Means that belong to variances v, from those of a sweep."""
        rule, posterior = self.rule, sweep.posterior
        search = NewtonSearch(rule.prior, rule.terms(v), tol, NEWTON_STEPS)
        if np.any(posterior.sites.tau):
            start = search.at(posterior.mean_weights, posterior.mean, rule.hint(sweep, v))
            mode = search.run(start, posterior.factor)
        else:
            zero = np.zeros(rule.prior.n)
            mode = search.run(search.at(zero, zero), None)
        return mode.state, mode.n_factorisations
