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
# Below this part of the prior's precision a site says nothing.
NO_SITE: Final = 1e-24
# Rounding makes eigenvalues of a valid K as low as -n eps times its variance, about 1e-12.
INDEFINITE: Final = 1e-9


@final
@dataclass(frozen=True)
class DenseFactor(SiteFactor):
    """Factor of ``M = J + S K S`` for a dense K, where ``S = |T|^1/2`` and J has the signs of T.

    Without negative precisions M is ``B = I + S K S``. In general ``R = S M^-1 S``,
    ``S Sigma S = J - J M^-1 J`` and ``|I + T K| = |det M|``. The posterior is proper, that is
    ``K^-1 + T`` positive definite, if and only if M is quasi-definite with the signs J.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    precision : ndarray of shape (n,)
        Site precisions.
    scaled : Definite or QuasiDefinite
        Factor of M.
    """

    K: Array
    precision: Array
    scaled: linalg.Definite | linalg.QuasiDefinite

    @property
    def tau(self) -> Array:
        """Site precisions, shape (n,)."""
        return self.precision

    @cached_property
    def _s(self) -> Array:
        return np.sqrt(np.abs(self.precision))

    @property
    def log_det(self) -> float:
        """``log |I + T K|``."""
        return self.scaled.log_det

    def shrink(self, r: Array) -> Array:
        """``(I + T K)^-1 r = r - R K r`` (RW06 Algorithm 3.1, lines 5 to 7)."""
        s = self._s
        return r - s * self.scaled.solve(s * linalg.symmetric_product(self.K, r))

    def marginal_variances(self) -> Array:
        """Diagonal of ``Sigma = K - K R K``, shape (n,)."""
        return self._variances

    @cached_property
    def _inverse(self) -> Array:
        """Lower triangle of ``M^-1``, kept until `pullback` takes its memory."""
        return self.scaled.inverse()

    @cached_property
    def _variances(self) -> Array:
        # From Sigma = S^-1 J M^-1 S K: Sigma_ii = (J_i / s_i) sum_j (M^-1)_ij s_j K_ji. Every
        # term carries a factor s_i, so this keeps its digits where (J_i - (M^-1)_ii) / |tau_i|
        # loses them (small tau) and where K_ii - k' R k does (large K). One pass over the lower
        # triangles.
        M_inv = self._inverse
        n, s = len(self._s), self._s
        total = np.zeros(n)
        for start in range(0, n, linalg.BLOCK):
            stop = min(start + linalg.BLOCK, n)
            product = self.K[start:stop, :stop] * M_inv[start:stop, :stop]
            product[:, start:] = np.tril(product[:, start:])
            total[start:stop] += np.einsum("ij,j->i", product, s[:stop])
            product[:, start:] = np.tril(product[:, start:], -1)
            total[:stop] += np.einsum("ij,i->j", product, s[start:stop])
        variances = np.empty(n)
        usable = s > TINY_SCALE
        variances[usable] = np.sign(self.precision[usable]) * total[usable] / s[usable]
        rest = np.flatnonzero(~usable)
        for chunk in np.array_split(rest, max(1, len(rest) // 512)):
            if len(chunk):
                variances[chunk] = self.K.diagonal()[chunk] - self.reduced_variance(
                    self.K[:, chunk].copy()
                )
        return np.maximum(variances, 0.0)

    def multiply(self, v: Array) -> Array:
        """``Sigma v``, shape (n,)."""
        return linalg.symmetric_product(self.K, self.shrink(v))

    def covariance(self) -> Array:
        """Lower triangle of ``Sigma = K - K R K``, shape (n, n)."""
        Sigma, V = self.K.copy(), self.K * self._s[:, None]
        self.scaled.subtract_quadratic(Sigma, V)
        return Sigma

    def weighted_covariance(self, *, last: bool) -> Array:
        """Lower triangle of Sigma, shape (n, n), right where it is weighted by site precisions.

        From ``S Sigma S = J - J M^-1 J``, whose rounding is harmless where the entries are
        weighted by the precisions again, as they are in derivatives of sites.
        """
        s = self._s
        # a site that moves its own marginal by less than rounding moves no other
        usable = s**2 * self.K.diagonal() > NO_SITE
        inverse_scale = np.zeros(len(s))
        inverse_scale[usable] = 1.0 / (s[usable] * np.sign(self.precision[usable]))
        variances, M_inv = self._variances, self._inverse
        if last:
            self.release()
        Sigma = linalg.scale_rows_and_columns(M_inv, inverse_scale, out=M_inv if last else None)
        np.negative(Sigma, out=Sigma)
        Sigma.flat[:: len(s) + 1] = np.where(usable, variances, 0.0)
        return Sigma

    def release(self) -> None:
        """Give up the memory of what can be computed again."""
        self.__dict__.pop("_inverse", None)

    def pullback(
        self, a: Array, mean_adjoint: Array | None = None, variance_adjoint: Array | None = None
    ) -> Array:
        """``d log Z / dK``, ndarray of shape (n, n), symmetric."""
        c = 0.5 * a
        if mean_adjoint is not None:
            c += self.shrink(mean_adjoint)
        s = self._s
        # who asked for variances left the inverse here; one n x n array less at the peak
        G = self.__dict__.pop("_inverse", None)
        G = self.scaled.inverse() if G is None else G
        if variance_adjoint is None:
            linalg.scale_rows_and_columns(G, np.sqrt(0.5) * s, out=G)
            np.negative(G, out=G)
        else:
            # P = (I + T K)^-1 = S M^-1 J S^-1, so P diag(v) P^T = S M^-1 diag(v / |tau|) M^-1 S
            linalg.mirror_lower(G)
            rows = np.where(s > TINY_SCALE, variance_adjoint, 0.0)
            rows = rows / np.where(s > TINY_SCALE, self._s, 1.0) ** 2
            Y = G * np.sqrt(np.abs(rows))[:, None]
            G *= -0.5
            linalg.add_row_products(G, Y[rows > 0], 1.0)
            linalg.add_row_products(G, Y[rows < 0], -1.0)
            linalg.scale_rows_and_columns(G, s, out=G)
        linalg.add_symmetric_outer(G, c, a, 0.5)
        linalg.mirror_lower(G)
        return G

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (n, m), which is overwritten."""
        K_cross *= self._s[:, None]
        return self.scaled.quadratic_in_place(K_cross)

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T R K_cross`` of shape (m, m); both arguments are overwritten."""
        K_cross *= self._s[:, None]
        self.scaled.subtract_quadratic(K_new, K_cross)
        linalg.mirror_lower(K_new)
        return K_new


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
    mean : ndarray of shape (n,), default=None
        Prior mean; None: zero. Sites, posteriors and ``multiply`` are about f minus this mean.

    Examples
    --------
    >>> import numpy as np
    >>> prior = DensePrior(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> prior.factor(np.ones(2)).marginal_variances()
    array([0.625, 0.625])
    """

    K: Array
    description: str = field(default="K", compare=False)
    mean: Array | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a square matrix of float64, or not finite."""
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
        """Factorise ``J + S K S``.

        Raises
        ------
        NotPositiveDefiniteError
            Where ``K^-1 + T`` is not positive definite: for precisions that are not negative, a
            positive semi-definite K cannot cause it.
        """
        s = np.sqrt(np.abs(tau))
        M = linalg.scale_rows_and_columns(self.K, s)
        negative = tau < 0
        M.flat[:: self.n + 1] += np.where(negative, -1.0, 1.0)
        if negative.any():
            what = "the posterior precision beside negative site precisions"
            return DenseFactor(self.K, tau, linalg.QuasiDefinite.of(M, ~negative, what))
        try:
            return DenseFactor(self.K, tau, linalg.Definite.of(M, "I + S K S"))
        except NotPositiveDefiniteError as error:
            raise self._indefinite(error) from error
