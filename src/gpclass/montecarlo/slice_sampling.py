"""Samples of the latent posterior by elliptical slice sampling."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import Approximation
from gpclass.inference.sites import Sites
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.montecarlo.class_gaussian import ClassGaussian, ClassTerms, unstacked
from gpclass.montecarlo.class_problem import (
    ClassCovariance,
    ClassStart,
    as_class_prior,
    class_terms_of,
    make_class_problem,
)
from gpclass.montecarlo.class_samples import ClassSamples
from gpclass.montecarlo.diagnostics import effective_sample_size, split_rhat
from gpclass.montecarlo.gaussian import LatentGaussian
from gpclass.montecarlo.problem import (
    Problem,
    Progress,
    RandomState,
    Reporter,
    check_counts,
    generator,
    make_problem,
    sites_of,
)
from gpclass.montecarlo.samples import Samples
from gpclass.montecarlo.slice_step import Chains, Tilt, slice_step
from gpclass.priors import Prior

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draws(ABC):
    """Draws of the latent posterior ``p(f | y)``; ``...`` stands for n, or n and C.

    Parameters
    ----------
    f : ndarray of shape (..., n_draws, n_chains)
        Latent values, about the prior's own mean.
    a : ndarray of shape (..., n_draws, n_chains)
        ``f = K a``, so that a draw's mean at a new input is ``k^T a``.
    log_likelihood : ndarray of shape (n_draws, n_chains)
        ``sum_i w_i log p(y_i | f_i)``.
    evaluations_per_step : float
        Values of the log likelihood for one move of one chain: 1 where the first point of every
        ellipse is accepted; every one above is a bracket that was shrunk.
    n_stuck : int
        Moves whose bracket shrank to the point itself; rounding alone can cause one.
    seconds : float
        Time taken.
    """

    f: Array
    a: Array
    log_likelihood: Array
    evaluations_per_step: float
    n_stuck: int
    seconds: float

    @property
    @abstractmethod
    def samples(self) -> Samples | ClassSamples:
        """All draws of all chains, for predictions."""

    @property
    def mean(self) -> Array:
        """Posterior means, shape (...)."""
        return np.asarray(self.f.mean(axis=(-2, -1)))

    @property
    def variance(self) -> Array:
        """Posterior variances, shape (...)."""
        return np.asarray(self.f.var(axis=(-2, -1)))

    @cached_property
    def effective_sample_size(self) -> Array:
        """Of each latent value, shape (...)."""
        return effective_sample_size(self.f)

    @cached_property
    def rhat(self) -> Array:
        """Split R-hat of each latent value, shape (...)."""
        return split_rhat(self.f)

    @cached_property
    def log_likelihood_effective_sample_size(self) -> float:
        """Effective sample size of the log likelihood."""
        return float(effective_sample_size(self.log_likelihood))

    @cached_property
    def log_likelihood_rhat(self) -> float:
        """Split R-hat of the log likelihood."""
        return float(split_rhat(self.log_likelihood))


@final
@dataclass(frozen=True)
class SliceSamples(Draws):
    """Draws of the latent posterior of two classes: arrays of shape (n, n_draws, n_chains)."""

    @property
    def samples(self) -> Samples:
        """All draws of all chains, for predictions."""
        return Samples(self.a.reshape(len(self.a), -1))


@final
@dataclass(frozen=True)
class ClassSliceSamples(Draws):
    """Draws of the latents of many classes: arrays of shape (n, C, n_draws, n_chains)."""

    @property
    def samples(self) -> ClassSamples:
        """All draws of all chains, for predictions."""
        return ClassSamples(self.a.reshape(*self.a.shape[:2], -1))


@overload
def elliptical_slice_sampling(
    K: Prior | ArrayLike,
    y: ArrayLike,
    likelihood: Likelihood,
    *,
    weights: ArrayLike | None = None,
    n_samples: int = 1000,
    n_burn: int = 500,
    n_chains: int = 20,
    thin: int = 30,
    random_state: RandomState = None,
    progress: Progress = None,
    init: Approximation | Sites | None = None,
) -> SliceSamples: ...


@overload
def elliptical_slice_sampling(
    K: ClassCovariance,
    y: ArrayLike,
    likelihood: ClassLikelihood,
    *,
    weights: ArrayLike | None = None,
    n_samples: int = 1000,
    n_burn: int = 500,
    n_chains: int = 20,
    thin: int = 30,
    random_state: RandomState = None,
    progress: Progress = None,
    init: ClassStart | None = None,
) -> ClassSliceSamples: ...


def elliptical_slice_sampling(
    K: Any,
    y: ArrayLike,
    likelihood: Likelihood | ClassLikelihood,
    *,
    weights: ArrayLike | None = None,
    n_samples: int = 1000,
    n_burn: int = 500,
    n_chains: int = 20,
    thin: int = 30,
    random_state: RandomState = None,
    progress: Progress = None,
    init: Any = None,
) -> SliceSamples | ClassSliceSamples:
    """Draw from ``p(f | y)`` by elliptical slice sampling, all chains in step.

    Parameters
    ----------
    K : DensePrior, or array-like of shape (n, n)
        Prior covariance, positive semi-definite; a singular one needs no jitter. Of many classes:
        a `ClassPrior`, a matrix that they share, or a sequence of one a class.
    y : array-like of shape (n,)
        Labels, -1 or +1. Of many classes: their codes, integers from 0. There are as many classes
        as a ClassPrior or a sequence says; with one matrix, one more than the largest code.
    likelihood : Likelihood or ClassLikelihood
        Only its ``log_prob`` is used: it need be neither log-concave nor smooth.
        `SoftmaxLikelihood` or `MultinomialProbitLikelihood` is what makes a problem one of many
        classes.
    weights : array-like of shape (n,), default=None
        Powers of the likelihood terms.
    n_samples : int, default=1000
        Draws kept, of all chains together; rounded up to a multiple of ``n_chains``.
    n_burn : int, default=500
        Moves of every chain before the first draw that is kept.
    n_chains : int, default=20
        Chains. Many cost little more than one.
    thin : int, default=30
        Moves from a draw to the next.
    random_state : int, Generator, RandomState or None, default=None
        Where the random numbers come from; an int gives the same draws every time.
    progress : bool or callable, default=None
        True shows a line on stderr; a callable is called with the steps done and their number.
    init : Approximation or Sites, default=None
        A Gaussian approximation ``q(f) = p(f) prod_i site_i`` near the posterior. The chains start
        from draws of it, and the ellipses are its own, with ``p(y|f) / prod_i site_i`` for the
        likelihood: the limit is the same and the chains forget faster. None: the prior. Of many
        classes: what ``nested_ep`` or ``SoftmaxLaplace`` returns, or `ClassSites`, such as those of
        `nested_ep_sites`.

    Returns
    -------
    SliceSamples, or ClassSliceSamples for a ClassLikelihood
        The latter predict by `ClassSamplePosterior`.

    Raises
    ------
    ValueError, TypeError
        For bad labels, weights, counts or lengths.
    NotPositiveDefiniteError
        Where K is not positive semi-definite, or ``init`` has no proper Gaussian.

    References
    ----------
    Murray, Adams and MacKay, Elliptical slice sampling, AISTATS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> draws = elliptical_slice_sampling(np.eye(2), [1, -1], Probit(), random_state=0)
    >>> draws.f.shape
    (2, 50, 20)
    >>> bool(np.allclose(draws.mean, [0.56419, -0.56419], atol=0.1))
    True
    """
    rng = generator(random_state)
    counts = {"n_samples": n_samples, "n_burn": n_burn, "n_chains": n_chains, "thin": thin}
    if not isinstance(likelihood, ClassLikelihood):
        problem = make_problem(K, y, likelihood, weights)
        sites = sites_of(init, problem.prior.n, "init")
        return sample(problem, sites, **counts, rng=rng, progress=progress)
    class_prior = as_class_prior(K, y)
    problem = make_class_problem(class_prior, y, likelihood, weights)
    terms = class_terms_of(init, class_prior, "init")
    run = _run(problem, terms, **counts, rng=rng, progress=progress)
    C = class_prior.n_classes
    f, a = (np.ascontiguousarray(unstacked(values, C)) for values in (run.f, run.a))
    return ClassSliceSamples(f, a, *run[2:])


def sample(
    problem: Problem,
    sites: Sites | None,
    *,
    n_samples: int,
    n_burn: int,
    n_chains: int,
    thin: int,
    rng: np.random.Generator,
    progress: Progress,
) -> SliceSamples:
    """`elliptical_slice_sampling` of a checked problem, around its prior beside the sites."""
    run = _run(
        problem,
        sites,
        n_samples=n_samples,
        n_burn=n_burn,
        n_chains=n_chains,
        thin=thin,
        rng=rng,
        progress=progress,
    )
    return SliceSamples(*run)


class _Run(NamedTuple):
    """The fields of `Draws`, latent values stacked where there are many classes."""

    f: Array
    a: Array
    log_likelihood: Array
    evaluations_per_step: float
    n_stuck: int
    seconds: float


def _run(
    problem: Problem,
    sites: Sites | ClassTerms | None,
    *,
    n_samples: int,
    n_burn: int,
    n_chains: int,
    thin: int,
    rng: np.random.Generator,
    progress: Progress,
) -> _Run:
    check_counts(n_samples=n_samples, n_burn=n_burn, n_chains=n_chains, thin=thin)
    began = time.perf_counter()
    prior, log_likelihood = problem.prior, problem.log_likelihood
    gaussian: LatentGaussian | ClassGaussian = prior
    tilt = Tilt()
    if sites is not None:
        gaussian, tilt = problem.beside(sites), Tilt.without(sites, 1.0, problem.no_sites)
    n_draws = -(-n_samples // n_chains)
    f = np.empty((prior.n, n_draws, n_chains))
    a, values = np.empty_like(f), np.empty((n_draws, n_chains))
    start = gaussian.draw(rng, n_chains).f
    chains = Chains(start, log_likelihood(start))
    n_steps = n_burn + n_draws * thin
    n_evaluations = n_stuck = 0
    reporter = Reporter(progress, n_steps, "elliptical slice sampling")
    for step in range(n_steps):
        chains, counts = slice_step(gaussian, tilt, log_likelihood, chains, rng)
        n_evaluations += counts.n_evaluations
        n_stuck += counts.n_stuck
        draw, rest = divmod(step + 1 - n_burn, thin)
        if draw > 0 and rest == 0:
            f[:, draw - 1], values[draw - 1] = chains
            a[:, draw - 1] = prior.inverse_times(chains.f)
        reporter.step()
    return _Run(
        f=f,
        a=a,
        log_likelihood=values,
        evaluations_per_step=n_evaluations / (n_steps * n_chains),
        n_stuck=n_stuck,
        seconds=time.perf_counter() - began,
    )
