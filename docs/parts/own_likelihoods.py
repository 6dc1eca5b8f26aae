"""Two likelihoods of one's own: the complementary log-log and the cauchit."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gpclass.likelihoods import Likelihood
from gpclass.likelihoods.base import Array, Derivatives


@final
@dataclass(frozen=True)
class ComplementaryLogLog(Likelihood):
    """``p(+1|f) = 1 - exp(-exp(f))``: whether an event with log rate f has happened."""

    name: ClassVar[str] = "cloglog"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y: Array, f: Array) -> Array:
        rate = np.exp(np.minimum(f, 690.0))
        # log(1 - exp(-rate)), to its own digits where the rate is tiny and where it is large
        few = np.clip(rate, 1e-14, 1.0)
        many = np.maximum(rate, 1.0)
        plus = np.where(rate > 1.0, np.log1p(-np.exp(-many)), np.log(-np.expm1(-few)))
        plus = np.where(f < -30.0, f, plus)
        return np.where(np.asarray(y) > 0.0, plus, -rate)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        rate = np.exp(np.minimum(f, 690.0))
        # of +1: h = rate / (exp(rate) - 1), h k with k = 1 - rate - h, and h (k^2 - rate - h k)
        h = np.where(f < -30.0, 1.0, rate * np.exp(-rate) / -np.expm1(-np.maximum(rate, 1e-14)))
        few = np.minimum(rate, 1e-3)
        k = np.where(rate < 1e-3, -few / 2.0 - few**2 / 12.0, 1.0 - rate - h)
        second = h * k
        third = second * k - h * rate - h * second
        plus = np.asarray(y) > 0.0
        return Derivatives(
            np.where(plus, h, -rate), np.where(plus, second, -rate), np.where(plus, third, -rate)
        )


@final
@dataclass(frozen=True)
class Cauchit(Likelihood):
    """``p(+1|f) = 1/2 + arctan(f) / pi``: a label far on the wrong side costs little."""

    name: ClassVar[str] = "cauchit"
    # log p falls like -log |f| in the tail: convex there
    log_concave: ClassVar[bool] = False

    def log_prob(self, y: Array, f: Array) -> Array:
        z = np.multiply(y, f)
        # the smaller of the two probabilities is accurate, the other is one less it
        small = np.arctan2(1.0, np.abs(z)) / np.pi
        return np.where(z > 0.0, np.log1p(-small), np.log(small))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        z = np.multiply(y, f)
        p = np.exp(self.log_prob(1.0, z))
        square = 1.0 + z * z
        first = 1.0 / (np.pi * square * p)
        turn = -2.0 * z / square
        second = first * (turn - first)
        third = second * (turn - first) + first * (turn * turn - 2.0 / square - second)
        return Derivatives(y * first, second, y * third)
