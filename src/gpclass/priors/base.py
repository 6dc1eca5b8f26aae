"""The questions that an inference method asks a prior; it never sees how K is held."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class SiteFactor(ABC):
    """What a prior N(0, K) becomes beside sites of precision ``tau``, which may be negative.

    Everything is expressed by ``M = J + S K S`` with ``S = |T|^1/2`` and J the signs of T, which
    is RW06's ``B = I + S K S`` (eq. 3.26) where none is negative, and never by an inverse of K.
    ``R = S M^-1 S = (K + T^-1)^-1`` and ``Sigma = (K^-1 + T)^-1 = K - K R K``.

    Attributes
    ----------
    forms_covariance : bool
        Whether Sigma can be formed for about what the factor cost. Where it cannot, iterations
        do without their Newton steps in all sites at once.
    """

    forms_covariance: ClassVar[bool] = True

    @property
    @abstractmethod
    def tau(self) -> Array:
        """Site precisions, shape (n,)."""

    @property
    @abstractmethod
    def log_det(self) -> float:
        """``log |I + T K|``."""

    @abstractmethod
    def shrink(self, r: Array) -> Array:
        """``(I + T K)^-1 r = r - R K r``, shape (n,)."""

    @abstractmethod
    def marginal_variances(self) -> Array:
        """Diagonal of Sigma, shape (n,)."""

    @abstractmethod
    def multiply(self, v: Array) -> Array:
        """``Sigma v``, shape (n,)."""

    @abstractmethod
    def covariance(self) -> Array:
        """Lower triangle of Sigma, shape (n, n), without what `Prior.variance_apart` says."""

    @abstractmethod
    def weighted_covariance(self, *, last: bool) -> Array:
        """Lower triangle of Sigma, shape (n, n), right where it is weighted by site precisions.

        That is, as ``S Sigma S`` is right. Cheaper than `covariance` after the variances, and in
        the memory that they left where nothing else will be asked (``last``).
        """

    @abstractmethod
    def release(self) -> None:
        """Give up the memory of what can be computed again."""

    @abstractmethod
    def pullback(
        self, a: Array, mean_adjoint: Array | None = None, variance_adjoint: Array | None = None
    ) -> object:
        """Cotangent by the prior's covariance of an evidence with these adjoints.

        ``(a a^T - R) / 2 + sym((P g) a^T) + P diag(h) P^T``, where ``P = (I + T K)^-1`` and g and
        h (None: zero) are the derivatives of the evidence by the marginal means and variances; h
        is zero beside sites of no precision, which do not move.
        """

    @abstractmethod
    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (n, m), which is overwritten."""


class Prior(ABC):
    """A Gaussian prior over the n latent values at the training inputs.

    What follows is about ``f - mean``, which is zero-mean.

    Laws, each a check in `gpclass.testing.check_prior`: ``multiply`` is linear and symmetric,
    ``diagonal`` is that of ``multiply``, and for a factor of any ``tau`` of a proper posterior:
    ``shrink(r + tau * multiply(r)) = r``; ``marginal_variances`` is the diagonal of
    ``v -> multiply(shrink(v))``; ``log_det`` is that of ``I + T K``.
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
    def multiply(self, v: Array) -> Array:
        """``K v``, shape (n,)."""

    def variance_apart(self, tau: Array, i: int) -> float:
        """What a latent's variance beside sites has that no other latent shares.

        It is part of `SiteFactor.marginal_variances`, and not of `SiteFactor.covariance`.
        """
        return 0.0

    @abstractmethod
    def factor(self, tau: Array) -> SiteFactor:
        """Factorise ``J + S K S`` for site precisions ``tau`` of shape (n,).

        Raises
        ------
        NotPositiveDefiniteError
            Where the posterior beside these sites is not proper.
        """
