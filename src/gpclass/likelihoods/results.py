"""What the methods of a likelihood return."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Derivatives(NamedTuple):
    """First to third derivative of ``log p(y|f)`` by f, each of the shape of f."""

    first: Array
    second: Array
    third: Array


class TiltedMoments(NamedTuple):
    """Moments of the tilted density ``p(y|f) N(f|m, v) / Z`` (RW06 eq. 3.58).

    ``log_z`` is log Z, ``mean`` and ``variance`` are those of the normalised density.
    ``d_mean`` and ``d2_mean`` are the first and second derivative of log Z by m. They carry the
    same information as the moments (``mean = m + v d_mean``, ``variance = v + v^2 d2_mean``)
    without the cancellation where the label says little.
    """

    log_z: Array
    mean: Array
    variance: Array
    d_mean: Array
    d2_mean: Array


class Linearisation(NamedTuple):
    """Statistical linear regression of E[y|f] on f ~ N(m, v): ``A f + b``, error variance Omega.

    GTS19 eq. 9 and 15 to 17.
    """

    A: Array
    b: Array
    Omega: Array


class ExpectedLogProb(NamedTuple):
    """``E[log p(y|f)]`` under f ~ N(m, v) and its derivatives by m and by v."""

    value: Array
    d_mean: Array
    d_var: Array


def linearisation(y: Array, log_z: Array, d_mean: Array, mean: Array, var: Array) -> Linearisation:
    """Statistical linear regression from the tilted evidence of the rarer label y; all (n,).

    With q the evidence, ``E[y] = y (2q - 1)``, ``A = dE[y]/dm`` (Stein's identity
    ``Cov[f, g(f)] = v dE[g(f)]/dm``) and ``Omega = 1 - E[y]^2 - A^2 v``, which is
    ``4 q (1 - q - q d_mean^2 v)``: no digits are lost in either tail. Omega stays above zero where
    q underflows.

    References
    ----------
    GTS19 eq. 15 to 17. The supplement's ``1 - alpha^2`` for the variance of a probit label should
    read ``1 - (2 alpha - 1)^2``.
    """
    q = np.exp(log_z)
    A = 2.0 * y * q * d_mean
    standardised = d_mean * np.sqrt(var)
    omega = 4.0 * q * (1.0 - q - q * standardised * standardised)
    return Linearisation(A, y * (2.0 * q - 1.0) - A * mean, np.maximum(omega, np.finfo(float).tiny))
