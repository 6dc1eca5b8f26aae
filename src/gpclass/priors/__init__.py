"""How the prior over the latent values is held."""

from gpclass.priors.base import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    PriorForm,
    RefactoredCovariance,
    SequentialCovariance,
    SiteFactor,
)
from gpclass.priors.dense import Dense, DensePrior
from gpclass.priors.inducing import Inducing, InducingPrior

__all__ = [
    "CovarianceProducts",
    "Dense",
    "DensePrior",
    "Inducing",
    "InducingPrior",
    "PosteriorCovariance",
    "Prior",
    "PriorForm",
    "RefactoredCovariance",
    "SequentialCovariance",
    "SiteFactor",
]
