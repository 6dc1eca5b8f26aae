"""What an inference method returns, whichever method it is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.sites import Sites
from gpclass.likelihoods.base import Likelihood
from gpclass.priors import DensePrior, PosteriorCovariance, Prior, SiteFactor

Array = NDArray[np.float64]


class Outcome(Enum):
    """How an iteration ended; the value says what happened and what to try."""

    CONVERGED = "converged to the tolerance that was asked for"
    ROUNDING = (
        "converged as far as float64 allows: the covariance is so large or so badly conditioned "
        "that rounding alone exceeds the tolerance; the result is the best that can be had, and a "
        "smaller signal variance or a WhiteKernel would sharpen it"
    )
    DOUBLE_LOOP = (
        "converged to the tolerance that was asked for, by the double loop that takes over where "
        "faster steps fail"
    )
    NATURAL_STEPS = (
        "converged to the tolerance that was asked for, by natural-gradient steps with a line "
        "search, which take over where faster steps fail or do not apply"
    )
    DAMPED = (
        "converged to the tolerance that was asked for, by damped steps that take over where "
        "faster steps fail"
    )
    NO_FIXED_POINT = (
        "stopped because no proper fixed point was found: every way led to a variance of nothing, "
        "or to cavities of infinite or negative variance; take a likelihood that is log-concave "
        "(probit, logit), a larger epsilon, or EP in the place of PL"
    )
    SHORT_CHAINS = (
        "has chains that are too short: split R-hat is above 1.05, fewer than 100 of the draws of "
        "a latent value or of the log likelihood are effective, or fewer than 10 of the annealed "
        "chains bear the evidence; raise thin, n_burn and n_samples, or n_temperatures"
    )
    MAX_ITER = (
        "stopped at the iteration limit before the tolerance was reached; raise max_iter_predict "
        "(or max_iter of the inference method), or bound the signal variance"
    )
    STALLED = (
        "found no step that leads on although the end is not reached; for a likelihood of your own "
        "check that its derivatives are those of its log_prob (gpclass.testing.check_likelihood), "
        "and that the kernel is positive semi-definite"
    )

    @property
    def converged(self) -> bool:
        """Whether the result can be used as a solution."""
        return self in (
            Outcome.CONVERGED,
            Outcome.ROUNDING,
            Outcome.DOUBLE_LOOP,
            Outcome.NATURAL_STEPS,
            Outcome.DAMPED,
        )


@final
@dataclass(frozen=True)
class SitePosterior:
    """The Gaussian ``q(f) ∝ p(f) prod_i site_i``.

    Parameters
    ----------
    sites : Sites
    factor : SiteFactor
        Of the prior given the sites' precisions.
    mean_weights : ndarray of shape (n,)
        ``a = K^-1 m``, so that the mean at new inputs is ``k^T a`` (RW06 eq. 3.21).
    mean : ndarray of shape (n,)
        ``m = K a``, about the prior's own mean.
    covariance : PosteriorCovariance, default=None
        What marginal variances and gradients need (for a dense prior an n x n inverse). None
        where predictions alone are asked for; see `with_covariance`.
    """

    sites: Sites
    factor: SiteFactor
    mean_weights: Array
    mean: Array
    covariance: PosteriorCovariance | None = None

    @classmethod
    def from_sites(cls, prior: Prior, sites: Sites) -> "SitePosterior":
        """Condition the prior on the sites: ``a = (I + T K)^-1 nu``."""
        factor = prior.factor(sites.tau)
        a = factor.solve(sites.nu)
        return cls(sites, factor, a, prior.multiply(a))

    def with_covariance(self) -> "SitePosterior":
        """The same posterior with its `covariance`, which is formed where it is missing."""
        if self.covariance is not None:
            return self
        return replace(self, covariance=self.factor.covariance())

    def without_covariance(self) -> "SitePosterior":
        """The same posterior without the memory of its `covariance`."""
        return replace(self, covariance=None)

    @property
    def variance(self) -> Array:
        """Marginal variances, shape (n,), of a posterior that has its `covariance`.

        Raises
        ------
        ValueError
            Where it has not: forming it is work of order n^3, see `with_covariance`.
        """
        if self.covariance is None:
            raise ValueError("this posterior has no variances: take posterior.with_covariance()")
        return self.covariance.variances

    def pullback(self, by_mean: Array | None = None, by_variance: Array | None = None) -> Any:
        """Cotangent by the prior's covariance of an evidence with these adjoints.

        See `gpclass.priors.PosteriorCovariance.pullback`. Forms the covariance where it is missing.
        """
        covariance = self.covariance or self.factor.covariance()
        return covariance.pullback(self.mean_weights, by_mean, by_variance)

    def predict(self, K_cross: Array, k_diag: Array) -> tuple[Array, Array]:
        """Latent mean and variance at m new inputs (RW06 Algorithm 3.2, lines 4 to 6).

        Parameters
        ----------
        K_cross : ndarray of shape (n, m)
            Covariance of training and new inputs, overwritten.
        k_diag : ndarray of shape (m,)
            Prior variances of the new inputs.

        Returns
        -------
        mean, variance : ndarray of shape (m,)
            A variance that rounding made negative is 0.
        """
        # einsum without optimisation sums in one order whatever m is: a row's result does not
        # depend on the batch that it is predicted in.
        mean = np.einsum("ij,i->j", K_cross, self.mean_weights)
        variance = k_diag - self.factor.reduced_variance(K_cross)
        return mean, np.maximum(variance, 0.0)


@dataclass(frozen=True)
class Approximation(ABC):
    """A Gaussian approximation of the latent posterior, its evidence, and how it was found.

    Parameters
    ----------
    posterior : SitePosterior
    log_evidence : float
        Approximation of ``log p(y | X, theta)`` by the method that made this object, in nats.
    outcome : Outcome
    n_iter : int
        Iterations (Newton steps, sweeps, ...) that were taken.
    n_factorisations : int
        Factorisations of B among them: what the time goes into.
    """

    posterior: SitePosterior
    log_evidence: float
    outcome: Outcome
    n_iter: int
    n_factorisations: int

    @property
    def sites(self) -> Sites:
        """The Gaussian sites."""
        return self.posterior.sites

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.outcome.converged

    @abstractmethod
    def evidence_pullback(self) -> Any:
        """``d log_evidence / dK``, explicit and implicit terms; for a dense prior (n, n)."""

    @abstractmethod
    def likelihood_gradient(self) -> Array:
        """``d log_evidence / d theta`` by the likelihood's own hyperparameters, shape (p,)."""


