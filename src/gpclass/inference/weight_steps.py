"""Steps to the largest bound of the weights of inducing points."""

from dataclasses import replace
from typing import Final, NamedTuple, final

import numpy as np

from gpclass import linalg
from gpclass.blocks import RowBlocks
from gpclass.inference.row_sums import (
    RowSums,
    bound_sums,
    gradient_sums,
    row_sums,
    slope_sums,
    spread,
)
from gpclass.inference.row_terms import RowTerms
from gpclass.inference.weights import WeightPosterior, WeightSites
from gpclass.linalg import Array
from gpclass.priors.basis import Basis

# Steps, before the last, that an accelerated one combines.
MEMORY: Final = 3


def products(A: Array, v: Array) -> Array:
    """``A_c v_c`` of every latent, (C, m), from lower triangles."""
    return np.stack([linalg.symmetric_product(one, x) for one, x in zip(A, v, strict=True)])


class WeightState(NamedTuple):
    """A posterior, the sums there, its bound, and the sites that a whole step leads to."""

    sites: WeightSites
    q: WeightPosterior
    sums: RowSums
    bound: float
    target: WeightSites
    slopes: tuple[Array, Array] | None

    @classmethod
    def at(cls, rows: RowBlocks, terms: RowTerms, sites: WeightSites) -> "WeightState":
        """One pass over the rows."""
        q = _posterior(sites)
        return cls._of(sites, q, RowSums(*rows.reduce(bound_sums, terms, q)))

    @classmethod
    def with_gradients(
        cls, rows: RowBlocks, terms: RowTerms, sites: WeightSites, basis: Basis
    ) -> "WeightState":
        """One pass that sums the gradients of `GradientSums` as well."""
        q = _posterior(sites)
        *found, by_kernel, by_likelihood = rows.reduce(gradient_sums, basis, terms, q)
        return cls._of(sites, q, RowSums(*found), (by_kernel, by_likelihood))

    @classmethod
    def with_improved_means(
        cls, rows: RowBlocks, terms: RowTerms, sites: WeightSites, most: int, enough: float
    ) -> "WeightState":
        """One pass, after at most so many steps of `improved` for the means; rows are held."""
        q = _posterior(sites)
        part = rows.derive(spread, q, n_bytes=0.0)
        q = replace(q, means=improved(part, terms, q, most, enough))
        return cls._of(sites, q, RowSums(*part.reduce(row_sums, terms, q.means)))

    @classmethod
    def _of(
        cls,
        sites: WeightSites,
        q: WeightPosterior,
        sums: RowSums,
        slopes: tuple[Array, Array] | None = None,
    ) -> "WeightState":
        sites = replace(sites, b=q.means + products(sites.A, q.means))
        target = WeightSites(sums.c + products(sums.A, q.means), sums.A, sites.L)
        return cls(sites, q, sums, sums.value - q.divergence(), target, slopes)

    def predicted_gain(self) -> float:
        """What a whole step would gain, were the bound quadratic: half its squared length.

        In the metric of the posterior's Fisher information, where a natural step is the gradient.
        """
        total = 0.0
        for X, mu, c, A, new in zip(
            self.q.roots, self.q.means, self.sums.c, self.sites.A, self.target.A, strict=True
        ):
            change = new - A
            linalg.mirror_lower(change)
            linalg.multiply_lower_columns_in_place(X, change)
            change = np.ascontiguousarray(change.T)
            linalg.multiply_lower_columns_in_place(X, change)
            by_mean = linalg.multiply_lower_columns_in_place(X, (c - mu)[:, None].copy())
            total += 0.5 * linalg.inner(change, change) + linalg.inner(by_mean, by_mean)
        return 0.5 * total


def _posterior(sites: WeightSites) -> WeightPosterior:
    """Posterior of the sites; the means of several latents sum to zero.

    The terms see them up to a common shift. So the bound is largest there, and steps of single
    latents hardly lead there.
    """
    q = WeightPosterior.from_sites(sites)
    return q if len(q.means) == 1 else replace(q, means=q.means - q.means.mean(axis=0))


@final
class History:
    """Where the last steps led, and how far from where they began: Anderson's acceleration.

    It is that of `solvers.acceleration` by inner products: arrays of C m^2 numbers are not copied.
    """

    def __init__(self) -> None:
        self.found: list[WeightSites] = []
        self.residuals: list[WeightSites] = []

    def leads_to(self, state: WeightState, step: float) -> WeightSites:
        """The combination of the last steps whose residual is the shortest (Walker & Ni 2011)."""
        found = state.sites.towards(state.target, step)
        self.found = [*self.found[-MEMORY:], found]
        self.residuals = [*self.residuals[-MEMORY:], found.plus(-1.0, state.sites)]
        k = len(self.found)
        if k == 1:
            return found
        H = np.array([[a.inner(b) for b in self.residuals] for a in self.residuals])
        D = np.diff(np.eye(k), axis=0)
        weights = -linalg.least_squares(D @ H @ D.T, D @ H[:, -1], rcond=1e-12) @ D
        for weight, one in zip(weights, self.found, strict=True):
            found = found.plus(float(weight), one)
        return found


def improved(
    rows: RowBlocks, terms: RowTerms, q: WeightPosterior, most: int, enough: float
) -> Array:
    """Means of a larger bound at fixed variances, until a step would gain less than ``enough``.

    Each of at most so many steps costs O(n m), on blocks of `Spread` in memory.
    """
    means, whole = q.means, longest_step(terms)
    value, c = rows.reduce(slope_sums, terms, means)
    value -= 0.5 * linalg.inner(means, means)
    for _ in range(most):
        g = c - means
        move = q.scaled_by_covariance(g)
        predicted, size = linalg.inner(g, move), whole
        while size * predicted > enough:
            tried = means + size * move
            found, slopes = rows.reduce(slope_sums, terms, tried)
            found -= 0.5 * linalg.inner(tried, tried)
            if found >= value:
                break
            size *= 0.5
        else:
            break
        means, value, c = tried, found, slopes
    return means


def longest_step(terms: RowTerms) -> float:
    """The whole way, but of several latents, which a step takes one by one, two thirds.

    Together the classes have 1 to 2 times the curvature under the softmax that they have alone.
    """
    return 1.0 if terms.n_latents == 1 else 2.0 / 3.0
