"""The prior under which binary EP on probit terms is nested EP for the multinomial probit."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.newton import TINY
from gpclass.priors import (
    CovarianceProducts,
    DensePrior,
    PosteriorCovariance,
    Prior,
    SequentialCovariance,
    SiteFactor,
)
from gpclass.priors.classes import ClassPrior, ClassSites
from gpclass.priors.coarse import CoarseClasses, room_for
from gpclass.priors.coupled import CoupledFactor
from gpclass.priors.deviations import mean_deviations, precision_roots

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Latents up to which an N x N covariance is formed where one is asked for: 128 MB.
LARGEST_DENSE: Final = 4096
# Directions that the sites hold, for each feature of a coarse model, beyond which it misleads.
CROWDED: Final = 1.2
# Part of a right-hand side that a solution may leave.
LEFT: Final = 1e-12
# And that one of single precision may leave at first.
LEFT_IN_SINGLE: Final = 1e-3
# Variance beyond which single precision holds nothing of use.
LARGEST_IN_SINGLE: Final = 1e12
# Bound of a condition beyond which it was found to hold too little.
LARGEST_CONDITION: Final = 1e6


@final
@dataclass(frozen=True, eq=False)
class NestedPrior(Prior):
    """Prior of the latents whose probit terms make up the multinomial probit.

    A row of class y has the C - 1 latents ``g_j = f_y - f_j + u``, one for each other class j, and
    one ``u ~ N(0, 1)`` that they share. With the binary probit's ``Phi(g_j)`` for terms,
    ``p(y | f) = int N(u) prod_j Phi(u + f_y - f_j) du``: binary EP under this prior is nested EP
    for the multinomial probit, since the tilted distribution of a row that nested EP's inner
    iteration approximates has just these terms, and what its sites leave for the classes is
    ``class_sites``.

    ``K_g = A K A^T + U`` is never formed: with u integrated out, site precisions tau become
    ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)`` in the latents f of a row, where ``d_y = 1`` and
    ``d_j = tau_j``, and `ClassPrior` answers.

    A row that is given m times has m values of u, and the latents of its copies stay exchangeable:
    sites are kept as totals over the copies, ``multiply`` is about the copies' mean, whose u has
    the variance 1 / m (then ``d_y = m``), and marginal variances are those of one copy, whose own
    deviation from the mean adds ``(m - 1) / (m + sum_j tau_j)``.

    Latents are in the order of the rows, those of a row by ascending j.

    Parameters
    ----------
    class_prior : ClassPrior
    codes : ndarray of shape (n,)
        Classes of the rows, integers from 0.
    counts : ndarray of shape (n,), default=None
        How often each row is given, whole numbers from one; None: once.
    single : bool, default=False
        Whether factors are made in single precision; see `roughly`.
    last : optional
        Keeps the classes' factor that was made last; a copy of the prior shares it.

    References
    ----------
    Riihimäki, Jylänki & Vehtari (2013), eq. 3 for the likelihood, section 3.2 for the auxiliary
    variable and the tilted distribution.

    Examples
    --------
    >>> import numpy as np
    >>> prior = NestedPrior(ClassPrior(np.eye(2), 3), np.array([0, 2]))
    >>> prior.n, prior.diagonal
    (4, array([3., 3., 3., 3.]))
    """

    class_prior: ClassPrior
    codes: Codes
    counts: Array | None = None
    single: bool = False
    last: "_Last" = field(default_factory=lambda: _Last(), repr=False)
    mean: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Refuse codes and counts that do not belong to the prior.

        Raises
        ------
        ValueError
            For codes that are not one class for each row, or counts that are not whole numbers
            from one.
        """
        n, n_classes = self.class_prior.n, self.class_prior.n_classes
        codes = np.asarray(self.codes)
        if codes.shape != (n,) or not np.issubdtype(codes.dtype, np.integer):
            raise ValueError(
                f"codes must be one integer for each of {n} rows, got shape {codes.shape} of "
                f"{codes.dtype}"
            )
        if n and not (codes.min() >= 0 and codes.max() < n_classes):
            raise ValueError(
                f"codes must lie in 0 to {n_classes - 1}, got {codes.min()} to {codes.max()}"
            )
        counts = self.multiplicity
        if counts.shape != (n,) or not ((counts >= 1.0) & (counts % 1.0 == 0.0)).all():
            raise ValueError(f"counts must be {n} whole numbers from one, got {self.counts}")

    @cached_property
    def multiplicity(self) -> Array:
        """How often each row is given, shape (n,)."""
        if self.counts is None:
            return np.ones(self.class_prior.n)
        return np.asarray(self.counts, dtype=np.float64)

    @cached_property
    def others(self) -> Codes:
        """The classes j of each row's latents, shape (n, C - 1), ascending."""
        ahead = np.arange(self.class_prior.n_classes - 1)
        return np.asarray(ahead + (ahead >= self.codes[:, None]))

    @property
    def n(self) -> int:
        """Number N = n (C - 1) of latents."""
        return self.others.size

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances of one copy's latents, shape (N,)."""
        variances = self.class_prior.diagonal
        return (self._own(variances) + self._other(variances) + 1.0).ravel()

    def multiply(self, v: Array) -> Array:
        """``K_g v`` for the mean over a row's copies, shape (N,)."""
        shared = v.reshape(self.others.shape).sum(axis=1) / self.multiplicity
        F = self.class_prior.multiply(self.gather(v))
        return np.asarray((self._own(F) - self._other(F) + shared[:, None]).ravel())

    def factor(self, tau: Array) -> "NestedFactor":
        """Factorise beside site precisions (totals over a row's copies) that are not negative.

        Raises
        ------
        NotPositiveDefiniteError
            For a negative precision, which no probit term has, for a K that is not positive
            semi-definite, and for one that single precision does not hold.
        """
        if not (tau >= 0.0).all():
            raise NotPositiveDefiniteError(
                f"site precisions under a NestedPrior must not be negative, got {np.min(tau)}"
            )
        factor = NestedFactor(self, tau)
        if tau.any():
            _ = factor.coupled  # what cannot be factorised is refused here
            if self.single:
                factor.check()
        return factor

    def roughly(self, tau: Array) -> "NestedPrior | None":
        """The same prior with factors in single precision, which cost half as much.

        None where such a factor would be of no use. The two share the memory of one factor.
        """
        of_use = tau.any() and self._fits_single
        if not (of_use and self._condition(tau) <= LARGEST_CONDITION):
            return None
        return replace(self, single=True)

    @property
    def _fits_single(self) -> bool:
        return float(self.diagonal.max(initial=0.0)) <= LARGEST_IN_SINGLE

    def _condition(self, tau: Array) -> float:
        """Bound of the condition of every class's ``I + S K S``, by its trace."""
        traces = (self.precisions(tau) * self.class_prior.diagonal).sum(axis=0)
        return 1.0 + float(traces.max(initial=0.0))

    def gather(self, v: Array) -> Array:
        """``A^T v``: what latents g say, summed for the classes' latents f, shape (n, C)."""
        terms = v.reshape(self.others.shape)
        return self._classes(terms.sum(axis=1), -terms)

    def precisions(self, tau: Array) -> Array:
        """The d of the sites with u integrated out, shape (n, C); see `ClassSites`."""
        return self._classes(self.multiplicity, tau.reshape(self.others.shape))

    def class_sites(self, sites: Sites) -> ClassSites:
        """Sites in the classes' latents f, with u integrated out.

        A row's ``sum_j nu_j g_j - tau_j g_j^2 / 2`` becomes ``b^T f - f^T W f / 2`` with
        ``b_j = -(nu_j - tau_j N / T)`` and ``b_y = m N / T`` for N the sum of nu and T that of d.
        """
        return ClassSites(self.given_u(sites.nu, sites.tau), self.precisions(sites.tau))

    def given_u(self, r: Array, tau: Array) -> Array:
        """``A^T (I + T U)^-1 r``, shape (n, C)."""
        terms, tau = r.reshape(self.others.shape), tau.reshape(self.others.shape)
        # the same sum as in the factor's d, so that rows of what comes out sum to zero
        share = terms.sum(axis=1) / (self.multiplicity + tau.sum(axis=1))
        return self._classes(self.multiplicity * share, tau * share[:, None] - terms)

    def check(self) -> None:
        """That of the classes' prior."""
        self.class_prior.check()

    def inner(self, G: Array) -> float:
        """``sum G K`` over the classes, for G of shape (n, n) or (C, n, n)."""
        return float(np.sum(np.asarray(G) * np.asarray(self.class_prior.held)))

    def scatter(self, w: Array) -> Array:
        """The v whose ``A^T v`` is w of shape (n, C), for rows that sum to zero; shape (N,)."""
        return np.asarray(-self._other(w).ravel())

    def dense(self) -> DensePrior:
        """The same prior with ``K_g`` of shape (N, N) in memory.

        Raises
        ------
        ValueError
            For more than `LARGEST_DENSE` latents.
        """
        if self.n > LARGEST_DENSE:
            raise ValueError(
                f"the covariance of {self.n} = n (C - 1) latents is not formed (the limit is "
                f"{LARGEST_DENSE}): take the parallel schedule"
            )
        n, other = len(self.codes), self.others
        row = np.repeat(np.arange(n), other.shape[1])
        own, j = self.codes[row], other.ravel()
        K_g = np.zeros((self.n, self.n))
        for c, K in enumerate(self.class_prior.covariances):
            sign = (own == c).astype(np.float64) - (j == c)
            K_g += sign[:, None] * K[np.ix_(row, row)] * sign
        K_g += (row[:, None] == row) / self.multiplicity[row]
        return DensePrior(K_g, self.class_prior.description)

    def _own(self, F: Array) -> Array:
        return np.take_along_axis(F, self.codes[:, None], axis=1)

    def _other(self, F: Array) -> Array:
        return np.take_along_axis(F, self.others, axis=1)

    def _classes(self, own: Array, other: Array) -> Array:
        """Array of shape (n, C) of what belongs to a row's own class and to the others."""
        F = np.empty((len(other), other.shape[1] + 1))
        np.put_along_axis(F, self.codes[:, None], own[:, None], axis=1)
        np.put_along_axis(F, self.others, other, axis=1)
        return F


