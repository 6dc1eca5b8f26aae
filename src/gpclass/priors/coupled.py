"""Factor of the dense prior of C classes, given sites that couple the classes of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass import linalg
from gpclass.linalg import Array
from gpclass.priors.joint import Codes, JointFactor, MeanAdjoint

# Precisions up to this are not divided by, and rows of such precisions have no site: products of
# them would be subnormal numbers.
TINY_PRECISION: Final = 1e-280
# New inputs handled at a time: memory of C n CHUNK doubles.
CHUNK: Final = 256
# Right-hand sides of one product with a triangle: as many as BLAS is fast with.
WIDTH: Final = 256


def as_crosses(K_cross: Array | Sequence[Array], n_classes: int) -> tuple[Array, ...]:
    """One (n, m) array a class, padded to whole tiles; one array repeated where it is shared."""
    if isinstance(K_cross, np.ndarray) and K_cross.ndim == 2:
        return (linalg.pad_columns(K_cross),) * n_classes
    return tuple(linalg.pad_columns(cross) for cross in K_cross)


@final
@dataclass(frozen=True)
class CoupledFactor(JointFactor):
    """Factor of C independent processes, given sites of precision W; see `JointFactor`.

    With ``B_c = I + S_c K_c S_c = L_c L_c^T``, ``S_c = diag(d_c)^1/2``, ``E_c = S_c B_c^-1 S_c``,
    ``P = sum_c E_c = L_P L_P^T`` and R that stacks C identities:
    ``F = W (I + K W)^-1 = E - E R P^-1 R^T E``. The cost is linear in C; K is never inverted.

    ``L`` of shape (C, n, n) holds L_c in its lower triangles and E_c, whose diagonals are
    ``E_diagonal``, in its strict upper ones: half the memory of both. ``L_P`` is lower triangular,
    of P with ones on the diagonal in the rows without a site.

    References
    ----------
    RW06 section 3.5.1 and Algorithms 3.3 and 3.4, whose determinant lacks ``sum_i log M_ii``:
    ``|I + W K| = prod_c |B_c| |P| / prod_i sum(d_i)`` for d of any sum.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.priors.classes import ClassPrior
    >>> factor = ClassPrior(np.eye(2), 3).factor(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    >>> factor.solve(np.array([[2.0, -1.0, -1.0], [0.0, 0.0, 0.0]]))
    array([[ 1. , -0.5, -0.5],
           [ 0. ,  0. ,  0. ]])
    """

    K: tuple[Array, ...]
    d: Array
    L: Array
    E_diagonal: Array
    L_P: Array
    log_det: float

    @classmethod
    def of(cls, K: tuple[Array, ...], d: Array) -> "CoupledFactor":
        """Factorise; `ClassPrior.factor` checks the arguments and names the kernel."""
        n, C = d.shape
        total = d.sum(axis=1)
        has_site = total > TINY_PRECISION
        d = np.where(has_site[:, None], d, 0.0)
        L, diagonal = np.empty((C, n, n)), np.empty((n, C))
        P = np.zeros((n, n))
        log_det = -float(np.log(total[has_site]).sum())
        for c, (K_c, L_c) in enumerate(zip(K, L, strict=True)):
            s = np.sqrt(d[:, c])
            linalg.scale_rows_and_columns(K_c, s, out=L_c)
            L_c.flat[:: n + 1] += 1.0
            linalg.cholesky(L_c, "I + S K S")
            log_det += linalg.log_det_factored(L_c)
            E_c = linalg.inverse_of_factored(L_c)
            linalg.scale_rows_and_columns(E_c, s, out=E_c)
            diagonal[:, c] = E_c.diagonal()
            linalg.add_lower_and_store_above(E_c, P, L_c)
            del E_c  # its memory, before the next is made
        P.flat[:: n + 1] += np.where(has_site, 0.0, 1.0)
        L_P = linalg.cholesky(P, "the sum of the classes' precisions")
        return cls(K, d, L, diagonal, L_P, log_det + linalg.log_det_factored(L_P))

    @property
    def shared(self) -> bool:
        """Whether all classes have the same covariance."""
        return all(K_c is self.K[0] for K_c in self.K)

    def solve(self, B: Array) -> Array:
        """``(I + W K)^-1 B = B - F K B`` (RW06 Algorithm 3.3, lines 7 to 9)."""
        if self.shared:
            KB = linalg.product(self.K[0], np.ascontiguousarray(B)).T
        else:
            KB = np.stack(
                [linalg.symmetric_product(K, b) for K, b in zip(self.K, B.T, strict=True)]
            )
        E_rows = self._E_times(KB)
        common = linalg.solve_factored(self.L_P, E_rows.sum(axis=0))
        return np.asarray(B - (E_rows - self._E_times([common] * len(KB))).T)

    def _E_times(self, Z: Sequence[Array] | Array) -> Array:
        """``E_c z_c`` for every row of Z, by triangular solves: as exact as B_c allows."""
        scales = np.sqrt(self.d.T)
        return np.stack(
            [s * linalg.solve_factored(L, s * z) for s, L, z in zip(scales, self.L, Z, strict=True)]
        )

    def _copy_E_rows(self, c: int, part: slice, rows: Array) -> None:
        """Write those rows of E_c to ``rows`` of shape (rows, n)."""
        start, stop, stored = part.start, part.stop, self.L[c]
        rows[:, :start] = stored[:start, start:stop].T
        rows[:, stop:] = stored[start:stop, stop:]
        corner = np.triu(stored[start:stop, start:stop], 1)
        np.add(corner, corner.T, out=rows[:, start:stop])
        np.fill_diagonal(rows[:, start:stop], self.E_diagonal[start:stop, c])

    def own_precisions(self) -> Array:
        """``E_c``, what a class alone would have, shape (C, n, n)."""
        n, C = self.d.shape
        E = np.empty((C, n, n))
        for c in range(C):
            for part in linalg.blocks(n, WIDTH):
                self._copy_E_rows(c, part, E[c, part])
        return E

    def difference_variances(self, codes: Codes) -> Array:
        """Posterior variances of ``f^ - f_j``, shape (n, C); zero for a row's own class.

        ``sum_c (d_c / t - delta_cj)^2 V_c + |sum_c (d_c / t) x_c - x_j|^2`` for a row, with t the
        sum of its d, ``V_c = (K_c - K_c E_c K_c)_ii`` and x_c the row's column of
        ``X_c = L_P^-1 E_c K_c``. Here ``E_c K_c = I - S_c B_c^-1 S_c^-1`` has the entries of -E_c
        over those of d off the diagonal, and ``d_c V_c`` on it, so that no digits are lost.
        """
        n, C = self.d.shape
        found = np.zeros((n, C))
        other = np.arange(C) != codes[:, None]
        # products are three times as fast as solves with as many right-hand sides
        L_P_inverse = linalg.inverse_of_lower(self.L_P)
        for part in linalg.blocks(n, max(1, WIDTH // (C - 1))):
            d, wanted = self.d[part], other[part]
            E = np.empty((len(d), C, n))
            for c in range(C):
                self._copy_E_rows(c, part, E[:, c])
            V = np.stack([self._class_variances(c, part, E[:, c]) for c in range(C)], axis=1)
            total = d.sum(axis=1)
            total[total == 0.0] = np.inf  # without a site f^ is zero
            share = d / total[:, None]
            rest = _sums_over_others(d) / total[:, None]
            rest[np.isinf(total)] = 1.0
            own = _sums_over_others(share**2 * V) + rest**2 * V
            local = np.arange(len(d))
            mean = E.sum(axis=1)
            mean /= -total[:, None]
            mean[local, part.start + local] = (share * d * V).sum(axis=1)
            X = self._E_K_rows(part, E, V)
            np.subtract(mean[:, None], X, out=X)
            rows = linalg.multiply_rows_by_lower_in_place(L_P_inverse, X[wanted])
            found[part][wanted] = own[wanted] + np.einsum("ij,ij->i", rows, rows)
        return found

    def _class_variances(self, c: int, part: slice, E: Array) -> Array:
        """``V_c = diag(K_c - K_c E_c K_c) = diag(E_c K_c) / d_c``: every term has the factor d."""
        d, K = self.d[part, c], self.K[c][part]
        usable = d > TINY_PRECISION
        V = np.einsum("ij,ij->i", E, K) / np.where(usable, d, 1.0)
        rest = np.flatnonzero(~usable)
        if len(rest):
            reduction = self._half_solve(c, np.ascontiguousarray(K[rest].T))
            V[rest] = K[rest, part.start + rest] - reduction
        return np.asarray(np.maximum(V, 0.0))

    def _E_K_rows(self, part: slice, E: Array, V: Array) -> Array:
        """Rows of ``(E_c K_c)^T`` for all classes, shape (rows, C, n); written over E."""
        d = self.d[part]
        tiny = d <= TINY_PRECISION
        E *= (-1.0 / np.where(tiny, 1.0, d))[:, :, None]
        local = np.arange(len(d))
        E[local, :, part.start + local] = d * V
        for i, c in np.argwhere(tiny):
            s = np.sqrt(self.d[:, c])
            E[i, c] = s * linalg.solve_factored(self.L[c], s * self.K[c][part.start + i])
        return E

    def pullback(self, a: Array, mean_adjoint: MeanAdjoint | None = None) -> Array:
        """``d log Z / dK``, (n, n) where the classes share K, else (C, n, n); symmetric.

        From ``F_cc = E_c - V_c^T V_c`` with ``V_c = L_P^-1 E_c``.
        """
        n, C = self.d.shape
        G = np.zeros((1 if self.shared else C, n, n))
        squares = np.empty((n, C))
        E_c, L_P_inverse = np.empty((n, n)), linalg.inverse_of_lower(self.L_P)
        for c in range(C):
            G_c = G[0 if self.shared else c]
            for part in linalg.blocks(n, WIDTH):
                self._copy_E_rows(c, part, E_c[part])
                G_c[part] -= 0.5 * E_c[part]
            linalg.multiply_rows_by_lower_in_place(L_P_inverse, E_c)
            squares[:, c] = np.einsum("ij,ij->i", E_c, E_c)
            linalg.add_row_crossings(G_c, E_c, 0.5)
        u = 0.5 * a
        if mean_adjoint is not None:
            u += self.solve(mean_adjoint(self.E_diagonal - squares))
        U, A = np.ascontiguousarray(u.T), np.ascontiguousarray(a.T)
        for i, G_c in enumerate(G):
            rows = slice(None) if self.shared else slice(i, i + 1)
            linalg.add_symmetric_products(G_c, U[rows], A[rows], 0.5)
            linalg.mirror_lower(G_c)
        return G[0] if self.shared else G

    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> Array:
        """``delta_cc' (k_c - k_c^T E_c k_c) + (E_c k_c)^T P^-1 (E_c' k_c')``, shape (m, C, C).

        RW06 Algorithm 3.4, its line 11 read as one block a class. A row's bits depend on it alone.
        """
        C = len(self.K)
        crosses = as_crosses(K_cross, C)
        m = len(k_diag)
        variances = np.broadcast_to(k_diag if k_diag.ndim == 2 else k_diag[:, None], (m, C))
        result = np.empty((m, C, C))
        for part in linalg.blocks(m, CHUNK):
            start, stop = part.start, part.stop
            width = stop - start + -(stop - start) % linalg.TILE
            U = np.stack([cross[:, start : start + width] for cross in crosses])
            own = np.empty((C, width))
            for c in range(C):
                own[c] = self._half_solve(c, U[c])
                self._other_half(c, U[c])
            for c in range(C):
                for other in range(c + 1):
                    product = np.einsum("ij,ij->j", U[c], U[other])[: stop - start]
                    result[start:stop, c, other] = result[start:stop, other, c] = product
                left = variances[start:stop, c] - own[c, : stop - start]
                result[start:stop, c, c] += np.maximum(left, 0.0)
        return result

    def marginals(self) -> Array:
        """Posterior covariances of each training row's latents: `predict` at these rows."""
        return self.predict(self.K, np.stack([K.diagonal() for K in self.K], axis=1))

    def _half_solve(self, c: int, cross: Array) -> Array:
        """Overwrite ``cross`` by Q with ``Q^T Q = cross^T E_c cross``; return its diagonal."""
        cross *= np.sqrt(self.d[:, c, None])
        linalg.solve_lower_columns_in_place(self.L[c], cross)
        return np.asarray(np.einsum("ij,ij->j", cross, cross))

    def _other_half(self, c: int, Q: Array) -> None:
        """Overwrite the Q of `_half_solve` by ``L_P^-1 E_c cross``."""
        linalg.solve_lower_columns_in_place(self.L[c], Q, transposed=True)
        Q *= np.sqrt(self.d[:, c, None])
        linalg.solve_lower_columns_in_place(self.L_P, Q)

    def joint(self, K_cross: Array | Sequence[Array], K_new: Array | Sequence[Array]) -> Array:
        """Posterior covariances of all latents at m new inputs together, shape (m, C, m, C)."""
        C = len(self.K)
        crosses = as_crosses(K_cross, C)
        news = (K_new,) * C if isinstance(K_new, np.ndarray) and K_new.ndim == 2 else tuple(K_new)
        m = len(news[0])
        result = np.empty((m, C, m, C))
        U = np.stack(crosses)
        ones = np.ones(U.shape[1])
        for c in range(C):
            self._half_solve(c, U[c])
            result[:, c, :, c] = news[c] - linalg.gram(U[c], ones)[:m, :m]
            self._other_half(c, U[c])
        for c in range(C):
            result[:, c, :, c] += linalg.gram(U[c], ones)[:m, :m]
            for other in range(c):
                product = linalg.product(np.ascontiguousarray(U[c].T), U[other])[:m, :m]
                result[:, c, :, other] = product
                result[:, other, :, c] = product.T
        return result


def _sums_over_others(A: Array) -> Array:
    """Sums over each row of A but for the entry itself, without a difference."""
    return np.asarray(np.einsum("ic,cj->ij", A, 1.0 - np.eye(A.shape[1])))
