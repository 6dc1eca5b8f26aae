"""The EP energy at the sites of another method, with its derivatives."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import Approximation
from gpclass.inference.cavities import Copies
from gpclass.inference.energy import Energy
from gpclass.inference.solvers.response import Implicit, implicit_adjoints
from gpclass.inference.solvers.rule import SiteRule

Array = NDArray[np.float64]

# Central differences by a logarithm, of functions that quadrature has right to 1e-12.
STEP: Final = 1e-3


class LabelRule(SiteRule, Protocol):
    """A rule whose sites are functions of the marginals and of the likelihood alone."""

    @property
    def copies(self) -> Copies:
        """Likelihood terms."""


@final
@dataclass(frozen=True)
class EnergyApproximation(Approximation):
    """Sites of a method whose evidence is the EP energy; `Approximation` has the other fields.

    The energy is stationary at EP's sites alone, so its gradient has a term for the movement of
    the sites: see `gpclass.inference.solvers.response.implicit_adjoints`.

    Parameters
    ----------
    rule : LabelRule
    energy : Energy
    """

    rule: LabelRule
    energy: Energy

    @cached_property
    def _implicit(self) -> Implicit:
        first, second = self.energy.excess()
        return implicit_adjoints(
            self.rule, self.posterior, self.energy.marginal_adjoints(), -first, -second
        )

    def evidence_pullback(self) -> Any:
        """``d log Z_EP / dK``, explicit and implicit terms; see `SitePosterior.pullback`."""
        adjoints = self._implicit.marginals
        return self.posterior.pullback(adjoints.mean, adjoints.variance)

    def likelihood_gradient(self) -> Array:
        """``d log Z_EP / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        copies = self.energy.copies
        gradient = copies.log_z_gradient(*self.energy.cavities)
        theta = copies.likelihood.theta
        for k in range(len(theta)):
            d_nu, d_tau = self._site_slopes(theta, k)
            gradient[k] += float(self._implicit.by_nu @ d_nu + self._implicit.by_tau @ d_tau)
        return gradient

    def _site_slopes(self, theta: Array, k: int) -> tuple[Array, Array]:
        """Derivatives of the sites by entry k of theta at fixed marginals."""
        posterior = self.posterior
        values = []
        for t in (-2.0, -1.0, 1.0, 2.0):
            moved = theta.copy()
            moved[k] += t * STEP
            copies = replace(
                self.rule.copies, likelihood=self.rule.copies.likelihood.with_theta(moved)
            )
            rule = replace(self.rule, copies=copies)  # type: ignore[type-var]
            sites = rule.target(
                posterior.mean,
                posterior.variance,
                posterior.sites.nu,
                posterior.sites.tau,
            )
            values.append(np.stack([sites.nu, sites.tau]))
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * STEP)
        return slope[0], slope[1]
