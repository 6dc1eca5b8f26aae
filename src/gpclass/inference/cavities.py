"""What EP sees of the data: likelihood terms under cavities of given variance."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.newton import Terms
from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods.base import Likelihood, TiltedMoments

Array = NDArray[np.float64]

# Steps of the one-dimensional search for a cavity mean; Newton's doubles its digits near the root.
MAX_SEARCH: Final = 60
# Distance from the root, in deviations of the cavity, that the closing first-order correction
# takes out: what it leaves is of the order of the square.
NEAR: Final = 1e-7


@final
@dataclass(frozen=True)
class Copies:
    """Likelihood terms raised to weights, as EP must split them.

    A weight w is ``n = ceil(w)`` copies of the term to the power ``w / n``: for a whole number
    just the row repeated, and never a power above one, whose site could not be taken out of the
    posterior.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,)
        Labels -1 and +1.
    weights : ndarray of shape (n,)
    """

    likelihood: Likelihood
    y: Array
    weights: Array

    @property
    def count(self) -> Array:
        """Copies of each row; at least one, of a power of zero, where the weight is zero."""
        return np.maximum(np.ceil(self.weights), 1.0)

    def moments(self, mean: Array, var: Array) -> TiltedMoments:
        """Tilted moments of one copy of each row under its cavity."""
        power = self.weights / self.count
        whole = power == 1.0
        if whole.all():
            return self.likelihood.tilted_moments(self.y, mean, var)
        # a weight of zero says nothing: log Z = 0 and the cavity itself
        found = TiltedMoments(
            np.zeros_like(mean), mean.copy(), var.copy(), *np.zeros((2, len(mean)))
        )
        part = (power > 0.0) & ~whole
        for rows in (whole, part):
            if not rows.any():
                continue
            y, m, v = self.y[rows], mean[rows], var[rows]
            if rows is whole:
                moments = self.likelihood.tilted_moments(y, m, v)
            else:
                moments = by_quadrature.power_moments(self.likelihood, power[rows], y, m, v)
            for whole_array, values in zip(found, moments, strict=True):
                whole_array[rows] = values
        return found


class SiteUpdate(NamedTuple):
    """Sites of one copy of each row that match the tilted moments.

    ``force`` is the derivative of log Z by the cavity mean: ``nu - tau * mean of the posterior``.
    """

    nu: Array
    tau: Array
    force: Array
    moments: TiltedMoments


def match(moments: TiltedMoments, cavity_mean: Array, cavity_var: Array) -> SiteUpdate:
    """Site that turns the cavity into the tilted mean and variance (RW06 eq. 3.59).

    ``tau = 1 / tilted variance - 1 / v = -d2 v / tilted variance`` and
    ``nu = d1 + tau * tilted mean``, in derivatives of log Z so that a label that says next to
    nothing keeps its digits.
    """
    shrink = moments.variance / np.maximum(cavity_var, 1e-300)
    tau = -moments.d2_mean / np.maximum(shrink, 1e-300)
    return SiteUpdate(moments.d_mean + tau * moments.mean, tau, moments.d_mean, moments)


class CavityDetail(NamedTuple):
    """What `CavityTerms` found at f: cavity means and the sites that match there."""

    cavity_mean: Array
    update: SiteUpdate


@final
@dataclass(frozen=True)
class CavityTerms:
    """EP's terms as functions of the posterior mean, for cavities of fixed variance.

    With v fixed, EP asks for cavity means x such that the tilted mean ``m = x + v d log Z / dx``
    is the posterior mean ``f = K a`` and ``a`` the sum of the forces ``d log Z / dx``. That is the
    mode of ``sum_i count_i phi_i(f_i) - f^T K^-1 f / 2``, where
    ``phi(f) = log Z(x) + v (d log Z / dx)^2 / 2`` at the x whose tilted mean is f: concave, with
    ``phi' = d log Z / dx`` and ``phi'' = -tau``, the precision of the matching site.

    Parameters
    ----------
    copies : Copies
    v : ndarray of shape (n,)
        Cavity variances.
    """

    copies: Copies
    v: Array

    def __call__(self, f: Array, nearby: Terms | None) -> Terms:
        """Find the cavity means whose tilted means are f, and the terms there."""
        v, y = self.v, self.copies.y
        sd = np.sqrt(v)
        if nearby is None:
            x = f.copy()
        else:
            detail: CavityDetail = nearby.detail
            shrink = detail.update.moments.variance / np.maximum(v, 1e-300)
            x = detail.cavity_mean + (f - detail.update.moments.mean) / np.maximum(shrink, 1e-8)
        # the tilted mean lies on the label's side of the cavity mean, so f bounds x from one side
        lower = np.where(y > 0, -np.inf, f)
        upper = np.where(y > 0, f, np.inf)
        for _ in range(MAX_SEARCH):
            x = np.clip(x, lower, upper)
            moments = self.copies.moments(x, v)
            gap = f - moments.mean
            if (np.abs(gap) <= NEAR * sd + 1e-14 * np.abs(f)).all():
                break
            lower = np.where(gap > 0, np.maximum(lower, x), lower)
            upper = np.where(gap < 0, np.minimum(upper, x), upper)
            step = gap * v / np.maximum(moments.variance, 1e-300)
            x_new = x + step
            outside = ~((x_new > lower) & (x_new < upper))
            bounded = np.isfinite(lower) & np.isfinite(upper)
            middle = np.where(bounded, 0.5 * (lower + upper), x + 2 * gap)
            x = np.where(np.abs(gap) <= NEAR * sd, x, np.where(outside, middle, x_new))
        update = match(moments, x, v)
        count = self.copies.count
        value = moments.log_z + 0.5 * v * update.force**2
        # first and second order in what is left of the gap
        value = value + gap * (update.force - 0.5 * update.tau * gap)
        return Terms(
            float(count @ value),
            count * (update.force - update.tau * gap),
            -count * update.tau,
            CavityDetail(x, update),
        )
