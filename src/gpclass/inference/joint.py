"""The joint models of more than two classes.

| scheme | model | runs | a site belongs to | predicts |
| --- | --- | --- | --- | --- |
| `Softmax` | RW06 eq. 3.34 | `SoftmaxLaplace` | a row | E[softmax] |
| `MultinomialProbit` | RJV13 eq. 3 | `nested_ep` | a latent ``f_y - f_j + u`` | P(largest) |
| `LatentDifferences` | KG06 section 4 | binary method | a difference ``f_y - f_j`` | by its terms |

A scheme reads the rows and settings of a `JointView`, which `gpclass.learning.JointProblem` is.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, final

from gpclass.inference import EP, InferenceMethod, Laplace, Variational
from gpclass.inference.cavities import copies_of
from gpclass.inference.differences import (
    DifferenceApproximation,
    DifferencePosterior,
    latent_differences,
)
from gpclass.inference.joint_leave_one_out import (
    difference_terms,
    differences_left_out,
    softmax_left_out,
)
from gpclass.inference.laplace import predicts_variationally
from gpclass.inference.leave_one_out import LeftOut
from gpclass.inference.nested import nested_ep, noisy_covariance
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.inference.softmax_variational import SoftmaxVariational
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.differences import (
    NO_CLASSES,
    PROBIT_NOISE,
    difference_flows,
    difference_probabilities,
)
from gpclass.likelihoods.probabilities.flows import Flows, argmax_flows, softmax_flows
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities
from gpclass.likelihoods.probabilities.own_class import probit_term, softmax_term
from gpclass.linalg import Array
from gpclass.priors import DensePrior
from gpclass.priors.base import as_weights
from gpclass.priors.classes import ClassPosterior, ClassPrior
from gpclass.priors.differences import Differences
from gpclass.priors.joint import Codes, JointPrior
from gpclass.priors.nested import NestedPrior


class JointView(Protocol):
    """What a scheme reads of a joint problem: its rows and settings."""

    @property
    def codes(self) -> Codes:
        """Class of each row, 0 to C - 1, shape (n,)."""

    @property
    def n_classes(self) -> int:
        """C."""

    @property
    def likelihood(self) -> Likelihood:
        """What `JointScheme.likelihood_of` returned."""

    @property
    def inference(self) -> InferenceMethod:
        """The method, with its settings."""

    @property
    def weights(self) -> Array | None:
        """Powers of the rows' likelihood terms, shape (n,); None: all one."""


# Posterior of the latents of all classes.
LatentPosterior = ClassPosterior | DifferencePosterior


