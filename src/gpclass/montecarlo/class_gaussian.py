"""Gaussians over the latents of many classes: block-diagonal priors, and their sites."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.montecarlo.gaussian import LatentGaussian, Pairs
from gpclass.priors.classes import ClassPrior, ClassSites

Array = NDArray[np.float64]


def stacked(F: Array) -> Array:
    """Values of shape (n, C, ...) as (C n, ...), class by class."""
    return np.ascontiguousarray(np.moveaxis(F, 1, 0)).reshape(-1, *F.shape[2:])


def unstacked(f: Array, n_classes: int) -> Array:
    """Values of shape (C n, ...) as (n, C, ...): what `stacked` undoes; a view."""
    return np.moveaxis(f.reshape(n_classes, -1, *f.shape[1:]), 0, 1)


@final
@dataclass(frozen=True)
class ClassTerms:
    """A product of powers of sites, ``prod_k (prod_i site_ki(f_i))^s_k``.

    Parameters
    ----------
    terms : tuple of (float, ClassSites)
        Powers s_k, of any sign, and sites.
    """

    terms: tuple[tuple[float, ClassSites], ...]

    @classmethod
    def of(cls, sites: ClassSites) -> "ClassTerms":
        """These sites as they are."""
        return cls(((1.0, sites),))

    def powered(self, power: float) -> "ClassTerms":
        """All of it to a power."""
        return ClassTerms(tuple((power * s, sites) for s, sites in self.terms if power * s != 0.0))

    def times(self, other: "ClassTerms") -> "ClassTerms":
        """Product of both; sites that they share are kept once."""
        powers: dict[int, tuple[float, ClassSites]] = {}
        for s, sites in (*self.terms, *other.terms):
            powers[id(sites)] = (powers.get(id(sites), (0.0, sites))[0] + s, sites)
        return ClassTerms(tuple(term for term in powers.values() if term[0] != 0.0))

    def log_value(self, f: Array) -> Array:
        """Logarithm at stacked values f of shape (C n, R), shape (R,)."""
        total = np.zeros(f.shape[1])
        for s, sites in self.terms:
            F = f.reshape(*sites.b.T.shape, -1)
            total += s * np.einsum("ic,cir->r", sites.b, F)
            weighted = sites.d.T[:, :, None] * F
            # f^T W f is the variance of a row's latents, weighted by d
            mean = weighted.sum(axis=0)
            total -= 0.5 * s * np.einsum("cir,cir->r", weighted, F)
            mass = sites.d.sum(axis=1)
            share = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0.0)
            total += 0.5 * s * np.einsum("i,ir,ir->r", share, mean, mean)
        return total


@final
@dataclass(frozen=True)
class ClassGaussian:
    """The prior of C independent latent functions, drawn class by class.

    Values are stacked class by class, shape (C n,). The interface is that of `LatentGaussian`.

    Parameters
    ----------
    blocks : tuple of LatentGaussian
        Prior of each class; one object repeated where it is shared.

    Examples
    --------
    >>> import numpy as np
    >>> prior = ClassGaussian.prior(ClassPrior(np.ones((2, 2)), 3))
    >>> prior.n, prior.rank
    (6, 3)
    >>> f = prior.draw(np.random.default_rng(0), 4).f
    >>> bool(np.allclose(f[0::2], f[1::2]))
    True
    """

    blocks: tuple[LatentGaussian, ...]

    @classmethod
    def prior(cls, class_prior: ClassPrior) -> "ClassGaussian":
        """``N(0, K_c)`` of every class, as in `LatentGaussian.prior`.

        Raises
        ------
        NotPositiveDefiniteError
            Where a K_c is not positive semi-definite.
        """
        if class_prior.shared:
            return cls((LatentGaussian.prior(class_prior.priors[0]),) * class_prior.n_classes)
        return cls(tuple(LatentGaussian.prior(prior) for prior in class_prior.priors))

    @property
    def n(self) -> int:
        """Number of latent values of all classes."""
        return sum(block.n for block in self.blocks)

    @property
    def rank(self) -> int:
        """Number of coordinates of all classes."""
        return sum(block.rank for block in self.blocks)

    @cached_property
    def mean(self) -> Array:
        """Zero, shape (C n,)."""
        return np.zeros(self.n)

    @property
    def log_mass(self) -> float:
        """Zero: the prior is normalised."""
        return 0.0

    def spread(self, u: Array) -> Array:
        """Latent values of coordinates u of shape (rank, R)."""
        return np.concatenate(
            [linalg.product(b.root, v) for b, v in zip(self.blocks, self._split(u), strict=True)]
        )

    def inverse_times(self, f: Array) -> Array:
        """Weights a of stacked values ``f_c = K_c a_c``, shape (C n, R)."""
        parts = np.split(f, len(self.blocks))
        return np.concatenate(
            [block.inverse_times(part) for block, part in zip(self.blocks, parts, strict=True)]
        )

    def draw(self, rng: np.random.Generator, n_draws: int) -> Pairs:
        """Independent draws, f and a of shape (C n, n_draws)."""
        u = rng.standard_normal((self.rank, n_draws))
        a = [
            linalg.product(b.weight_root, v)
            for b, v in zip(self.blocks, self._split(u), strict=True)
        ]
        return Pairs(self.spread(u), np.concatenate(a))

    def beside(self, terms: ClassTerms) -> LatentGaussian:
        """Multiply the prior by sites, which couple the classes.

        The result holds two matrices of all latent values, ``2 (C n)^2`` doubles.

        Raises
        ------
        ValueError
            For sites of another number of rows or classes.
        NotPositiveDefiniteError
            Where negative powers leave no proper Gaussian.
        """
        C, n, r = len(self.blocks), self.blocks[0].n, self.rank
        root, weight_root = self._dense("root"), self._dense("weight_root")
        M, nu = np.eye(r), np.zeros(self.n)
        for s, sites in terms.terms:
            if sites.b.shape != (n, C):
                raise ValueError(
                    f"the sites are of shape {sites.b.shape} where the prior has {n} rows and {C} "
                    "classes"
                )
            nu += s * stacked(sites.b)
            # W = H^T H with H = D^1/2 (I - 1 d^T / sum(d)): nothing cancels
            mass = sites.d.sum(axis=1)
            share = np.divide(sites.d, mass[:, None], out=np.zeros_like(sites.d), where=sites.d > 0)
            rows = root.reshape(C, n, r)
            half = rows - np.einsum("ic,cik->ik", share, rows)
            half *= np.sqrt(sites.d.T)[:, :, None]
            M += s * linalg.gram(half.reshape(C * n, r), np.ones(C * n))
        prior = LatentGaussian(self.mean, root, self.mean, weight_root, 0.0)
        if r == 0:
            return prior
        try:
            L = linalg.cholesky(M, "I + root^T W root")
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(
                f"the prior beside these sites is no proper Gaussian: {error}"
            ) from error
        return prior.conditioned(L, nu)

    def _split(self, u: Array) -> list[Array]:
        return np.split(u, np.cumsum([block.rank for block in self.blocks])[:-1])

    def _dense(self, name: str) -> Array:
        """Block-diagonal matrix of the blocks' matrices, shape (C n, rank)."""
        full = np.zeros((self.n, self.rank))
        row = column = 0
        for block in self.blocks:
            A = getattr(block, name)
            full[row : row + A.shape[0], column : column + A.shape[1]] = A
            row, column = row + A.shape[0], column + A.shape[1]
        return full
