"""The questions that an inference method asks a prior; it never sees how K is held."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class SiteFactor(ABC):
    """What a prior N(0, K) becomes beside sites of precision ``tau = s^2``.

    Everything is expressed by ``B = I + S K S`` (RW06 eq. 3.26), whose eigenvalues are at least 1,
    and never by an inverse of K. ``R = S B^-1 S = (K + T^-1)^-1`` and
    ``Sigma = (K^-1 + T)^-1 = K - K R K``.
    """

    @property
    @abstractmethod
    def tau(self) -> Array:
        """Site precisions, shape (n,)."""

    @property
    @abstractmethod
    def log_det(self) -> float:
        """``log |B|``."""

    @abstractmethod
    def shrink(self, r: Array) -> Array:
        """``(I + T K)^-1 r = r - R K r``, shape (n,)."""

    @abstractmethod
    def marginal_variances(self) -> Array:
        """Diagonal of Sigma, shape (n,)."""

    @abstractmethod
    def pullback(self, a: Array, mean_adjoint: Array | None) -> object:
        """Cotangent of the evidence by the prior's covariance.

        ``(a a^T - R) / 2 + sym(u a^T)``, where ``u = (I + T K)^-1 g`` and g is
        ``mean_adjoint`` (None: zero) times the marginal variances.
        """

    @abstractmethod
    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (n, m), which is overwritten."""


class Prior(ABC):
    """A zero-mean Gaussian prior over the n latent values at the training inputs.

    Laws, each a check in `gpclass.testing.check_prior`: ``multiply`` is linear and symmetric,
    ``diagonal`` is that of ``multiply``, and for a factor of any ``tau >= 0``:
    ``shrink(r + tau * multiply(r)) = r``; ``marginal_variances`` is the diagonal of
    ``v -> multiply(shrink(v))``; ``log_det`` is that of ``I + T K``.
    """

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

    @abstractmethod
    def factor(self, tau: Array) -> SiteFactor:
        """Factorise ``B = I + S K S`` for site precisions ``tau >= 0`` of shape (n,)."""
