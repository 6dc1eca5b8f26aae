"""The probit likelihood, p(y|f) = Phi(y f)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np
from scipy.special import erfcx, log_ndtr

from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods.base import (
    Array,
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    Linearisation,
    TiltedMoments,
    linearisation,
)

# log Phi(-1e150) = -5e299; squares of what lies beyond would overflow.
_FAR = 1e150

# From t = -z = 4 on Laplace's continued fraction has 1e-16 within this depth, and below it the
# subtractions cost at most t^4 roundings.
_TAIL, _DEPTH = 4.0, 40

_SQRT_2_OVER_PI = float(np.sqrt(2.0 / np.pi))


class _Mills(NamedTuple):
    """The hazard ``r = phi(z) / Phi(z)`` and what cancels if taken from it, in the far tail.

    ``drift = z + r``, ``slack = 1 - r (z + r)`` and ``third = r ((z + r)(z + 2r) - 1)``.
    """

    hazard: Array
    drift: Array
    slack: Array
    third: Array


def _mills(z: Array) -> _Mills:
    """Hazard and companions at z, each relatively accurate.

    For t = -z > 0 Laplace's continued fraction of the Mills ratio is
    ``r = t + K1, K1 = 1/(t + K2), K2 = 2/(t + K3), K3 = 3/(t + ...)`` (Abramowitz & Stegun
    26.2.14), so that z + r = K1 and, by ``K1 (t + K2) = 1`` and ``K2 (t + K3) = 2``,
    ``1 - r K1 = K1 (K2 - K1)`` and ``third = r K1^2 K2 (K3 - K2)``, where K3 - K2 is near 1/t.
    """
    shape, z = np.shape(z), np.ravel(z)
    near = np.maximum(z, -_TAIL)
    hazard = np.asarray(_SQRT_2_OVER_PI / erfcx(-near / np.sqrt(2.0)), dtype=float)
    drift = near + hazard
    slack = 1.0 - hazard * drift
    third = hazard * (drift * (drift + hazard) - 1.0)
    (tail,) = np.nonzero(z < -_TAIL)
    if tail.size:
        t = -z[tail]
        k3 = np.zeros_like(t)
        for j in range(_DEPTH, 2, -1):
            k3 = j / (t + k3)
        k2 = 2.0 / (t + k3)
        k1 = 1.0 / (t + k2)
        r = t + k1
        hazard[tail], drift[tail] = r, k1
        slack[tail], third[tail] = k1 * (k2 - k1), r * k1 * k1 * k2 * (k3 - k2)
    return _Mills(*(a.reshape(shape) for a in (hazard, drift, slack, third)))


@final
@dataclass(frozen=True)
class Probit(Likelihood):
    """Probit likelihood ``p(y|f) = Phi(y f)``, Phi the normal distribution function.

    All Gaussian integrals are closed forms, but for ``expected_log_prob``.

    References
    ----------
    RW06 eq. 3.16 and 3.82 to 3.87.

    Examples
    --------
    >>> import numpy as np
    >>> moments = Probit().tilted_moments(np.array([1.0]), np.array([0.0]), np.array([1.0]))
    >>> moments.mean.round(6), moments.variance.round(6)
    (array([0.56419]), array([0.68169]))
    """

    name: ClassVar[str] = "probit"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y: Array, f: Array) -> Array:
        """``log Phi(y f)``."""
        return np.asarray(log_ndtr(np.clip(np.multiply(y, f), -_FAR, _FAR)), dtype=float)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With r the hazard at z = y f: ``y r``, ``-r (z + r)``, ``y r ((z + r)(z + 2r) - 1)``."""
        mills = _mills(np.clip(np.multiply(y, f), -_FAR, _FAR))
        return Derivatives(y * mills.hazard, -mills.hazard * mills.drift, y * mills.third)

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Evaluate the closed form of RW06 eq. 3.82, 3.85 and 3.87 so that nothing cancels.

        With ``z = y m / sqrt(1 + v)`` and r the hazard at z, the mean is
        ``m + y v r / sqrt(1 + v) = (m + y v (z + r) sqrt(1 + v)) / (1 + v)`` and the variance
        ``v (1 + v (1 - r (z + r))) / (1 + v)``.
        """
        y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        scale = np.sqrt(1.0 + v)
        z = np.clip(y * m / scale, -_FAR, _FAR)
        mills = _mills(z)
        d_mean = y * mills.hazard / scale
        share = v / (1.0 + v)
        against = m / (1.0 + v) + y * share * scale * mills.drift
        return TiltedMoments(
            log_z=np.asarray(log_ndtr(z), dtype=float),
            mean=np.where(z < 0.0, against, m + v * d_mean),
            variance=v / (1.0 + v) + v * share * mills.slack,
            d_mean=d_mean,
            d2_mean=-mills.hazard * mills.drift / (1.0 + v),
        )

    def linearise(self, mean: Array, var: Array) -> Linearisation:
        """Regress ``E[y|f] = 2 Phi(f) - 1`` on f in closed form (GTS19, supplement)."""
        m, v = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (mean, var)))
        rare = np.where(m < 0.0, 1.0, -1.0)
        tilted = self.tilted_moments(rare, m, v)
        return linearisation(rare, tilted.log_z, tilted.d_mean, m, v)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """``E[log Phi(y f)]`` and its derivatives by quadrature."""
        return by_quadrature.expected_log_prob(self, y, mean, var)

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """``Phi(m / sqrt(1 + v))`` (RW06 eq. 3.82); both tails to full relative accuracy."""
        z = np.asarray(mean, dtype=float) / np.sqrt(1.0 + np.asarray(var, dtype=float))
        return np.asarray(np.exp(log_ndtr(np.clip(z, -_FAR, _FAR))), dtype=float)
