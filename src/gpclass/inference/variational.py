"""Variational inference: the Gaussian of the largest evidence bound."""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from gpclass.inference.approximation import Approximation, Outcome, SitePosterior, described
from gpclass.inference.cavities import Copies, Rows
from gpclass.inference.implicit import EnergyApproximation
from gpclass.inference.method import GaussianMethod, check_choice, check_limits, usable_sites
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.newton import ModePoint
from gpclass.inference.solvers.response import FOURTH, SiteJacobian, site_slopes
from gpclass.inference.solvers.rule import (
    MarginalRule,
    SolverResult,
    Sweep,
    first_to_converge,
    mismatch,
)
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.likelihoods.base import ExpectedLogProb
from gpclass.linalg import TINY, Array
from gpclass.priors import Prior


@final
@dataclass(frozen=True)
class VariationalApproximation(Approximation):
    """The Gaussian of the largest lower bound (B06 section 10.1), which is ``log_evidence``.

    Parameters
    ----------
    posterior, log_evidence, outcome, n_iter, n_factorisations
        As in `Approximation`.
    copies : Copies
        The likelihood terms.
    """

    __repr__ = described

    copies: Copies

    def evidence_pullback(self) -> Any:
        """``d bound / dK`` at a fixed posterior, where the bound is stationary."""
        return self.posterior.pullback()

    def likelihood_gradient(self) -> Array:
        """``d bound / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        copies = self.copies
        gradient = copies.likelihood.expected_log_prob_gradient(
            copies.y, self.posterior.mean + copies.offset, self.posterior.variance
        )
        return np.asarray(gradient @ copies.weights)

    def site_jacobian(self, prior: Prior, copies: Copies) -> SiteJacobian:
        """Derivatives of the variational sites by the marginals."""
        return SiteJacobian.of(VariationalRule(prior, copies), self.posterior, FOURTH)

    def site_slopes(self, prior: Prior, copies: Copies) -> Array:
        """Derivatives of the variational sites by the likelihood's theta."""
        return site_slopes(VariationalRule(prior, copies), self.posterior)


@final
@dataclass(frozen=True)
class VariationalRule(MarginalRule):
    """Sites ``tau = -2 dE/dv``, ``nu = dE/dm + tau m`` with ``E = E[log p(y|f)]`` of a row."""

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Expected derivatives under the marginals of a posterior, and the bound."""
        posterior = posterior.with_covariance()
        m, variance = posterior.mean, posterior.variance
        expected, weights = self._expected(m, variance)
        target = _sites(expected, weights, m)
        residual = mismatch(target, posterior.sites, variance, self.copies.count)
        bound = float(weights @ expected.value) - posterior.divergence()
        return Sweep(posterior, np.maximum(variance, TINY), target, residual, bound, None)

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites as functions of the marginals."""
        return _sites(*self._expected(m, variance, rows), m)

    def _expected(
        self, m: Array, variance: Array, rows: Rows | None = None
    ) -> tuple[ExpectedLogProb, Array]:
        y, offset, weights = self.copies.rows(rows)
        return self.copies.likelihood.expected_log_prob(y, m + offset, variance), weights

    def terms(self, v: Array) -> ConcaveTerms:
        """Expected log-probabilities under marginals of variance v."""

        def terms(f: Array, nearby: Terms | None) -> Terms:
            expected, weights = self._expected(f, v)
            # d2 E / dm2 = 2 dE / dv, the Gaussian's heat equation
            second = np.minimum(2.0 * weights * expected.d_var, 0.0)
            total = float(weights @ expected.value)
            return Terms(total, weights * expected.d_mean, second, None)

        return terms

    def sites(self, mode: ModePoint) -> Sites:
        """Sites of a mode: its slope and curvature."""
        tau = -mode.terms.second
        return Sites(mode.terms.first + tau * mode.f, tau)


def _sites(expected: ExpectedLogProb, weights: Array, m: Array) -> Sites:
    tau = -2.0 * weights * expected.d_var
    return Sites(weights * expected.d_mean + tau * m, tau)


def maximise_bound(
    rule: MarginalRule, sites: Sites, tol: float, max_iter: int, fallback: int
) -> SolverResult:
    """Maximise a rule's objective by `VarianceIteration`, or `NaturalSteps` where that fails."""
    likelihood = rule.copies.likelihood
    steps = partial(NaturalSteps, rule, tol, outcome=Outcome.NATURAL_STEPS)
    if not (likelihood.log_concave and likelihood.smooth):
        return first_to_converge(rule, [steps, steps], sites, max_iter, fallback)
    sites = Sites(sites.nu, np.maximum(sites.tau, 0.0))
    return first_to_converge(
        rule, [partial(VarianceIteration, rule, tol), steps], sites, max_iter, fallback
    )


@final
@dataclass(frozen=True)
class Variational(GaussianMethod[Approximation]):
    """The Gaussian of the largest lower bound of the evidence, in 2n parameters.

    The optimum of ``E[log p(y|f)] - KL(q || p)`` over all Gaussians has the form of sites; its
    natural gradient is the difference of the sites that the posterior's marginals ask for and
    those there are. For a log-concave likelihood the means are solved for between two
    factorisations (`gpclass.inference.solvers.variances`), and the bound must rise at each; where
    it does not, and for other likelihoods, natural-gradient steps with a line search take over.
    The likelihood must be nowhere zero.

    Parameters
    ----------
    evidence : {"bound", "ep"}, default="bound"
        What `log_evidence` is: the bound, or the EP energy at the same sites, which is closer to
        the truth and a better objective for hyperparameters (Li, John & Solin 2023).
    max_iter : int, default=100
        Sweeps over all rows, of the first solver.
    tol : float, default=1e-8
        As in `EP`.
    fallback : int, default=6
        As in `EP`.

    References
    ----------
    Opper & Archambeau (2009), eq. 9 to 12; Nickisch & Rasmussen (2008), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> K = np.array([[4.0, 2.0], [2.0, 4.0]])
    >>> bound = Variational()(K, [1, -1], Probit()).log_evidence
    >>> bool(bound < EP()(K, [1, -1], Probit()).log_evidence)
    True
    """

    evidence: str = "bound"
    max_iter: int = 100
    tol: float = 1e-8
    fallback: int = 6

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_choice("evidence", self.evidence, ("bound", "ep"))
        check_limits(self.max_iter, self.tol, self.fallback)

    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> Approximation:
        """Maximise the bound."""
        rule = VariationalRule(prior, copies)
        end = maximise_bound(
            rule, usable_sites(init, prior), self.tol, self.max_iter, self.fallback
        )
        if self.evidence == "ep":
            return EnergyApproximation.of(rule, end)
        return VariationalApproximation(*end.fields(rule, end.sweep.objective), copies)
