"""Derivatives of class probabilities by the mean and the covariance of the latents.

Where latents move, probability flows between pairs of classes: with ``b_cj = b_jc`` the flow from j
to c as ``f_c - f_j`` grows, and ``g_cjk = db_cj / dm_k``,

    ``dP_c = sum_j b_cj (dm_c - dm_j) + sum_jk g_cjk (dS_ck - dS_jk) / 2``

since the derivative of a Gaussian average by the covariance is half the second by the mean.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.likelihoods.probabilities.contrasts import helmert
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities
from gpclass.likelihoods.probabilities.lattice import lattices, softmax_at
from gpclass.likelihoods.probabilities.points import normals

Array = NDArray[np.float64]

# Points of averages over more than two contrasts. On random covariances of four and six classes
# and sizes 1, 10 and 100 the flows are off by at most 6e-6, 8e-5 and 2e-4.
POINTS: Final = 65_536
# Elements of one temporary array.
BLOCK: Final = 2_000_000

_TINY: Final = 1e-300


class Flows(NamedTuple):
    """``b`` of shape (m, C, C) and ``g`` of shape (m, C, C, C) of m rows; see the module."""

    between: Array
    slopes: Array

    def by_mean(self) -> Array:
        """``dP_c / dm_j``, shape (m, C, C)."""
        eye = np.eye(self.between.shape[1])
        return np.asarray(eye * self.between.sum(axis=2)[:, :, None] - self.between)

    def by_covariance(self) -> Array:
        """``dP_c / dS_jk``, each entry of S on its own, symmetric in j and k, (m, C, C, C)."""
        eye = np.eye(self.between.shape[1])
        by = 0.5 * (eye[:, :, None] * self.slopes.sum(axis=2)[:, :, None, :] - self.slopes)
        return np.asarray(0.5 * (by + by.transpose(0, 1, 3, 2)))

    def times(self, factor: float) -> "Flows":
        """Those of P times a factor."""
        return Flows(factor * self.between, factor * self.slopes)


def argmax_flows(mean: Array, cov: Array, noise: float = 1.0) -> Flows:
    """Flows of `argmax_probabilities`, of the same arguments.

    ``b_cj`` is the density of ``z_c = z_j`` times the probability that these two are the largest
    there, which is again a class probability, of C - 1 classes. In closed form for up to four
    classes, else as exact as `argmax_probabilities`.

    Examples
    --------
    >>> import numpy as np
    >>> argmax_flows(np.zeros((1, 2)), np.zeros((1, 2, 2))).between.round(4)
    array([[[0.    , 0.2821],
            [0.2821, 0.    ]]])
    """
    m, C = mean.shape
    cov = cov + noise * np.eye(C)
    b, g = np.zeros((m, C, C)), np.zeros((m, C, C, C))
    for c, j in combinations(range(C), 2):
        level = _Level.of(mean, cov, c, j)
        ahead = level.probability()
        q = np.zeros((m, C))
        others = np.delete(np.arange(C), [c, j])
        for place, k in enumerate(others, start=1):
            # the first class of the level's is c
            further = _Level.of(level.mean, level.cov, 0, place)
            q[:, k] = -further.density * further.probability()
        q[:, c] = -q.sum(axis=1)
        by_gap = level.density * (-level.steepness * ahead - (level.share * q).sum(axis=1))
        slope = level.density[:, None] * q
        slope[:, c] += by_gap
        slope[:, j] -= by_gap
        b[:, c, j] = b[:, j, c] = level.density * ahead
        g[:, c, j] = g[:, j, c] = slope
    return Flows(b, g)


class _Level(NamedTuple):
    """Where ``z_c = z_j``: its density, and the Gaussian there of c and the others without j."""

    density: Array  # (m,)
    steepness: Array  # (m,), the gap's mean over its variance
    share: Array  # (m, C), what a change of the gap is for each class
    mean: Array  # (m, C - 1)
    cov: Array  # (m, C - 1, C - 1)

    @classmethod
    def of(cls, mean: Array, cov: Array, c: int, j: int) -> "_Level":
        gap = mean[:, c] - mean[:, j]
        s = cov[:, :, c] - cov[:, :, j]
        v = np.maximum(s[:, c] - s[:, j], _TINY)
        share = s / v[:, None]
        kept = np.concatenate([[c], np.delete(np.arange(mean.shape[1]), [c, j])])
        left = cov - s[:, :, None] * share[:, None, :]
        with np.errstate(over="ignore"):
            density = np.exp(-0.5 * gap * gap / v) / np.sqrt(2.0 * np.pi * v)
        return cls(
            density,
            gap / v,
            share,
            (mean - share * gap[:, None])[:, kept],
            left[:, kept[:, None], kept],
        )

    def probability(self) -> Array:
        """Probability that c is the largest, shape (m,)."""
        return argmax_probabilities(self.mean, self.cov, noise=0.0)[:, 0]


def softmax_flows(mean: Array, cov: Array) -> Flows:
    """Flows of `softmax_probabilities`, of the same arguments: averages of ``p_c p_j``.

    To 1e-6 for up to three classes, by a lattice; by quasi-random points for more.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_flows(np.zeros((1, 3)), np.zeros((1, 3, 3))).by_mean().round(4)
    array([[[ 0.2222, -0.1111, -0.1111],
            [-0.1111,  0.2222, -0.1111],
            [-0.1111, -0.1111,  0.2222]]])
    """
    m, C = mean.shape
    eye = np.eye(C)
    H = helmert(C)
    root = np.matmul(H, linalg.root_batch(np.matmul(np.matmul(H.T, cov), H)))
    b, T = np.zeros((m, C, C)), np.zeros((m, C, C, C))
    for rows, Z, weights in _points(root):
        for part in linalg.blocks(len(rows), max(1, BLOCK // (C * C * Z.shape[1]))):
            r = rows[part]
            p = softmax_at(mean[r], root[r], Z)
            pairs = (p[:, :, None] * p[:, None] * weights).reshape(len(r), C * C, -1)
            b[r] = pairs.sum(axis=2).reshape(-1, C, C)
            T[r] = np.matmul(pairs, p.transpose(0, 2, 1)).reshape(-1, C, C, C)
    g = b[:, :, :, None] * (eye[:, None, :] + eye[None, :, :]) - 2.0 * T
    return Flows(b, g)


def _points(root: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Rows, and the points (C - 1, n) with their weights (n,) that average over these."""
    m, _, dim = root.shape
    if dim <= 2:
        yield from lattices(root)
    else:
        yield np.arange(m), normals(dim, 0, POINTS), np.full(POINTS, 1.0 / POINTS)
