"""A prior without n x n matrices: ``K = U U^T + diag(delta)`` for U of shape (n, m).

With ``p = 1 / (1 + T delta)``, ``S = (I + U^T T p U)^-1 = H H^T`` (m x m), ``Q = p U H`` and
``F = T Q``: ``P = (I + T K)^-1 = p - F Q^T``, ``R = T p - F F^T`` and ``Sigma = delta p + Q Q^T``.
A cotangent is a pair: by U (``2 G U``) and by delta (the diagonal of G).
"""

from dataclasses import dataclass

import numpy as np

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.priors import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    RefactoredCovariance,
    SiteFactor,
)


@dataclass(frozen=True)
class LowRankPrior(Prior):
    U: np.ndarray
    delta: np.ndarray
    mean = None
    n = property(lambda self: len(self.delta))
    diagonal = property(lambda self: self.delta + (self.U**2).sum(axis=1))

    def check(self):
        if not (self.delta >= 0.0).all():
            raise NotPositiveDefiniteError(f"delta has {self.delta.min()}")

    def multiply(self, v):
        return self.U @ (self.U.T @ v) + self.delta * v

    def inner(self, G):
        return float(0.5 * (G[0] * self.U).sum() + G[1] @ self.delta)

    def factor(self, tau):
        p = 1.0 / (1.0 + tau * self.delta)
        if not (p > 0.0).all():
            raise NotPositiveDefiniteError("a site takes away more precision than there is")
        L = linalg.cholesky(np.eye(self.U.shape[1]) + (tau * p * self.U.T) @ self.U)
        Q = p[:, None] * (self.U @ np.linalg.inv(np.tril(L)).T)
        return LowRankFactor(self, tau, p, Q, linalg.log_det_factored(L) - np.log(p).sum())


@dataclass(frozen=True)
class LowRankFactor(SiteFactor, PosteriorCovariance, CovarianceProducts):
    prior: LowRankPrior
    tau: np.ndarray
    p: np.ndarray
    Q: np.ndarray
    log_det_value: float
    log_det = property(lambda self: self.log_det_value)
    F = property(lambda self: self.tau[:, None] * self.Q)
    variances = property(lambda self: self.prior.delta * self.p + (self.Q**2).sum(axis=1))

    def solve(self, r):
        return self.p * r - self.F @ (self.Q.T @ r)

    def covariance(self):
        return self

    def products(self):
        return self

    def multiply(self, v):
        return self.prior.delta * self.p * v + self.Q @ (self.Q.T @ v)

    def multiply_squared(self, v):
        low, own = (self.Q**2).sum(axis=1), self.prior.delta * self.p
        return (own + 2.0 * low) * own * v + ((self.Q @ (v * self.Q.T @ self.Q)) * self.Q).sum(1)

    def sequential_covariance(self):
        return RefactoredCovariance(self.prior, self)

    def reduced_variance(self, K_cross):
        return (self.tau * self.p) @ K_cross**2 - ((self.F.T @ K_cross) ** 2).sum(axis=0)

    def conditional_covariance(self, K_cross, K_new):
        FK = self.F.T @ K_cross
        return K_new - (self.tau * self.p * K_cross.T) @ K_cross + FK.T @ FK

    def pullback(self, a, by_mean=None, by_variance=None):
        p, Q, F, U = self.p[:, None], self.Q, self.F, self.prior.U
        c = 0.5 * a if by_mean is None else 0.5 * a + self.solve(by_mean)
        h = np.zeros((len(a), 1)) if by_variance is None else by_variance[:, None]
        PU = h * (p * U - Q @ (F.T @ U))
        GU = 0.5 * (np.outer(c, a @ U) + np.outer(a, c @ U) + F @ (F.T @ U)) + p * PU
        GU -= F @ (Q.T @ PU) + 0.5 * (self.tau * self.p)[:, None] * U
        G_diag = c * a - 0.5 * (self.tau * self.p - (F * F).sum(axis=1))
        G_diag += (h * p * p)[:, 0] + (F * (F @ (Q.T @ (h * Q)) - 2.0 * h * p * Q)).sum(axis=1)
        return 2.0 * GU, G_diag
