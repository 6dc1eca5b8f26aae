"""Rows in this process's memory."""

from collections.abc import Callable, Iterator
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.blocks.base import SIZE, Block, RowBlocks, Summands, chosen, divided, tree_sum
from gpclass.linalg import Array, blocks

# Bytes that one set of derived blocks may hold.
BUDGET: Final = 1e9


@final
class LocalBlocks(RowBlocks):
    """Slices of arrays in memory.

    Parameters
    ----------
    X : ndarray of shape (n, d) or sequence of n objects
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    size : int, default=4096
        Rows of a block; the last has what is left.
    budget : float, default=1e9
        Bytes that one set of derived blocks may hold.

    Raises
    ------
    ValueError
        If there are no rows, or the lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0)[:, None]
    >>> rows = LocalBlocks(X, np.ones(6), np.ones(6), size=4)
    >>> rows.reduce(lambda block, power: ((block.X**power).sum(), len(block.y)), 2)
    (np.float64(55.0), 6)
    >>> rows.derive(lambda block: 2.0 * block.X, n_bytes=48).reduce(lambda X: (X.sum(),))
    (np.float64(30.0),)
    """

    def __init__(
        self, X: Any, y: NDArray[Any], weights: Array, size: int = SIZE, budget: float = BUDGET
    ) -> None:
        if not len(X) == len(y) == len(weights) or len(y) == 0:
            raise ValueError(
                f"X has {len(X)} rows, y {len(y)} and weights {len(weights)}: expected one number, "
                "and not zero"
            )
        self._rows, self._size, self._budget = Block(X, y, weights), size, budget
        self.sizes = tuple(part.stop - part.start for part in blocks(len(y), size))

    def __iter__(self) -> Iterator[Block]:
        return divided(self._rows, self._size)

    @property
    def held(self) -> bool:
        """See `RowBlocks`."""
        return True

    def reduce(self, function: Callable[..., Summands], *shared: Any) -> Summands:
        """See `RowBlocks`."""
        return tree_sum(function(block, *shared) for block in self)

    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> RowBlocks:
        """See `RowBlocks`."""
        return _Derived(self, function, shared, n_bytes, self._budget)

    def take(self, rows: NDArray[np.intp]) -> Block:
        """See `RowBlocks`."""
        X, y, weights = self._rows
        return Block(chosen(X, rows), y[rows], weights[rows])


@final
class _Derived(RowBlocks):
    """What a function makes of the blocks of a source."""

    def __init__(
        self,
        source: "LocalBlocks | _Derived",
        function: Callable[..., Any],
        shared: tuple[Any, ...],
        n_bytes: float,
        budget: float,
    ) -> None:
        self.sizes, self._source, self._budget = source.sizes, source, budget
        self._function, self._shared = function, shared
        self._held = [function(block, *shared) for block in source] if n_bytes <= budget else None

    def __iter__(self) -> Iterator[Any]:
        if self._held is not None:
            return iter(self._held)
        return (self._function(block, *self._shared) for block in self._source)

    @property
    def held(self) -> bool:
        """See `RowBlocks`."""
        return self._held is not None

    def reduce(self, function: Callable[..., Summands], *shared: Any) -> Summands:
        """See `RowBlocks`."""
        return tree_sum(function(block, *shared) for block in self)

    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> RowBlocks:
        """See `RowBlocks`."""
        return _Derived(self, function, shared, n_bytes, self._budget)

    def take(self, rows: NDArray[np.intp]) -> Block:
        """Rows of the source."""
        return self._source.take(rows)
