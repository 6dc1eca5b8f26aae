"""L-BFGS-B on the objective of one problem: where it begins, and how its end is refined."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.learning.inducing import InducingProblem
from gpclass.learning.objective import Objective, Point, at_bounds
from gpclass.learning.parallel import SMALL, one_blas_thread
from gpclass.learning.problem import Problem

Array = NDArray[np.float64]

# Steps that L-BFGS-B remembers: all of them, in all but the longest searches.
MEMORY: Final = 50


@final
@dataclass(frozen=True)
class SearchSettings:
    """Numbers of the search for the largest evidence.

    L-BFGS-B leads near the maximum. Quasi-Newton steps without a line search then follow the
    gradient: a line search cannot find a maximum closer than the root of the objective's relative
    noise, and the gradient, whose noise is as small, can. Large problems begin with a subset of
    their rows, and inference is loosened while the search is far from its end.

    Parameters
    ----------
    gain : float, default=1e-6
        L-BFGS-B ends where a step gains less, in nats.
    gtol : float, default=1e-5
        Or at this projected gradient.
    max_evaluations : int, default=1000
        Or after so many.
    max_refinements : int, default=8
        Quasi-Newton steps that follow, at most.
    refined_gradient : float, default=1e-9
        Gradient at which they end.
    noise : float, default=1e-12
        Relative noise of the objective.
    few_rows : int, default=100
        Below so many rows a row of weight 2 and the row given twice lead to the same
        hyperparameters. With more rows their probabilities differ by up to 1e-6, as inference is
        loosened to ``searching_tol`` in L-BFGS-B.
    many_rows : int, default=400
        From so many rows on inference is loosened to ``learning_tol`` in the quasi-Newton steps
        too.
    searching_tol, learning_tol : float, default=1e-4, 1e-5
        Tolerances of EP. That of the variational method by blocks is a thousandth (in nats), times
        the number of rows in units of ``subset_rows``.
    slack : float, default=1e-7
        From ``many_rows`` on a quasi-Newton step that is predicted to gain less, in nats, is not
        made.
    subset_rows : int, default=800
        From so many rows on a joint problem, or one with inducing points, begins with a subset.
    subset_step : int, default=4
        A joint problem's subset has each so many-th row.
    subset_gain : float, default=1e-3
        L-BFGS-B on the subset ends where a step gains less, in nats.
    subset_flat : float, default=1e-3
        Where slope and curvature of an entry of theta are below this the subset does not determine
        the entry.
    subset_reach : float, default=4.0
        It then moves the entry by this at most.
    subset_gtol : float, default=1e-2
        After a subset L-BFGS-B ends at this gradient, in units of the root of the curvature (half
        its square is about the gain left).
    row_gain : float, default=1e-6
        With inducing points, from ``subset_rows`` on, L-BFGS-B and the quasi-Newton steps end where
        a step gains less than this for each row, in nats.
    """

    gain: float = 1e-6
    gtol: float = 1e-5
    max_evaluations: int = 1000
    max_refinements: int = 8
    refined_gradient: float = 1e-9
    noise: float = 1e-12
    few_rows: int = 100
    many_rows: int = 400
    searching_tol: float = 1e-4
    learning_tol: float = 1e-5
    slack: float = 1e-7
    subset_rows: int = 800
    subset_step: int = 4
    subset_gain: float = 1e-3
    subset_flat: float = 1e-3
    subset_reach: float = 4.0
    subset_gtol: float = 1e-2
    row_gain: float = 1e-6


class Stages(NamedTuple):
    """A problem as L-BFGS-B and as the refinement see it, and the subset that they begin with.

    ``gain`` ends L-BFGS-B, and ``slack`` the refinement.
    """

    searching: Problem
    refining: Problem
    subset: Problem | None
    gain: float
    slack: float

    @classmethod
    def of(cls, problem: Problem, settings: SearchSettings) -> "Stages":
        """Few rows are refined as they were given, and need no subset to begin with."""
        gain = settings.gain
        if problem.n_rows < settings.few_rows:
            return cls(problem, problem, None, gain, 0.0)
        looser = 1.0
        if isinstance(problem, InducingProblem):
            looser = max(1.0, problem.n_rows / settings.subset_rows)
        searching = problem.loosened(looser * settings.searching_tol)
        if problem.n_rows < settings.many_rows:
            return cls(searching, problem, None, gain, 0.0)
        refining = problem.loosened(looser * settings.learning_tol)
        slack = settings.slack
        if refining is problem:
            slack = 0.0
        if problem.n_rows < settings.subset_rows:
            return cls(searching, refining, None, gain, slack)
        if isinstance(problem, InducingProblem):
            gain = slack = settings.row_gain * problem.n_rows
        return cls(searching, refining, searching.subset(settings.subset_step), gain, slack)


def maximise(
    objective: Objective, start: Array, settings: SearchSettings
) -> tuple[str, Point | None]:
    """Maximise an objective, whose problem becomes that of each stage in turn.

    Returns why it ended, and the best point, refined; None where no evaluation succeeded.
    """
    bounds = objective.problem.bounds
    stages = Stages.of(objective.problem, settings)
    objective.problem = stages.searching
    lead = _from_subset(objective, stages, start, settings)
    if lead is not None:
        objective.init = lead.sites
        point, ended = _steps_by_known_curvature(objective, lead, stages, settings)
        if ended:
            return f"a step by the curvature of {lead.n_rows} rows gains less", point
        theta = lead.theta if point is None else point.theta
        gain, gtol = stages.gain, settings.subset_gtol
        found = _minimise(objective, bounds, theta, lead.scale, settings, gain, gtol)
        if objective.best is not None:
            message = f"{found.message}; it began where {lead.n_rows} rows led"
            return message, _refined_end(objective, found, stages, settings)
    start = _tied(objective, start, settings, stages.gain)
    found = _minimise(objective, bounds, start, None, settings, stages.gain, settings.gtol)
    return found.message, _refined_end(objective, found, stages, settings)


def _steps_by_known_curvature(
    objective: Objective, lead: "_Lead", stages: Stages, settings: SearchSettings
) -> tuple[Point | None, bool]:
    """Quasi-Newton steps with the subset's curvature, and whether the next one gains too little.

    None where the subset's curvature is not known, or evaluation fails where it leads.
    """
    point = None if lead.H is None else objective.evaluate(lead.theta, gradient=True)
    if point is None or lead.H is None:
        return None, False
    point = _refine(objective, point, lead.H, stages.gain, settings)
    bounds = objective.problem.bounds
    return point, _predicted_gain(point, lead.H, bounds) <= stages.gain


def _refined_end(
    objective: Objective, found: "_Minimum", stages: Stages, settings: SearchSettings
) -> Point | None:
    """The best point, refined where it is the one at which L-BFGS-B ended."""
    best = objective.best
    # the curvature that L-BFGS-B found is not that of a better point elsewhere
    if best is None or -found.value < best.value - stages.gain:
        return best
    if stages.searching is not stages.refining:
        objective.problem = stages.refining
        best = objective.evaluate(found.theta, gradient=True)
        if best is None:
            return objective.best
    elif not np.array_equal(best.theta, found.theta):
        return best
    return _refine(objective, best, found.H, stages.slack, settings)


class _Minimum(NamedTuple):
    """Where L-BFGS-B ended, with the gradient there and its inverse of the Hessian."""

    theta: Array
    value: float
    g: Array
    H: Array
    message: str


def _minimise(
    objective: Callable[[Array], tuple[float, Array]],
    bounds: Array,
    start: Array,
    scale: Array | None,
    settings: SearchSettings,
    gain: float,
    gtol: float,
) -> _Minimum:
    """L-BFGS-B in units of ``scale``, whose first step is as long as the gradient there.

    Without a scale, the unit makes that step at most about one long. Between bounds L-BFGS-B does
    not see to that itself: its second evaluation is in a corner, where inference is slowest and
    from where it seldom comes back to the maximum next to the start.
    """
    first: tuple[float, Array] | None = objective(np.clip(start, bounds[:, 0], bounds[:, 1]))
    assert first is not None
    ftol = gain / max(1.0, abs(first[0]))
    if scale is None:
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
        options={
            "ftol": ftol,
            "gtol": gtol,
            "maxfun": settings.max_evaluations,
            "maxcor": MEMORY,
        },
    )
    theta = np.clip(found.x * scale, bounds[:, 0], bounds[:, 1])
    H = found.hess_inv.todense() * np.multiply.outer(scale, scale)
    return _Minimum(theta, float(found.fun), found.jac / scale, H, str(found.message))


def _tied(objective: Objective, start: Array, settings: SearchSettings, gain: float) -> Array:
    """Where the evidence leads if the entries of each vector move together.

    From there on a kernel with a length-scale a column does not end below that with one. Under a
    hyperprior, which holds them together itself, the ends are the same and sooner without it.
    """
    ties = objective.problem.hyperparameters.ties
    if objective.hyperprior is not None or ties.shape[1] == len(start):
        return start
    start = np.clip(start, *objective.problem.bounds.T)
    room = objective.problem.bounds - start[:, None]
    low, high = (
        np.where(ties > 0.0, one[:, None], worst)
        for one, worst in zip(room.T, (-np.inf, np.inf), strict=True)
    )

    def along(z: Array) -> tuple[float, Array]:
        value, g = objective(start + ties @ z)
        return value, g @ ties

    found = _minimise(
        along,
        np.stack([low.max(axis=0), high.min(axis=0)], axis=1),
        np.zeros(ties.shape[1]),
        None,
        settings,
        gain,
        settings.gtol,
    )
    return start + ties @ found.theta


class _Lead(NamedTuple):
    """Where a subset of the rows leads, the unit of steps from there on, and sites to start from.

    ``curvature`` is that of the subset; where it is ``flat``, the unit is one. ``H`` is the inverse
    of the Hessian of all rows, where the subset's was found from a subset of it.
    """

    theta: Array
    curvature: Array
    flat: NDArray[np.bool_]
    scale: Array
    n_rows: int
    sites: Any
    H: Array | None


def _from_subset(
    objective: Objective, stages: Stages, start: Array, settings: SearchSettings
) -> _Lead | None:
    """Learn from the subset, whose maximum is near that of all rows; None without one."""
    subset = stages.subset
    if subset is None:
        return None
    with one_blas_thread(subset.n_rows < SMALL):
        small = Objective(subset, hyperprior=objective.hyperprior)
        nested = isinstance(subset, InducingProblem)
        lead = _from_subset(small, Stages.of(subset, settings), start, settings) if nested else None
        if lead is None:
            start, gain = _tied(small, start, settings, settings.gain), settings.subset_gain
            found = _minimise(small, subset.bounds, start, None, settings, gain, settings.gtol)
        else:
            small.init, gain = lead.sites, settings.row_gain * subset.n_rows
            start, gtol = lead.theta, settings.subset_gtol
            found = _minimise(small, subset.bounds, start, lead.scale, settings, gain, gtol)
        if small.best is None:
            return None
        H = None
        if lead is None:
            curvature = _curvature(small, found.theta)
            # entries of theta that the subset does not determine
            flat = np.maximum(np.abs(found.g), np.abs(curvature)) < settings.subset_flat
        else:
            curvature, flat = lead.curvature * np.sqrt(subset.n_rows / lead.n_rows), lead.flat
            H = found.H * (subset.n_rows / stages.searching.n_rows)
    reach = settings.subset_reach
    theta = np.where(flat, np.clip(found.theta, start - reach, start + reach), found.theta)
    # the curvature grows with the rows, if less than they do; beyond 1e6 it is not believed
    growth = np.sqrt(stages.searching.n_rows / subset.n_rows)
    scale = np.where(flat, 1.0, np.clip(curvature * growth, 1e-2, 1e6) ** -0.5)
    sites = stages.searching.sites_from_subset(small.best.sites, settings.subset_step)
    return _Lead(theta, curvature, flat, scale, subset.n_rows, sites, H)


def _curvature(objective: Objective, theta: Array, step: float = 0.1) -> Array:
    """Second derivatives of minus the objective by differences; 1 for an entry that cannot move."""
    found = np.ones(len(theta))
    _, g = objective(theta)
    for i, (lower, upper) in enumerate(objective.problem.bounds):
        nearby = theta.copy()
        nearby[i] += step if theta[i] + step <= upper else -step
        if np.isfinite(theta[i]) and nearby[i] >= lower:
            _, changed = objective(nearby)
            found[i] = (changed[i] - g[i]) / (nearby[i] - theta[i])
    return found


def _predicted_gain(point: Point, H: Array, bounds: Array) -> float:
    """What a quasi-Newton step from a point would gain; a parameter on a bound stays there."""
    assert point.gradient is not None
    g = point.gradient.copy()
    g[list(at_bounds(point.theta, bounds))] = 0.0
    return 0.5 * float(g @ H @ g)


def _refine(
    objective: Objective, point: Point, H: Array, slack: float, settings: SearchSettings
) -> Point:
    """Follow the gradient to its zero by a few quasi-Newton steps without a line search.

    Equivalent data sets (weights or repeated rows, rows in another order) then end at the same
    hyperparameters. A parameter on a bound stays there.
    """
    bounds = objective.problem.bounds
    free = np.ones(len(bounds), dtype=bool)
    free[list(at_bounds(point.theta, bounds))] = False
    H = H[np.ix_(free, free)]
    idle = 0
    for _ in range(settings.max_refinements):
        assert point.gradient is not None
        g, size = -point.gradient, max(1.0, abs(point.log_evidence))
        left = np.abs(g[free]).max(initial=0.0)
        step = H @ g[free]
        done = left <= settings.refined_gradient or 0.5 * float(g[free] @ step) <= slack
        # two steps in a row left more than half of the gradient: what is left of it is noise
        if done or idle == 2:
            break
        target = point.theta.copy()
        target[free] -= step
        target = np.clip(target, bounds[:, 0], bounds[:, 1])
        found = objective.evaluate(target, gradient=True)
        if found is None or found.gradient is None:
            break
        # from steps that are refused too
        H = bfgs_update(H, (target - point.theta)[free], (-found.gradient - g)[free])
        remains = np.abs(found.gradient[free]).max()
        idle = 0 if remains < 0.5 * left else idle + 1
        noise, gain = settings.noise * size, found.value - point.value
        if gain > noise or (remains < left and gain >= -noise):
            point = found
    return point


def bfgs_update(H: Array, s: Array, y: Array) -> Array:
    """BFGS update of the inverse Hessian after a step s; H itself where s^T y is not positive."""
    if not s @ y > 0:
        return H
    rho = 1.0 / (s @ y)
    V = np.eye(len(s)) - rho * np.outer(s, y)
    return np.asarray(V @ H @ V.T + rho * np.outer(s, s))
