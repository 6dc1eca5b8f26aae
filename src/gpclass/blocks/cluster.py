"""Rows in the partitions of a Dask collection, on whatever scheduler is active.

A pass is one task a partition and a tree of sums of fixed arity, in the order of the partitions,
on the workers: what travels is what is shared, once to each worker, and the sums. A partition is
gone through in blocks of fixed size, so that the sums have the same bits for any number of workers
and any scheduler. Dask is imported when the first object is made.
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from importlib import import_module
from os import cpu_count
from typing import Any, Final, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpclass.blocks.base import (
    ARITY,
    SIZE,
    Block,
    RowBlocks,
    Summands,
    add,
    chosen,
    concatenated,
    divided,
    tree_sum,
)
from gpclass.blocks.workers import active_client, default_budget, import_dask, trouble
from gpclass.exceptions import ClusterLostError

# Times that a pass is begun again where data were lost with all of the workers that had them.
ATTEMPTS: Final = 5
# Seconds between two looks at whether the cluster is there.
LOOK_EVERY: Final = 1.0


class Step(NamedTuple):
    """A function of blocks that is applied again in every pass."""

    function: Callable[..., Any]
    shared: tuple[Any, ...]


@final
class ClusterBlocks(RowBlocks):
    """Partitions of a Dask collection.

    Parameters
    ----------
    parts : sequence of dask.delayed.Delayed
        Each computes a `Block`; it must be possible to compute it again, where a worker was lost.
    sizes : sequence of int
        Rows of each; parts without rows are left out.
    n_bytes : float
        Of all rows; they are held on the workers where they fit the budget.
    size : int, default=4096
        Rows of the blocks that functions are called with; a part's last has what is left.
    budget : float, default=None
        Bytes that one set of blocks may hold. None: a fifth of what their memory limits leave, 1 GB
        where these are threads of this process or have no limit.
    patience : float, default=60.0
        Seconds without any worker that works after which `ClusterLostError` is raised: where there
        is none, or Dask has paused all for their memory. A scheduler that does not answer takes as
        long as Dask's own ``distributed.comm.timeouts.connect`` longer.

    Raises
    ------
    ImportError
        Where dask is not installed.
    ValueError
        If no part has rows, or there are not as many sizes as parts.

    Examples
    --------
    >>> import numpy as np, dask
    >>> from gpclass.blocks import Block
    >>> from gpclass.blocks.cluster import ClusterBlocks
    >>> halves = [Block(X, np.ones(2), np.ones(2)) for X in np.arange(4.0).reshape(2, 2, 1)]
    >>> rows = ClusterBlocks([dask.delayed(half) for half in halves], [2, 2], n_bytes=32)
    >>> rows.reduce(lambda block: (block.X.sum(), len(block.y)))
    (np.float64(6.0), 4)
    """

    def __init__(
        self,
        parts: Sequence[Any],
        sizes: Sequence[int],
        n_bytes: float,
        size: int = SIZE,
        budget: float | None = None,
        patience: float = 60.0,
    ) -> None:
        delayed = import_dask().delayed
        if len(parts) != len(sizes) or sum(sizes) == 0:
            raise ValueError(f"{len(parts)} parts have the sizes {list(sizes)}")
        self.sizes = tuple(int(n) for n in sizes if n)
        cluster = Cluster(default_budget() if budget is None else budget, patience)
        divide = delayed(_divide)
        given = [divide(part, size) for part, n in zip(parts, sizes, strict=True) if n]
        self._rows = _Parts(cluster, lambda _: given, (), n_bytes, None)

    @property
    def passes(self) -> int:
        """Sums over all rows so far, those of derived blocks included."""
        return self._rows.cluster.passes

    @property
    def held(self) -> bool:
        """See `RowBlocks`."""
        return self._rows.fits

    @property
    def n_threads(self) -> int:
        """Threads of the workers, or of Dask in this process; at most one a part."""
        client = active_client()
        if client is not None:
            found = sum(client.nthreads().values())
        else:
            found = import_dask().config.get("num_workers", None) or cpu_count()
        return max(1, min(int(found), len(self.sizes)))

    def reduce(self, function: Callable[..., Summands], *shared: Any) -> Summands:
        """See `RowBlocks`."""
        return self._rows.reduced((Step(function, shared),))

    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> RowBlocks:
        """See `RowBlocks`."""
        return _Derived(self, self._rows, (Step(function, shared),), n_bytes)

    def take(self, rows: NDArray[np.intp]) -> Block:
        """See `RowBlocks`."""
        ends = np.cumsum(self.sizes)
        cuts = np.searchsorted(rows, [0, *ends])
        pick = import_dask().delayed(_picked)

        def tasks(shared: Any) -> list[Any]:
            spans = zip(self._rows.tasks(), self.sizes, ends, cuts[:-1], cuts[1:], strict=True)
            return [pick(part, rows[a:b] - (end - n)) for part, n, end, a, b in spans if b > a]

        return concatenated(self._rows.cluster.run(tasks, (), self._rows.forget))


@final
class _Derived(RowBlocks):
    """What functions make of the blocks of some parts: held, or formed again in every pass."""

    def __init__(
        self, source: RowBlocks, parts: "_Parts", steps: tuple[Step, ...], n_bytes: float
    ) -> None:
        self.sizes, self._source, self._parts, self._steps = source.sizes, source, parts, steps
        if n_bytes <= parts.cluster.budget:
            form = import_dask().delayed(_formed)
            self._steps = ()
            self._parts = _Parts(
                parts.cluster,
                lambda shared: [form(part, shared) for part in parts.tasks()],
                steps,
                n_bytes,
                parts,
            )

    @property
    def held(self) -> bool:
        """See `RowBlocks`."""
        return not self._steps

    def reduce(self, function: Callable[..., Summands], *shared: Any) -> Summands:
        """See `RowBlocks`."""
        return self._parts.reduced((*self._steps, Step(function, shared)))

    def derive(self, function: Callable[..., Any], *shared: Any, n_bytes: float) -> RowBlocks:
        """See `RowBlocks`."""
        return _Derived(self, self._parts, (*self._steps, Step(function, shared)), n_bytes)

    def take(self, rows: NDArray[np.intp]) -> Block:
        """Rows of the source."""
        return self._source.take(rows)


@final
class _Parts:
    """Tasks that compute lists of blocks, one a partition; held where all together fit the budget.

    ``make`` gives the tasks, of a task that has what is ``shared``.
    """

    def __init__(
        self,
        cluster: "Cluster",
        make: Callable[[Any], list[Any]],
        shared: tuple[Step, ...],
        n_bytes: float,
        source: "_Parts | None",
    ) -> None:
        self.cluster, self._make, self._shared, self._source = cluster, make, shared, source
        self.fits = n_bytes <= cluster.budget
        self._held: list[Any] | None = None

    def tasks(self) -> list[Any]:
        """Tasks, held from their first use on."""
        if not self.fits:
            return self._make(None)
        if self._held is None:
            # with the reference to what is shared, from which a lost part is computed again
            shared = self.cluster.share(self._shared)
            self._held = self.cluster.hold(self._make(shared))
            self._reference = shared
        return self._held

    def _placed(self) -> tuple[list[Any], list[Any]]:
        """Tasks, and the workers that hold their results: none where this is not known yet."""
        tasks, client = self.tasks(), active_client()
        if client is None or self._held is None:
            return tasks, [[] for _ in tasks]
        holders = client.who_has(import_module("distributed").futures_of(tasks))
        return tasks, [list(holders.get(task.key, ())) for task in tasks]

    def forget(self) -> None:
        """Form what was held again at its next use."""
        self._held = None
        if self._source is not None:
            self._source.forget()

    def reduced(self, steps: tuple[Step, ...]) -> Summands:
        """Sum over all blocks of what the last of the steps returns."""
        delayed = import_dask().delayed

        def tasks(shared: Any) -> list[Any]:
            parts = []
            for part, workers in zip(*self._placed(), strict=True):
                # else the scheduler moves parts to idle workers, which are larger than the sums
                where = {"workers": workers, "allow_other_workers": True} if workers else {}
                with import_dask().annotate(**where):
                    parts.append(delayed(_summed)(part, shared))
            while len(parts) > 1:
                nodes = [parts[i : i + ARITY] for i in range(0, len(parts), ARITY)]
                parts = [delayed(add)(*node) for node in nodes]
            return parts

        (total,) = self.cluster.run(tasks, steps, self.forget)
        self.cluster.passes += 1
        return cast(Summands, total)


@final
@dataclass
class Cluster:
    """The active scheduler: ``budget`` and ``patience`` as of `ClusterBlocks`; passes so far."""

    budget: float
    patience: float
    passes: int = 0

    def share(self, shared: Any) -> Any:
        """A task that has ``shared``: scattered to all workers, where these are processes."""
        client = active_client()
        if client is None:
            return import_dask().delayed(shared, traverse=False)
        lost = 0
        while True:
            self._wait_for_workers(client)
            try:
                return client.scatter([shared], broadcast=True, hash=False)[0]
            except OSError:  # a worker was lost meanwhile
                lost += 1
                if lost == ATTEMPTS:
                    raise
                time.sleep(LOOK_EVERY)

    def hold(self, tasks: list[Any]) -> list[Any]:
        """The tasks, whose results stay where they were computed, and are there on return.

        Tasks that waited for them, and for what they are formed of, would keep all of that.
        """
        with threadpool_limits(1, user_api="blas"):
            held = list(import_dask().persist(*tasks))
        client = active_client()
        if client is not None:
            self._await(client, import_module("distributed").futures_of(held))
        return held

    def run(
        self, make: Callable[[Any], list[Any]], shared: Any, forget: Callable[[], None]
    ) -> list[Any]:
        """Results of the tasks that ``make`` gives of a task with what is shared.

        Where data were lost with all of the workers that had them, all is begun again after
        ``forget()``.
        """
        client = active_client()
        if client is None:
            # as the processes of a cluster have: the number of threads changes the last bits
            with threadpool_limits(1, user_api="blas"):
                return list(import_dask().compute(*make(self.share(shared))))
        for _ in range(ATTEMPTS - 1):
            try:
                return self._gathered(client, make(self.share(shared)))
            except CancelledError:
                forget()
        return self._gathered(client, make(self.share(shared)))

    def _gathered(self, client: Any, tasks: list[Any]) -> list[Any]:
        futures = client.compute(tasks)
        self._await(client, futures)
        return list(client.gather(futures))

    def _await(self, client: Any, futures: list[Any]) -> None:
        """Wait for futures; ClusterLostError where there is nobody to compute them."""
        wait: Any = import_module("distributed").wait
        while True:
            try:
                wait(futures, timeout=LOOK_EVERY)
            except TimeoutError:
                self._wait_for_workers(client)
            else:
                return

    def _wait_for_workers(self, client: Any) -> None:
        """Return as soon as a worker works; ClusterLostError if there is none for so long."""
        start = time.monotonic()
        while (reason := trouble(client)) is not None:
            if time.monotonic() - start > self.patience:
                raise ClusterLostError(
                    f"the Dask cluster at {client.scheduler.address} {reason} for "
                    f"{self.patience:g} s"
                )
            time.sleep(min(LOOK_EVERY, 0.1 * self.patience))


def _divide(block: Block, size: int) -> list[Block]:
    _release_what_was_read()
    return list(divided(block, size))


def _release_what_was_read() -> None:
    """Hand back what Arrow keeps of Parquet files for its next: 80 MB, for which Dask may pause."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def _made(block: Any, steps: tuple[Step, ...]) -> Any:
    for function, shared in steps:
        block = function(block, *shared)
    return block


def _formed(blocks: list[Any], steps: tuple[Step, ...]) -> list[Any]:
    return [_made(block, steps) for block in blocks]


def _summed(blocks: list[Any], steps: tuple[Step, ...]) -> Summands:
    return tree_sum(_made(block, steps) for block in blocks)


def _picked(blocks: list[Block], rows: NDArray[np.intp]) -> Block:
    X, y, weights = concatenated(blocks)
    return Block(chosen(X, rows), y[rows], weights[rows])
