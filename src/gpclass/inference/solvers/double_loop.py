"""EP by a double loop that converges wherever there is a fixed point."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.cavities import Cavities
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.acceleration import extrapolate
from gpclass.inference.solvers.newton import EPS
from gpclass.inference.solvers.response import STEP, Response, newton_steps
from gpclass.inference.solvers.rule import OBJECTIVE_NOISE, End, SiteRule, rounding_of_sites
from gpclass.likelihoods.base import TiltedMoments
from gpclass.priors import Prior

Array = NDArray[np.float64]

# Steps of one inner minimisation, and trials of one line search.
INNER_STEPS: Final = 10
TRIALS: Final = 30
# Fraction to which an inner minimisation brings its gradient down before the outer step.
INNER_GOAL: Final = 0.2
# Part of the slope that may be left at the end of a line search.
CURVATURE: Final = 0.5
# Residual below which Newton's method is tried.
NEWTON_FROM: Final = 0.1
# A marginal variance of the outer loop beyond this many prior variances has run away.
RUN_AWAY: Final = 1e6
# Products with the Hessian for one Newton direction.
CG_STEPS: Final = 200
# Factorisations for each outer step that is allowed, on average: most take one.
PRICE: Final = 4
# Outer steps that an accelerated one combines.
MEMORY: Final = 8


class _Marginals(NamedTuple):
    """Natural parameters of the outer loop's marginals."""

    h: Array
    p: Array

    def coordinates(self, deviation: Array) -> Array:
        """Means in prior deviations and logarithms of variances: free of constraints."""
        return np.concatenate([self.h / self.p / deviation, -np.log(self.p)])

    @classmethod
    def at(cls, coordinates: Array, deviation: Array) -> "_Marginals":
        """Return the marginals of these coordinates."""
        mean, log_variance = np.split(coordinates, 2)
        p = np.exp(-log_variance)
        return cls(mean * deviation * p, p)


class _Inner(NamedTuple):
    """A point of the inner minimisation."""

    posterior: SitePosterior
    cavities: Cavities
    moments: TiltedMoments
    plain: Sites
    residual: float
    value: float

    def slope(self, direction: Sites) -> float:
        """Derivative of the inner objective along a change of sites."""
        m, variance = self.posterior.mean, self.posterior.variance
        d_mean = m - self.moments.mean
        d_variance = variance - self.moments.variance
        d_square = -0.5 * (d_variance + d_mean * (m + self.moments.mean))
        return float(d_mean @ direction.nu + d_square @ direction.tau)


