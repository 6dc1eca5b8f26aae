"""The questions that inference and learning ask a prior N(0, K); they never see how K is held.

A `PriorForm` makes a `Prior` from a kernel and carries gradients back to it. The prior makes a
`SiteFactor` for given sites: means, evidence and predictions come from that. What costs more, the
marginal variances and the gradient, comes from the factor's `PosteriorCovariance`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from gpclass.linalg import Array

# From R, an array over the latent values, to a pair (Z, K Z) whose second part approximates
# (K^-1 + W)^-1 R.
Preconditioner = Callable[[Array], tuple[Array, Array]]


def as_weights(weights: ArrayLike | None, n: int) -> Array:
    """Weights of n rows (None: ones), checked: ValueError unless finite and not negative."""
    if weights is None:
        return np.ones(n)
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (n,) or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(
            f"weights must be {n} finite non-negative numbers, got shape {found.shape} with "
            f"minimum {found.min() if found.size else 'none'}"
        )
    return found


class CovarianceProducts(ABC):
    """Products with Sigma, as exact as ``S Sigma S`` is: where site precisions weight them."""

    @abstractmethod
    def multiply(self, v: Array) -> Array:
        """``Sigma v``, shape (n,)."""

    @abstractmethod
    def multiply_squared(self, v: Array) -> Array:
        """``(Sigma o Sigma) v``, the square taken entry by entry, shape (n,)."""


class PosteriorCovariance(ABC):
    """``Sigma = (K^-1 + T)^-1`` at the training inputs, by the inverse of a factor.

    ``variances`` of shape (n,) is the diagonal of Sigma. For a dense prior this holds n x n
    numbers: keep it no longer than needed.
    """

    variances: Array

    @abstractmethod
    def products(self) -> CovarianceProducts:
        """Products with Sigma; asked only where `SiteFactor.has_products`."""

    @abstractmethod
    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Any:
        """Cotangent G by K of an evidence, as `PriorForm.pull` takes it.

        The gradient of ``(nu^T m - log |I + T K|) / 2 + g^T m + h^T diag(Sigma)`` at fixed sites,
        ``G = (a a^T - R) / 2 + sym((P g) a^T) + P diag(h) P^T`` with ``P = (I + T K)^-1``,
        ``R = P T`` and ``a = P nu = K^-1 m``. g and h (None: zero) are the evidence's derivatives
        by the marginal means and variances; h is zero where tau is. Laplace's method has RW06 eq.
        5.22 to 5.24 from it.
        """


class SequentialCovariance(ABC):
    """Sigma while the sites change block by block (RW06 eq. 3.70); the caller owns it."""

    @abstractmethod
    def rows(self, part: slice) -> Array:
        """Rows ``Sigma_B`` of a block of sites, shape (k, n)."""

    @abstractmethod
    def update(self, part: slice, rows: Array, d_tau: Array) -> None:
        """Add ``d_tau`` to the precisions of a block, whose rows are given as they are now.

        ``Sigma - Sigma_B^T W Sigma_B`` with ``W = (D^-1 + Sigma_BB)^-1``, ``D = diag(d_tau)``.
        Raises `LinAlgError` or `NotPositiveDefiniteError` where that is not proper.
        """

    @abstractmethod
    def own_variance(self, i: int, tau: Array) -> float:
        """Variance of latent i that `rows` leaves out, as no other latent shares it."""


class SiteFactor(ABC):
    """A prior given sites of precisions ``T = diag(tau)``, tau of shape (n,) and of any sign.

    ``Sigma = (K^-1 + T)^-1 = K - K R K`` with ``R = (K + T^-1)^-1``; no inverse of K occurs.
    ``has_products`` says whether `PosteriorCovariance.products` costs no more than the factor did.
    If not, iterations do without Newton's method in all sites.
    """

    tau: Array
    has_products: ClassVar[bool] = True

    @property
    @abstractmethod
    def log_det(self) -> float:
        """``log |I + T K|``."""

    @abstractmethod
    def solve(self, r: Array) -> Array:
        """``(I + T K)^-1 r``, shape (n,) (RW06 Algorithm 3.1, lines 5 to 7)."""

    @abstractmethod
    def covariance(self) -> PosteriorCovariance:
        """Form what marginal variances and gradients need: more work than the factor itself."""

    @abstractmethod
    def sequential_covariance(self) -> SequentialCovariance:
        """Sigma as sequential schedules need it, a new object at each call."""

    @abstractmethod
    def new_weights(self, a: Array) -> Array:
        """``B^T a``, shape (r,): the mean at new inputs is ``K_cross^T B^T a``.

        ``K_cross``, (r, m), is what `PriorForm.cross` gives, and ``B K_cross`` the covariance of
        the n latents and m new ones. B is the identity where the form gives that itself.
        """

    @abstractmethod
    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T B^T R B K_cross)``, shape (m,), for K_cross (r, m), overwritten."""

    @abstractmethod
    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T B^T R B K_cross``, (m, m); both arguments are overwritten."""

    def explained_precision(self, r: int) -> Array:
        """``B^T R B`` itself, (r, r), for K_cross of r rows."""
        return -self.conditional_covariance(np.eye(r), np.zeros((r, r)))


class Prior(ABC):
    """A Gaussian prior over the n latent values at the training inputs.

    What follows is about ``f - mean``, which is zero-mean. `gpclass.testing.check_prior` checks the
    laws: ``multiply`` is linear and symmetric, ``diagonal`` is that of ``multiply``, and for a
    factor of any ``tau`` with a proper posterior ``solve(r + tau * multiply(r)) = r``; the
    variances are the diagonal of ``v -> multiply(solve(v))``; ``log_det`` is that of ``I + T K``.
    """

    mean: Array | None

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of latent values."""

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a covariance that is not positive semi-definite, which `factor` may not notice.

        Raises NotPositiveDefiniteError, which names the kernel and what to do.
        """

    @abstractmethod
    def multiply(self, v: Array) -> Array:
        """``K v``, shape (n,)."""

    @abstractmethod
    def inner(self, G: Any) -> float:
        """``sum_ij G_ij K_ij`` for a cotangent G: the derivative by the logarithm of K's scale."""

    @abstractmethod
    def factor(self, tau: Array) -> SiteFactor:
        """Factorise for site precisions ``tau`` of shape (n,).

        Raises NotPositiveDefiniteError where the posterior given these sites is not proper.
        """


