"""Symmetric LAPACK and BLAS, in place: the only room where a factorisation is called.

Matrices are C-contiguous float64 and symmetric ones may be read from either triangle unless a
docstring says "lower". LAPACK wants Fortran order: the lower triangle of a C-ordered array is the
upper triangle of its transposed view, so every call below passes ``A.T`` with ``lower=0`` and no
copy is made. All calls go through `scipy.linalg`: numpy's own products live in a second OpenBLAS
with its own threads, and the two pools slow each other down (a product of a 2000 x 2000 matrix
with a vector took 8 ms through numpy and 0.1 ms here).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from gpclass.exceptions import NotPositiveDefiniteError

Array = NDArray[np.float64]

# Rows handled at a time in elementwise passes: 64 rows of a few thousand doubles stay in the cache.
BLOCK: Final = 64
# LAPACK's triangular kernels round a column differently in a block whose width is not a multiple
# of the register tile; padding to this width makes a column's bits independent of its neighbours.
TILE: Final = 8


def symmetric_product(K: Array, v: Array) -> Array:
    """``K v`` for a symmetric K of shape (n, n) and v of shape (n,)."""
    return np.asarray(blas.dsymv(1.0, K.T, v))


def add_symmetric_outer(G: Array, u: Array, v: Array, scale: float = 1.0) -> None:
    """Add ``scale (u v^T + v u^T)`` to the lower triangle of G, in place."""
    blas.dsyr2(scale, u, v, a=G.T, lower=0, overwrite_a=1)


def mirror_lower(A: Array) -> None:
    """Copy the lower triangle of A onto its upper one, in place, block by block."""
    n = len(A)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        A[:start, start:stop] = A[start:stop, :start].T
        block = A[start:stop, start:stop]
        block[:] = np.tril(block) + np.tril(block, -1).T


def scale_rows_and_columns(A: Array, s: Array, out: Array | None = None) -> Array:
    """Lower triangle of ``diag(s) A diag(s)`` (the upper one is left undefined).

    Parameters
    ----------
    A : ndarray of shape (n, n)
    s : ndarray of shape (n,)
    out : ndarray of shape (n, n), default=None
        Where to write; may be A itself. None: a new array.
    """
    n = len(A)
    if out is None:
        out = np.empty_like(A)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        block = out[start:stop, :stop]
        np.multiply(A[start:stop, :stop], s[:stop], out=block)
        block *= s[start:stop, None]
    return out


def cholesky(A: Array, what: str = "the matrix") -> Array:
    """Factor ``A = L L^T`` in place; the lower triangle of A becomes L.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric positive definite, read from its lower triangle, overwritten. The strict upper
        triangle keeps whatever it had.
    what : str
        Name of the matrix for the error message.

    Returns
    -------
    L : ndarray of shape (n, n)
        The same memory as A.

    Raises
    ------
    NotPositiveDefiniteError
        Naming the matrix, the failing leading minor, and whether entries are not finite.
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


def solve_lower_columns_in_place(L: Array, V: Array) -> Array:
    """Overwrite V of shape (n, m) by ``L^-1 V``.

    A column's bits do not depend on its neighbours when m is a multiple of `TILE`.
    """
    blas.dtrsm(1.0, L.T, V.T, side=1, lower=0, trans_a=0, overwrite_b=1)
    return V


def invert_factored_in_place(L: Array) -> Array:
    """Overwrite the lower triangle of L by that of ``(L L^T)^-1``."""
    _, info = lapack.dpotri(L.T, lower=0, overwrite_c=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"a factor of shape {L.shape} has a zero on its diagonal")
    return L


def log_det_factored(L: Array) -> float:
    """``log |L L^T|``."""
    return float(2.0 * np.log(L.diagonal()).sum())


def solve_batch(A: Array, b: Array) -> Array:
    """Solve ``A_i x_i = b_i`` for many small systems: A of shape (m, k, k), b of shape (m, k)."""
    return np.asarray(np.linalg.solve(A, b[:, :, None])[:, :, 0])
