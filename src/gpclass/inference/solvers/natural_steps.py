"""Damped steps in the sites' natural parameters: slower than what they stand in for, and safe."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import newton_steps
from gpclass.inference.solvers.rule import End, SiteRule, Sweep, noise_of_merit, rounding_of_sites

# Least part of the way to the target, with and without an objective.
SMALLEST_STEP: Final = 2.0**-12
SMALLEST_DAMPING: Final = 2.0**-6
# Newton's method is tried below this residual.
NEWTON_FROM: Final = 0.3
# Steps without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 50


@final
@dataclass(frozen=True)
class NaturalSteps:
    """Move the sites part of the way to those that the posterior asks for.

    For variational inference this is a natural-gradient step of the bound, which must rise
    (`Sweep.merit`): the part is halved until it does, and since the direction ascends, it will.
    For posterior linearisation there is no objective: the part is halved where a step turns back
    on the one before, which ends the cycles of the plain iteration; the first steps are plain.
    Near a fixed point Newton's method ends both.

    Parameters
    ----------
    rule : SiteRule
    tol : float
        `Sweep.residual` at which the sites count as matched.
    max_iter : int
        Steps; Newton's count too.
    outcome : Outcome
        To be reported on success.

    References
    ----------
    Opper & Archambeau (2009); Khan & Lin (2017) for the step in the sites.
    """

    rule: SiteRule
    tol: float
    max_iter: int
    outcome: Outcome

    def run(self, sites: Sites) -> End:
        """Iterate from sites."""
        rule = self.rule
        sweep = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
        best, made, step, tried, n_iter = sweep, 1, 1.0, np.inf, 0
        since_best = 0
        while n_iter < self.max_iter:
            n_iter += 1
            if sweep.residual <= self.tol:
                return End(sweep, self.outcome, n_iter, made)
            if sweep.residual < NEWTON_FROM and sweep.residual < 0.3 * tried:
                tried = sweep.residual
                sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
                made += steps
                n_iter += steps
                if sweep.residual <= self.tol:
                    return End(sweep, self.outcome, n_iter, made)
            following = None
            while following is None and step >= SMALLEST_STEP:
                following = self._step(sweep, step)
                made += 1
                if following is None:
                    step *= 0.5
            if following is None:
                break
            if np.isnan(following.merit) and _turns_back(sweep, following):
                step = max(0.5 * step, SMALLEST_DAMPING)
            else:
                step = min(1.0, 1.5 * step)
            sweep = following
            since_best += 1
            if sweep.residual < best.residual:
                best, since_best = sweep, 0
            if since_best > PATIENCE and best.residual <= rounding_of_sites(
                rule.prior, best.posterior.sites
            ):
                break
        if best.residual <= self.tol:
            return End(best, self.outcome, n_iter, made)
        rounding = best.residual <= rounding_of_sites(rule.prior, best.posterior.sites)
        stalled = Outcome.STALLED if n_iter < self.max_iter else Outcome.MAX_ITER
        return End(best, Outcome.ROUNDING if rounding else stalled, n_iter, made)

    def _step(self, sweep: Sweep, step: float) -> Sweep | None:
        """Take a step; None where it leaves the domain or the objective falls."""
        moved = sweep.posterior.sites.damped_towards(sweep.target, step)
        try:
            following = self.rule.sweep(SitePosterior.from_sites(self.rule.prior, moved))
        except NotPositiveDefiniteError:
            return None
        if not np.isfinite(following.residual):
            return None
        falls = following.merit < sweep.merit - noise_of_merit(self.rule.prior, sweep)
        return None if falls else following


def _turns_back(before: Sweep, after: Sweep) -> bool:
    """Whether the sites are now asked to move against the direction that they just took."""
    variance = before.v
    total = 0.0
    for name, scale in (("nu", variance), ("tau", 0.5 * variance**2)):
        old = getattr(before.target, name) - getattr(before.posterior.sites, name)
        new = getattr(after.target, name) - getattr(after.posterior.sites, name)
        total += float((scale * old * new).sum())
    return total < 0.0
