"""Joint models of many classes: what runs on the classes' latents, and how classes follow."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference import EP, InferenceMethod, Laplace
from gpclass.inference.cavities import copies_of
from gpclass.inference.differences import (
    DifferencePosterior,
    difference_covariance,
    difference_pullback,
    latent_differences,
)
from gpclass.inference.nested import nested_ep
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.differences import NO_CLASSES, difference_probabilities
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities
from gpclass.priors import DensePrior
from gpclass.priors.classes import ClassPosterior, ClassPrior
from gpclass.priors.nested import NestedPrior

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Tolerance of nested EP at the end of an optimiser's run. What this leaves was found to move the
# evidence by 1e-12 of it, and an entry of its gradient by 3e-6 of the largest, or 2e-3 where signal
# variances are vast and all entries small: a gain of less than the slack is noise.
LEARNING: Final = 1e-5
SLACK: Final = 1e-12
# And in line searches, which compare evidences further apart.
SEARCHING: Final = 1e-4


class LatentPosterior(Protocol):
    """Posterior of the latents of all classes, at new inputs."""

    def predict(self, K_cross: Any, k_diag: Array) -> tuple[Array, Array]:
        """Means of shape (m, C) and covariances of shape (m, C, C)."""

    def joint(self, K_cross: Any, K_new: Any) -> tuple[Array, Array]:
        """Means of shape (m, C) and covariances of all values, shape (m, C, m, C)."""


class JointScheme(ABC):
    """One model of all classes: what it runs, what predicts, and its class probabilities.

    Attributes
    ----------
    slack : float
        Part of the evidence that is not worth another evaluation `while_learning`.
    """

    slack: ClassVar[float] = 0.0

    @abstractmethod
    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """Likelihood of the model, where the one that was asked for goes with the method.

        Raises
        ------
        ValueError
            Where the scheme has no such model, with what to take instead.
        """

    def while_learning(self, method: InferenceMethod) -> InferenceMethod:
        """The method as precise as the end of an optimiser's run needs it."""
        return method

    def while_searching(self, method: InferenceMethod) -> InferenceMethod:
        """The method as precise as line searches need it."""
        return method

    def n_sites(self, n: int, n_classes: int) -> int:
        """Length of the sites of n rows."""
        return n * (n_classes - 1)

    @abstractmethod
    def infer(
        self,
        prior: ClassPrior,
        codes: Codes,
        method: InferenceMethod,
        likelihood: Likelihood,
        weights: Array | None,
        init: Any,
    ) -> Any:
        """Approximate the posterior of the latents of all classes."""

    @abstractmethod
    def site_prior(self, prior: ClassPrior, codes: Codes, weights: Array | None) -> Any:
        """Prior of the latents that have a site each, or of all classes' where these share one."""

    def to_covariance(self, G: Array, codes: Codes, n_classes: int, shared: bool) -> Array:
        """Cotangent of K, from that of the site prior's covariance."""
        return G

    @abstractmethod
    def posterior(
        self, prior: ClassPrior, codes: Codes, sites: Any, weights: Array | None
    ) -> LatentPosterior:
        """Posterior of the latents from the sites that were found."""

    @abstractmethod
    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Class probabilities of latents N(mean, covariance), shape (m, C)."""


@final
@dataclass(frozen=True)
class Softmax(JointScheme):
    """The softmax by Laplace's method (RW06 section 3.5)."""

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """The logit, of which the softmax is the joint model; the probit, the default, stands."""
        if not isinstance(likelihood, Logit | Probit):
            raise ValueError(
                f"the joint model of Laplace's method is the softmax, not {likelihood!r}: take "
                "likelihood='logit', or multi_class='differences' with another inference"
            )
        return Logit()

    def n_sites(self, n: int, n_classes: int) -> int:
        """One a row, in all its latents."""
        return n

    def infer(
        self,
        prior: ClassPrior,
        codes: Codes,
        method: InferenceMethod,
        likelihood: Likelihood,
        weights: Array | None,
        init: Any,
    ) -> Any:
        """Laplace's approximation of the softmax."""
        assert isinstance(method, Laplace)
        run = SoftmaxLaplace(max_iter=method.max_iter, tol=method.tol)
        return run(prior, codes, weights=weights, init=init)

    def site_prior(self, prior: ClassPrior, codes: Codes, weights: Array | None) -> ClassPrior:
        """Prior of the latents of all classes."""
        return prior

    def posterior(
        self, prior: ClassPrior, codes: Codes, sites: Any, weights: Array | None
    ) -> LatentPosterior:
        """Condition the classes' priors on the sites."""
        return ClassPosterior.from_sites(prior, sites)

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Average the softmax."""
        return softmax_probabilities(mean, covariance)


@final
@dataclass(frozen=True)
class MultinomialProbit(JointScheme):
    """The multinomial probit by nested EP (Riihimaki, Jylanki & Vehtari, JMLR 2013)."""

    slack: ClassVar[float] = SLACK

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """The probit alone."""
        if not isinstance(likelihood, Probit):
            raise ValueError(
                f"the joint model of EP is the multinomial probit, not {likelihood!r}: take "
                "likelihood='probit', inference='laplace' for the softmax, or "
                "multi_class='differences' or 'one_vs_rest'"
            )
        return likelihood

    def while_learning(self, method: InferenceMethod) -> InferenceMethod:
        """To `LEARNING`: the evidence, stationary in the sites, is then right to 1e-12."""
        return _no_finer(method, LEARNING)

    def while_searching(self, method: InferenceMethod) -> InferenceMethod:
        """To `SEARCHING`."""
        return _no_finer(method, SEARCHING)

    def infer(
        self,
        prior: ClassPrior,
        codes: Codes,
        method: InferenceMethod,
        likelihood: Likelihood,
        weights: Array | None,
        init: Any,
    ) -> Any:
        """EP on the differences of the latents and the rows' shared noise."""
        assert isinstance(method, EP)
        return nested_ep(prior, codes, method, weights=weights, init=init)

    def posterior(
        self, prior: ClassPrior, codes: Codes, sites: Any, weights: Array | None
    ) -> LatentPosterior:
        """Condition the classes' priors on the sites, the rows' noise integrated out."""
        nested = self.site_prior(prior, codes, weights)
        return ClassPosterior.from_sites(prior, nested.class_sites(sites))

    def site_prior(self, prior: ClassPrior, codes: Codes, weights: Array | None) -> NestedPrior:
        """Prior of the differences with the rows' noise."""
        counts = None if weights is None else copies_of(weights)
        return NestedPrior(prior, codes, counts)

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Probability of each class to have the largest latent, each with noise of variance 1."""
        return argmax_probabilities(mean, covariance, noise=1.0)


def _no_finer(method: InferenceMethod, tol: float) -> EP:
    assert isinstance(method, EP)
    return replace(method, tol=max(method.tol, tol))


@final
@dataclass(frozen=True)
class LatentDifferences(JointScheme):
    """A binary method on the differences of a row's own latent and the others (KG06 section 4)."""

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """One with class probabilities; the method says itself what it cannot use."""
        if not isinstance(likelihood, Probit | Logit | NoisyThreshold):
            raise ValueError(NO_CLASSES.format(likelihood))
        if not getattr(method, "differentiable", True):
            raise ValueError(
                "Monte Carlo has no Gaussian of the latents of all classes: take "
                "multi_class='one_vs_rest', or another inference for the differences"
            )
        return likelihood

    def infer(
        self,
        prior: ClassPrior,
        codes: Codes,
        method: InferenceMethod,
        likelihood: Likelihood,
        weights: Array | None,
        init: Any,
    ) -> Any:
        """The binary method's approximation of the n (C - 1) differences."""
        return latent_differences(
            prior.held,
            codes,
            prior.n_classes,
            method,
            likelihood,
            weights=weights,
            init=init,
            description=prior.description,
        )

    def site_prior(self, prior: ClassPrior, codes: Codes, weights: Array | None) -> DensePrior:
        """Prior of the differences."""
        return DensePrior(
            difference_covariance(prior.held, codes, prior.n_classes), prior.description
        )

    def to_covariance(self, G: Array, codes: Codes, n_classes: int, shared: bool) -> Array:
        """Gather what each entry of K does to the differences."""
        return difference_pullback(G, codes, n_classes, shared=shared)

    def posterior(
        self, prior: ClassPrior, codes: Codes, sites: Any, weights: Array | None
    ) -> LatentPosterior:
        """Condition the prior of the differences on their sites."""
        return DifferencePosterior.from_sites(prior.held, codes, prior.n_classes, sites)

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """KG06 eq. 51."""
        return difference_probabilities(mean, covariance, likelihood)


JOINT: Final = ("joint", "differences")


def joint_scheme(multi_class: str, method: InferenceMethod) -> JointScheme:
    """Return the joint model that ``multi_class`` and the inference name.

    Raises
    ------
    ValueError
        For a method that has no joint model of its own.
    """
    if multi_class == "differences":
        return LatentDifferences()
    if isinstance(method, Laplace):
        return Softmax()
    if isinstance(method, EP):
        return MultinomialProbit()
    name = getattr(method, "__name__", type(method).__name__)
    others = "'differences' or 'one_vs_rest'"
    if not getattr(method, "differentiable", True):
        others = "'one_vs_rest'"
    raise ValueError(
        f"{name} has no joint model of more than two classes: take multi_class={others} with it, "
        "or inference='ep' or 'laplace'"
    )
