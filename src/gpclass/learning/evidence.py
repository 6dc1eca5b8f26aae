"""Hyperparameters by maximising the evidence (type-II maximum likelihood), or left as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.sites import Sites
from gpclass.learning.objective import Objective, Point, RunResult, report
from gpclass.learning.problem import Learned, Learner, Problem, Progress
from gpclass.learning.search import climb
from gpclass.learning.starts import from_every_start, settle

Array = NDArray[np.float64]
Optimizer = Callable[..., tuple[Array, float]]


def _run(
    optimizer: str | Optimizer,
    problem: Problem,
    start: Array,
    init: Sites | None,
    progress: Progress | None,
) -> RunResult:
    """One optimisation from one start."""
    searching = problem if callable(optimizer) else problem.while_searching()
    objective = Objective(searching, init, progress)
    bounds = problem.bounds
    if callable(optimizer):
        # The user's optimizer decides which theta is best: it may know more than the evidence.
        end = _returned_theta(optimizer(objective, start, bounds=bounds), start)
        message = "the optimizer that was given returned"
        last = objective.evaluate(end, gradient=False)
        chosen = last and Point.of(end, last)
    else:
        message, chosen = climb(objective, start, bounds, problem)
        end = chosen.theta if chosen is not None else np.array(start)
    return report(objective, start, end, chosen, message)


def _returned_theta(returned: Any, start: Array) -> Array:
    """Theta from what a user's optimizer returned."""
    try:
        theta, _ = returned
        theta = np.asarray(theta, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"optimizer must return a pair (theta, minimum), got {returned!r}"
        ) from error
    if theta.shape != start.shape or not np.isfinite(theta).all():
        raise ValueError(
            f"optimizer must return a theta of {len(start)} finite numbers, got {theta!r}"
        )
    return theta


@final
@dataclass(frozen=True)
class MaximiseEvidence(Learner):
    """L-BFGS-B over theta within the kernel's bounds, or a user's optimizer.

    Parameters
    ----------
    optimizer : "fmin_l_bfgs_b" or callable, default="fmin_l_bfgs_b"
        A callable has scikit-learn's signature
        ``optimizer(obj_func, initial_theta, bounds) -> (theta, minimum)``.

    References
    ----------
    RW06 section 3.4.4 and section 5.5.1 of the same book.
    """

    optimizer: str | Optimizer = "fmin_l_bfgs_b"

    def __post_init__(self) -> None:
        """Refuse an optimizer that does not exist."""
        if not callable(self.optimizer) and self.optimizer != "fmin_l_bfgs_b":
            raise ValueError(
                f"optimizer must be 'fmin_l_bfgs_b', a callable or None, got {self.optimizer!r}"
            )

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Sites | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Run from every start and keep the best.

        Several runs take one BLAS thread each whatever n_jobs is.

        Raises
        ------
        NotPositiveDefiniteError
            Where the evidence cannot be evaluated at any start.
        """
        return from_every_start(
            partial(_run, self.optimizer),
            problem,
            starts,
            init=init,
            n_jobs=n_jobs,
            progress=progress,
        )


@final
@dataclass(frozen=True)
class KeepFixed(Learner):
    """No learning: the hyperparameters stay where the kernel has them."""

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Sites | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Evaluate the evidence once."""
        learned = settle(problem, problem.theta, init, ())
        if progress is not None:
            progress(learned.log_evidence)
        return learned
