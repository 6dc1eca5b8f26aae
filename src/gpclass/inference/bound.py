"""Bounds on the evidence from tangents of the logistic function, one from each side."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np

from gpclass.inference.approximation import Approximation, SitePosterior, described
from gpclass.inference.cavities import Copies, Rows
from gpclass.inference.laplace import Laplace, mode_jacobian
from gpclass.inference.method import GaussianMethod, check_choice, check_limits, usable_sites
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.newton import ModePoint
from gpclass.inference.solvers.response import FOURTH, SiteJacobian
from gpclass.inference.solvers.rule import MarginalRule, Sweep, mismatch
from gpclass.inference.terms import ConcaveTerms, Terms
from gpclass.inference.variational import maximise_bound
from gpclass.likelihoods import Logit
from gpclass.linalg import Array
from gpclass.priors import Prior

Side = Literal["lower", "upper"]


@final
@dataclass(frozen=True)
class BoundApproximation(Approximation):
    """A bound on ``log p(y | X, theta)``, whether or not the iteration converged, and a Gaussian.

    Parameters
    ----------
    posterior, log_evidence, outcome, n_iter, n_factorisations
        As in `Approximation`. The log evidence is the bound.
    side : {"lower", "upper"}
        Which bound it is.
    tangent : SitePosterior
        ``p(f)`` times the tangents, normalised. From below it is ``posterior``. From above it is
        ``N(K nu, K)``, and only the gradient uses it (see `TangentBound`).
    """

    __repr__ = described

    side: Side
    tangent: SitePosterior

    def likelihood_gradient(self) -> Array:
        """Empty: the logit has no hyperparameters of its own."""
        return np.zeros(0)

    def evidence_pullback(self) -> Any:
        """``d log_evidence / dK``: the bound is stationary in the points of contact."""
        return self.tangent.pullback()

    def site_jacobian(self, prior: Prior, copies: Copies) -> SiteJacobian:
        """Of the tangents, or from above of the mode."""
        if self.side == "lower":
            return SiteJacobian.of(TangentRule(prior, copies), self.posterior, FOURTH)
        y, offset, weights = copies.rows(None)
        mode = self.posterior.mean
        third = copies.likelihood.derivatives(y, mode + offset).third
        return mode_jacobian(mode, weights * third)

    def site_slopes(self, prior: Prior, copies: Copies) -> Array:
        """Empty, as there are no hyperparameters."""
        return np.zeros((0, 2 * len(self.sites)))


class _Contact(NamedTuple):
    """Best points of contact ``c^2 = f^2 + v`` from below.

    ``value`` is ``y f / 2 - log(2 cosh(c / 2))``, the expected logarithm of a tangent under
    N(f, v); ``tau`` is ``2 lambda(c)``, for a weight of one.
    """

    value: Array
    tau: Array
    c: Array


def _touch(y: Array, f: Array, v: Array) -> _Contact:
    z, c = y * f, np.hypot(f, np.sqrt(v))
    # z - c, without cancellation where the label agrees
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(z > 0, -v / (c + z), z - c)
        # tanh(x) / x at x = c / 2; below 1e-8 its series 1 - x^2 / 3 rounds to 1
        ratio = np.where(c > 1e-8, 2.0 * np.tanh(0.5 * c) / c, 1.0)
    return _Contact(0.5 * gap - np.log1p(np.exp(-c)), 0.25 * ratio, c)


@final
@dataclass(frozen=True)
class TangentRule(MarginalRule):
    """Sites of tangents at ``c^2 = m^2 + variance``: ``tau = 2 w lambda(c)``, ``nu = w y / 2``."""

    def sweep(self, posterior: SitePosterior) -> Sweep:
        """Best points of contact under the marginals of a posterior, and the bound."""
        posterior = posterior.with_covariance()
        m, v, tau = posterior.mean, posterior.variance, posterior.sites.tau
        y, offset, weights = self.copies.rows(None)
        contact = _touch(y, m + offset, v)
        target = self._sites(contact.tau)
        residual = mismatch(target, posterior.sites, v, self.copies.count)
        # nu does not follow the mean here: the change of the slope at the mean counts too
        slope = np.abs((target.tau - tau) * (m + offset)) * np.sqrt(np.maximum(1.0, v))
        residual = max(residual, float((slope / self.copies.count).max(initial=0.0)))
        bound = float(weights @ contact.value) - posterior.divergence()
        return Sweep(posterior, v, target, residual, bound, None)

    def target(
        self, m: Array, variance: Array, nu: Array, tau: Array, rows: Rows | None = None
    ) -> Sites:
        """Sites as functions of the marginals."""
        y, offset, _ = self.copies.rows(rows)
        return self._sites(_touch(y, m + offset, variance).tau, rows)

    def _sites(self, tau: Array, rows: Rows | None = None) -> Sites:
        """Sites of tangents of these precisions, about the prior's mean, weighted."""
        y, offset, weights = self.copies.rows(rows)
        return Sites(weights * (0.5 * y - tau * offset), weights * tau)

    def terms(self, v: Array) -> ConcaveTerms:
        """Expected logarithms of the best tangents under marginals of variance v."""
        y, offset, weights = self.copies.rows(None)

        def terms(f: Array, nearby: Terms | None) -> Terms:
            g = f + offset
            value, tau, c = _touch(y, g, v)
            # d2 / df2, a sum of negative terms: v / c^2 and f^2 / c^2 share it
            spread = np.divide(v, c**2, out=np.ones_like(v), where=c > 1e-150)
            steepest = 0.25 / np.cosh(np.minimum(0.5 * c, 350.0)) ** 2
            second = -weights * (tau * spread + (1.0 - spread) * steepest)
            return Terms(float(weights @ value), weights * (0.5 * y - tau * g), second, tau)

        return terms

    def sites(self, mode: ModePoint) -> Sites:
        """Sites of the tangents at a mode."""
        return self._sites(mode.terms.detail)


