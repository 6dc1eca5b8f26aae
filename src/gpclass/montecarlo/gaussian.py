"""Gaussians that can be drawn from: the prior, singular or not, and the prior beside sites."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.sites import Sites
from gpclass.priors import DensePrior, Prior

Array = NDArray[np.float64]


class Pairs(NamedTuple):
    """Latent values ``f = K a`` and the weights a behind them, each of shape (n, R)."""

    f: Array
    a: Array


@final
@dataclass(frozen=True)
class LatentGaussian:
    """A Gaussian ``f = mean + root u``, ``u ~ N(0, I)``, over values of the form ``f = K a``.

    Values are about the prior's own mean, where it has one. K enters by its eigenvectors of
    positive eigenvalue alone, so a singular K needs no jitter: the draws lie in its range, and the
    mean at a new input is ``k^T a`` without an inverse.

    Parameters
    ----------
    mean : ndarray of shape (n,)
    root : ndarray of shape (n, r)
        ``root root^T`` is the covariance; r is the numerical rank of K.
    mean_weights : ndarray of shape (n,)
        ``mean = K mean_weights``.
    weight_root : ndarray of shape (n, r)
        ``root = K weight_root``.
    log_mass : float
        Logarithm of the integral of what was normalised: 0 for a prior, ``log int p(f) prod
        site_i df`` for a prior beside sites.

    Examples
    --------
    >>> import numpy as np
    >>> rank_one = LatentGaussian.prior(np.ones((3, 3)))
    >>> rank_one.root.shape
    (3, 1)
    >>> f, a = rank_one.draw(np.random.default_rng(0), 2)
    >>> bool(np.allclose(f[0], f[1])) and bool(np.allclose(np.ones((3, 3)) @ a, f))
    True
    """

    mean: Array
    root: Array
    mean_weights: Array
    weight_root: Array
    log_mass: float

    @classmethod
    def prior(cls, K: Prior | ArrayLike) -> "LatentGaussian":
        """``N(0, K)``, from ``K = U diag(l) U^T`` without the eigenvalues under ``n eps max(l)``.

        ``root = U l^1/2`` and ``weight_root = U l^-1/2``.

        Parameters
        ----------
        K : DensePrior, or array-like of shape (n, n)
            Symmetric positive semi-definite.

        Raises
        ------
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        TypeError
            For a prior that does not hold the whole of K.
        """
        if not isinstance(K, Prior):
            K = DensePrior(np.ascontiguousarray(K, dtype=np.float64))
        if not isinstance(K, DensePrior):
            raise TypeError(
                "Monte Carlo draws from the exact prior and needs the whole covariance matrix: a "
                f"DensePrior or an array, got {type(K).__name__}"
            )
        K.check()
        values, vectors = linalg.symmetric_eigen(K.K)
        largest = float(values.max(initial=0.0))
        kept = values > K.n * np.finfo(float).eps * largest
        scale, vectors = np.sqrt(values[kept]), vectors[:, kept]
        zero = np.zeros(K.n)
        return cls(zero, vectors * scale, zero, vectors / scale, 0.0)

    def beside(self, sites: Sites) -> "LatentGaussian":
        """Multiply a prior by Gaussian sites: ``q(f) = p(f) prod_i site_i / Z``.

        In the coordinates u of the prior its precision is ``M = I + root^T T root``, whose least
        eigenvalue is at least 1 where no site precision is negative; negative ones are allowed as
        long as M is positive definite. ``log Z = nu^T mean / 2 - log |M| / 2``.

        Parameters
        ----------
        sites : Sites
            One a row of K.

        Raises
        ------
        ValueError
            For another number of sites, or where this is not a prior.
        NotPositiveDefiniteError
            Where the negative site precisions leave no proper Gaussian.
        """
        n, r = self.root.shape
        if len(sites) != n:
            raise ValueError(f"there are {len(sites)} sites where the prior has {n} latent values")
        if self.mean.any() or self.log_mass != 0.0:
            raise ValueError("sites are multiplied to a prior, and this Gaussian has some already")
        if r == 0:
            return self
        M = linalg.gram(self.root, sites.tau)
        M.flat[:: r + 1] += 1.0
        try:
            L = linalg.cholesky(M, "I + root^T T root")
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(
                f"the prior beside these sites is no proper Gaussian: {error}; its negative site "
                f"precisions (the least is {sites.tau.min():.3g}) outweigh the prior"
            ) from error
        return self.conditioned(L, sites.nu)

    def conditioned(self, L: Array, nu: Array) -> "LatentGaussian":
        """Multiply a prior by ``exp(nu^T f)`` and a quadratic form, ``I + root^T T root = L L^T``.

        Parameters
        ----------
        L : ndarray of shape (r, r)
            Lower triangular.
        nu : ndarray of shape (n,)
        """
        # u = L^-T u', so that the new root is root L^-T, the transpose of L^-1 root^T
        root = linalg.solve_lower_columns_in_place(L, self.root.T.copy(order="C")).T
        weight_root = linalg.solve_lower_columns_in_place(L, self.weight_root.T.copy(order="C")).T
        shift = linalg.product(root.T, nu[:, None])
        mean = linalg.product(root, shift)[:, 0]
        log_mass = 0.5 * float(nu @ mean) - 0.5 * linalg.log_det_factored(L)
        mean_weights = linalg.product(weight_root, shift)[:, 0]
        return LatentGaussian(mean, root, mean_weights, weight_root, log_mass)

    @property
    def n(self) -> int:
        """Number of latent values."""
        return len(self.root)

    @property
    def rank(self) -> int:
        """Number r of coordinates u."""
        return int(self.root.shape[1])

    def inverse_times(self, f: Array) -> Array:
        """``K^+ f`` for f of shape (n, R) in the range of K, for a prior."""
        weights: Array = linalg.product(self.weight_root.T, f)
        return linalg.product(self.weight_root, weights)

    def spread(self, u: Array) -> Array:
        """``root u`` for u of shape (r, R)."""
        return linalg.product(self.root, u)

    def at(self, u: Array) -> Pairs:
        """Latent values and weights at coordinates u of shape (r, R)."""
        return Pairs(
            self.mean[:, None] + linalg.product(self.root, u),
            self.mean_weights[:, None] + linalg.product(self.weight_root, u),
        )

    def draw(self, rng: np.random.Generator, n_draws: int) -> Pairs:
        """Independent draws, f and a of shape (n, n_draws)."""
        return self.at(rng.standard_normal((self.rank, n_draws)))
