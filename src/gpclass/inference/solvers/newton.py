"""The mode of a sum of concave terms under a Gaussian prior, by a safeguarded Newton iteration.

Laplace's method needs it for the likelihood terms themselves, EP for the terms that its cavities
make of them.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import Outcome
from gpclass.priors import Prior, SiteFactor

Array = NDArray[np.float64]

EPS: Final = float(np.finfo(np.float64).eps)
MAX_DROWNED: Final = 4
MAX_HALVINGS: Final = 40
# Sufficient increase of the line search (Armijo): the usual 1e-4 of the predicted increase.
ARMIJO: Final = 1e-4
# The iteration aims this far below its tolerance: one more solve with a factor that is there.
FINER: Final = 1e-3
# Stands for a scale of zero.
TINY: Final = 1e-300


class Terms(NamedTuple):
    """Values of the terms at f: their sum, and first and second derivative of each by its f.

    The sum may be NaN where it has no closed form; it is then integrated along each step. The
    second derivatives are those that the steps use: at most zero, and exact near the mode.
    ``detail`` is for who evaluates them: what else was found at f.
    """

    total: float
    first: Array
    second: Array
    detail: Any


class ConcaveTerms(Protocol):
    """A sum of concave functions, one of each latent value."""

    def __call__(self, f: Array, nearby: Terms | None) -> Terms:
        """Evaluate at f; ``nearby`` is what was found at the point before, a start for searches."""


class State(NamedTuple):
    """A point of the iteration: ``f = K a``, the objective, and its gradient by f.

    The objective is ``sum_i term_i(f_i) - f^T K^-1 f / 2``, its gradient ``terms.first - a``.
    """

    a: Array
    f: Array
    objective: float
    terms: Terms
    residual: Array

    @property
    def size(self) -> float:
        """Largest entry of the gradient, in units of the largest of the terms' or of one.

        Under a large K the terms' own gradients are tiny at the mode, and so is what is left.
        """
        scale = min(1.0, float(np.abs(self.terms.first).max(initial=0.0)))
        return float(np.abs(self.residual).max(initial=0.0)) / max(scale, TINY)


class Mode(NamedTuple):
    """Where the iteration ended, with the last factor that it made: of a precision nearby."""

    state: State
    factor: SiteFactor | None
    outcome: Outcome
    n_iter: int
    n_factorisations: int


@final
@dataclass(frozen=True)
class NewtonSearch:
    """Newton's iteration in pairs ``(a, f = K a)``, so that no inverse of K occurs.

    A direction is ``da = (I + W K)^-1 (first - a)`` with ``W = -second`` (RW06 Algorithm 3.1). It
    is found by conjugate gradients, preconditioned with the factor of an earlier W, while W has
    changed little, and by a new factor where that would be slower. Every step must increase the
    objective (or, at machine precision, shrink the gradient), and is halved until it does.

    Parameters
    ----------
    prior : Prior
    terms : ConcaveTerms
    tol : float
        `State.size` at which the mode counts as found.
    max_iter : int
    """

    prior: Prior
    terms: ConcaveTerms
    tol: float
    max_iter: int

    def at(self, a: Array, f: Array, nearby: Terms | None = None) -> State:
        """Evaluate the objective at a point."""
        terms = self.terms(f, nearby)
        return State(a, f, terms.total - 0.5 * float(a @ f), terms, terms.first - a)

    def run(self, state: State, factor: SiteFactor | None) -> Mode:
        """Iterate from a point, with the factor of a precision nearby if there is one."""
        n_factorisations = n_iter = 0
        while True:
            # The log determinant moves with the mode in first order: ending at tol itself would
            # leave a noise of 1e-9 in the evidence, on which an optimiser's line search stalls.
            if state.size <= FINER * self.tol or state.size <= min(self.tol, self.rounding(state)):
                outcome = Outcome.CONVERGED
                break
            if n_iter == self.max_iter:
                outcome = Outcome.CONVERGED if state.size <= self.tol else Outcome.MAX_ITER
                break
            n_iter += 1
            direction = None
            if factor is not None:
                direction = self._direction_nearby(factor, state)
            if direction is None:
                factor = None  # its memory, before the next is made
                factor = self.prior.factor(-state.terms.second)
                n_factorisations += 1
                direction = factor.solve(state.residual)
            following = self._line_search(state, direction)
            if following is None:
                outcome = self._outcome_without_progress(state)
                break
            state = following
        return Mode(state, factor, outcome, n_iter, n_factorisations)

    def rounding(self, state: State) -> float:
        """Size (as `State.size`) that rounding of ``f = K a`` alone can cause."""
        scale = min(1.0, float(np.abs(state.terms.first).max(initial=0.0)))
        deviations = np.sqrt(self.prior.diagonal)
        f_error = 8 * EPS * float(deviations.max(initial=0.0)) * float(deviations @ np.abs(state.a))
        W = float(-state.terms.second.min(initial=0.0))
        rounded = f_error * W + 8 * EPS * float(np.abs(state.a).max(initial=0.0))
        return rounded / max(scale, TINY)

    def _outcome_without_progress(self, state: State) -> Outcome:
        if state.size <= self.tol:
            return Outcome.CONVERGED
        return Outcome.ROUNDING if state.size <= self.rounding(state) else Outcome.STALLED

    def _direction_nearby(self, factor: SiteFactor, state: State) -> Array | None:
        """Newton direction by conjugate gradients with the factor of an earlier W.

        Solves ``(K^-1 + W) df = r`` with the preconditioner ``(K^-1 + W_0)^-1`` in pairs
        ``(da, df = K da)``. None where the factor is too old to be worth it: a new one costs
        n^3 / 3 operations, an iteration 8 n^2 at the (lower) speed of the memory.
        """
        W = -state.terms.second
        # Newton's own error is quadratic in r: solving more finely is wasted.
        largest = float(np.abs(state.residual).max())
        goal = max(0.1 * FINER * self.tol / state.size, min(0.05, state.size)) * largest
        limit = max(3, self.prior.n // 100)
        q = state.residual
        da = np.zeros_like(q)
        z = factor.solve(q)
        Kz = self.prior.multiply(z)
        p, Kp = z, Kz
        qz = float(q @ Kz)
        for _ in range(limit):
            Ap = p + W * Kp
            curvature = float(Kp @ Ap)
            if not (curvature > 0 and qz > 0):
                return None
            step = qz / curvature
            da = da + step * p
            q = q - step * Ap
            if float(np.abs(q).max()) <= goal:
                return da
            z = factor.solve(q)
            Kz = self.prior.multiply(z)
            qz, old = float(q @ Kz), qz
            p, Kp = z + (qz / old) * p, Kz + (qz / old) * Kp
        return None

    def _line_search(self, state: State, da: Array) -> State | None:
        """First of the steps 1, 1/2, 1/4, ... that improves the state, None if none does."""
        df = self.prior.multiply(da)
        slope = float(state.residual @ df)
        known = np.isfinite(state.objective)
        noise = 16 * EPS * max(1.0, abs(state.objective if known else float(state.a @ state.f)))
        step, n_drowned = 1.0, 0
        for _ in range(MAX_HALVINGS):
            trial = self.at(state.a + step * da, state.f + step * df, state.terms)
            if known:
                gain = trial.objective - state.objective
            else:  # the trapezoidal rule over the slopes
                gain = 0.5 * step * (slope + float(trial.residual @ df))
            if gain >= ARMIJO * step * slope and gain > noise:
                return trial
            # Differences of the objective drown in rounding near the mode; its gradient does not.
            drowned = abs(gain) <= noise + ARMIJO * step * abs(slope)
            if drowned and trial.size < state.size:
                return trial
            # shorter steps drown the more
            n_drowned += drowned
            if n_drowned == MAX_DROWNED:
                return None
            step *= 0.5
        return None
