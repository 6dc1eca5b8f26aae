"""The leave-one-out log predictive of the joint models, and its derivative by the covariances."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Approximation, SitePosterior
from gpclass.inference.cavities import ROUNDING, Copies
from gpclass.inference.energy import Adjoints
from gpclass.inference.leave_one_out import LeftOut
from gpclass.inference.softmax import SoftmaxApproximation
from gpclass.inference.solvers.response import implicit_adjoints
from gpclass.inference.solvers.softmax_mode import precision_product, sums_or_one
from gpclass.likelihoods import Likelihood
from gpclass.likelihoods.probabilities.own_class import OwnClass, Term, own_class, softmax_term
from gpclass.linalg import Array
from gpclass.priors import DensePrior
from gpclass.priors.classes import ClassPrior
from gpclass.priors.dense import DenseFactor
from gpclass.priors.differences import Differences
from gpclass.priors.joint import Codes
from gpclass.priors.rows import without_own_sites


@final
@dataclass(frozen=True)
class JointLeaveOneOut(LeftOut):
    """``sum_i w_i log p(y_i | y_-i)`` of a joint model.

    The latents of a row without its own site are N(x, V) with ``V^-1 = Sigma_ii^-1 - W_i`` and
    ``x = m - V (b - W m)``, for a site ``exp(b^T f - f^T W f / 2)``. The probability of the row's
    class is an average over fixed points (`own_class`), within a thousandth of the prediction's.
    """

    log_predictive: float
    cotangent: Callable[[], Any]

    @property
    def value(self) -> float:
        """The sum, in nats."""
        return self.log_predictive

    def pullback(self) -> tuple[tuple[float, Any], ...]:
        """One cotangent."""
        return ((1.0, self.cotangent()),)

    def likelihood_gradient(self) -> Array:
        """Empty: no likelihood of these has hyperparameters."""
        return np.zeros(0)


class _ByPosterior(NamedTuple):
    """Derivatives by means at fixed sites and forces, by forces, site precisions, covariances.

    ``site`` (n, k, k) includes what a precision does to Sigma; H is block diagonal, (n, k, k).
    """

    mean: Array
    force: Array
    site: Array
    H: Array


@final
@dataclass(frozen=True)
class _Rows:
    """A Gaussian of n rows of k latents: mean (n, k), Sigma (n k, n k), precisions and forces.

    ``W`` (n, k, k) are the rows' site precisions, ``force`` (n, k) has ``b - W m``.
    """

    mean: Array
    Sigma: Array
    W: Array
    force: Array

    def left_out(self) -> tuple[Array, Array]:
        """X and V; NotPositiveDefiniteError where a V is no covariance."""
        n, k = self.mean.shape
        every = np.arange(n)
        own = self.Sigma.reshape(n, k, n, k)[every, :, every]
        slack = np.inf if (np.einsum("ijj->ij", self.W) >= 0.0).all() else ROUNDING
        b = self.force + np.einsum("icd,id->ic", self.W, self.mean)
        x, V = without_own_sites(self.mean, own, b, self.W, slack)
        if not np.isfinite(V).all():
            raise NotPositiveDefiniteError("the posterior without one of the rows is not proper")
        return x, V

    def pullback(self, V: Array, own: OwnClass) -> _ByPosterior:
        """From the slopes by x and V to those by the posterior and its sites.

        With ``M = I + V W``: ``dV = M dSigma_ii M^T + V dW V``; and ``dSigma = -Sigma dW Sigma`` at
        a fixed prior.
        """
        n, k = self.mean.shape
        crossed = own.by_mean[:, :, None] * self.force[:, None, :]
        by_V = own.by_covariance - 0.5 * (crossed + crossed.transpose(0, 2, 1))
        M = np.eye(k) + V @ self.W
        H = M.transpose(0, 2, 1) @ by_V @ M
        H_Sigma = self._times_rows(H, self.Sigma).reshape(n * k, n, k)
        through = np.einsum("pic,pid->icd", self.Sigma.reshape(n * k, n, k), H_Sigma)
        by_force = -np.einsum("icd,id->ic", V, own.by_mean)
        return _ByPosterior(own.by_mean, by_force, V @ by_V @ V - through, H)

    def prior_crossings(self, H: Array) -> tuple[Array, Array]:
        """``P = I - Sigma W`` and ``H P``: the covariances' part of a cotangent is ``P^T H P``."""
        n, k = self.mean.shape
        P = -np.einsum("pib,ibc->pic", self.Sigma.reshape(n * k, n, k), self.W).reshape(n * k, -1)
        P.flat[:: n * k + 1] += 1.0
        return P, self._times_rows(H, P)

    def _times_rows(self, H: Array, A: Array) -> Array:
        """``H A`` for the block diagonal H."""
        return np.asarray(np.matmul(H, A.reshape(*self.mean.shape, -1)).reshape(A.shape))


