"""Variational inference with inducing points, by sums over blocks of rows.

A latent is ``f(x) = u(x)^T w + e(x)`` with weights ``w ~ N(0, I)``, features
``u(x) = L^-1 k(Z, x)`` of m inducing inputs Z, ``L L^T = K_ZZ``, and an independent remainder
``e(x) ~ N(0, delta(x))``, ``delta(x) = k(x, x) - |u(x)|^2``. The posterior is ``q(w) p(e)`` with a
Gaussian q, found by natural steps. A step needs the sums over rows of ``tau_i u_i u_i^T`` and of
``nu_i u_i``, and no row keeps a state: its site ``(nu_i, tau_i)`` is a function of its marginal.

References
----------
Titsias, *Variational learning of inducing variables in sparse Gaussian processes*, 2009; Hensman,
Matthews & Ghahramani, *Scalable variational Gaussian process classification*, 2015, for the bound;
Adam, Chang, Khan & Solin, *Dual parameterization of sparse variational Gaussian processes*, 2021,
for the steps.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, final

import numpy as np

from gpclass import linalg
from gpclass.blocks import Block, RowBlocks
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome
from gpclass.inference.basis import Basis, Features, features
from gpclass.inference.method import check_limits
from gpclass.inference.row_terms import RowTerms
from gpclass.inference.weights import WeightPosterior, WeightSites
from gpclass.kernels import n_free, pullback_cross, pullback_diagonal
from gpclass.linalg import Array

# Digits of the bound that a sum over many rows may lose.
NOISE: Final = 1e-13
# The shortest step that is tried.
SHORTEST: Final = 1e-6


class RowSums(NamedTuple):
    """Sums over rows at a posterior: the bound's data term, A (C, m, m) and c (C, m).

    ``A_c = sum_i tau_ic u_i u_i^T`` has lower triangles, ``c_c = sum_i w_i dE_i/dm_ic u_i``.
    """

    value: float
    A: Array
    c: Array


class Spread(NamedTuple):
    """A block's features, and the variances (b, C) of its latents."""

    U: Array
    variance: Array
    y: Any
    weights: Array


def spread(part: Features, q: WeightPosterior) -> Spread:
    """Variances of the latents under a posterior, in O(b m^2) a class."""
    own = [q.explained(part.U, c)[1] for c in range(len(q.means))]
    variance = np.stack(own, axis=1) + part.delta[:, None]
    return Spread(part.U, variance, part.y, part.weights)


def slope_sums(part: Spread, terms: RowTerms, means: Array) -> tuple[float, Array]:
    """Value and c of `RowSums` for weights of these means, in O(b m) a class."""
    value, by_mean, _ = terms(part.y, linalg.product(means, part.U).T, part.variance)
    slopes = part.weights[:, None] * by_mean
    return float(part.weights @ value), linalg.product(part.U, slopes).T


def row_sums(part: Spread, terms: RowTerms, means: Array) -> RowSums:
    """`RowSums` of a block for weights of these means."""
    value, by_mean, by_variance = terms(part.y, linalg.product(means, part.U).T, part.variance)
    tau = -2.0 * part.weights[:, None] * by_variance
    out = np.empty_like(part.U)
    A = np.stack([_weighted_gram(part.U, tau[:, c], out) for c in range(len(means))])
    slopes = part.weights[:, None] * by_mean
    return RowSums(float(part.weights @ value), A, linalg.product(part.U, slopes).T)


def first_sums(part: Features, terms: RowTerms) -> RowSums:
    """`RowSums` at latents N(0, 1), from which iterations start."""
    unit = np.ones((len(part.y), terms.n_latents))
    return row_sums(
        Spread(part.U, unit, part.y, part.weights), terms, np.zeros((terms.n_latents, len(part.U)))
    )


