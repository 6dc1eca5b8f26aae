"""Posterior linearisation (GTS19)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, final

import numpy as np

from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.cavities import Copies, Rows
from gpclass.inference.ep import SCHEDULES
from gpclass.inference.implicit import EnergyApproximation
from gpclass.inference.method import GaussianMethod, check_choice, check_limits, usable_sites
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.newton import ModePoint
from gpclass.inference.solvers.rule import MarginalRule, Solver, Sweep, first_to_converge, mismatch
from gpclass.inference.solvers.sequential import SequentialSweeps
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods.base import Likelihood
from gpclass.linalg import TINY, Array
from gpclass.priors import Prior

# A site of so many prior precisions, where no solver converges, is a posterior's collapse.
COLLAPSED: Final = 1e6


class _Fit(NamedTuple):
    """Statistical linear regression of the labels on f ~ N(m, v); shape (n,) each.

    ``tau = A^2 / Omega``, the force ``A (y - E[y]) / Omega = nu - tau m``, and its slope by m.
    """

    tau: Array
    force: Array
    slope: Array


def regress(likelihood: Likelihood, y: Array, m: Array, v: Array) -> _Fit:
    """Regress ``E[y|f]`` on f, from the tilted evidence q of the label that is rarer at m.

    With d and d2 the derivatives of log q by m and ``D = 1 - q - q d^2 v``, ``Omega = 4 q D``, so
    ``tau = q d^2 / D``; the force is ``d (1 - q) / D`` for the rarer label and ``-q d / D`` for the
    other. Nothing cancels in either tail. GTS19 eq. 15 to 17 and the supplement, with its total
    variances ``1 - alpha^2`` corrected to ``1 - (2 alpha - 1)^2``.
    """
    rare = by_quadrature.rare_label(likelihood, m)
    tilted = likelihood.tilted_moments(rare, m, v)
    q, d, d2 = np.exp(tilted.log_z), tilted.d_mean, tilted.d2_mean
    D = np.maximum(1.0 - q - q * d * d * v, np.finfo(np.float64).tiny)
    D_slope = -q * d * (1.0 + v * d * d + 2.0 * v * d2)
    is_rare = y == rare
    force = np.where(is_rare, d * (1.0 - q), -q * d) / D
    top = np.where(is_rare, d2 * (1.0 - q) - q * d * d, -q * (d * d + d2))
    return _Fit(q * d * d / D, force, top / D - force * D_slope / D)


@final
@dataclass(frozen=True)
class LinearisationRule(MarginalRule):
    """Sites ``tau = A^2 / Omega``, ``nu = A (y - b) / Omega`` of the posterior's marginals."""

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Regressions under the marginals of a posterior."""
        posterior = posterior.with_covariance()
        variance, sites = posterior.variance, posterior.sites
        target = self.target(posterior.mean, variance, sites.nu, sites.tau)
        residual = mismatch(target, sites, variance, self.copies.count)
        return Sweep(posterior, np.maximum(variance, TINY), target, residual, np.nan, None)

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites as functions of the marginals."""
        fit, weights = self._fit(m, variance, rows)
        precision = weights * fit.tau
        return Sites(weights * fit.force + precision * m, precision)

    def _fit(self, m: Array, variance: Array, rows: Rows | None = None) -> tuple[_Fit, Array]:
        y, offset, weights = self.copies.rows(rows)
        return regress(self.copies.likelihood, y, m + offset, variance), weights

    def terms(self, v: Array) -> ConcaveTerms:
        """Terms of the force's slope: the steeper of its own and the linear fit's, ``-tau``."""

        def terms(f: Array, nearby: Terms | None) -> Terms:
            fit, weights = self._fit(f, v)
            second = -weights * np.maximum(-fit.slope, fit.tau)
            return Terms(np.nan, weights * fit.force, second, weights * fit.tau)

        return terms

    def sites(self, mode: ModePoint) -> Sites:
        """Sites of the regressions at a mode."""
        tau = mode.terms.detail
        return Sites(mode.terms.first + tau * mode.f, tau)


@final
@dataclass(frozen=True)
class PosteriorLinearisation(GaussianMethod[EnergyApproximation]):
    """Posterior linearisation: the best affine fit of each label's mean, under the posterior.

    Each label is regressed on its latent value under the posterior's own marginal, which makes a
    Gaussian site; the posterior follows from the sites, and so on to the fixed point. Site
    precisions are never negative, so every covariance is one. The parallel schedule is
    `gpclass.inference.solvers.variances`, its variances those of the posterior; where it does not
    converge, damped steps and Newton's method take over. For the noisy threshold there may be no
    fixed point at all: opposite labels at one place let the variance there shrink to zero where
    epsilon is below 0.138 (two rows; more for more rows).

    The evidence is the EP energy at these sites. A weight counts a row's site that often.

    Parameters
    ----------
    schedule : {"parallel", "sequential"}, default="parallel"
    max_iter : int, default=100
        Sweeps over all rows, of the first solver.
    tol : float, default=1e-8
        As in `EP`.
    fallback : int, default=6
        As in `EP`.

    References
    ----------
    GTS19, Algorithms 1 and 2 and eq. 18, which is the EP energy (`gpclass.inference.energy`).

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import NoisyThreshold
    >>> q = PosteriorLinearisation()(np.eye(2), [1, -1], NoisyThreshold(0.1))
    >>> bool((q.sites.tau >= 0).all()), q.converged
    (True, True)
    """

    schedule: str = "parallel"
    max_iter: int = 100
    tol: float = 1e-8
    fallback: int = 6

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_choice("schedule", self.schedule, SCHEDULES)
        check_limits(self.max_iter, self.tol, self.fallback)

    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> EnergyApproximation:
        """Find the sites that are their own posterior's regressions."""
        rule, sites = LinearisationRule(prior, copies), usable_sites(init, prior)
        sites = Sites(sites.nu, np.maximum(sites.tau, 0.0))
        damped = partial(NaturalSteps, rule, self.tol, outcome=Outcome.DAMPED)
        end = first_to_converge(
            rule, [self._first(rule), damped], sites, self.max_iter, self.fallback
        )
        collapsed = end.sweep.posterior.sites.tau * prior.diagonal > COLLAPSED
        if not end.outcome.converged and collapsed.any():
            end = end._replace(outcome=Outcome.NO_FIXED_POINT)
        return EnergyApproximation.of(rule, end)

    def _first(self, rule: LinearisationRule) -> Callable[[int], Solver]:
        likelihood = rule.copies.likelihood
        if self.schedule == "sequential":
            return partial(SequentialSweeps, rule, self.tol)
        if likelihood.log_concave and likelihood.smooth:
            return partial(VarianceIteration, rule, self.tol)
        # there may be several fixed points: the plain iteration says which is meant
        return partial(NaturalSteps, rule, self.tol, outcome=Outcome.CONVERGED)
