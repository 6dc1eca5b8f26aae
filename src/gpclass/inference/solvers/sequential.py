"""One site after the other, the rank-one updates gathered into blocks."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import newton_steps
from gpclass.inference.solvers.rule import End, SiteRule, rounding_of_sites
from gpclass.priors import SequentialCovariance

Array = NDArray[np.float64]

# Rows whose updates of Sigma are applied at once, as one product of matrices.
ROWS: Final = 64
# Sweeps by updates alone before Sigma is computed afresh, so that rounding does not gather.
RENEW: Final = 5
# An update that would leave less than this part of a marginal's precision is damped to leave it.
SMALLEST_LEFT: Final = 0.1
# Least part of each update, where whole ones run in a cycle.
SMALLEST_STEP: Final = 0.25


@final
@dataclass(frozen=True)
class SequentialSweeps:
    """RW06 Algorithm 3.5: each site from the posterior that all updates before it have made.

    Within a block of rows only the block's own part of Sigma follows each update; the rest of
    Sigma follows at the block's end, ``Sigma - Sigma_B W Sigma_B^T`` with
    ``W = (D^-1 + Sigma_BB)^-1`` for the changes D of the site precisions. The order of the rows is
    that of the data.

    Parameters
    ----------
    rule : SiteRule
    tol : float
        `Sweep.residual` at which the sites count as matched.
    max_iter : int
        Sweeps over all rows.
    """

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> End:
        """Iterate from sites."""
        rule = self.rule
        sweep = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
        best, made, outcome = sweep, 1, Outcome.MAX_ITER
        n_iter, step, last = 0, 1.0, np.inf
        while n_iter < self.max_iter:
            if sweep.residual <= self.tol:
                sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
                return End(sweep, Outcome.CONVERGED, max(n_iter, 1), made + steps)
            state = _State.of(sweep.posterior, step)
            change = np.inf
            try:
                for _ in range(min(RENEW, self.max_iter - n_iter)):
                    n_iter += 1
                    change = state.sweep_over(rule)
                    if change <= 0.5 * self.tol:
                        break
            except (np.linalg.LinAlgError, NotPositiveDefiniteError):
                outcome = Outcome.STALLED  # rounding of Sigma, beside sites of both signs
                break
            if not change < 0.5 * last:  # a cycle
                step = max(SMALLEST_STEP, 0.7 * step)
            last = change
            try:
                sweep = rule.sweep(SitePosterior.from_sites(rule.prior, state.sites))
            except NotPositiveDefiniteError:
                outcome = Outcome.STALLED
                break
            made += 1
            if not np.isfinite(sweep.residual):
                outcome = Outcome.STALLED
                break
            if sweep.residual < best.residual:
                best = sweep
        if best.residual <= self.tol:
            outcome = Outcome.CONVERGED
        elif best.residual <= rounding_of_sites(rule.prior, best.posterior.sites):
            outcome = Outcome.ROUNDING
        return End(best, outcome, max(n_iter, 1), made)


@final
@dataclass
class _State:
    """Sites and the posterior's mean and covariance, which follow each block."""

    nu: Array
    tau: Array
    mean: Array
    covariance: SequentialCovariance
    step: float

    @classmethod
    def of(cls, posterior: SitePosterior, step: float) -> "_State":
        sites = posterior.sites
        covariance = posterior.factor.sequential_covariance()
        return cls(sites.nu.copy(), sites.tau.copy(), posterior.mean.copy(), covariance, step)

    @property
    def sites(self) -> Sites:
        return Sites(self.nu.copy(), self.tau.copy())

    def sweep_over(self, rule: SiteRule) -> float:
        """Visit every row; return the largest change of a site, as `iteration.mismatch`."""
        change = 0.0
        for start in range(0, len(self.nu), ROWS):
            change = max(change, self._block(rule, start, min(start + ROWS, len(self.nu))))
        return change

    def _block(self, rule: SiteRule, start: int, stop: int) -> float:
        part = slice(start, stop)
        rows = self.covariance.rows(part)
        S, m = rows[:, part].copy(), self.mean[part].copy()
        old_nu, old_tau = self.nu[part].copy(), self.tau[part].copy()
        largest = 0.0
        for j, i in enumerate(range(start, stop)):
            variance = S[j, j]
            if not variance > 0.0:
                continue
            row = slice(i, i + 1)
            marginal = S[j : j + 1, j] + self.covariance.own_variance(i, self.tau)
            target = rule.target(m[j : j + 1], marginal, self.nu[row], self.tau[row], np.array([i]))
            d_nu, d_tau = target.nu[0] - self.nu[i], target.tau[0] - self.tau[i]
            if not (np.isfinite(d_nu) and np.isfinite(d_tau)):
                # no proper cavity: without this site the others may find one for it
                d_nu, d_tau = -self.nu[i], -self.tau[i]
                largest = np.inf
            reach = max(variance, 1.0 / max(1.0, abs(self.tau[i] + d_tau)))
            largest = max(largest, reach * abs(d_tau), np.sqrt(reach) * abs(d_nu))
            d_nu, d_tau = self.step * d_nu, self.step * d_tau
            left = 1.0 + d_tau * variance
            if left < SMALLEST_LEFT:
                step = (1.0 - SMALLEST_LEFT) / (1.0 - left)
                d_nu, d_tau, left = step * d_nu, step * d_tau, SMALLEST_LEFT
            column = S[:, j].copy()
            m += (d_nu - d_tau * m[j]) / left * column
            S -= (d_tau / left) * np.multiply.outer(column, column)
            self.nu[i] += d_nu
            self.tau[i] += d_tau
        self._apply(rows, part, self.nu[part] - old_nu, self.tau[part] - old_tau)
        return largest

    def _apply(self, rows: Array, part: slice, d_nu: Array, d_tau: Array) -> None:
        """Carry a block's changes to all of the posterior."""
        S, m = rows[:, part], self.mean[part]
        # the mean moves by Sigma_B^T (I + Sigma_BB D)^-T (d_nu - D m)
        system = np.eye(len(d_tau)) + S * d_tau
        force = linalg.solve_general(system.T, d_nu - d_tau * m)
        self.mean += np.einsum("i,ij->j", force, rows)
        self.covariance.update(part, rows, d_tau)
