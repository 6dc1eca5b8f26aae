"""Averages of the softmax over two contrasts, or one, by a lattice of points."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg

Array = NDArray[np.float64]

# Deviations from the centre to which a lattice reaches: what is left out is 1e-7 in the plane.
REACH: Final = 5.7
# Spacing of the lattice, times the largest deviation of a contrast, and at most: the softmax has
# its poles where two latents are i pi apart, so that the error is exp(-2^1/2 pi^2) = 1e-6 at most.
SPACING: Final = 1.0
COARSEST: Final = 0.5
FINEST: Final = 2.0**-6
# Elements of one temporary array: a few of them lie in a level 2 cache.
BLOCK: Final = 32_000


@lru_cache(maxsize=16)
def lattice(dim: int, spacing: float) -> tuple[Array, Array]:
    """Points (dim, n) of a square lattice around zero, and the weights (n,) of N(0, I) at them."""
    steps = int(REACH / spacing)
    ticks = spacing * np.arange(-steps, steps + 1)
    Z = np.stack(np.meshgrid(*[ticks] * dim, indexing="ij")).reshape(dim, -1)
    squares = np.asarray((Z * Z).sum(axis=0))
    inside = squares <= REACH * REACH
    weights = np.exp(-0.5 * squares[inside])
    return np.ascontiguousarray(Z[:, inside]), weights / weights.sum()


def largest_deviation(root: Array) -> Array:
    """Bound of the deviations of contrasts whose covariances are ``root root^T``, shape (m,)."""
    return np.asarray(np.sqrt((root**2).sum(axis=(1, 2))))


def lattices(root: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Rows with the lattice that averages over them; root (m, C, dim)."""
    # powers of two: few lattices, and a row's does not depend on its neighbours
    most = SPACING / np.maximum(largest_deviation(root), SPACING / COARSEST)
    spacing = np.maximum(np.exp2(np.floor(np.log2(most))), FINEST)
    for h in np.unique(spacing):
        yield np.flatnonzero(spacing == h), *lattice(root.shape[2], float(h))


def softmax_on_lattice(mean: Array, root: Array) -> Array:
    """E[softmax(f)] for f ~ N(mean, root root^T), shapes (m, 3) and (m, 3, 2), to 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_on_lattice(np.array([[1.0, 0.0, -1.0]]), np.zeros((1, 3, 2))).round(4)
    array([[0.6652, 0.2447, 0.09  ]])
    """
    P = np.empty_like(mean)
    for rows, Z, weights in lattices(root):
        for part in linalg.blocks(len(rows), max(1, BLOCK // (mean.shape[1] * Z.shape[1]))):
            r = rows[part]
            # summed in one order, whatever the rows are
            P[r] = np.einsum("ijs,s->ij", softmax_at(mean[r], root[r], Z), weights)
    return P


def softmax_at(mean: Array, root: Array, Z: Array) -> Array:
    """Softmax of latents ``mean + root z`` at the points of Z (dim, n), shape (m, C, n)."""
    f: Array = np.matmul(root, Z)
    f += mean[:, :, None]
    f -= f.max(axis=1, keepdims=True)
    np.exp(f, out=f)
    f /= f.sum(axis=1, keepdims=True)
    return f
