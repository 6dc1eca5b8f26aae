"""How p(f) is held: as a dense matrix, for now."""

from gpclass.priors.base import Prior, SiteFactor
from gpclass.priors.dense import DenseFactor, DensePrior

__all__ = ["DenseFactor", "DensePrior", "Prior", "SiteFactor"]
