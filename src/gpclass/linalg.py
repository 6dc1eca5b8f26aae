"""Symmetric LAPACK and BLAS, in place: the only file that factorises.

Matrices are C-contiguous float64, and symmetric ones may be read from either triangle unless a
docstring says "lower". LAPACK wants Fortran order: the calls below pass ``A.T`` with ``lower=0``,
whose upper triangle is the lower one of A, and copy nothing. Large matrices go through
`scipy.linalg`: numpy's second OpenBLAS has its own threads, and the two slow each other down (8 ms
in place of 0.1 ms for a 2000 x 2000 matrix times a vector). Small ones go through `numpy.linalg`.
It has more than 400 lines so that one file has all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, eigh, lapack

from gpclass.exceptions import NotPositiveDefiniteError

Array = NDArray[np.float64]

# Spacing of float64 at one.
EPS: Final = float(np.finfo(np.float64).eps)
# Replaces zero in denominators.
TINY: Final = 1e-300
# Up to this length OpenBLAS computes a dot product on one thread.
SERIAL_DOT: Final = 10_000
# Rows handled at a time in elementwise passes: 64 rows of a few thousand doubles stay in the cache.
BLOCK: Final = 64
# Triangles of up to this many rows are inverted by LAPACK.
SMALLEST_HALF: Final = 96
# Rows between which that makes an inverse a third quicker than LAPACK's dpotri; it needs half a
# matrix more meanwhile.
BY_HALVES: Final = (128, 1500)
# Rows of a tall matrix at a time: enough for BLAS, and little memory beside the matrix.
TALL: Final = 1024
_ABOVE: Final = ~np.tri(BLOCK, dtype=np.bool_)
_EYE: Final = np.eye(BLOCK, dtype=np.bool_)
# LAPACK's triangular kernels round a column differently in a block whose width is not a multiple
# of the register tile; padding to this width makes a column's bits independent of its neighbours.
TILE: Final = 8


def blocks(n: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of at most ``size`` that cover ``range(n)`` in order."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def inner(A: Array, B: Array) -> float:
    """``sum_ij A_ij B_ij`` of two arrays of one shape."""
    a, b = A.ravel(), B.ravel()
    # ddot wakes a second thread for a tile: 0.1 ms, measured, where the sum takes 0.01
    return float(a @ b if len(a) <= SERIAL_DOT else np.einsum("i,i", a, b))


def symmetric_product(K: Array, v: Array, *, upper: bool = False) -> Array:
    """``K v`` for a symmetric K, read from its lower or its upper triangle, and v of shape (n,)."""
    return np.asarray(blas.dsymv(1.0, K.T, v, lower=int(upper)))


def square_lower_into_upper(A: Array) -> None:
    """Write the squares of the strict lower triangle of A above the diagonal, which becomes 0."""
    for rows in blocks(len(A)):
        np.square(A[rows, : rows.start].T, out=A[: rows.start, rows])
        block = A[rows, rows]
        clear_above(block)
        np.fill_diagonal(block, 0.0)
        block += np.square(block).T


def row_sums_of_product(A: Array, B: Array, s: Array) -> Array:
    """``sum_j A_ij B_ij s_j`` of symmetric A and B, from their lower triangles, shape (n,)."""
    total = np.zeros(len(s))
    for rows in blocks(len(s)):
        start, stop = rows.start, rows.stop
        product = A[rows, :stop] * B[rows, :stop]
        corner = product[:, start:]
        clear_above(corner)
        total[rows] += np.einsum("ij,j->i", product, s[:stop])
        np.copyto(corner, 0.0, where=_EYE[: len(corner), : len(corner)])
        total[:stop] += np.einsum("ij,i->j", product, s[rows])
    return total


def clear_above(block: Array) -> None:
    """Write zeros above the diagonal of a block of at most `BLOCK` rows: `np.tril` takes 10 us."""
    np.copyto(block, 0.0, where=_ABOVE[: len(block), : len(block)])


def add_symmetric_outer(G: Array, u: Array, v: Array, scale: float = 1.0) -> None:
    """Add ``scale (u v^T + v u^T)`` to the lower triangle of G, in place."""
    blas.dsyr2(scale, u, v, a=G.T, lower=0, overwrite_a=1)


def mirror_lower(A: Array) -> None:
    """Copy the lower triangle of A onto its upper one, in place, block by block."""
    for rows in blocks(len(A)):
        A[: rows.start, rows] = A[rows, : rows.start].T
        block = A[rows, rows]
        np.copyto(block, block.T.copy(), where=_ABOVE[: len(block), : len(block)])


def scale_rows_and_columns(A: Array, s: Array, out: Array | None = None) -> Array:
    """Lower triangle of ``diag(s) A diag(s)``, the upper one undefined; ``out`` may be A itself."""
    if out is None:
        out = np.empty_like(A)
    for rows in blocks(len(A)):
        block = out[rows, : rows.stop]
        np.multiply(A[rows, : rows.stop], s[: rows.stop], out=block)
        block *= s[rows, None]
    return out


def cholesky(A: Array, what: str = "the matrix") -> Array:
    """Factor ``A = L L^T`` in place: the lower triangle of A becomes L. Returns A.

    The strict upper triangle is neither read nor written; ``what`` names A in the error. Raises
    NotPositiveDefiniteError, which names the failing leading minor or says that A is not finite.
    """
    _, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    if info > 0 or (info == 0 and not np.isfinite(A.diagonal()).all()):
        raise NotPositiveDefiniteError(
            f"{what} of shape {A.shape} is not positive definite"
            + (f": its leading minor of order {info} fails" if info else ": it has NaN or infinity")
        )
    return A


def solve_factored(L: Array, v: Array) -> Array:
    """``(L L^T)^-1 v`` for v of shape (n,)."""
    w = blas.dtrsv(L.T, v, lower=0, trans=1)
    return np.asarray(blas.dtrsv(L.T, w, lower=0, trans=0, overwrite_x=1))


def solve_lower_columns_in_place(L: Array, V: Array, *, transposed: bool = False) -> Array:
    """Overwrite V of shape (n, m) by ``L^-1 V``, or by ``L^-T V``.

    A column's bits do not depend on its neighbours where m is a multiple of `TILE`.
    """
    blas.dtrsm(1.0, L.T, V.T, side=1, lower=0, trans_a=int(transposed), overwrite_b=1)
    return V


def unwhitened(L: Array, R: Array) -> Array:
    """``L^-T R L^-1`` for a symmetric R, which is overwritten."""
    for _ in range(2):
        R = solve_lower_columns_in_place(L, np.ascontiguousarray(R), transposed=True).T
    return np.ascontiguousarray(R)


def solve_many_columns_in_place(L: Array, V: Array, *, transposed: bool = False) -> Array:
    """Overwrite V of shape (n, m) by ``L^-1 V``, or by ``L^-T V``, by halves of L.

    Nearly all of the work is in products, which is twice as fast as dtrsm at n = 500, and as exact.
    """
    n = len(L)
    if n <= SMALLEST_HALF:
        return solve_lower_columns_in_place(np.ascontiguousarray(L), V, transposed=transposed)
    half = n // 2
    below = np.ascontiguousarray(L[half:, :half])
    parts = [(L[:half, :half], V[:half]), (L[half:, half:], V[half:])]
    if transposed:
        parts.reverse()
    (first, A), (last, B) = parts
    solve_many_columns_in_place(first, A, transposed=transposed)
    blas.dgemm(-1.0, A.T, below.T, beta=1.0, c=B.T, trans_b=int(transposed), overwrite_c=1)
    solve_many_columns_in_place(last, B, transposed=transposed)
    return V


def multiply_lower_columns_in_place(X: Array, V: Array, *, transposed: bool = False) -> Array:
    """Overwrite V of shape (n, m) by ``X V``, or by ``X^T V``, for a lower triangular X."""
    blas.dtrmm(1.0, X.T, V.T, side=1, lower=0, trans_a=int(transposed), overwrite_b=1)
    return V


def solve_lower_rows_in_place(L: Array, V: Array, *, transposed: bool = False) -> Array:
    """Overwrite V of shape (n, m), whose rows v become ``L^-1 v``, or ``L^-T v``."""
    blas.dtrsm(1.0, L.T, V.T, side=0, lower=0, trans_a=int(not transposed), overwrite_b=1)
    return V


def invert_factored_in_place(L: Array) -> Array:
    """Overwrite the lower triangle of L by that of ``(L L^T)^-1``."""
    _, info = lapack.dpotri(L.T, lower=0, overwrite_c=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"a factor of shape {L.shape} has a zero on its diagonal")
    return L


def add_row_products(G: Array, Y: Array, scale: float) -> None:
    """Add ``scale Y^T Y`` to the lower triangle of G, in place; Y of shape (k, n)."""
    if len(Y):
        blas.dsyrk(scale, Y.T, beta=1.0, c=G.T, lower=0, overwrite_c=1)


def inverse_of_lower(L: Array) -> Array:
    """``L^-1`` of the lower triangle of L, by halves, zero above the diagonal.

    Nearly all of the work is in `blas.dtrmm`, which is four times as fast as LAPACK's dtrtri at
    n = 500.
    """
    n = len(L)
    if n <= SMALLEST_HALF:
        X = np.tril(L)
        _, info = lapack.dtrtri(X.T, lower=0, overwrite_c=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"a factor of shape {L.shape} has a zero diagonal")
        return X
    half, inverse = n // 2, np.zeros((n, n))
    below = np.ascontiguousarray(L[half:, :half])
    part = inverse[:half, :half] = inverse_of_lower(L[:half, :half])
    blas.dtrmm(-1.0, part.T, below.T, side=0, lower=0, overwrite_b=1)
    part = inverse[half:, half:] = inverse_of_lower(L[half:, half:])
    blas.dtrmm(1.0, part.T, below.T, side=1, lower=0, overwrite_b=1)
    inverse[half:, :half] = below
    return inverse


def inverse_of_factored(L: Array) -> Array:
    """Lower triangle of ``(L L^T)^-1``, in new memory; the upper one is undefined."""
    if not BY_HALVES[0] <= len(L) <= BY_HALVES[1]:
        return invert_factored_in_place(L.copy())
    X = inverse_of_lower(L)
    lapack.dlauum(X.T, lower=0, overwrite_c=1)  # X^T X
    return X


def multiply_rows_by_lower_in_place(X: Array, Z: Array) -> Array:
    """Overwrite Z of shape (m, n) by ``Z X^T``: every row z by ``X z``, X lower triangular."""
    if len(Z):
        blas.dtrmm(1.0, X.T, Z.T, side=0, lower=0, trans_a=1, overwrite_b=1)
    return Z


def add_row_crossings(G: Array, Z: Array, scale: float) -> None:
    """Add ``scale Z Z^T`` to the lower triangle of G, in place; Z of shape (n, k)."""
    blas.dsyrk(scale, Z.T, beta=1.0, c=G.T, trans=1, lower=0, overwrite_c=1)


def pad_columns(A: Array) -> Array:
    """A of shape (n, m), with columns of zeros up to a multiple of `TILE`; A itself if it is."""
    missing = -A.shape[1] % TILE
    return np.hstack([A, np.zeros((len(A), missing))]) if missing else A


def add_symmetric_products(G: Array, U: Array, V: Array, scale: float) -> None:
    """Add ``scale (U^T V + V^T U)`` to the lower triangle of G, in place; U, V of shape (k, n)."""
    blas.dsyr2k(scale, U.T, V.T, beta=1.0, c=G.T, lower=0, overwrite_c=1)


def add_lower_and_store_above(A: Array, total: Array, stored: Array) -> None:
    """Add A's lower triangle to that of ``total``, and write it above ``stored``'s diagonal."""
    for rows in blocks(len(A)):
        block = A[rows, : rows.stop]
        total[rows, : rows.stop] += block
        stored[: rows.start, rows] = block[:, : rows.start].T
        above = _ABOVE[: len(block), : len(block)]
        np.copyto(stored[rows, rows], block[:, rows.start :].T, where=above)


def log_det_factored(L: Array) -> float:
    """``log |L L^T|``."""
    return float(2.0 * np.log(L.diagonal()).sum())


def solve_general(A: Array, b: Array) -> Array:
    """``A^-1 b`` for a small square A and b of shape (n,) or (n, m)."""
    _, _, x, info = lapack.dgesv(A, b)
    if info != 0:
        raise np.linalg.LinAlgError(f"a matrix of shape {A.shape} is singular")
    return np.asarray(x)


def least_squares(A: Array, b: Array, *, rcond: float) -> Array:
    """``x`` of least ``|A x - b|`` for a thin A; singular values below ``rcond`` count as zero."""
    return np.asarray(np.linalg.lstsq(A, b, rcond=rcond)[0])


def solve_batch(A: Array, b: Array) -> Array:
    """``A_i^-1 b_i`` for a stack of small A, shape (m, k, k), and b, (m, k) or (m, k, j)."""
    if b.ndim == A.ndim - 1:
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])
    return np.asarray(np.linalg.solve(A, b))


def cholesky_batch(A: Array) -> Array:
    """Lower factors of a stack of small positive definite matrices, shape (m, k, k)."""
    return np.asarray(np.linalg.cholesky(A))


def eigen_batch(A: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues (m, k) and eigenvectors (m, k, k) of a stack of symmetric A."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray(values), np.asarray(vectors)


def root_batch(A: Array) -> Array:
    """R with ``R R^T = A`` for a stack (m, k, k) of positive semi-definite A, singular or not."""
    values, vectors = eigen_batch(A)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


@dataclass(frozen=True)
class Factored(ABC):
    """A symmetric matrix M with a lower triangular factor L, whose upper triangle is undefined."""

    L: Array

    @property
    def log_det(self) -> float:
        """``log | det M |``."""
        return log_det_factored(self.L)

    @abstractmethod
    def solve(self, v: Array) -> Array:
        """``M^-1 v`` for v of shape (n,)."""

    @abstractmethod
    def inverse(self) -> Array:
        """Lower triangle of ``M^-1``, in new memory."""

    @abstractmethod
    def half_solve_in_place(self, V: Array) -> int:
        """Overwrite V by W with ``V^T M^-1 V = W_+^T W_+ - W_-^T W_-``; return the rows of W_+."""

    def quadratic_in_place(self, V: Array) -> Array:
        """``diag(V^T M^-1 V)`` for V of shape (n, m), which is overwritten."""
        p = self.half_solve_in_place(V)
        squares = np.einsum("ij,ij->j", V[:p], V[:p])
        return np.asarray(squares - np.einsum("ij,ij->j", V[p:], V[p:]))

    def subtract_quadratic(self, A: Array, V: Array) -> None:
        """Take ``V^T M^-1 V`` from the lower triangle of A, in place; V is overwritten."""
        p = self.half_solve_in_place(V)
        add_row_products(A, V[:p], -1.0)
        add_row_products(A, V[p:], 1.0)


@final
@dataclass(frozen=True)
class Definite(Factored):
    """A symmetric positive definite matrix ``M = L L^T``."""

    @classmethod
    def of(cls, M: Array, what: str) -> "Definite":
        """Factor M, which is overwritten."""
        return cls(cholesky(M, what))

    def solve(self, v: Array) -> Array:
        """See `Factored`."""
        return solve_factored(self.L, v)

    def inverse(self) -> Array:
        """See `Factored`."""
        return inverse_of_factored(self.L)

    def half_solve_in_place(self, V: Array) -> int:
        """See `Factored`; W_- has no rows."""
        solve_lower_columns_in_place(self.L, V)
        return len(V)


@final
@dataclass(frozen=True)
class QuasiDefinite(Factored):
    """A symmetric matrix ``M = [[P, C], [C^T, -N]]`` up to order, P and N positive definite.

    With the rows of P first, ``M = L D L^T`` where D is 1 on the rows of P and -1 on those of N
    (Vanderbei 1995): two Cholesky factorisations, no pivoting. ``order`` has the row numbers of M
    in the order of L; the first ``n_positive`` are those of P.
    """

    order: NDArray[np.intp]
    n_positive: int

    @classmethod
    def of(cls, M: Array, positive: NDArray[np.bool_], what: str) -> "QuasiDefinite":
        """Factor M (read from its lower triangle); ``positive`` marks the rows of P.

        Raises NotPositiveDefiniteError where P, or minus its Schur complement, is not definite.
        """
        order = np.concatenate([np.flatnonzero(positive), np.flatnonzero(~positive)])
        p = int(positive.sum())
        full = M.copy()
        mirror_lower(full)
        full = full[np.ix_(order, order)]
        schur = np.ascontiguousarray(-full[p:, p:])
        if p:
            L11 = cholesky(np.ascontiguousarray(full[:p, :p]), what)
            C = solve_lower_columns_in_place(L11, np.ascontiguousarray(full[:p, p:]))
            add_row_products(schur, C, 1.0)
            full[:p, :p], full[p:, :p] = L11, C.T
        full[p:, p:] = cholesky(schur, f"minus the Schur complement of {what}")
        return cls(full, order, p)

    def solve(self, v: Array) -> Array:
        """See `Factored`."""
        w = blas.dtrsv(self.L.T, v[self.order], lower=0, trans=1)
        w[self.n_positive :] *= -1.0
        x: Array = np.empty_like(w)
        x[self.order] = blas.dtrsv(self.L.T, w, lower=0, trans=0, overwrite_x=1)
        return x

    def inverse(self) -> Array:
        """``L^-T L^-1 - 2 X^T X``, X being the rows of L^-1 that belong to N."""
        n, p = len(self.order), self.n_positive
        result = invert_factored_in_place(self.L.copy())
        X = np.zeros((n - p, n))
        X[np.arange(n - p), np.arange(p, n)] = 1.0
        blas.dtrsm(1.0, self.L.T, X.T, side=0, lower=0, trans_a=0, overwrite_b=1)
        add_row_products(result, X, -2.0)
        mirror_lower(result)
        back = np.argsort(self.order)
        return result[np.ix_(back, back)]

    def half_solve_in_place(self, V: Array) -> int:
        """See `Factored`."""
        V[:] = V[self.order]
        solve_lower_columns_in_place(self.L, V)
        return self.n_positive


def product(A: Array, B: Array) -> Array:
    """``A B`` for A of shape (n, k) and B of shape (k, m), C-contiguous."""
    if 0 in A.shape or 0 in B.shape:
        return np.zeros((A.shape[0], B.shape[1]))
    return np.asarray(blas.dgemm(1.0, B.T, A.T).T)


def gram(A: Array, s: Array) -> Array:
    """``A^T diag(s) A`` of shape (k, k), for A of shape (n, k) and s of shape (n,) of any sign."""
    G = np.zeros((A.shape[1], A.shape[1]))
    root, negative = np.sqrt(np.abs(s)), s < 0.0
    for rows in blocks(len(A) if A.size else 0, TALL):
        scaled, below = A[rows] * root[rows, None], negative[rows]
        if below.any():
            add_row_products(G, scaled[below], -1.0)
            scaled = scaled[~below]
        add_row_products(G, scaled, 1.0)
    mirror_lower(G)
    return G


def gram_of_columns(U: Array, s: Array) -> Array:
    """Lower triangle of ``U diag(s) U^T``, for U of shape (k, n) and s of shape (n,), any sign."""
    G, root = np.zeros((len(U), len(U))), np.sqrt(np.abs(s))
    for rows in blocks(len(s), TALL):
        for sign in (1.0, -1.0):
            of_sign = sign * s[rows] > 0.0
            if of_sign.any():
                add_row_crossings(G, U[:, rows] * np.where(of_sign, root[rows], 0.0), sign)
    return G


def crossed(A: Array, B: Array) -> Array:
    """``A^T B`` for A of shape (n, k) and B of shape (n, m)."""
    return np.asarray(blas.dgemm(1.0, B.T, A.T, trans_b=1).T)


def times(A: Array, v: Array) -> Array:
    """``A v`` for A of shape (n, k) and v of shape (k,)."""
    return np.asarray(blas.dgemv(1.0, A.T, v, trans=1))


def times_transposed(A: Array, v: Array) -> Array:
    """``A^T v`` for A of shape (n, k) and v of shape (n,)."""
    return np.asarray(blas.dgemv(1.0, A.T, v))


def symmetric_eigen(A: Array) -> tuple[Array, Array]:
    """Eigenvalues l, ascending, and orthonormal eigenvectors U of ``A = U diag(l) U^T``, (n, n)."""
    values, vectors = eigh(A, driver="evd", check_finite=False)
    return np.asarray(values), np.ascontiguousarray(vectors)
