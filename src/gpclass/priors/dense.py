"""The exact prior: the whole n x n covariance matrix in memory."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.priors.base import Prior, SiteFactor

Array = NDArray[np.float64]

# Below this a scale s_i is not divided by: s_i^2 would be lost among the subnormal numbers.
TINY_SCALE: Final = 1e-150
# Rounding makes eigenvalues of a valid K as low as -n eps times its variance, about 1e-12.
INDEFINITE: Final = 1e-9


@final
@dataclass(frozen=True)
class DenseFactor(SiteFactor):
    """Cholesky factor of ``B = I + S K S`` for a dense K.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    s : ndarray of shape (n,)
        Square roots of the site precisions.
    L : ndarray of shape (n, n)
        Lower Cholesky factor of B; the strict upper triangle is undefined.
    """

    K: Array
    s: Array
    L: Array

    @property
    def tau(self) -> Array:
        """Site precisions, shape (n,)."""
        return self.s**2

    @property
    def log_det(self) -> float:
        """``log |B|``."""
        return linalg.log_det_factored(self.L)

    def shrink(self, r: Array) -> Array:
        """``(I + T K)^-1 r`` (RW06 Algorithm 3.1, lines 5 to 7)."""
        return r - self.s * linalg.solve_factored(
            self.L, self.s * linalg.symmetric_product(self.K, r)
        )

    def marginal_variances(self) -> Array:
        """Diagonal of ``Sigma = K - K R K``, shape (n,)."""
        return self._variances(self._inverse)

    @cached_property
    def _inverse(self) -> Array:
        """Lower triangle of ``B^-1``, kept: who asks for variances wants the pullback next."""
        return linalg.invert_factored_in_place(self.L.copy())

    def _variances(self, B_inv: Array) -> Array:
        # From Sigma S = K S B^-1: Sigma_ii = (1/s_i) sum_j K_ij s_j (B^-1)_ji. Every term carries
        # a factor s_i, so this keeps its digits where (1 - (B^-1)_ii) / tau_i loses them (small
        # tau) and where K_ii - k' R k does (large K). One pass over the lower triangles.
        n, s = len(self.s), self.s
        total = np.zeros(n)
        for start in range(0, n, linalg.BLOCK):
            stop = min(start + linalg.BLOCK, n)
            product = self.K[start:stop, :stop] * B_inv[start:stop, :stop]
            product[:, start:] = np.tril(product[:, start:])
            total[start:stop] += np.einsum("ij,j->i", product, s[:stop])
            product[:, start:] = np.tril(product[:, start:], -1)
            total[:stop] += np.einsum("ij,i->j", product, s[start:stop])
        variances = np.empty(n)
        usable = s > TINY_SCALE
        variances[usable] = total[usable] / s[usable]
        rest = np.flatnonzero(~usable)
        for chunk in np.array_split(rest, max(1, len(rest) // 512)):
            if len(chunk):
                variances[chunk] = self.K.diagonal()[chunk] - self.reduced_variance(
                    self.K[:, chunk].copy()
                )
        return np.maximum(variances, 0.0)

    def pullback(self, a: Array, mean_adjoint: Array | None) -> Array:
        """``d log Z / dK``, ndarray of shape (n, n), symmetric."""
        if "_inverse" in self.__dict__:
            G = self._inverse.copy()
        else:
            G = linalg.invert_factored_in_place(self.L.copy())
        c = 0.5 * a
        if mean_adjoint is not None:
            c += self.shrink(mean_adjoint * self._variances(G))
        linalg.scale_rows_and_columns(G, np.sqrt(0.5) * self.s, out=G)
        np.negative(G, out=G)
        linalg.add_symmetric_outer(G, c, a, 0.5)
        linalg.mirror_lower(G)
        return G

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (n, m), which is overwritten."""
        K_cross *= self.s[:, None]
        linalg.solve_lower_columns_in_place(self.L, K_cross)
        return np.asarray(np.einsum("ij,ij->j", K_cross, K_cross))


@final
@dataclass(frozen=True)
class DensePrior(Prior):
    """A Gaussian prior with covariance K, held as it is.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semi-definite covariance of the latent values.
    description : str, default="K"
        What K came from, for error messages: the kernel as the user wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> prior = DensePrior(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> prior.factor(np.ones(2)).marginal_variances()
    array([0.625, 0.625])
    """

    K: Array
    description: str = field(default="K", compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not a square matrix of float64, or not finite."""
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"K must be a square matrix, got shape {self.K.shape}")
        if not np.isfinite(self.K).all():
            raise NotPositiveDefiniteError(
                f"the kernel {self.description} gives NaN or infinity on the training inputs: "
                "its hyperparameters or the units of the columns are out of range"
            )

        if (self.K.diagonal() < 0).any():
            raise self._indefinite(f"a variance of {self.K.diagonal().min():.3g} on its diagonal")

    def check(self) -> None:
        """Refuse a covariance with an eigenvalue below `INDEFINITE` of its largest variance.

        Inference needs ``I + S K S`` alone and may not notice an indefinite K.

        Raises
        ------
        NotPositiveDefiniteError
            Naming the kernel and what to do.
        """
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

    def factor(self, tau: Array) -> DenseFactor:
        """Factorise ``B = I + S K S``.

        Raises
        ------
        NotPositiveDefiniteError
            Where B is not positive definite, which a positive semi-definite K cannot cause.
        """
        s = np.sqrt(tau)
        B = linalg.scale_rows_and_columns(self.K, s)
        B.flat[:: self.n + 1] += 1.0
        try:
            return DenseFactor(self.K, s, linalg.cholesky(B, "I + S K S"))
        except NotPositiveDefiniteError as error:
            raise self._indefinite(error) from error
