"""The mode of the softmax under the prior of many classes, by a safeguarded Newton iteration."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome
from gpclass.inference.solvers.newton import ARMIJO, EPS, MAX_HALVINGS, TINY
from gpclass.priors.classes import ClassPrior, ClassSites
from gpclass.priors.coupled import CoupledFactor

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Single = NDArray[np.float32]

# The iteration aims below its tolerance, the further the larger the prior variance: by that the
# mode moves at most with what is left of the gradient, and the log determinant with the mode.
FINER: Final = 0.1
FINEST: Final = 1e-4
# How exactly the start is conditioned on given sites: it is a start.
START_ACCURACY: Final = 3e-3
# An iteration under a shared K is one product in single precision: n / 3 of them, measured, cost
# less than a factorisation. With a factor an iteration costs several products in double.
SINGLE_ITERATIONS: Final = 3
FACTORED_ITERATIONS: Final = 50
FEWEST_ITERATIONS: Final = 10
# What single precision can be asked for, where the matrix has a condition below the other.
SINGLE_ACCURACY: Final = 3e-5
SINGLE_CONDITION: Final = 1e5
SINGLE_RANGE: Final = 1e15
# A site that moves a latent by less than this part of its prior variance is as good as none.
NO_SITE: Final = 1e-3
# Precisions near the smaller eigenvalues of W_i, not the larger, need the fewest iterations: of
# 0.03 to 1 of the typical one, 0.1 was best at signal variances of 3 to 300 and 3 to 10 classes.
TYPICAL: Final = 0.1
# The shared preconditioner is renewed where its precisions are off by this factor's logarithm.
RENEW: Final = 0.5
# An inexact step that leaves more than this of the gradient, near the mode, was not worth it.
SLOW: Final = 0.5
# A gradient of that size, in units of the terms' own, is not near the mode.
FAR: Final = 0.05


def dot(A: Array, B: Array) -> float:
    """Sum of the products of the entries."""
    return float(np.einsum("ij,ij->", A, B))


class SoftmaxTerms(NamedTuple):
    """Weighted log-likelihood at latents F of shape (n, C), its gradient, and d of its Hessian.

    Minus the Hessian of a row is ``W_i = diag(d_i) - d_i d_i^T / w_i`` with ``d_i = w_i pi_i``.
    """

    total: float
    first: Array
    d: Array


def softmax_terms(F: Array, codes: Codes, weights: Array) -> SoftmaxTerms:
    """``sum_i w_i log softmax(f_i)_{y_i}`` and its derivatives (RW06 eq. 3.34 to 3.38).

    One minus a probability is the sum of the others, which keeps its digits near one.

    Parameters
    ----------
    F : ndarray of shape (n, C)
    codes : ndarray of shape (n,)
        Each row's class.
    weights : ndarray of shape (n,)
        Powers of the rows' terms.

    Examples
    --------
    >>> import numpy as np
    >>> terms = softmax_terms(np.array([[0.0, 1e3, 1e3]]), np.array([0]), np.ones(1))
    >>> round(terms.total, 4), terms.first.tolist()
    (-1000.6931, [[1.0, -0.5, -0.5]])
    """
    rows = np.arange(len(F))
    shifted = F - F.max(axis=1, keepdims=True)
    odds = np.exp(shifted)
    norm = odds.sum(axis=1)
    # log(1 + x) of the classes beside the likeliest one
    likeliest = shifted.argmax(axis=1)
    beside = odds.copy()
    beside[rows, likeliest] = 0.0
    log_p = shifted[rows, codes] - np.log1p(beside.sum(axis=1))
    d = odds * (weights / norm)[:, None]
    first = -d
    first[rows, codes] = 0.0
    first[rows, codes] = -first.sum(axis=1)
    return SoftmaxTerms(float(np.einsum("i,i->", weights, log_p)), first, d)


def precision_product(d: Array, V: Array, norm: Array | None = None) -> Array:
    """``W V`` for V of shape (n, C), given the `row_sums` of d if they are there."""
    P = d * V
    share = P.sum(axis=1) / (row_sums(d) if norm is None else norm)
    P -= d * share[:, None]
    return P


def row_sums(d: Array) -> Array:
    """Sums of the rows of d, shape (n,), with ones where they are zero."""
    sums = d.sum(axis=1)
    return np.where(sums > 0, sums, 1.0)


class State(NamedTuple):
    """A point of the iteration: ``F = K A``, the objective, and its gradient by F."""

    A: Array
    F: Array
    objective: float
    terms: SoftmaxTerms
    residual: Array

    @property
    def scale(self) -> float:
        """Largest of the terms' own gradients, or one: what the gradient is measured by."""
        return max(TINY, min(1.0, float(np.abs(self.terms.first).max(initial=0.0))))

    @property
    def size(self) -> float:
        """Largest entry of the gradient in units of the scale."""
        return float(np.abs(self.residual).max(initial=0.0)) / self.scale


