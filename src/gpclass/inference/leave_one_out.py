"""The leave-one-out log predictive of a Gaussian approximation, and its derivatives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Approximation, SitePosterior
from gpclass.inference.cavities import Cavities, Copies
from gpclass.inference.energy import Adjoints
from gpclass.inference.solvers.response import Implicit, implicit_adjoints
from gpclass.linalg import Array
from gpclass.priors import Prior


class LeftOut(ABC):
    """``sum_i w_i log p(y_i | y_-i)`` of an approximation, with its derivatives."""

    @property
    @abstractmethod
    def value(self) -> float:
        """The sum, in nats."""

    @abstractmethod
    def pullback(self) -> tuple[tuple[float, Any], ...]:
        """Factors and cotangents in the prior's own form; the derivative is their sum."""

    @abstractmethod
    def likelihood_gradient(self) -> Array:
        """Derivatives by the likelihood's own hyperparameters, shape (p,)."""


@final
@dataclass(frozen=True)
class LeaveOneOut(LeftOut):
    """``sum_i w_i log p(y_i | y_-i)`` under the cavities of the rows' whole sites.

    With marginals N(m, v) and sites (nu, tau) the cavity of a row is ``v_- = v / (1 - tau v)``,
    ``x = v_- (m / v - nu)``, and ``log p(y_i | y_-i)`` the logarithm of
    ``int p(y_i|f) N(f | x, v_-) df``: d and ``(d2 + d^2) / 2`` are its derivatives by x and v_-, d
    and d2 the first and second by x.

    The sites follow K, and the likelihood's hyperparameters, as well. They are the fixed point of
    the method's own equations, whose derivative is implicit (`implicit_adjoints`).

    References
    ----------
    Vehtari, Mononen, Tolvanen, Sivula & Winther, *Bayesian leave-one-out cross-validation
    approximations for Gaussian latent variable models*, 2016; Sundararajan & Keerthi, *Predictive
    approaches for choosing hyperparameters in Gaussian processes*, 2001, who leave out what the
    sites contribute to the gradient.
    """

    prior: Prior
    copies: Copies
    found: Approximation
    posterior: SitePosterior
    log_predictive: float
    cavities: Cavities
    marginals: Adjoints
    by_nu: Array
    by_tau: Array

    @classmethod
    def of(cls, prior: Prior, copies: Copies, found: Approximation) -> "LeaveOneOut":
        """Of an approximation; NotPositiveDefiniteError where a cavity is not proper."""
        posterior = found.posterior.with_covariance()
        cavities = Cavities.of(posterior, np.ones(prior.n))
        if not cavities.proper:
            raise NotPositiveDefiniteError("the posterior without one of the rows is not proper")
        x, v = cavities
        moments = copies.likelihood.tilted_moments(copies.y, x + copies.offset, v)
        by_x = copies.weights * moments.d_mean
        by_v = 0.5 * copies.weights * (moments.d2_mean + moments.d_mean**2)
        m, variance = posterior.mean, posterior.variance
        # v = 0 is its own cavity, and no sites move it
        ratio = np.divide(v, variance, out=np.ones_like(v), where=variance > 0.0)
        pull = np.divide(x - m, variance, out=np.zeros_like(v), where=variance > 0.0)
        return cls(
            prior,
            copies,
            found,
            posterior,
            float(copies.weights @ moments.log_z),
            cavities,
            Adjoints(ratio * by_x, ratio * (ratio * by_v + pull * by_x)),
            -v * by_x,
            v * (x * by_x + v * by_v),
        )

    @property
    def value(self) -> float:
        """The sum, in nats."""
        return self.log_predictive

    @cached_property
    def _implicit(self) -> Implicit:
        J = self.found.site_jacobian(self.prior, self.copies)
        return implicit_adjoints(J, self.posterior, self.marginals, self.by_nu, self.by_tau)

    def pullback(self) -> tuple[tuple[float, Any], ...]:
        """By K: `SitePosterior.pullback` of the adjoints, less what it has without any."""
        by = self._implicit.marginals
        whole = self.posterior.pullback(by.mean, by.variance)
        return (1.0, whole), (-1.0, self.posterior.pullback())

    def likelihood_gradient(self) -> Array:
        """Derivatives of the tilted normalisers under the cavities, and through the sites."""
        (x, v), copies, by = self.cavities, self.copies, self._implicit
        gradient = copies.likelihood.log_z_gradient(copies.y, x + copies.offset, v)
        by_sites = np.concatenate([by.by_nu, by.by_tau])
        through = self.found.site_slopes(self.prior, copies) @ by_sites
        return np.asarray(gradient @ copies.weights + through)
