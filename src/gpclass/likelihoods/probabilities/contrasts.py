"""Rows in contrasts: an order of the classes, and covariances split for the integrals.

What all classes share changes no probability, so a covariance is one of contrasts. Two things are
made of it here that do not depend on the order in which the classes came: an order, and a split
into a part that is variance of each class alone, as large as can be, and the rest.
"""

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.likelihoods.probabilities.cubature import Rows
from gpclass.likelihoods.probabilities.noise import GUMBEL_VARIANCE

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Invariants of two classes nearer than this (relative) are the same, but for rounding.
TIE = 1e-9

# Covariances computed as prior minus reduction have negative eigenvalues from rounding.
ROUNDING = 1e-8

# Rest of the covariance, in units of each class's own noise, from which a better split pays.
WORTH = 0.3

# Newton steps for it, each this share of the way to the boundary, and the precision that is kept:
# the split is a choice, and rounding must not show in it.
STEPS, SHARE, KEPT_BITS = 5, 0.8, 20


def contrasts(mean: Array, cov: Array) -> tuple[Array, Array, Array]:
    """What is left without the mean over the classes; and the largest variance there was."""
    largest = np.diagonal(cov, axis1=1, axis2=2).max(axis=1)
    mean = mean - mean.mean(axis=1, keepdims=True)
    cov = cov - cov.mean(axis=1, keepdims=True)
    cov = cov - cov.mean(axis=2, keepdims=True)
    return mean, cov, largest


# -- the order of the classes ------------------------------------------------------------------


def canonical_order(mean: Array, cov: Array) -> tuple[Index, Index]:
    """An order of the classes (m, K) by what they are, and equal ranks for those that are the same.

    The keys are continuous functions of mean and covariance that are permuted with the classes.
    They are compared with a tolerance, so that rounding does not decide the order.
    """
    m, K = mean.shape
    diagonal = np.diagonal(cov, axis1=1, axis2=2)
    spread = np.maximum(diagonal.sum(axis=1, keepdims=True), 1e-300)
    scale = np.abs(mean).max(axis=1, keepdims=True) + np.sqrt(spread)
    a, S = mean / scale, cov / spread[:, :, None]
    S2 = np.matmul(S, S)
    keys = [
        a,
        np.diagonal(S, axis1=1, axis2=2),
        np.matmul(S, a[:, :, None])[:, :, 0],
        np.diagonal(S2, axis1=1, axis2=2),
        np.matmul(S, (a * a)[:, :, None])[:, :, 0],
        np.einsum("mij,mji->mi", S2, S),
    ]
    ranks = np.zeros((m, K), dtype=np.intp)
    for key in keys:
        by = np.argsort(key, axis=1, kind="stable")
        gaps = np.diff(np.take_along_axis(key, by, axis=1), axis=1) > TIE
        place = np.concatenate([np.zeros((m, 1), dtype=np.intp), np.cumsum(gaps, axis=1)], axis=1)
        rank = np.empty_like(place)
        np.put_along_axis(rank, by, place, axis=1)
        ranks = _dense(ranks * K + rank)
    # the largest means first: they have most of the probability
    return np.argsort(-ranks, axis=1, kind="stable"), ranks


def _dense(ranks: Index) -> Index:
    """The same order with ranks 0, 1, ... in each row."""
    by = np.argsort(ranks, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(ranks, by, axis=1), axis=1) > 0
    out = np.zeros_like(ranks)
    np.put_along_axis(out[:, :], by[:, 1:], np.cumsum(steps, axis=1), axis=1)
    return out


def share_ties(P: Array, ranks: Index, error: Array) -> Array:
    """Average over classes that are the same, which the points do not treat as the same."""
    same = ranks[:, :, None] == ranks[:, None, :]
    tied = same.sum(axis=(1, 2)) > P.shape[1]
    if not tied.any():
        return P
    same, p = same[tied], P[tied]
    shared = (same * p[:, None, :]).sum(axis=2) / same.sum(axis=2)
    # two classes with equal keys that are not the same would differ by more than the points do
    near = np.abs(shared - p).max(axis=1) <= 10.0 * error[tied]
    P[tied] = np.where(near[:, None], shared, p)
    return P


# -- the split of the covariance ---------------------------------------------------------------


def prepared(mean: Array, cov: Array, largest: Array, gumbel: bool) -> Rows:
    """Factors of the covariances: all of it, and what is not each class's own."""
    K = mean.shape[1]
    H = helmert(K)
    M = np.matmul(np.matmul(H.T, cov), H)
    trace = np.trace(M, axis1=1, axis2=2)
    w, root = _ordered_root(M, trace)
    if (w[:, -1] < -K * ROUNDING * largest).any():
        raise NotPositiveDefiniteError(
            f"cov must be positive semi-definite, but has an eigenvalue {w[:, -1].min():.3g}."
        )
    own = _own_variances(cov, M, trace, H, GUMBEL_VARIANCE if gumbel else 0.0)
    _, rest = _ordered_root(M - _between(H, own), trace)
    # own is as large as can be, so that the last column is nothing
    return Rows(mean, cov, np.matmul(H, root), own, np.matmul(H, rest[:, :, :-1]), gumbel)