class PriorForm(ABC):
    """How a prior is held: makes it from a kernel; a frozen dataclass of settings."""

    @abstractmethod
    def make(self, kernel: Kernel, X: Any, jitter: float) -> Prior:
        """Prior at the training inputs X, with ``jitter`` added to its variances."""

    @abstractmethod
    def pull(self, kernel: Kernel, X: Any, prior: Any, G: Any) -> Array:
        """Gradient by ``kernel.theta`` from a cotangent G of a prior that this form has made."""

    @abstractmethod
    def points(self, X: Any) -> Any:
        """The r inputs whose covariances with new ones `cross` gives: X where they are all."""

    @abstractmethod
    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """Covariances with m new latent values, (r, m), and variances, (m,), in new arrays."""


@final
@dataclass
class RefactoredCovariance(SequentialCovariance):
    """Sigma of a prior that is cheap to factorise: a new factor at every change.

    ``own`` is the prior's `own_variance`.
    """

    prior: Prior
    factor: SiteFactor
    own: Callable[[int, Array], float] = lambda i, tau: 0.0

    def rows(self, part: slice) -> Array:
        """Rows of Sigma, one product a row."""
        units = np.zeros((part.stop - part.start, self.prior.n))
        units[:, part] = np.eye(len(units))
        return np.stack([self.prior.multiply(self.factor.solve(unit)) for unit in units])

    def update(self, part: slice, rows: Array, d_tau: Array) -> None:
        """Factorise for the changed precisions."""
        tau = self.factor.tau.copy()
        tau[part] += d_tau
        self.factor = self.prior.factor(tau)

    def own_variance(self, i: int, tau: Array) -> float:
        """As it was given."""
        return self.own(i, tau)