@final
@dataclass(frozen=True)
class SharedPreconditioner:
    """``(K^-1 + diag(omega))^-1`` for every class, in single precision.

    One precision omega a row stands for its W_i. With ``B = I + S K S``, ``S = diag(omega)^1/2``,
    the pair of ``z = (I + S^2 K)^-1 q`` and ``K z = (q - z) / omega`` costs one product with B^-1,
    and none with K. Precisions are in units of the largest prior variance, and K in that unit, so
    that what occurs is neither too small nor too large for single precision.

    Parameters
    ----------
    inverse : ndarray of float32 of shape (n, n)
        Of B.
    omega : ndarray of shape (n,)
    """

    inverse: Single
    omega: Array

    @classmethod
    def of(cls, prior: ClassPrior, d: Array) -> "SharedPreconditioner | None":
        """Return that of sites with these d; None where single precision is too coarse."""
        unit = largest_variance(prior)
        omega = shared_precisions(prior, d)
        condition = 1.0 + float(omega @ (prior.diagonal[:, 0] / unit))
        if not (condition < SINGLE_CONDITION and float(d.max(initial=0.0)) * unit < SINGLE_RANGE):
            return None
        inverse = linalg.single_inverse(prior.covariances[0], np.sqrt(omega / unit))
        return cls(inverse, omega)

    def suits(self, omega: Array) -> bool:
        """Whether these precisions are near enough to those that it was made of."""
        return float(np.abs(np.log(omega / self.omega)).mean()) < RENEW

    def solve(
        self, prior: ClassPrior, d: Array, q: Array, goal: float, limit: int
    ) -> tuple[Array, float]:
        """Solve ``(I + W K) X = q``: X, and what is left of q's largest entry, as a part of it.

        Conjugate gradients, all in single precision, to the part ``goal`` of q.
        """
        largest = float(np.abs(q).max())
        single = np.float32
        root = np.sqrt(self.omega).astype(single)[:, None]
        per_omega = (1.0 / self.omega).astype(single)[:, None]
        left = (q / largest).astype(single)
        share = (d / row_sums(d)[:, None]).astype(single)
        D = (d * largest_variance(prior)).astype(single)
        X = np.zeros_like(left)
        p, Kp = X, X
        old, remains = np.inf, 1.0
        for _ in range(limit):
            z = linalg.product(self.inverse, left / root)
            z *= root
            Kz = (left - z) * per_omega
            qz = single_dot(left, Kz)
            p, Kp = z + single(qz / old) * p, Kz + single(qz / old) * Kp
            DKp = D * Kp
            Ap = p + DKp
            Ap -= share * np.einsum("ij->i", DKp)[:, None]
            curvature = single_dot(Kp, Ap)
            if not (curvature > 0 and qz > 0):
                break
            step = single(qz / curvature)
            X += step * p
            left -= step * Ap
            old, remains = qz, float(np.abs(left).max())
            if remains <= goal:
                break
        return X.astype(np.float64) * largest, remains


def single_dot(A: Single, B: Single) -> float:
    """Sum of the products of the entries."""
    return float(np.einsum("ij,ij->", A, B))


def largest_variance(prior: ClassPrior) -> float:
    """Largest prior variance, or the smallest number that stands for it."""
    return max(TINY, float(prior.diagonal.max(initial=0.0)))


def shared_precisions(prior: ClassPrior, d: Array) -> Array:
    """One precision a row that stands for W_i, at least so large that it can be divided by.

    In units of the largest prior variance, shape (n,).
    """
    scaled = d * largest_variance(prior)
    sums = row_sums(scaled)
    # the mean of the diagonal of W, weighted by itself
    part = scaled / sums[:, None] * (1.0 - scaled / sums[:, None])
    total = part.sum(axis=1)
    typical = np.einsum("ij,ij->i", part, part) / np.where(total > 0, total, 1.0)
    precisions: Array = np.maximum(NO_SITE, TYPICAL * sums * typical)
    return np.where(scaled.any(axis=1), precisions, NO_SITE)


