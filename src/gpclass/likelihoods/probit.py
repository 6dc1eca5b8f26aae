"""The probit likelihood, p(y|f) = Phi(y f)."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.normal import log_cdf, mills
from gpclass.likelihoods.results import (
    Array,
    Derivatives,
    TiltedMoments,
)


@final
@dataclass(frozen=True)
class Probit(Likelihood):
    """Probit likelihood ``p(y|f) = Phi(y f)``, Phi the normal distribution function.

    All Gaussian integrals are closed forms but for ``expected_log_prob`` and ``power_moments``.

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
        return log_cdf(np.multiply(y, f))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With r the hazard at z = y f: ``y r``, ``-r (z + r)``, ``y r ((z + r)(z + 2r) - 1)``."""
        tail = mills(np.multiply(y, f))
        return Derivatives(y * tail.hazard, -tail.hazard * tail.drift, y * tail.third)

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Evaluate the closed form of RW06 eq. 3.82, 3.85 and 3.87 so that nothing cancels.

        With ``z = y m / sqrt(1 + v)`` and r the hazard at z, the mean is
        ``m + y v r / sqrt(1 + v) = (m + y v (z + r) sqrt(1 + v)) / (1 + v)`` and the variance
        ``v (1 + v (1 - r (z + r))) / (1 + v)``.
        """
        y, m, v = (np.asarray(a, dtype=float) for a in (y, mean, var))
        total = 1.0 + v
        scale, share = np.sqrt(total), v / total
        z = y * m / scale
        tail = mills(z)
        d_mean = y * tail.hazard / scale
        against = m / total + y * share * scale * tail.drift
        return TiltedMoments(
            log_z=log_cdf(z),
            mean=np.where(z < 0.0, against, m + v * d_mean),
            variance=share + v * share * tail.slack,
            d_mean=d_mean,
            d2_mean=-tail.hazard * tail.drift / total,
        )

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """``Phi(m / sqrt(1 + v))`` (RW06 eq. 3.82); both tails to full relative accuracy."""
        z = np.asarray(mean, dtype=float) / np.sqrt(1.0 + np.asarray(var, dtype=float))
        return np.exp(log_cdf(z))
