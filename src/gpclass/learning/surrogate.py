r"""The evidence with the sites held: the objective of an M-step, and its gradient.

An E-step at ``theta_0`` leaves Gaussian sites s. With these held, every theta has a Gaussian
``q_theta(f) ∝ p_theta(f) prod_i s_i(f_i)``, whose partition function is

.. math:: \Phi(K) = \log \int p_\theta(f) \prod_i s_i(f_i) df
    = -\tfrac12 \log |I + T K| + \tfrac12 \nu^T m , \quad
    \frac{d\Phi}{dK} = \tfrac12 (a a^T - R) ,

one factorisation and no inverse of K. Every evidence of this library is ``Phi`` plus a sum over
the labels of what each has in common with its site under the marginals of q, and so is

.. math:: F(\theta) = \Phi(K_\theta) + \sum_i t_i(m_i, v_i; \epsilon)
    + \langle C, K_\theta - K_{\theta_0} \rangle + c \cdot (\epsilon - \epsilon_0)

with the marginals ``m_i, v_i`` of ``q_theta``. F is the evidence itself at ``theta_0``. By t:

**EP.** ``t = n (log Z - log int s df)`` of a copy under its cavity: F is the EP energy (RW06
eq. 3.65). It is stationary in the sites at EP's fixed point, so F has the gradient of the evidence
there, by epsilon as well, and C and c are zero: Theorem 1 of KG06 without its restriction to the
kernel.

**VI.** ``t = E[log p(y|f)] - E[log s]``: F is the bound ``E[log p(y|f)] - KL(q_theta || p_theta)``,
a lower bound of ``log p(y|X, theta)`` at every theta since ``q_theta`` is a density, and of the
largest such bound, which the next E-step finds: an M-step cannot lower it. It is stationary too,
and C and c are zero.

**PL, and VI with the EP energy as its evidence.** t as for EP; but their sites are no stationary
point of the energy, and the evidence moves with them as well.

**Laplace.** ``t = log p(y|m) - log s(m) - v (W(m) - tau) / 2``, ``W = -d^2 log p / df^2``: the t of
the bound to second order about m. Where the sites were found, F is Laplace's evidence. The mean
moves with K as the mode does, the mode's objective is stationary, and ``-v_i / 2`` is the
derivative of ``-log |I + W K| / 2`` by W_i, so F has the evidence's gradient (eq. 5.23 of the book
of RW06) with C zero.

**Any other approximation.** ``t = 0``.

**Units.** EP and VI are stationary in the sites, so these may be any smooth function of theta.
Besides holding them as they are, they can be held in units of the prior's deviation,
``nu / sqrt(kappa)`` and ``tau / kappa`` with ``kappa = trace(K_theta) / trace(K_theta_0)``: the
partition function of ``f / sqrt(kappa)`` with its sites held, and the labels' terms of f. F keeps
its value and gradient, and a bound stays one. Where the classes are nearly separable and the
evidence rises towards an infinite variance, the posterior grows in proportion, and this F sees all
of the rise where the other sees a short step. Elsewhere it is the coarser of the two.

Where F without C and c would miss a part of the gradient, they are that part at ``theta_0``, so
that F has the gradient of the evidence there whatever the method. F then is an approximation of
first order and no more: it need not be bounded, and is trusted near ``theta_0`` alone.

KG06 hold ``q(f) = N(m, Sigma)`` itself (eq. 30 and 31). That F contains ``K^-1``, and where K is
nearly singular the smallest change of theta makes it fall without end, so its M-steps hardly move.
Held sites are the dual parameters of Adam et al.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import (
    Approximation,
    EnergyApproximation,
    EPApproximation,
    LaplaceApproximation,
    SitePosterior,
    VariationalApproximation,
)
from gpclass.inference.cavities import Cavities, Copies
from gpclass.inference.energy import Energy
from gpclass.learning.problem import Evaluation, Problem
from gpclass.likelihoods.base import TiltedMoments
from gpclass.priors import DensePrior
from gpclass.priors.classes import ClassPosterior, ClassPrior, ClassSites

Array = NDArray[np.float64]


class LabelPart(NamedTuple):
    """``sum_i t_i`` and its derivatives.

    By the marginal means and variances in units at fixed sites, shape (n,) each or None for zero,
    by kappa, and by the likelihood's hyperparameters, shape (p,).
    """

    value: float
    by_mean: Array | None
    by_variance: Array | None
    by_scale: float
    by_likelihood: Array


class LabelTerms(ABC):
    """What labels and their sites have in common: the terms t of F.

    Attributes
    ----------
    scales : bool
        Whether sites may be held in units of the prior's deviation.
    """

    scales: ClassVar[bool]

    @abstractmethod
    def __call__(self, copies: Copies, posterior: SitePosterior, scale: float) -> LabelPart:
        """Evaluate at a posterior of ``g = f / sqrt(scale)``, with sites of g."""


@final
@dataclass(frozen=True)
class EnergyTerms(LabelTerms):
    """``log Z`` under the cavities, of label and site: F is the EP energy."""

    scales: ClassVar[bool] = True

    def __call__(self, copies: Copies, posterior: SitePosterior, scale: float) -> LabelPart:
        """Evaluate at a posterior.

        Raises
        ------
        NotPositiveDefiniteError
            Where a cavity is not proper.
        """
        cavities = Cavities.of(posterior, copies.count)
        if not cavities.proper:
            raise NotPositiveDefiniteError("the sites that are held leave cavities that are none")
        unit = np.sqrt(scale)
        x, v = unit * cavities.x, scale * cavities.v
        found = copies.moments(x, v)
        moments = TiltedMoments(
            found.log_z,
            found.mean / unit,
            found.variance / scale,
            found.d_mean * unit,
            found.d2_mean * scale,
        )
        energy = Energy(copies, posterior, cavities, moments)
        adjoints = energy.marginal_adjoints()
        # the heat equation: 2 d log Z / dv = d2 log Z / dm2 + (d log Z / dm)^2
        by_log_scale = found.d_mean * x + (found.d2_mean + found.d_mean**2) * v
        return LabelPart(
            energy.value - _partition(posterior),
            adjoints.mean,
            adjoints.variance,
            0.5 * float(copies.count @ by_log_scale) / scale,
            copies.log_z_gradient(x, v),
        )


@final
@dataclass(frozen=True)
class ExpectedTerms(LabelTerms):
    """``E[log p(y|f)] - E[log s]``: F is the variational bound."""

    scales: ClassVar[bool] = True

    def __call__(self, copies: Copies, posterior: SitePosterior, scale: float) -> LabelPart:
        """Evaluate at a posterior."""
        m, v = posterior.mean, posterior.variance
        nu, tau = posterior.sites.nu, posterior.sites.tau
        unit, weights = np.sqrt(scale), copies.weights
        at = unit * m + copies.offset
        expected = copies.likelihood.expected_log_prob(copies.y, at, scale * v)
        by_likelihood = copies.likelihood.expected_log_prob_gradient(copies.y, at, scale * v)
        by_scale = 0.5 * expected.d_mean * m / unit + expected.d_var * v
        return LabelPart(
            float(weights @ expected.value) - float(nu @ m) + 0.5 * float(tau @ (m * m + v)),
            unit * weights * expected.d_mean - nu + tau * m,
            scale * weights * expected.d_var + 0.5 * tau,
            float(weights @ by_scale),
            np.asarray(by_likelihood @ weights),
        )


@final
@dataclass(frozen=True)
class ModeTerms(LabelTerms):
    """``E[log p(y|f)] - E[log s]`` to second order about the mean, for Laplace's evidence."""

    scales: ClassVar[bool] = False

    def __call__(self, copies: Copies, posterior: SitePosterior, scale: float) -> LabelPart:
        """Evaluate at a posterior."""
        m, v = posterior.mean, posterior.variance
        nu, tau = posterior.sites.nu, posterior.sites.tau
        unit, weights = np.sqrt(scale), copies.weights
        at = unit * m + copies.offset
        log_prob = copies.likelihood.log_prob(copies.y, at)
        d = copies.likelihood.derivatives(copies.y, at)
        by_mean = d.first + 0.5 * scale * v * d.third
        bend = 0.5 * (scale * weights * d.second + tau)
        return LabelPart(
            float(weights @ log_prob) - float(nu @ m) + 0.5 * float(tau @ (m * m) + 2.0 * bend @ v),
            unit * weights * by_mean - nu + tau * m,
            bend,
            0.5 * float(weights @ (by_mean * m / unit + d.second * v)),
            np.zeros(len(copies.likelihood.theta)),
        )


