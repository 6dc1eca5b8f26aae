"""Damped steps in the sites' natural parameters: slower than what they stand in for, and safe."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import newton_steps
from gpclass.inference.solvers.rule import (
    BestSweep,
    SiteRule,
    SolverResult,
    Sweep,
    falls,
    first_sweep,
)

# Least part of the way to the target, with and without an objective.
SMALLEST_STEP: Final = 2.0**-12
SMALLEST_DAMPING: Final = 2.0**-6


@final
@dataclass(frozen=True)
class NaturalSteps:
    """Move the sites part of the way to those that the posterior asks for.

    For variational inference this is a natural-gradient step of the bound (`Sweep.objective`),
    halved until the bound rises (Opper & Archambeau 2009; Khan & Lin 2017). EP and posterior
    linearisation have no objective: the first steps are plain, and the step is halved where it
    turns back on the one before, which ends the cycles of the plain iteration. Below a residual
    of ``newton_from`` Newton's method is tried; its steps count too. ``outcome`` is reported on
    success. After ``patience`` steps without progress the iteration ends if rounding can be why.
    """

    rule: SiteRule
    tol: float
    max_iter: int
    outcome: Outcome
    newton_from: float = 0.3
    patience: int = 50

    def run(self, sites: Sites) -> SolverResult:
        """Iterate from sites."""
        rule = self.rule
        sweep, made = first_sweep(rule, sites)
        best, outcome = BestSweep(rule, self.tol, self.outcome), Outcome.MAX_ITER
        n_iter, step, newton_below = 0, 1.0, self.newton_from
        best.add(sweep)
        while n_iter < self.max_iter and sweep.residual > self.tol:
            n_iter += 1
            if sweep.residual < newton_below:
                newton_below = 0.3 * sweep.residual
                sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
                made, n_iter = made + steps, n_iter + steps
                best.add(sweep)
                if sweep.residual <= self.tol:
                    break
            following, step, steps = self._line_search(sweep, step)
            made += steps
            if following is None:
                outcome = Outcome.STALLED
                break
            if np.isnan(following.objective) and _turns_back(sweep, following):
                step = max(0.5 * step, SMALLEST_DAMPING)
            else:
                step = min(1.0, 1.5 * step)
            sweep = following
            best.add(sweep)
            if best.since_halved > self.patience and best.limited_by_rounding:
                break
        return best.end(sweep, outcome, max(n_iter, 1), made)

    def _line_search(self, sweep: Sweep, step: float) -> tuple[Sweep | None, float, int]:
        """First usable one of the steps s, s / 2, ..., its size, and the factorisations."""
        made = 0
        while step >= SMALLEST_STEP:
            moved = sweep.posterior.sites.damped_towards(sweep.target, step)
            made += 1
            try:
                following = self.rule.sweep(SitePosterior.from_sites(self.rule.prior, moved))
            except NotPositiveDefiniteError:
                step *= 0.5
                continue
            if np.isfinite(following.residual) and not falls(self.rule, sweep, following):
                return following, step, made
            step *= 0.5
        return None, step, made


def _turns_back(before: Sweep, after: Sweep) -> bool:
    """Whether the sites are now asked to move against the direction that they just took."""
    old, new, variance = before.posterior.sites, after.posterior.sites, before.v
    # precisions of a hard threshold may have products beyond the number range
    with np.errstate(over="ignore", invalid="ignore"):
        nu = (before.target.nu - old.nu) * (after.target.nu - new.nu)
        tau = (before.target.tau - old.tau) * (after.target.tau - new.tau)
        return float((variance * nu + 0.5 * variance**2 * tau).sum()) < 0.0
