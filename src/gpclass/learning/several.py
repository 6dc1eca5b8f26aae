"""Several binary problems learnt side by side."""

from collections.abc import Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpclass.learning.base import BinaryProblem, Learned, Learner, Progress
from gpclass.sites import Sites

Array = NDArray[np.float64]


def learn_all(
    learner: Learner,
    problems: Sequence[BinaryProblem],
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
    problems : sequence of k BinaryProblem
    starts : sequence of k ndarrays of shape (r, p)
    inits : sequence of k Sites or None
    n_jobs : int or None
        Processes; the result does not depend on it.
    progress : callable
        Called after each evaluation of the evidence, or each problem where they are parallel.
    """
    if len(problems) == 1:
        return [
            learner.learn(problems[0], starts[0], init=inits[0], n_jobs=n_jobs, progress=progress)
        ]
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    here = progress if parallel.n_jobs == 1 else None
    results = []
    for result in parallel(
        delayed(_learn_alone)(learner, problem, start, init, here)
        for problem, start, init in zip(problems, starts, inits, strict=True)
    ):
        results.append(result)
        if here is None:
            progress(result.log_evidence)
    return results


def _learn_alone(
    learner: Learner,
    problem: BinaryProblem,
    starts: Array,
    init: Sites | None,
    progress: Progress | None,
) -> Learned:
    """One of several problems, with one BLAS thread so that n_jobs changes no bit."""
    with threadpool_limits(limits=1, user_api="blas"):
        return learner.learn(problem, starts, init=init, progress=progress)