@final
@dataclass(frozen=True)
class NoTerms(LabelTerms):
    """Nothing: F is the partition function of the sites."""

    scales: ClassVar[bool] = False

    def __call__(self, copies: Copies, posterior: SitePosterior, scale: float) -> LabelPart:
        """Evaluate at a posterior."""
        return LabelPart(0.0, None, None, 0.0, np.zeros(len(copies.likelihood.theta)))


@final
@dataclass(frozen=True)
class Surrogate:
    """F of an E-step, a function of all hyperparameters.

    Parameters
    ----------
    problem : Problem
    sites : Sites, or ClassSites
        Those that are held.
    terms : LabelTerms
    variance : float
        Mean prior variance where they were found; 0 where that is no unit for the sites.
    units : bool
        Whether sites are held in units of the prior's deviation.
    shift : float
        What makes F the evidence where the sites were found.
    by_covariance : ndarray of shape (n, n) or (C, n, n), or None
        C, None for zero.
    by_theta : ndarray of shape (p,)
        c, by the likelihood's entries of theta; zero for the kernel's.

    References
    ----------
    KG06 sections 3.3, 3.4 and appendix A; Adam, Chang, Khan & Solin, *Dual parameterization of
    sparse variational Gaussian processes*, 2021, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.learning import BinaryProblem
    >>> from gpclass.likelihoods import Probit
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 1.0, -1.0])
    >>> problem = BinaryProblem(2.0 * RBF(1.0), X, y, Probit(), EP())
    >>> found = problem.evaluate(problem.theta)
    >>> F = Surrogate.of(problem, problem.theta, found)
    >>> value, gradient = F(problem.theta)
    >>> bool(np.isclose(value, found.log_evidence)), np.allclose(gradient, found.gradient)
    (True, True)
    """

    problem: Problem
    sites: Any
    terms: LabelTerms
    variance: float
    units: bool
    shift: float
    by_covariance: Array | None
    by_theta: Array

    @classmethod
    def of(cls, problem: Problem, theta: Array, evaluation: Evaluation) -> "Surrogate":
        """Hold the sites of an evaluation at theta, whose gradient was asked for."""
        wanted = evaluation.gradient
        assert wanted is not None
        # a joint model of many classes by a binary method on their differences
        approximation: Any = getattr(evaluation.approximation, "binary", evaluation.approximation)
        there = problem.at(theta)
        prior = there.site_prior()
        # EP's evidence is stationary in the sites: without the terms F has its gradient too, and
        # a prior that holds no K of the sites cannot be moved through their variances
        dense = isinstance(prior, DensePrior)
        terms = _TERMS.get(type(approximation), NoTerms()) if dense else NoTerms()
        variance = float(prior.diagonal.mean()) if dense else 0.0
        none = np.zeros(len(theta))
        plain = cls(problem, approximation.sites, terms, variance, False, 0.0, None, none)
        value, G, by_likelihood = plain.parts(there, prior, approximation.posterior)
        shift = evaluation.log_evidence - value
        if isinstance(approximation, _EXACT):
            return replace(plain, shift=shift)
        by_theta = np.zeros(len(theta))
        by_theta[problem.n_kernel :] = wanted[problem.n_kernel :] - by_likelihood
        C = approximation.evidence_pullback() - G
        shift -= float(by_theta @ theta)
        if not C.any():
            return replace(plain, shift=shift, by_theta=by_theta)
        shift -= _inner(C, _covariance(prior))
        return replace(plain, shift=shift, by_covariance=C, by_theta=by_theta)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """F and its gradient at theta.

        Raises
        ------
        NotPositiveDefiniteError
            Where the sites have no proper posterior or cavity at theta, or F overflows.
        """
        there = self.problem.at(theta)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior = there.site_prior()
            value, G, by_likelihood = self.parts(there, prior, None)
            value += self.shift + float(self.by_theta @ theta)
            if self.by_covariance is not None:
                value += _inner(self.by_covariance, _covariance(prior))
                G += self.by_covariance
            by_kernel = there.pull_sites(G, prior)
        gradient = np.concatenate([by_kernel, by_likelihood]) + self.by_theta
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NotPositiveDefiniteError(
                f"the sites that are held have no partition function under {there.kernel}"
            )
        return value, gradient

    def in_units(self) -> "Surrogate | None":
        """F with the sites held in units of the prior's deviation, None where it cannot be."""
        exact = self.by_covariance is None and not self.by_theta.any()
        if self.terms.scales and exact and self.variance > 0:
            return replace(self, units=True)
        return None

    def parts(self, there: Problem, prior: Any, posterior: Any) -> tuple[float, Array, Array]:
        """``Phi + sum_i t_i`` and its derivatives by K and by the likelihood's hyperparameters.

        The posterior is given where it is known: where the sites were found.
        """
        if isinstance(prior, ClassPrior):
            # the sites of a row are one: there is nothing but the partition function
            if posterior is None:
                posterior = ClassPosterior.from_sites(prior, self.sites)
            G = posterior.factor.pullback(posterior.mean_weights)
            return _partition(posterior), G, np.zeros(len(there.likelihood.theta))
        scale = 1.0
        if posterior is None:
            if self.units:
                scale = float(prior.diagonal.mean()) / self.variance
            if not (np.isfinite(scale) and scale > 0):
                raise NotPositiveDefiniteError(f"the kernel {there.kernel} has no variance")
            in_units = prior if scale == 1.0 else DensePrior(prior.K / scale, prior.description)
            posterior = SitePosterior.from_sites(in_units, self.sites)
        posterior = posterior.with_covariance()
        labels, weights = there.site_labels()
        n = len(labels)
        copies = Copies(there.likelihood, labels, weights, np.zeros(n))
        part = self.terms(copies, posterior, scale)
        G = posterior.pullback(part.by_mean, part.by_variance)
        G /= scale
        if self.units:
            # kappa = trace(K) / (n variance) moves the terms, and K / kappa against K
            by_scale = part.by_scale - _inner(G, prior.K) / scale
            G.flat[:: n + 1] += by_scale / (n * self.variance)
        return _partition(posterior) + part.value, G, part.by_likelihood


# whose F has the gradient of the evidence as it is
_EXACT: Final = (EPApproximation, VariationalApproximation, LaplaceApproximation)
_TERMS: Final[dict[type[Approximation], LabelTerms]] = {
    EPApproximation: EnergyTerms(),
    EnergyApproximation: EnergyTerms(),
    VariationalApproximation: ExpectedTerms(),
    LaplaceApproximation: ModeTerms(),
}


def _inner(A: Array, B: Array) -> float:
    return float(np.einsum("...ij,...ij->", A, B))


def _covariance(prior: Any) -> Array:
    """K of shape (n, n), or (C, n, n) where each class has its own."""
    return np.asarray(prior.held if isinstance(prior, ClassPrior) else prior.K)


def _partition(posterior: Any) -> float:
    """``Phi``."""
    sites = posterior.sites
    first = sites.b if isinstance(sites, ClassSites) else sites.nu
    return 0.5 * float((first * posterior.mean).sum() - posterior.factor.log_det)
