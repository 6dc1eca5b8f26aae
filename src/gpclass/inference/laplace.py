"""Laplace's method: the Gaussian at the mode (RW06 section 3.4, B06 section 6.4.6)."""

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from gpclass.inference.approximation import Approximation, SitePosterior, described
from gpclass.inference.cavities import Copies
from gpclass.inference.method import GaussianMethod, check_choice, check_limits
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.newton import ModePoint, NewtonSearch
from gpclass.inference.solvers.response import SiteJacobian
from gpclass.inference.terms import Terms
from gpclass.likelihoods.base import Likelihood
from gpclass.linalg import Array
from gpclass.priors import Prior, SiteFactor


@final
@dataclass(frozen=True)
class LaplaceApproximation(Approximation):
    """The Gaussian at the mode of the posterior, and its evidence (RW06 eq. 3.32).

    Parameters
    ----------
    posterior, log_evidence, outcome, n_iter, n_factorisations
        As in `Approximation`. The sites have precisions ``W = -d^2 log p / df^2`` at the mode.
    curvature_slope : ndarray of shape (n,)
        ``w_i d^3 log p(y_i|f_i) / df_i^3`` at the mode.
    """

    __repr__ = described

    curvature_slope: Array

    def likelihood_gradient(self) -> Array:
        """Empty: no log-concave smooth likelihood here has hyperparameters of its own."""
        return np.zeros(0)

    def evidence_pullback(self) -> Any:
        """``d log q(y|X, theta) / dK`` (RW06 eq. 5.20 to 5.24, derived afresh for a matrix K).

        With ``a = K^-1 f`` at the mode f and ``R = (K + W^-1)^-1``, the evidence moves with K
        explicitly by ``(a a^T - R) / 2`` and through the mode by ``u a^T``, since
        ``df = (I + K W)^-1 dK a`` and ``d log q / df_i = Sigma_ii d^3 log p / df_i^3 / 2``:
        ``u = (I + W K)^-1 (diag(Sigma) * curvature_slope / 2)``. (In print, B06 eq. 6.91 has
        ``(I + K W)^-1 W`` for R and 6.94 ``(I + W K)^-1 dK``: W and K do not commute.)
        """
        posterior = self.posterior.with_covariance()
        return posterior.pullback(0.5 * self.curvature_slope * posterior.variance)

    def site_jacobian(self, prior: Prior, copies: Copies) -> SiteJacobian:
        """Derivatives of the sites by the mode; the variances do not enter."""
        return mode_jacobian(self.posterior.mean, self.curvature_slope)

    def site_slopes(self, prior: Prior, copies: Copies) -> Array:
        """Empty, as there are no hyperparameters."""
        return np.zeros((0, 2 * len(self.sites)))


def mode_jacobian(mode: Array, curvature_slope: Array) -> SiteJacobian:
    """Derivatives of ``tau = W`` and ``nu = W f + d log p / df`` by the mode f."""
    by_mean = -np.stack([mode * curvature_slope, curvature_slope])
    none = np.zeros_like(by_mean)
    return SiteJacobian(by_mean, none, none, none)


@final
@dataclass(frozen=True)
class Laplace(GaussianMethod[LaplaceApproximation]):
    """Laplace's approximation by a safeguarded Newton iteration.

    The mode is that of ``Psi(f) = sum_i w_i log p(y_i|f_i) - f^T K^-1 f / 2``, found by
    `gpclass.inference.solvers.newton`. The likelihood must be log-concave and smooth.

    Parameters
    ----------
    max_iter : int, default=100
        Newton steps.
    tol : float, default=1e-10
        Largest entry of the gradient of Psi by f at which the mode counts as found.
    marginals : {"mode", "variational"}, default="mode"
        Which Gaussian a classifier predicts from once it has learnt by Laplace's evidence: that at
        the mode, or the variational one that is found from it. What a call of the method itself
        gives is always at the mode. Where labels leave much of a large prior
        variance, most of the posterior lies farther from zero than its mode, and probabilities
        from the mode are too near to each other, with many classes by far.

    References
    ----------
    RW06 Algorithms 3.1 and 3.2; B06 section 6.4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Logit
    >>> q = Laplace()(np.eye(2), [1, -1], Logit())
    >>> q.posterior.mean.round(6)
    array([ 0.401058, -0.401058])
    >>> q.outcome.name
    'CONVERGED'
    """

    max_iter: int = 100
    tol: float = 1e-10
    marginals: Literal["mode", "variational"] = "mode"

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_limits(self.max_iter, self.tol)
        check_choice("marginals", self.marginals, ("mode", "variational"))

    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> LaplaceApproximation:
        """Find the mode and the Gaussian there."""
        likelihood = copies.likelihood
        _refuse(likelihood)
        labels, offset, powers = copies.rows(None)

        def terms(f: Array, nearby: Terms | None) -> Terms:
            d = likelihood.derivatives(labels, f + offset)
            total = float(powers @ likelihood.log_prob(labels, f + offset))
            return Terms(total, powers * d.first, powers * d.second, powers * d.third)

        search = NewtonSearch(prior, terms, self.tol, self.max_iter)
        start, factor = _start(search, init)
        mode = search.run(start, factor)
        made = mode.n_factorisations + (factor is not None)
        point, factor = mode.point, mode.factor
        W = -point.terms.second
        if factor is None or not np.array_equal(factor.tau, W):
            factor = prior.factor(W)
            made += 1
        sites = Sites(W * point.f + point.terms.first, W)
        return LaplaceApproximation(
            posterior=SitePosterior(sites, factor, point.a, point.f),
            log_evidence=point.objective - 0.5 * factor.log_det,
            outcome=mode.outcome,
            n_iter=mode.n_iter,
            n_factorisations=made,
            curvature_slope=point.terms.detail,
        )


def _refuse(likelihood: Likelihood) -> None:
    """Refuse a likelihood that has no mode by Newton's method, or no gradient."""
    if not likelihood.smooth:
        raise ValueError(
            f"Laplace's method cannot use the {likelihood.name!r} likelihood: its gradient is "
            "zero almost everywhere, so the mode says nothing; use inference='ep'"
        )
    if len(likelihood.theta):
        raise ValueError(
            f"Laplace's method has no derivative by {likelihood.hyperparameter_names} of "
            f"{likelihood!r}: fix them, or use inference='ep'"
        )
    if not likelihood.log_concave:
        raise ValueError(
            f"Laplace's method needs a log-concave likelihood, and {likelihood.name!r} is not: "
            "its curvature changes sign; use inference='ep'"
        )


def _start(search: NewtonSearch, sites: Sites | None) -> tuple[ModePoint, SiteFactor | None]:
    """The better of f = 0 and the posterior mean given the sites."""
    n = search.prior.n
    zero = search.at(np.zeros(n), np.zeros(n))
    if sites is None:
        return zero, None
    factor = search.prior.factor(sites.tau)
    a = factor.solve(sites.nu)
    warm = search.at(a, search.prior.multiply(a))
    return (warm, factor) if warm.objective > zero.objective else (zero, None)


def predicts_variationally(method: Any) -> bool:
    """Whether a classifier by this method predicts by a variational Gaussian."""
    return isinstance(method, Laplace) and method.marginals == "variational"
