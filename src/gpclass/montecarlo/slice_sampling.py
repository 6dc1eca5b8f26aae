"""Samples of the latent posterior by elliptical slice sampling."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.linalg import Array
from gpclass.montecarlo.diagnostics import effective_sample_size, split_rhat
from gpclass.montecarlo.gaussian import SiteTerms
from gpclass.montecarlo.problem import (
    Covariance,
    LatentProblem,
    Progress,
    RandomState,
    Reporter,
    Start,
    check_counts,
    generator,
    make_problem,
    terms_of,
)
from gpclass.montecarlo.samples import Samples
from gpclass.montecarlo.slice_step import Chains, slice_step


@final
@dataclass(frozen=True)
class SliceSamples:
    """Draws of the latent posterior ``p(f | y)``.

    Parameters
    ----------
    f, a : ndarray of shape (n, n_draws, n_chains), or (n, C, n_draws, n_chains) for many classes
        Latent values about the prior's own mean, and their weights: ``f = K a``, so that a draw's
        mean at a new input is ``k^T a``.
    log_likelihood : ndarray of shape (n_draws, n_chains)
        ``sum_i w_i log p(y_i | f_i)``.
    evaluations_per_step, seconds : float
        Values of the log likelihood for one move of one chain, and the time of the run.
    n_stuck : int
        Moves that found no other point; rounding alone can cause one.
    """

    f: Array
    a: Array
    log_likelihood: Array
    evaluations_per_step: float
    n_stuck: int
    seconds: float

    @property
    def samples(self) -> Samples:
        """All draws of all chains, for predictions."""
        return Samples(self.a.reshape(*self.a.shape[:-2], -1))

    @property
    def mean(self) -> Array:
        """Posterior means, shape (n,) or (n, C)."""
        return np.asarray(self.f.mean(axis=(-2, -1)))

    @property
    def variance(self) -> Array:
        """Posterior variances, shape (n,) or (n, C)."""
        return np.asarray(self.f.var(axis=(-2, -1)))

    @cached_property
    def effective_sample_size(self) -> Array:
        """Of each latent value, shape (n,) or (n, C)."""
        return effective_sample_size(self.f)

    @cached_property
    def rhat(self) -> Array:
        """Split R-hat of each latent value, shape (n,) or (n, C)."""
        return split_rhat(self.f)

    @cached_property
    def log_likelihood_effective_sample_size(self) -> float:
        """Effective sample size of the log likelihood."""
        return float(effective_sample_size(self.log_likelihood))

    @cached_property
    def log_likelihood_rhat(self) -> float:
        """Split R-hat of the log likelihood."""
        return float(split_rhat(self.log_likelihood))


class RunLength(NamedTuple):
    """How long the chains run, as `elliptical_slice_sampling` says."""

    n_samples: int
    n_burn: int
    n_chains: int
    thin: int


def elliptical_slice_sampling(
    K: Covariance,
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
    init: Start | None = None,
) -> SliceSamples:
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
    SliceSamples

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
    length = RunLength(n_samples, n_burn, n_chains, thin)
    check_counts(**length._asdict())
    problem = make_problem(K, y, likelihood, weights)
    terms = terms_of(init, problem, "init")
    return sample(problem, terms, length, generator(random_state), progress)


def sample(
    problem: LatentProblem,
    terms: SiteTerms | None,
    length: RunLength,
    rng: np.random.Generator,
    progress: Progress = None,
) -> SliceSamples:
    """`elliptical_slice_sampling` of a checked problem; terms as ``init`` there."""
    began = time.perf_counter()
    prior, log_likelihood = problem.prior, problem.log_likelihood
    proposal = problem.proposal(terms)
    n_chains, n_draws = length.n_chains, -(-length.n_samples // length.n_chains)
    f = np.empty((prior.size, n_draws, n_chains))
    a, values = np.empty_like(f), np.empty((n_draws, n_chains))
    start = proposal.gaussian.draw(rng, n_chains).f
    chains = Chains(start, log_likelihood(start))
    n_steps = length.n_burn + n_draws * length.thin
    n_evaluations = n_stuck = 0
    reporter = Reporter(progress, n_steps, "elliptical slice sampling")
    for step in range(n_steps):
        chains, taken, stuck = slice_step(
            proposal, 1.0, proposal.terms, log_likelihood, chains, rng
        )
        n_evaluations += taken
        n_stuck += stuck
        draw, rest = divmod(step + 1 - length.n_burn, length.thin)
        if draw > 0 and rest == 0:
            f[:, draw - 1], values[draw - 1] = chains
            a[:, draw - 1] = prior.inverse_times(chains.f)
        reporter.step()
    return SliceSamples(
        f=problem.by_function(f),
        a=problem.by_function(a),
        log_likelihood=values,
        evaluations_per_step=n_evaluations / (n_steps * n_chains),
        n_stuck=n_stuck,
        seconds=time.perf_counter() - began,
    )
