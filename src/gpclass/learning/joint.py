"""A joint model of many classes whose evidence depends on hyperparameters."""

from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.inference import InferenceMethod, SitePosterior
from gpclass.inference.cavities import Copies
from gpclass.inference.joint import JointScheme, LatentPosterior
from gpclass.inference.leave_one_out import LeftOut
from gpclass.inference.sites import Sites
from gpclass.learning.problem import Problem, spread_sites
from gpclass.likelihoods import Likelihood
from gpclass.priors.base import as_weights
from gpclass.priors.classes import DenseClasses
from gpclass.priors.joint import JointPrior, JointPriorForm

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class JointProblem(Problem):
    """One classification problem of many classes, up to the values of its hyperparameters.

    The fields are those of `Problem`, with class indices ``codes`` of shape (n,). The kernel is
    shared by the classes, or a CompoundKernel with one for each. ``scheme`` is the joint model, and
    ``prior_form`` says how the classes' priors are held.
    """

    kernel: Kernel
    X: Any
    codes: NDArray[np.intp]
    n_classes: int
    scheme: JointScheme
    likelihood: Likelihood
    inference: InferenceMethod
    weights: Array | None = None
    rows: NDArray[np.intp] | None = None
    prior_form: JointPriorForm = field(default_factory=DenseClasses)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def labels(self) -> NDArray[np.intp]:
        """Indices of the classes."""
        return self.codes

    @property
    def n_sites(self) -> int:
        """Number of sites that the scheme has for the rows."""
        return self.scheme.n_sites(len(self.codes), self.n_classes)

    def prior(self) -> JointPrior:
        """Prior over the latents of all classes."""
        jitters = [self.jitter_of(kernel) for kernel in self.kernels]
        return self.prior_form.make(self.kernels, self.n_classes, self.inputs, jitters)

    @property
    def points(self) -> Any:
        """Inputs that `cross` has covariances with: the rows."""
        return self.inputs

    def infer(self, prior: JointPrior, init: Any) -> Any:
        """Approximation of the joint posterior, by the scheme."""
        return self.scheme.infer(self, prior, init)

    def posterior(self, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Condition the classes' priors on the sites."""
        return self.scheme.posterior(self, prior, sites)

    def predictive(self, prior: JointPrior, sites: Any) -> LatentPosterior:
        """The posterior given the sites, or as the scheme has it for `Laplace.marginals`."""
        return self.scheme.predictive(self, prior, sites)

    def left_out(self, prior: JointPrior, found: Any) -> LeftOut:
        """Leave-one-out log probabilities, as the scheme computes them."""
        return self.scheme.left_out(self, prior, found)

    def site_terms(self, posterior: Any) -> tuple[SitePosterior, Copies]:
        """Each latent difference is positive, with the weight of its row."""
        weights = as_weights(self.weights, len(self.codes))
        repeated = np.repeat(weights, self.n_sites // len(self.codes))
        labels, none = np.ones(len(repeated)), np.zeros(len(repeated))
        return posterior.posterior, Copies(self.likelihood, labels, repeated, none)

    def pull(self, G: Any, prior: JointPrior) -> Array:
        """Gradient by the theta of the shared kernel, or of each class's."""
        return self.prior_form.pull(self.kernels, self.inputs, prior, G)

    def cross(self, X_new: Any) -> tuple[Any, Array]:
        """Covariances of training and new inputs, and prior variances: of all classes or each."""
        return self.prior_form.cross(self.kernels, self.inputs, X_new)

    def subset(self, step: int) -> "JointProblem":
        """Every so many rows: the evidence of a fourth of them costs a 64th."""
        chosen = np.arange(0, len(self.codes), step)
        return replace(
            self,
            codes=self.codes[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            rows=chosen if self.rows is None else self.rows[chosen],
        )

    def sites_from_subset(self, sites: Any, step: int) -> Sites | None:
        """Rows of the subset keep their sites; the others take the mean of their class."""
        if not isinstance(sites, Sites):
            return None
        return spread_sites(sites, self.codes, np.arange(0, len(self.codes), step))  # type: ignore[no-any-return]
