"""Labels of which a known share is wrong, p(y|f) = e + (1 - 2 e) p_0(y|f)."""

from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar, final

import numpy as np

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.probit import Probit
from gpclass.likelihoods.results import Array, Derivatives, TiltedMoments


@final
@dataclass(frozen=True)
class Mislabelled(Likelihood):
    """Labels of which a known share e is wrong: ``p(y|f) = e + (1 - 2 e) p_0(y|f)``.

    A label far on the wrong side of its neighbours costs no more than ``log e`` and is given up,
    so ``log p`` is not concave. Probabilities are those of the label as it would be given, between
    e and 1 - e; that of the class itself is ``(P - e) / (1 - 2 e)``.

    Parameters
    ----------
    likelihood : Likelihood, default=Probit()
        p_0: smooth, and without hyperparameters. `NoisyThreshold` has a share of its own.
    rate : float, default=0.05
        e, above 0 and below 0.5.

    Raises
    ------
    TypeError, ValueError
        For another likelihood or rate.

    Notes
    -----
    The tilted density is a mixture of that of p_0, of weight
    ``rho = (1 - 2 e) Z_0 / (e + (1 - 2 e) Z_0)``, and of the Gaussian itself. Its variance exceeds
    that of the Gaussian where a surprising label leaves both likely.

    Examples
    --------
    A label that contradicts a sure latent moves it less:

    >>> import numpy as np
    >>> from gpclass.likelihoods import Mislabelled, Probit
    >>> for likelihood in (Probit(), Mislabelled(Probit(), 0.05)):
    ...     print(likelihood.tilted_moments(1.0, np.array([-3.0]), 1.0).mean.round(2))
    [-1.25]
    [-2.59]
    """

    likelihood: Likelihood = field(default_factory=Probit)
    rate: float = 0.05

    name: ClassVar[str] = "mislabelled"
    log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(f"likelihood must be a Likelihood object, got {self.likelihood!r}")
        if not self.likelihood.smooth or len(self.likelihood.theta):
            raise ValueError(
                "likelihood must be smooth and without hyperparameters, as Probit() and Logit() "
                f"are, got {self.likelihood!r}"
            )
        if not isinstance(self.rate, Real) or not 0.0 < self.rate < 0.5:
            raise ValueError(f"rate must be a number above 0 and below 0.5, got {self.rate!r}")

    def log_prob(self, y: Array, f: Array) -> Array:
        """``log(e + (1 - 2 e) p_0)``."""
        return self._mixed(self.likelihood.log_prob(y, f))

    def _mixed(self, log_p: Array) -> Array:
        return np.asarray(np.logaddexp(np.log(self.rate), np.log1p(-2.0 * self.rate) + log_p))

    def _share(self, log_p: Array) -> Array:
        """Share of p_0 in the mixture."""
        return np.asarray(np.exp(np.log1p(-2.0 * self.rate) + log_p - self._mixed(log_p)))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """From those of ``p_0 / p``, which are ``rho`` times those of p_0 over itself."""
        rho = self._share(self.likelihood.log_prob(y, f))
        # where p_0 is zero its derivatives over itself may overflow
        one, two, three = (np.where(rho > 0.0, d, 0.0) for d in self.likelihood.derivatives(y, f))
        first = rho * one
        second = rho * (two + one * one)
        third = rho * (three + one * (3.0 * two + one * one))
        return Derivatives(
            first, second - first * first, third - first * (3.0 * second - 2.0 * first * first)
        )

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Moments of the mixture."""
        own = self.likelihood.tilted_moments(y, mean, var)
        rho = self._share(own.log_z)
        rest = 1.0 - rho
        d_mean = rho * own.d_mean
        return TiltedMoments(
            log_z=self._mixed(own.log_z),
            mean=rest * mean + rho * own.mean,
            variance=rest * var + rho * own.variance + rho * rest * (var * own.d_mean) ** 2,
            d_mean=d_mean,
            d2_mean=rho * own.d2_mean + d_mean * (own.d_mean - d_mean),
        )

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """Of the label as it would be given."""
        own = self.likelihood.predict_proba(mean, var)
        return np.asarray(self.rate + (1.0 - 2.0 * self.rate) * own)
