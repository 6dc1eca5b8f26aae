"""One transition of elliptical slice sampling, for many chains at once."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import Proposal, SiteTerms

# A rejection about halves the bracket: after 100 its width is below the rounding of an angle, and
# the chain stays where it was, on the slice by definition.
MAX_REJECTIONS: Final = 100


class Chains(NamedTuple):
    """Where R chains are: f of shape (C n, R) and the log likelihood there, shape (R,)."""

    f: Array
    log_likelihood: Array


def slice_step(
    proposal: Proposal,
    power: float,
    sites: SiteTerms,
    log_likelihood: Callable[[Array], Array],
    chains: Chains,
    rng: np.random.Generator,
) -> tuple[Chains, int, int]:
    """Move every chain once, leaving ``p(f) p(y|f)^power prod_i site_i^(1 - power)`` invariant.

    Also returns how many likelihoods were evaluated, and how many chains found no other point.
    The slice is that of the target over the proposal, whose ellipses are used. Murray, Adams and
    MacKay, Elliptical slice sampling, AISTATS 2010, Figure 2; with a Gaussian that is not the
    prior: Nishihara, Murray and Adams, JMLR 15, 2014.
    """
    gaussian, rest = proposal.gaussian, sites.over(proposal.terms, 1.0 - power)
    trivial = rest.trivial

    def log_ratio(log_p: Array, f: Array) -> Array:
        return power * log_p if trivial else power * log_p + rest.log_value(f)

    R = chains.f.shape[1]
    mean = gaussian.mean[:, None]
    centred = chains.f - mean
    other = gaussian.spread(rng.standard_normal((gaussian.rank, R)))
    threshold = log_ratio(chains.log_likelihood, chains.f) - rng.standard_exponential(R)
    trial: Array = rng.uniform(0.0, 2.0 * np.pi, size=(R,))
    low, high = trial - 2.0 * np.pi, trial.copy()
    angle, values = np.zeros(R), chains.log_likelihood.copy()
    searching = np.arange(R)
    here, there = centred, other
    n_evaluations = 0
    for _ in range(MAX_REJECTIONS):
        f = here * np.cos(trial)
        f += there * np.sin(trial)
        f += mean
        value = log_likelihood(f)
        n_evaluations += len(searching)
        # equality counts: a hard threshold has log 0 = -1e300, and that less a little is itself
        hit = log_ratio(value, f) >= threshold[searching]
        found = searching[hit]
        angle[found], values[found] = trial[hit], value[hit]
        miss = ~hit
        searching, trial = searching[miss], trial[miss]
        if not len(searching):
            break
        below = trial < 0.0
        low[searching[below]] = trial[below]
        high[searching[~below]] = trial[~below]
        trial = rng.uniform(low[searching], high[searching])
        here, there = centred[:, searching], other[:, searching]
    centred *= np.cos(angle)
    other *= np.sin(angle)
    centred += other
    centred += mean
    return Chains(centred, values), n_evaluations, len(searching)
