"""Several binary problems learnt side by side."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.sites import Sites
from gpclass.learning.parallel import runs_here, side_by_side
from gpclass.learning.problem import Learned, Learner, Problem, Progress

Array = NDArray[np.float64]


def learn_all(
    learner: Learner,
    problems: Sequence[Problem],
    starts: Sequence[Array],
    inits: Sequence[Sites | None],
    *,
    n_jobs: int | None,
    progress: Progress,
) -> list[Learned]:
    """Learn each problem: one by its restarts in parallel, several side by side.

    Parameters
    ----------
    learner : Learner
    problems : sequence of k Problem
    starts : sequence of k ndarrays of shape (r, p)
    inits : sequence of k Sites or None
    n_jobs : int or None
        Tasks at a time; the result does not depend on it.
    progress : callable
        Called after each evaluation of the evidence, or each problem where they are parallel.
    """
    tasks = list(zip(problems, starts, inits, strict=True))
    if len(tasks) == 1:
        problem, start, init = tasks[0]
        return [learner.learn(problem, start, init=init, n_jobs=n_jobs, progress=progress)]
    here = runs_here(len(tasks), n_jobs)
    learn = partial(_learn, learner, progress if here else None)
    results = side_by_side(learn, tasks, n_jobs=n_jobs, single_thread=True)
    if not here:
        for result in results:
            progress(result.log_evidence)
    return results


def _learn(
    learner: Learner,
    progress: Progress | None,
    problem: Problem,
    starts: Array,
    init: Sites | None,
) -> Learned:
    return learner.learn(problem, starts, init=init, n_jobs=1, progress=progress)