class InferenceMethod(Protocol):
    """A frozen dataclass of settings, called as a pure function."""

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> Approximation:
        """Approximate ``p(f | y)``; labels in {-1, +1}; ``init`` is where to start from."""


class Problem(NamedTuple):
    """What every method is called with, checked and converted."""

    prior: Prior
    y: Array
    weights: Array
    offset: Array


def as_problem(prior: Prior | ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> Problem:
    """Check and convert what every method is called with.

    Raises
    ------
    ValueError
        For labels other than -1 and +1, negative or non-finite weights, or unequal lengths.
    """
    if not isinstance(prior, Prior):
        prior = DensePrior(np.ascontiguousarray(prior, dtype=np.float64))
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (prior.n,):
        raise ValueError(
            f"y must have one label for each of the {prior.n} latent values of the prior, got "
            f"shape {labels.shape}"
        )
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError("y must hold -1 and +1 only")
    offset = np.zeros(prior.n) if prior.mean is None else prior.mean
    if weights is None:
        return Problem(prior, labels, np.ones(prior.n), offset)
    powers = np.asarray(weights, dtype=np.float64)
    if powers.shape != labels.shape or not np.isfinite(powers).all() or (powers < 0).any():
        raise ValueError(
            f"weights must be {prior.n} finite non-negative numbers, got shape {powers.shape} "
            f"with minimum {powers.min() if powers.size else 'none'}"
        )
    return Problem(prior, labels, powers, offset)


def initial_sites(init: Approximation | Sites | None, n: int) -> Sites | None:
    """Sites of ``init``, refused where they belong to another number of points."""
    sites = init.sites if isinstance(init, Approximation) else init
    if sites is not None and len(sites) != n:
        raise ValueError(f"init has {len(sites)} sites where the prior has {n} latent values")
    return sites


def starting_sites(init: Approximation | Sites | None, prior: Prior) -> Sites:
    """Sites of ``init`` where the prior has a proper posterior beside them, else none at all."""
    sites = initial_sites(init, prior.n)
    nothing = Sites(np.zeros(prior.n), np.zeros(prior.n))
    if sites is None or not (np.isfinite(sites.nu).all() and np.isfinite(sites.tau).all()):
        return nothing
    if (sites.tau < 0).any():
        try:
            prior.factor(sites.tau)
        except NotPositiveDefiniteError:
            return nothing
    return sites
