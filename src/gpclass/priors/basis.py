"""Rows in the basis of inducing points: a kernel's features, and what they leave of variances."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.kernels import diagonal, pullback_cross, rectangle
from gpclass.linalg import EPS, Array

# Jitter on the diagonal of K_ZZ, in units of m eps max K_ZZ: what rounding may make negative.
JITTER: Final = 4.0 * EPS
# Part of a row's variance by which rounding may make its remainder negative.
ROUNDING: Final = 1e-6


@final
@dataclass(frozen=True)
class Basis:
    """Features ``u(x) = L^-1 k(Z, x)`` of inducing inputs Z, ``L L^T = k(Z, Z) + jitter I``.

    k(Z, Z) is that of different rows: an inducing value has no noise of a WhiteKernel.
    """

    kernel: Kernel
    Z: Any
    L: Array

    @classmethod
    def of(cls, kernel: Kernel, Z: Any) -> "Basis":
        """Factor k(Z, Z); NotPositiveDefiniteError where the kernel is not positive definite."""
        K = rectangle(kernel, Z, Z)
        K.flat[:: len(K) + 1] += JITTER * len(K) * K.diagonal().max(initial=0.0)
        try:
            return cls(kernel, Z, linalg.cholesky(K, "the covariance of the inducing points"))
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(f"{error}, by the kernel {kernel}") from error

    def check(self) -> None:
        """Refuse a factor that is not finite; rows are looked at when their features are formed."""
        if not np.isfinite(self.L.diagonal()).all():
            raise NotPositiveDefiniteError(f"the kernel {self.kernel} overflows at inducing points")

    def left(self, X: Any, explained: Array) -> Array:
        """Variances of rows that their features, of these squared lengths, leave.

        NotPositiveDefiniteError where one is negative, or not finite.
        """
        variances = diagonal(self.kernel, X)
        delta = variances - explained
        # false for NaN as well
        proper = delta >= -ROUNDING * variances
        if not proper.all():
            raise NotPositiveDefiniteError(
                f"the kernel {self.kernel} is not finite or not positive semi-definite at "
                f"{np.count_nonzero(~proper)} rows of X"
            )
        return np.maximum(delta, 0.0)

    def pull(self, P: Array) -> Array:
        """Gradient by theta through L, of a scalar whose derivative by L is ``-L^-T P``.

        P is symmetric, and read from its lower triangle.
        """
        G = P.copy()
        linalg.mirror_lower(G)
        for _ in range(2):
            G = np.ascontiguousarray(
                linalg.solve_lower_columns_in_place(self.L, G, transposed=True).T
            )
        G *= -0.5
        # the jitter follows the largest variance
        largest = int(np.argmax(diagonal(self.kernel, self.Z)))
        G[largest, largest] += JITTER * len(G) * np.trace(G)
        return pullback_cross(self.kernel, self.Z, self.Z, G)
