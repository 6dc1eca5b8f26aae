"""Log probability of a row's own class by fixed points, and its slopes: a smooth function.

`gpclass.likelihoods.probabilities.gaussian` doubles its points until they do, and is not smooth.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from gpclass import linalg
from gpclass.likelihoods.probabilities.points import normals

Array = NDArray[np.float64]
# From differences (n, k, points) to ``log p`` (n, points) and its slopes, of their shape.
Term = Callable[[Array], tuple[Array, Array]]

# Points of a row, a power of two; elements of the arrays worked on together: 8 MB each.
POINTS: Final = 1024
CHUNK: Final = 1_000_000


class OwnClass(NamedTuple):
    """``log p`` of each row, (n,), and its slopes by mean (n, k) and covariance (n, k, k)."""

    log_p: Array
    by_mean: Array
    by_covariance: Array


def softmax_term(g: Array) -> tuple[Array, Array]:
    """``-log(1 + sum_j exp(-g_j))``."""
    top = np.maximum(0.0, -g.min(axis=1))
    odds = np.exp(-g - top[:, None])
    norm = np.exp(-top) + odds.sum(axis=1)
    return -(top + np.log(norm)), odds / norm[:, None]


def probit_term(g: Array, noise: float = 1.0) -> tuple[Array, Array]:
    """``sum_j log Phi(g_j / noise^1/2)``."""
    sd = noise**0.5
    slope = np.sqrt(2.0 / np.pi) / (sd * erfcx(-g / (sd * np.sqrt(2.0))))
    return log_ndtr(g / sd).sum(axis=1), slope


def own_class(term: Term, mean: Array, covariance: Array) -> OwnClass:
    """``log E[p(g)]`` for g ~ N(mean, covariance), shapes (n, k) and (n, k, k).

    The points are ``mean + R z`` with the Cholesky factor R of the covariance, and the slopes are
    those of this average of points. LinAlgError where a covariance is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> found = own_class(softmax_term, np.zeros((1, 2)), 1e-9 * np.eye(2)[None])
    >>> np.exp(found.log_p).round(4), found.by_mean.round(4)
    (array([0.3333]), array([[0.3333, 0.3333]]))
    """
    n, k = mean.shape
    Z = normals(k, 0, POINTS)
    R = linalg.cholesky_batch(covariance)
    log_p, by_mean, by_root = np.empty(n), np.empty((n, k)), np.empty((n, k, k))
    for part in linalg.blocks(n, max(1, CHUNK // (k * POINTS))):
        log_t, slope = term(mean[part, :, None] + np.matmul(R[part], Z))
        top = log_t.max(axis=1)
        share = np.exp(log_t - top[:, None])
        total = share.sum(axis=1)
        log_p[part] = top + np.log(total / POINTS)
        slope *= (share / total[:, None])[:, None]
        by_mean[part] = slope.sum(axis=2)
        by_root[part] = np.matmul(slope, Z.T)
    return OwnClass(log_p, by_mean, _by_covariance(R, by_root))


def _by_covariance(R: Array, by_root: Array) -> Array:
    """Slopes by ``R R^T`` from those by R (Murray, *Differentiation of the Cholesky*, 2016)."""
    up = R.transpose(0, 2, 1)
    inner = np.tril(np.matmul(up, by_root))
    diagonal = np.arange(R.shape[1])
    inner[:, diagonal, diagonal] *= 0.5
    half = linalg.solve_batch(up, linalg.solve_batch(up, inner).transpose(0, 2, 1))
    return np.asarray(0.5 * (half + half.transpose(0, 2, 1)))
