"""The evidence by annealed importance sampling: its only error is chance, whose size is known."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import Proposal, SiteTerms
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
from gpclass.montecarlo.slice_step import Chains, slice_step
from gpclass.montecarlo.starts import tempered_proposals

# The pilot has a twentieth of the temperatures, but at least 50: with a third of the default
# chains it takes a hundredth or two of the time.
PILOT_CHAINS: Final = 32
PILOT_SHARE: Final = 0.05
MIN_PILOT: Final = 50
# Share of the temperatures that stay where the pilot had them, should it have misled.
DEFENSIVE_SHARE: Final = 0.1
# Likelihoods write log 0 as -1e300.
LOG_ZERO: Final = -1e200


@final
@dataclass(frozen=True)
class EvidenceEstimate:
    """An estimate of ``log Z = log int p(f) prod_i p(y_i|f_i)^w_i df`` and of its error.

    The average of the chains' importance weights has the evidence Z for its expectation, however
    few the temperatures; its logarithm is below log Z by about half of ``standard_error`` squared.

    Parameters
    ----------
    log_evidence : float
        In nats.
    standard_error : float
        Of ``log_evidence``, by the delta method; infinite for one chain.
    effective_sample_size : float
        ``(sum w)^2 / sum w^2``, of the chains; below ten or so a few weights dominate, and
        ``standard_error`` is itself a guess.
    log_weights : ndarray of shape (n_chains,)
        Logarithms of the importance weights; the log of their average is ``log_evidence``.
    temperatures : ndarray of shape (n_temperatures + 1,)
        Inverse temperatures, from 0 to 1.
    evaluations_per_step, seconds : float
        Values of the log likelihood for one move of one chain, and the time of the run.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    log_weights: Array
    temperatures: Array
    evaluations_per_step: float
    seconds: float

    @property
    def n_chains(self) -> int:
        """Number of chains, the largest that ``effective_sample_size`` can be."""
        return len(self.log_weights)


