"""Newton's method for the fixed point of the sites, and implicit gradients.

The target sites are ``s = g(m, variance, s)``, row by row. The posterior answers a change of
sites with ``dm = Sigma (dnu - m dtau)`` and ``d variance = -(Sigma o Sigma) dtau``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import SitePosterior
from gpclass.inference.energy import Adjoints
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.rule import SiteRule, Sweep, falls
from gpclass.linalg import Array, inner, solve_batch
from gpclass.priors import CovarianceProducts

Points = tuple[tuple[float, float], ...]

# Step of central differences, in deviations, or relative for variances: errors near 1e-10 at
# fourth order, for gradients, and near 1e-6 at second order, for Newton steps.
STEP: Final = 3e-3
# Central differences by a logarithm, of functions that quadrature has right to 1e-12.
LOG_STEP: Final = 1e-3
# Points, in steps, and their weights. Second order spares Newton steps half of the evaluations.
SECOND: Final = ((-0.5, -1.0), (0.5, 1.0))
FOURTH: Final = ((-2.0, 1.0 / 12.0), (-1.0, -8.0 / 12.0), (1.0, 8.0 / 12.0), (2.0, -1.0 / 12.0))
# Directions that the linear solver keeps, and its restarts.
RESTART: Final = 60
RESTARTS: Final = 8
# Part of its square that a vector must keep in an orthogonalisation that needs no second pass.
CANCELLED: Final = 0.1
# Largest part of the residual that a step of Newton's method may leave.
NEWTON_LEAVES: Final = 0.5


class SiteJacobian(NamedTuple):
    """Derivatives of each row's target site; each has the rows (nu, tau), shape (2, n)."""

    by_mean: Array
    by_variance: Array
    by_nu: Array
    by_tau: Array

    @classmethod
    def of(cls, rule: SiteRule, posterior: SitePosterior, points: Points) -> "SiteJacobian":
        """Differentiate a rule at a posterior, by central differences, row by row."""
        m, v = posterior.mean, posterior.variance
        h = np.array([STEP * np.sqrt(v), STEP * v])
        t, weight = np.array(points).T
        moved = t[:, None, None] * h  # all points in one call, which for few rows is the cost
        at_m, at_v = np.empty((2, *moved.shape))
        at_m[:], at_v[:] = m, v
        at_m[:, 0] += moved[:, 0]
        at_v[:, 1] += moved[:, 1]
        rows = np.resize(np.arange(len(m)), at_m.size)
        nu, tau = posterior.sites.nu[rows], posterior.sites.tau[rows]
        found = rule.target(at_m.ravel(), at_v.ravel(), nu, tau, rows)
        values = np.array([found.nu, found.tau]).reshape(2, *moved.shape)
        slopes = np.einsum("t,stdi->dsi", weight, values) / np.where(h > 0, h, np.inf)[:, None]
        by_mean, by_variance = slopes
        count = rule.cavity_counts
        if count is None:
            none = np.zeros((2, len(m)))
            return cls(by_mean, by_variance, none, none)
        # through the cavity's natural parameters m / v - nu / count and 1 / v - tau / count
        by_nu = -v * by_mean / count
        by_tau = (v**2 * by_variance + m * v * by_mean) / count
        return cls(by_mean, by_variance, by_nu, by_tau)

    def resolved(self) -> "SiteJacobian":
        """At a fixed point, by the marginals alone: ``(I - H)^-1 G``, where H is by the sites."""
        H = np.stack([self.by_nu, self.by_tau]).T
        G = np.stack([self.by_mean, self.by_variance]).T
        solved = solve_batch(np.eye(2) - H, G)
        none = np.zeros_like(self.by_mean)
        return SiteJacobian(solved[:, :, 0].T, solved[:, :, 1].T, none, none)