def _weighted(weights: Array, own: OwnClass) -> OwnClass:
    each = weights[:, None]
    return OwnClass(weights * own.log_p, each * own.by_mean, each[:, :, None] * own.by_covariance)


def softmax_left_out(
    prior: ClassPrior, codes: Codes, weights: Array, found: SoftmaxApproximation
) -> JointLeaveOneOut:
    """Of Laplace's method, whose sites follow the mode: ``dF = (I + K W)^-1 dK a``."""
    posterior, d = found.posterior, found.sites.d
    n, C = d.shape
    pi = d / sums_or_one(d)[:, None]
    W = d[:, :, None] * (np.eye(C) - pi[:, None, :])
    Sigma = posterior.factor.joint(prior.held, prior.held).reshape(n * C, n * C)
    force = found.sites.b - precision_product(d, posterior.mean)
    rows = _Rows(posterior.mean, Sigma, W, force)
    x, V = rows.left_out()
    A = np.zeros((n, C - 1, C))
    each, ahead = np.arange(n)[:, None], np.arange(C - 1)
    A[each, ahead, Differences(codes, C).others] = -1.0
    A[each, ahead, codes[:, None]] = 1.0
    gaps = own_class(softmax_term, np.einsum("ijc,ic->ij", A, x), A @ V @ A.transpose(0, 2, 1))
    own = _weighted(
        weights,
        OwnClass(
            gaps.log_p,
            np.einsum("ijc,ij->ic", A, gaps.by_mean),
            A.transpose(0, 2, 1) @ gaps.by_covariance @ A,
        ),
    )

    def cotangent() -> Array:
        by = rows.pullback(V, own)
        turned = np.einsum("icc->ic", by.site) - 2.0 * np.einsum("icd,id->ic", by.site, pi)
        u = posterior.factor.solve(by.mean + precision_product(d, turned - by.force))
        P, HP = rows.prior_crossings(by.H)
        a, total = posterior.mean_weights, np.zeros((1 if prior.shared else C, n, n))
        for c in range(C):
            G = total[0 if prior.shared else c]
            outer = 0.5 * np.outer(u[:, c], a[:, c])
            G += outer + outer.T
            G += linalg.product(np.ascontiguousarray(P[:, c::C].T), HP[:, c::C].copy())
        return total[0] if prior.shared else total

    return JointLeaveOneOut(float(own.log_p.sum()), cotangent)


def difference_terms(weights: Array, differences: Differences, likelihood: Likelihood) -> Copies:
    """Each difference is positive, with the weight of its row."""
    repeated = np.repeat(weights, differences.n_classes - 1)
    return Copies(likelihood, np.ones(len(repeated)), repeated, np.zeros(len(repeated)))


def differences_left_out(
    prior: DensePrior,
    differences: Differences,
    copies: Copies,
    found: Approximation,
    term: Term,
    noise: float,
    *,
    shared: bool,
) -> JointLeaveOneOut:
    """Of a binary method on the N differences, to which a row's shared ``noise`` is added.

    ``prior`` is that of the differences, and ``copies`` their terms. The sites are the fixed point
    of the method's own equations, whose derivative is implicit (`implicit_adjoints`).
    """
    posterior = found.posterior
    if not isinstance(posterior.factor, DenseFactor):
        posterior = SitePosterior.from_sites(prior, found.sites)
    posterior = posterior.with_covariance()
    shape = differences.n, differences.n_classes - 1
    nu, tau, mean = found.sites.nu, found.sites.tau, posterior.mean
    sequential = posterior.factor.sequential_covariance()
    Sigma = sequential.rows(slice(0, prior.n))
    W = tau.reshape(shape)[:, :, None] * np.eye(shape[1])
    rows = _Rows(mean.reshape(shape), Sigma, W, (nu - tau * mean).reshape(shape))
    x, V = rows.left_out()
    own = _weighted(copies.weights.reshape(shape)[:, 0], own_class(term, x, V + noise))

    def cotangent() -> Array:
        by = rows.pullback(V, own)
        force = by.force.ravel()
        by_tau = np.einsum("ijj->ij", by.site).ravel() - mean * force
        direct = Adjoints(by.mean.ravel() - tau * force, np.zeros_like(mean))
        J = found.site_jacobian(prior, copies)
        total = implicit_adjoints(J, posterior, direct, force, by_tau).marginals
        P, HP = rows.prior_crossings(by.H)
        G = posterior.pullback(total.mean, total.variance) - posterior.pullback()
        G += linalg.product(np.ascontiguousarray(P.T), HP)
        return differences.pullback(G, shared=shared)

    return JointLeaveOneOut(float(own.log_p.sum()), cotangent)
