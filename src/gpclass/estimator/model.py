"""A problem and what was learnt of it: what predicts, and what is saved."""

import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.inference import Outcome
from gpclass.inference.cavities import copies_of
from gpclass.kernels import restrict
from gpclass.learning import Learned, Node, Problem
from gpclass.linalg import TILE, product, symmetric_eigen
from gpclass.montecarlo import Samples

Array = NDArray[np.float64]
T = TypeVar("T")

# New rows at a time: the covariance with 1024 of them is smaller than the training matrix as soon
# as n > 1024, and wide enough for the triangular solve to run at full speed.
CHUNK: Final = 1024
# Values drawn together: their covariance and its eigenvectors take 5 GB.
MAX_SAMPLE_SIZE: Final = 15_000
# Stands for an infinite latent variance: large enough for a probability of 1/2, and finite.
UNKNOWN_VARIANCE: Final = 1e300


class Setting(NamedTuple):
    """One setting of the hyperparameters: its weight, the problem there and its posterior."""

    weight: float
    problem: Any
    posterior: Any


@dataclass(eq=False)
class Model(ABC):
    """A problem at its best hyperparameters, and what was learnt: one setting of them, or several.

    It keeps the inputs, the hyperparameters and the sites. The n x n factors are built when first
    asked for and are not saved, so a model file grows with n, not n^2.
    """

    problem: Any
    learned: Learned
    _settings: list[Setting] | None = field(default=None, init=False, repr=False)
    _approximation: Any = field(default=None, init=False, repr=False)
    _left_out: Array | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, problem: Problem, learned: Learned) -> Self:
        """Return the model of what was learnt of a problem."""
        return cls(problem.at(learned.theta), learned)

    @abstractmethod
    def posterior_at(self, problem: Any, node: Node) -> Any:
        """Posterior of the problem of one setting, from its sites."""

    @property
    def log_evidence(self) -> float:
        """Evidence of the best setting."""
        return self.learned.log_evidence

    @property
    def outcome(self) -> Outcome:
        """How the inference ended: where one setting did not converge, its outcome."""
        found = [Outcome[node.outcome_name] for node in self.learned.nodes]
        best = Outcome[self.learned.best.outcome_name]
        return next((one for one in found if not one.converged), best)

    @property
    def n_iter(self) -> int:
        """Largest number of iterations of the settings' inferences."""
        return max(node.n_iter for node in self.learned.nodes)

    @property
    def sites(self) -> Any:
        """Sites of the best setting."""
        return self.learned.best.sites

    @property
    def start(self) -> Any:
        """Where another inference may start, None for samples."""
        return None if isinstance(self.sites, Samples) else self.sites

    def settings(self) -> list[Setting]:
        """Every setting with its posterior, built once."""
        if self._settings is None:
            nodes = self.learned.nodes
            problems = [self.problem.at(node.theta) for node in nodes]
            self._settings = [
                Setting(node.weight, problem, self.posterior_at(problem, node))
                for node, problem in zip(nodes, problems, strict=True)
            ]
        return self._settings

    def at_settings(self, read: Callable[[Setting, Any], T], X: Any) -> tuple[Array, list[T]]:
        """Weights of the settings, and what is read at new inputs under each."""
        settings = self.settings()
        return np.array([one.weight for one in settings]), [read(one, X) for one in settings]

    @abstractmethod
    def left_out_at(self, setting: Setting, count: Array) -> Array:
        """`left_out` under one setting, where each row is so many copies, of which one goes."""

    @property
    @abstractmethod
    def own_classes(self) -> NDArray[np.intp]:
        """Index of each row's class, shape (n,)."""

    def left_out(self, one_copy: bool = False) -> Array:
        """Log probabilities of the classes of each of its rows given the others, (n, C).

        A row goes with its whole weight, or with one copy of it. Found once where these are the
        same. With several settings their weights are those without the row as well,
        ``p(theta | y_-i) ∝ p(theta | y) / p(y_i | y_-i, theta)``.
        """
        given = self.problem.weights
        if one_copy and given is not None and (given > 1.0).any():
            return self._found_left_out(copies_of(given))
        if self._left_out is None:
            self._left_out = self._found_left_out(np.ones(len(self.own_classes)))
        return self._left_out

    def _found_left_out(self, count: Array) -> Array:
        log_p = np.stack([self.left_out_at(setting, count) for setting in self.settings()])
        with np.errstate(divide="ignore"):
            log_w = np.log([setting.weight for setting in self.settings()])
        given = self.problem.weights
        powers = 1.0 if given is None else np.minimum(given, 1.0)
        own = log_p[:, np.arange(log_p.shape[1]), self.own_classes]
        log_w = log_w[:, None] - powers * own
        log_w -= np.logaddexp.reduce(log_w, axis=0)
        return np.asarray(np.logaddexp.reduce(log_p + log_w[:, :, None], axis=0))

    def approximation(self) -> Any:
        """Approximation at the best setting, found once from the sites that fit ended with."""
        if self._approximation is None:
            problem = self.problem
            found = problem.evaluate(problem.theta, gradient=False, init=self.start)
            self._approximation = found.approximation
        return self._approximation

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what can be built again."""
        return self.__dict__ | {"_settings": None, "_approximation": None, "_left_out": None}


def inputs_for(problem: Problem, X: Any) -> Any:
    """New inputs as the kernels of a problem take them; some hold covariances of all rows."""
    if problem.rows is None:
        return X
    return restrict(problem.kernels[0], X, problem.rows, len(problem.X))


def cross_covariance(problem: Problem, X: Any) -> tuple[Any, Array]:
    """Covariance of training and new inputs, and prior variances, which must not be negative."""
    # the caller finds an overflow, and warns
    with np.errstate(over="ignore", invalid="ignore"):
        K_cross, k_diag = problem.cross(inputs_for(problem, X))
    if (k_diag < 0).any():
        raise NotPositiveDefiniteError(
            f"the kernel {problem.kernel} gives rows of X a negative variance ({k_diag.min():.3g})"
        )
    return K_cross, k_diag


def chunks(X: Any) -> Iterator[tuple[slice, Any]]:
    """Parts of the new rows, each filled up to whole tiles by repeating its last row.

    So a row's result does not depend on its batch: see `linalg.TILE`.
    """
    m = len(X)
    for start in range(0, m, CHUNK):
        stop = min(start + CHUNK, m)
        rows = np.minimum(np.arange(start, stop + (start - stop) % TILE), stop - 1)
        part = X[rows] if isinstance(X, np.ndarray) else [X[i] for i in rows]
        yield slice(start, stop), part


def warn_of_overflow(problem: Problem, lost: NDArray[np.bool_]) -> None:
    """Say that the latent values of some new rows are not known."""
    warnings.warn(
        f"the kernel {problem.kernel} overflows at {lost.sum()} of the {len(lost)} new rows; "
        "their latent value is taken as unknown (all classes equally probable)",
        NumericalWarning,
        stacklevel=4,
    )


def warn_of_lost_rows(lost: NDArray[np.bool_]) -> None:
    """Say that the leave-one-out probabilities of some rows are not known."""
    warnings.warn(
        f"without one of {lost.sum()} of the {len(lost)} training rows the sites have no proper "
        "posterior (some precisions are negative): the leave-one-out latent of these rows is taken "
        "as unknown (all classes equally probable)",
        NumericalWarning,
        stacklevel=4,
    )


def draw_from_settings(
    settings: list[Setting],
    n_samples: int,
    rng: np.random.RandomState,
    draw_at: Callable[[Setting, int], Array],
) -> Array:
    """Draw from the settings by their weights, in random order; ``draw_at(setting, k)`` makes k."""
    if len(settings) == 1:
        return np.asarray(draw_at(settings[0], n_samples))
    counts = rng.multinomial(n_samples, [setting.weight for setting in settings])
    drawn = [draw_at(one, k) for one, k in zip(settings, counts, strict=True) if k > 0]
    return np.concatenate(drawn, axis=-1)[..., rng.permutation(n_samples)]


def draw(mean: Array, covariance: Array, n_samples: int, rng: np.random.RandomState) -> Array:
    """Draws of N(mean, covariance), singular or not, shape (k, n_samples)."""
    values, vectors = symmetric_eigen(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean[:, None] + product(root, rng.standard_normal((len(mean), n_samples)))


def check_sample_count(n_samples: object) -> None:
    """Refuse what is no number of samples."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, numbers.Integral):
        raise TypeError(f"n_samples must be an integer, got {n_samples!r}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")


def check_sample_size(size: int) -> None:
    """Refuse to draw more values together than have a covariance in memory."""
    if size > MAX_SAMPLE_SIZE:
        raise ValueError(
            f"a draw of {size} latent values together needs {3 * 8e-9 * size**2:.0f} GB: draw for "
            "fewer rows of X"
        )