@final
@dataclass(frozen=True)
class NestedCoarse:
    """How the marginal variances under a `NestedPrior` move, nearly.

    Parameters
    ----------
    prior : NestedPrior
    classes : CoarseClasses
    """

    prior: NestedPrior
    classes: CoarseClasses

    def variances(self, tau: Array, *, few_digits: bool) -> Array:
        """Variances for one copy of each row beside site precisions of shape (N,)."""
        prior, d = self.prior, self.prior.precisions(tau)
        found = self.classes.deviations(d, single=few_digits)
        deviations = np.take_along_axis(found, prior.others, axis=1)
        noise = prior.multiplicity / d.sum(axis=1)
        return np.asarray((deviations + noise[:, None]).ravel())


@dataclass
class _Last:
    """The classes' factor of one set of precisions.

    It has C matrices, and as many again for its variances. An iteration hardly ever goes back to
    the factor before the last, so a prior keeps one: what is asked of another is made again.
    """

    precision: Array | None = None
    single: bool = False
    coupled: CoupledFactor | None = None

    def of(self, prior: NestedPrior, precision: Array) -> CoupledFactor:
        known = self.precision is precision and self.single == prior.single
        if self.coupled is None or not known:
            self.precision = self.coupled = None  # its memory, before the next is made
            d = prior.precisions(precision)
            self.coupled = prior.class_prior.factor(d, single=prior.single)
            self.precision, self.single = precision, prior.single
        return self.coupled