class JointScheme(ABC):
    """One joint model: what it runs, what predicts, and its class probabilities."""

    @abstractmethod
    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """Likelihood of the joint model, from the one asked for; ValueError where there is none."""

    @abstractmethod
    def n_sites(self, n: int, n_classes: int) -> int:
        """Number of sites of n rows."""

    @abstractmethod
    def infer(self, problem: JointView, prior: JointPrior, init: Any) -> Any:
        """Approximate the posterior of the latents of all classes; ``init`` is a start or None."""

    @abstractmethod
    def posterior(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Condition the classes' priors on the sites that were found."""

    @abstractmethod
    def predictive(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Posterior that predicts, which is another one with `Laplace.marginals`."""

    @abstractmethod
    def left_out(self, problem: JointView, prior: JointPrior, found: Any) -> LeftOut:
        """The leave-one-out log predictive of what `infer` returned; ValueError without one."""

    @abstractmethod
    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Class probabilities of latents N(mean, covariance), shape (m, C)."""

    @abstractmethod
    def flows(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Flows:
        """Derivatives of `probabilities` by mean and covariance."""


@final
@dataclass(frozen=True)
class Softmax(JointScheme):
    """The softmax by Laplace's method (RW06 section 3.5)."""

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """The logit, of which the softmax is the joint model; the probit, the default, stands."""
        if not isinstance(likelihood, Logit | Probit):
            raise ValueError(_refusal("Laplace's method", "softmax", "logit", likelihood))
        return Logit()

    def n_sites(self, n: int, n_classes: int) -> int:
        """Number of sites: one for each row, of all its latents."""
        return n

    def infer(self, problem: JointView, prior: JointPrior, init: Any) -> Any:
        """Laplace's approximation of the softmax."""
        method = problem.inference
        assert isinstance(method, Laplace)
        run = SoftmaxLaplace(max_iter=method.max_iter, tol=method.tol)
        return run(prior, problem.codes, weights=problem.weights, init=init)

    def posterior(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Condition the classes' priors on the rows' sites."""
        return ClassPosterior.from_sites(prior, sites)

    def predictive(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """The Gaussian at the mode, or the variational one from there."""
        laplace = ClassPosterior.from_sites(prior, sites)
        if not predicts_variationally(problem.inference):
            return laplace
        return SoftmaxVariational()(
            prior, problem.codes, as_weights(problem.weights, prior.n), laplace
        )

    def left_out(self, problem: JointView, prior: JointPrior, found: Any) -> LeftOut:
        """The softmax averaged over each row's latents without it."""
        return softmax_left_out(
            _dense(prior), problem.codes, as_weights(problem.weights, prior.n), found
        )

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Average the softmax."""
        return softmax_probabilities(mean, covariance)

    def flows(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Flows:
        """Averages of products of the softmax."""
        return softmax_flows(mean, covariance)


@final
@dataclass(frozen=True)
class MultinomialProbit(JointScheme):
    """The multinomial probit by nested EP (Riihimäki, Jylänki & Vehtari, JMLR 2013)."""

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """The probit alone."""
        if not isinstance(likelihood, Probit):
            raise ValueError(_refusal("EP", "multinomial probit", "probit", likelihood))
        return likelihood

    def n_sites(self, n: int, n_classes: int) -> int:
        """One for each other class of a row."""
        return n * (n_classes - 1)

    def infer(self, problem: JointView, prior: JointPrior, init: Any) -> Any:
        """EP on the differences of the latents with the rows' shared noise."""
        method = problem.inference
        assert isinstance(method, EP)
        return nested_ep(prior, problem.codes, method, weights=problem.weights, init=init)

    def posterior(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Condition the classes' priors on the sites, the rows' noise integrated out."""
        counts = None if problem.weights is None else copies_of(problem.weights)
        nested = NestedPrior(prior, problem.codes, counts)
        return ClassPosterior.from_sites(prior, nested.class_sites(sites.nu, sites.tau))

    def predictive(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """The posterior given the sites."""
        return self.posterior(problem, prior, sites)

    def left_out(self, problem: JointView, prior: JointPrior, found: Any) -> LeftOut:
        """The probit terms averaged over each row's latents, its noise among them, without it."""
        weights = as_weights(problem.weights, prior.n)
        if weights.max(initial=0.0) > 1.0:
            raise ValueError(
                "sample_weight above 1 has no leave-one-out gradient in the multinomial probit, "
                "where each copy of a row has its own noise: take inference='laplace' or "
                "multi_class='differences', or repeat the rows"
            )
        dense = _dense(prior)
        differences = Differences(problem.codes, prior.n_classes)
        noisy = DensePrior(noisy_covariance(dense, problem.codes), dense.description)
        copies = difference_terms(weights, differences, Probit())
        return differences_left_out(
            noisy, differences, copies, found.binary, probit_term, 0.0, shared=dense.shared
        )

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Probability of each class to have the largest latent, each with noise of variance 1."""
        return argmax_probabilities(mean, covariance, noise=1.0)

    def flows(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Flows:
        """Densities of two noisy latents being equal and the largest."""
        return argmax_flows(mean, covariance, noise=1.0)


@final
@dataclass(frozen=True)
class LatentDifferences(JointScheme):
    """A binary method on the differences of a row's own latent and the others (KG06 section 4)."""

    def likelihood_of(self, likelihood: Likelihood, method: InferenceMethod) -> Likelihood:
        """One with class probabilities; the method says itself what it cannot use."""
        if not getattr(method, "differentiable", True):
            raise ValueError(
                "Monte Carlo has samples of latent differences and no Gaussian of the latents of "
                "all classes, which predicts: take multi_class='one_vs_rest', or another inference"
            )
        if not isinstance(likelihood, Probit | Logit | NoisyThreshold):
            raise ValueError(NO_CLASSES.format(likelihood))
        return likelihood

    def n_sites(self, n: int, n_classes: int) -> int:
        """Number of sites: one for each difference."""
        return n * (n_classes - 1)

    def infer(self, problem: JointView, prior: JointPrior, init: Any) -> Any:
        """The binary method's approximation of the n (C - 1) differences."""
        return self._infer(problem, prior, problem.inference, init)

    def _infer(
        self, problem: JointView, prior: JointPrior, method: InferenceMethod, init: Any
    ) -> DifferenceApproximation:
        dense = _dense(prior)
        return latent_differences(
            dense.held,
            problem.codes,
            prior.n_classes,
            method,
            problem.likelihood,
            weights=problem.weights,
            init=init,
            description=dense.description,
        )

    def posterior(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """Condition the prior of the differences on their sites."""
        K = _dense(prior).held
        return DifferencePosterior.from_sites(K, problem.codes, prior.n_classes, sites)

    def predictive(self, problem: JointView, prior: JointPrior, sites: Any) -> LatentPosterior:
        """The posterior given the sites, or the variational Gaussian that is found from them."""
        if not predicts_variationally(problem.inference):
            return self.posterior(problem, prior, sites)
        return self._infer(problem, prior, Variational(), sites).posterior

    def left_out(self, problem: JointView, prior: JointPrior, found: Any) -> LeftOut:
        """The class probabilities of each row's differences without it."""
        likelihood, dense = problem.likelihood, _dense(prior)
        if isinstance(likelihood, NoisyThreshold):
            raise ValueError(
                f"{likelihood!r} jumps, and the probability of a class has no leave-one-out "
                "gradient here: take likelihood='probit' or 'logit', or multi_class='one_vs_rest'"
            )
        probit = isinstance(likelihood, Probit)
        K = found.differences.covariance(dense.held)
        copies = difference_terms(
            as_weights(problem.weights, prior.n), found.differences, likelihood
        )
        return differences_left_out(
            DensePrior(K, dense.description),
            found.differences,
            copies,
            found.binary,
            partial(probit_term, noise=PROBIT_NOISE) if probit else softmax_term,
            PROBIT_NOISE if probit else 0.0,
            shared=found.shared,
        )

    def probabilities(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
        """Those of `difference_probabilities` (KG06 eq. 50)."""
        return difference_probabilities(mean, covariance, likelihood)

    def flows(self, mean: Array, covariance: Array, likelihood: Likelihood) -> Flows:
        """Those of `difference_flows`."""
        return difference_flows(mean, covariance, likelihood)


def _dense(prior: JointPrior) -> ClassPrior:
    """The prior, whose covariance matrices the differences are made of."""
    if not isinstance(prior, ClassPrior):
        raise TypeError(
            "latent differences and learning='loo' need the covariance matrices of the classes, "
            f"which a {type(prior).__name__} does not hold: take multi_class='joint' with "
            "inference='ep' or 'laplace' and learning='evidence', or the prior form DenseClasses()"
        )
    return prior


def _refusal(method: str, model: str, name: str, likelihood: Likelihood) -> str:
    if isinstance(likelihood, Probit | Logit | NoisyThreshold):
        out = "multi_class='differences' or 'one_vs_rest'"
    else:
        out = (
            "multi_class='one_vs_rest' (p(y|f) of two labels does not say how probable each of "
            "more than two classes is)"
        )
    return (
        f"the joint model of {method} is the {model}, whose terms are not those of "
        f"{likelihood!r}: take likelihood={name!r}, or {out}"
    )


JOINT: Final = ("joint", "differences")


def joint_scheme(multi_class: str, method: InferenceMethod) -> JointScheme:
    """The joint model of ``multi_class``; differences unless it is Laplace's method's or EP's."""
    if multi_class == "joint" and isinstance(method, Laplace):
        return Softmax()
    if multi_class == "joint" and isinstance(method, EP):
        return MultinomialProbit()
    return LatentDifferences()
