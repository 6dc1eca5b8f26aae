r"""The objective of EM's M-step: the evidence with the sites held, and its gradient.

An E-step at ``theta_0`` leaves Gaussian sites s. With these held, every theta has a Gaussian
``q_theta(f) ∝ p_theta(f) prod_i s_i(f_i)``, whose partition function is

.. math:: \Phi(K) = \log \int p_\theta(f) \prod_i s_i(f_i) df
    = -\tfrac12 \log |I + T K| + \tfrac12 \nu^T m , \quad
    \frac{d\Phi}{dK} = \tfrac12 (a a^T - R) .

The M-step maximises

.. math:: F(\theta) = \Phi(K_\theta) + \sum_i \log Z_i(\epsilon)
    + c \cdot (\theta - \theta_0) + \text{const} ,

where ``Z_i`` is the integral of the label's likelihood, of hyperparameters epsilon, under the
cavity at ``theta_0``. The constant and c make F the evidence to first order at ``theta_0``.

c is zero for EP, whose evidence is stationary in the sites (Theorem 1 of KG06, which they prove for
the kernel), and for the kernel part of VI and the lower tangent bound. For other methods the
evidence moves with the sites as well, and c is what F lacks.

KG06 hold ``q(f) = N(m, Sigma)`` itself (eq. 30 and 31). That objective contains ``K^-1``; where K
is nearly singular, it falls without bound for the smallest change of theta. Sites are the dual
parameters of Adam, Chang, Khan & Solin (2021).
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.cavities import Cavities, Copies
from gpclass.learning.problem import Problem

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Surrogate:
    """F, a function of all hyperparameters, with the ``sites`` held.

    ``theta`` is ``theta_0``, ``shift`` the constant and ``tilt`` c. ``terms`` is None where the
    likelihood has no hyperparameters, or a cavity is not a density.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.learning import BinaryProblem
    >>> from gpclass.likelihoods import Probit
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 1.0, -1.0])
    >>> problem = BinaryProblem(2.0 * RBF(1.0), X, y, Probit(), EP())
    >>> q = problem.evaluate(problem.theta)
    >>> F = Surrogate.of(problem, problem.theta, q.approximation.sites, q.log_evidence, q.gradient)
    >>> bool(np.abs(F.tilt).max() < 1e-8)
    True
    """

    problem: Problem
    theta: Array
    sites: Any
    terms: tuple[Copies, Cavities] | None
    shift: float
    tilt: Array

    @classmethod
    def of(
        cls, problem: Problem, theta: Array, sites: Any, value: float, gradient: Array
    ) -> "Surrogate":
        """Hold the sites found at theta, where the evidence has this value and gradient."""
        there = problem.at(theta)
        terms = _label_terms(there, sites)
        plain = cls(problem, theta, sites, terms, 0.0, np.zeros(len(theta)))
        known, slope = plain(theta)
        return replace(plain, shift=value - known, tilt=gradient - slope)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """F and its gradient; NotPositiveDefiniteError where they are not finite at theta."""
        there = self.problem.at(theta)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior = there.prior()
            posterior = there.posterior(prior, self.sites)
            value = posterior.log_partition() + self.shift + float(self.tilt @ (theta - self.theta))
            by_kernel = there.pull(posterior.pullback(), prior)
            by_likelihood = np.zeros(len(there.likelihood.theta))
            if self.terms is not None:
                copies, (x, v) = self.terms
                copies = replace(copies, likelihood=there.likelihood)
                value += float(copies.count @ copies.moments(x, v).log_z)
                by_likelihood = copies.log_z_gradient(x, v)
        gradient = np.concatenate([by_kernel, by_likelihood]) + self.tilt
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NotPositiveDefiniteError(
                f"the sites that are held have no partition function under {there.kernel}"
            )
        return value, gradient


def _label_terms(there: Problem, sites: Any) -> tuple[Copies, Cavities] | None:
    """The likelihood's terms, and the cavities at which they are held."""
    if not len(there.likelihood.theta):
        return None
    posterior, copies = there.site_terms(there.posterior(there.prior(), sites))
    cavities = Cavities.of(posterior.with_covariance(), copies.count)
    return (copies, cavities) if cavities.proper else None
