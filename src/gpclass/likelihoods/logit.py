"""The logit likelihood, p(y|f) = 1 / (1 + exp(-y f))."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods.base import (
    Array,
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    Linearisation,
    TiltedMoments,
)


@final
@dataclass(frozen=True)
class Logit(Likelihood):
    """Logistic likelihood ``p(y|f) = sigma(y f)`` with ``sigma(z) = 1 / (1 + exp(-z))``.

    Its Gaussian integrals have no closed form and are taken by quadrature, right to about 1e-12
    relative in both tails; see `gpclass.likelihoods.by_quadrature`.

    References
    ----------
    RW06 eq. 3.4 and 3.15.

    Examples
    --------
    The average over the latent is nearer to 1/2 than the logistic at its mean:

    >>> import numpy as np
    >>> Logit().predict_proba(np.array([2.0]), np.array([0.0, 4.0])).round(4)
    array([0.8808, 0.7752])
    """

    name: ClassVar[str] = "logit"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y: Array, f: Array) -> Array:
        """``log sigma(y f) = min(z, 0) - log(1 + exp(-|z|))`` with z = y f."""
        z = np.multiply(y, f)
        tail: Array = np.log1p(np.exp(-np.abs(z)))
        return np.minimum(z, 0.0) - tail

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """``y sigma(-z)``, ``-sigma(z) sigma(-z)`` and ``y sigma(z) sigma(-z) tanh(z / 2)``."""
        z = np.multiply(y, f)
        small = np.exp(-np.abs(z))
        scale = 1.0 / (1.0 + small)
        first = np.where(z > 0.0, small, 1.0) * scale
        bend = small * scale * scale
        # tanh(|z|/2) y sign(z), as sign(z) y = sign(f)
        return Derivatives(y * first, -bend, np.tanh(0.5 * f) * bend)

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Moments of ``sigma(y f) N(f | mean, var)`` by quadrature."""
        return by_quadrature.tilted_moments(self, y, mean, var)

    def linearise(self, mean: Array, var: Array) -> Linearisation:
        """Statistical linear regression of ``E[y|f] = tanh(f / 2)`` by quadrature."""
        return by_quadrature.linearise(self, mean, var)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """``E[log sigma(y f)]`` and its derivatives by quadrature."""
        return by_quadrature.expected_log_prob(self, y, mean, var)

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """``E[sigma(f)]`` by quadrature (RW06 eq. 3.25)."""
        return by_quadrature.predict_proba(self, mean, var)
