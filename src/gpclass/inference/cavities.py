"""What EP sees of the data: likelihood terms under cavities."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import SitePosterior
from gpclass.inference.sites import Sites
from gpclass.inference.terms import Terms
from gpclass.likelihoods.base import Likelihood, TiltedMoments
from gpclass.linalg import EPS, TINY, Array

Rows = NDArray[np.intp]

# Steps of the one-dimensional search for a cavity mean; Newton's doubles its digits near the root.
MAX_SEARCH: Final = 40
# Distance from the root, in deviations of the cavity, at which the search ends: the precision of
# the matching site moves with it in first order.
SEARCH_TOL: Final = 1e-11
# Part of a marginal's precision by which rounding may make that of a cavity negative.
ROUNDING: Final = 1e-13
# Site precision beyond which its products with means and variances may overflow.
LARGEST_PRECISION: Final = 1e100


def copies_of(weights: Array) -> Array:
    """Copies of a row: its weight, or one copy to a power where the weight is below one."""
    return np.maximum(weights, 1.0)


@final
@dataclass(frozen=True)
class Copies:
    """Likelihood terms to the power of weights: w > 1 is w copies, w < 1 one copy to the power w.

    The site of a power above one could not always be taken out of the posterior. A number of
    copies need not be whole: all formulas are linear in it. Sites are about the prior mean,
    ``offset``.
    """

    likelihood: Likelihood
    y: Array
    weights: Array
    offset: Array

    @cached_property
    def count(self) -> Array:
        """Copies of each row; at least one, of a power of zero, where the weight is zero."""
        return copies_of(self.weights)

    @cached_property
    def no_fractions(self) -> bool:
        """Whether every weight is at least one: no term has a fractional power."""
        return bool((self.weights >= 1.0).all())

    def rows(self, rows: Rows | None) -> tuple[Array, Array, Array]:
        """Labels, prior means and weights of some rows, None for all."""
        if rows is None:
            return self.y, self.offset, self.weights
        return self.y[rows], self.offset[rows], self.weights[rows]

    def moments(self, mean: Array, var: Array, rows: Rows | None = None) -> TiltedMoments:
        """Tilted moments of one copy of each row (or of some, whose cavities are given)."""
        y, offset, weights = self.rows(rows)
        if self.no_fractions:
            found = self.likelihood.tilted_moments(y, mean + offset, var)
        else:
            found = self._tilted(y, mean + offset, var, weights / copies_of(weights))
        return found._replace(mean=found.mean - offset)

    def _tilted(self, y: Array, m: Array, v: Array, power: Array) -> TiltedMoments:
        whole = power == 1.0
        if whole.all():
            return self.likelihood.tilted_moments(y, m, v)
        # a weight of zero says nothing: log Z = 0 and the cavity itself
        nothing = np.zeros((2, len(m)))
        found = TiltedMoments(np.zeros(len(m)), m.copy(), v.copy(), *nothing)
        part = (power > 0.0) & ~whole
        if whole.any():
            _fill(found, whole, self.likelihood.tilted_moments(y[whole], m[whole], v[whole]))
        if part.any():
            powered = self.likelihood.power_moments(power[part], y[part], m[part], v[part])
            _fill(found, part, powered)
        return found

    def log_z_gradient(self, mean: Array, var: Array) -> Array:
        """Derivatives of all copies' log Z by the likelihood's hyperparameters, shape (p,)."""
        gradient = self.likelihood.log_z_gradient(
            self.y, mean + self.offset, var, self.weights / self.count
        )
        return np.asarray(gradient @ self.count)


def _fill(found: TiltedMoments, rows: NDArray[np.bool_], moments: TiltedMoments) -> None:
    for whole, part in zip(found, moments, strict=True):
        whole[rows] = part


class Cavities(NamedTuple):
    """Means x and variances v, (n,), of one copy's cavities (RW06 eq. 3.56); NaN: no density."""

    x: Array
    v: Array

    @property
    def proper(self) -> bool:
        """Whether every cavity is a density."""
        return bool((self.v >= 0).all() and np.isfinite(self.v).all())

    @classmethod
    def of(cls, posterior: SitePosterior, count: Array) -> "Cavities":
        """Cavities of a posterior: ``1 / v = 1 / variance - tau``."""
        sites = posterior.sites
        return cls.from_marginals(
            posterior.mean,
            posterior.variance,
            sites.nu / count,
            sites.tau / count,
            slack=np.inf if (sites.tau >= 0.0).all() else ROUNDING,
        )

    @classmethod
    def from_marginals(
        cls, m: Array, variance: Array, nu: Array, tau: Array, slack: float = ROUNDING
    ) -> "Cavities":
        """Cavities; rounding may make a precision negative by ``slack`` times the marginal's."""
        left = 1.0 - tau * variance
        if not (left > 0.0).all():
            left = np.where((left <= 0.0) & (left > -slack), EPS, left)
            left = np.where(left > 0.0, left, np.nan)
        v = variance / left
        return cls(m - v * (nu - tau * m), v)


