"""Variances of the latents' deviations from their row's mean, and what a gradient has of them."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.priors.coupled import CoupledFactor

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Latents whose variances are found at a time: as many columns as BLAS is fast with.
ROWS: Final = 256


def mean_deviations(coupled: CoupledFactor, others: Codes) -> Array:
    """Variances of ``f^ - f_j`` in every row, f^ its mean of f weighted by d; shape (n, C - 1).

    With t the sum of a row's d, ``E_c K_c = I - S_c B_c^-1 S_c^-1`` and ``X_c = L_P^-1 E_c K_c``
    they are sums of squares: ``sum_c (d_c / t - delta_cj)^2 (K_c - K_c E_c K_c)_ii +
    |sum_c (d_c / t) x_c - x_j|^2``. Off the diagonal ``E_c K_c`` has the entries of -E_c over
    those of d, so that the mean over the classes is -P over t.

    What the sums of squares are of is written over E where `precision_roots` can use it: for
    classes that share K, and without precisions that are tiny.
    """
    d, E, V = coupled.d, coupled._E, coupled.class_variances
    n = len(d)
    total = d.sum(axis=1)
    share = d / total[:, None]
    rows = np.arange(n)[:, None]
    d_other, V_other = d[rows, others], V[rows, others]
    found = _leave_one_out(share**2 * V)[rows, others]
    found += (_leave_one_out(d)[rows, others] / total[:, None]) ** 2 * V_other
    centre = (share * d * V).sum(axis=1)
    tiny = d_other <= coupled.tiny
    inverse = (-1.0 / np.where(tiny, 1.0, d_other)).astype(E.dtype)
    spend = coupled.shared and not tiny.any()
    height = max(1, ROWS // others.shape[1])
    for start in range(0, n, height):
        part = np.arange(start, min(start + height, n))
        Z = E[others[part], part[:, None]]
        Z *= inverse[part][:, :, None]
        for c in np.unique(others[part][tiny[part]]):
            i, k = np.nonzero(tiny[part] & (others[part] == c))
            Z[i, k] = linalg.symmetric_rows(E[c], coupled.K[c][part[i]])
        local = np.arange(len(part))
        small = tiny[part]
        at = Z[local, :, part]
        Z[local, :, part] = np.where(small, at, d_other[part] * V_other[part])
        mean = _rows_of(coupled.P, part[0], part[-1] + 1)
        mean /= -total[part, None]
        mean[local, part] = centre[part]
        np.subtract(mean[:, None], Z, out=Z)
        flat = linalg.solve_lower_rows_in_place(coupled.L_P, Z.reshape(-1, n))
        found[part] += np.einsum("ij,ij->i", flat, flat).reshape(len(part), -1)
        if spend:
            E[others[part], part[:, None]] = flat.reshape(Z.shape)
    if spend:
        coupled.spend_E(E)
    return found


def precision_roots(coupled: CoupledFactor, codes: Codes, Z: Array) -> Array:
    """Rows ``V_c^T``, ``V_c = L_P^-1 E_c``, from what `mean_deviations` left in the memory of E.

    Its ``Z_c = L_P^-1 (mean - E_c K_c)`` and ``mean = I - P / t`` make ``V_c = Z_c D_c + L_P^T
    D_c / t``, and at a row's own class V is what the other classes leave of ``sum_c V_c = L_P^T``.
    """
    d = coupled.d
    share = d / d.sum(axis=1)[:, None]
    for start in range(0, len(d), linalg.BLOCK):
        stop = min(start + linalg.BLOCK, len(d))
        part, local = slice(start, stop), np.arange(stop - start)
        own = codes[part]
        root = np.tril(coupled.L_P[part], start)
        block = Z[:, part]
        block[own, local] = 0.0
        block *= d[part].T[:, :, None]
        rest = block.sum(axis=0)
        for rows, weight in zip(block, share[part].T, strict=True):
            rows += weight[:, None] * root
        block[own, local] -= rest
    return Z


def _rows_of(P: Array, start: int, stop: int) -> Array:
    """Rows of a symmetric P that is held in its lower triangle."""
    rows = np.empty((stop - start, len(P)), P.dtype)
    rows[:, :stop] = P[start:stop, :stop]
    rows[:, stop:] = P[stop:, start:stop].T
    corner = rows[:, start:stop]
    corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return rows


def _leave_one_out(A: Array) -> Array:
    """Sums over each row of A but for the entry itself, without a difference."""
    result = np.zeros_like(A)
    result[:, 1:] = np.cumsum(A, axis=1)[:, :-1]
    result[:, :-1] += np.cumsum(A[:, ::-1], axis=1)[:, -2::-1]
    return result
