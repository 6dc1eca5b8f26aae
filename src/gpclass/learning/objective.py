"""The evidence as an optimiser sees it, what it remembers of it, and the report of a run."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.sites import Sites
from gpclass.inference.approximation import LARGEST_EVIDENCE
from gpclass.learning.problem import Evaluation, LearningRun, Problem, Progress
from gpclass.learning.trail import Trail

Array = NDArray[np.float64]

# What an evaluation may fail with: a step to be shortened.
FAILURES: Final = (NotPositiveDefiniteError, ArithmeticError, np.linalg.LinAlgError)


class Point(NamedTuple):
    """What is kept of an evaluation: not its n x n arrays."""

    theta: Array
    log_evidence: float
    sites: Sites
    converged: bool

    @classmethod
    def of(cls, theta: Array, result: Evaluation) -> "Point":
        """Keep what matters of an evaluation at theta."""
        approximation = result.approximation
        return cls(theta, result.log_evidence, approximation.sites, approximation.converged)


@final
@dataclass
class Objective:
    """Minus the evidence as an optimiser sees it, with a memory of the best value.

    The value is a pure function of theta up to the solver's tolerance: what is remembered is
    where the next inference starts and what to report, not what it returns.
    """

    problem: Problem
    init: Sites | None
    progress: Progress | None
    best: "Point | None" = None
    trace: list[float] = field(default_factory=list)
    worst: float = 0.0
    trail: Trail = field(default_factory=Trail)

    def evaluate(self, theta: Array, gradient: bool) -> Evaluation | None:
        """Evidence at theta, None where it cannot be had."""
        try:
            result = self.problem.evaluate(theta, gradient=gradient, init=self._start(theta))
        except FAILURES:
            self.trace.append(np.nan)
            return None
        if not result.log_evidence <= LARGEST_EVIDENCE:  # a collapse, or rounding
            self.trace.append(np.nan)
            return None
        self.trace.append(result.log_evidence)
        self.worst = max(self.worst, -result.log_evidence)
        self.trail.add(theta, result.approximation.sites)
        if self.best is None or result.log_evidence > self.best.log_evidence:
            self.best = Point.of(np.array(theta), result)
        if self.progress is not None:
            self.progress(result.log_evidence)
        return result

    def _start(self, theta: Array) -> Any:
        """Sites foretold by the evaluations before, where there can be one fixed point alone.

        Where there may be several the evidence would depend on the path.
        """
        if not self.problem.single_optimum:
            return None
        foretold = self.trail.forecast(theta)
        return self.init if foretold is None else foretold

    def __call__(self, theta: Array, eval_gradient: bool = True) -> Any:
        """Minus evidence and minus gradient, as scikit-learn hands it to a user's optimizer."""
        result = self.evaluate(theta, eval_gradient)
        if result is None:
            # A rejected step: worse than anything seen, so that a line search shortens it.
            value = self.worst + 1e3 + abs(self.worst)
            return (value, np.zeros(len(theta))) if eval_gradient else value
        if eval_gradient:
            assert result.gradient is not None
            return -result.log_evidence, -result.gradient
        return -result.log_evidence


@final
@dataclass(frozen=True)
class RunResult:
    """A run and the sites at its end, None where no evaluation succeeded.

    ``converged`` says whether inference had converged there: else the evidence may be anything.
    """

    run: LearningRun
    sites: Sites | None
    converged: bool

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Order of preference: evidences that exist, that can be trusted, and the higher."""
        value = self.run.log_evidence
        return not np.isnan(value), self.converged, value


def report(
    objective: Objective, start: Array, end: Array, chosen: Point | None, message: str
) -> RunResult:
    """Report a run that began at ``start`` and chose a point, at ``end``."""
    trace = tuple(objective.trace)
    if chosen is None:
        message = "no evaluation of the evidence succeeded"
    elif not chosen.converged:
        message = f"{message}; inference had not converged there"
    return RunResult(
        LearningRun(
            start=np.array(start),
            end=end,
            log_evidence=chosen.log_evidence if chosen is not None else np.nan,
            n_evaluations=len(trace),
            n_rejected=int(np.isnan(trace).sum()),
            message=message,
            trace=trace,
            at_bounds=at_bounds(end, objective.problem.bounds),
        ),
        chosen.sites if chosen is not None else None,
        chosen is not None and chosen.converged,
    )


def at_bounds(theta: Array, bounds: Array) -> tuple[int, ...]:
    """Indices of the entries that lie on a bound, by scikit-learn's own measure."""
    return tuple(int(i) for i in np.flatnonzero(np.isclose(theta[:, None], bounds).any(axis=1)))
