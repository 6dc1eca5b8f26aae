"""The normal distribution's log cdf and hazard phi(z) / Phi(z), accurate in both tails."""

from typing import Final, NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from gpclass.likelihoods.results import Array

# z is clipped to +-Z_LIMIT: log Phi(-1e150) = -5e299, and squares of more would overflow.
Z_LIMIT: Final = 1e150

# From t = -z = 4 on Laplace's continued fraction has 1e-16 within this depth; below it the
# subtractions cost at most t^4 roundings.
TAIL_START: Final = 4.0
TAIL_DEPTH: Final = 40

ROOT_TWO: Final = float(np.sqrt(2.0))
HAZARD_AT_ZERO: Final = float(np.sqrt(2.0 / np.pi))


def log_cdf(z: Array) -> Array:
    """``log Phi(z)``, finite for every finite z."""
    return np.asarray(log_ndtr(clipped(z)), dtype=float)


def clipped(z: Array) -> Array:
    """Z within the limits; `np.clip` takes three times as long for few."""
    return np.minimum(np.maximum(z, -Z_LIMIT), Z_LIMIT)


class Mills(NamedTuple):
    """The hazard ``r = phi(z) / Phi(z)`` and three terms that would cancel if computed from it.

    ``drift = z + r``, ``slack = 1 - r (z + r)`` and ``third = r ((z + r)(z + 2r) - 1)``.
    """

    hazard: Array
    drift: Array
    slack: Array
    third: Array


def mills(z: Array) -> Mills:
    """Hazard and companions at z, each relatively accurate.

    For t = -z > 0 Laplace's continued fraction of the Mills ratio is
    ``r = t + K1, K1 = 1/(t + K2), K2 = 2/(t + K3), K3 = 3/(t + ...)`` (Abramowitz & Stegun
    26.2.14), so that z + r = K1 and, by ``K1 (t + K2) = 1`` and ``K2 (t + K3) = 2``,
    ``1 - r K1 = K1 (K2 - K1)`` and ``third = r K1^2 K2 (K3 - K2)``, where K3 - K2 is near 1/t.
    """
    shape, z = np.shape(z), clipped(np.ravel(z))
    near = np.maximum(z, -TAIL_START)
    hazard = np.asarray(HAZARD_AT_ZERO / erfcx(-near / ROOT_TWO), dtype=float)
    drift = near + hazard
    slack = 1.0 - hazard * drift
    third = hazard * (drift * (drift + hazard) - 1.0)
    (tail,) = np.nonzero(z < -TAIL_START)
    if tail.size:
        t = -z[tail]
        k3 = np.zeros_like(t)
        for j in range(TAIL_DEPTH, 2, -1):
            k3 = j / (t + k3)
        k2 = 2.0 / (t + k3)
        k1 = 1.0 / (t + k2)
        r = t + k1
        hazard[tail], drift[tail] = r, k1
        slack[tail], third[tail] = k1 * (k2 - k1), r * k1 * k1 * k2 * (k3 - k2)
    return Mills(*(a.reshape(shape) for a in (hazard, drift, slack, third)))
