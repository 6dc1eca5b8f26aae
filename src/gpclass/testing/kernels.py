"""The laws of a kernel, for the library's rules and for users' own classes."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from gpclass.kernels import cross, diagonal, evaluate, pullback
from gpclass.linalg import Array, symmetric_eigen
from gpclass.testing.comparison import difference

# Step of the central differences in log-hyperparameters.
_STEP = 5e-5


def check_kernel(kernel: Kernel, X: Any) -> None:
    """Check a kernel on some inputs against the laws that gpclass relies on.

    With K = ``kernel(X)`` and a fixed random symmetric G, in this order:

    - *values*: K is a finite (n, n) matrix
    - *symmetry*: ``K = K'``
    - *positive semi-definiteness*: no eigenvalue below ``-1e-10`` of the largest
    - *diagonal*: ``kernel.diag(X)`` is the diagonal of K
    - *evaluate*: ``evaluate(kernel, X)`` is K
    - *cross*: ``cross(kernel, X, X)`` is K off the diagonal (noise is on the diagonal of K alone)
    - *theta*: ``clone_with_theta`` keeps theta, takes a new one, and leaves the original as it was
    - *gradient*: ``eval_gradient=True`` returns K and a tensor (n, n, n_theta), whose contraction
      with G agrees with central differences of ``sum(G * K(theta))``, theta being the logarithms
      of the hyperparameters
    - *pullback*: ``pullback(kernel, X, G)`` agrees with these differences, with and without K
    - *sum* and *product*: all of this holds for ``kernel + 0.5`` and ``2 * kernel`` too

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : array-like of shape (n, d) or sequence of n objects
        A few inputs (5 to 50) that differ from each other.

    Raises
    ------
    AssertionError
        Naming the first law that is broken, with the size of the error.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.testing import check_kernel
    >>> check_kernel(2.0 * RBF([1.0, 3.0]), np.arange(10.0).reshape(5, 2))
    """
    _check_values(kernel, X)
    _check_theta(kernel, X)
    _check_gradient(kernel, X)
    K = evaluate(kernel, X)
    for law, composed, expected in (
        ("sum: kernel + 0.5", kernel + 0.5, K + 0.5),
        ("product: 2 * kernel", 2.0 * kernel, 2.0 * K),
    ):
        _agree(law, evaluate(composed, X), expected, 1e-10)
        _check_gradient(composed, X, prefix=f"{law}: ")


def _check_values(kernel: Kernel, X: Any) -> None:
    K = np.asarray(kernel(X), dtype=np.float64)
    n = len(X)
    if K.shape != (n, n) or not np.isfinite(K).all():
        raise AssertionError(f"values: kernel(X) has shape {K.shape}, expected finite {(n, n)}")
    _agree("symmetry: K and its transpose", K, K.T, 1e-12)
    eigenvalues, _ = symmetric_eigen(0.5 * K + 0.5 * K.T)
    if eigenvalues[0] < -1e-10 * max(eigenvalues[-1], 0.0) or eigenvalues[-1] < 0.0:
        raise AssertionError(
            f"positive semi-definiteness: the smallest eigenvalue of K is {eigenvalues[0]:.3g}, "
            f"the largest {eigenvalues[-1]:.3g}"
        )
    _agree("diagonal: kernel.diag(X)", kernel.diag(X), np.diagonal(K), 1e-10)
    _agree("diagonal: gpclass.kernels.diagonal", diagonal(kernel, X), np.diagonal(K), 1e-10)
    _agree("evaluate: gpclass.kernels.evaluate", evaluate(kernel, X), K, 1e-10)
    apart = ~np.eye(n, dtype=bool)
    _agree("cross: kernel(X, X)", np.asarray(kernel(X, X))[apart], K[apart], 1e-10)
    _agree("cross: gpclass.kernels.cross", cross(kernel, X, X)[apart], K[apart], 1e-10)


def _check_theta(kernel: Kernel, X: Any) -> None:
    theta = np.array(kernel.theta)
    if kernel.bounds.size != 2 * theta.size:
        raise AssertionError(
            f"theta: bounds has shape {kernel.bounds.shape}, expected {(theta.size, 2)}"
        )
    _agree("theta: clone_with_theta(theta).theta", _clone(kernel, theta).theta, theta, 1e-12)
    K = evaluate(kernel, X)
    _agree("theta: the clone's values", evaluate(_clone(kernel, theta), X), K, 1e-10)
    moved = theta + 0.1
    _agree("theta: clone_with_theta(theta + 0.1).theta", _clone(kernel, moved).theta, moved, 1e-12)
    _agree("theta: the original's theta after cloning", kernel.theta, theta, 0.0)


def _check_gradient(kernel: Kernel, X: Any, prefix: str = "") -> None:
    n, theta = len(X), np.array(kernel.theta)
    G = np.random.default_rng(0).standard_normal((n, n))
    G += G.T
    K, tensor = kernel(X, eval_gradient=True)
    _agree(f"{prefix}gradient: K of eval_gradient=True", K, kernel(X), 1e-12)
    if tensor.shape != (n, n, theta.size):
        raise AssertionError(
            f"{prefix}gradient: eval_gradient=True returned shape {tensor.shape}, expected "
            f"{(n, n, theta.size)}"
        )

    def weighted_sum(t: float, k: int) -> float:
        return float(np.sum(G * _clone(kernel, theta + t * np.eye(theta.size)[k])(X)))

    differences = [difference(partial(weighted_sum, k=k), _STEP) for k in range(theta.size)]
    # relative to the absolute terms of the sum, which may cancel
    scale = np.einsum("ij,ijk->k", np.abs(G), np.abs(tensor))
    rounding = 1e-10 * float(np.abs(G * K).sum())
    contraction = np.einsum("ij,ijk->k", G, tensor)
    pulled = pullback(kernel, X, G)
    for law, value in (
        ("gradient: eval_gradient=True against central differences", contraction),
        ("pullback: gpclass.kernels.pullback against central differences", pulled),
        ("pullback: with K given", pullback(kernel, X, G, evaluate(kernel, X))),
    ):
        _agree(prefix + law, value, differences, 1e-5 * scale + rounding, absolute=True)


def _clone(kernel: Kernel, theta: Array) -> Kernel:
    return kernel.clone_with_theta(theta.copy())


def _agree(
    law: str,
    value: ArrayLike,
    expected: ArrayLike,
    tolerance: float | Array,
    absolute: bool = False,
) -> None:
    value, expected = np.asarray(value, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if value.shape != expected.shape:
        raise AssertionError(f"{law} has shape {value.shape}, expected {expected.shape}")
    if value.size == 0:
        return
    error = np.abs(value - expected)
    allowed = tolerance if absolute else tolerance * np.abs(expected).max()
    # written so that NaN fails
    if not np.all(error <= allowed):
        raise AssertionError(f"{law} is off by {np.max(error):.3g}, allowed {np.max(allowed):.3g}")
