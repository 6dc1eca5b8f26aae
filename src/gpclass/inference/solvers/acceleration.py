"""Anderson acceleration of a fixed-point iteration."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.inference.solvers.newton import TINY
from gpclass.inference.solvers.rule import Sweep

Array = NDArray[np.float64]

# Earlier points that an accelerated step combines.
MEMORY: Final = 8
# Growth of a residual beyond which the earlier points are dropped; a little of it is no sign.
LARGEST_GROWTH: Final = 2.0


def extrapolate(tried: Sequence[Array], found: Sequence[Array]) -> Array:
    """Where ``tried -> found`` is taken to have its fixed point.

    The combination of what was found whose residual ``found - tried`` is least, with coefficients
    that add up to one.

    Parameters
    ----------
    tried, found : sequence of ndarrays of shape (k,)
        Points and their images, the latest last.

    References
    ----------
    Walker & Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49, 2011.

    Examples
    --------
    A linear iteration in one dimension is solved by two of its steps:

    >>> import numpy as np
    >>> extrapolate([np.array([0.0]), np.array([1.0])], [np.array([1.0]), np.array([1.5])])
    array([2.])
    """
    if len(tried) == 1:
        return found[-1]
    latest = found[-1] - tried[-1]
    residuals = np.array([g - x for x, g in zip(tried, found, strict=True)])
    change = np.diff(residuals, axis=0)
    coefficients = linalg.least_squares(change.T, latest, rcond=1e-10)
    return np.asarray(found[-1] - coefficients @ np.diff(np.array(found), axis=0))


@final
@dataclass
class VarianceHistory:
    """Logarithms of the variances that were tried, and of those found with them."""

    tried: list[Array] = field(default_factory=list)
    found: list[Array] = field(default_factory=list)

    def restart(self) -> None:
        """Drop the earlier points."""
        self.tried.clear()
        self.found.clear()

    def following(self, sweep: Sweep, growth: float, damping: float) -> Array:
        """Variances to try after a sweep whose residual has grown by a factor.

        Those found, with acceleration where a sweep costs more than Newton's method can save
        (`SiteFactor.has_products`), and damped where residuals grow.
        """
        found = np.log(np.maximum(sweep.v, TINY))
        plain = sweep.posterior.factor.has_products
        if not self.tried or (plain and damping == 1.0):
            following = found
        elif plain or growth > LARGEST_GROWTH:
            following = self.tried[-1] + damping * (found - self.tried[-1])
            self.restart()
        else:
            self.found.append(found)
            following = extrapolate(self.tried[-MEMORY:], self.found[-MEMORY:])
        self.tried.append(following)
        return sweep.v if following is found else np.exp(following)
