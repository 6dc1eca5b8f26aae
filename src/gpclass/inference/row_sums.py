"""Sums over a block of rows that the variational bound and its gradient are made of."""

from typing import Any, NamedTuple

import numpy as np

from gpclass import linalg
from gpclass.blocks import Block
from gpclass.blocks.base import tree_sum
from gpclass.inference.features import Features, features
from gpclass.inference.row_terms import RowSlopes, RowTerms
from gpclass.inference.weights import WeightPosterior
from gpclass.kernels import pullback_cross, pullback_diagonal
from gpclass.linalg import Array
from gpclass.priors.basis import Basis


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
    variance = q.explained_variances(part.U) + part.delta[:, None]
    return Spread(part.U, variance, part.y, part.weights)


def slope_sums(part: Spread, terms: RowTerms, means: Array) -> tuple[float, Array]:
    """Value and c of `RowSums` for weights of these means, in O(b m) a class."""
    value, by_mean, _ = terms(part.y, linalg.product(means, part.U).T, part.variance)
    slopes = part.weights[:, None] * by_mean
    return float(part.weights @ value), linalg.product(part.U, slopes).T


def row_sums(part: Spread, terms: RowTerms, means: Array) -> RowSums:
    """`RowSums` of a block for weights of these means."""
    slopes = terms(part.y, linalg.product(means, part.U).T, part.variance)
    return _summed(part.U, part.weights, slopes)


def _summed(U: Array, weights: Array, slopes: RowSlopes) -> RowSums:
    A = np.stack([linalg.gram_of_columns(U, -2.0 * weights * one) for one in slopes.by_variance.T])
    c = linalg.product(U, weights[:, None] * slopes.by_mean).T
    return RowSums(float(weights @ slopes.value), A, c)


def bound_sums(part: Features, terms: RowTerms, q: WeightPosterior) -> RowSums:
    """`RowSums` of a block at a posterior."""
    return row_sums(spread(part, q), terms, q.means)


def cavities(
    block: Block, count: Array, basis: Basis, terms: RowTerms, q: WeightPosterior
) -> tuple[Array, Array]:
    """Latent means and variances (b, C) of rows without one of ``count`` copies of their own site.

    The site is taken from ``u^T w``; infinite or NaN where that has no proper rest.
    """
    part = features(block, basis)
    mean = linalg.product(q.means, part.U).T
    own = q.explained_variances(part.U)
    _, by_mean, by_variance = terms(part.y, mean, own + part.delta[:, None])
    share = (part.weights / count)[:, None]
    tau = -2.0 * share * by_variance
    nu = share * by_mean + tau * mean
    left = 1.0 - own * tau
    left[left <= 0.0] = np.nan
    return (mean - own * nu) / left, own / left + part.delta[:, None]


class GradientSums(NamedTuple):
    """`RowSums`, and the gradients of the data term by the thetas, q and k(Z, Z) held fixed."""

    value: float
    A: Array
    c: Array
    by_kernel: Array
    by_likelihood: Array


def gradient_sums(
    part: Features, basis: Basis, terms: RowTerms, q: WeightPosterior
) -> GradientSums:
    """`GradientSums` of a block at a posterior.

    Rows are taken so many at a time that the products of all classes together are no larger than U.
    """
    some = linalg.blocks(len(part.y), -(-len(part.y) // len(q.means)))
    return GradientSums(*tree_sum(_gradient_sums(part.of(rows), basis, terms, q) for rows in some))


def _gradient_sums(
    part: Features, basis: Basis, terms: RowTerms, q: WeightPosterior
) -> GradientSums:
    X, U, y, kernel, weights = part.X, part.U, part.y, basis.kernel, part.weights[:, None]
    products, own = zip(*(q.explained(U, c) for c in range(len(q.means))), strict=True)
    mean, variance = linalg.product(q.means, U).T, np.stack(own, axis=1) + part.delta[:, None]
    slopes = terms(y, mean, variance)
    sums = _summed(U, part.weights, slopes)
    by_variance = weights * slopes.by_variance
    G = linalg.product(np.ascontiguousarray(q.means.T), (weights * slopes.by_mean).T.copy())
    for c, V in enumerate(products):
        linalg.multiply_lower_columns_in_place(q.roots[c], V, transposed=True)
        V -= U
        V *= 2.0 * by_variance[:, c]
        G += V
    linalg.solve_many_columns_in_place(basis.L, G, transposed=True)
    by_kernel = pullback_cross(kernel, basis.Z, X, G)
    by_kernel += pullback_diagonal(kernel, X, by_variance.sum(axis=1))
    return GradientSums(
        *sums, by_kernel, terms.likelihood_gradient(y, mean, variance) @ part.weights
    )
