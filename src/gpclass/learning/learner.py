"""What learning returns, and the contract of what learns."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.learning.problem import Evaluation, Problem

Array = NDArray[np.float64]
# Called with the evidence of an evaluation, and theta where it is the best so far.
Progress = Callable[..., None]


@final
@dataclass(frozen=True)
class LearningRun:
    """One run of an optimiser.

    ``start`` and ``end`` (p,) are logarithms: where it began, and the best that it saw, with
    indices ``at_bounds`` of entries on a bound. ``log_evidence`` is that of the end, NaN where no
    evaluation succeeded. ``n_rejected`` of the ``n_evaluations`` failed (overflow, not positive
    definite, an impossible evidence): steps to be shortened, NaN in ``trace``, which has the
    evidences at the rows of ``path`` (n_evaluations, p).
    """

    start: Array
    end: Array
    log_evidence: float
    n_evaluations: int
    n_rejected: int
    message: str
    trace: tuple[float, ...]
    at_bounds: tuple[int, ...]
    path: Array


@final
@dataclass(frozen=True)
class Node:
    """One setting of the hyperparameters, its weight in averages, and the inference there.

    Parameters
    ----------
    theta : ndarray of shape (p,)
    log_evidence : float
    sites : Sites, or ClassSites or Samples in their place
    outcome_name : str
        Name of the `Outcome` of the inference that found the sites.
    n_iter : int
        Its iterations.
    weight : float, default=1.0
        Posterior probability of this setting; the weights of all nodes sum to one.
    """

    theta: Array
    log_evidence: float
    sites: Any
    outcome_name: str
    n_iter: int
    weight: float = 1.0

    @classmethod
    def of(cls, theta: Array, evaluation: Evaluation, weight: float = 1.0) -> "Node":
        """Keep what predicts of an evaluation at theta."""
        q = evaluation.approximation
        return cls(theta, evaluation.log_evidence, q.sites, q.outcome.name, q.n_iter, weight)


@final
@dataclass(frozen=True)
class Learned:
    """Hyperparameters that were learnt: one setting, or several that models average over.

    Parameters
    ----------
    nodes : tuple of Node
        At least one; their weights are not negative and sum to one.
    runs : tuple of LearningRun
    mode : int, default=None
        Number of the node that is reported; None: that of largest weight.
    draws : ndarray of shape (chains, draws, p), default=None
        All theta that a sampler drew, of which nodes are some.
    """

    nodes: tuple[Node, ...]
    runs: tuple[LearningRun, ...] = ()
    mode: int | None = None
    draws: Array | None = None

    def __post_init__(self) -> None:
        """Refuse weights that are no probabilities."""
        weights = np.array([node.weight for node in self.nodes])
        if not ((weights >= 0).all() and np.isclose(weights.sum(), 1.0, atol=1e-9)):
            raise ValueError(f"weights of nodes must be probabilities, got {weights}")

    @property
    def best(self) -> Node:
        """The mode, else the node of largest weight: its theta and evidence are reported."""
        if self.mode is not None:
            return self.nodes[self.mode]
        return max(self.nodes, key=lambda node: (node.weight, node.log_evidence))

    @property
    def theta(self) -> Array:
        """Hyperparameters of the best node, shape (p,)."""
        return self.best.theta

    @property
    def log_evidence(self) -> float:
        """Evidence of the best node."""
        return self.best.log_evidence


class Learner(ABC):
    """A way to find hyperparameters: one method."""

    @abstractmethod
    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: object = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Learn from each start.

        Parameters
        ----------
        problem : Problem
        starts : ndarray of shape (r, p)
            Where to start, the first from the kernel's own values.
        init : Sites, default=None
            Sites for the very first evaluation.
        n_jobs : int, default=None
            Runs at a time; the result does not depend on it.
        progress : callable, default=None
            Called with the evidence after each evaluation (each run, where runs are parallel), and
            with theta as a second argument, or None where it is not the best so far.

        Raises
        ------
        NotPositiveDefiniteError
            Where the evidence cannot be evaluated at any start.
        """


@final
@dataclass(frozen=True)
class KeepFixed(Learner):
    """No learning: the hyperparameters stay where the kernel has them."""

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: object = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Evaluate the evidence once."""
        node = node_at(problem, problem.theta, init)
        if progress is not None:
            progress(node.log_evidence)
        return Learned((node,))


def node_at(problem: Problem, theta: Array, init: object) -> Node:
    """Evaluate at theta, and refuse a kernel that is not positive semi-definite."""
    return Node.of(theta, problem.evaluate(theta, gradient=False, init=init, check=True))


def draw_starts(problem: Problem, n_restarts: int, random_state: np.random.RandomState) -> Array:
    """Start values: the kernel's own, then log-uniform draws within the bounds.

    ValueError where restarts are asked for and a bound is infinite.
    """
    bounds = problem.bounds
    if n_restarts == 0:
        return problem.theta[None, :]
    if not np.isfinite(bounds).all():
        raise ValueError(
            "n_restarts_optimizer > 0 draws start values between the bounds of the kernel's "
            f"hyperparameters, so all bounds must be finite; got {np.exp(bounds).tolist()}"
        )
    draws = random_state.uniform(bounds[:, 0], bounds[:, 1], size=(n_restarts, len(bounds)))
    return np.vstack([problem.theta[None, :], draws])
