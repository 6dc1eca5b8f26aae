"""What is learnt: a problem whose evidence depends on hyperparameters, and the contract."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import Approximation, InferenceMethod
from gpclass.inference.sites import Sites
from gpclass.kernels import (
    diagonal,
    evaluate,
    from_recipe,
    pullback,
    take,
    to_recipe,
)
from gpclass.likelihoods import Likelihood
from gpclass.priors import DensePrior

Array = NDArray[np.float64]


class Evaluation(NamedTuple):
    """The evidence at one setting of the hyperparameters.

    ``gradient`` is by the logarithms of the hyperparameters, None where it was not asked for.
    """

    log_evidence: float
    gradient: Array | None
    approximation: Approximation


class Problem(ABC):
    """One model whose evidence depends on hyperparameters.

    Hyperparameters are those of the kernel that are not fixed, then those of the likelihood. A
    subclass is a frozen dataclass with these fields among others, and says what runs on them.

    Attributes
    ----------
    kernel : Kernel
        A scikit-learn kernel; its theta is where learning starts.
    X : ndarray of shape (N, d), or whatever the kernel takes
        Inputs of the classifier, shared by its problems.
    likelihood : Likelihood
    inference : InferenceMethod
    weights : ndarray of shape (n,) or None
        Powers of the likelihood terms; None: all one.
    rows : ndarray of shape (n,) or None
        Which rows of X belong to the problem; None: all.
    """

    kernel: Kernel
    X: Any
    likelihood: Likelihood
    inference: InferenceMethod
    weights: Array | None
    rows: NDArray[np.intp] | None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_sites(self) -> int:
        """Number of sites, so that those of another problem are not taken for a start."""

    @property
    @abstractmethod
    def kernels(self) -> tuple[Kernel, ...]:
        """Kernels in the order of theta: one, or one a class."""

    @property
    def single_optimum(self) -> bool:
        """Whether inference has one fixed point alone, so that any start leads to it."""
        return self.likelihood.log_concave

    @abstractmethod
    def prior(self) -> Any:
        """Prior over the latent values, with `jitter` on the diagonal of its covariance."""

    @abstractmethod
    def infer(self, prior: Any, init: Any) -> Any:
        """Approximation under a prior of this problem, from a start or None."""

    @abstractmethod
    def pull(self, G: Any, prior: Any) -> Array:
        """Gradient by the kernel's theta from the cotangent ``G`` of the prior's covariance."""

    def while_learning(self) -> Self:
        """The problem as the end of an optimiser's run sees it: no finer than it can tell."""
        return self

    def while_searching(self) -> Self:
        """The problem as its line searches see it, which compare evidences further apart."""
        return self

    @property
    def slack(self) -> float:
        """Part of the evidence that is not worth another evaluation at the end of a run."""
        return 0.0

    def part(self) -> "Problem | None":
        """Problem of some of the rows, whose maximum is where a search may begin.

        As line searches see it. None where an evaluation costs too little for that.
        """
        return None

    def sites_of_part(self, sites: Any) -> Any:
        """Where inference on all rows may start, from the sites of `part`; None: at the prior."""
        return None

    @abstractmethod
    def site_prior(self) -> Any:
        """Prior of the latents that the sites belong to, which EM holds."""

    @abstractmethod
    def site_labels(self) -> tuple[Array, Array]:
        """Label and weight of each site."""

    @abstractmethod
    def pull_sites(self, G: Array, site_prior: Any) -> Array:
        """Gradient by the kernel's theta from the cotangent of the site prior's covariance."""

    def __getstate__(self) -> dict[str, Any]:
        """The fields, the kernel as plain data."""
        return self.__dict__ | {"kernel": to_recipe(self.kernel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the fields."""
        self.__dict__.update(state | {"kernel": from_recipe(state["kernel"])})

    @property
    def inputs(self) -> Any:
        """The rows of X that belong to the problem."""
        return self.X if self.rows is None else take(self.kernels[0], self.X, self.rows)

    @property
    def n_kernel(self) -> int:
        """Number of free kernel hyperparameters, which come first in theta."""
        with np.errstate(divide="ignore"):
            return int(self.kernel.n_dims)

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters, shape (p,)."""
        # a hyperparameter of zero is minus infinity here, and legal: DotProduct(0)
        with np.errstate(divide="ignore"):
            kernel = np.asarray(self.kernel.theta, dtype=np.float64)
        return np.concatenate([kernel, self.likelihood.theta])

    @property
    def bounds(self) -> Array:
        """Bounds of theta, shape (p, 2)."""
        with np.errstate(divide="ignore"):
            kernel = np.asarray(self.kernel.bounds, dtype=np.float64).reshape(-1, 2)
        return np.vstack([kernel, self.likelihood.bounds])

    def at(self, theta: Array) -> Self:
        """Return the same problem with other hyperparameters."""
        theta = np.asarray(theta, dtype=np.float64)
        k = self.n_kernel
        changed: Self = replace(
            self,  # type: ignore[type-var]
            kernel=_with_theta(self.kernel, theta[:k]),
            likelihood=self.likelihood.with_theta(theta[k:]),
        )
        return changed

    def evaluate(
        self, theta: Array, *, gradient: bool = True, init: Any = None, check: bool = False
    ) -> Evaluation:
        """Evidence (and its gradient) at theta: a pure function.

        Parameters
        ----------
        theta : ndarray of shape (p,)
        gradient : bool, default=True
        init : approximation or sites, default=None
            Where inference starts.
        check : bool, default=False
            Whether to refuse an indefinite kernel that inference itself would not notice.

        Raises
        ------
        NotPositiveDefiniteError
            Where the kernel matrix is not finite or not positive semi-definite.
        """
        if gradient and not getattr(self.inference, "differentiable", True):
            raise ValueError(
                f"{type(self.inference).__name__} has no gradient of the evidence to learn by: fix "
                "the hyperparameters with optimizer=None, or learn them by another method "
                "(inference='ep') and take its kernel"
            )
        there = self.at(theta)
        slope = None
        # a kernel may overflow anywhere on the way; the result tells
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior = there.prior()
            if check:
                prior.check()
            approximation = there.infer(prior, init)
            if gradient:
                by_likelihood = approximation.likelihood_gradient()
                G = approximation.evidence_pullback()
                slope = np.concatenate([there.pull(G, prior), by_likelihood])
        # None where the inference was told to leave the evidence out
        known = getattr(approximation, "evidence", approximation.log_evidence) is not None
        if (known and not np.isfinite(approximation.log_evidence)) or not (
            slope is None or np.isfinite(slope).all()
        ):
            raise NotPositiveDefiniteError(
                f"the evidence of the kernel {there.kernel} overflows on the training inputs: its "
                "hyperparameters or the units of the columns are out of range"
            )
        return Evaluation(approximation.log_evidence, slope, approximation)

    @property
    def jitter(self) -> float:
        """What is added to the diagonal of the covariance: zero unless its values are huge.

        Rounding may leave eigenvalues of ``-n eps max K_ii``. They do no harm while their product
        with a site's precision, at most the row's weight, is well below one.
        """
        inputs = self.inputs
        return max(self._jitter_of(diagonal(kernel, inputs)) for kernel in self.kernels)

    def _jitter_of(self, variances: Array) -> float:
        rounding = len(variances) * float(np.finfo(np.float64).eps) * float(variances.max())
        weight = 1.0 if self.weights is None else max(1.0, float(self.weights.max()))
        return 4.0 * rounding if np.isfinite(rounding) and rounding * weight > 0.25 else 0.0

    def covariance(self, kernel: Kernel) -> Array:
        """Covariance matrix of one kernel on the rows, with what jitter it needs."""
        with np.errstate(over="ignore", invalid="ignore"):
            K = evaluate(kernel, self.inputs)
            jitter = self._jitter_of(K.diagonal())
            if jitter > 0:
                K = K.copy()
                K.flat[:: len(K) + 1] += jitter
        return K


def _with_theta(kernel: Kernel, theta: Array) -> Kernel:
    """Clone of a kernel with other hyperparameters.

    The theta of a CompoundKernel cannot be set in scikit-learn 1.9: its setter asks for two parts
    that it does not have.
    """
    if not isinstance(kernel, CompoundKernel):
        return kernel.clone_with_theta(theta)
    ends = np.cumsum([one.n_dims for one in kernel.kernels])[:-1]
    pairs = zip(kernel.kernels, np.split(theta, ends), strict=True)
    return CompoundKernel([one.clone_with_theta(part) for one, part in pairs])


@final
@dataclass(frozen=True)
class BinaryProblem(Problem):
    """One binary classification problem, up to the values of its hyperparameters.

    Parameters
    ----------
    kernel : Kernel
        A scikit-learn kernel; its theta is where learning starts.
    X : ndarray of shape (N, d), or whatever the kernel takes
        Inputs of the classifier, shared by its binary problems.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    likelihood : Likelihood
    inference : InferenceMethod
    weights : ndarray of shape (n,), default=None
        Powers of the likelihood terms; None: all one.
    rows : ndarray of shape (n,), default=None
        Which rows of X belong to the problem; None: all.
    """

    kernel: Kernel
    X: Any
    y: Array
    likelihood: Likelihood
    inference: InferenceMethod
    weights: Array | None = None
    rows: NDArray[np.intp] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def n_sites(self) -> int:
        """One a row."""
        return len(self.y)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The one kernel."""
        return (self.kernel,)

    def prior(self) -> DensePrior:
        """Prior over the latent values, with `jitter` on the diagonal of its covariance."""
        return DensePrior(self.covariance(self.kernel), str(self.kernel))

    def infer(self, prior: DensePrior, init: Approximation | Sites | None) -> Approximation:
        """Approximation under a prior of this problem, from a start or None."""
        return self.inference(prior, self.y, self.likelihood, weights=self.weights, init=init)

    def pull(self, G: Array, prior: DensePrior) -> Array:
        """Gradient by the kernel's theta."""
        return pullback(self.kernel, self.inputs, G, K=prior.K)

    def site_prior(self) -> DensePrior:
        """The prior itself."""
        return self.prior()

    def site_labels(self) -> tuple[Array, Array]:
        """Those of the rows."""
        return self.y, np.ones(len(self.y)) if self.weights is None else self.weights

    def pull_sites(self, G: Array, site_prior: DensePrior) -> Array:
        """As `pull`."""
        return self.pull(G, site_prior)


@final
@dataclass(frozen=True)
class LearningRun:
    """One run of an optimiser.

    Parameters
    ----------
    start, end : ndarray of shape (p,)
        Hyperparameters (logarithms) where it began and the best that it saw.
    log_evidence : float
        Evidence at ``end``; NaN where no evaluation succeeded.
    n_evaluations : int
        Evaluations of the evidence.
    n_rejected : int
        Evaluations among them that failed (overflow, not positive definite) and counted as
        steps to be shortened.
    message : str
        Why the run stopped.
    trace : tuple of float
        Evidence at each evaluation, NaN where it failed.
    at_bounds : tuple of int
        Indices of the entries of ``end`` that lie on a bound.
    """

    start: Array
    end: Array
    log_evidence: float
    n_evaluations: int
    n_rejected: int
    message: str
    trace: tuple[float, ...]
    at_bounds: tuple[int, ...]


@final
@dataclass(frozen=True)
class Learned:
    """Hyperparameters that were learnt, the approximation there, and every run."""

    theta: Array
    log_evidence: float
    sites: Any
    outcome_name: str
    n_iter: int
    runs: tuple[LearningRun, ...]


Progress = Callable[[float], None]


class Learner(ABC):
    """A way to find hyperparameters: one method."""

    @abstractmethod
    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Any = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Learn from each start, keep the best.

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
            Called with the evidence after each evaluation (each run, where runs are parallel).
        """


def draw_starts(problem: Problem, n_restarts: int, random_state: np.random.RandomState) -> Array:
    """Start values: the kernel's own, then uniform draws within the bounds of theta.

    theta and its bounds are logarithms already, so a uniform draw between the bounds is the
    log-uniform draw that is wanted.

    Raises
    ------
    ValueError
        Where restarts are asked for and a bound is infinite.
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
