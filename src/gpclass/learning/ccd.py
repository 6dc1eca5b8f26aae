"""Averaging over hyperparameters by a central composite design around their mode."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.learning.evidence import MaximiseEvidence, Optimizer, check_optimizer
from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Learner, Node, Progress
from gpclass.learning.neighbourhood import Neighbourhood
from gpclass.learning.parallel import SMALL, one_blas_thread
from gpclass.learning.problem import Problem
from gpclass.learning.search import SearchSettings

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class CentralComposite(Learner):
    """Models that average over hyperparameters at the points of a central composite design.

    The mode of the evidence times the hyperprior is found first (`MaximiseEvidence`). With
    coordinates z along the eigenvectors of the Hessian there, in deviations, and stretched on
    either side until the log density falls as a Gaussian's does at ``|z_i| = sqrt(2)``, the points
    are the centre, two on each axis and corners, all at ``|z| = radius sqrt(p)`` but the centre. A
    point's weight is its density, by that of the Gaussian, times what makes the Gaussian's total
    and its covariance right: ``1 - 1 / radius^2`` at the centre, ``1 / radius^2`` for all others
    together.

    Hyperparameters that end on a bound stay there. Points beyond the bounds, and those where
    inference does not converge, count nothing. Each point costs one inference, started at the
    sites of the mode, and its factor of n x n numbers in predictions.

    Parameters
    ----------
    optimizer, hyperprior, settings
        As in `MaximiseEvidence`, for the mode.
    radius : float, default=1.1
        Above one.
    max_corners : int, default=128
        Up to so many corners main effects and interactions of two are kept apart (a fractional
        factorial design of resolution V; up to 11 hyperparameters for 128 corners), beyond that
        main effects alone (resolution IV).
    negligible : float, default=1e-3
        Points that together weigh less are left out.

    References
    ----------
    Rue, Martino & Chopin, *Approximate Bayesian inference for latent Gaussian models by using
    integrated nested Laplace approximations*, 2009, section 6.5; Vanhatalo, Pietiläinen & Vehtari,
    *Approximate inference for disease mapping with sparse Gaussian processes*, 2010; Sanchez &
    Sanchez, *Very large fractional factorial and central composite designs*, 2005; Martins,
    Simpson, Lindgren & Rue, *Bayesian computing with INLA: new features*, 2013, for the stretched
    sides.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.learning import BinaryProblem, CentralComposite
    >>> from gpclass.likelihoods import Probit
    >>> X = np.linspace(0, 4, 20)[:, None]
    >>> y = np.where(np.sin(2 * X[:, 0]) > 0.2, 1.0, -1.0)
    >>> y[[4, 13]] *= -1
    >>> problem = BinaryProblem(1.0 * RBF(1.0), X, y, Probit(), EP())
    >>> learned = CentralComposite().learn(problem, problem.theta[None])
    >>> len(learned.nodes), bool(abs(sum(node.weight for node in learned.nodes) - 1) < 1e-9)
    (9, True)
    """

    optimizer: str | Optimizer = "fmin_l_bfgs_b"
    hyperprior: HyperPrior | None = None
    settings: SearchSettings = field(default_factory=SearchSettings)
    radius: float = 1.1
    max_corners: int = 128
    negligible: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_optimizer(self.optimizer)
        if not self.radius > 1.0 or self.max_corners < 1 or not 0.0 <= self.negligible < 1.0:
            raise ValueError(
                "radius must be above 1, max_corners at least 1 and negligible from 0 to below 1, "
                f"got {self.radius}, {self.max_corners}, {self.negligible}"
            )

    def n_settings(self, p: int) -> int:
        """Points of the design of p hyperparameters."""
        return len(design(p, self.max_corners))

    def n_evaluations(self, p: int) -> int:
        """Evaluations beside those of the search for the mode."""
        return 4 * p + self.n_settings(p)

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Any = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Find the mode, and the points around it with their weights.

        NotPositiveDefiniteError, in addition, where the gradient next to the mode is not known.
        """
        mode = MaximiseEvidence(self.optimizer, self.hyperprior, self.settings).learn(
            problem, starts, init=init, n_jobs=n_jobs, progress=progress
        )
        around = Neighbourhood.of(problem, mode, self.hyperprior, progress)
        if around is None:
            return mode
        with one_blas_thread(problem.n_rows < SMALL):
            nodes = self._nodes(around)
        return replace(mode, nodes=nodes, mode=0)

    def _nodes(self, around: Neighbourhood) -> tuple[Node, ...]:
        """The nodes of positive weight, the mode first."""
        Z = self.radius * design(around.p, self.max_corners)
        points = [around.point(z) for z in Z]
        found = [(around.node(theta), size, z) for (theta, size), z in zip(points, Z, strict=True)]
        share = np.full(len(Z), 1.0 / (self.radius**2 * (len(Z) - 1)))
        share[0] = 1.0 - self.radius**-2
        log_w = np.array(
            [
                -np.inf if one is None else one[1] + size + 0.5 * float(z @ z)
                for one, size, z in found
            ]
        )
        weights = share * np.exp(log_w - log_w.max())
        order = np.argsort(weights)
        weights[order[np.cumsum(weights[order]) < self.negligible * weights.sum()]] = 0.0
        # the mode is kept: it is what is reported
        weights[0] = max(weights[0], share[0] * np.exp(log_w[0] - log_w.max()))
        weights /= weights.sum()
        return tuple(
            replace(one[0], weight=float(weight))
            for (one, _, _), weight in zip(found, weights, strict=True)
            if one is not None and (weight > 0.0 or one[0].theta is around.mode.theta)
        )


def design(p: int, max_corners: int) -> Array:
    """Points ``|z| = sqrt(p)`` of a central composite design after the centre, shape (k, p).

    >>> design(2, 128).round(2).tolist()[1:]
    [[1.41, 0.0], [-1.41, 0.0], [0.0, 1.41], [0.0, -1.41], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], \
[1.0, 1.0]]
    >>> [len(design(p, 128)) - 2 * p - 1 for p in (1, 2, 3, 5, 6, 11, 12, 33)]
    [0, 4, 8, 16, 32, 128, 32, 128]
    """
    star = np.sqrt(p) * np.stack([np.eye(p), -np.eye(p)], axis=1).reshape(2 * p, p)
    centre = np.zeros((1, p))
    if p == 1:
        return np.vstack([centre, star])
    generators = _generators(p, 4)
    if 1 << max(generators).bit_length() > max_corners:
        generators = _generators(p, 3)
    runs = np.arange(1 << max(generators).bit_length())
    shared = np.bitwise_and.outer(runs, np.array(generators))
    odd = np.array([[bin(int(one)).count("1") % 2 for one in row] for row in shared])
    return np.vstack([centre, star, 2.0 * odd - 1.0])


def _generators(p: int, strength: int) -> list[int]:
    """The least p numbers of which no ``strength`` or fewer have the exclusive or zero."""
    chosen: list[int] = []
    reached = {0}
    candidate = 0
    while len(chosen) < p:
        candidate += 1
        if candidate not in reached:
            chosen.append(candidate)
            parts = itertools.chain.from_iterable(
                itertools.combinations(chosen, k) for k in range(1, strength)
            )
            for part in parts:
                total = 0
                for one in part:
                    total ^= one
                reached.add(total)
    return chosen