def site_slopes(rule: SiteRule, posterior: SitePosterior) -> Array:
    """Derivatives of a fixed point's (nu, tau) by the likelihood's theta, shape (p, 2 n).

    At fixed marginals. Where sites depend on cavities they move those: ``(I - H)^-1`` times the
    derivatives at fixed sites, as in `SiteJacobian.resolved`.
    """
    sites, theta = posterior.sites, rule.copies.likelihood.theta
    found = np.zeros((len(theta), 2, len(sites)))
    if not len(theta):
        return found.reshape(0, 2 * len(sites))
    for k, unit in enumerate(np.eye(len(theta))):

        def moved(t: float, unit: Array = unit) -> Sites:
            there = rule.with_likelihood(theta + t * LOG_STEP * unit)
            return there.target(posterior.mean, posterior.variance, sites.nu, sites.tau)

        found[k] = difference(moved, np.full(len(sites), LOG_STEP), FOURTH)
    if rule.cavity_counts is not None:
        J = SiteJacobian.of(rule, posterior, FOURTH)
        H = np.stack([J.by_nu, J.by_tau]).T
        found = solve_batch(np.eye(2) - H, found.T).T
    return found.reshape(len(theta), -1)


def difference(function: Callable[[float], Sites], h: Array, points: Points) -> Array:
    """Derivatives of sites by ``t h``, shape (2, n); zero where h is zero."""
    total = np.zeros((2, len(h)))
    for t, weight in points:
        sites = function(t)
        total += weight * np.stack([sites.nu, sites.tau])
    return np.asarray(total / np.where(h > 0, h, np.inf))


@final
@dataclass(frozen=True)
class Response:
    """Linear response of a posterior to its sites."""

    mean: Array
    products: CovarianceProducts

    @classmethod
    def of(cls, posterior: SitePosterior) -> "Response":
        """Form products with Sigma."""
        covariance = posterior.covariance or posterior.factor.covariance()
        return cls(posterior.mean, covariance.products())

    def forward(self, d_nu: Array, d_tau: Array) -> tuple[Array, Array]:
        """Changes of marginal means and variances with those of sites."""
        d_mean = self.products.multiply(d_nu - self.mean * d_tau)
        return d_mean, -self.products.multiply_squared(d_tau)

    def adjoint(self, by_mean: Array, by_variance: Array) -> tuple[Array, Array]:
        """Derivatives by sites from derivatives by marginals."""
        by_nu = self.products.multiply(by_mean)
        return by_nu, -self.mean * by_nu - self.products.multiply_squared(by_variance)


def newton_step(rule: SiteRule, sweep: Sweep) -> Sites | None:
    """Sites after one Newton step for ``g(s) = s``; None where the linear system resists."""
    posterior, target = sweep.posterior, sweep.target
    J = SiteJacobian.of(rule, posterior, SECOND)
    response = Response.of(posterior)
    sites, n = posterior.sites, len(posterior.sites)

    def matvec(d: Array) -> Array:
        d_nu, d_tau = d[:n], d[n:]
        d_mean, d_variance = response.forward(d_nu, d_tau)
        answer = J.by_mean * d_mean + J.by_variance * d_variance + J.by_nu * d_nu + J.by_tau * d_tau
        return np.asarray(d - answer.ravel())

    gap = np.concatenate([target.nu - sites.nu, target.tau - sites.tau])
    # Newton's own error is quadratic in the residual: solving more finely is wasted
    step = solve(matvec, gap, max(1e-6, min(1e-2, 0.1 * sweep.residual)))
    return None if step is None else Sites(sites.nu + step[:n], sites.tau + step[n:])


def newton_steps(rule: SiteRule, sweep: Sweep, tol: float) -> tuple[Sweep, int]:
    """Newton steps while each halves the residual: the last sweep, and the factorisations."""
    if sweep.residual <= tol or not sweep.posterior.factor.has_products:
        return sweep, 0
    sites = newton_step(rule, sweep)
    sweep, made = newton_steps_to(rule, sweep, sites, tol)
    return sweep._replace(posterior=sweep.posterior.with_covariance()), made