def _between(H: Array, d: Array) -> Array:
    """``H^T diag(d) H`` of the rows of d, shape (m, K - 1, K - 1)."""
    return np.asarray(np.matmul(H.T, d[:, :, None] * H))


def helmert(K: int) -> Array:
    """Orthonormal contrasts, shape (K, K - 1)."""
    H = np.zeros((K, K - 1))
    for k in range(1, K):
        H[:k, k - 1], H[k, k - 1] = 1.0, -k
        H[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return H


def _ordered_root(M: Array, trace: Array) -> tuple[Array, Array]:
    """Eigenvalues, descending, and ``M = root root^T`` with columns of falling size.

    A tiny multiple of a fixed diagonal decides between eigenvectors of the same eigenvalue, and a
    fixed vector their signs, so that rounding does not.
    """
    k = M.shape[1]
    golden = np.mod(np.arange(1, k + 1) * 0.6180339887498949, 1.0)
    w, V = linalg.eigen_batch(M + (TIE * trace)[:, None, None] * np.diag(golden))
    w, V = w[:, ::-1], V[:, :, ::-1]
    sign = np.where(np.matmul(0.5 + golden, V) < 0.0, -1.0, 1.0)
    kept = np.where(w > 2.0 * TIE * trace[:, None], w, 0.0)
    return w, V * (sign * np.sqrt(kept))[:, None, :]


def _own_variances(cov: Array, M: Array, trace: Array, H: Array, noise: float) -> Array:
    """A large diagonal d (m, K) with ``M - H^T diag(d) H`` positive semi-definite.

    Of two shapes, all alike and what is left of the diagonal when ``v_i + v_j`` is fitted to the
    entries off it (which is no contrast), each as large as it can be, the one that takes away more.
    Where much is left, that is improved on.
    """
    m, K = cov.shape[:2]
    diagonal = np.diagonal(cov, axis1=1, axis2=2)
    total = -diagonal.sum(axis=1, keepdims=True) / (2.0 * (K - 1))
    fitted = diagonal + 2.0 * (diagonal + total) / (K - 2)
    largest = fitted.max(axis=1, keepdims=True)
    fitted = np.maximum(fitted, 1e-3 * largest) / np.where(largest > 0.0, largest, 1.0)
    best, taken = np.zeros((m, K)), np.zeros(m)
    for shape in (np.ones((m, K)), np.where(largest > 0.0, fitted, 1.0)):
        own, size = _largest_multiple(shape, M, trace, H)
        better = size > taken * (1.0 + 1e-6)
        best = np.where(better[:, None], own, best)
        taken = np.where(better, size, taken)
    left = np.maximum(diagonal - (1.0 - 1.0 / K) * best, 0.0)
    ratio = (left / np.maximum(best + noise, 1e-300)).sum(axis=1)
    (open_,) = np.nonzero((taken > 0.0) & (ratio > WORTH))
    if open_.size:
        M, trace, diagonal = M[open_], trace[open_], diagonal[open_]
        shape = _improved(best[open_], M, trace, H, noise, diagonal)
        best[open_], _ = _largest_multiple(shape, M, trace, H)
    return best


def _largest_multiple(shape: Array, M: Array, trace: Array, H: Array) -> tuple[Array, Array]:
    """The largest multiple of a diagonal (m, K) that M allows, and what it takes of the trace."""
    N = _between(H, shape)
    L = linalg.cholesky_batch(N)
    G = linalg.solve_batch(L, linalg.solve_batch(L, M).transpose(0, 2, 1))
    most = linalg.eigen_batch(G)[0][:, 0] * (1.0 - 1e-9)
    most = np.where(most * np.trace(N, axis1=1, axis2=2) > 1e-9 * trace, most, 0.0)
    return most[:, None] * shape, most * np.trace(N, axis1=1, axis2=2)


def _improved(own: Array, M: Array, trace: Array, H: Array, noise: float, diagonal: Array) -> Array:
    """Newton steps that lessen ``sum_j (diagonal_j - d_j) / (d_j + noise)``, from inside.

    The directions are those of Dikin's method for semi-definite programs: steepest in the metric
    of the Hessian of the barrier ``-log|M - H^T diag(d) H| - sum_j log d_j``.
    """
    m, K = own.shape
    d = 0.9 * own
    M = M + (TIE * trace)[:, None, None] * np.eye(K - 1)
    for _ in range(STEPS):
        L = linalg.cholesky_batch(M - _between(H, d))
        Y = linalg.solve_batch(L, np.broadcast_to(H.T, (m, K - 1, K)))
        metric = np.matmul(Y.transpose(0, 2, 1), Y) ** 2
        metric += np.eye(K) / d[:, :, None] ** 2
        gain = (diagonal + noise) / (d + noise) ** 2
        step = linalg.solve_batch(metric, gain)
        turned = np.matmul(Y * step[:, None, :], Y.transpose(0, 2, 1))
        curved = linalg.eigen_batch(turned)[0][:, -1]
        length = np.maximum(curved, (-step / d).max(axis=1))
        d = d + (SHARE / np.maximum(length, 1e-300))[:, None] * step
    unit = np.exp2(np.frexp(trace)[1] - KEPT_BITS)[:, None]
    return np.asarray(np.maximum(np.round(d / unit), 1.0) * unit)