def match(moments: TiltedMoments, cavity_var: Array) -> Sites:
    """Site of each row: ``tau = -d2 log Z / dm2 / (1 + v d2 log Z / dm2)`` cancels nothing."""
    reduction = moments.variance / np.maximum(cavity_var, TINY)
    with np.errstate(over="ignore"):  # a label far on the wrong side of a step
        tau = np.minimum(-moments.d2_mean / np.maximum(reduction, TINY), LARGEST_PRECISION)
    return Sites(moments.d_mean + tau * moments.mean, tau)


class CavityDetail(NamedTuple):
    """``cavity_mean`` (n,) that `CavityTerms` found for f, and the tilted ``moments`` there."""

    cavity_mean: Array
    moments: TiltedMoments


@final
@dataclass(frozen=True)
class CavityTerms:
    """EP's terms as functions of the posterior mean, for cavities of fixed variance v, shape (n,).

    With v fixed, EP asks for cavity means x such that the tilted mean ``m = x + v d log Z / dx``
    is the posterior mean ``f = K a`` and ``a`` the sum of the forces ``d log Z / dx``. That is the
    mode of ``sum_i count_i phi_i(f_i) - f^T K^-1 f / 2``, where
    ``phi(f) = log Z(x) + v (d log Z / dx)^2 / 2`` at the x whose tilted mean is f: concave, with
    ``phi' = d log Z / dx`` and ``phi'' = -tau``, the precision of the matching site.
    """

    copies: Copies
    v: Array

    def __call__(self, f: Array, nearby: Terms | None) -> Terms:
        """Terms at f; ``nearby`` must come from the same cavity variances."""
        found = nearby.detail if nearby else CavityDetail(f, self.copies.moments(f, self.v))
        x, moments = self._search(f, found)
        update = match(moments, self.v)
        gap = f - moments.mean
        count = self.copies.count
        value = moments.log_z + 0.5 * self.v * moments.d_mean**2
        # first and second order in what is left of the gap
        value = value + gap * (moments.d_mean - 0.5 * update.tau * gap)
        return Terms(
            float(count @ value),
            count * (moments.d_mean - update.tau * gap),
            -count * update.tau,
            CavityDetail(x, moments),
        )

    def _search(self, f: Array, start: CavityDetail) -> CavityDetail:
        """Cavity means whose tilted means are f, by Newton's method between bounds."""
        x, moments = start.cavity_mean.copy(), TiltedMoments(*(a.copy() for a in start.moments))
        sd = np.sqrt(self.v)
        # the tilted mean lies on the label's side of the cavity mean, so f bounds x from one side
        y = self.copies.y
        lower, upper = np.where(y > 0, -np.inf, f), np.where(y > 0, f, np.inf)
        for _ in range(MAX_SEARCH):
            gap = f - moments.mean
            # x + v d log Z / dx cancels where x is far out: its rounding is that of x
            rounding = 8 * EPS * (np.abs(f) + np.abs(x))
            rows = np.flatnonzero(np.abs(gap) > SEARCH_TOL * sd + rounding)
            if not len(rows):
                break
            short = gap > 0
            lower[short] = np.maximum(lower[short], x[short])
            upper[~short] = np.minimum(upper[~short], x[~short])
            low, high, at, d = lower[rows], upper[rows], x[rows], gap[rows]
            step = at + d * self.v[rows] / np.maximum(moments.variance[rows], TINY)
            with np.errstate(invalid="ignore"):
                middle = np.where(np.isfinite(low + high), 0.5 * (low + high), at + 2 * d)
            target = np.where((step > low) & (step < high), step, np.clip(middle, low, high))
            rows, target = rows[target != at], target[target != at]
            if not len(rows):
                break  # the bracket has closed: rounding of the moments hides the rest
            x[rows] = target
            renewed = self.copies.moments(target, self.v[rows], rows)
            for whole, part in zip(moments, renewed, strict=True):
                whole[rows] = part
        return CavityDetail(x, moments)
