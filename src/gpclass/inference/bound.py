"""Bounds on the evidence from tangents of the logistic function, one from each side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import (
    Approximation,
    Outcome,
    Problem,
    SitePosterior,
    as_problem,
    starting_sites,
)
from gpclass.inference.laplace import Laplace
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.acceleration import extrapolate
from gpclass.inference.solvers.newton import EPS, NewtonSearch, Terms
from gpclass.inference.solvers.rule import rounding_of_sites
from gpclass.likelihoods import Likelihood, Logit
from gpclass.priors import Prior

Array = NDArray[np.float64]
Side = Literal["lower", "upper"]

# Newton steps for the means between two renewals of the variances. Searching to the end took a
# tenth more factorisations here; no step at all (plain EM) took more than ten times as many.
NEWTON_STEPS: Final = 3
# Earlier points that an accelerated step combines.
MEMORY: Final = 5
# Steps without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 6
# The iteration aims this far below its tolerance where that costs little.
FINER: Final = 1e-2


@final
@dataclass(frozen=True)
class BoundApproximation(Approximation):
    """A bound on the evidence and a Gaussian; `Approximation` has the other fields.

    ``log_evidence`` is a bound on ``log p(y | X, theta)``, whether or not the iteration has
    converged.

    Parameters
    ----------
    side : {"lower", "upper"}
    tangent : SitePosterior
        ``p(f)`` times the tangents, normalised. From below it is ``posterior``; from above it is
        ``N(K nu, K)`` and only the gradient uses it (see `TangentBound`).
    """

    side: Side
    tangent: SitePosterior

    def likelihood_gradient(self) -> Array:
        """Nothing: the logit has no hyperparameters of its own."""
        return np.zeros(0)

    def evidence_pullback(self) -> Any:
        """``d log_evidence / dK``; see `SitePosterior.pullback`.

        The bound is stationary in the points of contact, so only K moves it: ``(a a^T - R) / 2``,
        where R is zero for tangents that are linear.
        """
        return self.tangent.pullback()


@final
@dataclass(frozen=True)
class TangentBound:
    r"""Best bound on the evidence that tangents of the logit's terms give.

    **From below**, ``log sigma(z) - z / 2`` is convex in ``z^2``; its tangent at ``z^2 = c^2`` is

    .. math:: \sigma(z) \ge \sigma(c) \exp((z - c) / 2 - \lambda(c) (z^2 - c^2)), \quad
        \lambda(c) = \tanh(c / 2) / (4 c) ,

    a site ``tau = 2 w lambda(c)``, ``nu = w y / 2`` for a row of weight w. The best c is
    ``c^2 = m^2 + var`` with the marginal mean and variance of the Gaussian that results. The bound
    is maximised by turns: over m and c for the covariance as it is (concave, by the Newton
    iteration of `Laplace`), and over the Gaussian for c as it is (conditioning on the sites).
    Neither can lower it. Anderson's acceleration in the variances proposes longer steps, which are
    taken where the bound does not fall.

    **From above**, ``log sigma(z)`` is concave in z, and its tangent of slope mu is

    .. math:: \sigma(z) \le \exp(\mu z - H(\mu)), \quad
        H(\mu) = -\mu \log \mu - (1 - \mu) \log (1 - \mu) ,

    which gives ``nu^T K nu / 2 - sum_i w_i H(mu_i)`` with ``nu_i = w_i y_i mu_i``. It is convex in
    mu, and its minimum ``mu_i = sigma(-y_i (K nu)_i)`` is the mode that Laplace's method finds:
    the bound is the log joint density at the mode.

    Linear tangents leave the prior's covariance K as it is, and predictions from that would be as
    vague near the data as far from them. The bound itself says more. Give a new label y* to it with
    a weight w*: at ``w* = 0``, its first derivative by w* is ``log sigma(y* m*)`` and its second
    ``mu*^2 v*`` with ``mu* = sigma(-y* m*)``, where m* and v* are the predictive mean and variance
    of the Gaussian at the mode. For the evidence itself the two are the mean and the variance of
    ``log sigma(y* f*)``. So ``posterior`` has the sites of Laplace's method. The class predicted
    (by the sign of the mean) is the same either way. This is a decision made here: the text of
    Gibbs & MacKay was not at hand, and KG06 does not say what variance their program takes.

    Parameters
    ----------
    side : {"lower", "upper"}, default="lower"
    max_iter : int, default=100
        Renewals of the variances (lower) or Newton steps (upper).
    tol : float, default=1e-8
        Largest change of a site's natural parameters at which the points of contact count as
        found, in units of the posterior's deviation where that is above one (lower); largest entry
        of the gradient at the mode (upper).

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

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.side not in ("lower", "upper"):
            raise ValueError(f"side must be 'lower' or 'upper', got {self.side!r}")
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
    ) -> BoundApproximation:
        """Find the best tangents and the Gaussian.

        Parameters
        ----------
        prior : Prior, or array-like of shape (n, n)
            Prior of the latent values; an array is taken as `DensePrior`.
        y : array-like of shape (n,)
            Labels, -1 or +1.
        likelihood : Logit
        weights : array-like of shape (n,), default=None
            Powers of the likelihood terms.
        init : Approximation or Sites, default=None
            Where to start; None: at the prior.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths, and for any likelihood but the logit.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        problem = as_problem(prior, y, weights)
        if not isinstance(likelihood, Logit):
            raise ValueError(
                f"the tangent bound cannot use the {likelihood.name!r} likelihood: its tangents "
                "are those of the logistic function; use likelihood='logit', or inference='ep'"
            )
        start = starting_sites(init, problem.prior)
        if self.side == "upper":
            return self._upper(problem, likelihood, None if init is None else start)
        if (start.tau < 0).any():
            start = Sites(np.zeros(problem.prior.n), np.zeros(problem.prior.n))
        return _Ascent(problem, self.tol, self.max_iter).run(start)

    def _upper(
        self, problem: Problem, likelihood: Logit, start: Sites | None
    ) -> BoundApproximation:
        prior, y, weights, offset = problem
        q = Laplace(self.max_iter, self.tol)(prior, y, likelihood, weights=weights, init=start)
        f = q.posterior.mean + offset
        # mu = sigma(-y f) by its logarithm, so that H keeps its digits where |f| is large
        log_mu, log_rest = likelihood.log_prob(-y, f), likelihood.log_prob(y, f)
        mu = np.exp(log_mu)
        entropy = -mu * log_mu - np.exp(log_rest) * log_rest
        tangent = SitePosterior.from_sites(prior, Sites(weights * y * mu, np.zeros(prior.n)))
        nu = tangent.sites.nu
        return BoundApproximation(
            posterior=q.posterior,
            log_evidence=float(nu @ (0.5 * tangent.mean + offset)) - float(weights @ entropy),
            outcome=q.outcome,
            n_iter=q.n_iter,
            n_factorisations=q.n_factorisations + 1,
            side="upper",
            tangent=tangent,
        )


class _Contact(NamedTuple):
    """The best points of contact ``c^2 = f^2 + v`` from below, and what follows from them.

    ``value`` is ``y f / 2 - log(2 cosh(c / 2))``, the expectation of a tangent's logarithm under a
    Gaussian of mean f and variance v; ``tau`` is ``2 lambda(c)``, for a weight of one.
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


