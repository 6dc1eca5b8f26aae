"""Laplace's method: the Gaussian at the mode (RW06 section 3.4, B06 section 6.4.6)."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import (
    Approximation,
    Outcome,
    SitePosterior,
    as_problem,
    initial_sites,
)
from gpclass.likelihoods.base import Derivatives, Likelihood
from gpclass.priors import Prior, SiteFactor
from gpclass.sites import Sites

Array = NDArray[np.float64]

EPS: Final = float(np.finfo(np.float64).eps)
MAX_HALVINGS: Final = 40
# Sufficient increase of the line search (Armijo): the usual 1e-4 of the predicted increase.
ARMIJO: Final = 1e-4
# The iteration aims this far below its tolerance: one more solve with a factor that is there.
FINER: Final = 1e-3


@final
@dataclass(frozen=True)
class LaplaceApproximation(Approximation):
    """The Gaussian at the mode; `Approximation` has the other fields.

    Parameters
    ----------
    curvature_slope : ndarray of shape (n,)
        ``w_i d^3 log p(y_i|f_i) / df_i^3`` at the mode, minus the slope of W.
    """

    curvature_slope: Array

    def evidence_pullback(self) -> Array:
        """``d log q(y|X, theta) / dK``, ndarray of shape (n, n).

        With ``a = K^-1 f`` at the mode f and ``R = (K + W^-1)^-1``, the evidence moves with K
        explicitly by ``(a a^T - R) / 2`` and through the mode by ``u a^T``, since
        ``df = (I + K W)^-1 dK a`` and ``d log q / df_i = Sigma_ii d^3 log p / df_i^3 / 2``:
        ``u = (I + W K)^-1 (diag(Sigma) * curvature_slope / 2)``.

        References
        ----------
        RW06 eq. 5.20 to 5.24 (of the same book), derived afresh for a matrix K.
        """
        G: Array = self.posterior.factor.pullback(  # type: ignore[assignment]
            self.posterior.mean_weights, 0.5 * self.curvature_slope
        )
        return G


class _State(NamedTuple):
    """A point of the Newton iteration: ``f = K a``, the objective and its derivatives at f."""

    a: Array
    f: Array
    objective: float  # Psi of RW06 eq. 3.12 without the constants of the prior
    derivatives: Derivatives  # weighted
    residual: Array  # gradient of Psi by f: grad log p(y|f) - a


@final
@dataclass(frozen=True)
class Laplace:
    """Laplace's approximation by a safeguarded Newton iteration.

    The mode of ``Psi(f) = sum_i w_i log p(y_i|f_i) - f^T K^-1 f / 2`` is found in pairs
    ``(a, f = K a)``, so no inverse of K occurs. A Newton direction is
    ``da = (I + W K)^-1 (grad log p - a)``. It is computed by the factor of an earlier W as a
    preconditioner of conjugate gradients while W has changed little, and by a new factor where
    that would be slower. Every step must increase Psi (or, at machine precision, shrink the
    gradient), and is halved until it does.

    Parameters
    ----------
    max_iter : int, default=100
        Newton steps.
    tol : float, default=1e-10
        Largest entry of the gradient of Psi by f at which the mode counts as found.

    References
    ----------
    RW06 Algorithms 3.1 and 3.2; B06 section 6.4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Logit
    >>> q = Laplace()(np.eye(2), [1, -1], Logit())
    >>> q.posterior.mean.round(6)
    array([ 0.401058, -0.401058])
    >>> q.outcome.name
    'CONVERGED'
    """

    max_iter: int = 100
    tol: float = 1e-10

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.max_iter < 1 or not self.tol > 0:
            raise ValueError(
                f"max_iter must be at least 1 and tol positive, got {self.max_iter}, {self.tol}"
            )

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> LaplaceApproximation:
        """Find the mode and the Gaussian there.

        Parameters
        ----------
        prior : Prior, or array-like of shape (n, n)
            Prior of the latent values; an array is taken as `DensePrior`.
        y : array-like of shape (n,)
            Labels, -1 or +1.
        likelihood : Likelihood
            Log-concave and smooth.
        weights : array-like of shape (n,), default=None
            Powers of the likelihood terms.
        init : Approximation or Sites, default=None
            Where to start; None: at f = 0.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths, and for a likelihood that is not log-concave.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        prior, labels, powers = as_problem(prior, y, weights)
        if not likelihood.log_concave:
            raise ValueError(
                f"Laplace's method needs a log-concave likelihood, and {likelihood.name!r} is not: "
                "its gradient vanishes or its curvature changes sign"
            )
        search = _Search(prior, labels, powers, likelihood)
        sites = initial_sites(init, prior.n)
        state, factor = search.start(sites)
        n_factorisations = 0 if factor is None else 1
        n_iter = 0
        while True:
            size = float(np.abs(state.residual).max(initial=0.0))
            # The log determinant moves with the mode in first order: ending at tol itself would
            # leave a noise of 1e-9 in the evidence, on which an optimiser's line search stalls.
            # Relative to the gradient of log p, which is tiny itself under a large K.
            scale = min(1.0, float(np.abs(state.derivatives.first).max(initial=0.0)))
            if size <= FINER * self.tol * scale or size <= min(
                self.tol * scale, search.rounding(state)
            ):
                outcome = Outcome.CONVERGED
                break
            if n_iter == self.max_iter:
                outcome = Outcome.CONVERGED if size <= self.tol * scale else Outcome.MAX_ITER
                break
            n_iter += 1
            direction = None
            if factor is not None:
                direction = search.direction_nearby(factor, state, self.tol)
            if direction is None:
                factor = prior.factor(-state.derivatives.second)
                n_factorisations += 1
                direction = factor.shrink(state.residual)
            following = search.line_search(state, direction)
            if following is None:
                rounded = size <= search.rounding(state)
                outcome = Outcome.ROUNDING if rounded else Outcome.STALLED
                if size <= self.tol * scale:
                    outcome = Outcome.CONVERGED
                break
            state = following
        W = -state.derivatives.second
        if factor is None or not np.array_equal(factor.tau, W):
            factor = prior.factor(W)
            n_factorisations += 1
        return LaplaceApproximation(
            posterior=SitePosterior(
                Sites(W * state.f + state.derivatives.first, W), factor, state.a, state.f
            ),
            log_evidence=state.objective - 0.5 * factor.log_det,
            outcome=outcome,
            n_iter=n_iter,
            n_factorisations=n_factorisations,
            curvature_slope=state.derivatives.third,
        )


