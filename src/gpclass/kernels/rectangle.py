"""Covariances of rows with a few inducing inputs, and gradients pulled back through them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Kernel,
    NormalizedKernelMixin,
    Product,
    Sum,
    WhiteKernel,
)

from gpclass.kernels.columns import ColumnKernel
from gpclass.kernels.evaluate import cross, diagonal, quiet
from gpclass.kernels.theta import n_free
from gpclass.kernels.tiles import TILE, BoundKernel, bind, has_rules, read_inputs
from gpclass.linalg import Array, blocks

# Rows that are bound together with Z: a kernel without a rule is evaluated on the square of both.
ROWS = 2048
# Rows of a square tile whose diagonal alone is wanted.
DIAGONAL_TILE = 32


def rectangle(kernel: Kernel, X: Any, Z: Any) -> Array:
    """Covariances ``k(x_i, z_j)`` of rows with inducing inputs, without white noise.

    As `gpclass.kernels.cross`, but where all parts of the kernel have rules, distances of many
    columns are one matrix product. It is several times as fast, and leaves errors of 1e-13 in them;
    an entry's bits depend on the whole batch.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, d) or sequence of n objects
    Z : array-like of shape (m, d) or sequence of m objects
        May be X: noise is on the diagonal of ``evaluate(kernel, X)`` alone.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import rectangle
    >>> rectangle(2.0 * RBF(1.0), np.array([[0.0], [1.0], [2.0]]), np.array([[0.0]])).round(3)
    array([[2.   ],
           [1.213],
           [0.271]])
    """
    if not has_rules(kernel):
        return cross(kernel, X, Z)
    X, Z = read_inputs(kernel, X), read_inputs(kernel, Z)
    out = np.empty((len(X), len(Z)))
    with quiet():
        for bound, rows, cols, at in _tiles(kernel, X, Z):
            out[at] = bound.value(rows, cols)
    return out


def columns_of(kernel: Kernel, X: Any) -> Callable[[int], Array]:
    """``k(x_i, x_j)`` of all rows i as a function of j, without white noise where n > 1."""
    X = read_inputs(kernel, X)
    if not has_rules(kernel):
        return lambda j: cross(kernel, X, X[j : j + 1])[:, 0]
    whole = slice(0, len(X))
    with quiet():
        bound = bind(kernel, X)

    def column(j: int) -> Array:
        with quiet():
            return bound.value(whole, slice(j, j + 1))[:, 0]

    return column


def pullback_cross(kernel: Kernel, X: Any, Z: Any, G: Array) -> Array:
    """Gradient of ``sum_ij G_ij k(x_i, z_j)`` by the kernel's free log-hyperparameters.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, d) or sequence of n objects
    Z : array-like of shape (m, d) or sequence of m objects
        Held fixed.
    G : ndarray of shape (n, m)

    Returns
    -------
    ndarray of shape (n_theta,)
        In the order of ``kernel.theta``.

    Raises
    ------
    ValueError
        If G is not of shape (n, m).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import pullback_cross
    >>> X, Z = np.array([[0.0], [2.0]]), np.array([[1.0]])
    >>> pullback_cross(2.0 * RBF(1.0), X, Z, np.ones((2, 1))).round(3)
    array([2.426, 2.426])
    """
    X, Z = read_inputs(kernel, X), read_inputs(kernel, Z)
    G = np.asarray(G, dtype=np.float64)
    if G.shape != (len(X), len(Z)):
        raise ValueError(f"G has shape {G.shape}, expected {(len(X), len(Z))}")
    gradient = np.zeros(n_free(kernel))
    if len(gradient):
        with quiet():
            for bound, rows, cols, at in _tiles(kernel, X, Z):
                gradient += bound.pull(rows, cols, np.ascontiguousarray(G[at]))
    return gradient


def pullback_diagonal(kernel: Kernel, X: Any, g: Array) -> Array:
    """Gradient of ``sum_i g_i k(x_i, x_i)``, white noise included, by log-hyperparameters.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, d) or sequence of n objects
    g : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n_theta,)

    Raises
    ------
    ValueError
        If g is not of shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import pullback_diagonal
    >>> pullback_diagonal(2.0 * RBF(1.0), np.array([[0.0], [1.0]]), np.array([1.0, 3.0]))
    array([8., 0.])
    """
    X, g = read_inputs(kernel, X), np.asarray(g, dtype=np.float64)
    if g.shape != (len(X),):
        raise ValueError(f"g has shape {g.shape}, expected {(len(X),)}")
    with quiet():
        return _pull_diagonal(kernel, X, g)


def _pull_diagonal(kernel: Any, X: Any, g: Array) -> Array:
    if isinstance(kernel, Sum):
        return np.concatenate([_pull_diagonal(part, X, g) for part in (kernel.k1, kernel.k2)])
    if isinstance(kernel, Product):
        pairs = (kernel.k1, kernel.k2), (kernel.k2, kernel.k1)
        return np.concatenate([_pull_diagonal(a, X, g * diagonal(b, X)) for a, b in pairs])
    if isinstance(kernel, Exponentiation):
        p = float(kernel.exponent)
        return _pull_diagonal(kernel.kernel, X, g * p * diagonal(kernel.kernel, X) ** (p - 1.0))
    if isinstance(kernel, ColumnKernel):
        return _pull_diagonal(kernel.kernel, kernel.chosen(X), g)
    if isinstance(kernel, NormalizedKernelMixin):
        return np.zeros(n_free(kernel))
    if isinstance(kernel, ConstantKernel | WhiteKernel):
        return np.full(n_free(kernel), g @ diagonal(kernel, X))
    gradient = np.zeros(n_free(kernel))
    for rows in blocks(len(X), DIAGONAL_TILE):
        whole = slice(0, rows.stop - rows.start)
        gradient += bind(kernel, X[rows]).pull(whole, whole, np.diag(g[rows]))
    return gradient


_Tile = tuple[BoundKernel, slice, slice, tuple[slice, slice]]


def _tiles(kernel: Kernel, X: Any, Z: Any) -> Iterator[_Tile]:
    """Tiles of the rectangle: a bound kernel, rows and columns in it, and where the tile belongs.

    X and Z are bound as training inputs together, so that every rule for these serves; as rows and
    columns of a tile are never the same slice, noise stays out.
    """
    m = len(Z)
    for part in blocks(len(X), ROWS):
        n = part.stop - part.start
        both = np.vstack([X[part], Z]) if isinstance(X, np.ndarray) else [*X[part], *Z]
        bound = bind(kernel, both)
        for rows in blocks(n, TILE):
            for at in blocks(m, TILE):
                where = slice(part.start + rows.start, part.start + rows.stop), at
                yield bound, rows, slice(n + at.start, n + at.stop), where
