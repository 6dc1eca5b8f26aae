"""Likelihoods of many classes: softmax and multinomial probit, by their log probabilities."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# The integrand over u is a bell whose curvature lies between 1 and C. The midpoint rule integrates
# it with an error of exp(-2 pi^2 / h^2), h the spacing over its deviation. The curvature
# REACH_LEFT deviations below the mode is nearly the largest that matters. Against 4000 points, on
# 600 random rows for each C up to 50, the logarithm was off by less than 6e-11.
STEP: Final = 0.8
REACH_LEFT: Final = 3.0
# What is left out beyond this many deviations is 5e-12 of the whole.
REACH: Final = 6.9
# Newton's iteration for the mode starts on its left and never passes it; the points need it to a
# few tenths.
MODE_STEPS: Final = 4
# Differences of latents are clipped to this: log probabilities are then -1e16.
GAP_LIMIT: Final = 1e8
# Rows that are integrated over at a time: 30 points of each lie in a level 2 cache.
BLOCK: Final = 2000


class ClassLikelihood(ABC):
    """p(y | f) for a class y in 0 to C - 1 and the latents f of all C classes.

    Laws:

    - ``sum_y exp(log_prob(y, f)) = 1``
    - ``log_prob`` does not change when a constant is added to all latents of a row
    - for C = 2 it is the log probability of a binary likelihood at ``(f_1 - f_0) / scale``

    Attributes
    ----------
    name : str
        What users call it.
    probit_scale : float
        The s for which ``p(y | f)`` is nearly the multinomial probit at ``f / s``.
    """

    name: ClassVar[str]
    probit_scale: ClassVar[float]

    @abstractmethod
    def log_prob(self, codes: Codes, F: Array) -> Array:
        """``log p(codes_i | f_i)``, shape (..., n).

        ``codes`` of shape (n,) are classes from 0; F of shape (..., n, C) are finite latents.
        """

    @final
    def probabilities(self, F: Array) -> Array:
        """Probability of every class, of the shape of F, (..., n, C)."""
        n, C = F.shape[-2:]
        columns = [self.log_prob(np.full(n, c), F) for c in range(C)]
        return np.exp(np.stack(columns, axis=-1))


@final
@dataclass(frozen=True)
class SoftmaxLikelihood(ClassLikelihood):
    """``p(y | f) = exp(f_y) / sum_c exp(f_c)``; two classes: the logit at ``f_1 - f_0``.

    References
    ----------
    RW06 eq. 3.34.

    Examples
    --------
    >>> import numpy as np
    >>> SoftmaxLikelihood().probabilities(np.array([[1.0, 0.0, -1.0]])).round(4)
    array([[0.6652, 0.2447, 0.09  ]])
    """

    name: ClassVar[str] = "softmax"
    # of differences: the logistic's deviation pi / 3^1/2 over that of two normals, 2^1/2
    probit_scale: ClassVar[float] = float(np.pi / np.sqrt(6.0))

    def log_prob(self, codes: Codes, F: Array) -> Array:
        """``f_y - max f - log sum_c exp(f_c - max f)``."""
        F = np.asarray(F, dtype=np.float64)
        top = F.max(axis=-1)
        total: Array = np.exp(F - top[..., None]).sum(axis=-1)
        own = F[..., np.arange(len(codes)), codes]
        return np.asarray(own - top - np.log(total))


@final
@dataclass(frozen=True)
class MultinomialProbitLikelihood(ClassLikelihood):
    """``p(y | f) = E[prod_{c != y} Phi(u + f_y - f_c)]``, ``u ~ N(0, 1)``.

    The probability that ``f_y`` is the largest latent once each has independent noise of variance
    1; two classes: the probit at ``(f_1 - f_0) / 2^1/2``. The integral over u is taken to 1e-10 of
    itself, in both tails.

    References
    ----------
    Riihimäki, Jylänki & Vehtari, JMLR 14, 2013, eq. 3.

    Examples
    --------
    >>> import numpy as np
    >>> MultinomialProbitLikelihood().probabilities(np.array([[1.0, 0.0, -1.0]])).round(4)
    array([[0.7288, 0.2241, 0.0472]])
    """

    name: ClassVar[str] = "multinomial probit"
    probit_scale: ClassVar[float] = 1.0

    def log_prob(self, codes: Codes, F: Array) -> Array:
        """Logarithm of the integral over u, of every row."""
        F = np.asarray(F, dtype=np.float64)
        n, C = F.shape[-2:]
        others, rows = other_classes(np.asarray(codes), C), np.arange(n)
        own = F[..., rows, codes]
        gaps = np.stack([own - F[..., rows, other] for other in others.T])
        return log_mean_orthant(gaps.reshape(C - 1, -1)).reshape(own.shape)


def other_classes(codes: Codes, n_classes: int) -> Codes:
    """The classes that each row is not of, ascending, shape (n, C - 1).

    >>> other_classes(np.array([0, 2]), 3)
    array([[1, 2],
           [0, 1]])
    """
    ahead = np.arange(n_classes - 1)
    return np.asarray(ahead + (ahead >= codes[:, None]))


def log_mean_orthant(z: Array) -> Array:
    """``log int N(u | 0, 1) prod_j Phi(z_j + u) du`` for z of shape (J, m), shape (m,).

    To 1e-10 relative to the integral, or to rounding of the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> log_mean_orthant(np.zeros((2, 1)))
    array([-1.09861229])
    """
    z = np.clip(z, -GAP_LIMIT, GAP_LIMIT)
    found = np.empty(z.shape[1])
    for start in range(0, z.shape[1], BLOCK):
        block = slice(start, start + BLOCK)
        found[block] = _log_mean_orthant(z[:, block])
    return found


def _log_mean_orthant(z: Array) -> Array:
    mode = np.zeros(z.shape[1])
    for _ in range(MODE_STEPS):
        slope, curvature = _exponent(z + mode)
        mode += (slope - mode) / (1.0 + curvature)
    width = 1.0 / np.sqrt(1.0 + _exponent(z + mode)[1])
    step = STEP / np.sqrt(1.0 + _exponent(z + (mode - REACH_LEFT))[1])
    # the bell falls off at least as a normal of deviation width on the left, of deviation 1 on the
    # right
    left, right = int(np.ceil(REACH * (width / step).max())), int(np.ceil(REACH / step.min()))
    u = mode + np.arange(-left, right + 1)[:, None] * step
    log_f = -0.5 * u * u
    for row in z:
        log_f += log_ndtr(row + u)
    top = log_f.max(axis=0)
    log_f -= top
    total: Array = np.exp(log_f, out=log_f).sum(axis=0)
    # a probability of one may come out as one and a rounding
    return np.asarray(np.minimum(top + np.log(total * step / np.sqrt(2.0 * np.pi)), 0.0))


def _exponent(x: Array) -> tuple[Array, Array]:
    """First derivative and minus the second of ``sum_j log Phi(x_j)``, by a shift of all x."""
    hazard = np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0))
    # between 0 and 1, but for rounding where x is far below
    curvature = np.clip(hazard * (x + hazard), 0.0, 1.0)
    return hazard.sum(axis=0), curvature.sum(axis=0)
