"""Hyperparameters by maximising the evidence (type-II maximum likelihood), or left as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.learning.base import Learned, Learner, Problem, Progress
from gpclass.learning.objective import Objective, Point, RunResult, at_bounds, report
from gpclass.learning.starts import from_every_start, settle
from gpclass.sites import Sites

Array = NDArray[np.float64]
Optimizer = Callable[..., tuple[Array, float]]

# Where L-BFGS-B stops: relative change of the evidence, largest entry of the projected gradient.
FTOL: Final = 2e-9
GTOL: Final = 1e-5
# Most steps of the polish after it. The evidence has a relative noise of 1e-13, so a line search
# cannot find a maximum closer than the root of that; its gradient, whose noise is as small, can.
MAX_POLISH: Final = 8
# Steps in a row that leave more than half of the gradient: what is left of it is noise.
MAX_IDLE: Final = 2
HALF: Final = 0.5
NOISE: Final = 1e-12
# The same where inference ends early for line searches.
ROUGH: Final = 1e-8
MAX_EVALUATIONS: Final = 1000
# A part of the rows may move the logarithm of a hyperparameter by this much, or onto a bound that
# it presses against with at least such a slope; and the shortest unit of first steps with all rows.
FAR: Final = 4.0
FLAT: Final = 1e-3
SHORTEST: Final = 1e-3
NEARBY: Final = 0.1
# Where that search stops: half of its square is about the gain in nats that is left to the polish.
SCALED_GTOL: Final = 1e-2


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
        message, chosen = _lbfgsb(objective, start, bounds, problem)
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


def _lbfgsb(
    objective: Objective, start: Array, bounds: Array, problem: Problem
) -> tuple[str, Point | None]:
    """Minimise; return why it ended and the best point, polished by a problem that sees finer."""
    found, message = None, ""
    lead = _lead(problem, start, bounds)
    if lead is not None:
        objective.init = lead.sites
        found = _minimise(objective, lead.theta, bounds, lead.scale, SCALED_GTOL)
        message = f"{found.message}; from where {lead.n_rows} rows had led"
    if found is None or objective.best is None:
        found = _minimise(objective, start, bounds, np.ones(len(start)), GTOL)
        message = found.message
    best, g = objective.best, found.g
    if best is None or -found.value < best.log_evidence - ROUGH * abs(best.log_evidence):
        return message, best
    if objective.problem is not problem:
        objective.problem = problem
        finer = objective.evaluate(found.theta, gradient=True)
        if finer is None or finer.gradient is None:
            return message, best
        best, g = Point.of(found.theta, finer), -finer.gradient
    elif not np.array_equal(best.theta, found.theta):
        return message, best
    return message, _polish(objective, best, g, found.H, bounds)


class _Minimum(NamedTuple):
    """Where L-BFGS-B ended, with the gradient there and its inverse of the Hessian."""

    theta: Array
    value: float
    g: Array
    H: Array
    message: str


def _minimise(
    objective: Objective, start: Array, bounds: Array, scale: Array, gtol: float
) -> _Minimum:
    """L-BFGS-B in units of ``scale``, whose first step is as long as the gradient there."""

    def scaled(z: Array) -> tuple[float, Array]:
        value, g = objective(np.clip(z * scale, bounds[:, 0], bounds[:, 1]))
        return value, g * scale

    finer = objective.problem.while_searching() is objective.problem
    found = minimize(
        scaled,
        start / scale,
        method="L-BFGS-B",
        jac=True,
        bounds=bounds / scale[:, None],
        options={
            "ftol": FTOL if finer else ROUGH,
            "gtol": gtol,
            "maxfun": MAX_EVALUATIONS,
        },
    )
    theta = np.clip(found.x * scale, bounds[:, 0], bounds[:, 1])
    H = found.hess_inv.todense() * np.multiply.outer(scale, scale)
    return _Minimum(theta, float(found.fun), found.jac / scale, H, str(found.message))


class _Lead(NamedTuple):
    """Where a part of the rows leads, and how long steps are about there with all of them."""

    theta: Array
    scale: Array
    n_rows: int
    sites: Any


def _lead(problem: Problem, start: Array, bounds: Array) -> _Lead | None:
    """Learn from a part of the rows; None where that is not worth it, or leads nowhere.

    The maximum of a part is near that of all and costs next to nothing. What a part says nothing
    about must not decide: an entry that went `FAR` where the evidence is flat is taken back.
    """
    part = problem.part()
    if part is None:
        return None
    objective = Objective(part.while_searching(), None, None)
    found = _minimise(objective, start, bounds, np.ones(len(start)), GTOL)
    if objective.best is None:
        return None
    pressed = np.zeros(len(start), dtype=bool)
    pressed[list(at_bounds(found.theta, bounds))] = True
    pressed &= np.abs(found.g) > FLAT
    theta = np.where(pressed, found.theta, np.clip(found.theta, start - FAR, start + FAR))
    # the curvature grows with the rows, if less than they do
    curvature = _curvature(objective, theta, bounds) * np.sqrt(problem.n_rows / part.n_rows)
    scale = np.clip(curvature, 1.0, SHORTEST**-2) ** -0.5
    return _Lead(theta, scale, part.n_rows, problem.sites_of_part(objective.best.sites))


def _curvature(objective: Objective, theta: Array, bounds: Array) -> Array:
    """Second derivatives of minus the evidence by each entry of theta, by differences."""
    found = np.ones(len(theta))
    _, g = objective(theta)
    for i in range(len(theta)):
        beside = theta.copy()
        beside[i] += NEARBY if theta[i] + NEARBY <= bounds[i, 1] else -NEARBY
        _, changed = objective(beside)
        found[i] = (changed[i] - g[i]) / (beside[i] - theta[i])
    return found


def _polish(objective: Objective, point: Point, g: Array, H: Array, bounds: Array) -> Point:
    """Follow the gradient to its zero by a few quasi-Newton steps without a line search.

    Two data sets that say the same (weights against repeated rows, rows in another order) then
    end at the same hyperparameters, wherever L-BFGS-B happened to stop. A parameter that rests
    on a bound stays there.
    """
    free = np.ones(len(g), dtype=bool)
    free[list(at_bounds(point.theta, bounds))] = False
    idle = 0
    for _ in range(MAX_POLISH):
        if np.abs(g[free]).max(initial=0.0) <= objective.problem.slack or idle == MAX_IDLE:
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
        left, was = np.abs(result.gradient[free]).max(), np.abs(g[free]).max()
        closer = left < was
        idle = 0 if left < HALF * was else idle + 1
        gain = result.log_evidence - point.log_evidence
        if gain > noise or (closer and gain >= -noise):
            point = Point.of(target, result)
            g = -result.gradient
    return point


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
