"""The fixed point that EP, PL and variational inference share, in the variances of the rows.

Between two factorisations they stay as they are, and Newton's method solves for the means.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.acceleration import Anderson
from gpclass.inference.solvers.newton import ModePoint, NewtonSearch
from gpclass.inference.solvers.response import newton_step, newton_steps_to
from gpclass.inference.solvers.rule import (
    BestSweep,
    SiteRule,
    SolverResult,
    Sweep,
    falls,
    first_sweep,
)
from gpclass.linalg import TINY, Array

# Newton steps for the means between two factorisations.
MEAN_STEPS: Final = 60
# Factorisations without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 6
# Least fraction of a step, in the logarithms of the variances.
SMALLEST_STEP: Final = 1.0 / 16.0
# Growth of the residual at which acceleration begins anew.
GROWTH: Final = 2.0
# Tolerance above which sites end at it: a learner that asks for so little pays for no more.
LOOSE: Final = 1e-6
# Residual below which Newton's method in all sites takes over.
NEWTON_FROM: Final = 0.3


@final
@dataclass(frozen=True)
class VarianceIteration:
    """Renew the variances, at most ``max_iter`` times, until the residual is at most ``tol``."""

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> SolverResult:
        """Iterate from sites."""
        rule = self.rule
        sweep, made = first_sweep(rule, sites)
        best, v = BestSweep(rule, self.tol), sweep.v
        last = newton_below = np.inf
        damping, n_iter, outcome, history = 1.0, 0, Outcome.MAX_ITER, _History()
        while True:
            n_iter += 1
            near = 0.1 * self.tol < sweep.residual < min(NEWTON_FROM, 0.1 * newton_below)
            if near and sweep.posterior.factor.has_products:
                newton_below = last = sweep.residual
                target = newton_step(rule, sweep)
                sweep = sweep.without_covariance()
                sweep, steps = newton_steps_to(rule, sweep, target, 0.1 * self.tol)
                made, v = made + steps, sweep.v
            best.add(sweep)
            hidden = best.since_halved > PATIENCE and best.limited_by_rounding
            if self._matched(sweep, last) or hidden or n_iter == self.max_iter:
                break
            damping = _damping(damping, sweep.residual / last)
            sweep = sweep.without_covariance()
            if sweep.posterior.factor.has_products:
                v = sweep.v if damping == 1.0 else v * (sweep.v / v) ** damping
            else:
                v = history.following(sweep, last)
            following, steps = self._renewed(sweep, v)
            made += steps
            if following is None or falls(rule, sweep, following):
                outcome = Outcome.STALLED
                break
            last, sweep = sweep.residual, following
            del following  # a second name would keep the inverse
        return best.end(sweep, outcome, n_iter, made)

    def _matched(self, sweep: Sweep, last: float) -> bool:
        """Whether the sites match; below a fine tol steps go on while they gain a digit."""
        enough = self.tol > LOOSE or sweep.residual > 0.1 * last or sweep.residual <= 0.1 * self.tol
        return sweep.residual <= self.tol and enough

    def _renewed(self, sweep: Sweep, v: Array) -> tuple[Sweep | None, int]:
        """Sweep at the means that belong to v, or None, and the factorisations made."""
        rule = self.rule
        try:
            mode, made = self._means(sweep, v)
            # conditioning on the new sites is one more Newton step, by a factor needed anyway
            following = rule.sweep(SitePosterior.from_sites(rule.prior, rule.sites(mode)))
        except NotPositiveDefiniteError:
            return None, 0
        return (following if np.isfinite(following.residual) else None), made + 1

    def _means(self, sweep: Sweep, v: Array) -> tuple[ModePoint, int]:
        """Means that belong to variances v, from those of a sweep."""
        rule, posterior = self.rule, sweep.posterior
        # what the variances are still off by need not be undercut by far
        goal = max(1e-2 * self.tol, min(1e-3, 1e-2 * sweep.residual))
        search = NewtonSearch(rule.prior, rule.terms(v), goal, MEAN_STEPS)
        start = search.at(posterior.mean_weights, posterior.mean, rule.hint(sweep, v))
        factor = posterior.factor if np.any(posterior.sites.tau) else None
        found = search.run(start, factor)
        return found.point, found.n_factorisations


@final
class _History:
    """Logarithms of variances, under Anderson's acceleration."""

    def __init__(self) -> None:
        self._anderson = Anderson()
        self._last: Array | None = None

    def following(self, sweep: Sweep, last: float) -> Array:
        """Variances to try after a sweep; ``last`` is the residual of the one before."""
        found = np.log(np.maximum(sweep.v, TINY))
        if sweep.residual > GROWTH * last:
            self._anderson, self._last = Anderson(), None
        if self._last is not None:
            found = self._anderson.following(self._last, found)
        self._last = found
        return np.asarray(np.exp(found))


def _damping(damping: float, growth: float) -> float:
    """Part of the next step: less where the residual grows, more where it falls."""
    if growth > 1.0:
        return max(0.5 * damping, SMALLEST_STEP)
    return min(1.2 * damping, 1.0)
