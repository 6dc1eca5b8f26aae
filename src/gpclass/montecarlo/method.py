"""Monte Carlo as an inference method: samples for predictions, annealing for the evidence."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NoReturn, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.inference.approximation import Approximation, Outcome, described
from gpclass.inference.ep import EP
from gpclass.inference.sites import Sites
from gpclass.likelihoods.base import Likelihood
from gpclass.montecarlo.annealing import EvidenceEstimate, anneal
from gpclass.montecarlo.gaussian import SiteTerms
from gpclass.montecarlo.problem import RandomState, check_counts, generator, make_problem, terms_of
from gpclass.montecarlo.samples import SamplePosterior, Samples
from gpclass.montecarlo.slice_sampling import RunLength, SliceSamples, sample
from gpclass.montecarlo.starts import tempered_proposals
from gpclass.priors import Prior

# Above this split R-hat the chains still depend on where they started.
MAX_RHAT: Final = 1.05
# Below this many effective draws a posterior mean has an error of a tenth of a deviation.
MIN_EFFECTIVE_DRAWS: Final = 100.0
# Below this many effective chains of the annealing its standard error is itself a guess.
MIN_EFFECTIVE_CHAINS: Final = 10.0
NO_GRADIENT: Final = (
    "Monte Carlo has no gradient of the evidence: learn the hyperparameters by another method "
    "(inference='ep') and take its kernel, or fix them with optimizer=None"
)


@final
@dataclass(frozen=True)
class MonteCarloApproximation:
    """Samples of the posterior and an unbiased estimate of the evidence.

    It has the attributes of `Approximation`, with samples in the place of sites. ``draws`` has the
    diagnostics, ``evidence`` is None where it was not asked for, ``n_iter`` counts the moves of
    each chain.
    """

    __repr__ = described

    posterior: SamplePosterior
    draws: SliceSamples
    evidence: EvidenceEstimate | None
    outcome: Outcome
    n_iter: int

    @property
    def log_evidence(self) -> float:
        """``log p(y | X, theta)`` in nats; NaN where it was not asked for."""
        return float("nan") if self.evidence is None else self.evidence.log_evidence

    @property
    def log_evidence_error(self) -> float:
        """Its standard error; NaN where it was not asked for."""
        return float("nan") if self.evidence is None else self.evidence.standard_error

    @property
    def sites(self) -> Samples:
        """What a saved model needs, with K, to predict: samples in the place of sites."""
        return self.posterior.samples

    def likelihood_gradient(self) -> NoReturn:
        """Raise, as `evidence_pullback` does."""
        self.evidence_pullback()

    @property
    def n_factorisations(self) -> int:
        """Factorisations of K: its eigenvectors."""
        return 1

    @property
    def converged(self) -> bool:
        """Whether the chains were long enough."""
        return self.outcome.converged

    def evidence_pullback(self) -> NoReturn:
        """Raise ValueError: there is none."""
        raise ValueError(NO_GRADIENT)


@final
@dataclass(frozen=True)
class MonteCarlo:
    """Elliptical slice sampling for predictions, annealed importance sampling for the evidence.

    Parameters
    ----------
    n_samples, n_burn, n_chains, thin
        Of the slice sampler, as for `elliptical_slice_sampling`.
    random_state : int, Generator, RandomState or None, default=0
        An int gives the same bits every time.
    evidence : bool, default=True
        Whether to estimate the evidence; this takes most of the time.
    n_temperatures, n_annealed : int, default=1000 and 100
        Steps of the annealing, and its chains.
    start : {"auto", "ep", "prior"}, default="auto"
        The Gaussian that the ellipses belong to and that annealing starts from, where no ``init``
        is given. "ep": that of EP. "auto": "ep" where EP converges, else "prior". It affects the
        time and the error, not the limit.

    References
    ----------
    Murray, Adams and MacKay, AISTATS 2010; Neal, Statistics and Computing 11, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> q = MonteCarlo()(np.eye(2), [1, -1], Probit())
    >>> bool(abs(q.log_evidence - 2 * np.log(0.5)) < 4 * q.log_evidence_error < 0.1)
    True
    """

    differentiable: ClassVar[bool] = False

    n_samples: int = 1000
    n_burn: int = 500
    n_chains: int = 20
    thin: int = 30
    random_state: RandomState = 0
    evidence: bool = True
    n_temperatures: int = 1000
    n_annealed: int = 100
    start: Literal["auto", "ep", "prior"] = "auto"

    def __post_init__(self) -> None:
        check_counts(**self._length()._asdict())
        check_counts(n_temperatures=self.n_temperatures, n_annealed=self.n_annealed)
        if self.start not in ("auto", "ep", "prior"):
            raise ValueError(f"start must be 'auto', 'ep' or 'prior', got {self.start!r}")

    def _length(self) -> RunLength:
        return RunLength(self.n_samples, self.n_burn, self.n_chains, self.thin)

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | Samples | None = None,
    ) -> MonteCarloApproximation:
        """Sample ``p(f | y)`` and estimate ``p(y)``; the arguments are those of every method.

        ``init`` is the Gaussian to start from, in the place of that of ``start``; samples in it are
        not used. Only ``log_prob`` of the likelihood is used, but for ``start``. Raises as
        `annealed_importance_sampling` does, for a likelihood of zeros only if ``evidence`` is asked
        for.
        """
        problem = make_problem(prior, y, likelihood, weights)
        # samples at other hyperparameters are no Gaussian to start from
        start = None if isinstance(init, Samples | MonteCarloApproximation) else init
        terms = terms_of(start, problem, "init")
        if terms is None and self.start != "prior":
            near = EP()(prior, y, likelihood, weights=weights)
            terms = SiteTerms.of(near.sites) if self.start == "ep" or near.converged else None
        rng = generator(self.random_state)
        draws = sample(problem, terms, self._length(), rng)
        estimate = None
        if self.evidence:
            tempered = terms is None and likelihood.log_concave
            estimate = anneal(
                problem,
                terms,
                tempered_proposals(problem, likelihood) if tempered else [],
                n_chains=self.n_annealed,
                n_temperatures=self.n_temperatures,
                adaptive=True,
                rng=rng,
            )
        return MonteCarloApproximation(
            posterior=SamplePosterior(draws.samples, problem.prior),
            draws=draws,
            evidence=estimate,
            outcome=_outcome(draws, estimate),
            n_iter=self.n_burn + draws.f.shape[1] * self.thin,
        )


def _outcome(draws: SliceSamples, estimate: EvidenceEstimate | None) -> Outcome:
    """Judge the diagnostics by their limits; NaN, from too few draws, counts as too short."""
    rhat = np.r_[draws.rhat, draws.log_likelihood_rhat]
    ess = np.r_[draws.effective_sample_size, draws.log_likelihood_effective_sample_size]
    long = bool((rhat <= MAX_RHAT).all() and (ess >= MIN_EFFECTIVE_DRAWS).all())
    if estimate is not None:
        long = long and estimate.effective_sample_size >= min(
            MIN_EFFECTIVE_CHAINS, estimate.n_chains
        )
    return Outcome.CONVERGED if long else Outcome.SHORT_CHAINS
