"""The mode of a sum of concave terms under a Gaussian prior, by a safeguarded Newton iteration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from gpclass.inference.approximation import Outcome
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.linalg import EPS, TINY, Array, inner
from gpclass.priors import Prior, SiteFactor
from gpclass.priors.base import Preconditioner

# Halvings of a step in a line search; 2^-40 of a step changes nothing that float64 can tell.
MAX_HALVINGS: Final = 40
# Trials of a line search whose gain is below rounding: shorter steps gain even less.
MAX_TRIALS_BELOW_ROUNDING: Final = 4
# Sufficient increase of the line search (Armijo): the usual 1e-4 of the predicted increase.
ARMIJO: Final = 1e-4
# Part of the tolerance that is aimed at: one more solve with a factor that is there.
FINER: Final = 1e-3


class ModePoint(NamedTuple):
    """A point ``f = K a``, ``sum_i term_i(f_i) - f^T K^-1 f / 2``, and its gradient by f.

    ``scale`` is the largest gradient of a term, at most one: under a large K all are tiny at the
    mode.
    ``size`` is the largest entry of the gradient, in units of ``scale``.
    """

    a: Array
    f: Array
    objective: float
    terms: Terms
    residual: Array
    scale: float
    size: float


class FoundMode(NamedTuple):
    """Where the search ended, with the last factor that it made: of a precision nearby."""

    point: ModePoint
    factor: SiteFactor | None
    outcome: Outcome
    n_iter: int
    n_factorisations: int


@final
@dataclass(frozen=True)
class NewtonSearch:
    """Newton's iteration in pairs ``(a, f = K a)``, so that no inverse of K occurs.

    A direction is ``da = (I + W K)^-1 (first - a)`` with ``W = -second`` (RW06 Algorithm 3.1). A
    step must increase the objective (or, where its change is below rounding, reduce the gradient),
    and is halved until it does. At the mode `ModePoint.size` is at most ``tol``.
    """

    prior: Prior
    terms: ConcaveTerms
    tol: float
    max_iter: int

    def at(self, a: Array, f: Array, nearby: Terms | None = None) -> ModePoint:
        """Evaluate the objective at a point."""
        terms = self.terms(f, nearby)
        residual, scale = terms.first - a, max(min(1.0, largest(terms.first)), TINY)
        objective, size = terms.total - 0.5 * float(a @ f), largest(residual) / scale
        return ModePoint(a, f, objective, terms, residual, scale, size)

    def run(self, point: ModePoint, factor: SiteFactor | None) -> FoundMode:
        """Iterate from a point, with the factor of a precision nearby if there is one."""
        n_factorisations = n_iter = 0
        while not self._found(point) and n_iter < self.max_iter:
            n_iter += 1
            direction = None if factor is None else self._direction_nearby(factor, point)
            if direction is None:
                factor = None  # gives its memory to the next one
                factor = self.prior.factor(-point.terms.second)
                n_factorisations += 1
                direction = factor.solve(point.residual)
            following = self._line_search(point, direction)
            if following is None:
                outcome = outcome_at_rest(point.size, self.tol, self.rounding(point))
                break
            point = following
        else:
            outcome = Outcome.CONVERGED if point.size <= self.tol else Outcome.MAX_ITER
        return FoundMode(point, factor, outcome, n_iter, n_factorisations)

    def rounding(self, point: ModePoint) -> float:
        """Size (as `ModePoint.size`) that rounding of ``f = K a`` alone can cause."""
        deviations = np.sqrt(self.prior.diagonal)
        f_error = 8 * EPS * float(deviations.max(initial=0.0)) * float(deviations @ np.abs(point.a))
        W = float(-point.terms.second.min(initial=0.0))
        return (f_error * W + 8 * EPS * float(np.abs(point.a).max(initial=0.0))) / point.scale

    def _found(self, point: ModePoint) -> bool:
        # The log determinant moves with the mode in first order: ending at tol itself would leave
        # a noise of 1e-9 in the evidence, on which an optimiser's line search stalls.
        fine = point.size <= FINER * self.tol
        return fine or (point.size <= self.tol and point.size <= self.rounding(point))

    def _direction_nearby(self, factor: SiteFactor, point: ModePoint) -> Array | None:
        """Newton direction by conjugate gradients with the factor of an earlier W.

        None where a new factor is cheaper: that costs n^3 / 3 operations, an iteration 8 n^2 at the
        (lower) speed of the memory.
        """
        W = -point.terms.second
        # Newton's own error is quadratic in r: solving more finely is wasted.
        goal = max(0.1 * FINER * self.tol / point.size, min(0.05, point.size))

        def preconditioner(r: Array) -> tuple[Array, Array]:
            z = factor.solve(r)
            return z, self.prior.multiply(z)

        limit = max(3, self.prior.n // 100)
        da, left = conjugate_gradients(preconditioner, lambda v: W * v, point.residual, goal, limit)
        return da if left <= goal else None

    def _line_search(self, point: ModePoint, da: Array) -> ModePoint | None:
        """First of the steps 1, 1/2, 1/4, ... that improves the point, None if none does."""
        df = self.prior.multiply(da)
        slope = float(point.residual @ df)
        known = np.isfinite(point.objective)
        noise = 16 * EPS * max(1.0, abs(point.objective if known else float(point.a @ point.f)))
        step, below_rounding = 1.0, 0
        for _ in range(MAX_HALVINGS):
            trial = self.at(point.a + step * da, point.f + step * df, point.terms)
            if known:
                gain = trial.objective - point.objective
            else:  # the trapezoidal rule over the slopes
                gain = 0.5 * step * (slope + float(trial.residual @ df))
            if is_better(gain, step * slope, noise, trial.size, point.size):
                return trial
            below_rounding += hidden(gain, step * slope, noise)
            if below_rounding == MAX_TRIALS_BELOW_ROUNDING:
                return None
            step *= 0.5
        return None


def is_better(gain: float, predicted: float, noise: float, new_size: float, size: float) -> bool:
    """Whether a trial gains enough (Armijo), or a smaller gradient where rounding hides its gain.

    ``predicted`` is the gain to first order.
    """
    if gain >= ARMIJO * predicted and gain > noise:
        return True
    return hidden(gain, predicted, noise) and new_size < size


def hidden(gain: float, predicted: float, noise: float) -> bool:
    """Whether rounding hides a gain; near the mode the gradient still tells."""
    return abs(gain) <= noise + ARMIJO * abs(predicted)


def largest(a: Array) -> float:
    """Largest magnitude in a, which may be empty."""
    return float(np.abs(a).max(initial=0.0))


def outcome_at_rest(size: float, tol: float, rounding: float) -> Outcome:
    """Outcome where no step improves a point of this gradient."""
    if size <= tol:
        return Outcome.CONVERGED
    return Outcome.ROUNDING if size <= rounding else Outcome.STALLED


def conjugate_gradients(
    preconditioner: Preconditioner,
    precision: Callable[[Array], Array],
    R: Array,
    goal: float,
    limit: int,
) -> tuple[Array, float]:
    """Solve ``(K^-1 + W) K X = R`` in pairs ``(X, K X)``, so that no inverse of K occurs.

    ``precision`` multiplies by W. Returns X, and what is left of R's largest entry, as a part of
    it: at most ``goal``, if ``limit`` steps suffice.
    """
    X, p, Kp = np.zeros_like(R), np.zeros_like(R), np.zeros_like(R)
    old, left, whole = np.inf, 1.0, largest(R)
    for _ in range(limit):
        Z, KZ = preconditioner(R)
        new = inner(R, KZ)
        p, Kp = Z + new / old * p, KZ + new / old * Kp
        Ap = p + precision(Kp)
        curvature = inner(Kp, Ap)
        if not (curvature > 0 and new > 0):
            break
        step, old = new / curvature, new
        X, R = X + step * p, R - step * Ap
        left = largest(R) / whole
        if left <= goal:
            break
    return X, left
