"""The exact prior: the whole n x n covariance matrix in memory."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.kernels import cross, diagonal, evaluate, pullback
from gpclass.linalg import Array
from gpclass.priors.base import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    PriorForm,
    SequentialCovariance,
    SiteFactor,
)

# A scale s_i = |tau_i|^1/2 below this is not divided by: its square is a subnormal number.
TINY_SCALE: Final = 1e-150
# A site of less than this part of the prior's precision moves no other latent beyond rounding.
NO_SITE: Final = 1e-24
# Rounding makes eigenvalues of a valid K as low as -n eps times its variance, about 1e-12.
INDEFINITE: Final = 1e-9
# Columns of K at a time where variances are computed without the inverse.
COLUMNS: Final = 512


@final
@dataclass(frozen=True)
class DenseFactor(SiteFactor):
    """K, tau and the factor of ``M = J + S K S``, ``S = |T|^1/2``, where J has the signs of T.

    Without negative precisions M is ``B = I + S K S`` (RW06 eq. 3.26). In general
    ``R = S M^-1 S``, ``S Sigma S = J - J M^-1 J`` and ``|I + T K| = |det M|``. The posterior is
    proper if and only if M is quasi-definite with the signs J.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    tau : ndarray of shape (n,)
        Site precisions of any sign.
    scaled : Definite or QuasiDefinite
        The factor of M.
    """

    K: Array
    tau: Array
    scaled: linalg.Definite | linalg.QuasiDefinite

    @cached_property
    def scale(self) -> Array:
        """The diagonal of S, shape (n,)."""
        return np.sqrt(np.abs(self.tau))

    @property
    def log_det(self) -> float:
        """``log |I + T K|``."""
        return self.scaled.log_det

    def solve(self, r: Array) -> Array:
        """``(I + T K)^-1 r = r - R K r`` (RW06 Algorithm 3.1, lines 5 to 7)."""
        s = self.scale
        return r - s * self.scaled.solve(s * linalg.symmetric_product(self.K, r))

    def covariance(self) -> "DenseCovariance":
        """Invert M."""
        M_inv = self.scaled.inverse()
        return DenseCovariance(self, M_inv, self._variances(M_inv))

    def _variances(self, M_inv: Array) -> Array:
        # From Sigma = S^-1 J M^-1 S K: Sigma_ii = (J_i / s_i) sum_j (M^-1)_ij s_j K_ji. Every
        # term has a factor s_i, so this keeps its digits where (J_i - (M^-1)_ii) / |tau_i|
        # loses them (small tau) and where K_ii - k' R k does (large K).
        s = self.scale
        total = linalg.row_sums_of_product(self.K, M_inv, s)
        usable = s > TINY_SCALE
        variances = np.sign(self.tau) * total / np.where(usable, s, 1.0)
        rest = np.flatnonzero(~usable)
        for part in linalg.blocks(len(rest), COLUMNS):
            chunk = rest[part]
            reduced = self.reduced_variance(self.K[:, chunk].copy())
            variances[chunk] = self.K.diagonal()[chunk] - reduced
        return np.maximum(variances, 0.0)

    def sequential_covariance(self) -> "DenseSequential":
        """Form the lower triangle of ``Sigma = K - K R K``."""
        Sigma, V = self.K.copy(), self.K * self.scale[:, None]
        self.scaled.subtract_quadratic(Sigma, V)
        return DenseSequential(Sigma)

    def new_weights(self, a: Array) -> Array:
        """The weights of the training inputs themselves."""
        return a

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (n, m), which is overwritten."""
        K_cross *= self.scale[:, None]
        return self.scaled.quadratic_in_place(K_cross)

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T R K_cross`` of shape (m, m); both arguments are overwritten."""
        K_cross *= self.scale[:, None]
        self.scaled.subtract_quadratic(K_new, K_cross)
        linalg.mirror_lower(K_new)
        return K_new


@final
@dataclass(frozen=True)
class DenseCovariance(PosteriorCovariance):
    """A `DenseFactor` with the lower triangle of its ``M^-1``, and the marginal variances."""

    factor: DenseFactor
    M_inv: Array
    variances: Array

    def products(self) -> "DenseProducts":
        """Form Sigma and its square from ``S Sigma S = J - J M^-1 J``."""
        s, signs = self.factor.scale, np.sign(self.factor.tau)
        usable = s**2 * self.factor.K.diagonal() > NO_SITE
        inverse_scale = np.zeros(len(s))
        inverse_scale[usable] = signs[usable] / s[usable]
        Sigma = linalg.scale_rows_and_columns(self.M_inv, inverse_scale)
        np.negative(Sigma, out=Sigma)
        with np.errstate(over="ignore"):  # an overflow makes the iteration's solver refuse
            linalg.square_lower_into_upper(Sigma)
        return DenseProducts(Sigma, np.where(usable, self.variances, 0.0))

    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Array:
        """``d log Z / dK``, ndarray of shape (n, n), symmetric."""
        s = self.factor.scale
        c = 0.5 * a if by_mean is None else 0.5 * a + self.factor.solve(by_mean)
        if by_variance is None:
            G = linalg.scale_rows_and_columns(self.M_inv, np.sqrt(0.5) * s)
            np.negative(G, out=G)
        else:
            # P = (I + T K)^-1 = S M^-1 J S^-1, so P diag(h) P^T = S M^-1 diag(h / |tau|) M^-1 S
            G = self.M_inv.copy()
            linalg.mirror_lower(G)
            usable = s > TINY_SCALE
            h = np.where(usable, by_variance, 0.0) / np.where(usable, s, 1.0) ** 2
            up, down = (G[rows] * np.sqrt(np.abs(h[rows]))[:, None] for rows in (h > 0, h < 0))
            G *= -0.5
            linalg.add_row_products(G, up, 1.0)
            linalg.add_row_products(G, down, -1.0)
            linalg.scale_rows_and_columns(G, s, out=G)
        linalg.add_symmetric_outer(G, c, a, 0.5)
        linalg.mirror_lower(G)
        return G


@final
@dataclass(frozen=True)
class DenseProducts(CovarianceProducts):
    """Products with Sigma and its square, both in the memory of one matrix.

    ``triangles`` has Sigma below its diagonal ``variances``, and the square of Sigma above it.
    """

    triangles: Array
    variances: Array

    def multiply(self, v: Array) -> Array:
        """``Sigma v``."""
        return linalg.symmetric_product(self.triangles, v) + self.variances * v

    def multiply_squared(self, v: Array) -> Array:
        """``(Sigma o Sigma) v``."""
        return linalg.symmetric_product(self.triangles, v, upper=True) + self.variances**2 * v


@final
@dataclass(frozen=True)
class DenseSequential(SequentialCovariance):
    """The lower triangle of Sigma, which `update` overwrites."""

    Sigma: Array

    def rows(self, part: slice) -> Array:
        """Rows of Sigma, shape (k, n)."""
        start, stop = part.start, part.stop
        rows = np.empty((stop - start, len(self.Sigma)))
        rows[:, :start] = self.Sigma[part, :start]
        rows[:, stop:] = self.Sigma[stop:, part].T
        block = np.tril(self.Sigma[part, part])
        rows[:, part] = block + np.tril(block, -1).T
        return rows

    def update(self, part: slice, rows: Array, d_tau: Array) -> None:
        """``Sigma - Sigma_B^T W Sigma_B`` as one product of matrices."""
        system = np.eye(len(d_tau)) + rows[:, part] * d_tau
        W = d_tau[:, None] * linalg.solve_general(system, np.eye(len(d_tau)))
        values, vectors = linalg.symmetric_eigen(0.5 * (W + W.T))
        half = linalg.product((vectors * np.sqrt(np.abs(values))).T, rows)
        linalg.add_row_products(self.Sigma, half[values > 0], -1.0)
        linalg.add_row_products(self.Sigma, half[values < 0], 1.0)

    def own_variance(self, i: int, tau: Array) -> float:
        """Nothing: `rows` has all of it."""
        return 0.0


@final
@dataclass(frozen=True)
class DensePrior(Prior):
    """A Gaussian prior with covariance K, held as it is.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semi-definite covariance of the latent values.
    description : object, default="K"
        What K came from, printed in error messages: the kernel, as the user wrote it.
    mean : ndarray of shape (n,), default=None
        Prior mean; None: zero. Sites, posteriors and ``multiply`` are about f minus this mean.

    Examples
    --------
    >>> import numpy as np
    >>> DensePrior(np.array([[2.0, 1.0], [1.0, 2.0]])).factor(np.ones(2)).covariance().variances
    array([0.625, 0.625])
    """

    K: Array
    description: object = field(default="K", compare=False)
    mean: Array | None = None

    def __post_init__(self) -> None:
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"K must be a square matrix, got shape {self.K.shape}")
        if not np.isfinite(self.K).all():
            raise NotPositiveDefiniteError(
                f"the kernel {self.description} gives NaN or infinity on the training inputs: "
                "its hyperparameters or the units of the columns are out of range"
            )
        if self.mean is not None and np.shape(self.mean) != (len(self.K),):
            raise ValueError(
                f"mean must be a vector of length {len(self.K)}, got shape {np.shape(self.mean)}"
            )
        if (self.K.diagonal() < 0).any():
            raise self._indefinite(f"a variance of {self.K.diagonal().min():.3g} on its diagonal")

    def check(self) -> None:
        """Refuse a K with an eigenvalue below minus `INDEFINITE` times its largest variance."""
        shifted = self.K.copy()
        shifted.flat[:: self.n + 1] += max(INDEFINITE * self.diagonal.max(initial=0.0), 1e-300)
        try:
            linalg.cholesky(shifted, "K")
        except NotPositiveDefiniteError as error:
            raise self._indefinite(error) from error

    def _indefinite(self, reason: object) -> NotPositiveDefiniteError:
        return NotPositiveDefiniteError(
            f"the kernel {self.description} gives a matrix that is not positive semi-definite "
            f"({reason}); use a valid kernel, or add a WhiteKernel to it: a noise level about "
            "the size of its most negative eigenvalue is enough"
        )

    @property
    def n(self) -> int:
        """Number of latent values."""
        return len(self.K)

    @property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.K.diagonal()

    def multiply(self, v: Array) -> Array:
        """``K v``, shape (n,)."""
        return linalg.symmetric_product(self.K, v)

    def inner(self, G: Any) -> float:
        """``sum_ij G_ij K_ij`` for G of shape (n, n)."""
        return float(np.einsum("ij,ij->", G, self.K))

    def factor(self, tau: Array) -> DenseFactor:
        """Factorise ``J + S K S``.

        Raises NotPositiveDefiniteError where the posterior is not proper or K is indefinite.
        """
        s = np.sqrt(np.abs(tau))
        M = linalg.scale_rows_and_columns(self.K, s)
        negative = tau < 0
        M.flat[:: self.n + 1] += 1.0 - 2.0 * negative
        if negative.any():
            what = "the posterior precision given negative site precisions"
            return DenseFactor(self.K, tau, linalg.QuasiDefinite.of(M, ~negative, what))
        try:
            return DenseFactor(self.K, tau, linalg.Definite.of(M, "I + S K S"))
        except NotPositiveDefiniteError as error:
            raise self._indefinite(error) from error


def jittered(kernel: Kernel, X: Any, jitter: float) -> Array:
    """Kernel matrix of the training inputs, with ``jitter`` added to its diagonal."""
    K = evaluate(kernel, X)
    if jitter > 0.0:
        K.flat[:: len(K) + 1] += jitter
    return K


@final
@dataclass(frozen=True)
class Dense(PriorForm):
    """The exact form: `DensePrior` on the kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.priors import Dense
    >>> Dense().make(4.0 * RBF(1.0), np.array([[0.0], [1.0]]), 0.0).K.round(3)
    array([[4.   , 2.426],
           [2.426, 4.   ]])
    """

    def make(self, kernel: Kernel, X: Any, jitter: float) -> DensePrior:
        """Evaluate the kernel."""
        return DensePrior(jittered(kernel, X, jitter), kernel)

    def pull(self, kernel: Kernel, X: Any, prior: DensePrior, G: Array) -> Array:
        """Gradient by the kernel's theta from G of shape (n, n)."""
        return pullback(kernel, X, G, K=prior.K)

    def points(self, X: Any) -> Any:
        """The training inputs."""
        return X

    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """The kernel's own covariances and variances."""
        return cross(kernel, X, X_new), diagonal(kernel, X_new, X)
