"""What is learnt: a problem whose evidence depends on hyperparameters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, Approximation, InferenceMethod, SitePosterior, Variational
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.inference.cavities import Copies
from gpclass.inference.laplace import predicts_variationally
from gpclass.inference.leave_one_out import LeaveOneOut, LeftOut
from gpclass.inference.sites import Sites
from gpclass.kernels import diagonal, from_recipe, take, to_recipe
from gpclass.learning.hyperparameters import Hyperparameters
from gpclass.likelihoods import Likelihood
from gpclass.linalg import EPS
from gpclass.priors import Dense, Prior, PriorForm
from gpclass.priors.base import as_weights

Array = NDArray[np.float64]

# What a tolerance of EP's is multiplied by for the variational method by blocks of rows.
LOOSER: Final = 1e-3


class Evaluation(NamedTuple):
    """The evidence at one setting of the hyperparameters, its gradient by theta if asked for."""

    log_evidence: float
    gradient: Array | None
    approximation: Approximation


def spread_sites(sites: Any, labels: NDArray[Any], known: NDArray[np.intp]) -> Any:
    """Sites of more rows: those ``known`` keep theirs, the others take the mean of their label."""

    def spread(values: Array) -> Array:
        part = values.reshape(len(known), -1)
        rows = np.tile(part.mean(axis=0), (len(labels), 1))
        for label in np.unique(labels[known]):
            rows[labels == label] = part[labels[known] == label].mean(axis=0)
        rows[known] = part
        return rows.ravel() if values.ndim == 1 else rows

    return type(sites)(*(spread(getattr(sites, one.name)) for one in fields(sites)))


class Problem(ABC):
    """One model whose evidence depends on hyperparameters (`Hyperparameters` has their order).

    A subclass is a frozen dataclass with these fields among others: a scikit-learn ``kernel``,
    whose theta is where learning starts; the classifier's inputs ``X``, shared by its problems, of
    which the problem has ``rows`` (None: all n); and ``weights`` (n,), the powers of the likelihood
    terms (None: all one).
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
    def labels(self) -> NDArray[Any]:
        """Label of each row, -1 and +1 or the index of its class."""

    @property
    @abstractmethod
    def n_sites(self) -> int:
        """Number of sites, so that those of another problem are not taken for a start."""

    @abstractmethod
    def prior(self) -> Any:
        """Prior over the latent values, with `jitter` on the diagonal of its covariance."""

    @abstractmethod
    def infer(self, prior: Any, init: Any) -> Any:
        """Approximation under a prior of this problem, from a start or None."""

    @abstractmethod
    def posterior(self, prior: Any, sites: Any) -> Any:
        """Posterior given sites: what predicts, and what EM holds."""

    @abstractmethod
    def predictive(self, prior: Any, sites: Any) -> Any:
        """Posterior that predicts: `posterior`, or with `Laplace.marginals` the one it asks for."""

    @abstractmethod
    def left_out(self, prior: Any, found: Any) -> LeftOut:
        """The leave-one-out log predictive of what `infer` found; ValueError without one."""

    @abstractmethod
    def site_terms(self, posterior: Any) -> tuple[SitePosterior, Copies]:
        """Posterior of the latents that have a binary site each, and their likelihood terms."""

    @abstractmethod
    def pull(self, G: Any, prior: Any) -> Array:
        """Gradient by the kernels' part of theta from the cotangent ``G`` of the prior."""

    @abstractmethod
    def cross(self, X_new: Any) -> tuple[Any, Array]:
        """Covariance of training and new inputs, and prior variances, as posteriors take them."""

    def subset(self, step: int) -> "Problem | None":
        """Problem of fewer rows for a search to begin with; None where none is made.

        Every ``step``-th row, or a random sample whose size the problem chooses itself.
        """
        return None

    def sites_from_subset(self, sites: Any, step: int) -> Any:
        """Where inference on all rows may start, from the sites of `subset`; None: at the prior."""
        return None

    def loosened(self, tol: float) -> Self:
        """The problem with EP no finer than ``tol``: its evidence is stationary in the sites.

        At 1e-5 it is off by 1e-12 of it, and its gradient by 3e-6 of the largest entry, or by 2e-3
        where signal variances are vast and all entries small.
        """
        method = self.inference
        if isinstance(method, VariationalByBlocks):
            # in nats, of which the error of the gradient is about the root
            tol *= LOOSER
        elif not (isinstance(method, EP) and self.single_optimum):
            return self
        return replace(self, inference=replace(method, tol=max(method.tol, tol)))  # type: ignore[type-var]

    def __getstate__(self) -> dict[str, Any]:
        """The fields, the kernel as plain data."""
        kept = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return kept | {"kernel": to_recipe(self.kernel)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the fields."""
        self.__dict__.update(state | {"kernel": from_recipe(state["kernel"])})

    @cached_property
    def hyperparameters(self) -> Hyperparameters:
        """The free hyperparameters."""
        return Hyperparameters(self.kernel, self.likelihood)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Kernels in the order of theta: one, or one a class."""
        return self.hyperparameters.kernels

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters, shape (p,)."""
        return self.hyperparameters.theta

    @property
    def bounds(self) -> Array:
        """Bounds of theta, shape (p, 2)."""
        return self.hyperparameters.bounds

    @property
    def inputs(self) -> Any:
        """The rows of X that belong to the problem."""
        return self.X if self.rows is None else take(self.kernels[0], self.X, self.rows)

    @property
    def single_optimum(self) -> bool:
        """Whether inference has one fixed point alone, so that any start leads to it."""
        return self.likelihood.log_concave

    def at(self, theta: Array) -> Self:
        """Return the same problem with other hyperparameters."""
        there = self.hyperparameters.at(theta)
        kernel, likelihood = there.kernel, there.likelihood
        return replace(self, kernel=kernel, likelihood=likelihood)  # type: ignore[type-var]

    def evaluate(
        self, theta: Array, *, gradient: bool = True, init: object = None, check: bool = False
    ) -> Evaluation:
        """Evidence (and its gradient) at theta, with inference started at ``init``.

        ``check`` refuses an indefinite kernel that inference itself would not notice. ValueError
        for a gradient of a method that has none; NotPositiveDefiniteError where the kernel matrix
        is not finite or not positive semi-definite.
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
                by_kernel = there.pull(approximation.evidence_pullback(), prior)
                slope = np.concatenate([by_kernel, by_likelihood])
        # Monte Carlo may have been asked for no evidence
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
        return max(self.jitter_of(kernel) for kernel in self.kernels)

    def jitter_of(self, kernel: Kernel) -> float:
        """`jitter` of one kernel's covariance."""
        with np.errstate(over="ignore", invalid="ignore"):
            variances = diagonal(kernel, self.inputs)
        rounding = len(variances) * EPS * float(variances.max())
        weight = 1.0 if self.weights is None else max(1.0, float(self.weights.max()))
        return 4.0 * rounding if np.isfinite(rounding) and rounding * weight > 0.25 else 0.0


@final
@dataclass(frozen=True)
class BinaryProblem(Problem):
    """One binary classification problem, up to the values of its hyperparameters.

    The fields are those of `Problem`, with labels ``y`` of shape (n,), -1 and +1; ``prior_form``
    says how the prior is held.
    """

    kernel: Kernel
    X: Any
    y: Array
    likelihood: Likelihood
    inference: InferenceMethod
    weights: Array | None = None
    rows: NDArray[np.intp] | None = None
    prior_form: PriorForm = field(default_factory=Dense)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def labels(self) -> Array:
        """-1 and +1."""
        return self.y

    @property
    def n_sites(self) -> int:
        """Number of sites: one for each row."""
        return len(self.y)

    def prior(self) -> Prior:
        """Prior over the latent values."""
        return self.prior_form.make(self.kernel, self.inputs, self.jitter)

    def infer(self, prior: Prior, init: Approximation | Sites | None) -> Approximation:
        """Approximation by the inference method."""
        return self.inference(prior, self.y, self.likelihood, weights=self.weights, init=init)

    def posterior(self, prior: Prior, sites: Sites) -> SitePosterior:
        """Condition the prior on the sites."""
        return SitePosterior.from_sites(prior, sites)

    def predictive(self, prior: Prior, sites: Sites) -> SitePosterior:
        """The posterior given the sites, or the variational Gaussian that is found from them."""
        if not predicts_variationally(self.inference):
            return self.posterior(prior, sites)
        return replace(self, inference=Variational()).infer(prior, sites).posterior

    def left_out(self, prior: Prior, found: Approximation) -> LeftOut:
        """Leave-one-out log probabilities, by the cavities of the rows' sites."""
        return LeaveOneOut.of(prior, self.site_terms(found.posterior)[1], found)

    def site_terms(self, posterior: SitePosterior) -> tuple[SitePosterior, Copies]:
        """The posterior itself, and the rows' likelihood terms."""
        weights = as_weights(self.weights, len(self.y))
        return posterior, Copies(self.likelihood, self.y, weights, np.zeros(len(self.y)))

    def pull(self, G: Any, prior: Prior) -> Array:
        """Gradient by the kernel's theta."""
        return self.prior_form.pull(self.kernel, self.inputs, prior, G)

    @property
    def points(self) -> Any:
        """Inputs whose covariances with new ones `cross` gives."""
        return self.prior_form.points(self.inputs)

    def cross(self, X_new: Any) -> tuple[Array, Array]:
        """Covariance of `points` and new inputs, and prior variances of the new."""
        return self.prior_form.cross(self.kernel, self.inputs, X_new)