@final
@dataclass(frozen=True, eq=False)
class NestedFactor(SiteFactor):
    """A `NestedPrior` beside site precisions; see `SiteFactor` for what is answered.

    Every question goes to the classes' latents. With ``B = A^T (I + T U)^-1 r`` the solution x of
    ``(I + T K_g) x = r`` has ``A^T x = (I + W K)^-1 B``, whose entries at the other classes are
    those of x with the sign turned, so that nothing else has to be solved. ``|I + T K_g|`` is
    ``|I + W K|`` times ``1 + sum_j tau_j / m`` for every copy of every row. Given f, a row's u is
    Gaussian of precision ``t = m + sum_j tau_j``, and ``g_j = f^ - f_j + N(0, m / t)`` for one
    copy, where f^ is the mean of the row's f weighted by d.

    Parameters
    ----------
    prior : NestedPrior
    precision : ndarray of shape (N,)
        Site precisions.
    """

    has_products: ClassVar[bool] = False

    prior: NestedPrior
    precision: Array

    @property
    def coupled(self) -> CoupledFactor:
        """Factor of the classes' prior beside the sites without u."""
        return self.prior.last.of(self.prior, self.precision)

    @property
    def tau(self) -> Array:
        """Site precisions, shape (N,)."""
        return self.precision

    @property
    def _row_sums(self) -> Array:
        return np.asarray(self.precision.reshape(self.prior.others.shape).sum(axis=1))

    @property
    def log_det(self) -> float:
        """``log |I + T K_g|`` over all copies."""
        m = self.prior.multiplicity
        return self.coupled.log_det + float(m @ np.log1p(self._row_sums / m))

    def solve(self, r: Array) -> Array:
        """``(I + T K_g)^-1 r``, shape (N,).

        The solution is exact to rounding, but what it leaves of r is not: K makes much of it where
        its variances are large. A second solve for what is left mends that. Single precision is
        for what is not exact in any case.
        """
        if not self.precision.any():
            return r.copy()
        x = self._solve(r)
        if self.prior.single:
            return x
        left, part = self._left(r, x)
        return x + self._solve(left) if part > LEFT else x

    def check(self) -> None:
        """Refuse what single precision does not hold.

        Raises
        ------
        NotPositiveDefiniteError
            Where rounding leaves much of a right-hand side.
        """
        _, part = self._left(self.precision, self._solve(self.precision))
        if not part <= LEFT_IN_SINGLE:
            raise NotPositiveDefiniteError(
                f"single precision leaves {part:.1g} of a right-hand side"
            )

    def _left(self, r: Array, x: Array) -> tuple[Array, float]:
        """What a solution leaves of r, and its size as a part of what is summed."""
        moved = self.precision * self.prior.multiply(x)
        left = r - x - moved
        size = np.maximum(np.abs(r), np.abs(moved)).max(initial=0.0)
        return left, float(np.abs(left).max(initial=0.0)) / max(float(size), TINY)

    def _solve(self, r: Array) -> Array:
        return self.prior.scatter(self.coupled.shrink(self.prior.given_u(r, self.precision)))

    def coarse(self) -> "NestedCoarse | None":
        """Cheap model of the marginal variances beside precisions near these.

        None where the sites hold more directions of the classes' latents than it has room for, or
        where single precision, in which its features are found, holds nothing.
        """
        if not self.prior._fits_single:
            return None
        d = self.coupled.d
        # the trace of B_c^-1 leaves what the sites hold of n
        left = self.coupled.precision_diagonal / np.where(d > 0.0, d, np.inf)
        if float((d > 0.0).sum() - left.sum()) > CROWDED * room_for(*d.shape):
            return None
        return NestedCoarse(self.prior, CoarseClasses.of(self.prior.class_prior, d))

    def covariance(self) -> "NestedCovariance":
        """Marginal variances for one copy of each row."""
        if not self.precision.any():
            return NestedCovariance(self, self.prior.diagonal)
        m = self.prior.multiplicity
        deviations = mean_deviations(self.coupled, self.prior.others)
        variances = (deviations + (m / (m + self._row_sums))[:, None]).ravel()
        return NestedCovariance(self, np.asarray(variances))

    def sequential_covariance(self) -> "NestedSequential":
        """Sigma of the copies' means, by way of the dense prior.

        Raises
        ------
        ValueError
            For too many latents.
        """
        dense = self.prior.dense().factor(self.precision).sequential_covariance()
        return NestedSequential(self.prior, dense)

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (N, m), which is overwritten."""
        reduced = np.empty(K_cross.shape[1])
        for i, column in enumerate(K_cross.T):
            # R k = (I + T K)^-1 T k
            reduced[i] = float(column @ self.solve(self.precision * column))
        return reduced

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T R K_cross`` of shape (m, m); both arguments are overwritten."""
        for i, column in enumerate(K_cross.T.copy()):
            K_new[:, i] -= self.solve(self.precision * column) @ K_cross
        return K_new