@final
@dataclass(frozen=True)
class _Search:
    """The parts of the Newton iteration that share the problem."""

    prior: Prior
    y: Array
    weights: Array
    likelihood: Likelihood

    def start(self, sites: Sites | None) -> tuple[_State, SiteFactor | None]:
        """The better of f = 0 and the mean of the prior beside the given sites."""
        zero = self.state(np.zeros(self.prior.n), np.zeros(self.prior.n))
        if sites is None:
            return zero, None
        factor = self.prior.factor(sites.tau)
        a = factor.shrink(sites.nu)
        warm = self.state(a, self.prior.multiply(a))
        return (warm, factor) if warm.objective > zero.objective else (zero, None)

    def state(self, a: Array, f: Array) -> _State:
        """Evaluate the objective and the weighted derivatives."""
        w = self.weights
        objective = float(w @ self.likelihood.log_prob(self.y, f) - 0.5 * (a @ f))
        derivatives = Derivatives(*(w * d for d in self.likelihood.derivatives(self.y, f)))
        return _State(a, f, objective, derivatives, derivatives.first - a)

    def rounding(self, state: _State) -> float:
        """Size of the residual that rounding of ``f = K a`` alone can cause."""
        f_error = (
            8
            * EPS
            * float(np.sqrt(self.prior.diagonal.max(initial=0.0)))
            * float(np.sqrt(self.prior.diagonal) @ np.abs(state.a))
        )
        W = float(-state.derivatives.second.min(initial=0.0))
        return f_error * W + 8 * EPS * float(np.abs(state.a).max(initial=0.0))

    def direction_nearby(self, factor: SiteFactor, state: _State, tol: float) -> Array | None:
        """Newton direction by conjugate gradients with the factor of an earlier W.

        Solves ``(K^-1 + W) df = r`` with the preconditioner ``(K^-1 + W_0)^-1`` in pairs
        ``(da, df = K da)``. None where the factor is too old to be worth it: a new one costs
        n^3 / 3 operations, an iteration 8 n^2 at the (lower) speed of the memory.
        """
        W = -state.derivatives.second
        r = state.residual
        size = float(np.abs(r).max())
        # Newton's own error is quadratic in r: solving more finely is wasted.
        scale = min(1.0, float(np.abs(state.derivatives.first).max(initial=0.0)))
        goal = max(0.1 * FINER * tol * scale, size * min(0.05, size / max(scale, 1e-300)))
        limit = max(3, self.prior.n // 100)
        q = r
        da = np.zeros_like(r)
        z = factor.shrink(q)
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
            z = factor.shrink(q)
            Kz = self.prior.multiply(z)
            qz, old = float(q @ Kz), qz
            p, Kp = z + (qz / old) * p, Kz + (qz / old) * Kp
        return None

    def line_search(self, state: _State, da: Array) -> _State | None:
        """First of the steps 1, 1/2, 1/4, ... that improves the state, None if none does."""
        df = self.prior.multiply(da)
        slope = float(state.residual @ df)
        noise = 16 * EPS * max(1.0, abs(state.objective))
        step = 1.0
        for _ in range(MAX_HALVINGS):
            trial = self.state(state.a + step * da, state.f + step * df)
            gain = trial.objective - state.objective
            if gain >= ARMIJO * step * slope and gain > noise:
                return trial
            # Differences of Psi drown in rounding near the mode; its gradient does not.
            if abs(gain) <= noise + ARMIJO * step * abs(slope) and (
                np.abs(trial.residual).max() < np.abs(state.residual).max()
            ):
                return trial
            step *= 0.5
        return None
