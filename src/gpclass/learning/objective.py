"""The objective of learning, what is remembered of its evaluations, and the report of a run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import LARGEST_EVIDENCE
from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import LearningRun, Progress
from gpclass.learning.problem import Problem

Array = NDArray[np.float64]

# What an evaluation may fail with: a step to be shortened.
FAILURES: Final = (NotPositiveDefiniteError, ArithmeticError, np.linalg.LinAlgError)


class Score(NamedTuple):
    """A criterion at theta, its gradient if asked for, and what was inferred there."""

    value: float
    gradient: Array | None
    approximation: Any


# Called with a problem, theta, gradient (whether it is asked for) and where inference may start.
Criterion = Callable[[Problem, Array, bool, Any], Score]


def by_evidence(problem: Problem, theta: Array, gradient: bool, init: Any) -> Score:
    """The log evidence."""
    return Score(*problem.evaluate(theta, gradient=gradient, init=init))


class Point(NamedTuple):
    """What is kept of an evaluation: not its n x n arrays.

    ``value`` and ``gradient`` are of the objective: the criterion plus the log density of theta's
    prior. Where inference had not ``converged``, the evidence may be anything.
    """

    theta: Array
    value: float
    gradient: Array | None
    log_evidence: float
    sites: Any
    converged: bool


@final
@dataclass
class Objective:
    """A criterion, the log evidence, plus the log density of theta's prior where there is one.

    Its value is a function of theta alone, up to the solver's tolerance. What is remembered is
    where the next inference starts (``init``) and what to report.
    """

    problem: Problem
    init: object = None
    progress: Progress | None = None
    hyperprior: HyperPrior | None = None
    criterion: Criterion = by_evidence
    best: Point | None = None
    worst: float = 0.0
    trace: list[float] = field(default_factory=list)
    path: list[Array] = field(default_factory=list)

    def evaluate(self, theta: Array, gradient: bool) -> Point | None:
        """Evaluate at theta; None where this fails, or gives an evidence that no data have."""
        # with several fixed points a start would make the evidence depend on the path
        init = self.init if self.problem.single_optimum else None
        self.path.append(np.array(theta))
        try:
            found = self.criterion(self.problem, theta, gradient, init)
            log_density, slope = self.log_density(theta)
        except FAILURES:
            self.trace.append(np.nan)
            return None
        q, value = found.approximation, found.value + log_density
        if max(q.log_evidence, found.value) > LARGEST_EVIDENCE or not np.isfinite(value):
            self.trace.append(np.nan)
            return None
        point = Point(
            np.array(theta),
            value,
            None if found.gradient is None else found.gradient + slope,
            q.log_evidence,
            q.sites,
            q.converged,
        )
        self.trace.append(point.log_evidence)
        self.init = point.sites
        self.worst = max(self.worst, -point.value)
        if self.best is None or point.value > self.best.value:
            self.best = point
        if self.progress is not None:
            self.progress(point.log_evidence, point.theta if self.best is point else None)
        return point

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Log density of theta's prior and its gradient; zero where there is none.

        ValueError where the gradient has another shape than theta.
        """
        if self.hyperprior is None:
            return 0.0, np.zeros(len(theta))
        value, gradient = self.hyperprior.log_density(theta)
        if np.shape(gradient) != theta.shape:
            raise ValueError(
                f"hyperprior: log_density of {type(self.hyperprior).__name__} has a gradient of "
                f"shape {np.shape(gradient)}, expected {theta.shape}"
            )
        return value, gradient

    def __call__(self, theta: Array, eval_gradient: bool = True) -> Any:
        """Minus the objective and its gradient, as scikit-learn hands it to a user's optimizer."""
        point = self.best  # where a stage ends, the next begins
        if (
            point is None
            or (eval_gradient and point.gradient is None)
            or not np.array_equal(theta, point.theta)
        ):
            point = self.evaluate(theta, eval_gradient)
        if point is None:
            value = rejected_value(self.worst)
            return (value, np.zeros(len(theta))) if eval_gradient else value
        if eval_gradient:
            assert point.gradient is not None
            return -point.value, -point.gradient
        return -point.value


def rejected_value(worst: float) -> float:
    """What a rejected step returns: so far above the worst seen that a line search shortens it."""
    return 2.0 * max(worst, 0.0) + 1e3


@final
@dataclass(frozen=True)
class RunResult:
    """A run and the point at its end, None where no evaluation succeeded."""

    run: LearningRun
    chosen: Point | None

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Order of preference: values that exist, that can be trusted, and the higher."""
        if self.chosen is None:
            return False, False, -np.inf
        return True, self.chosen.converged, self.chosen.value


def report(objective: Objective, start: Array, chosen: Point | None, message: str) -> RunResult:
    """Report a run that began at ``start`` and chose a point."""
    trace = tuple(objective.trace)
    if chosen is None:
        message = "no evaluation of the evidence succeeded"
    elif not chosen.converged:
        message = f"{message}; inference had not converged there"
    end = np.array(start) if chosen is None else chosen.theta
    evidence = np.nan if chosen is None else chosen.log_evidence
    rejected, on_bounds = int(np.isnan(trace).sum()), at_bounds(end, objective.problem.bounds)
    run = LearningRun(
        np.array(start),
        end,
        evidence,
        len(trace),
        rejected,
        message,
        trace,
        on_bounds,
        np.reshape(objective.path, (len(trace), len(start))),
    )
    return RunResult(run, chosen)


def near_bounds(theta: Array, bounds: Array) -> NDArray[np.bool_]:
    """Whether entries of theta (p,) lie on their lower and their upper bound, shape (p, 2).

    The measure and the order of its arguments are those of scikit-learn's own warning.
    """
    return np.isclose(bounds, theta[:, None])


def at_bounds(theta: Array, bounds: Array) -> tuple[int, ...]:
    """Indices of the entries that lie on a bound."""
    return tuple(int(i) for i in np.flatnonzero(near_bounds(theta, bounds).any(axis=1)))
