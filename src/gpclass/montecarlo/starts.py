"""Gaussians near the posterior, by EP: where Monte Carlo starts, and the proposals of its moves."""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.inference.ep import EP
from gpclass.inference.nested import NestedApproximation, nested_ep
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import Proposal, SiteTerms
from gpclass.montecarlo.problem import Covariance, LatentProblem, as_class_prior
from gpclass.priors.classes import ClassPrior, ClassSites

# Inverse temperatures of the proposals are (k / 16)^3; between 20 and 40 of them none was better.
N_PROPOSALS: Final = 16
# Proposals do not change the target of the chains, so that few digits of EP are enough.
PROPOSAL_TOL: Final = 1e-3


def nested_ep_sites(
    K: Covariance, y: ArrayLike, likelihood: ClassLikelihood, *, weights: ArrayLike | None = None
) -> ClassSites:
    """Sites of nested EP for a likelihood of many classes: a good Gaussian to begin Monte Carlo at.

    Any likelihood is taken for the multinomial probit at ``f / likelihood.probit_scale``. Where it
    is another, the Gaussian is near the posterior all the same, nearer than Laplace's. K, (n, n) or
    one a class, and y, codes from 0, are as for `elliptical_slice_sampling`; ``weights`` as for
    `nested_ep`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods.classes import SoftmaxLikelihood
    >>> nested_ep_sites(np.eye(2), [0, 2], SoftmaxLikelihood()).b.shape
    (2, 3)
    """
    scaled = _scaled(as_class_prior(K, y), likelihood)
    return _rescaled(nested_ep(scaled, y, weights=weights), likelihood)


def tempered_proposals(
    problem: LatentProblem, likelihood: Likelihood | ClassLikelihood
) -> list[Proposal]:
    """Gaussians of EP, or nested EP, for the likelihood at rising inverse temperatures."""
    method, init, found = EP(tol=PROPOSAL_TOL), None, []
    covariance: Any = problem.covariance
    if isinstance(likelihood, ClassLikelihood):
        covariance = _scaled(covariance, likelihood)
    for power in (np.arange(1, N_PROPOSALS + 1) / N_PROPOSALS) ** 3:
        weights = power * problem.weights
        if isinstance(likelihood, ClassLikelihood):
            near = nested_ep(covariance, problem.y, method, weights=weights, init=init)
            terms = SiteTerms.of(_rescaled(near, likelihood))
            init = near.sites
        else:
            init = method(covariance, problem.y, likelihood, weights=weights, init=init).sites
            terms = SiteTerms.of(init)
        found.append(problem.proposal(terms, float(power)))
    return found


def _scaled(class_prior: ClassPrior, likelihood: ClassLikelihood) -> ClassPrior:
    """Prior of ``f / s``, s being the likelihood's ``probit_scale``."""
    factor = likelihood.probit_scale**-2
    if factor == 1.0:
        return class_prior
    if class_prior.shared:
        K: Array | list[Array] = factor * class_prior.covariances[0]
    else:
        K = [factor * k for k in class_prior.covariances]
    return ClassPrior(K, class_prior.n_classes, class_prior.description)


def _rescaled(found: NestedApproximation, likelihood: ClassLikelihood) -> ClassSites:
    """Sites in f of sites in ``f / s``."""
    s, sites = likelihood.probit_scale, found.class_sites
    return ClassSites(sites.b / s, sites.d / s**2)