class _Point(NamedTuple):
    """A Gaussian, its marginal variances, the bound there, and how far it is from stationary."""

    posterior: SitePosterior
    v: Array
    bound: float
    residual: float


@final
@dataclass(frozen=True)
class _Ascent:
    """Maximisation of the lower bound."""

    problem: Problem
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> BoundApproximation:
        """Iterate from sites; every step raises the bound or leaves it where it is."""
        prior = self.problem.prior
        point = best = self.point(SitePosterior.from_sites(prior, sites))
        n_factorisations, n_iter, since_best, last = 1, 0, 0, np.inf
        rounding = rounding_of_sites(prior, sites)
        # by log(1 + v): a ratio where variances are large, a difference where they hardly matter
        tried: list[Array] = []
        found: list[Array] = []
        v = point.v
        while True:
            n_iter += 1
            # The mean is further off than the sites, by the inverse of the rate: a few more steps
            # below tol are worth their price while they still gain.
            stuck = point.residual > 0.5 * last
            if point.residual <= FINER * self.tol or (point.residual <= self.tol and stuck):
                outcome = Outcome.CONVERGED
                break
            if since_best > PATIENCE and best.residual <= max(self.tol, rounding):
                outcome = Outcome.ROUNDING
                break
            if n_iter == self.max_iter:
                outcome = Outcome.MAX_ITER
                break
            last = point.residual
            following, made = self.step(v, point)
            n_factorisations += made
            if not self.rises(point, following) and tried:
                # the accelerated step was too long: the plain one cannot lower the bound
                tried, found, v = [], [], point.v
                following, made = self.step(v, point)
                n_factorisations += made
            if following is None or not self.rises(point, following):
                outcome = Outcome.STALLED
                break
            tried, found = (
                [*tried, np.log1p(v)][-MEMORY:],
                [*found, np.log1p(following.v)][-MEMORY:],
            )
            point, v = following, np.expm1(_anderson(tried, found))
            since_best = 0 if point.residual < 0.5 * best.residual else since_best + 1
            best = point if point.residual < best.residual else best
        if outcome is not Outcome.CONVERGED and best.residual <= max(self.tol, rounding):
            point = best
            outcome = Outcome.CONVERGED if best.residual <= self.tol else Outcome.ROUNDING
        return BoundApproximation(
            posterior=point.posterior,
            log_evidence=point.bound,
            outcome=outcome,
            n_iter=n_iter,
            n_factorisations=n_factorisations,
            side="lower",
            tangent=point.posterior,
        )

    def point(self, posterior: SitePosterior) -> _Point:
        """Evaluate the bound, ``sum_i w_i value_i - KL(q || p)``, at a Gaussian."""
        y, weights, offset = self.problem.y, self.problem.weights, self.problem.offset
        posterior = posterior.with_covariance()
        v = posterior.variance
        contact = _touch(y, posterior.mean + offset, v)
        tau = posterior.sites.tau
        # tr(I - (I + T K)^-1) = sum_i tau_i v_i
        divergence = 0.5 * (
            posterior.factor.log_det
            - float(tau @ v)
            + float(posterior.mean_weights @ posterior.mean)
        )
        # how the sites would change: their precisions, and at the mean their slopes, for a copy of
        # each row; absolute, and relative to what the posterior leaves open where that is above one
        change = np.abs(weights * contact.tau - tau) / np.maximum(weights, 1.0)
        reach = np.sqrt(np.maximum(1.0, v))
        change = change * reach * np.maximum(reach, np.abs(posterior.mean + offset))
        bound = float(weights @ contact.value) - divergence
        return _Point(posterior, v, bound, float(change.max(initial=0.0)))

    def sites(self, tau: Array) -> Sites:
        """Sites of tangents of these precisions, about the prior's mean, weighted."""
        _, y, weights, offset = self.problem
        return Sites(weights * (0.5 * y - tau * offset), weights * tau)

    def step(self, v: Array, point: _Point) -> tuple[_Point | None, int]:
        """Best means and points of contact for variances v, then the Gaussian with those sites.

        None where overflow leaves no Gaussian; and the factorisations made.
        """
        prior, y, weights, offset = self.problem

        def terms(f: Array, nearby: Terms | None) -> Terms:
            g = f + offset
            contact = _touch(y, g, v)
            first = weights * (0.5 * y - contact.tau * g)
            # d2 / df2, a sum of negative terms: v / c^2 and f^2 / c^2 share it
            spread = np.divide(v, contact.c**2, out=np.ones_like(v), where=contact.c > 1e-150)
            bend = (
                contact.tau * spread
                + 0.25 * (1.0 - spread) / np.cosh(np.minimum(0.5 * contact.c, 350.0)) ** 2
            )
            return Terms(float(weights @ contact.value), first, -weights * bend, contact.tau)

        # what the variances are still off by need not be undercut by far
        goal = max(FINER * self.tol, min(1e-3, 1e-2 * point.residual))
        search = NewtonSearch(prior, terms, goal, NEWTON_STEPS)
        near = point.posterior
        factor = near.factor if near.sites.tau.any() else None
        try:
            mode = search.run(search.at(near.mean_weights, near.mean), factor)
            posterior = SitePosterior.from_sites(prior, self.sites(mode.state.terms.detail))
        except NotPositiveDefiniteError:
            return None, 0
        following = self.point(posterior)
        finite = np.isfinite(following.bound) and np.isfinite(following.residual)
        return following if finite else None, mode.n_factorisations + 1

    def rises(self, point: _Point, following: _Point | None) -> bool:
        """Whether the bound does not fall, but for rounding."""
        if following is None:
            return False
        prior, a = self.problem.prior, np.abs(point.posterior.mean_weights)
        # of the sums, and of the means through f = K a
        noise = 64 * EPS * prior.n * max(1.0, abs(point.bound))
        deviations = np.sqrt(prior.diagonal)
        f_error = 8 * EPS * float(deviations.max(initial=0.0)) * float(deviations @ a)
        return following.bound >= point.bound - noise - f_error * float(a.sum())


def _anderson(tried: Sequence[Array], found: Sequence[Array]) -> Array:
    """Extrapolate ``tried -> found``, with bounds on what counts as local."""
    if len(tried) == 1:
        return found[-1]
    # shorter than a tenth or longer than tenfold in 1 + v is no local extrapolation
    far, near = found[-1] + np.log(10), found[-1] - np.log(10)
    step: Array = np.maximum(np.clip(extrapolate(tried, found), near, far), 0.0)
    return step