@final
@dataclass(frozen=True)
class TangentBound(GaussianMethod[BoundApproximation]):
    r"""Best bound on the evidence that tangents of the logit's terms give.

    **From below**, ``log sigma(z) - z / 2`` is convex in ``z^2``; its tangent at ``z^2 = c^2`` is

    .. math:: \sigma(z) \ge \sigma(c) \exp((z - c) / 2 - \lambda(c) (z^2 - c^2)), \quad
        \lambda(c) = \tanh(c / 2) / (4 c) ,

    a site ``tau = 2 w lambda(c)``, ``nu = w y / 2`` for a row of weight w. The best c is
    ``c^2 = m^2 + var`` with the marginal mean and variance of the Gaussian that results. The bound
    is maximised by the solvers of `Variational`.

    **From above**, ``log sigma(z)`` is concave in z, and its tangent of slope mu is

    .. math:: \sigma(z) \le \exp(\mu z - H(\mu)), \quad
        H(\mu) = -\mu \log \mu - (1 - \mu) \log (1 - \mu) ,

    which gives ``nu^T K nu / 2 - sum_i w_i H(mu_i)`` with ``nu_i = w_i y_i mu_i``. It is convex in
    mu, and its minimum ``mu_i = sigma(-y_i (K nu)_i)`` is the mode that Laplace's method finds:
    the bound is the log joint density at the mode.

    Linear tangents leave the prior's covariance as it is, so ``posterior`` from above has the
    sites of Laplace's method instead. This is a decision made here: KG06 does not say what
    variance their program takes. The bound supports it: its first two derivatives by the weight of
    a new label, at weight zero, are those of the evidence under that Gaussian.

    Parameters
    ----------
    side : {"lower", "upper"}, default="lower"
    max_iter : int, default=100
        Sweeps over all rows, as in `Variational` (lower), or Newton steps (upper).
    tol : float, default=1e-8
        As in `EP` (lower), or the largest entry of the gradient at the mode (upper).
    fallback : int, default=6
        As in `EP` (lower).

    References
    ----------
    Jaakkola & Jordan, *Bayesian parameter estimation via variational methods*, 2000; Gibbs &
    MacKay, *Variational Gaussian process classifiers*, 2000, which KG06 calls GPC-VL and GPC-VU.
    The equations are derived afresh, with weights as powers of the terms.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Logit
    >>> K, y = np.array([[4.0, 3.0], [3.0, 4.0]]), [1, 1]
    >>> for side in ("lower", "upper"):
    ...     print(side, round(TangentBound(side)(K, y, Logit()).log_evidence, 3))
    lower -1.253
    upper -0.721
    """

    side: Side = "lower"
    max_iter: int = 100
    tol: float = 1e-8
    fallback: int = 6

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_choice("side", self.side, ("lower", "upper"))
        check_limits(self.max_iter, self.tol, self.fallback)

    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> BoundApproximation:
        """Find the best tangents and the Gaussian."""
        if not isinstance(copies.likelihood, Logit):
            raise ValueError(
                f"the tangent bound cannot use the {copies.likelihood.name!r} likelihood: its "
                "tangents are those of the logistic function; use likelihood='logit', or "
                "inference='ep'"
            )
        start = usable_sites(init, prior)
        if self.side == "upper":
            return self._upper(prior, copies, None if init is None else start)
        rule = TangentRule(prior, copies)
        end = maximise_bound(rule, start, self.tol, self.max_iter, self.fallback)
        fields = end.fields(rule, end.sweep.objective)
        return BoundApproximation(*fields, "lower", end.sweep.posterior)

    def _upper(self, prior: Prior, copies: Copies, start: Sites | None) -> BoundApproximation:
        q = Laplace(self.max_iter, self.tol).approximate(prior, copies, start)
        y, offset, weights = copies.rows(None)
        f = q.posterior.mean + offset
        # mu = sigma(-y f) by its logarithm, so that H keeps its digits where |f| is large
        likelihood = copies.likelihood
        log_mu, log_rest = likelihood.log_prob(-y, f), likelihood.log_prob(y, f)
        mu = np.exp(log_mu)
        entropy = -mu * log_mu - np.exp(log_rest) * log_rest
        tangent = SitePosterior.from_sites(prior, Sites(weights * y * mu, np.zeros(prior.n)))
        nu = tangent.sites.nu
        bound = float(nu @ (0.5 * tangent.mean + offset)) - float(weights @ entropy)
        made = q.n_factorisations + 1
        return BoundApproximation(q.posterior, bound, q.outcome, q.n_iter, made, "upper", tangent)
