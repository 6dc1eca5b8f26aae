"""A prior by m weights, without any n x n matrix: FITC's, by inducing points.

``f = U w + e`` with independent ``w ~ N(0, I)`` (m) and ``e_i ~ N(0, delta_i)``, so that
``K = U U^T + diag(delta)`` for U of shape (n, m). With ``p = 1 / (1 + T delta)`` and
``M = I + U^T T p U`` (m x m), all that is asked of the posterior is

``P = (I + T K)^-1 = p - T p U M^-1 U^T p``, ``R = P T``, ``Sigma = delta p + p U M^-1 U^T p``
and ``|I + T K| = |M| / prod p``. It is proper if and only if p is positive and M positive definite.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.kernels import cross, diagonal, pullback_cross, pullback_diagonal, rectangle
from gpclass.linalg import Array
from gpclass.priors.base import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    PriorForm,
    RefactoredCovariance,
    SiteFactor,
)
from gpclass.priors.basis import Basis


class Cotangent(NamedTuple):
    """Of a scalar by K: ``2 G U`` of shape (n, m), by U, and the diagonal of G (n,), by delta."""

    by_columns: Array
    by_delta: Array


@final
@dataclass(frozen=True)
class InducingFactor(SiteFactor):
    """An `InducingPrior` given sites: p, and the factor of M."""

    has_products: ClassVar[bool] = False

    prior: "InducingPrior"
    tau: Array
    p: Array
    precision: linalg.Definite

    @property
    def log_det(self) -> float:
        """``log |I + T K| = log |M| - sum log p``."""
        return self.precision.log_det - float(np.log(self.p).sum())

    def solve(self, r: Array) -> Array:
        """``P r``, in O(n m)."""
        U, pr = self.prior.U, self.p * r
        inner = self.precision.solve(linalg.times_transposed(U, pr))
        return np.asarray(pr - self.tau * self.p * linalg.times(U, inner))

    def covariance(self) -> "InducingCovariance":
        """Find what the weights leave of each variance."""
        inverse, explained = linalg.inverse_of_lower(self.precision.L), np.empty(self.prior.n)
        for rows in linalg.blocks(self.prior.n, linalg.TALL):
            V = linalg.multiply_rows_by_lower_in_place(inverse, self.prior.U[rows].copy())
            explained[rows] = np.einsum("ij,ij->i", V, V)
        explained *= self.p**2
        return InducingCovariance(self, explained, self.prior.delta * self.p + explained)

    def sequential_covariance(self) -> RefactoredCovariance:
        """Sigma as sequential schedules need it."""
        return RefactoredCovariance(self.prior, self)

    def new_weights(self, a: Array) -> Array:
        """``L^-T U^T a``, shape (m,), with the `InducingPrior.root` L."""
        w = linalg.times_transposed(self.prior.U, a)
        if self.prior.root is None:
            return w
        return linalg.solve_lower_columns_in_place(
            self.prior.root, w[:, None].copy(), transposed=True
        )[:, 0]

    def reduced_variance(self, K_cross: Array) -> Array:
        """``|u|^2 - u^T M^-1 u`` with ``u = L^-1 k`` for each column k of K_cross."""
        u = self.prior.whitened(K_cross)
        total = np.einsum("ij,ij->j", u, u)
        return np.asarray(total - self.precision.quadratic_in_place(u))

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - u^T (I - M^-1) u``."""
        u = self.prior.whitened(K_cross)
        linalg.add_row_products(K_new, u, -1.0)
        self.precision.half_solve_in_place(u)
        linalg.add_row_products(K_new, u, 1.0)
        linalg.mirror_lower(K_new)
        return K_new

    def explained_precision(self, r: int) -> Array:
        """``L^-T (I - M^-1) L^-1``: the difference comes first, as L may be nearly singular."""
        R = self.precision.inverse()
        linalg.mirror_lower(R)
        R *= -1.0
        R.flat[:: len(R) + 1] += 1.0
        return R if self.prior.root is None else linalg.unwhitened(self.prior.root, R)