@final
@dataclass(frozen=True, eq=False)
class NestedCovariance(PosteriorCovariance):
    """Marginal variances, shape (N,), for one copy of each row."""

    factor: NestedFactor
    variances: Array

    def products(self) -> CovarianceProducts:
        """Products with Sigma of the copies' means, by way of the dense prior.

        Raises
        ------
        ValueError
            For too many latents.
        """
        factor = self.factor
        return factor.prior.dense().factor(factor.precision).covariance().products()

    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Array:
        """``d log Z / dK``, (n, n) where the classes share K, else (C, n, n); symmetric.

        Raises
        ------
        NotImplementedError
            With adjoints: EP, for which this prior is made, is stationary in its sites.
        """
        if by_mean is not None or by_variance is not None:
            raise NotImplementedError("a NestedPrior has the explicit gradient alone, as EP asks")
        prior, coupled = self.factor.prior, self.factor.coupled
        Z = coupled.take_spent()
        V = None if Z is None else precision_roots(coupled, prior.codes, Z)
        return coupled.pullback(prior.gather(a), V=V)


@final
@dataclass(frozen=True, eq=False)
class NestedSequential(SequentialCovariance):
    """Sigma of the copies' means, held as a dense one."""

    prior: NestedPrior
    dense: SequentialCovariance

    def rows(self, part: slice) -> Array:
        """Rows of Sigma, shape (k, N)."""
        return self.dense.rows(part)

    def update(self, part: slice, rows: Array, d_tau: Array) -> None:
        """As of a dense covariance."""
        self.dense.update(part, rows, d_tau)

    def own_variance(self, i: int, tau: Array) -> float:
        """Variance of a copy's own deviation from the mean of its row's copies."""
        row, m = i // self.prior.others.shape[1], self.prior.multiplicity
        terms = tau.reshape(self.prior.others.shape)[row]
        return float((m[row] - 1.0) / (m[row] + terms.sum()))