@final
@dataclass(frozen=True)
class DoubleLoop:
    """Maximise over marginals eta what is minimal over sites s.

    With marginals and sites as independent variables the EP energy is
    ``E(s, eta) = Phi(s) + sum_i count_i (G(eta_i - s_i) - A(eta_i))``, where Phi is the log
    partition function of the posterior, G that of the tilted densities, A that of the marginals
    (`gpclass.inference.energy`). All three are convex, so E is convex in s: an inner minimisation
    can always be done, here by Newton's method (or along EP's own move, which descends too) with a
    line search on the slope. Its value is a difference of convex functions of eta, and eta renewed
    from the moments found by the inner loop raises it. Outer steps are accelerated (Anderson), and
    plain where the value would fall. A stationary point is a fixed point of EP. Nothing in this
    asks for a log-concave likelihood or for positive site precisions, only for proper cavities,
    which bound the domain of G.

    Near a fixed point Newton's method ends the iteration, if it converges.

    Parameters
    ----------
    rule : SiteRule
    tol : float
        `Sweep.residual` at which the sites count as matched.
    max_iter : int
        Outer steps.

    References
    ----------
    Heskes & Zoeter (2002); Opper & Winther (2005), section 5.
    """

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> End:
        """Iterate from sites."""
        rule = self.rule
        prior: Prior = rule.prior
        sweep = rule.sweep(SitePosterior.from_sites(prior, sites))
        made = 1
        if not np.isfinite(sweep.residual):
            nothing = Sites(np.zeros(prior.n), np.zeros(prior.n))
            sweep = rule.sweep(SitePosterior.from_sites(prior, nothing))
            made = 2
        outcome, n_iter, newton = Outcome.MAX_ITER, 0, np.inf
        eta = plain = _natural(sweep.posterior)
        tried: list[Array] = []
        mapped: list[Array] = []
        height, deviation = -np.inf, np.sqrt(prior.diagonal)
        for n_iter in range(1, self.max_iter + 1):
            if sweep.residual <= self.tol:
                return End(sweep, Outcome.DOUBLE_LOOP, n_iter, made)
            if sweep.residual < NEWTON_FROM and sweep.residual < 0.1 * newton:
                newton = sweep.residual
                sweep, steps = newton_steps(rule, sweep, 0.1 * self.tol)
                made += steps
                if sweep.residual <= self.tol:
                    return End(sweep, Outcome.DOUBLE_LOOP, n_iter, made)
                eta = plain = _natural(sweep.posterior)
                tried, mapped, height = [], [], -np.inf
            if made > PRICE * self.max_iter:
                break
            found, steps = self._minimise(eta, sweep.posterior)
            made += steps
            noise = OBJECTIVE_NOISE * EPS * max(1.0, abs(height))
            following = None if found is None else rule.sweep(found.posterior)
            usable = following is not None and np.isfinite(following.residual)
            if tried and not (found is not None and usable and found.value >= height - noise):
                # the accelerated step was too long: the plain one raises the value
                tried, mapped, eta = [], [], plain
                continue
            if found is None or following is None or not usable:
                outcome = Outcome.NO_FIXED_POINT
                break
            height, plain, sweep = found.value, _natural(found.posterior), following
            if (RUN_AWAY * plain.p * prior.diagonal < 1.0).any():
                outcome = Outcome.NO_FIXED_POINT
                break
            tried = [*tried, eta.coordinates(deviation)][-MEMORY:]
            mapped = [*mapped, plain.coordinates(deviation)][-MEMORY:]
            eta = _Marginals.at(extrapolate(tried, mapped), deviation)
        if sweep.residual <= rounding_of_sites(prior, sweep.posterior.sites):
            outcome = Outcome.ROUNDING
        return End(sweep, outcome, n_iter, made)

    def _minimise(self, eta: _Marginals, posterior: SitePosterior) -> tuple[_Inner | None, int]:
        """Minimise over sites for marginals that stay; None where no step can be made."""
        at = self._at(eta, posterior)
        if at is None:
            return None, 0
        made, goal = 0, INNER_GOAL * at.residual
        for _ in range(INNER_STEPS):
            if at.residual <= goal or at.residual <= 0.1 * self.tol:
                break
            direction = self._newton_direction(at)
            following, steps = self._line_search(eta, at, direction, 1.0)
            made += steps
            if following is None:
                following, steps = self._line_search(eta, at, at.plain, 0.5)
                made += steps
            if following is None:
                # rounding hides what is left, or there was nothing to do
                return (at if made > steps else None), made
            at = following
        return at, made

    def _newton_direction(self, at: _Inner) -> Sites:
        """Newton's direction of the convex inner problem, by conjugate gradients.

        Its Hessian is the covariance of ``(f, -f^2 / 2)`` under the posterior, plus that under
        each tilted density over the count of copies.
        """
        if not at.posterior.factor.has_products:
            return at.plain
        copies = self.rule.copies
        x, v = at.cavities
        count = copies.count
        h, h_var = STEP * np.sqrt(v), STEP * v
        up, down = copies.moments(x + h, v), copies.moments(x - h, v)
        mean_x, var_x = (up.mean - down.mean) / (2 * h), (up.variance - down.variance) / (2 * h)
        up, down = copies.moments(x, v + h_var), copies.moments(x, v - h_var)
        mean_v = (up.mean - down.mean) / (2 * h_var)
        var_v = (up.variance - down.variance) / (2 * h_var)
        response = Response.of(at.posterior)
        m, tilted_m = at.posterior.mean, at.moments.mean
        variance = at.posterior.variance
        n = len(m)
        units = np.concatenate([np.sqrt(variance), variance])

        def matvec(scaled: Array) -> Array:
            d_nu, d_tau = np.split(scaled / units, [n])
            d_m, d_variance = response.forward(d_nu, d_tau)
            # the cavities' natural parameters move by minus a copy's share
            d_x, d_v = v * (d_nu - x * d_tau) / count, -(v**2) * d_tau / count
            d_mean = mean_x * d_x + mean_v * d_v
            d_var = var_x * d_x + var_v * d_v
            first = d_m + d_mean
            second = -0.5 * (d_variance + d_var) - m * d_m - tilted_m * d_mean
            return np.asarray(np.concatenate([first, second]) / units)

        d_mean = m - tilted_m
        d_square = -0.5 * (variance - at.moments.variance + d_mean * (m + tilted_m))
        right = -np.concatenate([d_mean, d_square]) / units
        operator = LinearOperator((2 * n, 2 * n), matvec=matvec, dtype=np.float64)
        # wherever conjugate gradients stop, what they have descends
        step, _ = cg(operator, right, rtol=1e-3, atol=0.0, maxiter=CG_STEPS)
        d_nu, d_tau = np.split(step / units, [n])
        if not (np.isfinite(d_nu).all() and np.isfinite(d_tau).all()):
            return at.plain
        return Sites(d_nu, d_tau)

    def _line_search(
        self, eta: _Marginals, at: _Inner, direction: Sites, step: float
    ) -> tuple[_Inner | None, int]:
        """Step along the direction to where the slope has fallen by half, by bisection."""
        begin = at.slope(direction)
        if not begin < 0.0:
            return None, 0
        low, high, best = 0.0, np.inf, None
        sites = at.posterior.sites
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
        """Evaluate the slopes; None outside the domain."""
        copies = self.rule.copies
        count = copies.count
        sites = posterior.sites
        p = eta.p - sites.tau / count
        if not (p > 0.0).all():
            return None
        cavities = Cavities((eta.h - sites.nu / count) / p, 1.0 / p)
        if not cavities.proper:
            return None
        moments = copies.moments(*cavities)
        posterior = posterior.with_covariance()
        m, variance = posterior.mean, posterior.variance
        if not ((variance > 0.0).all() and (moments.variance > 0.0).all()):
            return None
        # log partition functions A of cavities and marginals, up to the same constant
        A = 0.5 * (np.log(cavities.v) + cavities.x**2 / cavities.v)
        A = A - 0.5 * (eta.h**2 / eta.p - np.log(eta.p))
        value = (
            -0.5 * posterior.factor.log_det
            + 0.5 * float(sites.nu @ posterior.mean)
            + float(count @ (moments.log_z + A))
        )
        # EP's own move, from the natural parameters of the marginals to those of the tilted
        d_tau = 1.0 / moments.variance - 1.0 / variance
        d_nu = moments.mean / moments.variance - m / variance
        reach = np.maximum(variance, 1.0 / np.maximum(1.0, np.abs(sites.tau) / count))
        residual = max(
            float((reach * np.abs(d_tau)).max(initial=0.0)),
            float((np.sqrt(reach) * np.abs(d_nu)).max(initial=0.0)),
        )
        return _Inner(
            posterior, cavities, moments, Sites(count * d_nu, count * d_tau), residual, value
        )


def _natural(posterior: SitePosterior) -> _Marginals:
    variance = posterior.variance
    return _Marginals(posterior.mean / variance, 1.0 / variance)
