"""Settings of the hyperparameters around their mode, where models average over several."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Node, Progress
from gpclass.learning.objective import FAILURES, Objective, Point, at_bounds
from gpclass.learning.problem import Problem
from gpclass.linalg import symmetric_eigen

Array = NDArray[np.float64]

# Step of the differences of the gradient, in log hyperparameters.
STEP: Final = 0.05
# Deviations along an axis of the design, in log hyperparameters: the curvature of a plateau says
# nothing.
DEVIATIONS: Final = (0.01, 2.0)
# Where the skewness of an axis is judged, in deviations, and how far a side may be stretched.
SIDE: Final = float(np.sqrt(2.0))
STRETCH: Final = 2.0


@final
@dataclass
class Neighbourhood:
    """The log density around a mode, and coordinates z in which it is nearly N(0, I)."""

    objective: Objective
    mode: Node
    free: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        problem: Problem,
        learned: Learned,
        hyperprior: HyperPrior | None,
        progress: Progress | None,
    ) -> "Neighbourhood | None":
        """Around what was learnt; None where all is fixed, on a bound, or not known."""
        mode = learned.best
        free = np.isfinite(mode.theta)
        free[list(at_bounds(mode.theta, problem.bounds))] = False
        if not free.any() or not np.isfinite(mode.log_evidence):
            return None
        objective = Objective(problem, hyperprior=hyperprior, progress=progress)
        return cls(objective, mode, np.flatnonzero(free))

    @property
    def p(self) -> int:
        """Number of hyperparameters that are free."""
        return len(self.free)

    def theta(self, step: Array) -> Array:
        """Theta after a step along the axes."""
        theta = self.mode.theta.copy()
        theta[self.free] += self.axes @ step
        return theta

    def inside(self, theta: Array) -> bool:
        """Whether theta is within the bounds."""
        low, high = self.objective.problem.bounds.T
        return bool(((theta >= low) & (theta <= high)).all())

    def evaluate(self, theta: Array) -> Point | None:
        """The log density and its gradient; None where inference fails.

        Inference starts at the mode's sites, not at those of the evaluation before: the value has
        the same bits whatever was evaluated before.
        """
        self.objective.init = self.mode.sites
        return self.objective.evaluate(theta, gradient=True)

    def node(self, theta: Array) -> tuple[Node, float] | None:
        """Inference at theta and the log density; None beyond the bounds, or where it fails."""
        problem = self.objective.problem
        if theta is self.mode.theta:
            return self.mode, self.mode.log_evidence + self.objective.log_density(theta)[0]
        if not self.inside(theta):
            return None
        init = self.mode.sites if problem.single_optimum else None
        try:
            found = problem.evaluate(theta, gradient=False, init=init)
            log_density, _ = self.objective.log_density(theta)
        except FAILURES:
            return None
        if self.objective.progress is not None:
            self.objective.progress(found.log_evidence)
        if not found.approximation.converged or not np.isfinite(found.log_evidence):
            return None
        return Node.of(theta, found), found.log_evidence + log_density

    @cached_property
    def axes(self) -> Array:
        """Eigenvectors of the Hessian, a deviation long each, as columns."""
        theta, columns = self.mode.theta, []
        for i in self.free:
            low, high = theta.copy(), theta.copy()
            low[i] = max(theta[i] - STEP, self.objective.problem.bounds[i, 0])
            high[i] = min(theta[i] + STEP, self.objective.problem.bounds[i, 1])
            change = self._gradient(high) - self._gradient(low)
            columns.append(change[self.free] / (high[i] - low[i]))
        H = -0.5 * (np.array(columns) + np.array(columns).T)
        curvatures, vectors = symmetric_eigen(H)
        low_curvature, high_curvature = (d**-2 for d in reversed(DEVIATIONS))
        return np.asarray(vectors / np.sqrt(np.clip(curvatures, low_curvature, high_curvature)))

    def _gradient(self, theta: Array) -> Array:
        found = self.evaluate(theta)
        if found is None or found.gradient is None:
            raise NotPositiveDefiniteError(
                "the evidence cannot be evaluated next to its maximum, so that nothing is known of "
                "how sure the hyperparameters are: bound them, or take learning='evidence'"
            )
        return found.gradient

    @cached_property
    def stretches(self) -> Array:
        """Factors of the two sides of each axis, negative and positive, shape (p, 2)."""
        known = self.node(self.mode.theta)
        assert known is not None
        factors = np.ones((self.p, 2))
        for i, unit in enumerate(np.eye(self.p)):
            for side, sign in enumerate((-1.0, 1.0)):
                there = self.node(self.theta(sign * SIDE * unit))
                if there is not None:
                    fall = max((known[1] - there[1]) / (0.5 * SIDE**2), STRETCH**-2)
                    factors[i, side] = max(fall**-0.5, 1.0 / STRETCH)
        return factors

    def point(self, z: Array) -> tuple[Array, float]:
        """Theta at coordinates z, and the log of the volume there, by that at the mode."""
        if not z.any():
            return self.mode.theta, 0.0
        middle = self.stretches.mean(axis=1)
        factors = np.where(z < 0, self.stretches[:, 0], self.stretches[:, 1])
        volume = np.where(z == 0, middle, factors) / middle
        return self.theta(factors * z), float(np.log(volume).sum())
