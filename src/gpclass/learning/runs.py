"""Runs of an optimiser from several starts, and several problems learnt side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import LARGEST_EVIDENCE
from gpclass.learning.learner import Learned, Learner, Progress, node_at
from gpclass.learning.objective import RunResult
from gpclass.learning.parallel import SMALL, runs_here, side_by_side
from gpclass.learning.problem import Problem

Array = NDArray[np.float64]
# One optimisation of a problem from a start, with sites for the first inference; picklable.
Run = Callable[[Problem, Array, object, Progress | None], RunResult]


def from_every_start(
    run: Run,
    problem: Problem,
    starts: Array,
    *,
    init: object,
    n_jobs: int | None,
    progress: Progress | None,
) -> Learned:
    """Run from every start and keep the best; several runs take one BLAS thread each."""
    bounds = problem.bounds
    if (bounds[:, 0] == bounds[:, 1]).all():
        # nothing is free: no hyperparameters, or each between two equal bounds
        return Learned((node_at(problem, bounds[:, 0], init),))
    if getattr(problem, "source", None) is not None:
        n_jobs = None  # its rows lie with the workers of a cluster already
    here = runs_here(len(starts), n_jobs)
    results: list[RunResult] = side_by_side(
        run,
        [(problem, start, init, progress if here else None) for start in starts],
        n_jobs=n_jobs,
        single_thread=len(starts) > 1 or problem.n_rows < SMALL,
    )
    if progress is not None and not here:
        for result in results:
            progress(result.run.log_evidence)
    best = max(results, key=lambda result: result.rank).chosen
    runs = tuple(result.run for result in results)
    if best is None:
        # raises where not even the start can be evaluated; else its outcome says what rules
        problem.evaluate(starts[0])
        node = node_at(problem, starts[0], None)
        before = replace(node, log_evidence=np.nan)
    else:
        node = node_at(problem, best.theta, best.sites)
        before = replace(node, log_evidence=best.log_evidence, sites=best.sites)
    if node.log_evidence > LARGEST_EVIDENCE:  # the last inference collapsed
        node = before
    return Learned((node,), runs)


def learn_all(
    learners: Sequence[Learner],
    problems: Sequence[Problem],
    starts: Sequence[Array],
    inits: Sequence[object],
    *,
    n_jobs: int | None,
    progress: Progress,
) -> list[Learned]:
    """Learn each problem: one by its restarts in parallel, several side by side.

    ``learners``, ``starts`` (each of shape (r, p)) and ``inits`` are one a problem. ``progress`` is
    called after each evaluation of the evidence, or each problem where they are parallel.
    """
    tasks = list(zip(learners, problems, starts, inits, strict=True))
    if len(tasks) == 1:
        learner, problem, start, init = tasks[0]
        return [learner.learn(problem, start, init=init, n_jobs=n_jobs, progress=progress)]
    here = runs_here(len(tasks), n_jobs)
    learn = partial(_learn, progress if here else None)
    results = side_by_side(learn, tasks, n_jobs=n_jobs, single_thread=True)
    if not here:
        for result in results:
            progress(result.log_evidence)
    return results


def _learn(
    progress: Progress | None, learner: Learner, problem: Problem, starts: Array, init: object
) -> Learned:
    return learner.learn(problem, starts, init=init, n_jobs=1, progress=progress)
