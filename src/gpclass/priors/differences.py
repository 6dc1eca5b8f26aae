"""Latent differences of many classes: the map, its prior covariance and the adjoints of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from gpclass import linalg
from gpclass.likelihoods.classes import other_classes
from gpclass.linalg import Array
from gpclass.priors.joint import Codes

Covariances = Array | Sequence[Array]


def one_a_class(K: Covariances, n_classes: int, n: int) -> list[Array]:
    """Arrays of n rows and one shape for the C classes, the same one C times where it is shared."""
    if isinstance(K, np.ndarray):
        each = [K] * n_classes if K.ndim == 2 else [*K]
    else:
        each = list(K)
    shapes = sorted({np.shape(K_c) for K_c in each})
    if len(each) != n_classes or len(shapes) != 1 or len(shapes[0]) != 2 or shapes[0][0] != n:
        raise ValueError(
            f"covariances must be one array of {n} rows for all classes, or {n_classes} of one "
            f"shape, got {len(each)} of shapes {shapes}"
        )
    return each


class _ClassDifferences(NamedTuple):
    """The differences that a class is part of: ``number`` among all N, ascending.

    Those of data row i are ``number[start[i]:start[i + 1]]`` and have the class's ``sign[i]``.
    """

    number: Codes
    row: Codes
    start: Codes
    sign: Array


@final
@dataclass(frozen=True)
class Differences:
    """The linear map from the latents of C classes to ``g_ij = f_{y_i}(x_i) - f_j(x_i)``, j != y_i.

    There are ``N = n (C - 1)`` of them: rows one after the other, and in each the other classes in
    ascending order, which is KG06 eq. 45. ``codes`` of shape (n,) has the class of each row,
    from 0 to C - 1; a class may have no row.

    Raises
    ------
    ValueError
        For codes out of range, or fewer than two classes.

    Examples
    --------
    >>> import numpy as np
    >>> Differences(np.array([0, 2]), 3).of(np.array([[5.0, 3.0, 1.0], [5.0, 3.0, 1.0]]))
    array([ 2.,  4., -4., -2.])
    """

    codes: Codes
    n_classes: int

    def __post_init__(self) -> None:
        codes = self.codes
        if codes.ndim != 1 or not np.issubdtype(codes.dtype, np.integer):
            raise ValueError(
                f"codes must be a vector of integers, got shape {codes.shape} of {codes.dtype}"
            )
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}")
        if ((codes < 0) | (codes >= self.n_classes)).any():
            raise ValueError(
                f"codes must be from 0 to {self.n_classes - 1}, got {codes.min()} to {codes.max()}"
            )

    @property
    def n(self) -> int:
        """Rows of the data."""
        return len(self.codes)

    @property
    def size(self) -> int:
        """Differences: ``N = n (C - 1)``."""
        return self.n * (self.n_classes - 1)

    @cached_property
    def others(self) -> Codes:
        """The classes that each row is not of, ascending, shape (n, C - 1)."""
        return other_classes(self.codes, self.n_classes)

    @cached_property
    def _classes(self) -> tuple[_ClassDifferences, ...]:
        found = []
        for c in range(self.n_classes):
            own = self.codes == c
            part = own[:, None] | (self.others == c)
            number = np.flatnonzero(part)
            start = np.concatenate([[0], np.cumsum(part.sum(axis=1))])
            row = number // (self.n_classes - 1)
            found.append(_ClassDifferences(number, row, start, np.where(own, 1.0, -1.0)))
        return tuple(found)

    def of(self, F: Array) -> Array:
        """Differences of latents F of shape (n, C), shape (N,)."""
        rows = np.arange(self.n)[:, None]
        return np.asarray((F[rows, self.codes[:, None]] - F[rows, self.others]).ravel())

    def adjoint(self, a: Array) -> Array:
        """Transpose of `of`: sums over a class's differences with its signs, shape (n, C)."""
        A = a.reshape(self.n, self.n_classes - 1)
        result = np.empty((self.n, self.n_classes))
        rows = np.arange(self.n)
        result[rows[:, None], self.others] = -A
        result[rows, self.codes] = A.sum(axis=1)
        return result

    def cross_covariance(self, K_cross: Array, c: int, out: Array) -> None:
        """Turn the covariance of ``f_c`` with m new inputs into that of the differences, (N, m)."""
        number, row, _, sign = self._classes[c]
        out[:] = 0.0
        out[number] = K_cross[row] * sign[row, None]

    def covariance(self, K: Covariances) -> Array:
        """Prior covariance of all differences, shape (N, N).

        ``Cov(g_ij, g_kl) = [y_i = y_k] K^{y_i}_ik - [y_i = l] K^{y_i}_ik - [j = y_k] K^j_ik + [j =
        l] K^j_ik`` for K of shape (n, n), one for all classes or one for each. Of each class only
        the entries that are not zero are visited: the time is O(N^2) whatever C is. Raises
        ValueError for covariances of a wrong shape or number.

        References
        ----------
        KG06 eq. 41 to 43 (one K) and 45, extended to a covariance for each class. For two classes
        with the labels' signs s it is ``2 s s^T * K``: the binary model that KG06 name after eq. 46
        has the prior ``2 c(x, x')``.
        """
        result = np.zeros((self.size, self.size))
        covariances = one_a_class(K, self.n_classes, self.n)
        if covariances[0].shape[1] != self.n:
            raise ValueError(f"K must be square, got shape {covariances[0].shape}")
        for K_c, (number, row, start, sign) in zip(covariances, self._classes, strict=True):
            for rows in linalg.blocks(self.n):
                signed = K_c[rows] * sign
                signed *= sign[rows, None]
                part = slice(start[rows.start], start[rows.stop])
                result[np.ix_(number[part], number)] += signed[np.ix_(row[part] - rows.start, row)]
        return result

    def pullback(self, G: Array, *, shared: bool) -> Array:
        """Adjoint of `covariance`: ``<G, covariance(dK)> = <pullback(G), dK>`` for every dK.

        G of shape (N, N) is the cotangent of the differences' covariance; both triangles are read.
        The result has shape (n, n) if all classes have one K, else (C, n, n). Raises ValueError for
        a G of another size.
        """
        n = self.n
        if G.shape != (self.size, self.size):
            raise ValueError(f"G must have shape {(self.size, self.size)}, got {G.shape}")
        result = np.zeros((n, n) if shared else (self.n_classes, n, n))
        for c, (number, _, start, sign) in enumerate(self._classes):
            total = result if shared else result[c]
            for rows in linalg.blocks(n):
                first = start[rows.start]
                block = G[np.ix_(number[first : start[rows.stop]], number)]
                block = np.add.reduceat(block, start[:-1], 1)
                block = np.add.reduceat(block, start[rows] - first, 0)
                block *= sign
                block *= sign[rows, None]
                total[rows] += block
        return result
