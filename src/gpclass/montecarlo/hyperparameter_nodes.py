"""Nodes of hyperparameters: at each EP's Gaussian, and latent values in its coordinates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np

from gpclass import linalg
from gpclass.inference.ep import EP
from gpclass.inference.sites import Sites
from gpclass.kernels import cross, diagonal, evaluate
from gpclass.likelihoods.base import Likelihood
from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import SiteTerms
from gpclass.montecarlo.slice_step import MAX_REJECTIONS
from gpclass.priors import DensePrior

LogPrior = Callable[[Array], float]

# Relative to the largest prior variance, as a nugget of the kernel: duplicates make K singular.
NUGGET: Final = 1e-9
# EP shapes proposals and needs no digits.
SITES_TOL: Final = 1e-4


class Draws(NamedTuple):
    """Chains: coordinates (n, R), latent values, log likelihood, excess over the sites (R,)."""

    eta: Array
    u: Array
    f: Array
    log_likelihood: Array
    excess: Array


@final
@dataclass(frozen=True)
class Place:
    """A node: ``K = L L^T``, ``f = L u``, and q(u) = N(mean, (C C^T)^-1) given sites.

    ``log_mass`` is that of the prior given the sites and ``log_ep`` EP's evidence, each with the
    prior of theta.
    """

    theta: Array
    log_ep: float
    log_mass: float
    L: Array
    C: Array
    mean: Array
    terms: SiteTerms
    V: Array
    variance: Array

    def direction(self, eta: Array) -> tuple[Array, Array]:
        """Changes of u and f by eta of shape (n, R)."""
        u = linalg.solve_lower_columns_in_place(self.C, eta.copy(), transposed=True)
        return u, linalg.product(self.L, u)


@final
@dataclass(frozen=True)
class Target:
    """The problem: everything but theta."""

    kernel: Any
    X: Array
    X_new: Array
    y: Array
    likelihood: Likelihood
    log_prior: LogPrior
    bounds: Array

    def covariance(self, theta: Array) -> tuple[Any, Array]:
        """Kernel at theta and its matrix with the nugget."""
        kernel = self.kernel.clone_with_theta(theta)
        K = evaluate(kernel, self.X)
        K.flat[:: len(K) + 1] += NUGGET * K.diagonal().max()
        return kernel, K

    def inside(self, theta: Array) -> bool:
        """Whether theta is within the bounds."""
        return bool(((theta >= self.bounds[:, 0]) & (theta <= self.bounds[:, 1])).all())

    def log_posterior(self, theta: Array, init: Sites | None) -> tuple[float, Sites]:
        """EP's evidence times the prior of theta, and EP's sites."""
        _, K = self.covariance(theta)
        q = EP(tol=SITES_TOL)(DensePrior(K), self.y, self.likelihood, init=init)
        return q.log_evidence + self.log_prior(theta), Sites(
            q.sites.nu, np.maximum(q.sites.tau, 0.0)
        )

    def place(self, theta: Array, log_ep: float, sites: Sites) -> Place:
        """Factorise at theta, given sites of no negative precision."""
        kernel, K = self.covariance(theta)
        n = len(K)
        L = np.tril(linalg.cholesky(K, str(kernel)))
        M = np.zeros((n, n))
        linalg.add_row_products(M, np.sqrt(sites.tau)[:, None] * L, 1.0)
        M.flat[:: n + 1] += 1.0
        C = linalg.cholesky(M, "I + L^T T L")
        shift = linalg.product(np.ascontiguousarray(L.T), sites.nu[:, None])
        mean = linalg.solve_factored(C, shift[:, 0])
        log_mass = 0.5 * float(shift[:, 0] @ mean) - 0.5 * linalg.log_det_factored(C)
        V = linalg.solve_lower_columns_in_place(
            L, np.ascontiguousarray(cross(kernel, self.X, self.X_new))
        )
        variance = diagonal(kernel, self.X_new) - np.einsum("ij,ij->j", V, V)
        return Place(
            theta=theta,
            log_ep=log_ep,
            log_mass=log_mass + self.log_prior(theta),
            L=L,
            C=C,
            mean=mean,
            terms=SiteTerms.of(sites),
            V=V,
            variance=np.maximum(variance, 0.0),
        )

    def draws(self, place: Place, eta: Array) -> Draws:
        """Where coordinates lead to at a place."""
        u, f = place.direction(eta)
        u += place.mean[:, None]
        f += linalg.product(place.L, place.mean[:, None])
        return self._judged(place, eta, u, f)

    def _judged(self, place: Place, eta: Array, u: Array, f: Array) -> Draws:
        value = self.likelihood.log_prob(self.y[:, None], f).sum(axis=0)
        return Draws(eta, u, f, value, value - place.terms.log_value(f))

    def slice(self, place: Place, old: Draws, rng: np.random.Generator) -> tuple[Draws, int]:
        """One elliptical slice of eta for each chain; the draws and the evaluations."""
        R = old.eta.shape[1]
        other = rng.standard_normal(old.eta.shape)
        du, df = place.direction(other)
        centre = place.mean[:, None]
        f_centre = linalg.product(place.L, centre)
        u_old, f_old = old.u - centre, old.f - f_centre
        threshold = old.excess - rng.standard_exponential(R)
        angle: Array = rng.uniform(0.0, 2.0 * np.pi, size=(R,))
        low, high = angle - 2.0 * np.pi, angle.copy()
        chosen, searching = np.zeros(R), np.arange(R)
        n_evaluations = 0
        for _ in range(MAX_REJECTIONS):
            trial = angle[searching]
            f = f_old[:, searching] * np.cos(trial) + df[:, searching] * np.sin(trial) + f_centre
            value = self.likelihood.log_prob(self.y[:, None], f).sum(axis=0)
            n_evaluations += len(searching)
            hit = value - place.terms.log_value(f) >= threshold[searching]
            chosen[searching[hit]] = trial[hit]
            searching, trial = searching[~hit], trial[~hit]
            if not len(searching):
                break
            below = trial < 0.0
            low[searching[below]], high[searching[~below]] = trial[below], trial[~below]
            angle[searching] = rng.uniform(low[searching], high[searching])
        c, s = np.cos(chosen), np.sin(chosen)
        new = self._judged(
            place,
            old.eta * c + other * s,
            u_old * c + du * s + centre,
            f_old * c + df * s + f_centre,
        )
        return new, n_evaluations

    def log_predictions(self, place: Place, u: Array) -> Array:
        """``log p(-1)`` and ``log p(+1)`` at the new inputs, shape (2, m, R)."""
        mean = linalg.product(np.ascontiguousarray(place.V.T), u)
        variance = np.repeat(place.variance, mean.shape[1])
        return np.stack(
            [
                self.likelihood.tilted_moments(
                    np.full(mean.size, label), mean.ravel(), variance
                ).log_z.reshape(mean.shape)
                for label in (-1.0, 1.0)
            ]
        )
