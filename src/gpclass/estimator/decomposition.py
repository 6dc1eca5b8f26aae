"""Many classes as several binary problems: one against the rest, or each pair."""

from abc import ABC, abstractmethod
from itertools import combinations
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.linalg import solve_batch

Array = NDArray[np.float64]

# A pairwise probability of exactly 0 would make the coupling singular; no model is surer than this.
SMALLEST_PAIRWISE = 1e-12


class Subproblem(NamedTuple):
    """One binary problem: its name, its rows (None: all) and its labels -1 and +1."""

    name: str
    rows: NDArray[np.intp] | None
    y: Array


class Decomposition(ABC):
    """How the classes are split into binary problems, and their probabilities put together."""

    @abstractmethod
    def split(self, codes: NDArray[np.intp], classes: NDArray[np.generic]) -> list[Subproblem]:
        """Binary problems of the rows' class indices."""

    @abstractmethod
    def combine(self, log_odds: Array, n_classes: int) -> Array:
        """Class probabilities (m, C) from ``log P(-1), log P(+1)`` of k problems, (m, k, 2)."""

    @abstractmethod
    def combine_slopes(self, p: Array, slopes: Array, n_classes: int) -> Array:
        """Derivatives (m, C, d) of `combine` from ``P(+1)``, (m, k), and its own, (m, k, d)."""


@final
class OneVsRest(Decomposition):
    """A problem for each class, its probabilities normalised; for two classes the one problem."""

    def split(self, codes: NDArray[np.intp], classes: NDArray[np.generic]) -> list[Subproblem]:
        """Class c against all others; for two classes the second against the first."""
        if len(classes) == 2:
            y = np.where(codes == 1, 1.0, -1.0)
            return [Subproblem(f"{classes[1]} or {classes[0]}", None, y)]
        return [
            Subproblem(f"{label} or not", None, np.where(codes == c, 1.0, -1.0))
            for c, label in enumerate(classes)
        ]

    def combine(self, log_odds: Array, n_classes: int) -> Array:
        """Normalise ``P(c or not)``, in logarithms so that small ones keep their ratios."""
        if n_classes == 2:
            return np.exp(log_odds[:, 0, :])
        log_p = log_odds[:, :, 1]
        P = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def combine_slopes(self, p: Array, slopes: Array, n_classes: int) -> Array:
        """Those of ``p_c / sum_j p_j``."""
        if n_classes == 2:
            return np.concatenate([-slopes, slopes], axis=1)
        total = p.sum(axis=1)[:, None, None]
        P = p[:, :, None] / total
        return np.asarray((slopes - P * slopes.sum(axis=1, keepdims=True)) / total)


@final
class OneVsOne(Decomposition):
    """A problem for each pair of classes, coupled as Wu, Lin & Weng (2004) do."""

    def split(self, codes: NDArray[np.intp], classes: NDArray[np.generic]) -> list[Subproblem]:
        """Pairs (i, j), i < j; class j is +1, as for two classes."""
        if len(classes) == 2:
            return OneVsRest().split(codes, classes)
        problems = []
        for i, j in combinations(range(len(classes)), 2):
            rows = np.flatnonzero((codes == i) | (codes == j))
            y = np.where(codes[rows] == j, 1.0, -1.0)
            problems.append(Subproblem(f"{classes[j]} or {classes[i]}", rows, y))
        return problems

    def combine(self, log_odds: Array, n_classes: int) -> Array:
        """Pairwise coupling, the second method of Wu, Lin & Weng (2004, JMLR 5).

        Minimises ``sum_i sum_{j != i} (r_ji p_i - r_ij p_j)^2`` over the simplex, where
        ``r_ij = P(i | i or j)``; the minimiser solves ``[Q e; e^T 0] [p; b] = [0; 1]`` with
        ``Q_ii = sum_{j != i} r_ji^2`` and ``Q_ij = -r_ji r_ij``.
        """
        if n_classes == 2:
            return OneVsRest().combine(log_odds, 2)
        _, system = _coupled(np.exp(log_odds[:, :, 1]), n_classes)
        P = _solved(system)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def combine_slopes(self, p: Array, slopes: Array, n_classes: int) -> Array:
        """``[Q e; e^T 0] [dp; db] = -[dQ p; 0]``."""
        if n_classes == 2:
            return OneVsRest().combine_slopes(p, slopes, 2)
        r, system = _coupled(p, n_classes)
        P = _solved(system)
        known = (p > SMALLEST_PAIRWISE) & (p < 1.0 - SMALLEST_PAIRWISE)
        target = np.zeros((len(p), n_classes + 1, slopes.shape[2]))
        for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
            # of r_ji; that of r_ij is minus this
            slope = np.where(known[:, k, None], slopes[:, k], 0.0)
            r_ji, r_ij, difference = r[:, j, i], r[:, i, j], r[:, i, j] - r[:, j, i]
            by_i = 2.0 * r_ji * P[:, i] - difference * P[:, j]
            by_j = -2.0 * r_ij * P[:, j] - difference * P[:, i]
            target[:, i] -= by_i[:, None] * slope
            target[:, j] -= by_j[:, None] * slope
        return solve_batch(system, target)[:, :n_classes]


def _coupled(p: Array, n_classes: int) -> tuple[Array, Array]:
    """``r_ij = P(i | i or j)``, (m, C, C), from P(j | i or j), (m, k); and the linear system."""
    m = len(p)
    r = np.zeros((m, n_classes, n_classes))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        p_j = np.clip(p[:, k], SMALLEST_PAIRWISE, 1 - SMALLEST_PAIRWISE)
        r[:, j, i], r[:, i, j] = p_j, 1.0 - p_j
    system = np.zeros((m, n_classes + 1, n_classes + 1))
    Q = system[:, :n_classes, :n_classes]
    Q[:] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(n_classes)
    Q[:, diagonal, diagonal] = (r**2).sum(axis=1)
    system[:, :n_classes, n_classes] = 1.0
    system[:, n_classes, :n_classes] = 1.0
    return r, system


def _solved(system: Array) -> Array:
    """Solution p of the system whose last equation says that it sums to one, (m, C)."""
    n_classes = system.shape[1] - 1
    target = np.zeros(system.shape[:2])
    target[:, n_classes] = 1.0
    return np.maximum(solve_batch(system, target)[:, :n_classes], 0.0)


DECOMPOSITIONS: Final[dict[str, type[OneVsRest] | type[OneVsOne]]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
}
