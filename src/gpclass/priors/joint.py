"""What the joint models of many classes ask of their prior; none of them sees how K is held."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.linalg import Array
from gpclass.priors.base import Preconditioner

Codes = NDArray[np.intp]
# From the diagonals of the class blocks F_cc to the derivative of an evidence by the mean.
MeanAdjoint = Callable[[Array], Array]


def as_codes(codes: ArrayLike, n: int, n_classes: int) -> Codes:
    """Class indices of n rows, checked: ValueError unless they are whole, from 0 to C - 1."""
    given = np.asarray(codes)
    if given.shape != (n,):
        raise ValueError(f"codes must have one class for each of {n} rows, got {given.shape}")
    found = given.astype(np.intp)
    if not (found == given).all() or (found < 0).any() or (found >= n_classes).any():
        raise ValueError(f"codes must be whole numbers from 0 to {n_classes - 1}")
    return found


class JointFactor(ABC):
    """Factor of the prior of C latent functions, given sites of precision W.

    ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)`` in the C latent values of row i; d of shape (n, C) is
    zero in the rows without a site. In what follows ``F = W (I + K W)^-1``, so that
    ``Sigma = (K^-1 + W)^-1 = K - K F K``; vectors of all n C latent values are arrays of shape (n,
    C). ``log_det`` is ``log |I + W K|``.

    Laws: ``solve(B) + W K solve(B) = B``; variances, ``marginals``, ``predict`` and ``joint`` are
    those of Sigma.
    """

    d: Array
    log_det: float

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """``(I + W K)^-1 B``, shape (n, C)."""

    @abstractmethod
    def difference_variances(self, codes: Codes) -> Array:
        """Posterior variances of ``f^ - f_j``, shape (n, C); zero for a row's own class.

        f^ is the mean of the row's latent values weighted by d. Sums of squares: nothing cancels.
        """

    @abstractmethod
    def marginals(self) -> Array:
        """Posterior covariances of each training row's latents, shape (n, C, C)."""

    @abstractmethod
    def pullback(self, a: Array, mean_adjoint: MeanAdjoint | None = None) -> Any:
        """Cotangent of an evidence by the prior's covariance, in the prior's own form.

        That of a dense prior is ``(a_c a_c^T - F_cc) / 2 + sym(u_c a_c^T)`` for each class c, with
        mean weights ``a = K^-1 m`` of shape (n, C) and ``u = (I + W K)^-1 g``. ``mean_adjoint``
        gives g, the derivative of the evidence by the posterior mean, from the diagonals of the
        blocks F_cc, shape (n, C); None: g is zero.
        """

    @abstractmethod
    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> Array:
        """Posterior covariances of the classes at m new inputs, shape (m, C, C).

        ``K_cross`` is the covariance of training and new inputs, (n, m), one or one a class; its
        columns past the length of ``k_diag`` are padding. k_diag has prior variances, (m[, C]).
        """

    @abstractmethod
    def joint(self, K_cross: Array | Sequence[Array], K_new: Array | Sequence[Array]) -> Array:
        """Posterior covariances of all latents at m new inputs together, shape (m, C, m, C).

        ``K_new`` is their prior covariance, (m, m) or one a class; ``K_cross`` as for `predict`.
        """


class JointPrior(ABC):
    """Zero-mean Gaussian prior over the latent values of C classes at n training inputs.

    Laws: ``multiply`` is linear and symmetric, and ``diagonal`` is its diagonal.
    """

    n_classes: int

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """Prior variances, shape (n, C)."""

    @abstractmethod
    def multiply(self, F: Array) -> Array:
        """``K F`` for F of shape (n, C)."""

    @abstractmethod
    def check(self) -> None:
        """Raise NotPositiveDefiniteError for covariances that are indefinite beyond rounding."""

    @abstractmethod
    def factor(self, d: Array) -> JointFactor:
        """Factorise for sites of precision ``diag(d_i) - d_i d_i^T / sum(d_i)``, d of shape (n, C).

        A row of zeros is a row without a site. Raises ValueError for another shape and for entries
        that are negative or not finite, NotPositiveDefiniteError for an indefinite covariance.
        """

    @abstractmethod
    def preconditioner(self, omega: Array) -> Preconditioner | None:
        """``(K^-1 + diag(omega))^-1``, one positive precision a row, shape (n,), for all classes.

        None where it would cost about as much as `factor`.
        """


class JointPriorForm(ABC):
    """How a `JointPrior` is made from one kernel that all classes share, or from one a class."""

    @abstractmethod
    def make(
        self, kernels: Sequence[Kernel], n_classes: int, X: Any, jitters: Sequence[float]
    ) -> JointPrior:
        """Prior at the inputs X, with each kernel's jitter added to its variances."""

    @abstractmethod
    def pull(self, kernels: Sequence[Kernel], X: Any, prior: Any, G: Any) -> Array:
        """Gradient by the theta of each kernel in turn, from `JointFactor.pullback`."""

    @abstractmethod
    def cross(self, kernels: Sequence[Kernel], X: Any, X_new: Any) -> tuple[Any, Array]:
        """``K_cross`` and ``k_diag`` as `JointFactor.predict` takes them."""
