"""L-BFGS-B on the evidence of one problem: what leads to its start, and the polish at its end."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.learning.objective import Objective, Point, at_bounds
from gpclass.learning.parallel import SMALL, one_blas_thread
from gpclass.learning.problem import Problem

Array = NDArray[np.float64]

# Where L-BFGS-B stops: relative change of the evidence, largest entry of the projected gradient.
FTOL: Final = 2e-9
GTOL: Final = 1e-5
MAX_EVALUATIONS: Final = 1000
# Relative change of an evidence whose inference ends early for line searches.
ROUGH: Final = 1e-8
# Most steps of the polish after it. The evidence has a relative noise of 1e-13, so a line search
# cannot find a maximum closer than the root of that; its gradient, whose noise is as small, can.
MAX_POLISH: Final = 8
POLISHED: Final = 1e-9
NOISE: Final = 1e-12
# Steps in a row that leave more than half of the gradient: what is left of it is noise.
MAX_IDLE: Final = 2
HALF: Final = 0.5
# A part of the rows may move the logarithm of a hyperparameter by this much, or onto a bound that
# it presses against with at least such a slope.
FAR: Final = 4.0
FLAT: Final = 1e-3
# Step of the differences that tell curvatures there, and the largest of these that is believed.
NEARBY: Final = 0.1
SHARPEST: Final = 1e6
# Where the search on all rows then stops, in units of those curvatures: half of the square is
# about the gain in nats that is left to the polish.
SCALED_GTOL: Final = 1e-2


def climb(
    objective: Objective, start: Array, bounds: Array, problem: Problem
) -> tuple[str, Point | None]:
    """Maximise the evidence from a start.

    Parameters
    ----------
    objective : Objective
        Of the problem as line searches see it; it then holds ``problem``.
    start : ndarray of shape (p,)
    bounds : ndarray of shape (p, 2)
    problem : Problem
        As the polish sees it.

    Returns
    -------
    message : str
        Why it ended.
    point : Point or None
        The best that was seen, polished; None where no evaluation succeeded.
    """
    ftol = FTOL if objective.problem is problem else ROUGH
    found, message = None, ""
    lead = _lead(problem, start, bounds, ftol)
    if lead is not None:
        objective.init = lead.sites
        found = _minimise(objective, lead.theta, bounds, lead.scale, ftol, SCALED_GTOL)
        message = f"{found.message}; from where {lead.n_rows} rows had led"
    if found is None or objective.best is None:
        found = _minimise(objective, start, bounds, None, ftol, GTOL)
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
    objective: Objective, start: Array, bounds: Array, scale: Array | None, ftol: float, gtol: float
) -> _Minimum:
    """L-BFGS-B in units of ``scale``, whose first step is as long as the gradient there.

    None: in units in which that step has a length near one, or less. Between bounds L-BFGS-B itself
    does not see to that, and its second evaluation is in a corner of them, where inference is
    slowest and from where it seldom comes back to the maximum that is next to the start.
    """
    first = None
    if scale is None:
        first = objective(np.clip(start, bounds[:, 0], bounds[:, 1]))
        # a power of two, by which theta is divided and multiplied without rounding
        unit = 2.0 ** -round(0.5 * np.log2(max(1.0, float(np.linalg.norm(first[1])))))
        scale, gtol = np.full(len(start), unit), gtol * unit

    def scaled(z: Array) -> tuple[float, Array]:
        nonlocal first
        value, g = first or objective(np.clip(z * scale, bounds[:, 0], bounds[:, 1]))
        first = None
        return value, g * scale

    found = minimize(
        scaled,
        start / scale,
        method="L-BFGS-B",
        jac=True,
        bounds=bounds / scale[:, None],
        options={"ftol": ftol, "gtol": gtol, "maxfun": MAX_EVALUATIONS},
    )
    theta = np.clip(found.x * scale, bounds[:, 0], bounds[:, 1])
    H = found.hess_inv.todense() * np.multiply.outer(scale, scale)
    return _Minimum(theta, float(found.fun), found.jac / scale, H, str(found.message))


class _Lead(NamedTuple):
    """Where a part of the rows leads, the unit of steps there, and sites to start from."""

    theta: Array
    scale: Array
    n_rows: int
    sites: Any


def _lead(problem: Problem, start: Array, bounds: Array, ftol: float) -> _Lead | None:
    """Learn from a part of the rows; None where that is not worth it, or leads nowhere.

    The maximum of a part is near that of all and costs next to nothing. What a part says nothing
    about must not decide: an entry that went `FAR` where the evidence is flat is taken back.
    """
    part = problem.part()
    if part is None:
        return None
    with one_blas_thread(part.n_rows < SMALL):
        objective = Objective(part, None, None)
        found = _minimise(objective, start, bounds, None, ftol, GTOL)
        if objective.best is None:
            return None
        pressed = np.zeros(len(start), dtype=bool)
        pressed[list(at_bounds(found.theta, bounds))] = True
        pressed &= np.abs(found.g) > FLAT
        theta = np.where(pressed, found.theta, np.clip(found.theta, start - FAR, start + FAR))
        # the curvature grows with the rows, if less than they do
        curvature = _curvature(objective, theta, bounds) * np.sqrt(problem.n_rows / part.n_rows)
    scale = np.clip(curvature, 1.0, SHARPEST) ** -0.5
    return _Lead(theta, scale, part.n_rows, problem.sites_of_part(objective.best.sites))


def _curvature(objective: Objective, theta: Array, bounds: Array) -> Array:
    """Second derivatives of minus the evidence by each entry of theta, by differences.

    One for an entry that cannot move by `NEARBY`.
    """
    found = np.ones(len(theta))
    _, g = objective(theta)
    for i, (lower, upper) in enumerate(bounds):
        beside = theta.copy()
        beside[i] += NEARBY if theta[i] + NEARBY <= upper else -NEARBY
        if np.isfinite(theta[i]) and beside[i] >= lower:
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
        was = np.abs(g[free]).max(initial=0.0)
        step = H[np.ix_(free, free)] @ g[free]
        nothing = objective.problem.slack * max(1.0, abs(point.log_evidence))
        if was <= POLISHED or 0.5 * float(g[free] @ step) <= nothing or idle == MAX_IDLE:
            break
        target = point.theta.copy()
        target[free] -= step
        target = np.clip(target, bounds[:, 0], bounds[:, 1])
        result = objective.evaluate(target, gradient=True)
        if result is None or result.gradient is None:
            break
        # from steps that are refused too
        H = bfgs_update(H, target - point.theta, -result.gradient - g)
        noise = NOISE * max(1.0, abs(point.log_evidence))
        left = np.abs(result.gradient[free]).max()
        idle = 0 if left < HALF * was else idle + 1
        gain = result.log_evidence - point.log_evidence
        if gain > noise or (left < was and gain >= -noise):
            point = Point.of(target, result)
            g = -result.gradient
    return point


def bfgs_update(H: Array, s: Array, y: Array) -> Array:
    """Inverse of the Hessian after a step s by which the gradient changed by y.

    As it was where the two say that the function bends down.
    """
    if not s @ y > 0:
        return H
    rho = 1.0 / (s @ y)
    V = np.eye(len(s)) - rho * np.outer(s, y)
    return np.asarray(V @ H @ V.T + rho * np.outer(s, s))
