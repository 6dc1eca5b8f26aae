"""Kernels that do not look at a distance: constant, white noise, dot product."""

from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, WhiteKernel

from gpclass.kernels.distances import gram, symmetrise
from gpclass.kernels.theta import n_free
from gpclass.kernels.tiles import BoundKernel, LogDifferentiable, binds, shape_of
from gpclass.linalg import Array


@final
class _Constant(LogDifferentiable):
    """``k = c``."""

    def __init__(self, c: float, n_theta: int) -> None:
        self.c = c
        self.n_theta = n_theta

    def value(self, rows: slice, cols: slice) -> Array:
        return np.full(shape_of(rows, cols), self.c)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        return np.full(self.n_theta, M.sum())


@final
class _White(BoundKernel):
    """``k(i, j) = s [i = j]`` for training rows, 0 between training and new rows."""

    def __init__(self, noise: float, n_theta: int, same: bool) -> None:
        self.n_theta = n_theta
        self._noise, self._same = noise, same

    def _on_diagonal(self, rows: slice, cols: slice) -> bool:
        return self._same and rows == cols

    def value(self, rows: slice, cols: slice) -> Array:
        tile = np.zeros(shape_of(rows, cols))
        if self._on_diagonal(rows, cols):
            np.fill_diagonal(tile, self._noise)
        return tile

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        trace = np.trace(G) if self._on_diagonal(rows, cols) else 0.0
        return np.full(self.n_theta, self._noise * trace)


@final
class _Dot(BoundKernel):
    """``k(x, x') = s^2 + x'x'`` (RW06 section 4.2.2)."""

    def __init__(self, kernel: Kernel, X: Array, X_new: Array | None) -> None:
        self.n_theta = n_free(kernel)
        self._bias = float(kernel.sigma_0) ** 2
        self._left = X
        self._right = X_new

    def value(self, rows: slice, cols: slice) -> Array:
        if self._right is None:
            tile = gram(self._left[rows], self._left[cols])
            if rows == cols:
                symmetrise(tile)
        else:
            # a matrix product rounds by the size of the batch, einsum sums each entry alone
            tile = np.einsum("ik,jk->ij", self._left[rows], self._right[cols], order="C")
        tile += self._bias
        return tile

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        return np.full(self.n_theta, 2.0 * self._bias * G.sum())


@binds(ConstantKernel)
def _bind_constant(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    return _Constant(float(kernel.constant_value), n_free(kernel))


@binds(WhiteKernel)
def _bind_white(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    return _White(float(kernel.noise_level), n_free(kernel), X_new is None)


@binds(DotProduct)
def _bind_dot(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    return _Dot(kernel, X, X_new)
