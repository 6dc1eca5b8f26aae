"""The prior of a linear function: ``K = U U^T`` by its m columns, without any n x n matrix.

``L`` is the factor of ``I + U^T T U`` (m x m). With ``Q = U L^-T`` and ``F = T Q``,
``Sigma = Q Q^T``, ``(I + T K)^-1 = I - F Q^T`` and ``R = T - F F^T`` (RW06 section 2.1 of the same
book: the posterior of the weights). A cotangent of K is ``G U`` of shape (n, m).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, Product

from gpclass import linalg
from gpclass.linalg import Array
from gpclass.priors.base import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    PriorForm,
    RefactoredCovariance,
    SiteFactor,
)


@final
@dataclass(frozen=True)
class LinearFactor(SiteFactor, PosteriorCovariance, CovarianceProducts):
    """Everything that is asked of a factor, in O(n m) from ``Q`` of shape (n, m)."""

    prior: "LinearPrior"
    tau: Array
    scaled: linalg.Definite
    Q: Array

    @property
    def log_det(self) -> float:
        """``log |I + T K| = log |I + U^T T U|``."""
        return self.scaled.log_det

    @property
    def variances(self) -> Array:  # type: ignore[override]
        """The diagonal of Sigma, shape (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.Q, self.Q))

    def solve(self, r: Array) -> Array:
        """``(I + T K)^-1 r``, shape (n,)."""
        return r - self.tau * (self.Q @ (self.Q.T @ r))

    def covariance(self) -> "LinearFactor":
        """Nothing is left to form."""
        return self

    def products(self) -> "LinearFactor":
        """Nothing is left to form."""
        return self

    def multiply(self, v: Array) -> Array:
        """``Sigma v``, shape (n,)."""
        return np.asarray(self.Q @ (self.Q.T @ v))

    def multiply_squared(self, v: Array) -> Array:
        """``(Sigma o Sigma) v``, shape (n,), in O(n m^2)."""
        squared = linalg.product(self.Q, linalg.gram(self.Q, v)) * self.Q
        return np.asarray(squared.sum(axis=1))

    def sequential_covariance(self) -> RefactoredCovariance:
        """Sigma as sequential schedules need it."""
        return RefactoredCovariance(self.prior, self)

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)``; `new_variance` keeps more digits."""
        explained = (self.tau * K_cross.T) @ self.Q
        squares = np.einsum("ij,i,ij->j", K_cross, self.tau, K_cross)
        return np.asarray(squares - np.einsum("ij,ij->i", explained, explained))

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T R K_cross`` of shape (m, m)."""
        weighted = self.tau * K_cross.T
        explained = weighted @ self.Q
        return np.asarray(K_new - weighted @ K_cross + explained @ explained.T)

    def new_variance(self, U_new: Array) -> Array:
        """Variances of new latents with columns ``U_new`` (k, m): ``|L^-1 u|^2``, no difference."""
        return self.scaled.quadratic_in_place(np.array(U_new.T, order="C"))

    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Array:
        """``G U`` of `PosteriorCovariance.pullback`, shape (n, m)."""
        U, F = self.prior.U, self.tau[:, None] * self.Q
        c = 0.5 * a if by_mean is None else 0.5 * a + self.solve(by_mean)
        FU = F.T @ U
        GU = 0.5 * (np.outer(c, a @ U) + np.outer(a, c @ U) - self.tau[:, None] * U + F @ FU)
        if by_variance is not None:
            weighted = by_variance[:, None] * (U - self.Q @ FU)
            GU += weighted - F @ (self.Q.T @ weighted)
        return np.asarray(GU)


@final
@dataclass(frozen=True)
class LinearPrior(Prior):
    """``f = U w`` with independent weights w of variance 1; U of shape (n, m)."""

    U: Array
    mean: Array | None = None

    @property
    def n(self) -> int:
        """Number of latent values."""
        return len(self.U)

    @property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.U, self.U))

    def check(self) -> None:
        """``U U^T`` is never indefinite."""

    def multiply(self, v: Array) -> Array:
        """``K v``, shape (n,)."""
        return np.asarray(self.U @ (self.U.T @ v))

    def inner(self, G: Array) -> float:
        """``sum_ij G_ij K_ij``."""
        return linalg.inner(G, self.U)

    def factor(self, tau: Array) -> LinearFactor:
        """Factorise ``I + U^T T U``, in O(n m^2)."""
        M = linalg.gram(self.U, tau)
        M[np.diag_indices(len(M))] += 1.0
        scaled = linalg.Definite.of(
            np.ascontiguousarray(M), "the posterior precision of the weights"
        )
        Qt = linalg.solve_lower_columns_in_place(scaled.L, np.array(self.U.T, order="C"))
        return LinearFactor(self, tau, scaled, np.ascontiguousarray(Qt.T))


@final
@dataclass(frozen=True)
class Linear(PriorForm):
    """A kernel ``ConstantKernel(c) * DotProduct(s, "fixed")``, as the weights of a line.

    Rounding cannot make it indefinite, so it takes no jitter.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
    >>> from gpclass.priors.linear import Linear
    >>> kernel = ConstantKernel(4.0) * DotProduct(1.0, "fixed")
    >>> Linear().make(kernel, np.array([[3.0], [5.0]]), 0.0).U
    array([[ 6.,  2.],
           [10.,  2.]])
    """

    def columns(self, kernel: Kernel, X: Any) -> Array:
        """U of shape (n, d + 1): what the weights of variance 1 multiply.

        Raises
        ------
        ValueError
            For another kernel.
        """
        constant: Any = getattr(kernel, "k1", None)
        dot: Any = getattr(kernel, "k2", None)
        known = isinstance(constant, ConstantKernel) and isinstance(dot, DotProduct)
        if not (isinstance(kernel, Product) and known and dot.n_dims == 0):
            raise ValueError(
                f"a linear prior takes ConstantKernel(c) * DotProduct(s, 'fixed'), got {kernel}"
            )
        X = np.asarray(X, dtype=np.float64)
        bias = np.full((len(X), 1), float(dot.sigma_0))
        return np.asarray(np.sqrt(constant.constant_value) * np.hstack([X, bias]))

    def make(self, kernel: Kernel, X: Any, jitter: float) -> LinearPrior:
        """Prior at the training inputs."""
        return LinearPrior(self.columns(kernel, X))

    def pull(self, kernel: Kernel, X: Any, prior: LinearPrior, G: Array) -> Array:
        """Gradient by the logarithm of the constant, where that is free."""
        return np.full(kernel.n_dims, prior.inner(G))

    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """Covariances with new latent values, (n, k), and their variances, (k,)."""
        U, U_new = self.columns(kernel, X), self.columns(kernel, X_new)
        return U @ U_new.T, np.einsum("ij,ij->i", U_new, U_new)
