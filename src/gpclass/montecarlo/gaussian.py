"""Gaussians that can be drawn from: the prior, singular or not, and the prior given sites.

Latent values of C functions (one for two classes) at n rows are stacked by function: (C n, ...).
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.sites import Sites
from gpclass.linalg import EPS, Array
from gpclass.priors import DensePrior, Prior
from gpclass.priors.classes import ClassPrior, ClassSites


class Pairs(NamedTuple):
    """Latent values ``f = K a`` and the weights a behind them, each of shape (C n, R)."""

    f: Array
    a: Array


@final
@dataclass(frozen=True)
class SiteTerms:
    """A product of Gaussian terms ``exp(b_i^T f_i - f_i^T W_i f_i / 2)``, one a row.

    b has shape (n, C) and W (n, C, C); powers and quotients of sites may have an indefinite W_i.
    """

    b: Array
    W: Array

    @classmethod
    def of(cls, sites: Sites | ClassSites) -> "SiteTerms":
        """Sites of one latent function, or of one a class."""
        if isinstance(sites, Sites):
            return cls(sites.nu[:, None], sites.tau[:, None, None])
        d = sites.d
        mass = d.sum(axis=1, keepdims=True)
        share = np.divide(d, mass, out=np.zeros_like(d), where=mass > 0.0)
        W = -d[:, :, None] * share[:, None, :]
        # rows of W sum to zero; d_c - d_c^2 / sum(d) itself would cancel where one d_c dominates
        each = np.arange(d.shape[1])
        W[:, each, each] = 0.0
        W[:, each, each] = -W.sum(axis=2)
        return cls(sites.b, W)

    @classmethod
    def none(cls, n: int, n_functions: int) -> "SiteTerms":
        """Terms that are one everywhere."""
        return cls(np.zeros((n, n_functions)), np.zeros((n, n_functions, n_functions)))

    def over(self, other: "SiteTerms", power: float) -> "SiteTerms":
        """``self^power / other``."""
        return SiteTerms(power * self.b - other.b, power * self.W - other.W)

    @property
    def trivial(self) -> bool:
        """Whether all terms are one."""
        return not (self.b.any() or self.W.any())

    def log_value(self, f: Array) -> Array:
        """Logarithm of the product at f of shape (C n, R), shape (R,)."""
        if self.trivial:
            return np.zeros(f.shape[1])
        F = f.reshape(*self.b.T.shape, -1)
        slope = self.b.T[:, :, None] - 0.5 * np.einsum("icd,dir->cir", self.W, F)
        return np.asarray(np.einsum("cir,cir->r", slope, F))


@final
@dataclass(frozen=True)
class LatentGaussian:
    """A Gaussian ``f = mean + root u``, ``u ~ N(0, I)``, over values of the form ``f = K a``.

    Values are about the prior's own mean, where it has one. K enters by its eigenvectors of
    positive eigenvalue alone, so a singular K needs no jitter: the draws lie in its range, and the
    mean at a new input is ``k^T a`` without an inverse.

    ``mean`` and ``mean_weights`` of shape (C n,) have ``mean = K mean_weights``. ``roots`` and
    ``weight_roots`` are the diagonal blocks of ``root``, whose square ``root root^T`` is the
    covariance, and of ``weight_root``, with ``root = K weight_root``. A prior has a block of shape
    (n, r_c) for each latent function, r_c the numerical rank of K_c; given sites there is one.
    ``log_mass`` is the log of what was normalised: 0 for a prior, ``log int p(f) prod site_i df``
    for a prior given sites.
    """

    mean: Array
    mean_weights: Array
    roots: tuple[Array, ...]
    weight_roots: tuple[Array, ...]
    log_mass: float = 0.0

    @classmethod
    def prior(cls, K: Prior | ClassPrior | ArrayLike) -> "LatentGaussian":
        """``N(0, K)``, from ``K = U diag(l) U^T`` without the eigenvalues under ``n eps max(l)``.

        ``root = U l^1/2`` and ``weight_root = U l^-1/2``. Raises NotPositiveDefiniteError where a
        covariance is not positive semi-definite, TypeError for a prior without the whole of K.
        """
        if isinstance(K, ClassPrior):
            blocks = [_roots(prior) for prior in (K.priors[:1] if K.shared else K.priors)]
            blocks *= K.n_classes // len(blocks)
        else:
            blocks = [_roots(K)]
        roots, weight_roots = (tuple(parts) for parts in zip(*blocks, strict=True))
        zero = np.zeros(sum(len(root) for root in roots))
        return cls(zero, zero, roots, weight_roots)

    def given(self, terms: SiteTerms) -> "LatentGaussian":
        """Multiply a prior by Gaussian terms: ``q(f) = p(f) prod_i term_i / Z``.

        In the coordinates u of the prior its precision is ``M = I + root^T W root``, and
        ``log Z = b^T mean / 2 - log |M| / 2``. For C > 1 the result holds ``2 (C n)^2`` doubles.
        Raises ValueError where this is not a prior, NotPositiveDefiniteError where M is not
        positive definite.
        """
        if self.mean.any() or self.log_mass != 0.0:
            raise ValueError("sites multiply a prior, and this Gaussian was given some already")
        r = self.rank
        if r == 0:
            return self
        root, weight_root = _block_diagonal(self.roots), _block_diagonal(self.weight_roots)
        rows = root.reshape(*terms.b.T.shape, r)
        weighted = np.einsum("icd,dik->cik", terms.W, rows).reshape(-1, r)
        M = linalg.product(root.T, weighted)
        M.flat[:: r + 1] += 1.0
        try:
            L = linalg.cholesky(M, "I + root^T W root")
        except NotPositiveDefiniteError as error:
            least = np.einsum("icc->ic", terms.W).min()
            raise NotPositiveDefiniteError(
                f"the prior given these sites is no proper Gaussian: {error}; their negative "
                f"precisions (the least is {least:.3g}) outweigh the prior"
            ) from error
        # u = L^-T u', so that the new root is root L^-T, the transpose of L^-1 root^T
        root = linalg.solve_lower_columns_in_place(L, root.T.copy(order="C")).T
        weight_root = linalg.solve_lower_columns_in_place(L, weight_root.T.copy(order="C")).T
        b = np.ascontiguousarray(terms.b.T).reshape(-1)
        shift = linalg.product(root.T, b[:, None])
        mean = linalg.product(root, shift)[:, 0]
        mean_weights = linalg.product(weight_root, shift)[:, 0]
        log_mass = 0.5 * float(b @ mean) - 0.5 * linalg.log_det_factored(L)
        return LatentGaussian(mean, mean_weights, (root,), (weight_root,), log_mass)

    @property
    def size(self) -> int:
        """Number of latent values, C n."""
        return len(self.mean)

    @property
    def rank(self) -> int:
        """Number of coordinates u."""
        return sum(root.shape[1] for root in self.roots)

    def inverse_times(self, f: Array) -> Array:
        """``K^+ f`` for f of shape (C n, R) in the range of K, for a prior."""
        starts = np.cumsum([len(root) for root in self.weight_roots])[:-1]
        coordinates = [
            linalg.product(root.T, part)
            for root, part in zip(self.weight_roots, np.split(f, starts), strict=True)
        ]
        return _times(self.weight_roots, np.concatenate(coordinates))

    def spread(self, u: Array) -> Array:
        """``root u`` for u of shape (rank, R)."""
        return _times(self.roots, u)

    def draw(self, rng: np.random.Generator, n_draws: int) -> Pairs:
        """Independent draws, f and a of shape (C n, n_draws)."""
        u = rng.standard_normal((self.rank, n_draws))
        return Pairs(
            self.mean[:, None] + self.spread(u),
            self.mean_weights[:, None] + _times(self.weight_roots, u),
        )


class Proposal(NamedTuple):
    """The prior given terms, whose ellipses the moves near an inverse temperature use."""

    gaussian: LatentGaussian
    terms: SiteTerms
    power: float = 1.0


def _roots(K: Prior | ArrayLike) -> tuple[Array, Array]:
    """``root`` and ``weight_root`` of one covariance matrix."""
    prior = K if isinstance(K, Prior) else DensePrior(np.ascontiguousarray(K, dtype=np.float64))
    if not isinstance(prior, DensePrior):
        raise TypeError(
            "Monte Carlo draws from the exact prior and needs the whole covariance matrix: a "
            f"DensePrior or an array, got {type(prior).__name__}"
        )
    prior.check()
    values, vectors = linalg.symmetric_eigen(prior.K)
    kept = values > prior.n * EPS * float(values.max(initial=0.0))
    scale, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return vectors * scale, vectors / scale


def _times(blocks: tuple[Array, ...], u: Array) -> Array:
    """Block-diagonal matrix times u."""
    starts = np.cumsum([block.shape[1] for block in blocks])[:-1]
    parts = zip(blocks, np.split(u, starts), strict=True)
    return np.concatenate([linalg.product(block, part) for block, part in parts])


def _block_diagonal(blocks: tuple[Array, ...]) -> Array:
    if len(blocks) == 1:
        return blocks[0]
    full = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    row = column = 0
    for block in blocks:
        full[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return full
