"""The mode of the softmax under the prior of many classes, by a safeguarded Newton iteration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome
from gpclass.inference.solvers.newton import (
    MAX_HALVINGS,
    conjugate_gradients,
    is_better,
    largest,
    outcome_at_rest,
)
from gpclass.linalg import EPS, TINY, Array, inner
from gpclass.priors.base import Preconditioner
from gpclass.priors.classes import ClassSites
from gpclass.priors.joint import Codes, JointFactor, JointPrior

# Conjugate gradients take at most n / 3 steps with one product a step, n / 50 with solves by a
# factor: as many cost less than a new factor of C + 1 matrices.
STEPS_BY_PRODUCTS: Final = 3
STEPS_BY_SOLVES: Final = 50
FEWEST_STEPS: Final = 10
# Part of the residual that conjugate gradients may leave where they come to their last step.
LEFT: Final = 0.1
# Precisions near the smaller eigenvalues of W_i, not the larger, need the fewest steps: of 0.03 to
# 1 of the typical one, 0.1 was best at signal variances of 3 to 300 and 3 to 10 classes.
TYPICAL: Final = 0.1
# Least precision of the preconditioner, in units of the inverse of the largest prior variance.
LEAST: Final = 1e-3
# Mean change of the logarithms of its precisions at which the preconditioner is made again.
CHANGED: Final = 0.5


class SoftmaxDerivatives(NamedTuple):
    """Total, gradient, and d of ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)``.

    For the softmax itself ``d_i = w_i pi_i``.
    """

    total: float
    first: Array
    d: Array


def softmax_terms(F: Array, codes: Codes, weights: Array) -> SoftmaxDerivatives:
    """``sum_i w_i log softmax(f_i)_{y_i}`` and its derivatives (RW06 eq. 3.34 to 3.38)."""
    rows = np.arange(len(F))
    shifted = F - F.max(axis=1, keepdims=True)
    odds = np.exp(shifted)
    norm = odds.sum(axis=1)
    # the largest of the odds is one: log(norm) = log(1 + sum of the others)
    others = odds.copy()
    others[rows, shifted.argmax(axis=1)] = 0.0
    log_p = shifted[rows, codes] - np.log1p(others.sum(axis=1))
    d = odds * (weights / norm)[:, None]
    first = -d
    first[rows, codes] = 0.0
    first[rows, codes] = -first.sum(axis=1)
    return SoftmaxDerivatives(float(np.einsum("i,i->", weights, log_p)), first, d)


def precision_product(d: Array, V: Array, sums: Array | None = None) -> Array:
    """``W V`` for V of shape (n, C); ``sums`` are the `sums_or_one` of d, if known."""
    P = d * V
    P -= d * (np.einsum("ic->i", P) / (sums_or_one(d) if sums is None else sums))[:, None]
    return P


def sums_or_one(d: Array) -> Array:
    """Sums of the rows of d, shape (n,), and one where they are zero."""
    sums = d.sum(axis=1)
    return np.where(sums > 0, sums, 1.0)


class SoftmaxPoint(NamedTuple):
    """A point of the iteration: ``F = K A``, the objective, and its gradient by F.

    ``scale`` is the largest of the terms' own gradients, at most one; ``size`` the largest entry of
    the gradient in units of ``scale``.
    """

    A: Array
    F: Array
    objective: float
    terms: SoftmaxDerivatives
    residual: Array
    scale: float
    size: float


class SoftmaxEnd(NamedTuple):
    """Where the iteration ended, with the factor there."""

    point: SoftmaxPoint
    factor: JointFactor
    outcome: Outcome
    n_iter: int
    n_factorisations: int


@final
class NewtonSystems:
    """Solver of ``(I + W K) X = R`` for successive W, by conjugate gradients if cheaper."""

    def __init__(self, prior: JointPrior) -> None:
        self.prior = prior
        self.factor: JointFactor | None = None
        self.n_factorisations = 0
        self._variance = max(TINY, float(prior.diagonal.max(initial=0.0)))
        self._omega = np.ones(prior.n)
        self._preconditioner: Preconditioner | None = None
        self._serves = True

    def solve(self, d: Array, R: Array, goal: float) -> Array:
        """``(I + W K)^-1 R``, leaving the part ``goal`` of R's largest entry, or a little more."""
        if self._serves:
            X, left = self._by_preconditioner(d, R, goal)
            if left <= max(LEFT, goal):
                return X
            # where it does not serve once it is not tried again
            self._serves, self._preconditioner = False, None
        if self.factor is not None:
            limit = max(FEWEST_STEPS, self.prior.n // STEPS_BY_SOLVES)
            X, left = self._iterate(self._by_factor, d, R, goal, limit)
            if left <= goal:
                return X
        return self.factor_at(d).solve(R)

    def factor_at(self, d: Array) -> JointFactor:
        """Factor for these precisions: the last one if it is."""
        if self.factor is None or not np.array_equal(self.factor.d, d):
            self.factor = self._preconditioner = None  # their memory, before the next is made
            self.factor = self.prior.factor(d)
            self.n_factorisations += 1
        return self.factor

    def _by_preconditioner(self, d: Array, R: Array, goal: float) -> tuple[Array, float]:
        scaled = d * self._variance
        sums = sums_or_one(scaled)
        # the mean of the diagonal of W_i, weighted by itself
        part = scaled / sums[:, None] * (1.0 - scaled / sums[:, None])
        typical = (part**2).sum(axis=1) / sums_or_one(part)
        omega = np.maximum(LEAST, TYPICAL * sums * typical) / self._variance
        if self._preconditioner is None or np.abs(np.log(omega / self._omega)).mean() > CHANGED:
            try:
                self._preconditioner = self.prior.preconditioner(omega)
            except NotPositiveDefiniteError:
                self._preconditioner = None
            self._omega = omega
        if self._preconditioner is None:
            return R, np.inf
        limit = max(FEWEST_STEPS, self.prior.n // STEPS_BY_PRODUCTS)
        return self._iterate(self._preconditioner, d, R, goal, limit)

    def _by_factor(self, R: Array) -> tuple[Array, Array]:
        assert self.factor is not None
        Z = self.factor.solve(R)
        return Z, self.prior.multiply(Z)

    def _iterate(
        self, preconditioner: Preconditioner, d: Array, R: Array, goal: float, limit: int
    ) -> tuple[Array, float]:
        precision = partial(precision_product, d, sums=sums_or_one(d))
        return conjugate_gradients(preconditioner, precision, R, goal, limit)


@final
@dataclass(frozen=True)
class SoftmaxMode:
    """Newton's iteration for ``sum_i w_i log softmax(f_i)_{y_i} - f^T K^-1 f / 2``.

    As `NewtonSearch`, in pairs ``(A, F = K A)``; a direction solves ``(I + W K) dA = first - A``.
    ``averaged`` stands for `softmax_terms`, as a function of F: the mode is then that of another
    concave objective, and W near its negative second derivatives.
    """

    prior: JointPrior
    codes: Codes
    weights: Array
    tol: float
    max_iter: int
    averaged: Callable[[Array], SoftmaxDerivatives] | None = None

    @property
    def aim(self) -> float:
        """`SoftmaxPoint.size` to reach: a large prior variance needs a smaller one."""
        variance = max(TINY, float(self.prior.diagonal.max(initial=0.0)))
        return self.tol * min(0.1, max(1e-4, 1.0 / variance))

    def at(self, A: Array, F: Array) -> SoftmaxPoint:
        """Evaluate the objective at a point."""
        terms = (self.averaged or self._softmax)(F)
        residual, scale = terms.first - A, max(TINY, min(1.0, largest(terms.first)))
        objective, size = terms.total - 0.5 * inner(A, F), largest(residual) / scale
        return SoftmaxPoint(A, F, objective, terms, residual, scale, size)

    def _softmax(self, F: Array) -> SoftmaxDerivatives:
        return softmax_terms(F, self.codes, self.weights)

    def run(self, sites: ClassSites | None) -> SoftmaxEnd:
        """Iterate from sites of another K, or from F = 0."""
        systems = NewtonSystems(self.prior)
        point = self._start(sites, systems)
        n_iter, before = 0, np.inf
        while (outcome := self._end(point, before, n_iter)) is None:
            n_iter += 1
            # Newton's own error is quadratic in the gradient: solving more finely is wasted
            goal = max(0.3 * self.aim / point.size, min(0.05, point.size))
            d = point.terms.d
            made = systems.n_factorisations
            following = self._line_search(point, systems.solve(d, point.residual, goal))
            if following is None and systems.n_factorisations == made:
                following = self._line_search(point, systems.factor_at(d).solve(point.residual))
            if following is None:
                outcome = outcome_at_rest(point.size, self.tol, self.rounding(point))
                break
            before, point = point.size, following
        factor = systems.factor_at(point.terms.d)
        return SoftmaxEnd(point, factor, outcome, n_iter, systems.n_factorisations)

    def _start(self, sites: ClassSites | None, systems: NewtonSystems) -> SoftmaxPoint:
        """The best of F = 0, of ``A = w Y - d`` as at a mode, and of the mean given the sites."""
        nothing = np.zeros_like(self.prior.diagonal)
        points = [self.at(nothing, nothing)]
        if sites is not None and np.isfinite(sites.b).all() and np.isfinite(sites.d).all():
            d = np.maximum(sites.d, 0.0)
            d = d * (self.weights / sums_or_one(d))[:, None]
            A = -d
            A[np.arange(len(d)), self.codes] += self.weights
            F = self.prior.multiply(A)
            points.append(self.at(A, F))
            residual = sites.b - precision_product(d, F) - A
            if residual.any():
                A = A + systems.solve(d, residual, 3e-3)
                points.append(self.at(A, self.prior.multiply(A)))
        return max(points, key=lambda p: p.objective if np.isfinite(p.objective) else -np.inf)

    def _end(self, point: SoftmaxPoint, before: float, n_iter: int) -> Outcome | None:
        """Outcome where the iteration ends, else None; ``before`` is the size of the last point."""
        # what rounding can cause is a bound: below it the steps go on while they gain
        idle = self.tol >= point.size > 0.5 * before
        if point.size <= self.aim or (idle and point.size <= self.rounding(point)):
            return Outcome.CONVERGED
        if n_iter == self.max_iter:
            return Outcome.CONVERGED if point.size <= self.tol else Outcome.MAX_ITER
        return None

    def rounding(self, point: SoftmaxPoint) -> float:
        """Size (as `SoftmaxPoint.size`) that rounding of ``F = K A`` alone can cause."""
        deviations = np.sqrt(self.prior.diagonal)
        sums = np.einsum("ic,ic->c", deviations, np.abs(point.A))
        error = 8 * EPS * float(deviations.max(initial=0.0)) * float(sums.max(initial=0.0))
        d = point.terms.d
        W = float((d * (1.0 - d / sums_or_one(d)[:, None])).max(initial=0.0))
        return (error * W + 8 * EPS * float(np.abs(point.A).max(initial=0.0))) / point.scale

    def _line_search(self, point: SoftmaxPoint, dA: Array) -> SoftmaxPoint | None:
        """First of the steps 1, 1/2, 1/4, ... that improves the point, None if none does."""
        dF = self.prior.multiply(dA)
        slope = inner(point.residual, dF)
        noise = 16 * EPS * max(1.0, abs(point.objective))
        step = 1.0
        for _ in range(MAX_HALVINGS):
            trial = self.at(point.A + step * dA, point.F + step * dF)
            gain = trial.objective - point.objective
            if is_better(gain, step * slope, noise, trial.size, point.size):
                return trial
            step *= 0.5
        return None
