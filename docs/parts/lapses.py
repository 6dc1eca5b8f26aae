"""A likelihood in one file: observers who sometimes guess."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.special import expit

from gpclass.likelihoods import Likelihood
from gpclass.likelihoods.base import Array, Derivatives


@final
@dataclass(frozen=True)
class Lapses(Likelihood):
    """``p(+1|f) = guess + (1 - guess - lapse) sigma(f)``, the curve of psychophysics.

    Parameters
    ----------
    guess : float, default=0.02
        Probability of +1 however small f is.
    lapse : float, default=0.05
        Probability of -1 however large f is.
    """

    guess: float = 0.02
    lapse: float = 0.05

    name: ClassVar[str] = "lapses"
    # far on the wrong side log p is flat, so it bends upwards on the way there
    log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.guess > 0.0 and self.lapse > 0.0 and self.guess + self.lapse < 1.0):
            raise ValueError(
                "guess and lapse must be positive and add up to less than one, got "
                f"{self.guess!r} and {self.lapse!r}"
            )

    def _floor(self, y: Array) -> Array:
        return np.where(np.asarray(y) > 0.0, self.guess, self.lapse)

    def log_prob(self, y: Array, f: Array) -> Array:
        sure = 1.0 - self.guess - self.lapse
        return np.asarray(np.log(self._floor(y) + sure * expit(np.multiply(y, f))))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        sure = 1.0 - self.guess - self.lapse
        right, wrong = expit(np.multiply(y, f)), expit(-np.multiply(y, f))
        first = sure * right * wrong / (self._floor(y) + sure * right)
        bend = wrong - right - first
        second = first * bend
        third = second * bend - first * (2.0 * right * wrong + second)
        return Derivatives(y * first, second, y * third)