def annealed_importance_sampling(
    K: Covariance,
    y: ArrayLike,
    likelihood: Likelihood | ClassLikelihood,
    *,
    weights: ArrayLike | None = None,
    n_chains: int = 100,
    n_temperatures: int = 1000,
    start: Literal["prior"] | Start = "prior",
    schedule: Literal["adaptive", "power"] = "adaptive",
    guides: Literal["auto", "ep", "none"] = "auto",
    random_state: RandomState = None,
    progress: Progress = None,
) -> EvidenceEstimate:
    """Estimate the evidence by annealing from a Gaussian whose mass is known to the posterior.

    Along ``q(f) (p(f) prod_i p(y_i|f_i)^w_i / q(f))^beta``, beta rising from 0 to 1, every chain
    moves by elliptical slice sampling and gathers ``log w = sum_t (beta_{t+1} - beta_t) log
    (p(f_t) prod_i p(y_i|f_ti)^w_i / q(f_t))``; q is the prior, or the prior given Gaussian sites.

    Parameters
    ----------
    K, y, likelihood, weights, random_state, progress
        As for `elliptical_slice_sampling`. Of the likelihood only ``log_prob`` is used, but for
        ``guides``.
    n_chains : int, default=100
        Chains: the error falls with the square root of their number.
    n_temperatures : int, default=1000
        Steps from 0 to 1. The variance of a chain's log weight falls about in proportion; bring
        it to one or below before adding chains.
    start : "prior", Approximation or Sites, default="prior"
        Where to anneal from. The sites of an approximation that is any good leave little to do:
        the error is far smaller. Of many classes: what ``nested_ep`` or ``SoftmaxLaplace`` returns,
        or `ClassSites`, such as those of `nested_ep_sites`.
    schedule : {"adaptive", "power"}, default="adaptive"
        How the temperatures lie. "adaptive": by a pilot run with random numbers of its own, so
        that each step adds about as much variance; this does not bias the estimate. "power":
        ``(t / n_temperatures)^4`` from the prior, and squares from an approximation.
    guides : {"auto", "ep", "none"}, default="auto"
        From the prior: which Gaussians the ellipses of the moves (their proposals) belong to.
        "ep": EP for the tempered likelihood at 16 temperatures, nested EP for many classes.
        "none": the prior, whose ellipses are much too wide for a strong signal. "auto": "ep" where
        the likelihood is log-concave, as those of many classes are, else "none". Proposals shape
        the moves and not their target: the expectation of the weights does not depend on them.

    Returns
    -------
    EvidenceEstimate

    Raises
    ------
    ValueError, TypeError
        For bad labels, weights, counts, names or lengths, and for a likelihood that is zero
        somewhere, since a chain that begins there has no weight to gain.
    NotPositiveDefiniteError
        Where K is not positive semi-definite, or ``start`` has no proper Gaussian.

    References
    ----------
    Neal, Annealed importance sampling, Statistics and Computing 11, 2001; Kuss and Rasmussen,
    JMLR 6, 2005, for GP classification (RW06 Figure 3.12).

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> K, y = np.array([[4.0, 2.0], [2.0, 4.0]]), [1, 1]
    >>> exact = np.log(0.25 + np.arcsin(2 / 5) / (2 * np.pi))
    >>> estimate = annealed_importance_sampling(
    ...     K, y, Probit(), start=EP()(K, y, Probit()), n_temperatures=50, random_state=0
    ... )
    >>> bool(abs(estimate.log_evidence - exact) < 4 * estimate.standard_error < 0.05)
    True
    """
    if schedule not in ("adaptive", "power"):
        raise ValueError(f"schedule must be 'adaptive' or 'power', got {schedule!r}")
    if guides not in ("auto", "ep", "none"):
        raise ValueError(f"guides must be 'auto', 'ep' or 'none', got {guides!r}")
    if isinstance(start, str) and start != "prior":
        raise ValueError(f"start must be 'prior', an Approximation or Sites, got {start!r}")
    if start is None:
        raise TypeError("start must be 'prior', an Approximation or Sites, got None")
    problem = make_problem(K, y, likelihood, weights)
    terms = None if isinstance(start, str) else terms_of(start, problem, "start")
    if guides == "auto":
        concave = isinstance(likelihood, ClassLikelihood) or likelihood.log_concave
        guides = "ep" if concave else "none"
    return anneal(
        problem,
        terms,
        tempered_proposals(problem, likelihood) if terms is None and guides == "ep" else [],
        n_chains=n_chains,
        n_temperatures=n_temperatures,
        adaptive=schedule == "adaptive",
        rng=generator(random_state),
        progress=progress,
    )


def anneal(
    problem: LatentProblem,
    terms: SiteTerms | None,
    proposals: Sequence[Proposal],
    *,
    n_chains: int,
    n_temperatures: int,
    adaptive: bool,
    rng: np.random.Generator,
    progress: Progress = None,
) -> EvidenceEstimate:
    """`annealed_importance_sampling` of a checked problem from the prior given ``terms``, if any.

    ``proposals`` are the Gaussians of the moves; empty: the one to anneal from.
    """
    check_counts(n_chains=n_chains, n_temperatures=n_temperatures)
    began = time.perf_counter()
    base = problem.proposal(terms)
    path = problem, base, proposals or [base]
    n_pilot = min(n_temperatures, max(MIN_PILOT, round(PILOT_SHARE * n_temperatures)))
    reporter = Reporter(progress, n_temperatures + adaptive * n_pilot, "annealing")
    # Kuss and Rasmussen take the fourth power of equal steps from the prior; from an approximation
    # the ratio varies less along the path
    exponent = 4 if terms is None else 2
    temperatures = _power(n_temperatures, exponent)
    if adaptive:
        pilot = _power(n_pilot, exponent)
        run = _run(*path, pilot, PILOT_CHAINS, rng, reporter.step)
        temperatures = _equal_steps(pilot, run, n_temperatures)
    run = _run(*path, temperatures, n_chains, rng, reporter.step)
    log_weights = run.log_weights + base.gaussian.log_mass
    top = float(log_weights.max())
    w = np.exp(log_weights - top)
    # delta method: the standard error of the mean over the mean
    error = float(w.std(ddof=1) / (np.sqrt(len(w)) * w.mean())) if len(w) > 1 else float("inf")
    return EvidenceEstimate(
        log_evidence=top + float(np.log(w.mean())),
        standard_error=error,
        effective_sample_size=float(w.sum() ** 2 / (w @ w)),
        log_weights=log_weights,
        temperatures=temperatures,
        evaluations_per_step=run.n_evaluations / max(1, n_chains * (n_temperatures - 1)),
        seconds=time.perf_counter() - began,
    )


