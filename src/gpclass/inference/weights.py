"""Gaussians of the weights of inducing points: their sites, and what they say of new inputs."""

from dataclasses import dataclass
from typing import final

import numpy as np

from gpclass import linalg
from gpclass.linalg import Array


@final
@dataclass(frozen=True)
class WeightSites:
    """What the rows say of the weights of C latents: ``exp(b_c^T w_c - w_c^T A_c w_c / 2)``.

    Parameters
    ----------
    b : ndarray of shape (C, m)
        ``sum_i nu_ic u_i``.
    A : ndarray of shape (C, m, m)
        ``sum_i tau_ic u_i u_i^T``, lower triangles, with zeros above.
    L : ndarray of shape (m, m)
        Of the `Basis`, so that the sites can be carried to another one.
    """

    b: Array
    A: Array
    L: Array

    def __len__(self) -> int:
        """Return the number of weights of all latents."""
        return self.b.size

    @classmethod
    def zero(cls, n_latents: int, L: Array) -> "WeightSites":
        """Sites of zero precision: the posterior is the prior."""
        m = len(L)
        return cls(np.zeros((n_latents, m)), np.zeros((n_latents, m, m)), L)

    def towards(self, target: "WeightSites", step: float) -> "WeightSites":
        """Natural parameters moved by a fraction ``step`` of the way to ``target``."""
        if step == 1.0:
            return target
        return self.scaled(1.0 - step).plus(step, target)

    def plus(self, factor: float, other: "WeightSites") -> "WeightSites":
        """``self + factor * other``, in natural parameters."""
        return WeightSites(self.b + factor * other.b, self.A + factor * other.A, self.L)

    def inner(self, other: "WeightSites") -> float:
        """Sum of the products of all numbers."""
        return linalg.inner(self.b, other.b) + linalg.inner(self.A, other.A)

    def scaled(self, factor: float) -> "WeightSites":
        """Sites of so many times the rows."""
        return WeightSites(factor * self.b, factor * self.A, self.L)

    def carried(self, L: Array) -> "WeightSites":
        """The same function of the latents at Z, where the kernel there has the factor L.

        With ``f(Z) = L w`` it is ``T^T A T`` and ``T^T b``, ``T = L_old^-1 L``.
        """
        if np.array_equal(L, self.L):
            return self
        T = linalg.solve_lower_columns_in_place(self.L, np.tril(L))
        A = np.empty_like(self.A)
        for new, old in zip(A, self.A, strict=True):
            new[:] = old
            linalg.mirror_lower(new)
            for _ in range(2):
                new[:] = linalg.multiply_lower_columns_in_place(T, new, transposed=True).T
            new[:] = np.tril(new)
        return WeightSites(linalg.product(self.b, T), A, L)


