"""One transition of elliptical slice sampling, for many chains at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.sites import Sites
from gpclass.montecarlo.class_gaussian import ClassGaussian, ClassTerms
from gpclass.montecarlo.gaussian import LatentGaussian

Array = NDArray[np.float64]

LogLikelihood = Callable[[Array], Array]
"""From latent values of shape (n, R) to one logarithm a chain, shape (R,), for any R."""

# A bracket loses about half its width a rejection: after 100 it is below the rounding of an angle,
# and the chain is where it was, on the slice by definition.
MOST_SHRINKS: Final = 100


def log_sites(sites: Sites | ClassTerms, f: Array) -> Array:
    """``sum_i nu_i f_i - tau_i f_i^2 / 2`` for each column of f of shape (n, R)."""
    if isinstance(sites, ClassTerms):
        return sites.log_value(f)
    return np.asarray(
        np.einsum("i,ij->j", sites.nu, f) - 0.5 * np.einsum("i,ij,ij->j", sites.tau, f, f)
    )


@final
@dataclass(frozen=True)
class Tilt:
    """What a Gaussian is multiplied by: ``exp(power * log_likelihood(f)) prod_i site_i(f_i)``.

    Parameters
    ----------
    power : float
        Inverse temperature of the likelihood.
    sites : Sites or ClassTerms, default=None
        None: without. Their precisions may have any sign.
    """

    power: float = 1.0
    sites: Sites | ClassTerms | None = None

    @classmethod
    def without(cls, guide: Sites | ClassTerms, power: float, sites: Sites | ClassTerms) -> "Tilt":
        """The likelihood and the sites to powers ``power`` and ``1 - power``, over the guide."""
        if isinstance(sites, ClassTerms) and isinstance(guide, ClassTerms):
            terms = sites.powered(1.0 - power).times(guide.powered(-1.0))
            return cls(power, terms if terms.terms else None)
        if isinstance(sites, Sites) and isinstance(guide, Sites):
            rest = Sites(
                (1.0 - power) * sites.nu - guide.nu,
                (1.0 - power) * sites.tau - guide.tau,
            )
            return cls(power, rest if rest.nu.any() or rest.tau.any() else None)
        raise TypeError("sites and guide must be of one kind")

    def log_density(self, log_likelihood: Array, f: Array) -> Array:
        """Logarithm at f of shape (n, R), whose log likelihoods are given, shape (R,)."""
        value = self.power * log_likelihood
        return value if self.sites is None else value + log_sites(self.sites, f)


class Chains(NamedTuple):
    """Where R chains are: f of shape (n, R) and the log likelihood there, shape (R,)."""

    f: Array
    log_likelihood: Array


class StepCounts(NamedTuple):
    """What a step took: values of the log likelihood, and chains that found no other point."""

    n_evaluations: int
    n_stuck: int


def slice_step(
    gaussian: LatentGaussian | ClassGaussian,
    tilt: Tilt,
    log_likelihood: LogLikelihood,
    chains: Chains,
    rng: np.random.Generator,
) -> tuple[Chains, StepCounts]:
    """Move every chain once, leaving ``gaussian(f) tilt(f)`` invariant.

    Every chain has its own ellipse, threshold and bracket; only those that still search are
    evaluated.

    Parameters
    ----------
    gaussian : LatentGaussian or ClassGaussian
        Of the ellipses.
    tilt : Tilt
    log_likelihood : callable
        From f of shape (n, R) to shape (R,).
    chains : Chains
    rng : numpy.random.Generator

    Returns
    -------
    chains : Chains
    counts : StepCounts

    References
    ----------
    Murray, Adams and MacKay, Elliptical slice sampling, AISTATS 2010, Figure 2; with a Gaussian
    that is not the prior: Nishihara, Murray and Adams, JMLR 15, 2014.
    """
    R = chains.f.shape[1]
    mean = gaussian.mean[:, None]
    centred = chains.f - mean
    other = gaussian.spread(rng.standard_normal((gaussian.rank, R)))
    threshold = tilt.log_density(chains.log_likelihood, chains.f) - rng.standard_exponential(R)
    trial: Array = rng.uniform(0.0, 2.0 * np.pi, size=(R,))
    low, high = trial - 2.0 * np.pi, trial.copy()
    angle, values = np.zeros(R), chains.log_likelihood.copy()
    searching = np.arange(R)
    here, there = centred, other
    n_evaluations = 0
    for _ in range(MOST_SHRINKS):
        f = here * np.cos(trial)
        f += there * np.sin(trial)
        f += mean
        value = log_likelihood(f)
        n_evaluations += len(searching)
        # with equality, for a hard threshold whose -1e300 a threshold cannot be told from
        hit = tilt.log_density(value, f) >= threshold[searching]
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
    return Chains(centred, values), StepCounts(n_evaluations, len(searching))