class _Run(NamedTuple):
    """Log weights (R,) and, at T temperatures, the log ratio's deviation and autocorrelation."""

    log_weights: Array
    deviation: Array
    correlation: Array
    n_evaluations: int


def _run(
    problem: LatentProblem,
    base: Proposal,
    proposals: Sequence[Proposal],
    temperatures: Array,
    n_chains: int,
    rng: np.random.Generator,
    report: Callable[[], None],
) -> _Run:
    """Anneal along ``base(f) exp(beta ratio(f))``: ``ratio = log p(y|f) - log prod_i site_i``."""
    f = base.gaussian.draw(rng, n_chains).f
    chains = Chains(f, problem.log_likelihood(f))
    if chains.log_likelihood.min() < LOG_ZERO:
        raise ValueError(
            "the likelihood is zero at some of the latent values that annealing starts from, and "
            "their chains could never gain weight: anneal a likelihood that is positive everywhere"
            " (a noisy threshold with epsilon > 0)"
        )
    ratio = chains.log_likelihood - base.terms.log_value(f)
    n_steps = len(temperatures) - 1
    log_weights, n_evaluations = np.zeros(n_chains), 0
    deviation, correlation = np.empty(n_steps), np.zeros(n_steps)
    for t in range(n_steps):
        log_weights += (temperatures[t + 1] - temperatures[t]) * ratio
        centred, deviation[t] = ratio - ratio.mean(), ratio.std()
        if t + 1 < n_steps:
            power = float(temperatures[t + 1])
            near = min(proposals, key=lambda proposal: abs(np.log(proposal.power / power)))
            chains, taken, _ = slice_step(
                near, power, base.terms, problem.log_likelihood, chains, rng
            )
            n_evaluations += taken
            ratio = chains.log_likelihood - base.terms.log_value(chains.f)
            scale = n_chains * deviation[t] * ratio.std()
            if scale > 0.0:
                correlation[t] = centred @ (ratio - ratio.mean()) / scale
        elif t > 0:
            correlation[t] = correlation[t - 1]
        report()
    return _Run(log_weights, deviation, correlation, n_evaluations)


def _power(n_temperatures: int, exponent: int) -> Array:
    return np.asarray(np.linspace(0.0, 1.0, n_temperatures + 1) ** exponent)


def _equal_steps(pilot: Array, run: _Run, n_temperatures: int) -> Array:
    """Inverse temperatures that share the variance of the log weight equally.

    A step of size d adds ``d^2 deviation^2 (1 + rho) / (1 - rho)``, rho the moves' autocorrelation:
    the steps are equal in the integral of the root of that.
    """
    rho = np.clip(_smooth(run.correlation), 0.0, 0.99)
    speed = _smooth(run.deviation) * np.sqrt((1.0 + rho) / (1.0 - rho))
    length = np.r_[0.0, np.cumsum(speed * np.diff(pilot))]
    share = np.linspace(0.0, 1.0, len(pilot))
    if length[-1] > 0.0:
        share = (1.0 - DEFENSIVE_SHARE) * length / length[-1] + DEFENSIVE_SHARE * share
    temperatures = np.interp(np.linspace(0.0, 1.0, n_temperatures + 1), share, pilot)
    temperatures[-1] = 1.0
    return temperatures


def _smooth(x: Array) -> Array:
    """Running mean over 15 neighbours, fewer near the ends."""
    total = np.r_[0.0, np.cumsum(x)]
    low = np.maximum(np.arange(len(x)) - 7, 0)
    high = np.minimum(np.arange(len(x)) + 8, len(x))
    return np.asarray((total[high] - total[low]) / (high - low))
