"""The EP energy at the sites of another method, with its derivatives."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from gpclass.inference.approximation import Approximation, Outcome, SitePosterior, described
from gpclass.inference.cavities import Cavities, Copies
from gpclass.inference.energy import Energy
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.response import (
    FOURTH,
    Implicit,
    SiteJacobian,
    implicit_adjoints,
    site_slopes,
)
from gpclass.inference.solvers.rule import MarginalRule, SolverResult
from gpclass.linalg import Array
from gpclass.priors import Prior


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
    def of(cls, rule: MarginalRule, end: SolverResult) -> "EnergyApproximation":
        """EP energy of the sites that an iteration ended with.

        Where a cavity has no positive variance negative site precisions are set to zero, and the
        outcome is NO_FIXED_POINT.
        """
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
        """Derivatives of the sites by the marginals, from the method's own rule."""
        return self._jacobian

    def site_slopes(self, prior: Prior, copies: Copies) -> Array:
        """Derivatives of the target sites by the likelihood's theta."""
        return site_slopes(self.rule, self.posterior)

    def evidence_pullback(self) -> Any:
        """``d log Z_EP / dK``, explicit and implicit terms; see `SitePosterior.pullback`."""
        adjoints = self._implicit.marginals
        return self.posterior.pullback(adjoints.mean, adjoints.variance)

    def likelihood_gradient(self) -> Array:
        """``d log Z_EP / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        copies = self.energy.copies
        by_sites = np.concatenate([self._implicit.by_nu, self._implicit.by_tau])
        through = self.site_slopes(self.rule.prior, copies) @ by_sites
        return np.asarray(copies.log_z_gradient(*self.energy.cavities) + through)
