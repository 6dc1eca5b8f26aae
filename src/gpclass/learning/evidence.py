"""Hyperparameters by maximising the evidence: type-II maximum likelihood."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Learner, Progress
from gpclass.learning.objective import Criterion, Objective, RunResult, by_evidence, report
from gpclass.learning.problem import Problem
from gpclass.learning.runs import from_every_start
from gpclass.learning.search import SearchSettings, maximise

Array = NDArray[np.float64]
Optimizer = Callable[..., tuple[Array, float]]


@final
@dataclass(frozen=True)
class MaximiseEvidence(Learner):
    """L-BFGS-B over theta within the kernel's bounds, or a user's optimizer.

    Parameters
    ----------
    optimizer : "fmin_l_bfgs_b" or callable, default="fmin_l_bfgs_b"
        A callable has scikit-learn's signature
        ``optimizer(obj_func, initial_theta, bounds) -> (theta, minimum)``.
    hyperprior : HyperPrior or None, default=None
        Its log density is added to the evidence (maximum a posteriori).
    settings : SearchSettings
        Numbers of L-BFGS-B's search.

    References
    ----------
    RW06 section 3.4.4 and section 5.5.1 of the same book.
    """

    optimizer: str | Optimizer = "fmin_l_bfgs_b"
    hyperprior: HyperPrior | None = None
    settings: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        """Refuse an optimizer that does not exist."""
        check_optimizer(self.optimizer)

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: object = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Run from every start and keep the best."""
        run = partial(run_optimizer, self.optimizer, self.settings, self.hyperprior, by_evidence)
        return from_every_start(run, problem, starts, init=init, n_jobs=n_jobs, progress=progress)


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer that does not exist."""
    if not callable(optimizer) and optimizer != "fmin_l_bfgs_b":
        raise ValueError(
            f"optimizer must be 'fmin_l_bfgs_b', a callable or None, got {optimizer!r}"
        )


def run_optimizer(
    optimizer: str | Optimizer,
    settings: SearchSettings,
    hyperprior: HyperPrior | None,
    criterion: Criterion,
    problem: Problem,
    start: Array,
    init: object,
    progress: Progress | None,
) -> RunResult:
    """One optimisation of a criterion from one start."""
    objective = Objective(problem, init, progress, hyperprior, criterion)
    if callable(optimizer):
        # the user's optimizer decides which theta is best: it may know more than the evidence
        returned = optimizer(objective, start, bounds=problem.bounds)
        message = "the optimizer that was given returned"
        chosen = objective.evaluate(_returned_theta(returned, start), gradient=False)
    else:
        message, chosen = maximise(objective, start, settings)
    return report(objective, start, chosen, message)


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