@final
@dataclass(frozen=True)
class InducingCovariance(PosteriorCovariance, CovarianceProducts):
    """Marginal variances; ``explained`` is the diagonal of ``p U M^-1 U^T p``."""

    factor: InducingFactor
    explained: Array
    variances: Array

    @cached_property
    def _M_inv(self) -> Array:
        found = self.factor.precision.inverse()
        linalg.mirror_lower(found)
        return found

    def products(self) -> "InducingCovariance":
        """Nothing is left to form."""
        return self

    def multiply(self, v: Array) -> Array:
        """``Sigma v``, in O(n m)."""
        U, p, delta = self.factor.prior.U, self.factor.p, self.factor.prior.delta
        inner = self.factor.precision.solve(linalg.times_transposed(U, p * v))
        return np.asarray(p * (delta * v + linalg.times(U, inner)))

    def multiply_squared(self, v: Array) -> Array:
        """``(Sigma o Sigma) v``, in O(n m^2)."""
        U, p = self.factor.prior.U, self.factor.p
        own = self.factor.prior.delta * p
        middle = linalg.product(linalg.product(self._M_inv, linalg.gram(U, p**2 * v)), self._M_inv)
        shared = np.empty(len(v))
        for rows in linalg.blocks(len(v), linalg.TALL):
            shared[rows] = np.einsum("ij,ij->i", linalg.product(U[rows], middle), U[rows])
        return np.asarray((own + 2.0 * self.explained) * own * v + p**2 * shared)

    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Cotangent:
        """By ``W = U M^-1``: ``P^T U = p W`` and ``R U = T p W``."""
        U, p, tau = self.factor.prior.U, self.factor.p, self.factor.tau
        c = 0.5 * a if by_mean is None else 0.5 * a + self.factor.solve(by_mean)
        h = np.zeros(len(a)) if by_variance is None else by_variance
        by_delta = c * a - 0.5 * tau * (p - tau * self.explained)
        by_delta += h * p * (p - 2.0 * tau * self.explained)
        aU, cU = linalg.times_transposed(U, a), linalg.times_transposed(U, c)
        spread = None if by_variance is None else linalg.gram(U, p**2 * h)
        by_U = np.empty_like(U)
        for rows in linalg.blocks(len(a), linalg.TALL):
            W = linalg.product(U[rows], self._M_inv)
            found = np.multiply((2.0 * h * p**2 - tau * p)[rows, None], W, out=by_U[rows])
            found += np.multiply.outer(c[rows], aU)
            found += np.multiply.outer(a[rows], cU)
            if spread is not None:
                WC = linalg.product(W, spread)
                by_delta[rows] += (tau * p)[rows] ** 2 * np.einsum("ij,ij->i", WC, W)
                found -= 2.0 * (tau * p)[rows, None] * linalg.product(WC, self._M_inv)
        return Cotangent(by_U, by_delta)


