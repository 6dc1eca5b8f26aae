"""Monte Carlo: the truth that the approximations are judged by, within errors that are known.

Elliptical slice sampling draws from the latent posterior, annealed importance sampling estimates
the evidence without bias; both need nothing of a likelihood but its ``log_prob``.
"""

from gpclass.montecarlo.annealing import EvidenceEstimate, annealed_importance_sampling
from gpclass.montecarlo.diagnostics import effective_sample_size, split_rhat
from gpclass.montecarlo.method import MonteCarlo, MonteCarloApproximation
from gpclass.montecarlo.samples import SamplePosterior, Samples
from gpclass.montecarlo.slice_sampling import SliceSamples, elliptical_slice_sampling
from gpclass.montecarlo.starts import nested_ep_sites

__all__ = [
    "EvidenceEstimate",
    "MonteCarlo",
    "MonteCarloApproximation",
    "SamplePosterior",
    "Samples",
    "SliceSamples",
    "annealed_importance_sampling",
    "effective_sample_size",
    "elliptical_slice_sampling",
    "nested_ep_sites",
    "split_rhat",
]
