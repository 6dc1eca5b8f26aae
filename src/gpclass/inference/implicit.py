"""The EP energy at the sites of another method, with its derivatives."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from gpclass.inference.approximation import Approximation, Outcome, SitePosterior, described
from gpclass.inference.cavities import Cavities, Copies
from gpclass.inference.energy import Energy
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import (
    FOURTH,
    Implicit,
    SiteJacobian,
    difference,
    implicit_adjoints,
)
from gpclass.inference.solvers.rule import End, MarginalRule
from gpclass.linalg import Array
from gpclass.priors import Prior

# Central differences by a logarithm, of functions that quadrature has right to 1e-12.
STEP: Final = 1e-3


@final
@dataclass(frozen=True)
class EnergyApproximation(Approximation):
    """Sites of posterior linearisation or of a bound, whose evidence is the EP energy.

    The energy is not stationary in these sites: `implicit_adjoints` has its gradient.

    Parameters
    ----------
    posterior, log_evidence, outcome, n_iter, n_factorisations
        As in `Approximation`. The log evidence is that of GTS19 eq. 18 (RW06 eq. 3.65).
    rule : MarginalRule
        Sites as functions of the marginals.
    energy : Energy
        Cavities and tilted moments at the end.
    """

    __repr__ = described

    rule: MarginalRule
    energy: Energy

    @classmethod
    def of(cls, rule: MarginalRule, end: End) -> "EnergyApproximation":
        """The EP energy at an end, less negative precisions if a cavity is not proper."""
        if not Cavities.of(end.sweep.posterior, rule.copies.count).proper:
            sites = end.sweep.posterior.sites
            positive = Sites(sites.nu, np.maximum(sites.tau, 0.0))
            sweep = rule.sweep(SitePosterior.from_sites(rule.prior, positive))
            end = end._replace(sweep=sweep, outcome=Outcome.NO_FIXED_POINT)
        energy = Energy.of(rule.copies, end.sweep.posterior)
        return cls(*end.fields(rule, energy.value), rule, energy)

    @cached_property
    def _implicit(self) -> Implicit:
        first, second = self.energy.excess()
        return implicit_adjoints(
            self._jacobian, self.posterior, self.energy.marginal_adjoints(), -first, -second
        )

    @cached_property
    def _jacobian(self) -> SiteJacobian:
        return SiteJacobian.of(self.rule, self.posterior, FOURTH)

    def site_jacobian(self, prior: Prior, copies: Copies) -> SiteJacobian:
        """By the rule that the sites fulfil."""
        return self._jacobian

    def evidence_pullback(self) -> Any:
        """``d log Z_EP / dK``, explicit and implicit terms; see `SitePosterior.pullback`."""
        adjoints = self._implicit.marginals
        return self.posterior.pullback(adjoints.mean, adjoints.variance)

    def likelihood_gradient(self) -> Array:
        """``d log Z_EP / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        copies = self.energy.copies
        gradient = copies.log_z_gradient(*self.energy.cavities)
        for k in range(len(copies.likelihood.theta)):
            d_nu, d_tau = self._site_slopes(k)
            gradient[k] += float(self._implicit.by_nu @ d_nu + self._implicit.by_tau @ d_tau)
        return gradient

    def _site_slopes(self, k: int) -> Array:
        """Derivatives of the sites by entry k of the likelihood's theta at fixed marginals."""
        posterior, theta = self.posterior, self.rule.copies.likelihood.theta
        m, v, sites = posterior.mean, posterior.variance, posterior.sites
        unit = np.eye(len(theta))[k]

        def moved(t: float) -> Sites:
            return self.rule.with_likelihood(theta + t * STEP * unit).target(
                m, v, sites.nu, sites.tau
            )

        return difference(moved, np.full(len(m), STEP), FOURTH)
