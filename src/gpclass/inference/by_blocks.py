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
from typing import Final, NamedTuple, final

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
# The longest step of several latents, which a step takes one by one: together the classes have 1 to
# 2 times the curvature under the softmax that they have alone.
SEVERAL: Final = 2.0 / 3.0
# Steps, before the last, that an accelerated one combines.
MEMORY: Final = 3
# The shortest step that is tried.
SHORTEST: Final = 1e-6


class RowSums(NamedTuple):
    """Sums over rows at a posterior: the bound's data term, A (C, m, m) and c (C, m).

    ``A_c = sum_i tau_ic u_i u_i^T`` has lower triangles, ``c_c = sum_i w_i dE_i/dm_ic u_i``.
    """

    value: float
    A: Array
    c: Array


def bound_sums(part: Features, terms: RowTerms, q: WeightPosterior) -> RowSums:
    """`RowSums` of a block."""
    mean = linalg.product(q.means, part.U).T
    variance = np.empty_like(mean)
    for c in range(len(q.means)):
        V, variance[:, c] = q.explained(part.U, c)
    variance += part.delta[:, None]
    value, by_mean, by_variance = terms(part.y, mean, variance)
    tau = -2.0 * part.weights[:, None] * by_variance
    A = np.stack([_weighted_gram(part.U, tau[:, c], V) for c in range(len(q.means))])
    slopes = part.weights[:, None] * by_mean
    return RowSums(float(part.weights @ value), A, linalg.product(part.U, slopes).T)


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


class _State(NamedTuple):
    """A posterior, the sums there, its bound, and the sites that a whole step leads to."""

    sites: WeightSites
    q: WeightPosterior
    sums: RowSums
    bound: float
    target: WeightSites

    @classmethod
    def of(cls, rows: RowBlocks, terms: RowTerms, sites: WeightSites) -> "_State":
        """One pass over the rows; of several latents, which the terms see up to a common shift.

        The bound is largest where their means sum to zero, and steps of single latents hardly
        lead there.
        """
        q = WeightPosterior.from_sites(sites)
        if terms.n_latents > 1:
            q = replace(q, means=q.means - q.means.mean(axis=0))
            sites = replace(sites, b=q.means + _products(sites.A, q.means))
        sums = RowSums(*rows.reduce(bound_sums, terms, q))
        target = WeightSites(sums.c + _products(sums.A, q.means), sums.A, sites.L)
        return cls(sites, q, sums, sums.value - q.divergence(), target)

    def promise(self) -> float:
        """What a whole step would gain, were the bound quadratic: half the squared length of it.

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


@final
class _History:
    """Where the last steps led, and how far from where they began: Anderson's acceleration."""

    def __init__(self) -> None:
        self.found: list[WeightSites] = []
        self.residuals: list[WeightSites] = []

    def leads_to(self, state: _State, step: float) -> WeightSites:
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


def _tried(rows: RowBlocks, terms: RowTerms, sites: WeightSites) -> _State | None:
    """One pass; None, and no pass, where the precision of the weights is not positive definite."""
    try:
        return _State.of(rows, terms, sites)
    except NotPositiveDefiniteError:
        return None


@final
@dataclass(frozen=True)
class VariationalByBlocks:
    """Natural steps to the largest bound, each one pass over the rows.

    Steps are accelerated by what the last few have changed. Where the bound falls or the precision
    of the weights is not positive definite, a plain one takes its place, then half of it, and so
    on. The end is where a step promises less than ``tol``.

    Parameters
    ----------
    max_passes : int, default=100
    tol : float, default=1e-12
        In nats: the root of twice that is the length of the step in deviations.
    """

    max_passes: int = 100
    tol: float = 1e-12

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_limits(self.max_passes, self.tol)

    def __call__(
        self, basis: Basis, rows: RowBlocks, terms: RowTerms, init: WeightSites | None = None
    ) -> BlockApproximation:
        """Approximate the posterior of rows, blocks of `Block`, in a basis.

        ``init`` is where to start; None: at the prior. NotPositiveDefiniteError where the kernel is
        not positive semi-definite.
        """
        n_bytes = 8.0 * rows.n_rows * len(basis.L)
        known = rows.derive(features, basis, n_bytes=n_bytes)
        state = _started(known, terms, basis.L, init)
        whole = 1.0 if terms.n_latents == 1 else SEVERAL
        passes, step, before, outcome, history = 1, whole, np.inf, None, _History()
        while outcome is None:
            promise = state.promise()
            noise = NOISE * max(1.0, abs(state.bound))
            if promise <= self.tol:
                outcome = Outcome.CONVERGED
            elif promise <= noise and promise > 0.5 * before:
                outcome = Outcome.ROUNDING
            elif passes == self.max_passes:
                outcome = Outcome.MAX_ITER
            elif step < SHORTEST:
                outcome = Outcome.STALLED
            else:
                there = _tried(known, terms, history.leads_to(state, step))
                passes += there is not None
                if there is not None and there.bound >= state.bound - noise:
                    state, step, before = there, min(whole, 2.0 * step), promise
                else:
                    step *= 0.5 if len(history.found) == 1 else 1.0
                    history = _History()
        return BlockApproximation(
            state.q, state.sites, state.bound, outcome, passes, basis, known, terms, state.sums
        )


def _started(rows: RowBlocks, terms: RowTerms, L: Array, init: WeightSites | None) -> _State:
    """One pass at sites that were carried here, or at the prior where they do not fit."""
    if init is not None and init.A.shape == (terms.n_latents, *L.shape):
        found = _tried(rows, terms, init.carried(L))
        if found is not None:
            return found
    return _State.of(rows, terms, WeightSites.zero(terms.n_latents, L))
