"""Variational inference: the Gaussian of the largest evidence bound."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import (
    Approximation,
    Outcome,
    SitePosterior,
    as_problem,
    starting_sites,
)
from gpclass.inference.cavities import Copies, Rows
from gpclass.inference.energy import Energy
from gpclass.inference.implicit import EnergyApproximation
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.newton import ConcaveTerms, State, Terms
from gpclass.inference.solvers.rule import End, Sweep, checked, mismatch
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.likelihoods.base import ExpectedLogProb, Likelihood
from gpclass.priors import Prior

Array = NDArray[np.float64]

EVIDENCES: Final = ("bound", "ep")


@final
@dataclass(frozen=True)
class VariationalApproximation(Approximation):
    """The Gaussian of the largest bound; `Approximation` has the other fields.

    Parameters
    ----------
    copies : Copies
    """

    copies: Copies

    def evidence_pullback(self) -> Any:
        """``d bound / dK``; see `SitePosterior.pullback`.

        The bound is stationary in the posterior, so only the prior moves it:
        ``(a a^T - R) / 2``.
        """
        return self.posterior.pullback()

    def likelihood_gradient(self) -> Array:
        """``d bound / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        copies = self.copies
        gradient = copies.likelihood.expected_log_prob_gradient(
            copies.y,
            self.posterior.mean + copies.offset,
            self.posterior.variance,
        )
        return np.asarray(gradient @ copies.weights)


class _Detail(NamedTuple):
    expected: ExpectedLogProb


@final
@dataclass(frozen=True)
class VariationalRule:
    """Sites ``tau = -2 dE/dv``, ``nu = dE/dm + tau m`` with ``E = E[log p(y|f)]`` of a row."""

    prior: Prior
    copies: Copies

    @property
    def copies_taken_out(self) -> None:
        """Nothing: sites depend on the marginals alone."""
        return None

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Expected derivatives under the marginals of a posterior, and the bound."""
        posterior = posterior.with_covariance()
        variance = posterior.variance
        sites, m = posterior.sites, posterior.mean
        expected, weights = self._expected(m, variance)
        target = _sites(expected, weights, m)
        residual = mismatch(target, sites, variance, self.copies.count)
        # KL(q || p) = (log |I + T K| - sum tau v + a^T m) / 2
        kl = 0.5 * (
            posterior.factor.log_det
            - float(sites.tau @ variance)
            + float(posterior.mean_weights @ m)
        )
        bound = float(weights @ expected.value) - kl
        v = np.maximum(variance, 1e-300)
        return Sweep(posterior, v, target, residual, bound, _Detail(expected))

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites as functions of the marginals."""
        return _sites(*self._expected(m, variance, rows), m)

    def _expected(
        self, m: Array, variance: Array, rows: Rows | None = None
    ) -> tuple[ExpectedLogProb, Array]:
        copies = self.copies
        y, offset, weights = copies.y, copies.offset, copies.weights
        if rows is not None:
            y, offset, weights = y[rows], offset[rows], weights[rows]
        return copies.likelihood.expected_log_prob(y, m + offset, variance), weights

    def terms(self, v: Array) -> ConcaveTerms:
        """Expected log-probabilities under marginals of variance v."""

        def terms(f: Array, nearby: Terms | None) -> Terms:
            expected, weights = self._expected(f, v)
            # d2 E / dm2 = 2 dE / dv, the Gaussian's heat equation
            second = np.minimum(2.0 * weights * expected.d_var, 0.0)
            total = float(weights @ expected.value)
            return Terms(total, weights * expected.d_mean, second, None)

        return terms

    def hint(self, sweep: Sweep, v: Array) -> None:
        """Nothing is searched for inside the terms."""

    def sites(self, state: State) -> Sites:
        """Sites of a mode: its slope and curvature."""
        tau = -state.terms.second
        return Sites(state.terms.first + tau * state.f, tau)


def _sites(expected: ExpectedLogProb, weights: Array, m: Array) -> Sites:
    tau = -2.0 * weights * expected.d_var
    return Sites(weights * expected.d_mean + tau * m, tau)


@final
@dataclass(frozen=True)
class Variational:
    """The Gaussian of the largest lower bound of the evidence, in 2n parameters.

    The optimum of ``E[log p(y|f)] - KL(q || p)`` over all Gaussians has the form of sites; its
    natural gradient is the difference of the sites that the posterior's marginals ask for and
    those there are. For a log-concave likelihood the means are solved for between two
    factorisations (`gpclass.inference.solvers.variances`), and the bound must rise at each; where
    it does not, and for other likelihoods, natural-gradient steps with a line search take over.

    Parameters
    ----------
    evidence : {"bound", "ep"}, default="bound"
        What `log_evidence` is: the bound, or the EP energy at the same sites, which is closer to
        the truth and a better objective for hyperparameters (Li, John & Solin 2023).
    max_iter : int, default=100
        Sweeps over all rows, of each of the iterations that are tried.
    tol : float, default=1e-8
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

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.evidence not in EVIDENCES:
            raise ValueError(f"evidence must be one of {EVIDENCES}, got {self.evidence!r}")
        if self.max_iter < 1 or not self.tol > 0:
            raise ValueError(
                f"max_iter must be at least 1 and tol positive, got {self.max_iter}, {self.tol}"
            )

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> Approximation:
        """Maximise the bound.

        Parameters
        ----------
        prior : Prior, or array-like of shape (n, n)
            Prior of the latent values; an array is taken as `DensePrior`.
        y : array-like of shape (n,)
            Labels, -1 or +1.
        likelihood : Likelihood
            Nowhere zero.
        weights : array-like of shape (n,), default=None
            Powers of the likelihood terms.
        init : Approximation or Sites, default=None
            Where to start; None: at the prior.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths, and for a likelihood that has zeros.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        problem = as_problem(prior, y, weights)
        copies = Copies(likelihood, problem.y, problem.weights, problem.offset)
        rule = VariationalRule(problem.prior, copies)
        end = self._solve(rule, starting_sites(init, problem.prior))
        posterior = end.sweep.posterior
        if self.evidence == "ep":
            energy = Energy.of(copies, posterior)
            outcome = checked(end, energy.value, problem.prior)
            return EnergyApproximation(
                posterior, energy.value, outcome, end.n_iter, end.n_factorisations, rule, energy
            )
        outcome = checked(end, end.sweep.merit, problem.prior)
        return VariationalApproximation(
            posterior, end.sweep.merit, outcome, end.n_iter, end.n_factorisations, copies
        )

    def _solve(self, rule: VariationalRule, sites: Sites) -> End:
        likelihood = rule.copies.likelihood
        steps = NaturalSteps(rule, self.tol, 5 * self.max_iter, Outcome.NATURAL_STEPS)
        if not (likelihood.log_concave and likelihood.smooth):
            return steps.run(sites)
        sites = Sites(sites.nu, np.maximum(sites.tau, 0.0))
        end = VarianceIteration(rule, self.tol, self.max_iter).run(sites)
        if end.outcome.converged:
            return end
        return steps.run(end.sweep.posterior.sites).after(end)
