"""Kernel matrices of scikit-learn's kernels, in one pass over memory."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Exponentiation, Kernel, Product, Sum

from gpclass.kernels.precomputed import Precomputed, new_diagonal, uses_precomputed
from gpclass.kernels.tiles import COMPOUND, TILE, bind, lower_tiles, read_inputs
from gpclass.linalg import Array, blocks


def quiet() -> np.errstate:
    """Floating-point state of an evaluation; a wrong overflow shows as a value not finite."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")


def evaluate(kernel: Kernel, X: Any) -> Array:
    """Kernel matrix of the training inputs.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernels with a rule (see `gpclass.kernels.tiles.binds`) and their sums, products and
        powers are evaluated in tiles and need memory for the result alone; others are called.
    X : array-like of shape (n, d) or sequence of n objects

    Returns
    -------
    K : ndarray of shape (n, n)
        ``kernel(X)``, C-contiguous and exactly symmetric. It is not finite only where a value of
        the kernel overflows.

    Raises
    ------
    ValueError
        If X does not fit the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import evaluate
    >>> evaluate(2.0 * RBF(1.0), np.array([[0.0], [1.0]])).round(3)
    array([[2.   , 1.213],
           [1.213, 2.   ]])
    """
    X = read_inputs(kernel, X)
    n = len(X)
    out = np.empty((n, n))
    with quiet():
        bound = bind(kernel, X)
        for rows, cols in lower_tiles(n):
            tile = bound.value(rows, cols)
            out[rows, cols] = tile
            if rows != cols:
                out[cols, rows] = tile.T
    return out


def cross(kernel: Kernel, X: Any, X_new: Any) -> Array:
    """Covariances between training inputs and new inputs.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, d) or sequence of n objects
    X_new : array-like of shape (m, d) or sequence of m objects
        For `Precomputed` of shape (m, n) or (m, n + 1).

    Returns
    -------
    ndarray of shape (n, m)
        ``kernel(X, X_new)``, C-contiguous. For kernels with a rule a column depends, bit for
        bit, on its own new input alone and not on the others in the batch.

    Raises
    ------
    ValueError
        If the inputs do not fit the kernel or each other.
    """
    X, X_new = read_inputs(kernel, X), read_inputs(kernel, X_new)
    if kernel.requires_vector_input and not uses_precomputed(kernel) and np.ndim(X_new) == 2:
        expected, got = X.shape[1], X_new.shape[1]
        if expected != got:
            raise ValueError(f"X has {got} columns, but the kernel was fitted to {expected}")
    n, m = len(X), len(X_new)
    out = np.empty((n, m))
    with quiet():
        bound = bind(kernel, X, X_new)
        for rows in blocks(n, TILE):
            for cols in blocks(m, TILE):
                out[rows, cols] = bound.value(rows, cols)
    return out


def diagonal(kernel: Kernel, X: Any, X_train: Any | None = None) -> Array:
    """Prior variances ``k(x, x)``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (m, d) or sequence of m objects
    X_train : optional
        The training inputs, when X are new ones. Only `Precomputed` needs them: the variance of
        a new row is its last column when it has n + 1, else the training diagonal, with a
        ValueError where that is not constant.

    Returns
    -------
    ndarray of shape (m,)
    """
    with quiet():
        return np.array(_diagonal(kernel, read_inputs(kernel, X), X_train), dtype=np.float64)


def _diagonal(kernel: Kernel, X: Any, X_train: Any | None) -> Array:
    variances: Array
    if isinstance(kernel, Sum | Product):
        a, b = (_diagonal(part, X, X_train) for part in (kernel.k1, kernel.k2))
        variances = a + b if isinstance(kernel, Sum) else a * b
    elif isinstance(kernel, Exponentiation):
        variances = _diagonal(kernel.kernel, X, X_train) ** float(kernel.exponent)
    elif isinstance(kernel, Precomputed) and X_train is not None:
        variances = new_diagonal(X, X_train)
    elif isinstance(kernel, CompoundKernel):
        raise ValueError(COMPOUND)
    else:
        variances = kernel.diag(X)
    return variances
