"""A low-rank prior from a kernel and inducing points, with its exact gradient."""

from dataclasses import dataclass

import numpy as np
from tests.priors.low_rank import LowRankPrior

from gpclass import kernels
from gpclass.priors import PriorForm


@dataclass(frozen=True)
class InducingPoints(PriorForm):
    """FITC: ``U U^T = K_xz K_zz^-1 K_zx``, with the kernel's own variances."""

    Z: np.ndarray

    def _root(self, kernel, X):
        L = np.linalg.cholesky(kernels.evaluate(kernel, self.Z))
        return L, np.linalg.solve(L, kernels.cross(kernel, self.Z, X)).T

    def make(self, kernel, X, jitter):
        _, U = self._root(kernel, X)
        own = kernels.diagonal(kernel, X) - (U**2).sum(axis=1)
        return LowRankPrior(U, np.maximum(own, 0.0) + jitter)

    def pull(self, kernel, X, prior, G):
        by_U, by_delta = G[0] - 2.0 * G[1][:, None] * prior.U, G[1]
        L, U = self._root(kernel, X)
        # by K_xz and K_zz, through U U^T
        by_cross = np.linalg.solve(L.T, by_U.T).T
        by_Z = -0.5 * np.linalg.solve(L.T, np.linalg.solve(L.T, (U.T @ by_U).T).T)
        m, gradient = len(self.Z), kernels.pullback(kernel, self.Z, 0.5 * (by_Z + by_Z.T))
        for rows in np.array_split(np.arange(len(X)), -(-len(X) // m)):  # never n x n
            k, block = len(rows), np.zeros((len(rows) + m,) * 2)
            block[range(k), range(k)] = by_delta[rows]
            block[k:, :k] = 0.5 * by_cross[rows].T
            block[:k, k:] = block[k:, :k].T
            gradient += kernels.pullback(kernel, np.vstack([X[rows], self.Z]), block)
        return gradient

    def cross(self, kernel, X, X_new):
        U, U_new = self._root(kernel, X)[1], self._root(kernel, X_new)[1]
        return U @ U_new.T, kernels.diagonal(kernel, X_new, X)
