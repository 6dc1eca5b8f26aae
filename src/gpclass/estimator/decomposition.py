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
        m = len(log_odds)
        r = np.zeros((m, n_classes, n_classes))
        for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
            p_j = np.clip(np.exp(log_odds[:, k, 1]), SMALLEST_PAIRWISE, 1 - SMALLEST_PAIRWISE)
            r[:, j, i], r[:, i, j] = p_j, 1.0 - p_j
        rt = r.transpose(0, 2, 1)
        system = np.zeros((m, n_classes + 1, n_classes + 1))
        Q = system[:, :n_classes, :n_classes]
        Q[:] = -r * rt
        diagonal = np.arange(n_classes)
        Q[:, diagonal, diagonal] = (r**2).sum(axis=1)
        system[:, :n_classes, n_classes] = 1.0
        system[:, n_classes, :n_classes] = 1.0
        target = np.zeros((m, n_classes + 1))
        target[:, n_classes] = 1.0
        P = np.maximum(solve_batch(system, target)[:, :n_classes], 0.0)
        return np.asarray(P / P.sum(axis=1, keepdims=True))


DECOMPOSITIONS: Final[dict[str, type[OneVsRest] | type[OneVsOne]]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
}
