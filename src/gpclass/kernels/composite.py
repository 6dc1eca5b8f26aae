"""Sums, products and powers of bound kernels: the chain rule, tile by tile."""

from typing import Any, NoReturn, final

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Exponentiation, Kernel, Product, Sum

from gpclass.kernels.tiles import COMPOUND, BoundKernel, LogDifferentiable, bind, binds
from gpclass.linalg import Array


@final
class _Sum(BoundKernel):
    def __init__(self, a: BoundKernel, b: BoundKernel) -> None:
        self.n_theta = a.n_theta + b.n_theta
        self._a, self._b = a, b

    def value(self, rows: slice, cols: slice) -> Array:
        tile = self._a.value(rows, cols)
        tile += self._b.value(rows, cols)
        return tile

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        return np.concatenate([self._a.pull(rows, cols, G), self._b.pull(rows, cols, G)])


def _product_value(a: BoundKernel, b: BoundKernel, rows: slice, cols: slice) -> Array:
    tile = a.value(rows, cols)
    tile *= b.value(rows, cols)
    return tile


@final
class _LogProduct(LogDifferentiable):
    """``log K = log K_a + log K_b``: both factors pull the same M."""

    def __init__(self, a: LogDifferentiable, b: LogDifferentiable) -> None:
        self.n_theta = a.n_theta + b.n_theta
        self._a, self._b = a, b

    def value(self, rows: slice, cols: slice) -> Array:
        return _product_value(self._a, self._b, rows, cols)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        return np.concatenate([self._a.pull_log(rows, cols, M), self._b.pull_log(rows, cols, M)])


@final
class _MixedProduct(BoundKernel):
    """``dK = K_b dK_a + K_a dK_b`` where a factor may vanish or change sign."""

    def __init__(self, a: BoundKernel, b: BoundKernel) -> None:
        self.n_theta = a.n_theta + b.n_theta
        self._a, self._b = a, b

    def value(self, rows: slice, cols: slice) -> Array:
        return _product_value(self._a, self._b, rows, cols)

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        parts = [
            factor.pull(rows, cols, G * other.value(rows, cols))
            for factor, other in ((self._a, self._b), (self._b, self._a))
            if factor.n_theta
        ]
        return np.concatenate([np.zeros(0), *parts])


def _raise(tile: Array, exponent: float) -> Array:
    if exponent == 2.0:
        tile *= tile
    elif exponent != 1.0:
        tile **= exponent
    return tile


@final
class _LogPower(LogDifferentiable):
    """``log K^p = p log K``."""

    def __init__(self, base: LogDifferentiable, exponent: float) -> None:
        self.n_theta = base.n_theta
        self._base, self._exponent = base, exponent

    def value(self, rows: slice, cols: slice) -> Array:
        return _raise(self._base.value(rows, cols), self._exponent)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        return self._exponent * self._base.pull_log(rows, cols, M)


@final
class _Power(BoundKernel):
    """``dK^p = p K^(p-1) dK``."""

    def __init__(self, base: BoundKernel, exponent: float) -> None:
        self.n_theta = base.n_theta
        self._base, self._exponent = base, exponent

    def value(self, rows: slice, cols: slice) -> Array:
        return _raise(self._base.value(rows, cols), self._exponent)

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        if self.n_theta == 0:
            return np.zeros(0)
        base = self._base.value(rows, cols)
        weighted = G * _raise(base.copy(), self._exponent - 1.0)
        return self._exponent * self._base.pull(rows, cols, weighted, base)


@binds(Sum)
def _bind_sum(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    return _Sum(bind(kernel.k1, X, X_new), bind(kernel.k2, X, X_new))


@binds(Product)
def _bind_product(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    a, b = bind(kernel.k1, X, X_new), bind(kernel.k2, X, X_new)
    if isinstance(a, LogDifferentiable) and isinstance(b, LogDifferentiable):
        return _LogProduct(a, b)
    return _MixedProduct(a, b)


@binds(Exponentiation)
def _bind_power(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    base, exponent = bind(kernel.kernel, X, X_new), float(kernel.exponent)
    if isinstance(base, LogDifferentiable):
        return _LogPower(base, exponent)
    return _Power(base, exponent)


@final
class KernelList(CompoundKernel):  # type: ignore[misc]  # scikit-learn has no types
    """A list of kernels, one a class or one a problem, whose elements can be read in its text.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> KernelList([RBF(1.0), 2.0 * RBF(3.0)])
    CompoundKernel([RBF(length_scale=1), 1.41**2 * RBF(length_scale=3)])
    """

    def __repr__(self) -> str:
        return f"CompoundKernel([{', '.join(map(repr, self.kernels))}])"


@binds(CompoundKernel)
def _refuse_compound(kernel: Kernel, X: Any, X_new: Any | None) -> NoReturn:
    raise ValueError(COMPOUND)
