"""Latent differences: many classes as one binary problem in ``f_y - f_j`` (KG06 section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass import linalg
from gpclass.inference import Approximation, InferenceMethod, SitePosterior
from gpclass.inference.of_binary import OfBinary
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Likelihood
from gpclass.priors import DensePrior
from gpclass.priors.dense import DenseFactor

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Covariances = Array | Sequence[Array]


def _one_a_class(K: Covariances, n_classes: int, n: int) -> list[Array]:
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


def _is_shared(K: Covariances) -> bool:
    return isinstance(K, np.ndarray) and K.ndim == 2


class _Members(NamedTuple):
    """The differences that a class is part of, in ascending order.

    ``number`` has their numbers among all N; those of data row i are
    ``number[start[i]:start[i + 1]]`` and have the class with the sign ``sign[i]``.
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
    ascending order, which is KG06 eq. 45.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Class of each row, 0 to C - 1.
    n_classes : int
        C; a class may have no row.

    Raises
    ------
    ValueError
        For codes out of range, or fewer than two classes.

    Examples
    --------
    >>> import numpy as np
    >>> differences = Differences(np.array([0, 2]), 3)
    >>> differences.others
    array([[1, 2],
           [0, 1]])
    >>> differences.of(np.array([[5.0, 3.0, 1.0], [5.0, 3.0, 1.0]]))
    array([ 2.,  4., -4., -2.])
    """

    codes: Codes
    n_classes: int

    def __post_init__(self) -> None:
        """Refuse what is no classification."""
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
        """Differences: ``n (C - 1)``."""
        return self.n * (self.n_classes - 1)

    @cached_property
    def others(self) -> Codes:
        """The classes that each row is not of, ascending, shape (n, C - 1)."""
        column = np.arange(self.n_classes - 1)
        return column + (column >= self.codes[:, None])

    @cached_property
    def _members(self) -> tuple[_Members, ...]:
        found = []
        for c in range(self.n_classes):
            own = self.codes == c
            part = own[:, None] | (self.others == c)
            number = np.flatnonzero(part)
            count = part.sum(axis=1)
            start = np.concatenate([[0], np.cumsum(count)])
            row = number // (self.n_classes - 1)
            found.append(_Members(number, row, start, np.where(own, 1.0, -1.0)))
        return tuple(found)

    def of(self, F: Array) -> Array:
        """Differences of latents F of shape (n, C), shape (N,)."""
        rows = np.arange(self.n)[:, None]
        return np.asarray((F[rows, self.codes[:, None]] - F[rows, self.others]).ravel())

    def adjoint(self, a: Array) -> Array:
        """Sums over the differences that a class is part of, with its signs, shape (n, C)."""
        A = a.reshape(self.n, self.n_classes - 1)
        result = np.empty((self.n, self.n_classes))
        rows = np.arange(self.n)
        result[rows[:, None], self.others] = -A
        result[rows, self.codes] = A.sum(axis=1)
        return result

    def cross_covariance(self, K_cross: Array, c: int, out: Array) -> None:
        """Covariance of the differences with ``f_c`` at m new inputs, into ``out`` (N, m).

        ``K_cross`` of shape (n, m) is that of f_c itself.
        """
        number, row, _, sign = self._members[c]
        out[:] = 0.0
        out[number] = K_cross[row] * sign[row, None]

    def covariance(self, K: Covariances) -> Array:
        """Sum the classes' parts of the prior covariance; see `difference_covariance`."""
        result = np.zeros((self.size, self.size))
        covariances = _one_a_class(K, self.n_classes, self.n)
        if covariances[0].shape[1] != self.n:
            raise ValueError(f"K must be square, got shape {covariances[0].shape}")
        for K_c, (number, row, start, sign) in zip(covariances, self._members, strict=True):
            for i in range(0, self.n, linalg.BLOCK):
                stop = min(i + linalg.BLOCK, self.n)
                signed = K_c[i:stop] * sign
                signed *= sign[i:stop, None]
                part = slice(start[i], start[stop])
                result[np.ix_(number[part], number)] += signed[np.ix_(row[part] - i, row)]
        return result

    def pullback(self, G: Array, *, shared: bool) -> Array:
        """Sum over all the differences of two rows; see `difference_pullback`."""
        n = self.n
        result = np.zeros((n, n) if shared else (self.n_classes, n, n))
        for c, (number, _, start, sign) in enumerate(self._members):
            total = result if shared else result[c]
            for i in range(0, n, linalg.BLOCK):
                stop = min(i + linalg.BLOCK, n)
                first = start[i]
                columns = np.add.reduceat(
                    G[np.ix_(number[first : start[stop]], number)], start[:-1], 1
                )
                block = np.add.reduceat(columns, start[i:stop] - first, 0)
                block *= sign
                block *= sign[i:stop, None]
                total[i:stop] += block
        return result


