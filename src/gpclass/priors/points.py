"""Inducing inputs among the rows: the greedy choice that leaves the least conditional variance."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.gaussian_process.kernels import Kernel
from threadpoolctl import threadpool_limits

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.kernels import column_scales, columns_as_numbers, columns_of, rectangle
from gpclass.linalg import Array, blocks
from gpclass.priors.inducing import InducingPrior

# Rows that inducing points are chosen from, at most: 20 s for 2000 points.
MOST_CANDIDATES: Final = 20_000
# Part of the variance that inducing="auto" may leave in the mean of the rows, its first number of
# points, and its last.
TRACE_LEFT: Final = 0.01
FEWEST: Final = 64
MOST: Final = 1024
# K-means has so many rows a centre at least, and so many iterations at most.
FEWEST_A_CENTRE: Final = 4
ITERATIONS: Final = 10
# Rows of a square tile whose diagonal alone is wanted.
_TILE: Final = 32


class InducingChoice(NamedTuple):
    """Chosen rows in the order of their choice, (k,), and what each left of the variance, (k,).

    ``trace_left[j]`` is the sum of the rows' conditional variances given the first j + 1 chosen
    ones, over the sum of their variances: what Burt et al. (2020) bound the divergence by.
    """

    rows: NDArray[np.intp]
    trace_left: Array


def choose_inducing(
    kernel: Kernel, X: Any, m: int, tol: float = 1e-8, weights: Array | None = None
) -> InducingChoice:
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
    weights : ndarray of shape (n,), default=None
        How often each row is given; only ``trace_left`` depends on it. None: once.

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
    weights = np.ones(len(left)) if weights is None else weights
    largest, total = float(left.max(initial=0.0)), float(weights @ left)
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
        trace[j] = float(weights @ left) / total
    return InducingChoice(rows, trace)


def inducing_inputs(
    kernel: Kernel, X: Array, weights: Array, m: int | None, *, means: bool
) -> Array:
    """Inducing inputs (m, d) for rows X (n, d) in any order; where m is None, `enough` of them.

    A row of weight w is w equal rows.
    They are rows (`choose_inducing`); or, with ``means``, the centres of k-means that begins at
    these, where they leave less of the rows' variance. The rows of the largest conditional variance
    are the odd ones, and of little use where all leave much, as in hundreds of columns.
    """
    # the order would decide between equal variances
    order = np.lexsort(X.T)
    X, weights = X[order], weights[order]
    rows, trace_left = choose_inducing(kernel, X, MOST if m is None else m, weights=weights)
    Z = X[rows[: enough(trace_left)] if m is None else rows]
    many = FEWEST_A_CENTRE * len(Z) <= weights.sum()
    units = _units(kernel, X) if means and many else None
    if units is None:
        return Z
    # one thread: several add the rows of a cluster in any order
    with threadpool_limits(1):
        # tol=0: its own is about the rows without their weights
        found = KMeans(len(Z), init=Z / units, n_init=1, max_iter=ITERATIONS, tol=0.0)
        found.fit(X / units, sample_weight=weights)
    centres = found.cluster_centers_ * units
    left = [_left(kernel, X, weights, one) for one in (centres, Z)]
    return centres if left[0] < left[1] else Z


def _units(kernel: Kernel, X: Array) -> Array | None:
    """Units of the columns in which a mean of rows is like them: their length-scales.

    One for all columns is any unit. None where the kernel takes some columns for levels, of which
    there is no mean, or has not one length-scale for each, or where squares of X overflow in them.
    """
    d = X.shape[1]
    scales = column_scales(kernel, X)
    if len(columns_as_numbers(kernel, d)) < d or len({one.column for one in scales}) not in (0, d):
        return None
    units = np.full(d, np.inf if scales else 1.0)
    for one in scales:
        units[one.column] = min(units[one.column], one.length_scale)
    with np.errstate(over="ignore"):
        return units if np.isfinite(np.square(X / units).sum()) else None


def _left(kernel: Kernel, X: Array, weights: Array, Z: Array) -> float:
    """Sum of the rows' conditional variances given the latents at Z; infinite if Z is singular."""
    try:
        return float(weights @ InducingPrior.of(kernel, X, Z).delta)
    except NotPositiveDefiniteError:
        return np.inf


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