def newton_steps_to(
    rule: SiteRule, sweep: Sweep, sites: Sites | None, tol: float
) -> tuple[Sweep, int]:
    """`newton_steps`, the first of which leads from a sweep to ``sites``.

    The sweep that comes back may be without its covariance: next to K, two factors and one inverse
    are held at a time where the one given is without it too.
    """
    made = 0
    while sites is not None:
        try:
            following = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
        except NotPositiveDefiniteError:
            break
        made += 1
        gains = following.residual <= NEWTON_LEAVES * sweep.residual
        if falls(rule, sweep, following) or not gains:
            break
        sweep = following
        del following  # a second name would keep the inverse
        if sweep.residual <= tol:
            break
        sites = newton_step(rule, sweep)
        sweep = sweep.without_covariance()
    return sweep, made


class Implicit(NamedTuple):
    """Adjoints of ``marginals`` at fixed sites, and of direct changes of the sites."""

    marginals: Adjoints
    by_nu: Array
    by_tau: Array


def implicit_adjoints(
    J: SiteJacobian, posterior: SitePosterior, marginals: Adjoints, by_nu: Array, by_tau: Array
) -> Implicit:
    """Adjoints of a scalar of marginals and sites, where sites are ``g(m, variance)``.

    J has the derivatives of g, those by sites are zero (`SiteJacobian.resolved`).

    With ``ds = G d(m, v)`` and ``d(m, v) = e + L ds`` the derivative is ``lambda . e`` for
    ``lambda = rho + G^T kappa_0 + G^T L^T lambda``, where rho and kappa_0 are the direct adjoints
    of marginals and sites: one linear system. ArithmeticError where it has no solution.
    """
    response = Response.of(posterior)
    n = len(posterior.sites)

    def through_sites(by_nu: Array, by_tau: Array) -> Array:
        by_site = np.stack([by_nu, by_tau])
        return np.concatenate([(J.by_mean * by_site).sum(0), (J.by_variance * by_site).sum(0)])

    def matvec(adjoint: Array) -> Array:
        return adjoint - through_sites(*response.adjoint(adjoint[:n], adjoint[n:]))

    right = np.concatenate(marginals) + through_sites(by_nu, by_tau)
    found = solve(matvec, right, 1e-10)
    if found is None:
        raise ArithmeticError(
            "there is no derivative here: the fixed point is about to vanish or to split"
        )
    total = Adjoints(found[:n], found[n:])
    more_nu, more_tau = response.adjoint(total.mean, total.variance)
    return Implicit(total, by_nu + more_nu, by_tau + more_tau)


def solve(matvec: Callable[[Array], Array], right: Array, rtol: float) -> Array | None:
    """Least residuals, on a system that differs from the identity by a contraction; None: failed.

    Generalised conjugate residuals (Eisenstat, Elman & Schultz, SIAM J. Numer. Anal. 20, 1983):
    the steps of GMRES. scipy's takes 0.6 ms for six steps whose products take 0.1 at 50 rows.
    """
    size = float(np.abs(right).max(initial=0.0))
    if size == 0.0:
        return np.zeros_like(right)
    left = right / size
    found, goal = np.zeros_like(left), rtol**2 * inner(left, left)
    # directions, and what the system makes of them: orthonormal
    tried, images = np.empty((2, min(RESTART, len(right)), len(right)))
    for i in range(RESTARTS * len(tried)):
        k = i % len(tried)
        p, q = left, matvec(left)
        for _ in range(2 if k else 0):
            before = inner(q, q)
            # einsum wakes no second thread for this
            along = np.einsum("ki,i->k", images[:k], q)
            p = p - np.einsum("k,ki->i", along, tried[:k])
            q = q - np.einsum("k,ki->i", along, images[:k])
            if inner(q, q) > CANCELLED * before:
                break  # else rounding has left a part of the images in q
        length = inner(q, q) ** 0.5
        if not 0.0 < length < np.inf:
            return None
        tried[k], images[k] = p / length, q / length
        share = inner(images[k], left)
        found, left = found + share * tried[k], left - share * images[k]
        if inner(left, left) <= goal:
            return np.asarray(found * size)
    return None
