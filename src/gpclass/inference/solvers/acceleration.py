"""Anderson acceleration of a fixed-point iteration."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg

Array = NDArray[np.float64]


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