def cavities(
    block: Block, count: Array, basis: Basis, terms: RowTerms, q: WeightPosterior
) -> tuple[Array, Array]:
    """Latent means and variances (b, C) of rows without one of ``count`` copies of their own site.

    The site is taken from ``u^T w``; infinite or NaN where that has no proper rest.
    """
    part = features(block, basis)
    mean = linalg.product(q.means, part.U).T
    own = np.stack([q.explained(part.U, c)[1] for c in range(len(q.means))], axis=1)
    _, by_mean, by_variance = terms(part.y, mean, own + part.delta[:, None])
    share = (part.weights / count)[:, None]
    tau = -2.0 * share * by_variance
    nu = share * by_mean + tau * mean
    left = 1.0 - own * tau
    left[left <= 0.0] = np.nan
    return (mean - own * nu) / left, own / left + part.delta[:, None]


def _weighted_gram(U: Array, s: Array, out: Array) -> Array:
    """Lower triangle of ``U diag(s) U^T``; ``out``, of the shape of U, is overwritten."""
    A = np.zeros((len(U), len(U)))
    root = np.sqrt(np.abs(s))
    for sign in (1.0, -1.0):
        of_sign = sign * s > 0.0
        if of_sign.any():
            np.multiply(U, np.where(of_sign, root, 0.0), out=out)
            linalg.add_row_crossings(A, out, sign)
    return A


