"""One site after the other, the rank-one updates gathered into blocks."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import newton_steps
from gpclass.inference.solvers.rule import BestSweep, SiteRule, SolverResult, first_sweep, mismatch
from gpclass.linalg import Array
from gpclass.priors import SequentialCovariance

# An update that would leave less than this part of a marginal's precision is damped to leave it.
SMALLEST_LEFT: Final = 0.1
# Least part of each update, where whole ones run in a cycle.
SMALLEST_STEP: Final = 0.25


@final
@dataclass(frozen=True)
class SequentialSweeps:
    """RW06 Algorithm 3.5: each site from the posterior that all updates before it have made.

    Within a block of ``block`` rows only the block's own part of Sigma follows each update; the
    rest follows at the block's end, ``Sigma - Sigma_B W Sigma_B^T`` with
    ``W = (D^-1 + Sigma_BB)^-1`` for the changes D of the site precisions. After ``renew`` sweeps
    Sigma is computed afresh, so that rounding does not gather; after ``patience`` of these
    without half the residual the sweeps are given up. ``tol`` is the `Sweep.residual` at which
    the sites count as matched, ``max_iter`` counts sweeps over all rows, in the data's order.
    """

    rule: SiteRule
    tol: float
    max_iter: int
    block: int = 64
    renew: int = 5
    patience: int = 6

    def run(self, sites: Sites) -> SolverResult:
        """Iterate from sites."""
        rule = self.rule
        sweep, made = first_sweep(rule, sites)
        best, outcome = BestSweep(rule, self.tol), Outcome.MAX_ITER
        n_iter, step, last = 0, 1.0, np.inf
        best.add(sweep)
        while n_iter < self.max_iter and sweep.residual > self.tol:
            if best.since_halved > self.patience:
                outcome = Outcome.STALLED
                break
            sweep = sweep.without_covariance()
            visits = _Visits.of(sweep.posterior, step)
            try:
                change, until = np.inf, min(n_iter + self.renew, self.max_iter)
                while n_iter < until and change > 0.5 * self.tol:
                    change = visits.sweep_over(rule, self.block)
                    n_iter += 1
                visited = Sites(visits.nu, visits.tau)
                sweep = rule.sweep(SitePosterior.from_sites(rule.prior, visited))
            except (NotPositiveDefiniteError, np.linalg.LinAlgError):
                outcome = Outcome.STALLED  # rounding of Sigma, given sites of both signs
                break
            made += 1
            if not np.isfinite(sweep.residual):
                outcome = Outcome.STALLED
                break
            best.add(sweep)
            if not change < 0.5 * last:  # a cycle
                step = max(SMALLEST_STEP, 0.7 * step)
            last = change
        if sweep.residual <= self.tol:
            sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
            made += steps
            best.add(sweep)
        return best.end(sweep, outcome, max(n_iter, 1), made)


@final
@dataclass
class _Visits:
    """Sites and the posterior's mean and covariance, which follow each block."""

    nu: Array
    tau: Array
    mean: Array
    covariance: SequentialCovariance
    step: float

    @classmethod
    def of(cls, posterior: SitePosterior, step: float) -> "_Visits":
        sites = posterior.sites
        covariance = posterior.factor.sequential_covariance()
        return cls(sites.nu.copy(), sites.tau.copy(), posterior.mean.copy(), covariance, step)

    def sweep_over(self, rule: SiteRule, block: int) -> float:
        """Visit every row; return the largest `mismatch` of a site when it was visited."""
        n = len(self.nu)
        return max(
            self._visit_block(rule, slice(start, min(start + block, n)))
            for start in range(0, n, block)
        )

    def _visit_block(self, rule: SiteRule, part: slice) -> float:
        rows = self.covariance.rows(part)
        S, m = rows[:, part].copy(), self.mean[part].copy()
        old_nu, old_tau = self.nu[part].copy(), self.tau[part].copy()
        asked_nu, asked_tau, variance = old_nu.copy(), old_tau.copy(), np.zeros(len(m))
        for j, i in enumerate(range(part.start, part.stop)):
            if not S[j, j] > 0.0:
                continue
            one = slice(j, j + 1)
            variance[j] = S[j, j] + self.covariance.own_variance(i, self.tau)
            row = np.array([i])
            target = rule.target(m[one], variance[one], old_nu[one], old_tau[one], row)
            asked_nu[one], asked_tau[one] = target.nu, target.tau
            d_nu, d_tau = asked_nu[j] - old_nu[j], asked_tau[j] - old_tau[j]
            if not (np.isfinite(d_nu) and np.isfinite(d_tau)):
                # no proper cavity: without this site the others may find one for it
                d_nu, d_tau = -old_nu[j], -old_tau[j]
            d_nu, d_tau = self.step * d_nu, self.step * d_tau
            left = 1.0 + d_tau * S[j, j]
            if left < SMALLEST_LEFT:
                part_of_it = (1.0 - SMALLEST_LEFT) / (1.0 - left)
                d_nu, d_tau, left = part_of_it * d_nu, part_of_it * d_tau, SMALLEST_LEFT
            column = S[:, j].copy()
            m += (d_nu - d_tau * m[j]) / left * column
            S -= (d_tau / left) * np.multiply.outer(column, column)
            self.nu[i] += d_nu
            self.tau[i] += d_tau
        self._apply(rows, part, self.nu[part] - old_nu, self.tau[part] - old_tau)
        asked, count = Sites(asked_nu, asked_tau), rule.copies.count[part]
        if not (np.isfinite(asked_nu).all() and np.isfinite(asked_tau).all()):
            return np.inf
        return mismatch(asked, Sites(old_nu, old_tau), variance, count)

    def _apply(self, rows: Array, part: slice, d_nu: Array, d_tau: Array) -> None:
        """Carry a block's changes to all of the posterior."""
        S, m = rows[:, part], self.mean[part]
        # the mean moves by Sigma_B^T (I + Sigma_BB D)^-T (d_nu - D m)
        system = np.eye(len(d_tau)) + S * d_tau
        force = linalg.solve_general(system.T, d_nu - d_tau * m)
        self.mean += np.einsum("i,ij->j", force, rows)
        self.covariance.update(part, rows, d_tau)