def difference_covariance(K: Covariances, codes: Codes, n_classes: int) -> Array:
    """Prior covariance of all n(C - 1) latent differences.

    ``Cov(g_ij, g_kl) = [y_i = y_k] K^{y_i}_ik - [y_i = l] K^{y_i}_ik - [j = y_k] K^j_ik
    + [j = l] K^j_ik``. Of the classes' parts only the entries that are not zero are visited, so
    the time is O(N^2) whatever C is; beside the result there are 64 rows at a time.

    Parameters
    ----------
    K : ndarray of shape (n, n), or sequence of C of them
        Prior covariance, one for all classes or one for each.
    codes : ndarray of shape (n,)
    n_classes : int

    Returns
    -------
    ndarray of shape (N, N)
        In the order of `Differences`.

    Raises
    ------
    ValueError
        For codes out of range, or covariances of a wrong shape or number.

    References
    ----------
    KG06 eq. 41 to 43 (one K) and 45, extended to a covariance for each class. For two classes it
    is ``2 s s^T * K`` with the signs s of the labels, not K: KG06 say after eq. 46 that the
    binary model results, which is so for a prior of ``2 c(x, x')``.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> difference_covariance(K, np.array([0, 1]), 2)
    array([[ 2., -1.],
           [-1.,  2.]])
    """
    return Differences(codes, n_classes).covariance(K)


def difference_pullback(G: Array, codes: Codes, n_classes: int, *, shared: bool) -> Array:
    """Adjoint of `difference_covariance`: a cotangent by the differences' prior, pulled back.

    ``<G, difference_covariance(dK)> = <difference_pullback(G), dK>`` for every dK.

    Parameters
    ----------
    G : ndarray of shape (N, N)
        Both triangles are read.
    codes : ndarray of shape (n,)
    n_classes : int
    shared : bool
        Whether all classes have one K.

    Returns
    -------
    ndarray of shape (n, n) if shared, else (C, n, n)

    Raises
    ------
    ValueError
        For codes out of range or a G of another size.

    Examples
    --------
    >>> import numpy as np
    >>> difference_pullback(np.eye(2), np.array([0, 1]), 2, shared=True)
    array([[2., 0.],
           [0., 2.]])
    """
    differences = Differences(codes, n_classes)
    if G.shape != (differences.size, differences.size):
        raise ValueError(f"G must have shape {(differences.size, differences.size)}, got {G.shape}")
    return differences.pullback(G, shared=shared)


