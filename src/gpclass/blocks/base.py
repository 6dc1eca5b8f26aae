"""What every collection of rows answers: sums over its blocks, blocks made of them, a sample."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpclass.linalg import Array, blocks

# What is summed over blocks: arrays and numbers, the same shapes from every block.
Summands = tuple[Any, ...]

# Rows of a block: products of 4096 x 500 numbers run at full speed, and 16 MB are little memory.
SIZE: Final = 4096
# Sums that a node of the tree adds: on a cluster, how many m x m matrices come together at once.
ARITY: Final = 8


class Block(NamedTuple):
    """Rows: X (b, d) as kernels take it; y (b,), -1/+1 or classes from 0; weights (b,)."""

    X: Any
    y: NDArray[Any]
    weights: Array


class RowBlocks(ABC):
    """Rows in numbered blocks, each a `Block` or what `derive` made of it.

    Laws, of the same blocks wherever they lie:

    - ``reduce(f, *shared)`` is the sum of ``f(block, *shared)`` over the blocks, by a tree of fixed
      arity in the order of their numbers: the same bits for any number of workers
    - ``derive(f, *shared, n_bytes=...).reduce(g)`` is ``reduce(lambda b: g(f(b, *shared)))``
    - ``sample(n, seed)`` depends on the rows' order alone, and not on where blocks begin

    Attributes
    ----------
    sizes : tuple of int
        Rows of each block; on a cluster, of each of its parts, which are several blocks.
    """

    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Rows of all blocks together."""
        return sum(self.sizes)

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether blocks are at hand, so that a pass does not form them again."""

    @property
    def n_threads(self) -> int:
        """Threads that take blocks at a time."""
        return 1

    @abstractmethod
    def reduce(self, function: Callable[..., Summands], *shared: Any) -> Summands:
        """Sum over the blocks of the tuples ``function(block, *shared)``.

        ``function`` is pure, and importable where blocks lie in other processes.
        """

    @abstractmethod
    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> "RowBlocks":
        """Blocks ``function(block, *shared)``.

        They are held where all of them together, ``n_bytes``, fit the budget; else each is formed
        again in every pass.
        """

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Block:
        """Rows by their ascending numbers, as one block in memory."""

    def sample(self, n: int, seed: int) -> Block:
        """``n`` rows (all, if there are fewer) in their order, drawn without replacement."""
        if n >= self.n_rows:
            return self.take(np.arange(self.n_rows))
        drawn = np.random.default_rng(seed).choice(self.n_rows, n, replace=False, shuffle=False)
        return self.take(np.sort(drawn))


def add(*parts: Summands) -> Summands:
    """Sum of tuples, entry by entry, from left to right."""
    return reduce(lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), parts)


def tree_sum(parts: Iterable[Summands]) -> Summands:
    """Sum of tuples by a tree: every `ARITY` of them, then every `ARITY` of these sums, and so on.

    At most one partial sum a level is in memory.
    """
    nodes: _Nodes = {}
    for part in parts:
        _put(nodes, part, 0)
    while len(nodes) > 1:
        level = min(nodes)
        _put(nodes, nodes.pop(level)[0], level + 1)
    ((total, _),) = nodes.values()
    return total


# By level: a sum that is not complete, and how many it has so far.
_Nodes = dict[int, tuple[Summands, int]]


def _put(nodes: _Nodes, part: Summands, level: int) -> None:
    before, count = nodes.pop(level, ((), 0))
    total = add(before, part) if count else part
    if count + 1 == ARITY:
        _put(nodes, total, level + 1)
    else:
        nodes[level] = total, count + 1


def divided(block: Block, size: int) -> Iterator[Block]:
    """A block in blocks of at most ``size`` rows, which are views of it."""
    for part in blocks(len(block.y), size):
        yield Block(*(one[part] for one in block))


def concatenated(blocks: Iterable[Block]) -> Block:
    """Blocks as one."""
    X, y, weights = zip(*blocks, strict=True)
    return Block(joined(X), np.concatenate(y), np.concatenate(weights))


def joined(parts: Iterable[Any]) -> Any:
    """Inputs of several blocks as one table, or one list of objects."""
    parts = list(parts)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [x for part in parts for x in part]


def chosen(X: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of a table, or of a sequence of objects."""
    return X[rows] if isinstance(X, np.ndarray) else [X[i] for i in rows]
