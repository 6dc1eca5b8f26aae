"""Hyperparameters by maximising the evidence (type-II maximum likelihood), or left as they are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.learning.base import (
    BinaryProblem,
    Evaluation,
    Learned,
    Learner,
    LearningRun,
    Progress,
)
from gpclass.learning.parallel import runs_here, side_by_side
from gpclass.sites import Sites

Array = NDArray[np.float64]
Optimizer = Callable[..., tuple[Array, float]]

# Where L-BFGS-B stops: relative change of the evidence, largest entry of the projected gradient.
FTOL: Final = 2e-9
GTOL: Final = 1e-5
# Where the polish after it stops. The evidence has a relative noise of 1e-13, so a line search
# cannot find a maximum closer than the root of that; its gradient, whose noise is as small, can.
POLISHED: Final = 1e-9
MAX_POLISH: Final = 8
NOISE: Final = 1e-12
MAX_EVALUATIONS: Final = 1000
# Fewer rows than this run on one BLAS thread: a second saves nothing, and on a busy machine
# waiting for it made scikit-learn's estimator checks (tens of rows) thirty times slower.
SMALL: Final = 400
FAILURES: Final = (NotPositiveDefiniteError, ArithmeticError, np.linalg.LinAlgError)


class _Point(NamedTuple):
    """What is kept of an evaluation: not its n x n arrays."""

    theta: Array
    log_evidence: float
    sites: Sites


@final
@dataclass
class _Objective:
    """Minus the evidence as an optimiser sees it, with a memory of the best value.

    The value is a pure function of theta up to the solver's tolerance: what is remembered is
    where the next inference starts and what to report, not what it returns.
    """

    problem: BinaryProblem
    init: Sites | None
    progress: Progress | None
    best: "_Point | None" = None
    trace: list[float] = field(default_factory=list)
    worst: float = 0.0

    def evaluate(self, theta: Array, gradient: bool) -> Evaluation | None:
        """Evidence at theta, None where it cannot be had."""
        try:
            result = self.problem.evaluate(theta, gradient=gradient, init=self._start())
        except FAILURES:
            self.trace.append(np.nan)
            return None
        self.trace.append(result.log_evidence)
        self.worst = max(self.worst, -result.log_evidence)
        self.init = result.approximation.sites
        if self.best is None or result.log_evidence > self.best.log_evidence:
            self.best = _Point(np.array(theta), result.log_evidence, self.init)
        if self.progress is not None:
            self.progress(result.log_evidence)
        return result

    def _start(self) -> Sites | None:
        """Sites of the last evaluation, where there can be one fixed point alone.

        Where there may be several the evidence would depend on the path.
        """
        return self.init if self.problem.likelihood.log_concave else None

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
class _RunResult:
    run: LearningRun
    sites: Sites | None


def _run(
    problem: BinaryProblem,
    start: Array,
    optimizer: str | Optimizer,
    init: Sites | None,
    progress: Progress | None,
) -> _RunResult:
    """One optimisation from one start."""
    objective = _Objective(problem, init, progress)
    bounds = problem.bounds
    if callable(optimizer):
        # The user's optimizer decides which theta is best: it may know more than the evidence.
        end = _returned_theta(optimizer(objective, start, bounds=bounds), start)
        message = "the optimizer that was given returned"
        last = objective.evaluate(end, gradient=False)
        chosen = last and _Point(end, last.log_evidence, last.approximation.sites)
    else:
        message, chosen = _lbfgsb(objective, start, bounds)
        end = chosen.theta if chosen is not None else np.array(start)
    trace = tuple(objective.trace)
    return _RunResult(
        LearningRun(
            start=np.array(start),
            end=end,
            log_evidence=chosen.log_evidence if chosen is not None else np.nan,
            n_evaluations=len(trace),
            n_rejected=int(np.isnan(trace).sum()),
            message=message if chosen is not None else "no evaluation of the evidence succeeded",
            trace=trace,
            at_bounds=_at_bounds(end, bounds),
        ),
        chosen.sites if chosen is not None else None,
    )


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


def _lbfgsb(objective: _Objective, start: Array, bounds: Array) -> tuple[str, _Point | None]:
    """Minimise; return why it ended and the best point, polished."""
    found = minimize(
        objective,
        start,
        method="L-BFGS-B",
        jac=True,
        bounds=bounds,
        options={"ftol": FTOL, "gtol": GTOL, "maxfun": MAX_EVALUATIONS},
    )
    best = objective.best
    if best is not None and np.array_equal(best.theta, found.x):
        best = _polish(objective, best, np.array(found.jac), found.hess_inv.todense(), bounds)
    return str(found.message), best


def _polish(objective: _Objective, point: _Point, g: Array, H: Array, bounds: Array) -> _Point:
    """Follow the gradient to its zero by a few quasi-Newton steps without a line search.

    Two data sets that say the same (weights against repeated rows, rows in another order) then
    end at the same hyperparameters, wherever L-BFGS-B happened to stop. A parameter that rests
    on a bound stays there.
    """
    free = np.ones(len(g), dtype=bool)
    free[list(_at_bounds(point.theta, bounds))] = False
    for _ in range(MAX_POLISH):
        if np.abs(g[free]).max(initial=0.0) <= POLISHED:
            break
        target = point.theta.copy()
        target[free] -= H[np.ix_(free, free)] @ g[free]
        target = np.clip(target, bounds[:, 0], bounds[:, 1])
        result = objective.evaluate(target, gradient=True)
        if result is None or result.gradient is None:
            break
        s, y = target - point.theta, -result.gradient - g
        if s @ y > 0:
            # the BFGS update of the inverse Hessian, from steps that are refused too
            rho = 1.0 / (s @ y)
            V = np.eye(len(g)) - rho * np.outer(s, y)
            H = V @ H @ V.T + rho * np.outer(s, s)
        noise = NOISE * max(1.0, abs(point.log_evidence))
        closer = np.abs(result.gradient[free]).max() < np.abs(g[free]).max()
        gain = result.log_evidence - point.log_evidence
        if gain > noise or (closer and gain >= -noise):
            point = _Point(target, result.log_evidence, result.approximation.sites)
            g = -result.gradient
    return point


def _at_bounds(theta: Array, bounds: Array) -> tuple[int, ...]:
    """Indices of the entries that lie on a bound, by scikit-learn's own measure."""
    return tuple(int(i) for i in np.flatnonzero(np.isclose(theta[:, None], bounds).any(axis=1)))


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
        problem: BinaryProblem,
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
        bounds = problem.bounds
        if (bounds[:, 0] == bounds[:, 1]).all():
            # nothing is free: no hyperparameters, or each between two equal bounds
            return _settle(problem, bounds[:, 0], init, ())
        here = runs_here(len(starts), n_jobs)
        results: list[_RunResult] = side_by_side(
            _run,
            [
                (problem, start, self.optimizer, init, progress if here else None)
                for start in starts
            ],
            n_jobs=n_jobs,
            single_thread=len(starts) > 1 or len(problem.y) < SMALL,
        )
        if progress is not None and not here:
            for result in results:
                progress(result.run.log_evidence)
        evidences = [result.run.log_evidence for result in results]
        if np.isnan(evidences).all():
            # say what is wrong in the kernel's own words
            problem.evaluate(starts[0], gradient=False)
            raise NotPositiveDefiniteError(
                f"the evidence of the kernel {problem.kernel} is not finite at its start values"
            )
        best = results[int(np.nanargmax(evidences))]
        return _settle(problem, best.run.end, best.sites, tuple(result.run for result in results))


@final
@dataclass(frozen=True)
class KeepFixed(Learner):
    """No learning: the hyperparameters stay where the kernel has them."""

    def learn(
        self,
        problem: BinaryProblem,
        starts: Array,
        *,
        init: Sites | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Evaluate the evidence once."""
        learned = _settle(problem, problem.theta, init, ())
        if progress is not None:
            progress(learned.log_evidence)
        return learned


def _settle(
    problem: BinaryProblem, theta: Array, init: Sites | None, runs: tuple[LearningRun, ...]
) -> Learned:
    final = problem.evaluate(theta, gradient=False, init=init, check=True)
    return Learned(
        theta=theta,
        log_evidence=final.log_evidence,
        sites=final.approximation.sites,
        outcome_name=final.approximation.outcome.name,
        n_iter=final.approximation.n_iter,
        runs=runs,
    )
