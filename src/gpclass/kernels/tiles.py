"""Kernels bound to their inputs (scaled and centred once), and evaluated tile by tile.

A pass over an n x n matrix takes the time of reading it from memory, unless it is made while a tile
is in the processor's cache. Of a symmetric matrix only the lower triangle is evaluated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass.linalg import Array, blocks

# 192 x 192 doubles are 0.3 MB: two or three such tiles stay in a second-level cache, and rows
# that are not a power of two apart do not compete for the same cache lines when transposed.
TILE = 192

COMPOUND = (
    "kernel is a CompoundKernel, which is several kernels and not one; "
    "pass one of its `kernels`, or their sum or product"
)


class BoundKernel(ABC):
    """A kernel k_theta with its inputs: values, and gradients by theta, tile by tile.

    Rows index the n training inputs; columns index the same inputs, or the new inputs that the
    kernel was bound to. A tile is a pair of slices with explicit start and stop. ``n_theta`` counts
    the hyperparameters that are not fixed, in the order of scikit-learn's ``kernel.theta``.
    """

    n_theta: int

    @abstractmethod
    def value(self, rows: slice, cols: slice) -> Array:
        """``K[rows, cols]``, a new array that the caller may overwrite."""

    @abstractmethod
    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        """``sum_ij G_ij dK_ij/dtheta`` over the tile; G and ``value``, if known, are read only."""


class LogDifferentiable(BoundKernel):
    """A kernel whose logarithm has the simpler gradient.

    ``sum G dK = sum M dlog K`` with ``M = G o K``, and one M serves every factor of a product.
    """

    @abstractmethod
    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        """``sum_ij M_ij dlog K_ij/dtheta`` over the tile; M is read only."""

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        """Gradient of ``sum(G * K[rows, cols])`` by theta."""
        if self.n_theta == 0:
            return np.zeros(0)
        M = self.value(rows, cols) if value is None else value
        return self.pull_log(rows, cols, G * M)


@final
class _Opaque(BoundKernel):
    """A kernel that is known by its calls alone; whole matrices are evaluated once and kept."""

    def __init__(self, kernel: Kernel, X: Any, X_new: Any | None) -> None:
        self.n_theta = int(kernel.n_dims)
        self._kernel, self._X, self._X_new = kernel, X, X_new
        self._values: Array | None = None
        self._gradients: Array | None = None

    def value(self, rows: slice, cols: slice) -> Array:
        if self._values is None:
            self._values = np.asarray(self._kernel(self._X, self._X_new), dtype=np.float64)
        tile = np.array(self._values[rows, cols], order="C")
        if self._X_new is None and rows == cols:
            # calls that end in a matrix product are symmetric to rounding only
            tile = 0.5 * tile + 0.5 * tile.T
        return tile

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        if self.n_theta == 0:
            return np.zeros(0)
        if self._gradients is None:
            values, gradients = self._kernel(self._X, eval_gradient=True)
            self._values = np.asarray(values, dtype=np.float64)
            self._gradients = np.asarray(gradients, dtype=np.float64)
        return np.asarray(np.einsum("ij,ijk->k", G, self._gradients[rows, cols]))


_RULES: dict[type[Kernel], Callable[..., BoundKernel]] = {}
Rule = TypeVar("Rule", bound=Callable[..., BoundKernel])


def binds(kernel_class: type[Kernel]) -> Callable[[Rule], Rule]:
    """Register a rule ``(kernel, X, X_new or None) -> BoundKernel`` for a kernel class.

    It does not serve subclasses that define their own ``__call__``.
    """

    def register(rule: Rule) -> Rule:
        _RULES[kernel_class] = rule
        return rule

    return register


def bind(kernel: Kernel, X: Any, X_new: Any | None = None) -> BoundKernel:
    """Bind a kernel to training inputs, and to new inputs for the columns if given."""
    rule = _rule(type(kernel))
    return (_Opaque if rule is None else rule)(kernel, X, X_new)


def _rule(cls: type[Kernel]) -> Callable[..., BoundKernel] | None:
    owner = next((c for c in cls.__mro__ if c in _RULES), None)
    return _RULES[owner] if owner is not None and cls.__call__ is owner.__call__ else None


def has_rules(kernel: Kernel) -> bool:
    """Whether all parts of a kernel expression have rules: then no matrix is evaluated whole."""
    parts = (kernel, *kernel.get_params(deep=True).values())
    return all(_rule(type(part)) is not None for part in parts if isinstance(part, Kernel))


def read_inputs(kernel: Kernel, X: Any) -> Any:
    """Read inputs as the kernel takes them: a C-contiguous float64 table, or the objects."""
    if not kernel.requires_vector_input:
        return X
    return np.ascontiguousarray(np.atleast_2d(np.asarray(X, dtype=np.float64)))


def lower_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Tiles that cover the lower triangle of an (n, n) matrix, diagonal tiles whole."""
    parts = list(blocks(n, TILE))
    for i, rows in enumerate(parts):
        for cols in parts[: i + 1]:
            yield rows, cols


def shape_of(rows: slice, cols: slice) -> tuple[int, int]:
    """Shape of a tile."""
    return rows.stop - rows.start, cols.stop - cols.start