@final
@dataclass(frozen=True)
class DifferencePosterior:
    """Posterior of the latents of all classes, given a Gaussian posterior of their differences.

    The differences say nothing about what all classes have in common; there the prior stays.

    Parameters
    ----------
    differences : Differences
    posterior : SitePosterior
        Of the N differences; its prior is a `DensePrior`.

    Examples
    --------
    >>> import numpy as np
    >>> K, codes = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0, 2])
    >>> sites = Sites(np.ones(4), np.ones(4))
    >>> posterior = DifferencePosterior.from_sites(K, codes, 3, sites)
    >>> mean, covariance = posterior.predict(K, np.ones(2))
    >>> mean.round(3)
    array([[ 0.444, -0.333, -0.111],
           [-0.111, -0.333,  0.444]])
    >>> covariance.sum(axis=(1, 2)).round(9)
    array([3., 3.])
    """

    differences: Differences
    posterior: SitePosterior

    @classmethod
    def from_sites(
        cls,
        K: Covariances,
        codes: Codes,
        n_classes: int,
        sites: Sites,
        *,
        description: str = "K",
    ) -> "DifferencePosterior":
        """Condition the prior of the differences on their sites.

        Parameters
        ----------
        K : ndarray of shape (n, n), or sequence of C of them
        codes : ndarray of shape (n,)
        n_classes : int
        sites : Sites
            N of them, of precisions of any sign.
        description : str, default="K"
            What K came from, for error messages.

        Raises
        ------
        ValueError
            For codes, covariances or sites of wrong shapes.
        NotPositiveDefiniteError
            Where the posterior beside the sites is not proper.
        """
        differences = Differences(codes, n_classes)
        if len(sites) != differences.size:
            raise ValueError(f"{differences.size} sites are needed, got {len(sites)}")
        prior = DensePrior(differences.covariance(K), description)
        return cls(differences, SitePosterior.from_sites(prior, sites))

    @property
    def sites(self) -> Sites:
        """The Gaussian sites of the differences."""
        return self.posterior.sites

    @cached_property
    def mean_weights(self) -> Array:
        """``a`` of shape (n, C): the mean of ``f_c`` at new inputs is ``K_cross_c^T a_c``.

        KG06's eq. 52 in two steps: their ``g^{m,l}`` is the mean of ``f_m - f_l``.
        """
        return self.differences.adjoint(self.posterior.mean_weights)

    def predict(self, K_cross: Covariances, k_diag: Array) -> tuple[Array, Array]:
        """Latent means and covariances at m new inputs.

        Parameters
        ----------
        K_cross : ndarray of shape (n, m), or sequence of C of them
            Prior covariance of training and new inputs, one for all classes or one for each.
        k_diag : ndarray of shape (m,) or (m, C)
            Prior variances of the new inputs.

        Returns
        -------
        mean : ndarray of shape (m, C)
        covariance : ndarray of shape (m, C, C)
            A row's bits do not depend on the others. A variance that rounding made negative is 0.

        Raises
        ------
        ValueError
            For wrong shapes.

        References
        ----------
        KG06 eq. 51 before its integral, for f in the place of its differences:
        ``Cov(f_*) = k_** - V^T R V`` with the (N, C) cross covariances V of a row.
        """
        C = self.differences.n_classes
        blocks = _one_a_class(K_cross, C, self.differences.n)
        m = blocks[0].shape[1]
        if k_diag.shape not in ((m,), (m, C)):
            raise ValueError(f"k_diag must have shape {(m,)} or {(m, C)}, got {k_diag.shape}")
        mean, covariance = np.empty((m, C)), np.zeros((m, C, C))
        diagonal = np.arange(C)
        covariance[:, diagonal, diagonal] = k_diag if k_diag.ndim == 2 else k_diag[:, None]
        # as much memory as the factor, at most
        width = max(linalg.TILE, self.differences.size // C // linalg.TILE * linalg.TILE)
        for start in range(0, m, width):
            part = slice(start, min(start + width, m))
            self._predict_chunk([K[:, part] for K in blocks], mean[part], covariance[part])
        covariance[:, diagonal, diagonal] = np.maximum(covariance[:, diagonal, diagonal], 0.0)
        return mean, covariance

    def _predict_chunk(self, blocks: list[Array], mean: Array, covariance: Array) -> None:
        m, C = len(mean), len(blocks)
        # whole tiles: see linalg.TILE
        width = m + -m % linalg.TILE
        V = np.empty((self.differences.size, C * width))
        weights = self.mean_weights
        for c, K in enumerate(blocks):
            padded = np.zeros((len(K), width))
            padded[:, :m] = K
            # einsum without optimisation sums in one order whatever m is
            mean[:, c] = np.einsum("ij,i->j", padded, weights[:, c])[:m]
            self.differences.cross_covariance(padded, c, V[:, c * width : (c + 1) * width])
        n_positive = self._half_solve(V)
        for c in range(C):
            left = V[:, c * width : (c + 1) * width]
            for d in range(c + 1):
                right = V[:, d * width : (d + 1) * width]
                taken = np.einsum("ij,ij->j", left[:n_positive], right[:n_positive])
                taken -= np.einsum("ij,ij->j", left[n_positive:], right[n_positive:])
                covariance[:, c, d] -= taken[:m]
                if d < c:
                    covariance[:, d, c] -= taken[:m]

    def joint(self, K_cross: Covariances, K_new: Covariances) -> tuple[Array, Array]:
        """Latent means, and covariances of all values at m new inputs together.

        Parameters
        ----------
        K_cross : ndarray of shape (n, m), or sequence of C of them
        K_new : ndarray of shape (m, m), or sequence of C of them
            Prior covariance of the new inputs.

        Returns
        -------
        mean : ndarray of shape (m, C)
        covariance : ndarray of shape (m, C, m, C)
        """
        C = self.differences.n_classes
        blocks = _one_a_class(K_cross, C, self.differences.n)
        m = blocks[0].shape[1]
        V = np.empty((self.differences.size, m, C))
        covariance = np.zeros((m, C, m, C))
        for c, (K, new) in enumerate(zip(blocks, _one_a_class(K_new, C, m), strict=True)):
            part = np.empty((self.differences.size, m))
            self.differences.cross_covariance(K, c, part)
            V[:, :, c] = part
            covariance[:, c, :, c] = new
        W = V.reshape(len(V), m * C)
        total = covariance.reshape(m * C, m * C)
        n_positive = self._half_solve(W)
        linalg.add_row_products(total, W[:n_positive], -1.0)
        linalg.add_row_products(total, W[n_positive:], 1.0)
        linalg.mirror_lower(total)
        weights = self.mean_weights
        mean = np.stack([weights[:, c] @ K for c, K in enumerate(blocks)], axis=1)
        return mean, covariance

    def _half_solve(self, V: Array) -> int:
        """Overwrite V by W with ``V^T R V = W_+^T W_+ - W_-^T W_-``; return the rows of W_+."""
        factor = self.posterior.factor
        if not isinstance(factor, DenseFactor):
            raise TypeError(f"the differences need a DensePrior, got a {type(factor).__name__}")
        V *= np.sqrt(np.abs(factor.tau))[:, None]
        return factor.scaled.half_solve_in_place(V)


@final
@dataclass(frozen=True)
class DifferenceApproximation(OfBinary):
    """What a binary method made of the differences; all but the latter is read from it.

    Parameters
    ----------
    binary : Approximation
        Of the N differences, all of label +1.
    differences : Differences
    shared : bool
        Whether all classes have one K.

    Notes
    -----
    ``log_evidence`` approximates ``log E[prod_i prod_{j != y_i} t(g_ij)]`` under the prior. For
    more than two classes the product of a row's terms, summed over the classes that the row might
    have, is not one. So this compares hyperparameters of the kernel, but not this model with
    others. (Noisy thresholds have the sum ``((1 - eps)^C - eps^C) / (1 - 2 eps)`` for all f,
    others one that depends on f.)
    """

    binary: Approximation
    differences: Differences
    shared: bool

    @cached_property
    def posterior(self) -> DifferencePosterior:
        """Posterior of the latents of the classes."""
        return DifferencePosterior(self.differences, self.binary.posterior)

    def evidence_pullback(self) -> Array:
        """``d log_evidence / dK``, shape (n, n) for one K, else (C, n, n)."""
        G = self.binary.evidence_pullback()
        return self.differences.pullback(G, shared=self.shared)


def latent_differences(
    K: Covariances,
    codes: Codes,
    n_classes: int,
    method: InferenceMethod,
    likelihood: Likelihood,
    *,
    weights: ArrayLike | None = None,
    init: DifferenceApproximation | Sites | None = None,
    description: str = "K",
) -> DifferenceApproximation:
    """Run a binary method on the latent differences of many classes.

    Each difference ``g_ij = f_{y_i}(x_i) - f_j(x_i)`` has the term ``p(+1 | g_ij)``. The cost is
    that of the method with ``N = n (C - 1)`` rows: N^3 time and N^2 memory.

    Parameters
    ----------
    K : ndarray of shape (n, n), or sequence of C of them
        Prior covariance, one for all classes or one for each.
    codes : ndarray of shape (n,)
    n_classes : int
    method : InferenceMethod
    likelihood : Likelihood
    weights : array-like of shape (n,), default=None
        A row's weight is that of all its C - 1 terms: 2 is the row given twice.
    init : DifferenceApproximation or Sites, default=None
        Where to start.
    description : str, default="K"
        What K came from, for error messages.

    Returns
    -------
    DifferenceApproximation

    Raises
    ------
    ValueError
        For codes, covariances, weights or sites of wrong shapes.
    NotPositiveDefiniteError
        Where a K is not positive semi-definite.

    References
    ----------
    KG06 eq. 47 to 49. Their noisy term of a row, ``(1 - 2 eps) prod_j H(g_ij) + eps``, is no
    product over j; here each factor has its own noise.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> q = latent_differences(np.eye(3), np.array([0, 1, 2]), 3, EP(), Probit())
    >>> q.evidence_pullback().shape, q.converged
    ((3, 3), True)
    """
    differences = Differences(codes, n_classes)
    prior = DensePrior(differences.covariance(K), description)
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (differences.n,):
            raise ValueError(f"weights must have shape {(differences.n,)}, got {weights.shape}")
        weights = np.repeat(weights, n_classes - 1)
    start = init.sites if isinstance(init, DifferenceApproximation) else init
    y = np.ones(differences.size)
    approximation = method(prior, y, likelihood, weights=weights, init=start)
    return DifferenceApproximation(approximation, differences, _is_shared(K))
