"""Scaled squared distances between rows, and their weighted sums, tile by tile."""

from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas
from scipy.spatial.distance import cdist

from gpclass.linalg import Array, inner

# From this many columns on one matrix product is faster than cdist (measured at n = 2000).
_GRAM_MIN_COLUMNS = 6
# |a - b|^2 = |a|^2 + |b|^2 - 2 a'b loses about eps |a|^2; at this limit that is 1e-13.
_GRAM_MAX_SQUARED_NORM = 250.0
# Larger scaled squared distances are taken as this one; its square root is finite, and so are the
# polynomials of it that kernels multiply by exp(-r).
_LARGEST_SQUARED = 1e280
# Scaled coordinates beyond this may have larger squared distances.
_LARGE_COORDINATE = 1e130
# OpenBLAS runs dgemm on one thread up to this n m k.
_SERIAL_PRODUCT = 2**18
# Pieces of fewer rows than this are slow; the sum is split instead.
_MIN_HEIGHT = 16
_SPLIT_DEPTH = 32
# Below this share of its absolute terms a contraction has lost too many of its 16 digits.
_CANCELLED = 1e-5


def gram(A: Array, B: Array) -> Array:
    """``A B^T``, C-contiguous (n, m), of C-contiguous A (n, k) and B (m, k).

    OpenBLAS uses several threads from n m k = 2^18 on. The product is taken in smaller pieces, so
    that it has the same bits on any number of cores and never waits for threads.
    """
    (n, inner_size), m = A.shape, len(B)
    product = np.empty((n, m))
    depth = max(inner_size, 1)
    if depth * m * _MIN_HEIGHT > _SERIAL_PRODUCT:
        depth = min(depth, _SPLIT_DEPTH)
    height = max(1, _SERIAL_PRODUCT // (depth * max(m, 1)))
    for i in range(0, n, height):
        rows = slice(i, i + height)
        for k in range(0, max(inner_size, 1), depth):
            columns = slice(k, k + depth)
            # as the transpose, whose columns are contiguous as BLAS wants them
            b, a = B[:, columns].T, A[rows, columns].T
            blas.dgemm(1.0, b, a, beta=float(k > 0), c=product[rows].T, trans_a=1, overwrite_c=1)
    return product


def symmetrise(tile: Array) -> None:
    """Replace a square tile by the mean of itself and its transpose, exactly symmetric."""
    tile *= 0.5
    tile += tile.T.copy()


@final
class Distances:
    """``D_k(i, j) = (x_ik - x'_jk)^2 / l_k^2`` and ``r^2(i, j) = sum_k D_k(i, j)``.

    A column whose values have one sign is shifted by the smallest of them in size, so that an
    offset costs no digits; the shift itself costs none, as ``|x - c| <= |x|``. Distances between
    training rows are one matrix product where ``gram`` allows an absolute error of 1e-13 in r^2
    (under a square root it may not); of columns whose values are many length-scales apart, which
    would lose digits, they are sums of squared differences. So are distances to new rows, an entry
    of which then depends on its two rows alone. Coordinates are clipped to 1.8e308 length-scales.
    """

    def __init__(
        self, X: Array, X_new: Array | None, length_scale: ArrayLike, *, gram: bool
    ) -> None:
        scale = np.atleast_1d(np.squeeze(np.asarray(length_scale, dtype=np.float64)))
        if scale.ndim > 1 or scale.size not in (1, X.shape[1]):
            raise ValueError(
                f"length_scale has shape {scale.shape}, but X has {X.shape[1]} columns: "
                f"expected one length-scale or one a column"
            )
        shift = _exact_shift(X)
        self._left = self._right = _scaled(X, shift, scale)
        self._clip = _largest(self._left) > _LARGE_COORDINATE
        if X_new is not None:
            self._right = _scaled(X_new, shift, scale)
            self._clip = self._clip or _largest(self._right) > _LARGE_COORDINATE
        self._centred: Array | None = None
        self._gram_factors: tuple[Array, Array] | None = None
        # columns that are no part of the product
        self._apart = self._left[:, :0]
        if X_new is None and not self._clip and len(X):
            self._centred = self._left - self._left.mean(axis=0)
            near = _near(self._centred) if gram and X.shape[1] >= _GRAM_MIN_COLUMNS else None
            if near is not None and near.sum() >= _GRAM_MIN_COLUMNS:
                self._gram_factors = _gram_factors(self._centred[:, near])
                self._apart = np.ascontiguousarray(self._left[:, ~near])

    def squared(self, rows: slice, cols: slice) -> Array:
        """``r^2[rows, cols]``, fresh and C-contiguous, at most 1e280."""
        r2: Array
        if self._gram_factors is not None:
            A, B = self._gram_factors
            r2 = gram(A[rows], B[cols])
            np.maximum(r2, 0.0, out=r2)
            if self._apart.shape[1]:
                r2 += cdist(self._apart[rows], self._apart[cols], "sqeuclidean")
            if rows == cols:
                symmetrise(r2)
                np.fill_diagonal(r2, 0.0)
            return r2
        r2 = cdist(self._left[rows], self._right[cols], "sqeuclidean")
        if self._clip:
            np.minimum(r2, _LARGEST_SQUARED, out=r2)
        return r2

    def contract(self, rows: slice, cols: slice, M: Array) -> Array:
        """``sum_ij M_ij D_k(i, j)`` for every column k, over one tile of training rows.

        By ``sum_i r_i x_ik^2 + sum_j c_j y_jk^2 - 2 x_k' M y_k`` with r and c the row and column
        sums of M; columns that cancel there are summed by differences.
        """
        if self._centred is None:
            columns = range(self._left.shape[1])
            return np.array([self._by_differences(rows, cols, M, k) for k in columns])
        x, y = self._centred[rows], self._centred[cols]
        if rows == cols:
            # D_ii = 0, but a large M_ii would hide what the rest cancels to
            M = M.copy()
            np.fill_diagonal(M, 0.0)
        MY = gram(M, np.vstack([y.T, np.ones(len(y))]))
        x2, y2 = x * x, y * y
        sums: Array = np.einsum("i,ij->j", MY[:, -1], x2) + np.einsum("i,ij->j", M.sum(axis=0), y2)
        sums -= 2.0 * np.einsum("ij,ij->j", x, MY[:, :-1])
        terms = float(np.abs(M).sum()) * (x2.max(axis=0) + y2.max(axis=0))
        for k in np.flatnonzero(np.abs(sums) < _CANCELLED * terms):
            sums[k] = self._by_differences(rows, cols, M, int(k))
        return sums

    def of_columns(self) -> list[Array]:
        """``D_k`` between all training rows, one (n, n) array a column k."""
        columns = self._left.T
        squares = [np.subtract.outer(x, x) ** 2 for x in columns]
        return [np.minimum(D, _LARGEST_SQUARED, out=D) for D in squares]

    def _by_differences(self, rows: slice, cols: slice, M: Array, k: int) -> float:
        D: Array = np.subtract.outer(self._left[rows, k], self._right[cols, k])
        D *= D
        np.minimum(D, _LARGEST_SQUARED, out=D)
        return inner(D, M)


def _exact_shift(X: Array) -> Array:
    """Smallest magnitude, signed, of columns that keep one sign; 0 for the others."""
    if len(X) == 0:
        return np.zeros(X.shape[1])
    low, high = X.min(axis=0), X.max(axis=0)
    return np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))


def _scaled(X: Array, shift: Array, scale: Array) -> Array:
    scaled: Array = (X - shift) / scale
    if np.isfinite(scaled).all():
        return scaled
    limit = np.finfo(np.float64).max
    return np.clip(np.clip(X - shift, -limit, limit) / scale, -limit, limit)


def _near(A: Array) -> NDArray[np.bool_]:
    """Which columns one matrix product can take: the smallest, as long as all rows are short."""
    squares = A * A
    order = np.argsort(squares.max(axis=0), kind="stable")
    lengths = np.cumsum(squares[:, order], axis=1).max(axis=0)
    near = np.zeros(A.shape[1], dtype=bool)
    near[order[lengths <= _GRAM_MAX_SQUARED_NORM]] = True
    return near


def _gram_factors(A: Array) -> tuple[Array, Array]:
    """B, C with ``B C^T = |a_i - a_j|^2``."""
    norms = np.einsum("ij,ij->i", A, A)[:, None]
    ones = np.ones_like(norms)
    return np.hstack([-2.0 * A, norms, ones]), np.hstack([A, ones, norms])


def _largest(A: Array) -> float:
    return float(np.abs(A).max(initial=0.0))
