"""Hyperparameters by maximising the leave-one-out log predictive."""

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.learning.evidence import Optimizer, check_optimizer, run_optimizer
from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Learner, Progress
from gpclass.learning.objective import Score
from gpclass.learning.problem import Problem
from gpclass.learning.runs import from_every_start
from gpclass.learning.search import SearchSettings

Array = NDArray[np.float64]


def _exact() -> SearchSettings:
    """Inference is not loosened: unlike EP's evidence, this is not stationary in the sites."""
    return SearchSettings(few_rows=sys.maxsize)


@final
@dataclass(frozen=True)
class MaximiseLeaveOneOut(Learner):
    """L-BFGS-B, or a user's optimizer, on ``sum_i w_i log p(y_i | y_-i)``.

    The evidence that is reported is that of the theta found here.

    Parameters
    ----------
    optimizer, hyperprior
        As in `MaximiseEvidence`; the log density is added to the sum.
    settings : SearchSettings
        Numbers of L-BFGS-B's search, whose inferences all go to the method's own tolerance.

    References
    ----------
    RW06 sections 5.3 and 5.4.2 (of regression); see `LeaveOneOut` and `JointLeaveOneOut`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import Laplace
    >>> from gpclass.learning import BinaryProblem, MaximiseLeaveOneOut
    >>> from gpclass.likelihoods import Logit
    >>> X = np.linspace(0, 4, 20)[:, None]
    >>> y = np.where(np.sin(2 * X[:, 0]) > 0.2, 1.0, -1.0)
    >>> y[[4, 13]] *= -1
    >>> problem = BinaryProblem(1.0 * RBF(1.0), X, y, Logit(), Laplace())
    >>> best = MaximiseLeaveOneOut().learn(problem, problem.theta[None]).theta
    >>> before, after = (leave_one_out(problem, t, False, None) for t in (problem.theta, best))
    >>> bool(after.value > before.value + 0.1)
    True
    """

    optimizer: str | Optimizer = "fmin_l_bfgs_b"
    hyperprior: HyperPrior | None = None
    settings: SearchSettings = field(default_factory=_exact)

    def __post_init__(self) -> None:
        """Refuse an optimizer that does not exist."""
        check_optimizer(self.optimizer)

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Any = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Run from every start and keep the best; ValueError for what has no gradient of this."""
        _refuse(problem)
        run = partial(run_optimizer, self.optimizer, self.settings, self.hyperprior, leave_one_out)
        return from_every_start(run, problem, starts, init=init, n_jobs=n_jobs, progress=progress)


def leave_one_out(problem: Problem, theta: Array, gradient: bool, init: Any) -> Score:
    """The leave-one-out log predictive of a problem at theta, and its gradient.

    ValueError for a joint model without one; NotPositiveDefiniteError where a cavity is not
    proper, or the kernel overflows.
    """
    there = problem.at(theta)
    slope = None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        prior = there.prior()
        found = there.infer(prior, init)
        left = there.left_out(prior, found)
        if gradient:
            by_kernel = sum(factor * there.pull(G, prior) for factor, G in left.pullback())
            slope = np.concatenate([by_kernel, left.likelihood_gradient()])
    if not (np.isfinite(left.value) and (slope is None or np.isfinite(slope).all())):
        raise NotPositiveDefiniteError(
            f"the kernel {there.kernel} overflows on the training inputs"
        )
    return Score(left.value, slope, found)


def _refuse(problem: Problem) -> None:
    if not getattr(problem.inference, "differentiable", True):
        raise ValueError(
            f"{type(problem.inference).__name__} has no sites to leave out: learn by another "
            "inference, such as 'ep', and take its kernel"
        )
