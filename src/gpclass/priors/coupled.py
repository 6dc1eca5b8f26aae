"""Factor of the prior of C classes beside sites that couple the classes of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg

Array = NDArray[np.float64]

# Below this a precision is not divided by, and a row of such precisions has no site: their
# products would be lost among the subnormal numbers.
TINY_PRECISION: Final = 1e-280
TINY_IN_SINGLE: Final = 1e-20
# New inputs handled at a time: memory of C n CHUNK doubles.
CHUNK: Final = 256


def as_crosses(K_cross: Array | Sequence[Array], n_classes: int) -> tuple[Array, ...]:
    """One (n, m) array a class, padded to whole tiles; one array repeated where it is shared."""
    if isinstance(K_cross, np.ndarray) and K_cross.ndim == 2:
        return (linalg.pad_columns(K_cross),) * n_classes
    return tuple(linalg.pad_columns(cross) for cross in K_cross)


@final
@dataclass(frozen=True)
class CoupledFactor:
    """What C independent processes become beside sites of precision ``W_i``, one a row.

    ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)`` in the C latents of a row. With
    ``B_c = I + S_c K_c S_c``, ``S_c = diag(d_c)^1/2``, ``E_c = S_c B_c^-1 S_c``,
    ``P = sum_c E_c = L_P L_P^T`` and R that stacks C identities:
    ``F = W (I + K W)^-1 = E - E R P^-1 R^T E`` and ``Sigma = (K^-1 + W)^-1 = K - K F K``. The cost
    is linear in C, and no inverse of K occurs.

    Made by `ClassPrior.factor`. Of the two stacks of C matrices that it may hold, the Cholesky
    factors stay; the other holds what was asked for last, and `release` gives it up.

    In single precision, where K is: what leads an iteration on costs half as much then.

    Parameters
    ----------
    K : tuple of C ndarray of shape (n, n)
        Prior covariances; one array repeated where the classes share it.
    d : ndarray of shape (n, C)
        With zeros in the rows without a site.
    L : ndarray of shape (C, n, n)
        Cholesky factors of B_c; strict upper triangles are undefined.
    P : ndarray of shape (n, n)
        Lower triangle.
    L_P : ndarray of shape (n, n)
        Of P with ones in the rows without a site.
    log_det : float
        ``log |I + W K|``.
    precision_diagonal : ndarray of shape (n, C)
        Diagonals of E_c.

    References
    ----------
    RW06 section 3.5.1 and Algorithms 3.3 and 3.4, whose determinant lacks ``sum_i log M_ii``:
    ``|I + W K| = prod_c |B_c| |P| / prod_i sum(d_i)`` for d of any sum.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.priors.classes import ClassPrior
    >>> factor = ClassPrior(np.eye(2), 3).factor(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    >>> round(float(factor.log_det / np.log(2)), 6)
    2.0
    >>> factor.shrink(np.array([[2.0, -1.0, -1.0], [0.0, 0.0, 0.0]]))
    array([[ 1. , -0.5, -0.5],
           [ 0. ,  0. ,  0. ]])
    """

    K: tuple[Array, ...]
    d: Array
    L: Array
    P: Array
    L_P: Array
    log_det: float
    precision_diagonal: Array

    @classmethod
    def of(cls, covariances: tuple[Any, ...], d: Array) -> "CoupledFactor":
        """Factorise, in the covariances' precision; `ClassPrior.factor` checks the arguments.

        Raises
        ------
        NotPositiveDefiniteError
            Where B_c, or P, is not positive definite in float64.
        """
        n, C = d.shape
        total = d.sum(axis=1)
        sited = total > TINY_PRECISION
        d = np.where(sited[:, None], d, 0.0)
        scales = np.sqrt(np.ascontiguousarray(d.T))
        precision = covariances[0].dtype
        L, E = np.empty((C, n, n), precision), np.empty((C, n, n), precision)
        P = np.zeros((n, n), precision)
        log_det = -float(np.log(total[sited]).sum())
        for K_c, s, L_c, E_c in zip(covariances, scales, L, E, strict=True):
            linalg.scale_rows_and_columns(K_c, s, out=L_c)
            L_c.flat[:: n + 1] += 1.0
            linalg.cholesky(L_c, "I + S K S")
            log_det += linalg.log_det_factored(L_c)
            E_c[:] = L_c
            linalg.invert_factored_in_place(E_c)
            linalg.scale_mirror_add(E_c, s, P)
        L_P = P.copy()
        L_P.flat[:: n + 1] += np.where(sited, 0.0, 1.0)
        linalg.cholesky(L_P, "the sum of the classes' precisions")
        log_det += linalg.log_det_factored(L_P)
        diagonals = np.stack([E_c.diagonal() for E_c in E], axis=1).astype(np.float64)
        factor = cls(covariances, d, L, P, L_P, log_det, diagonals)
        factor.__dict__["_E"] = E
        return factor

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return len(self.K)

    @property
    def tiny(self) -> float:
        """Precision up to which none is divided by."""
        return TINY_PRECISION if self.L.dtype == np.float64 else TINY_IN_SINGLE

    @property
    def shared(self) -> bool:
        """Whether all classes have the same covariance."""
        return all(K_c is self.K[0] for K_c in self.K)

    @cached_property
    def _scales(self) -> Array:
        return np.sqrt(np.ascontiguousarray(self.d.T))

    @cached_property
    def _E(self) -> Array:
        """Whole matrices E_c, shape (C, n, n), kept until their memory is taken."""
        self.__dict__.pop("_spent", None)
        E = self.L.copy()
        unused = np.zeros_like(self.P)
        for s, E_c in zip(self._scales, E, strict=True):
            linalg.invert_factored_in_place(E_c)
            linalg.scale_mirror_add(E_c, s, unused)
        return E

    def _take_E(self) -> Array:
        """E, whose memory the caller overwrites."""
        self.__dict__.pop("_X", None)
        E = self._E
        self.__dict__.pop("_E", None)
        return E

    def release(self) -> None:
        """Give up the memory of what can be computed again."""
        for name in ("_E", "_X", "_spent", "_half_coupling"):
            self.__dict__.pop(name, None)

    def spend_E(self, Z: Array) -> None:
        """Keep Z of shape (C, n, n), which was written over E, in its place until it is taken.

        For whoever can tell V from it (see `pullback`).
        """
        self.release()
        self.__dict__["_spent"] = Z

    def take_spent(self) -> Array | None:
        """What `spend_E` kept, if it is still there; the caller may overwrite it."""
        spent: Array | None = self.__dict__.pop("_spent", None)
        return spent

    def precision_product(self, V: Array) -> Array:
        """``F V = W (I + K W)^-1 V``, shape (n, C)."""
        rows = np.ascontiguousarray(V.T)
        return np.ascontiguousarray(self._precision_rows(rows).T)

    def _precision_rows(self, Z: Array) -> Array:
        first = self._E_rows(Z)
        common = linalg.solve_factored(self.L_P, first.sum(axis=0))
        first -= self._E_rows(np.broadcast_to(common, Z.shape))
        return first

    def _E_rows(self, Z: Array) -> Array:
        """``E_c z_c`` for every row of Z, by solves: as exact as B_c allows."""
        s = self._scales
        solved = [linalg.solve_factored(L_c, v) for L_c, v in zip(self.L, s * Z, strict=True)]
        return np.asarray(s * np.stack(solved))

    def shrink(self, B: Array) -> Array:
        """``(I + W K)^-1 B = B - F K B`` for B of shape (n, C), one vector of n C numbers."""
        if self.shared:
            product = linalg.product(self.K[0], np.ascontiguousarray(B))
        else:
            columns = [linalg.symmetric_product(K, b) for K, b in zip(self.K, B.T, strict=True)]
            product = np.stack(columns, axis=1)
        return B - self.precision_product(product)

    @cached_property
    def class_variances(self) -> Array:
        """Diagonals of ``K_c - K_c E_c K_c``, shape (n, C): the variances were the classes alone.

        As ``diag(E_c K_c) / d_c``, a sum in which every term has the factor d: neither small
        precisions nor large covariances cancel.
        """
        E, d = self._E, self.d
        V = np.empty_like(d)
        for c, K_c in enumerate(self.K):
            usable = d[:, c] > self.tiny
            V[:, c] = np.einsum("ij,ij->i", E[c], K_c) / np.where(usable, d[:, c], 1.0)
            rest = np.flatnonzero(~usable)
            if len(rest):
                rows = K_c[rest]
                reduction = np.einsum("ij,ij->i", linalg.symmetric_rows(E[c], rows), rows)
                V[rest, c] = K_c.diagonal()[rest] - reduction
        return np.maximum(V, 0.0)

    @cached_property
    def _X(self) -> Array:
        """Rows ``(L_P^-1 E_c K_c)^T``, shape (C, n, n), in the memory of E.

        ``E_c K_c = I - S_c B_c^-1 S_c^-1``, so that its entries are those of E divided by
        precisions, but on the diagonal, which would cancel and is ``d_c`` times the variances.
        """
        V, d = self.class_variances, self.d
        X = self._take_E()
        for c, K_c in enumerate(self.K):
            rest = np.flatnonzero(d[:, c] <= self.tiny)
            small = linalg.symmetric_rows(X[c], K_c[rest]) if len(rest) else None
            X[c] *= (-1.0 / np.where(d[:, c] > self.tiny, d[:, c], 1.0))[:, None]
            X[c].flat[:: len(d) + 1] = d[:, c] * V[:, c]
            if small is not None:
                X[c][rest] = small
        flat = X.reshape(-1, X.shape[2])
        linalg.solve_lower_rows_in_place(self.L_P, flat)
        return X

    def contrast_variances(self, codes: NDArray[np.intp]) -> Array:
        """Posterior variances of ``f_y - f_c`` for each row's class y, shape (n, C); 0 for c = y.

        Sums of squares: a variance of the difference of two uncertain latents does not cancel.
        """
        weights = np.zeros_like(self.d)
        weights[np.arange(len(weights)), codes] = 1.0
        X = self._X
        return self._deviation_variances(weights, X[codes, np.arange(len(weights))])

    def deviation_variances(self, weights: Array) -> Array:
        """Posterior variances of ``f^ - f_c``, with f^ a weighted mean of a row's latents.

        Parameters
        ----------
        weights : ndarray of shape (n, C)
            Not negative; they sum to one in each row.

        Returns
        -------
        variances : ndarray of shape (n, C)
            Sums of squares, without cancellation.
        """
        mean = self._X[0] * weights[:, 0, None]
        for c in range(1, self.n_classes):
            for start in range(0, len(mean), linalg.BLOCK):
                part = slice(start, start + linalg.BLOCK)
                mean[part] += self._X[c, part] * weights[part, c, None]
        return self._deviation_variances(weights, mean)

    def _deviation_variances(self, weights: Array, mean: Array) -> Array:
        V, X = self.class_variances, self._X
        variances = np.empty_like(V)
        for c in range(self.n_classes):
            left = weights.copy()
            left[:, c] = 1.0 - weights[:, c]
            variances[:, c] = np.einsum("ic,ic,ic->i", left, left, V)
            for start in range(0, len(V), linalg.BLOCK):
                part = slice(start, start + linalg.BLOCK)
                difference = X[c, part] - mean[part]
                variances[part, c] += np.einsum("ij,ij->i", difference, difference)
        return variances

    def covariances(self) -> Array:
        """Posterior covariances of each row's C latents, shape (n, C, C)."""
        V, X = self.class_variances, self._X
        C = self.n_classes
        result = np.empty((len(V), C, C))
        for c in range(C):
            for other in range(c + 1):
                result[:, c, other] = np.einsum("ij,ij->i", X[c], X[other])
                result[:, other, c] = result[:, c, other]
            result[:, c, c] += V[:, c]
        return result

    def coupling_diagonal(self) -> Array:
        """Diagonals of the blocks F_cc, shape (n, C): precisions that the posterior leaves."""
        return self._half_coupling[1]

    @cached_property
    def _half_coupling(self) -> tuple[Array, Array]:
        """``-F_cc / 2``, summed over the classes where they share K; and the diagonals of F_cc.

        From ``F_cc = E_c - V_c^T V_c`` with ``V_c = L_P^-1 E_c``; lower triangles, of shape (n, n)
        or (C, n, n), those in the memory of E.
        """
        E = self._take_E()
        if self.shared:
            linalg.solve_lower_rows_in_place(self.L_P, E.reshape(-1, E.shape[2]))
            return self._half_shared(E)
        diagonals = np.empty_like(self.d)
        for c in range(self.n_classes):
            V_rows = linalg.solve_lower_rows_in_place(self.L_P, E[c].copy())
            E[c] *= -0.5
            diagonals[:, c] = np.einsum("ij,ij->i", V_rows, V_rows)
            linalg.add_row_crossings(E[c], V_rows, 0.5)
        return E, self.precision_diagonal - diagonals

    def _half_shared(self, V: Array) -> tuple[Array, Array]:
        """`_half_coupling` of classes that share K, from the rows ``V_c^T``."""
        half = self.P * -0.5
        diagonals = np.empty_like(self.d)
        for c, V_rows in enumerate(V):
            diagonals[:, c] = np.einsum("ij,ij->i", V_rows, V_rows)
            linalg.add_row_crossings(half, V_rows, 0.5)
        return half, self.precision_diagonal - diagonals

    def pullback(
        self, a: Array, mean_adjoint: Array | None = None, V: Array | None = None
    ) -> Array:
        """Cotangent by the covariances of an evidence with these adjoints.

        ``(a_c a_c^T - F_cc) / 2 + sym((P g)_c a_c^T)`` with ``P = (I + W K)^-1`` and g the
        derivative of the evidence by the posterior mean.

        Parameters
        ----------
        a : ndarray of shape (n, C)
            Mean weights.
        mean_adjoint : ndarray of shape (n, C), default=None
            g; None: zero.
        V : ndarray of shape (C, n, n), default=None
            Rows ``(L_P^-1 E_c)^T`` of classes that share K, where they are known; None: found.

        Returns
        -------
        G : ndarray of shape (n, n), or (C, n, n) where every class has its own covariance
            Symmetric; summed over the classes where they share one.
        """
        u = 0.5 * a
        if mean_adjoint is not None:
            u += self.shrink(mean_adjoint)
        G = self._half_coupling[0] if V is None else self._half_shared(V)[0]
        self.__dict__.pop("_half_coupling", None)
        U, A = np.ascontiguousarray(u.T), np.ascontiguousarray(a.T)
        if self.shared:
            linalg.add_symmetric_products(G, U, A, 0.5)
            linalg.mirror_lower(G)
            return G
        for c in range(self.n_classes):
            linalg.add_symmetric_outer(G[c], U[c], A[c], 0.5)
            linalg.mirror_lower(G[c])
        return G

    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> Array:
        """Posterior covariances of the classes at m new inputs.

        ``delta_cc' (k_c - k_c^T E_c k_c) + (E_c k_c)^T P^-1 (E_c' k_c')`` (RW06 Algorithm 3.4, with
        its line 11 read as one block a class).

        Parameters
        ----------
        K_cross : ndarray of shape (n, m), or sequence of C such arrays
            Covariance of training and new inputs, of all classes or of each. Columns past the
            length of ``k_diag`` are padding.
        k_diag : ndarray of shape (m,) or (m, C)
            Prior variances of the new inputs.

        Returns
        -------
        covariance : ndarray of shape (m, C, C)
            A row's bits depend on that row alone.
        """
        C = self.n_classes
        crosses = as_crosses(K_cross, C)
        m = len(k_diag)
        variances = np.broadcast_to(k_diag if k_diag.ndim == 2 else k_diag[:, None], (m, C))
        result = np.empty((m, C, C))
        for start in range(0, m, CHUNK):
            stop = min(start + CHUNK, m)
            width = stop - start + -(stop - start) % linalg.TILE
            U = np.empty((C, len(self.d), width))
            own = np.empty((C, width))
            for c, cross in enumerate(crosses):
                U[c] = cross[:, start : start + width]
                self._reduce_own(c, U[c])
                own[c] = np.einsum("ij,ij->j", U[c], U[c])
                self._reach(c, U[c])
            for c in range(C):
                for other in range(c + 1):
                    product = np.einsum("ij,ij->j", U[c], U[other])[: stop - start]
                    result[start:stop, c, other] = result[start:stop, other, c] = product
                left = variances[start:stop, c] - own[c, : stop - start]
                result[start:stop, c, c] += np.maximum(left, 0.0)
        return result

    def _reduce_own(self, c: int, cross: Array) -> None:
        """Overwrite ``cross`` of shape (n, m) by Q with ``Q^T Q = cross^T E_c cross``."""
        cross *= self._scales[c][:, None]
        linalg.solve_lower_columns_in_place(self.L[c], cross)

    def _reach(self, c: int, Q: Array) -> None:
        """Overwrite the Q of `_reduce_own` by ``L_P^-1 E_c cross``."""
        linalg.solve_upper_columns_in_place(self.L[c], Q)
        Q *= self._scales[c][:, None]
        linalg.solve_lower_columns_in_place(self.L_P, Q)

    def joint(self, K_cross: Array | Sequence[Array], K_new: Array | Sequence[Array]) -> Array:
        """Posterior covariances of all latents at m new inputs, as `predict` has each input's.

        Parameters
        ----------
        K_cross : ndarray of shape (n, m), or sequence of C such arrays
            Covariance of training and new inputs.
        K_new : ndarray of shape (m, m), or sequence of C such arrays
            Prior covariance of the new inputs.

        Returns
        -------
        covariance : ndarray of shape (m, C, m, C)
        """
        C = self.n_classes
        crosses = as_crosses(K_cross, C)
        news = (K_new,) * C if isinstance(K_new, np.ndarray) and K_new.ndim == 2 else tuple(K_new)
        m = len(news[0])
        result = np.empty((m, C, m, C))
        U = np.empty((C, *crosses[0].shape))
        for c, cross in enumerate(crosses):
            U[c] = cross
            self._reduce_own(c, U[c])
            result[:, c, :, c] = news[c] - linalg.gram(U[c], np.ones(len(U[c])))[:m, :m]
            self._reach(c, U[c])
        for c in range(C):
            result[:, c, :, c] += linalg.gram(U[c], np.ones(len(U[c])))[:m, :m]
            for other in range(c):
                product = linalg.product(np.ascontiguousarray(U[c].T), U[other])[:m, :m]
                result[:, c, :, other] = product
                result[:, other, :, c] = product.T
        return result
