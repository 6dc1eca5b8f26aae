"""EP by a double loop that converges wherever there is a fixed point."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.cavities import Cavities
from gpclass.inference.energy import Energy
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.acceleration import Anderson
from gpclass.inference.solvers.response import STEP, Response, newton_steps
from gpclass.inference.solvers.rule import (
    OBJECTIVE_NOISE,
    SiteRule,
    SolverResult,
    first_sweep,
    mismatch,
    rounding_of_sites,
)
from gpclass.linalg import EPS, Array

# Steps of one inner minimisation, and trials of one line search.
INNER_STEPS: Final = 10
TRIALS: Final = 30
# Fraction to which an inner minimisation brings its residual down before the outer step.
INNER_GOAL: Final = 0.2
# Part of the slope that may be left at the end of a line search.
CURVATURE: Final = 0.5
# Residual below which Newton's method for the fixed point is tried.
NEWTON_FROM: Final = 0.1
# A marginal variance of the outer loop beyond this many prior variances has run away.
RUN_AWAY: Final = 1e6
# Products with the Hessian for one Newton direction.
CG_STEPS: Final = 200
# Factorisations for each outer step that is allowed, on average: most take one.
FACTORISATIONS: Final = 4


class _Marginals(NamedTuple):
    """Means and variances of the outer loop's marginals."""

    m: Array
    v: Array


@dataclass
class _Outer:
    """Marginals to try next, and those of the plain step; None: nothing was accelerated yet."""

    deviation: Array
    eta: _Marginals
    plain: _Marginals
    value: float = -np.inf
    accelerated: Anderson | None = None

    @classmethod
    def at(cls, posterior: SitePosterior, deviation: Array) -> "_Outer":
        eta = _Marginals(posterior.mean, posterior.variance)
        return cls(deviation, eta, eta)

    def accept(self, inner: "_Inner") -> None:
        """Renew the marginals from the inner minimum, with Anderson's acceleration."""
        posterior = inner.energy.posterior
        self.value, self.plain = inner.value, _Marginals(posterior.mean, posterior.variance)
        self.accelerated = self.accelerated or Anderson()
        tried, found = self._coordinates(self.eta), self._coordinates(self.plain)
        m, log_v = np.split(self.accelerated.following(tried, found), 2)
        # an extrapolation may go anywhere, but not beyond float64
        self.eta = _Marginals(m * self.deviation, np.exp(np.clip(log_v, -300.0, 300.0)))

    def falls(self, inner: "_Inner") -> bool:
        """Whether the value falls at an accelerated step, by more than rounding."""
        return inner.value < self.value - OBJECTIVE_NOISE * EPS * max(1.0, abs(self.value))

    def _coordinates(self, eta: _Marginals) -> Array:
        return np.concatenate([eta.m / self.deviation, np.log(eta.v)])


class _Inner(NamedTuple):
    """A point of the inner minimisation; ``step`` is EP's own."""

    energy: Energy
    step: Sites
    residual: float
    value: float

    def slope(self, direction: Sites) -> float:
        """Derivative of the inner objective along a change of sites."""
        first, second = self.energy.excess()
        return -float(first @ direction.nu + second @ direction.tau)


