"""A prior of C classes without n x n matrices: ``K = blockdiag_i(Delta_i) + V V^T``.

Delta_i is a diagonal C x C block a row; V has C rows for each row of data. With block sites W_i,
``A_i = (I + W_i Delta_i)^-1 W_i`` and ``S = (I + V^T A V)^-1`` all of `JointFactor` follows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass.priors import PriorForm
from gpclass.priors.inducing import Cotangent
from gpclass.priors.joint import JointFactor, JointPrior, JointPriorForm


class LowRankFactor(JointFactor):
    d = log_det = None

    def __init__(self, prior, d):
        self.prior, self.d = prior, d
        C = d.shape[1]
        share = d / np.where(d.any(axis=1), d.sum(axis=1), 1.0)[:, None]
        W = d[:, :, None] * (np.eye(C) - share[:, None, :])
        M = np.eye(C) + W * prior.delta[:, None, :]
        self.share, self.A = share, np.linalg.solve(M, W)
        self.AV = np.einsum("icd,idk->ick", self.A, prior.V)
        H = np.eye(prior.V.shape[2]) + np.einsum("ick,icl->kl", prior.V, self.AV)
        self.S = np.linalg.inv(H)
        self.log_det = np.linalg.slogdet(M)[1].sum() + np.linalg.slogdet(H)[1]

    def solve(self, B):
        KB = self.prior.multiply(B)
        inner = self.S @ np.einsum("ick,ic->k", self.AV, KB)
        return B - np.einsum("icd,id->ic", self.A, KB) + self.AV @ inner

    def difference_variances(self, codes):
        Delta = self.prior.delta[:, :, None] * np.eye(len(self.d.T))
        contrast = self.share[:, None, :] - np.eye(len(self.d.T))
        own = Delta - np.einsum("icd,ice,ief->idf", Delta, self.A, Delta)
        reach = contrast @ (self.prior.V - Delta @ self.AV)
        found = np.einsum("ijc,icd,ijd->ij", contrast, own, contrast)
        found += np.einsum("ijk,kl,ijl->ij", reach, self.S, reach)
        found[np.arange(len(codes)), codes] = 0.0
        return found

    def marginals(self):
        Delta = self.prior.delta[:, :, None] * np.eye(len(self.d.T))
        own = Delta - np.einsum("icd,ice,ief->idf", Delta, self.A, Delta)
        reach = self.prior.V - Delta @ self.AV
        return own + np.einsum("ick,kl,idl->icd", reach, self.S, reach)

    def pullback(self, a, mean_adjoint=None):
        FV = self.AV @ self.S
        F_diagonal = np.einsum("icc->ic", self.A) - np.einsum("ick,ick->ic", FV, self.AV)
        c = 0.5 * a + (0.0 if mean_adjoint is None else self.solve(mean_adjoint(F_diagonal)))
        aV, cV = (np.einsum("ic,ick->k", x, self.prior.V) for x in (a, c))
        return c[:, :, None] * aV + a[:, :, None] * cV - FV, c * a - 0.5 * F_diagonal

    def predict(self, K_cross, k_diag):
        K_new = np.diag(k_diag) if k_diag.ndim == 1 else [np.diag(k) for k in k_diag.T]
        return np.einsum("icid->icd", self.joint(K_cross, K_new))

    def joint(self, K_cross, K_new):
        C, m = self.prior.n_classes, len(K_new[0])
        k = np.stack([K_cross] * C if np.ndim(K_cross) == 2 else K_cross)[:, :, :m]
        news = [K_new] * C if np.ndim(K_new) == 2 else K_new
        reach = np.einsum("ick,cip->pck", self.AV, k)
        F = np.einsum("icd,cip,diq->pcqd", self.A, k, k)
        F -= np.einsum("pck,kl,qdl->pcqd", reach, self.S, reach)
        for c in range(C):
            F[:, c, :, c] -= news[c]
        return -F


@dataclass(frozen=True)
class LowRankClasses(JointPrior):
    V: Any  # (n, C, k)
    delta: Any  # (n, C)
    parts: Any = ()  # what the form made it of
    n = property(lambda self: len(self.delta))
    n_classes = property(lambda self: self.delta.shape[1])
    diagonal = property(lambda self: self.delta + (self.V**2).sum(axis=2))

    def multiply(self, F):
        return self.delta * F + self.V @ np.einsum("ick,ic->k", self.V, F)

    def check(self):
        assert (self.delta >= 0).all()

    def factor(self, d):
        return LowRankFactor(self, d)

    def preconditioner(self, omega):
        return None


@dataclass(frozen=True)
class LowRankJoint(JointPriorForm):
    """The binary low-rank form for each class."""

    form: PriorForm

    def make(self, kernels, n_classes, X, jitters):
        parts = [self.form.make(k, X, j) for k, j in zip(kernels, jitters, strict=True)]
        each = parts * n_classes if len(parts) == 1 else parts
        m = each[0].U.shape[1]
        V = np.zeros((len(X), n_classes, n_classes, m))
        for c, part in enumerate(each):
            V[:, c, c] = part.U
        delta = np.stack([part.delta for part in each], axis=1)
        return LowRankClasses(V.reshape(len(X), n_classes, -1), delta, parts)

    def pull(self, kernels, X, prior, G):
        n, C, _ = prior.V.shape
        G_V = G[0].reshape(n, C, C, -1)
        pairs = [Cotangent(G_V[:, c, c], G[1][:, c]) for c in range(C)]
        if len(kernels) == 1:
            pairs = [Cotangent(sum(g for g, _ in pairs), sum(g for _, g in pairs))]
        each = zip(kernels, prior.parts, pairs, strict=True)
        return np.concatenate([self.form.pull(k, X, part, G_k) for k, part, G_k in each])

    def cross(self, kernels, X, X_new):
        crosses, variances = zip(*(self._cross(k, X, X_new) for k in kernels), strict=True)
        one = len(kernels) == 1
        return (crosses[0], variances[0]) if one else (crosses, np.stack(variances, axis=1))

    def _cross(self, kernel, X, X_new):
        prior, (K_cross, k_diag) = self.form.make(kernel, X, 0.0), self.form.cross(kernel, X, X_new)
        return prior.U @ prior.whitened(K_cross), k_diag
