"""Derivatives of covariances by the new inputs."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)

from gpclass.kernels.columns import ColumnKernel
from gpclass.kernels.evaluate import cross, diagonal, quiet
from gpclass.kernels.selection import pick
from gpclass.kernels.stationary import radial_weight
from gpclass.kernels.tiles import read_inputs
from gpclass.linalg import Array


def input_pullback(kernel: Any, X: Any, X_new: Any, G: Array) -> Array:
    """Gradient of ``sum_ij G_ij k(x_i, z_j)`` by the new inputs z.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        `RBF`, `Matern`, `DotProduct`, `ConstantKernel`, `WhiteKernel`, `ColumnKernel`, and sums,
        products and powers of them.
    X : array-like of shape (n, d)
        Training inputs. At these a Matern of nu = 1/2 has no derivative, and its part is 0.
    X_new : array-like of shape (m, d)
    G : ndarray of shape (n, m)

    Returns
    -------
    ndarray of shape (m, d)

    Raises
    ------
    ValueError
        For other kernels, naming them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import input_pullback
    >>> input_pullback(2.0 * RBF(1.0), np.array([[0.0]]), np.array([[1.0]]), np.ones((1, 1)))
    array([[-1.21306132]])
    """
    X, X_new = read_inputs(kernel, X), read_inputs(kernel, X_new)
    with quiet():
        return _rule(kernel)(kernel, X, X_new, G)


def diagonal_slope(kernel: Any, X_new: Any) -> Array:
    """Gradient of the prior variances ``k(z, z)`` by z, shape (m, d); raises as `input_pullback`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import DotProduct
    >>> from gpclass.kernels import diagonal_slope
    >>> diagonal_slope(DotProduct(1.0), np.array([[1.0, 3.0]]))
    array([[2., 6.]])
    """
    X_new = read_inputs(kernel, X_new)
    _rule(kernel)
    if isinstance(kernel, Sum):
        return diagonal_slope(kernel.k1, X_new) + diagonal_slope(kernel.k2, X_new)
    if isinstance(kernel, Product):
        a, b = (diagonal(part, X_new)[:, None] for part in (kernel.k1, kernel.k2))
        by_a, by_b = (diagonal_slope(part, X_new) for part in (kernel.k1, kernel.k2))
        return np.asarray(by_a * b + by_b * a)
    if isinstance(kernel, Exponentiation):
        base = diagonal(kernel.kernel, X_new)[:, None]
        p = float(kernel.exponent)
        return np.asarray(p * base ** (p - 1.0) * diagonal_slope(kernel.kernel, X_new))
    slope: Array = np.zeros_like(X_new)
    if isinstance(kernel, DotProduct):
        slope = 2.0 * X_new
    elif isinstance(kernel, ColumnKernel):
        _scatter(kernel, slope, diagonal_slope(kernel.spread, kernel.chosen(X_new)))
    return slope


def _nothing(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    return np.zeros_like(X_new)


def _dot(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    return np.asarray(G.T @ X)


def _radial(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    """``dk / dz = w k (x - z) / l^2`` with ``w = -2 dlog k / d(r^2)``."""
    M = G * cross(kernel, X, X_new)
    weight = radial_weight(kernel, X, X_new)
    if weight is not None:
        M *= weight
    # a common shift is no change, and keeps the digits of the difference
    centre = X.mean(axis=0)
    pulled = M.T @ (X - centre) - M.sum(axis=0)[:, None] * (X_new - centre)
    return np.asarray(pulled / np.square(kernel.length_scale))


def _sum(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    parts = (kernel.k1, kernel.k2)
    return np.asarray(sum(_rule(part)(part, X, X_new, G) for part in parts))


def _product(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    a, b = kernel.k1, kernel.k2
    by_a = _rule(a)(a, X, X_new, G * cross(b, X, X_new))
    return by_a + _rule(b)(b, X, X_new, G * cross(a, X, X_new))


def _power(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    base, p = kernel.kernel, float(kernel.exponent)
    return _rule(base)(base, X, X_new, G * p * cross(base, X, X_new) ** (p - 1.0))


def _columns(kernel: Any, X: Array, X_new: Array, G: Array) -> Array:
    inner, slope = kernel.spread, np.zeros_like(X_new)
    found = _rule(inner)(inner, kernel.chosen(X), kernel.chosen(X_new), G)
    return _scatter(kernel, slope, found)


def _scatter(kernel: Any, slope: Array, found: Array) -> Array:
    """Add slopes of the chosen columns to those of all, in place."""
    chosen = pick(kernel.columns, kernel.positions, slope.shape[1])
    for k, column in enumerate(chosen):
        slope[:, column] += found[:, k]
    return slope


Rule = Callable[[Any, Array, Array, Array], Array]
_RULES: Final[dict[type[Any], Rule]] = {
    RBF: _radial,
    Matern: _radial,
    DotProduct: _dot,
    ConstantKernel: _nothing,
    WhiteKernel: _nothing,
    ColumnKernel: _columns,
    Sum: _sum,
    Product: _product,
    Exponentiation: _power,
}


def _rule(kernel: Any) -> Rule:
    # by the class itself: a subclass may have another value
    found = _RULES.get(type(kernel))
    if found is None:
        known = ", ".join(one.__name__ for one in _RULES)
        raise ValueError(
            f"no derivative by the inputs is known for the kernel {kernel}; it is for {known}"
        )
    return found