@final
@dataclass(frozen=True)
class DoubleLoop:
    """Maximise over marginals eta what is minimal over sites s.

    With marginals and sites as independent variables the EP energy is
    ``E(s, eta) = Phi(s) + sum_i count_i (G(eta_i - s_i) - A(eta_i))`` (notation of
    `gpclass.inference.energy.Energy`). Phi, G and A are convex, so E is convex in s and can always
    be minimised: by Newton's method, or along EP's own step, which descends too. Marginals
    computed from the moments at that minimum raise its value; these outer steps are accelerated,
    and plain where the value would fall. A stationary point is a fixed point of EP. Cavities must
    be proper. Near a fixed point Newton's method for the fixed point itself ends the iteration.
    ``max_iter`` counts outer steps. Heskes & Zoeter (2002); Opper & Winther (2005), section 5.
    """

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> SolverResult:
        """Iterate from sites."""
        rule, prior = self.rule, self.rule.prior
        sweep, made = first_sweep(rule, sites)
        outer = _Outer.at(sweep.posterior, np.sqrt(prior.diagonal))
        outcome, n_iter, newton_below = Outcome.MAX_ITER, 0, np.inf
        while n_iter < self.max_iter and made <= FACTORISATIONS * self.max_iter:
            n_iter += 1
            if sweep.residual <= self.tol:
                return SolverResult(sweep, Outcome.DOUBLE_LOOP, n_iter, made)
            if sweep.residual < min(NEWTON_FROM, 0.1 * newton_below):
                newton_below = sweep.residual
                sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
                made += steps
                outer = _Outer.at(sweep.posterior, outer.deviation)
                continue
            inner, steps = self._minimise(outer.eta, sweep.posterior)
            made += steps
            following = None if inner is None else rule.sweep(inner.energy.posterior)
            usable = following is not None and np.isfinite(following.residual)
            if outer.accelerated and (inner is None or not usable or outer.falls(inner)):
                # the accelerated step was too long
                outer.eta, outer.accelerated = outer.plain, None
                continue
            if inner is None or following is None or not usable:
                outcome = Outcome.NO_FIXED_POINT
                break
            sweep = following
            outer.accept(inner)
            if (outer.plain.v > RUN_AWAY * prior.diagonal).any():
                outcome = Outcome.NO_FIXED_POINT
                break
        if sweep.residual <= rounding_of_sites(prior, sweep.posterior.sites):
            outcome = Outcome.ROUNDING
        return SolverResult(sweep, outcome, n_iter, made)

    def _minimise(self, eta: _Marginals, posterior: SitePosterior) -> tuple[_Inner | None, int]:
        """Minimise over sites at fixed marginals; None where no step can be made."""
        at = self._at(eta, posterior)
        if at is None:
            return None, 0
        made, goal = 0, max(INNER_GOAL * at.residual, 0.1 * self.tol)
        for _ in range(INNER_STEPS):
            if at.residual <= goal:
                break
            following, trials = self._line_search(eta, at, self._newton_direction(at), 1.0)
            made += trials
            if following is None:
                following, trials = self._line_search(eta, at, at.step, 0.5)
                made += trials
            if following is None:
                # rounding hides what is left, or there was nothing to do
                return (at if made > trials else None), made
            at = following
        return at, made

    def _newton_direction(self, at: _Inner) -> Sites:
        """Newton's direction of the convex inner problem, by conjugate gradients."""
        posterior, (x, v), tilted = at.energy.posterior, at.energy.cavities, at.energy.moments
        if not posterior.factor.has_products:
            return at.step
        count, moments = at.energy.copies.count, at.energy.copies.moments
        h, h_v = STEP * np.sqrt(v), STEP * v
        up, down = moments(x + h, v), moments(x - h, v)
        mean_x, var_x = (up.mean - down.mean) / (2 * h), (up.variance - down.variance) / (2 * h)
        up, down = moments(x, v + h_v), moments(x, v - h_v)
        mean_v, var_v = (up.mean - down.mean) / (2 * h_v), (up.variance - down.variance) / (2 * h_v)
        response, m = Response.of(posterior), posterior.mean
        units = np.concatenate([np.sqrt(posterior.variance), posterior.variance])

        def hessian(scaled: Array) -> Array:
            d_nu, d_tau = np.split(scaled / units, 2)
            d_m, d_variance = response.forward(d_nu, d_tau)
            # the cavities' natural parameters move by minus a copy's share
            d_x, d_v = v * (d_nu - x * d_tau) / count, -(v**2) * d_tau / count
            d_mean, d_var = mean_x * d_x + mean_v * d_v, var_x * d_x + var_v * d_v
            second = -0.5 * (d_variance + d_var) - m * d_m - tilted.mean * d_mean
            return np.asarray(np.concatenate([d_m + d_mean, second]) / units)

        right = np.concatenate(at.energy.excess()) / units
        operator = LinearOperator((2 * len(m),) * 2, matvec=hessian, dtype=np.float64)
        # wherever conjugate gradients stop, what they have descends
        step, _ = cg(operator, right, rtol=1e-3, atol=0.0, maxiter=CG_STEPS)
        return Sites(*np.split(step / units, 2)) if np.isfinite(step).all() else at.step

    def _line_search(
        self, eta: _Marginals, at: _Inner, direction: Sites, step: float
    ) -> tuple[_Inner | None, int]:
        """Bisect to where the slope has fallen by half; also count the trials."""
        begin = at.slope(direction)
        if not begin < 0.0:
            return None, 0
        low, high, best = 0.0, np.inf, None
        sites = at.energy.posterior.sites
        for trial in range(1, TRIALS + 1):
            moved = Sites(sites.nu + step * direction.nu, sites.tau + step * direction.tau)
            found = self._try(eta, moved)
            slope = np.inf if found is None else found.slope(direction)
            if found is not None and abs(slope) <= CURVATURE * abs(begin):
                return found, trial
            if slope > 0.0:
                high = step
            else:
                low, best = step, found
            step = 0.5 * (low + high) if np.isfinite(high) else 2.0 * step
        return best, TRIALS

    def _try(self, eta: _Marginals, sites: Sites) -> _Inner | None:
        try:
            return self._at(eta, SitePosterior.from_sites(self.rule.prior, sites))
        except NotPositiveDefiniteError:
            return None

    def _at(self, eta: _Marginals, posterior: SitePosterior) -> _Inner | None:
        """Evaluate the objective and its slopes; None outside its domain."""
        copies, sites, posterior = self.rule.copies, posterior.sites, posterior.with_covariance()
        count, m, variance = copies.count, posterior.mean, posterior.variance
        p = 1.0 / eta.v - sites.tau / count
        if not (p > 0.0).all():
            return None
        x, v = Cavities((eta.m / eta.v - sites.nu / count) / p, 1.0 / p)
        if not (np.isfinite(v).all() and (variance > 0.0).all()):
            return None
        moments = copies.moments(x, v)
        if not (moments.variance > 0.0).all():
            return None
        # log partition functions of cavities and marginals, up to the same constant
        A = 0.5 * (np.log(v / eta.v) + x**2 / v - eta.m**2 / eta.v)
        value = 0.5 * (float(sites.nu @ m) - posterior.factor.log_det) + float(
            count @ (moments.log_z + A)
        )
        # from the natural parameters of the marginals to those of the tilted densities
        step = Sites(
            count * (moments.mean / moments.variance - m / variance),
            count * (1.0 / moments.variance - 1.0 / variance),
        )
        target = Sites(sites.nu + step.nu, sites.tau + step.tau)
        residual = mismatch(target, sites, variance, count)
        return _Inner(Energy(copies, posterior, Cavities(x, v), moments), step, residual, value)
