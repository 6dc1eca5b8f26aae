"""Anderson acceleration of a fixed-point iteration."""

from typing import Final, final

import numpy as np

from gpclass import linalg
from gpclass.linalg import Array

# Steps that an accelerated one combines.
MEMORY: Final = 8


def fixed_point(tried: list[Array], found: list[Array]) -> Array:
    """Anderson acceleration (Walker & Ni, SIAM J. Numer. Anal. 49, 2011) of ``tried -> found``."""
    if len(tried) == 1:
        return found[-1]
    residuals = np.array(found) - np.array(tried)
    change = np.diff(residuals, axis=0)
    coefficients = linalg.least_squares(change.T, residuals[-1], rcond=1e-10)
    return np.asarray(found[-1] - coefficients @ np.diff(np.array(found), axis=0))


@final
class Anderson:
    """The last `MEMORY` points that were tried, and what each led to."""

    def __init__(self) -> None:
        self._tried: list[Array] = []
        self._found: list[Array] = []

    def following(self, tried: Array, found: Array) -> Array:
        """The point to try next, where ``tried`` led to ``found``."""
        self._tried = [*self._tried, tried][-MEMORY:]
        self._found = [*self._found, found][-MEMORY:]
        return fixed_point(self._tried, self._found)