class Start(NamedTuple):
    """Where the iteration begins, with what was made for it, of a precision nearby."""

    state: State
    shared: SharedPreconditioner | None
    factor: CoupledFactor | None


class Mode(NamedTuple):
    """Where the iteration ended, with the last factor that it made, of a precision nearby."""

    state: State
    factor: CoupledFactor | None
    outcome: Outcome
    n_iter: int
    n_factorisations: int


@final
@dataclass(frozen=True)
class SoftmaxMode:
    """Newton's iteration for ``sum_i w_i log softmax(f_i)_{y_i} - f^T K^-1 f / 2``.

    In pairs ``(A, F = K A)``, so that no inverse of K occurs. A direction solves
    ``(I + W K) dA = first - A`` (RW06 Algorithm 3.3, lines 4 to 11). Under a shared K it comes
    from conjugate gradients in single precision, preconditioned by `SharedPreconditioner`: a
    hundred iterations cost less than the C + 1 factorisations of a direct solve, and Newton's
    iteration, in double precision, mends their errors as its own. Where that is too coarse or too
    slow there is a factorisation, which serves as preconditioner while W changes little. Every
    step must increase the objective (or, at machine precision, shrink the gradient), and is
    halved until it does.

    Parameters
    ----------
    prior : ClassPrior
    codes : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    tol : float
        `State.size` at which the mode counts as found.
    max_iter : int
    """

    prior: ClassPrior
    codes: Codes
    weights: Array
    tol: float
    max_iter: int

    @property
    def aim(self) -> float:
        """`State.size` below which nothing is left to gain."""
        return self.tol * min(FINER, max(FINEST, 1.0 / largest_variance(self.prior)))

    def at(self, A: Array, F: Array) -> State:
        """Evaluate the objective at a point."""
        terms = softmax_terms(F, self.codes, self.weights)
        return State(A, F, terms.total - 0.5 * dot(A, F), terms, terms.first - A)

    def start(self, sites: ClassSites | None) -> Start:
        """The best of F = 0, and of what given sites say of the mode under another K.

        At a mode of this model ``A = first = w Y - d``; nearer to the mode under this K is the
        posterior mean beside the same sites.
        """
        nothing = np.zeros_like(self.prior.diagonal)
        zero = self.at(nothing, nothing)
        if sites is None or not (np.isfinite(sites.b).all() and np.isfinite(sites.d).all()):
            return Start(zero, None, None)
        d = np.maximum(sites.d, 0.0)
        d = d * (self.weights / row_sums(d))[:, None]
        kept = -d
        kept[np.arange(len(d)), self.codes] += self.weights
        F = self.prior.multiply(kept)
        residual = sites.b - precision_product(d, F) - kept
        factor, shared = None, self._shared(None, d)
        if not residual.any():
            move = residual
        elif shared is not None:
            limit = self._limit(SINGLE_ITERATIONS)
            move, _ = shared.solve(self.prior, d, residual, START_ACCURACY, limit)
        else:
            factor = self.prior.factor(d)
            move = factor.shrink(residual)
        A = kept + move
        states = [zero, self.at(kept, F), self.at(A, self.prior.multiply(A))]
        best = max(states, key=lambda s: s.objective if np.isfinite(s.objective) else -np.inf)
        return Start(best, shared, factor)

    def _shared(self, shared: SharedPreconditioner | None, d: Array) -> SharedPreconditioner | None:
        """A preconditioner for sites with these d, the one that is there if it will do."""
        if not self.prior.shared:
            return None
        if shared is not None and shared.suits(shared_precisions(self.prior, d)):
            return shared
        try:
            return SharedPreconditioner.of(self.prior, d)
        except NotPositiveDefiniteError:
            return None

    def _limit(self, share: int) -> int:
        return max(FEWEST_ITERATIONS, self.prior.n // share)

    def run(self, start: Start) -> Mode:
        """Iterate from a point."""
        state, shared, factor = start
        n_factorisations = int(factor is not None)
        coarse = factor is None
        n_iter = 0
        before = np.inf
        while True:
            # What rounding can cause is a bound: below it the steps go on while they gain.
            settled = state.size <= min(self.tol, self.rounding(state))
            if state.size <= self.aim or (settled and state.size > SLOW * before):
                outcome = Outcome.CONVERGED
                break
            if n_iter == self.max_iter:
                outcome = Outcome.CONVERGED if state.size <= self.tol else Outcome.MAX_ITER
                break
            n_iter += 1
            following = None
            if coarse:
                shared = self._shared(shared, state.terms.d)
                following = None if shared is None else self._coarse_step(state, shared)
                slow = following is None or following.size > SLOW * state.size
                coarse = not slow or (following is not None and state.size > FAR)
            if following is None and factor is not None:
                direction = self._direction_nearby(factor, state)
                if direction is not None:
                    following = self._line_search(state, direction)
            if following is None and not (settled and factor is not None):
                factor = None  # its memory is wanted
                factor = self.prior.factor(state.terms.d)
                n_factorisations += 1
                following = self._line_search(state, factor.shrink(state.residual))
            if following is None:
                outcome = self._outcome_without_progress(state)
                break
            before = state.size
            state = following
        return Mode(state, factor, outcome, n_iter, n_factorisations)

    def _goal(self, state: State) -> float:
        """Part of the gradient that a step may leave.

        Newton's own error is quadratic in the gradient: solving more finely is wasted.
        """
        return max(0.3 * self.aim / state.size, min(FAR, state.size))

    def _coarse_step(self, state: State, shared: SharedPreconditioner) -> State | None:
        goal = max(SINGLE_ACCURACY, self._goal(state))
        limit = self._limit(SINGLE_ITERATIONS)
        d = state.terms.d
        direction, remains = shared.solve(self.prior, d, state.residual, goal, limit)
        return self._line_search(state, direction) if remains <= SLOW else None

    def rounding(self, state: State) -> float:
        """Size (as `State.size`) that rounding of ``F = K A`` alone can cause."""
        deviations = np.sqrt(self.prior.diagonal)
        reach = float(np.einsum("ic,ic->c", deviations, np.abs(state.A)).max(initial=0.0))
        f_error = 8 * EPS * float(deviations.max(initial=0.0)) * reach
        d = state.terms.d
        W = float((d * (1.0 - d / row_sums(d)[:, None])).max(initial=0.0))
        rounded = f_error * W + 8 * EPS * float(np.abs(state.A).max(initial=0.0))
        return rounded / state.scale

    def _outcome_without_progress(self, state: State) -> Outcome:
        if state.size <= self.tol:
            return Outcome.CONVERGED
        return Outcome.ROUNDING if state.size <= self.rounding(state) else Outcome.STALLED

    def _direction_nearby(self, factor: CoupledFactor, state: State) -> Array | None:
        """Newton direction by conjugate gradients with the factor of an earlier W.

        Solves ``(K^-1 + W) dF = r`` with the preconditioner ``(K^-1 + W_0)^-1`` in pairs
        ``(dA, dF = K dA)``. None where the factor is too old to be worth it.
        """
        q, d, norm = state.residual, state.terms.d, row_sums(state.terms.d)
        goal = self._goal(state) * float(np.abs(q).max())
        dA, p, Kp, old = np.zeros_like(q), np.zeros_like(q), np.zeros_like(q), np.inf
        for _ in range(self._limit(FACTORED_ITERATIONS)):
            z = factor.shrink(q)
            Kz = self.prior.multiply(z)
            qz = dot(q, Kz)
            p, Kp = z + (qz / old) * p, Kz + (qz / old) * Kp
            Ap = p + precision_product(d, Kp, norm)
            curvature = dot(Kp, Ap)
            if not (curvature > 0 and qz > 0):
                return None
            step, old = qz / curvature, qz
            dA = dA + step * p
            q = q - step * Ap
            if float(np.abs(q).max()) <= goal:
                return dA
        return None

    def _line_search(self, state: State, dA: Array) -> State | None:
        """First of the steps 1, 1/2, 1/4, ... that improves the state, None if none does."""
        dF = self.prior.multiply(dA)
        slope = dot(state.residual, dF)
        noise = 16 * EPS * max(1.0, abs(state.objective))
        step = 1.0
        for _ in range(MAX_HALVINGS):
            trial = self.at(state.A + step * dA, state.F + step * dF)
            gain = trial.objective - state.objective
            if gain >= ARMIJO * step * slope and gain > noise:
                return trial
            # Differences of the objective drown in rounding near the mode; its gradient does not.
            drowned = abs(gain) <= noise + ARMIJO * step * abs(slope)
            if drowned and trial.size < state.size:
                return trial
            step *= 0.5
        return None