@final
@dataclass(frozen=True)
class InducingPrior(Prior):
    """``K = U U^T + diag(delta)``: by m weights, and what each latent has of its own.

    Memory and time of all that is asked are O(n m) and O(n m^2).

    Parameters
    ----------
    U : ndarray of shape (n, m)
        What the weights, of variance 1, are multiplied by.
    delta : ndarray of shape (n,)
        Variances that the weights leave; not negative.
    root : ndarray of shape (m, m), default=None
        The lower triangle L of ``K_zz = L L^T``: a new input's row of U is ``L^-1 k`` for its
        covariances k with the inducing points. None: it is k itself.

    References
    ----------
    Naish-Guzman & Holden, *The generalized FITC approximation*, 2007, section 2; Snelson &
    Ghahramani, *Sparse Gaussian processes using pseudo-inputs*, 2006.

    Examples
    --------
    With all rows as inducing points it is the exact prior:

    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> from gpclass.priors import DensePrior, InducingPrior
    >>> X, y, kernel = np.array([[0.0], [1.0], [3.0]]), np.array([1, 1, -1]), 2.0 * RBF(1.0)
    >>> q = EP()(InducingPrior.of(kernel, X, X), y, Probit())
    >>> bool(np.isclose(q.log_evidence, EP()(DensePrior(kernel(X)), y, Probit()).log_evidence))
    True
    """

    U: Array
    delta: Array
    root: Array | None = None
    mean: Array | None = None

    @classmethod
    def of(cls, kernel: Kernel, X: Any, Z: Any, jitter: float = 0.0) -> "InducingPrior":
        """FITC (`Inducing`) of a kernel, n inputs X and m inducing points Z.

        ``U = K_xz L^-T`` with ``L L^T = K_zz``, and ``delta = diag(K_xx) - diag(U U^T)``, to which
        ``jitter`` is added. A WhiteKernel is no part of K_xz and K_zz: its noise is each row's own.

        Raises
        ------
        NotPositiveDefiniteError
            Where the kernel is not finite, or not positive semi-definite.
        """
        basis = Basis.of(kernel, Z)
        U = linalg.solve_lower_rows_in_place(basis.L, rectangle(kernel, X, Z))
        delta = basis.left(X, np.einsum("ij,ij->i", U, U))
        return cls(U, delta + jitter, basis.L)

    @property
    def n(self) -> int:
        """Number of latent values."""
        return len(self.U)

    @property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return np.asarray(self.delta + np.einsum("ij,ij->i", self.U, self.U))

    def check(self) -> None:
        """``U U^T`` is never indefinite, and `of` refuses a delta that is."""

    def multiply(self, v: Array) -> Array:
        """``K v``, in O(n m)."""
        shared = linalg.times(self.U, linalg.times_transposed(self.U, v))
        return np.asarray(shared + self.delta * v)

    def inner(self, G: Cotangent) -> float:
        """``sum_ij G_ij K_ij``."""
        return 0.5 * linalg.inner(G.by_columns, self.U) + float(G.by_delta @ self.delta)

    def whitened(self, K_cross: Array) -> Array:
        """Columns ``u = L^-1 k`` of K_cross, (m, k), which is overwritten."""
        if self.root is None:
            return K_cross
        return linalg.solve_lower_columns_in_place(self.root, K_cross)

    def factor(self, tau: Array) -> InducingFactor:
        """Factorise M, in O(n m^2)."""
        own = 1.0 + tau * self.delta
        if not (own > 0.0).all():
            raise NotPositiveDefiniteError(
                f"a site of precision {tau[own.argmin()]:.3g} leaves a variance of "
                f"{self.delta[own.argmin()]:.3g} no positive precision"
            )
        p = 1.0 / own
        M = linalg.gram(self.U, tau * p)
        M.flat[:: len(M) + 1] += 1.0
        return InducingFactor(
            self, tau, p, linalg.Definite.of(M, "the posterior precision of the weights")
        )


@final
@dataclass(frozen=True, eq=False)
class Inducing(PriorForm):
    """FITC: `InducingPrior` of the kernel, with m inducing points Z, inputs as kernels take them.

    The latents are independent given those at Z, and their variances are the kernel's own. ``4 m
    eps`` of the largest variance is added to the diagonal of K_zz.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.priors import Inducing
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Inducing(X[[0, 2]]).make(RBF(1.0), X, 0.0).delta.round(3)
    array([0.   , 0.352, 0.   ])
    """

    Z: Array

    def make(self, kernel: Kernel, X: Any, jitter: float) -> InducingPrior:
        """Prior at the training inputs."""
        return InducingPrior.of(kernel, X, self.Z, jitter)

    def pull(self, kernel: Kernel, X: Any, prior: InducingPrior, G: Cotangent) -> Array:
        """Gradient by the kernel's theta, by blocks of rows: ``U U^T = K_xz K_zz^-1 K_zx``."""
        L, shape = prior.root, (len(self.Z), len(self.Z))
        assert L is not None  # as `make` gives it
        gradient, by_Z = pullback_diagonal(kernel, X, G.by_delta), np.zeros(shape)
        for rows in linalg.blocks(prior.n, linalg.TALL):
            # delta has less of what U has
            by_U = G.by_columns[rows] - 2.0 * G.by_delta[rows, None] * prior.U[rows]
            by_Z += linalg.crossed(prior.U[rows], by_U)
            by_cross = linalg.solve_lower_rows_in_place(L, by_U, transposed=True)
            gradient += pullback_cross(kernel, X[rows], self.Z, by_cross)
        return np.asarray(gradient + Basis(kernel, self.Z, L).pull(by_Z))

    def points(self, X: Any) -> Array:
        """The inducing points."""
        return self.Z

    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """Covariances of the inducing points and new inputs, (m, k), and variances of the new."""
        return cross(kernel, self.Z, X_new), diagonal(kernel, X_new, X)