@final
@dataclass(frozen=True)
class WeightPosterior:
    """Gaussians ``N(mu_c, M_c^-1)``, ``M_c = I + A_c``, over the weights of C latents.

    Parameters
    ----------
    means : ndarray of shape (C, m)
        mu.
    roots : ndarray of shape (C, m, m)
        Lower triangular X with ``M^-1 = X^T X``.
    log_det : float
        ``sum_c log |M_c|``.
    """

    means: Array
    roots: Array
    log_det: float

    @classmethod
    def from_sites(cls, sites: WeightSites) -> "WeightPosterior":
        """Condition the prior; NotPositiveDefiniteError where M is not positive definite."""
        means, roots, log_det = np.empty_like(sites.b), np.empty_like(sites.A), 0.0
        for c, A in enumerate(sites.A):
            M = A.copy()
            M.flat[:: len(M) + 1] += 1.0
            L = linalg.cholesky(M, "the precision of the weights")
            means[c], roots[c] = linalg.solve_factored(L, sites.b[c]), linalg.inverse_of_lower(L)
            log_det += linalg.log_det_factored(L)
        return cls(means, roots, log_det)

    def scaled_by_covariance(self, g: Array) -> Array:
        """``M_c^-1 g_c`` for each latent, (C, m)."""
        found = np.empty_like(g)
        for c, X in enumerate(self.roots):
            v = linalg.multiply_lower_columns_in_place(X, g[c][:, None].copy())
            found[c] = linalg.multiply_lower_columns_in_place(X, v, transposed=True)[:, 0]
        return found

    def divergence(self) -> float:
        """``sum_c KL(N(mu_c, M_c^-1) || N(0, I))``."""
        traces = linalg.inner(self.roots, self.roots) + linalg.inner(self.means, self.means)
        return 0.5 * (traces - self.means.size + self.log_det)

    def explained(self, U: Array, c: int) -> tuple[Array, Array]:
        """``X_c U`` and its columns' squared norms, the variances of ``u^T w_c``."""
        V = linalg.multiply_lower_columns_in_place(self.roots[c], U.copy())
        return V, np.einsum("ij,ij->j", V, V)

    def explained_variances(self, U: Array) -> Array:
        """Variances of ``u^T w_c`` for columns u of U, (b, C)."""
        return np.stack([self.explained(U, c)[1] for c in range(len(self.means))], axis=1)

    def new_weights(self, L: Array) -> Array:
        """``L^-T mu_c``, (m, C): the means at new inputs are ``k(Z, x)^T`` of these."""
        return linalg.solve_lower_columns_in_place(L, self.means.T.copy(), transposed=True)

    def explained_precisions(self, L: Array) -> Array:
        """``L^-T (I - M_c^-1) L^-1 = R_c``, (C, m, m): variances are ``k(x, x) - k^T R_c k``."""
        found = np.empty_like(self.roots)
        for R, root in zip(found, self.roots, strict=True):
            R[:] = -linalg.product(np.ascontiguousarray(root.T), root)
            R.flat[:: len(R) + 1] += 1.0
            R[:] = linalg.unwhitened(L, R)
        return found

    def marginals(self, L: Array, K_cross: Array, k_diag: Array) -> tuple[Array, Array, Array]:
        """Means and variances of ``u^T w_c``, (k, C), and remainders' variances, (k,)."""
        U = linalg.solve_lower_columns_in_place(L, K_cross)
        mean = np.einsum("cj,ji->ic", self.means, U)
        return (
            mean,
            self.explained_variances(U),
            np.maximum(k_diag - np.einsum("ij,ij->j", U, U), 0.0),
        )

    def draws(
        self, L: Array, K_cross: Array, k_diag: Array, n_samples: int, rng: np.random.RandomState
    ) -> Array:
        """Draws ``u^T w + e``, (k, C, n_samples), with remainders e that are independent.

        Each value has the posterior's variance, and values near each other covary a little less
        than their remainders would have them.
        """
        U = linalg.solve_lower_columns_in_place(L, K_cross)
        delta = np.maximum(k_diag - np.einsum("ij,ij->j", U, U), 0.0)
        found = np.empty((U.shape[1], len(self.means), n_samples))
        for c, (mean, root) in enumerate(zip(self.means, self.roots, strict=True)):
            w = rng.standard_normal((len(mean), n_samples))
            linalg.multiply_lower_columns_in_place(root, w, transposed=True)
            found[:, c] = linalg.product(np.ascontiguousarray(U.T), w + mean[:, None])
            found[:, c] += np.sqrt(delta)[:, None] * rng.standard_normal((U.shape[1], n_samples))
        return found


@final
@dataclass(frozen=True)
class WeightPrediction:
    """The weights of one latent and the factor L of their basis: what predicts for two classes."""

    q: WeightPosterior
    L: Array

    def predict(self, K_cross: Array, k_diag: Array) -> tuple[Array, Array]:
        """Latent mean and variance at k new inputs, from ``k(Z, x)`` (m, k), overwritten.

        A row's bits do not depend on the others where k is a multiple of `linalg.TILE`.
        """
        mean, own, delta = self.q.marginals(self.L, K_cross, k_diag)
        return mean[:, 0], own[:, 0] + delta

    @property
    def new_weights(self) -> Array:
        """As `WeightPosterior.new_weights`, (m,)."""
        return self.q.new_weights(self.L)[:, 0]

    def explained_precision(self) -> Array:
        """As `WeightPosterior.explained_precisions`, (m, m)."""
        return np.asarray(self.q.explained_precisions(self.L)[0])

    def draws(
        self, K_cross: Array, k_diag: Array, n_samples: int, rng: np.random.RandomState
    ) -> Array:
        """Draws of the latent at all k inputs, (k, n_samples); as `WeightPosterior.draws`."""
        return self.q.draws(self.L, K_cross, k_diag, n_samples, rng)[:, 0]


@final
@dataclass(frozen=True)
class ClassWeightPrediction:
    """The weights of one latent a class and the factor L of their basis."""

    q: WeightPosterior
    L: Array

    def predict(self, K_cross: Array, k_diag: Array) -> tuple[Array, Array]:
        """Means (k, C) and covariances (k, C, C) of the classes; ``k(Z, x)`` is kept.

        A row's bits depend on others as in `WeightPrediction.predict`.
        """
        mean, own, delta = self.q.marginals(self.L, K_cross.copy(), k_diag)
        return mean, (own + delta[:, None])[:, :, None] * np.eye(mean.shape[1])

    @property
    def mean_weights(self) -> Array:
        """As `WeightPosterior.new_weights`, (m, C)."""
        return self.q.new_weights(self.L)

    def explained_precisions(self) -> Array:
        """As `WeightPosterior.explained_precisions`, of all classes together, (m, C, m, C)."""
        own = self.q.explained_precisions(self.L)
        C, m = own.shape[:2]
        found = np.zeros((m, C, m, C))
        for c, one in enumerate(own):
            found[:, c, :, c] = one
        return found

    def draws(
        self, K_cross: Array, k_diag: Array, n_samples: int, rng: np.random.RandomState
    ) -> Array:
        """Draws at all k inputs, (k, C, n_samples); as `WeightPosterior.draws`."""
        return self.q.draws(self.L, K_cross, k_diag, n_samples, rng)
