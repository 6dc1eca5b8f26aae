"""The prior of a linear function, ``K = U U^T`` by its columns: weights and nothing of its own."""

from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, Product

from gpclass.linalg import Array
from gpclass.priors.base import PriorForm
from gpclass.priors.inducing import Cotangent, InducingPrior


@final
@dataclass(frozen=True)
class Linear(PriorForm):
    """A kernel ``ConstantKernel(c) * DotProduct(s, "fixed")``, as the weights of a line.

    Rounding cannot make it indefinite, so it takes no jitter.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
    >>> from gpclass.priors.linear import Linear
    >>> kernel = ConstantKernel(4.0) * DotProduct(1.0, "fixed")
    >>> Linear().make(kernel, np.array([[3.0], [5.0]]), 0.0).U
    array([[ 6.,  2.],
           [10.,  2.]])
    """

    def columns(self, kernel: Kernel, X: Any) -> Array:
        """U of shape (n, d + 1): what the weights of variance 1 multiply.

        Raises
        ------
        ValueError
            For another kernel.
        """
        constant: Any = getattr(kernel, "k1", None)
        dot: Any = getattr(kernel, "k2", None)
        known = isinstance(constant, ConstantKernel) and isinstance(dot, DotProduct)
        if not (isinstance(kernel, Product) and known and dot.n_dims == 0):
            raise ValueError(
                f"a linear prior takes ConstantKernel(c) * DotProduct(s, 'fixed'), got {kernel}"
            )
        X = np.asarray(X, dtype=np.float64)
        bias = np.full((len(X), 1), float(dot.sigma_0))
        return np.asarray(np.sqrt(constant.constant_value) * np.hstack([X, bias]))

    def make(self, kernel: Kernel, X: Any, jitter: float) -> InducingPrior:
        """Prior at the training inputs."""
        U = self.columns(kernel, X)
        return InducingPrior(U, np.zeros(len(U)))

    def pull(self, kernel: Kernel, X: Any, prior: InducingPrior, G: Cotangent) -> Array:
        """Gradient by the logarithm of the constant, where that is free."""
        return np.full(kernel.n_dims, prior.inner(G))

    def points(self, X: Any) -> NoReturn:
        """Raise ValueError: weights are at no inputs."""
        raise ValueError("a linear prior is held by its weights, which are at no inputs")

    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """Covariances of the weights and new latent values, (d + 1, k), and their variances."""
        U = self.columns(kernel, X_new)
        return np.ascontiguousarray(U.T), np.einsum("ij,ij->i", U, U)
