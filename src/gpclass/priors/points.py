"""Inducing inputs among the rows: the greedy choice that leaves the least conditional variance."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.kernels import columns_of, rectangle
from gpclass.linalg import Array, blocks

# Rows that inducing points are chosen from, at most: 20 s for 2000 points.
MOST_CANDIDATES: Final = 20_000
# Part of the variance that inducing="auto" may leave in the mean of the rows, its first number of
# points, and its last.
TRACE_LEFT: Final = 0.01
FEWEST: Final = 64
MOST: Final = 1024
# Rows of a square tile whose diagonal alone is wanted.
_TILE: Final = 32


class InducingChoice(NamedTuple):
    """Chosen rows in the order of their choice, (k,), and what each left of the variance, (k,).

    ``trace_left[j]`` is the sum of the rows' conditional variances given the first j + 1 chosen
    ones, over the sum of their variances: what Burt et al. (2020) bound the divergence by.
    """

    rows: NDArray[np.intp]
    trace_left: Array


def choose_inducing(kernel: Kernel, X: Any, m: int, tol: float = 1e-8) -> InducingChoice:
    """Rows of the largest conditional variance, one after the other: a pivoted Cholesky factor.

    Equal variances are decided by the lowest row; a row that is equal to a chosen one has none
    left, and is never chosen.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its white noise is left out.
    X : array-like of shape (n, d) or sequence of n objects
        A sample where there are many: O(n m) memory and O(n m^2) time.
    m : int
        Fewer are chosen where there are fewer rows, or where ``tol`` ends the choice.
    tol : float, default=1e-8
        Ends the choice where no conditional variance exceeds this part of the largest variance.

    Returns
    -------
    InducingChoice

    Raises
    ------
    ValueError
        If m is not positive, or no variance is.

    References
    ----------
    Burt, Rasmussen & van der Wilk, *Convergence of sparse variational inference in Gaussian
    process regression*, JMLR 21, 2020, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> X = np.array([[0.0], [0.1], [0.1], [3.0], [1.0]])
    >>> choose_inducing(RBF(1.0), X, 5).rows
    array([0, 3, 4, 1])
    """
    if m < 1:
        raise ValueError(f"m must be positive, got {m}")
    left = _variances(kernel, X)
    largest, total = float(left.max(initial=0.0)), float(left.sum())
    if not (0.0 < largest < np.inf):
        raise ValueError(f"the largest variance of the rows is {largest}, expected a positive one")
    m, column_of = min(m, len(left)), columns_of(kernel, X)
    # rows of the factor's transpose, so that a step reads them in one go
    L, rows, trace = np.empty((m, len(left))), np.empty(m, dtype=np.intp), np.empty(m)
    for j in range(m):
        pivot = int(left.argmax())
        if left[pivot] <= tol * largest:
            return InducingChoice(rows[:j], trace[:j])
        column = column_of(pivot)
        column -= L[:j, pivot] @ L[:j]
        column /= np.sqrt(left[pivot])
        L[j], rows[j] = column, pivot
        left -= column * column
        np.maximum(left, 0.0, out=left)
        left[pivot] = 0.0
        trace[j] = left.sum() / total
    return InducingChoice(rows, trace)


def inducing_rows(kernel: Kernel, X: Array, m: int | None) -> Array:
    """Those m rows of X, (m, d), that `choose_inducing` finds; of None, `enough` of them.

    They do not depend on the order of the rows, which decides between equal variances.
    """
    X = X[np.lexsort(X.T)]
    rows, trace_left = choose_inducing(kernel, X, MOST if m is None else m)
    return X[rows[: enough(trace_left)] if m is None else rows]


def enough(trace_left: Array) -> int:
    """How many inducing points leave little of the variance, doubled from 64.

    >>> enough(np.array([0.5] * 100 + [0.001] * 100))
    128
    """
    m = FEWEST
    while m < len(trace_left) and trace_left[m - 1] > TRACE_LEFT:
        m *= 2
    return min(m, len(trace_left))


def _variances(kernel: Kernel, X: Any) -> Array:
    """``k(x, x)`` without white noise."""
    variances = np.empty(len(X))
    for rows in blocks(len(X), _TILE):
        variances[rows] = np.diagonal(rectangle(kernel, X[rows], X[rows]))
    return variances
