"""A cheap model of how the variances of many classes' latents follow from their sites."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.priors.classes import ClassPrior

Array = NDArray[np.float64]
Single = NDArray[np.float32]

# Features of all classes together, in n C^(1/3): a model's cost then grows slower than a factor's.
SHARE: Final = 0.4
# Features of a class that there is room for in any case.
FEW: Final = 16
# Candidates among which the features of a class are chosen, for each that there is room for.
CANDIDATES: Final = 2.5
# Features count by the site precisions where they live, raised to this power. Variances respond
# where precisions are large, but where a class has hardly any site they are large themselves.
EMPHASIS: Final = 0.3
# Features that matter less leave no trace.
LEAST: Final = 1e-6


@final
@dataclass(frozen=True)
class CoarseClasses:
    """Processes of C classes that have few features each, beside sites; see `CoupledFactor`.

    ``K_c = Phi_c Phi_c^T`` up to a diagonal, Phi_c the leading directions of K_c beside the sites
    that there are. Its variances are off by what the features leave out. Their changes are hardly
    so, since what follows from sites elsewhere is smooth: the model answers how variances move.

    Parameters
    ----------
    features : tuple of C ndarray of shape (r_c, n)
        Phi_c^T; in single precision, which is what a model has to spare.
    left : ndarray of shape (n, C)
        Diagonals of ``K_c - Phi_c Phi_c^T``.

    Examples
    --------
    Where features are no fewer than rows, little is left out:

    >>> import numpy as np
    >>> prior, d = ClassPrior(np.array([[2.0, 1.0], [1.0, 2.0]]), 3), np.ones((2, 3))
    >>> coarse = CoarseClasses.of(prior, d).deviations(d)
    >>> exact = prior.factor(d).deviation_variances(d / 3)
    >>> bool(np.abs(coarse - exact).max() < 1e-6)
    True
    """

    features: tuple[Single, ...]
    left: Array

    @classmethod
    def of(cls, classes: ClassPrior, d: Array) -> "CoarseClasses":
        """Choose features for sites whose d, of shape (n, C), is near this one."""
        weights = np.ascontiguousarray(d.T**EMPHASIS, np.float32)
        C, n = weights.shape
        room = room_for(n, C)
        depth = min(n, int(CANDIDATES * room / C) + 1)
        K = classes.in_single
        candidates: Sequence[Single]
        if classes.shared:
            candidates = (_pivoted(K[0], weights.mean(axis=0), depth),) * C
        else:
            candidates = [_pivoted(K_c, w, depth) for K_c, w in zip(K, weights, strict=True)]
        turned, sizes = [], []
        for Phi, w in zip(candidates, weights, strict=True):
            values, vectors = linalg.symmetric_eigen(linalg.gram(np.ascontiguousarray(Phi.T), w))
            turned.append(vectors)
            sizes.append(values)
        ranked = np.sort(np.concatenate(sizes))[::-1]
        least = max(ranked[min(room, len(ranked)) - 1], LEAST * ranked[0])
        features, left = [], classes.diagonal.copy()
        for c, (Phi, vectors, values) in enumerate(zip(candidates, turned, sizes, strict=True)):
            kept = vectors[:, values >= min(least, values[-1])]  # one at least
            chosen = linalg.product(np.ascontiguousarray(kept.T), Phi)
            left[:, c] -= np.einsum("kn,kn->n", chosen, chosen, dtype=np.float64)
            features.append(chosen)
        return cls(tuple(features), np.maximum(left, 0.0))

    def deviations(self, d: Array, *, single: bool = False) -> Array:
        """Variances of ``f^ - f_c``, f^ a row's mean of f weighted by d; shape (n, C).

        With ``Z = stack of Phi_c^T d_c / t``, t the sum of a row's d, and
        ``H = I + blockdiag(Phi_c^T D_c Phi_c) - Z diag(t) Z^T`` the weights of the features have
        the covariance H^-1.

        Parameters
        ----------
        d : ndarray of shape (n, C)
        single : bool, default=False
            Whether in single precision.

        Raises
        ------
        NotPositiveDefiniteError
            Where rounding drowns H.
        """
        precision = np.float32 if single else np.float64
        features: list[NDArray[Any]]
        features = [Phi.astype(precision, copy=False) for Phi in self.features]
        ends = np.cumsum([0, *map(len, features)])
        blocks = [slice(a, b) for a, b in pairwise(ends)]
        total = d.sum(axis=1)
        share = d / total[:, None]
        shares = np.ascontiguousarray(share.T, precision)
        roots = np.sqrt(np.ascontiguousarray(d.T)).astype(precision, copy=False)
        Z = np.concatenate([Phi * s for Phi, s in zip(features, shares, strict=True)])
        H: NDArray[Any] = np.zeros((len(Z), len(Z)), precision)
        linalg.add_row_crossings(H, Z * np.sqrt(total).astype(precision), -1.0)
        for block, Phi, root in zip(blocks, features, roots, strict=True):
            own = np.zeros((len(Phi), len(Phi)), precision)
            linalg.add_row_crossings(own, Phi * root, 1.0)
            H[block, block] += own
        H.flat[:: len(H) + 1] += 1.0
        linalg.invert_factored_in_place(linalg.cholesky(H, "the coarse model's precision"))
        linalg.mirror_lower(H)
        HZ = linalg.product(H, Z)
        alone = self.left / (1.0 + d * self.left)
        variance = alone * (1.0 - 2.0 * share)
        for c, (block, Phi) in enumerate(zip(blocks, features, strict=True)):
            moved = linalg.product(np.ascontiguousarray(H[block, block]), Phi)
            moved -= 2.0 * HZ[block]
            variance[:, c] += np.einsum("kn,kn->n", moved, Phi)
        mean = np.einsum("kn,kn->n", HZ, Z) + np.einsum("ic,ic,ic->i", share, share, alone)
        variance += mean[:, None]
        return np.asarray(np.maximum(variance, 0.0))


def room_for(n: int, n_classes: int) -> int:
    """Features of all classes together that a model of n rows has."""
    return min(max(int(SHARE * n * np.cbrt(n_classes)), FEW * n_classes), n * n_classes)


def _pivoted(K: Single, weights: Single, depth: int) -> Single:
    """Rows of a pivoted Cholesky factor of K, at most ``depth``; pivots by weighted variance."""
    n = len(K)
    left = K.diagonal().copy()
    rows = np.empty((depth, n), K.dtype)
    for k in range(depth):
        pivot = int(np.argmax(weights * left))
        if not left[pivot] > LEAST * K[pivot, pivot]:
            return rows[:k] if k else np.zeros((1, n), K.dtype)
        row = rows[k]
        row[:] = K[pivot]
        if k:
            row -= linalg.product(np.ascontiguousarray(rows[:k, pivot])[None], rows[:k])[0]
        row /= np.sqrt(left[pivot])
        np.maximum(left - np.square(row), 0.0, out=left)
        left[pivot] = 0.0
    return rows
