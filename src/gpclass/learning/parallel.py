"""Tasks side by side, with results that do not depend on how many at a time."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

# Fewer rows than this run on one BLAS thread: a second saves nothing, and on a busy machine
# waiting for it made scikit-learn's estimator checks (tens of rows) thirty times slower.
SMALL: Final = 400


def one_blas_thread(really: bool) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, or to nothing."""
    return _libraries().limit(limits=1, user_api="blas") if really else nullcontext()


@cache
def _libraries() -> Any:
    """The libraries that are loaded: a search that takes 2 ms, as long as two evaluations."""
    return ThreadpoolController()


def side_by_side(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    n_jobs: int | None,
    single_thread: bool,
) -> list[Any]:
    """Call ``function(*task)`` for each task.

    A factorisation rounds differently for each number of BLAS threads, so tasks that may run in
    parallel get one thread each whether they do or not. The limit belongs to a process: it is set
    here for this one and all its threads, and by each task for a process of its own.
    """
    with one_blas_thread(single_thread):
        if effective_n_jobs(n_jobs) == 1 or len(tasks) == 1:
            return [function(*task) for task in tasks]
        return list(
            Parallel(n_jobs=n_jobs)(
                delayed(_in_worker)(function, task, os.getpid(), single_thread) for task in tasks
            )
        )


def runs_here(n_tasks: int, n_jobs: int | None) -> bool:
    """Whether `side_by_side` calls the tasks one after the other in this thread."""
    return n_tasks == 1 or bool(effective_n_jobs(n_jobs) == 1)


def _in_worker(
    function: Callable[..., Any], task: tuple[Any, ...], parent: int, single_thread: bool
) -> Any:
    if os.getpid() == parent:
        return function(*task)
    with one_blas_thread(single_thread):
        return function(*task)
