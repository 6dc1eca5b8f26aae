"""The probit likelihood, p(y|f) = Phi(y f)."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import log_ndtr

from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods._mills import FAR, mills
from gpclass.likelihoods.base import (
    Array,
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    Linearisation,
    TiltedMoments,
    linearisation,
)


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
        return np.asarray(log_ndtr(np.clip(np.multiply(y, f), -FAR, FAR)), dtype=float)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With r the hazard at z = y f: ``y r``, ``-r (z + r)``, ``y r ((z + r)(z + 2r) - 1)``."""
        tail = mills(np.clip(np.multiply(y, f), -FAR, FAR))
        return Derivatives(y * tail.hazard, -tail.hazard * tail.drift, y * tail.third)

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Evaluate the closed form of RW06 eq. 3.82, 3.85 and 3.87 so that nothing cancels.

        With ``z = y m / sqrt(1 + v)`` and r the hazard at z, the mean is
        ``m + y v r / sqrt(1 + v) = (m + y v (z + r) sqrt(1 + v)) / (1 + v)`` and the variance
        ``v (1 + v (1 - r (z + r))) / (1 + v)``.
        """
        y, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        scale = np.sqrt(1.0 + v)
        z = np.clip(y * m / scale, -FAR, FAR)
        tail = mills(z)
        d_mean = y * tail.hazard / scale
        share = v / (1.0 + v)
        against = m / (1.0 + v) + y * share * scale * tail.drift
        return TiltedMoments(
            log_z=np.asarray(log_ndtr(z), dtype=float),
            mean=np.where(z < 0.0, against, m + v * d_mean),
            variance=v / (1.0 + v) + v * share * tail.slack,
            d_mean=d_mean,
            d2_mean=-tail.hazard * tail.drift / (1.0 + v),
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
        return np.asarray(np.exp(log_ndtr(np.clip(z, -FAR, FAR))), dtype=float)
