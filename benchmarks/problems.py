"""The data and the kernels that every figure is taken on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

Array = NDArray[np.float64]

SEED = 20061
# Near the maximum of the evidence at n = 500 and 1000 (where the other columns end at length-
# scales from 10 to the upper bound): most evaluations of a fit are made in such a place.
SIGNAL_VARIANCE = 30.0
LENGTH_SCALES = (1.6, 6.0, 4.0, 3.5)
IRRELEVANT = 20.0


class Problem(NamedTuple):
    """A table X of shape (n, d) and its labels y in {0, 1}, shape (n,)."""

    X: Array
    y: NDArray[np.int64]


def make_problem(n: int, d: int, seed: int = SEED) -> Problem:
    """Labels by a logistic draw around a latent function of the first four of d columns."""
    random = np.random.default_rng([seed, n, d])
    X = random.standard_normal((n, d))
    latent = 3.0 * np.sin(1.5 * X[:, 0]) + 1.5 * X[:, 1] + X[:, 2] * X[:, 3]
    return Problem(X, (random.uniform(size=n) < expit(latent)).astype(np.int64))


def learnt_kernel(d: int) -> Kernel:
    """Return hyperparameters about where the evidence has its maximum."""
    scales = np.full(d, IRRELEVANT)
    scales[: len(LENGTH_SCALES)] = LENGTH_SCALES[:d]
    return ConstantKernel(SIGNAL_VARIANCE) * RBF(scales)


def starting_kernel(d: int) -> Kernel:
    """Where a fit starts: unit variance, every length-scale the root of d."""
    return ConstantKernel(1.0) * RBF(np.full(d, np.sqrt(d)))


def nearby(theta: Array, distance: float) -> Array:
    """Hyperparameters ``distance`` away in every component, all changes to the same effect.

    A larger variance and shorter length-scales both make the latent rougher; with one sign for
    all, their effects would partly cancel and the start would look closer than it is.
    """
    shift = np.full_like(theta, -distance)
    shift[0] = distance
    return theta + shift
