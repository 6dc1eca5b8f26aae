"""What the comparisons with Monte Carlo share: an estimate that is good enough, and its print."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from gpclass.montecarlo import EvidenceEstimate, SamplePosterior, Samples, SliceSamples

# Standard error of the log evidence, in nats.
WANTED_ERROR: Final = 0.02


def anneal(estimate: Callable[[int], EvidenceEstimate], first: int, most: int) -> EvidenceEstimate:
    """Anneal with enough temperatures for the standard error wanted, if that can be had.

    Parameters
    ----------
    estimate : callable
        Of the number of temperatures.
    first, most : int
        Temperatures.
    """
    n = first
    while True:
        found = estimate(n)
        if found.standard_error <= WANTED_ERROR or n >= most:
            return found
        # the variance falls in proportion to the temperatures
        factor = (found.standard_error / (0.9 * WANTED_ERROR)) ** 2
        n = int(min(most, max(1.5, factor) * n))


def described(found: EvidenceEstimate) -> dict[str, float]:
    """What is kept of an estimate."""
    return {
        "log_evidence": found.log_evidence,
        "standard_error": found.standard_error,
        "effective_chains": found.effective_sample_size,
        "n_chains": found.n_chains,
        "n_temperatures": len(found.temperatures) - 1,
        "seconds": found.seconds,
    }


def chains(draws: SliceSamples, whole: SamplePosterior) -> Iterator[SamplePosterior]:
    """The posterior of each chain alone, whose spread shows how well the whole is known."""
    for c in range(draws.a.shape[-1]):
        yield SamplePosterior(Samples(np.ascontiguousarray(draws.a[..., c])), whole.prior)


def signed(value: float) -> str:
    """Nats with as many digits as mean something.

    Examples
    --------
    >>> signed(-0.0712), signed(105.46), signed(1e-5)
    ('−0.071', '+105.5', '0.000')
    """
    if abs(value) < 0.0005:
        return "0.000"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 100 else 1
    return minus(f"{value:+.{digits}f}")


def minus(text: str) -> str:
    """The text with minus signs that are as wide as plus."""
    return text.replace("-", "−")


def estimate_text(truth: Mapping[str, float]) -> str:
    """Log evidence and its standard error."""
    return minus(f"{truth['log_evidence']:.3f} ± {truth['standard_error']:.4f}")


def from_prior_cells(found: Mapping[str, Any]) -> list[str]:
    """Annealing from a Gaussian of the posterior and from the prior: both, chains, their gap."""
    a, b = found["truth"], found["truth_from_prior"]
    chains = f"{b['effective_chains']:.0f} of {b['n_chains']}"
    return [estimate_text(a), estimate_text(b), chains, minus(f"{gap_in_errors(found):+.1f}")]


def gap_in_errors(found: Mapping[str, Any]) -> float:
    """Annealing from the prior less that from a Gaussian, in standard errors of the difference."""
    a, b = found["truth"], found["truth_from_prior"]
    error = np.hypot(a["standard_error"], b["standard_error"])
    return float((b["log_evidence"] - a["log_evidence"]) / error)