def gradient_sums(
    part: Features, basis: Basis, terms: RowTerms, q: WeightPosterior
) -> tuple[Array, Array]:
    """Gradients of a block's part of the bound, q fixed: by the kernel's theta but for k(Z, Z).

    The second is by the likelihood's own theta. Rows are taken so many at a time that the products
    of all classes together are no larger than U.
    """
    n_latents, kernel = len(q.means), basis.kernel
    by_kernel, by_likelihood = np.zeros(n_free(kernel)), np.zeros(0)
    for rows in linalg.blocks(len(part.y), -(-len(part.y) // n_latents)):
        X, U = part.X[rows], np.ascontiguousarray(part.U[:, rows])
        y, weights = part.y[rows], part.weights[rows][:, None]
        mean = linalg.product(q.means, U).T
        products, own = zip(*(q.explained(U, c) for c in range(n_latents)), strict=True)
        variance = np.stack(own, axis=1) + part.delta[rows][:, None]
        _, by_mean, by_variance = terms(y, mean, variance)
        by_variance = weights * by_variance
        G = linalg.product(np.ascontiguousarray(q.means.T), (weights * by_mean).T.copy())
        for c, V in enumerate(products):
            linalg.multiply_lower_columns_in_place(q.roots[c], V, transposed=True)
            V -= U
            V *= 2.0 * by_variance[:, c]
            G += V
        linalg.solve_many_columns_in_place(basis.L, G, transposed=True)
        by_kernel += pullback_cross(kernel, basis.Z, X, G)
        by_kernel += pullback_diagonal(kernel, X, by_variance.sum(axis=1))
        slopes = terms.likelihood_gradient(y, mean, variance) @ weights[:, 0]
        by_likelihood = slopes + by_likelihood if len(by_likelihood) else slopes
    return by_kernel, by_likelihood


@final
@dataclass(frozen=True)
class BlockApproximation:
    """The Gaussian of the weights of the largest bound, and how it was found.

    Parameters
    ----------
    posterior : WeightPosterior
    sites : WeightSites
    log_evidence : float
        The bound, in nats.
    outcome : Outcome
    n_iter : int
        Passes over the rows.
    basis : Basis
    rows : RowBlocks
        Of `Features`.
    terms : RowTerms
    sums : RowSums
        At the posterior.
    """

    posterior: WeightPosterior
    sites: WeightSites
    log_evidence: float
    outcome: Outcome
    n_iter: int
    basis: Basis
    rows: RowBlocks
    terms: RowTerms
    sums: RowSums

    def __repr__(self) -> str:
        """One line: the fields hold matrices."""
        return (
            f"BlockApproximation({self.outcome.name}, log_evidence={self.log_evidence:.6g}, "
            f"n_passes={self.n_iter})"
        )

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.outcome.converged

    @property
    def n_factorisations(self) -> int:
        """Factorisations of precisions of the weights: one a class and a pass."""
        return self.n_iter * len(self.posterior.means)

    @cached_property
    def gradients(self) -> tuple[Array, Array]:
        """Gradients of the bound by the kernel's theta and by the likelihood's, in one pass."""
        q, L = self.posterior, self.basis.L
        by_kernel, by_likelihood = self.rows.reduce(gradient_sums, self.basis, self.terms, q)
        P = np.zeros_like(L)
        for mu, X, A, c in zip(q.means, q.roots, self.sums.A, self.sums.c, strict=True):
            full = A.copy()
            linalg.mirror_lower(full)
            P += np.outer(mu, c) + full
            for transposed in (False, True):
                linalg.multiply_lower_columns_in_place(X, full, transposed=transposed)
            P -= full
        return by_kernel + self.basis.pull(P), by_likelihood

    def evidence_pullback(self) -> Array:
        """Gradient by the kernel's theta itself: there is no covariance to carry it to."""
        return self.gradients[0]

    def likelihood_gradient(self) -> Array:
        """``d bound / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.gradients[1]


def _products(A: Array, v: Array) -> Array:
    """``A_c v_c`` of every latent, (C, m), from lower triangles."""
    return np.stack([linalg.symmetric_product(one, x) for one, x in zip(A, v, strict=True)])


def centred(means: Array) -> Array:
    """Means of several latents, less their own mean.

    The terms see the latents up to a common shift, so the bound is largest where they sum to zero.
    """
    return means - means.mean(axis=0) if len(means) > 1 else means


class _Point(NamedTuple):
    """Gaussians ``N(mu_c, (I + A_c)^-1)`` of the weights, the sums there, and the bound."""

    A: Array
    q: WeightPosterior
    sums: RowSums
    bound: float

    def sites(self, L: Array) -> WeightSites:
        """The sites whose posterior this is."""
        return WeightSites(self.q.means + _products(self.A, self.q.means), self.A, L)

    def promise(self) -> float:
        """What a whole natural step would gain, were the bound quadratic: half its squared length.

        In the metric of the posterior's Fisher information.
        """
        total = 0.0
        for X, g, old, new in zip(
            self.q.roots, self.sums.c - self.q.means, self.A, self.sums.A, strict=True
        ):
            change = new - old
            linalg.mirror_lower(change)
            linalg.multiply_lower_columns_in_place(X, change)
            change = np.ascontiguousarray(change.T)
            linalg.multiply_lower_columns_in_place(X, change)
            by_mean = linalg.multiply_lower_columns_in_place(X, g[:, None].copy())
            total += 0.5 * linalg.inner(change, change) + linalg.inner(by_mean, by_mean)
        return 0.5 * total


@final
@dataclass(frozen=True)
class VariationalByBlocks:
    """The largest bound by natural steps in the precisions and Newton steps in the means.

    A pass over the rows gives the bound and the sites there; A goes ``step`` of the way to
    their sum, as a whole step would swing: where a variance falls, the next is too large. Between
    two passes the means, whose objective at fixed variances is concave for a log-concave
    likelihood, take up to ``mean_steps`` steps preconditioned by I + A, O(n m) each: only
    where the features are held in memory, as else each of them would be a pass. A step is halved
    where the bound falls. The end is where a whole step promises less than ``tol``.

    Parameters
    ----------
    max_passes : int, default=100
    tol : float, default=1e-11
        In nats: half the square of how far the means are from their end, in their deviations.
    step : float, default=0.5
    mean_steps : int, default=5
    """

    max_passes: int = 100
    tol: float = 1e-11
    step: float = 0.5
    mean_steps: int = 5

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_limits(self.max_passes, self.tol)

    def __call__(
        self, basis: Basis, rows: RowBlocks, terms: RowTerms, init: WeightSites | None = None
    ) -> BlockApproximation:
        """Approximate the posterior of rows, blocks of `Block`, in a basis.

        ``init`` is where to start; None: at the sites of latents N(0, 1). NotPositiveDefiniteError
        where the kernel is not positive semi-definite.
        """
        n_bytes = 8.0 * rows.n_rows * len(basis.L)
        known = rows.derive(features, basis, n_bytes=n_bytes)
        point = self._started(known, terms, basis.L, init)
        passes, step, outcome = 1, self.step, None
        while outcome is None:
            promise = point.promise()
            noise = NOISE * max(1.0, abs(point.bound))
            if promise <= max(self.tol, noise):
                outcome = Outcome.CONVERGED if promise <= self.tol else Outcome.ROUNDING
            elif passes == self.max_passes:
                outcome = Outcome.MAX_ITER
            elif step < SHORTEST:
                outcome = Outcome.STALLED
            else:
                passes += 1
                there = self._stepped(known, terms, point, step, promise)
                if there is not None and there.bound >= point.bound - noise:
                    point, step = there, min(max(self.step, step), 2.0 * step)
                else:
                    step *= 0.5
        sites = point.sites(basis.L)
        return BlockApproximation(
            point.q, sites, point.bound, outcome, passes, basis, known, terms, point.sums
        )

    def _started(
        self, rows: RowBlocks, terms: RowTerms, L: Array, init: WeightSites | None
    ) -> _Point:
        """The point of sites that were carried here, or of the first where they do not fit."""
        if init is not None and init.A.shape == (terms.n_latents, *L.shape):
            try:
                return self._at(rows, terms, init.carried(L), 0.0)
            except NotPositiveDefiniteError:
                pass
        first = RowSums(*rows.reduce(first_sums, terms))
        return self._at(rows, terms, WeightSites(first.c, first.A, L), self.tol)

    def _stepped(
        self, rows: RowBlocks, terms: RowTerms, point: _Point, step: float, promise: float
    ) -> _Point | None:
        """The point a step further, None where its precision is not positive definite."""
        A = point.A + step * (point.sums.A - point.A)
        # a natural step in b, written so that A's part of it cancels
        means = point.q.means
        b = means + _products(A, means) + step * (point.sums.c - means)
        try:
            return self._at(rows, terms, WeightSites(b, A, A[0]), 1e-2 * promise)
        except NotPositiveDefiniteError:
            return None

    def _at(self, rows: RowBlocks, terms: RowTerms, sites: WeightSites, enough: float) -> _Point:
        """One pass at sites, after steps of the means until they promise less than ``enough``."""
        q = WeightPosterior.from_sites(sites)
        q, held = replace(q, means=centred(q.means)), rows.held
        known = rows.derive(spread, q, n_bytes=0.0 if held else np.inf)
        if held and enough > 0.0:
            q = replace(q, means=self._improved(known, terms, q, max(enough, self.tol)))
        sums = RowSums(*known.reduce(row_sums, terms, q.means))
        return _Point(sites.A, q, sums, sums.value - q.divergence())

    def _improved(
        self, rows: RowBlocks, terms: RowTerms, q: WeightPosterior, enough: float
    ) -> Array:
        """Means of a larger bound at fixed variances."""
        means = q.means
        value, c = rows.reduce(slope_sums, terms, means)
        value -= 0.5 * linalg.inner(means, means)
        for _ in range(self.mean_steps):
            g = c - means
            move = q.scaled_by_covariance(g)
            promise, size = linalg.inner(g, move), 1.0
            while size * promise > enough:
                tried = centred(means + size * move)
                found, slopes = rows.reduce(slope_sums, terms, tried)
                found -= 0.5 * linalg.inner(tried, tried)
                if found >= value:
                    break
                size *= 0.5
            else:
                break
            means, value, c = tried, found, slopes
        return means
