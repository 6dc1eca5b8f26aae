"""Runs of an optimiser from several starts, and what is reported of the best."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.sites import Sites
from gpclass.learning.objective import RunResult
from gpclass.learning.parallel import SMALL, runs_here, side_by_side
from gpclass.learning.problem import Learned, LearningRun, Problem, Progress

Array = NDArray[np.float64]


class Run(Protocol):
    """One optimisation from one start; it must be picklable."""

    def __call__(
        self, problem: Problem, start: Array, init: Sites | None, progress: Progress | None
    ) -> RunResult:
        """Optimise; sites may be given for the very first evaluation."""


def from_every_start(
    run: Run,
    problem: Problem,
    starts: Array,
    *,
    init: Sites | None,
    n_jobs: int | None,
    progress: Progress | None,
) -> Learned:
    """Run from every start and keep the best.

    Several runs take one BLAS thread each whatever n_jobs is.

    Raises
    ------
    NotPositiveDefiniteError
        Where the evidence cannot be evaluated at any start.
    """
    bounds = problem.bounds
    if (bounds[:, 0] == bounds[:, 1]).all():
        # nothing is free: no hyperparameters, or each between two equal bounds
        return settle(problem, bounds[:, 0], init, ())
    here = runs_here(len(starts), n_jobs)
    results: list[RunResult] = side_by_side(
        run,
        [(problem.while_learning(), start, init, progress if here else None) for start in starts],
        n_jobs=n_jobs,
        single_thread=len(starts) > 1 or problem.n_rows < SMALL,
    )
    if progress is not None and not here:
        for result in results:
            progress(result.run.log_evidence)
    best = max(results, key=lambda result: result.rank)
    if best.sites is None:
        # Where not even the start can be evaluated this raises in the kernel's own words. Else
        # rounding rules everywhere, and the outcome there says so.
        problem.evaluate(starts[0])
        return settle(problem, starts[0], None, tuple(result.run for result in results))
    return settle(problem, best.run.end, best.sites, tuple(result.run for result in results))


def settle(
    problem: Problem, theta: Array, init: Sites | None, runs: tuple[LearningRun, ...]
) -> Learned:
    """Evaluate once more at theta, and refuse a kernel that is not positive semi-definite."""
    final = problem.evaluate(theta, gradient=False, init=init, check=True)
    return Learned(
        theta=theta,
        log_evidence=final.log_evidence,
        sites=final.approximation.sites,
        outcome_name=final.approximation.outcome.name,
        n_iter=final.approximation.n_iter,
        runs=runs,
    )
