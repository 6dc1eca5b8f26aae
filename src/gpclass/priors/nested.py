"""The prior under which binary EP on probit terms is nested EP for the multinomial probit."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, final

import numpy as np

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.likelihoods.classes import other_classes
from gpclass.linalg import Array
from gpclass.priors.base import (
    CovarianceProducts,
    PosteriorCovariance,
    Prior,
    RefactoredCovariance,
    SiteFactor,
)
from gpclass.priors.classes import ClassSites
from gpclass.priors.joint import Codes, JointFactor, JointPrior, as_codes

# Part of a right-hand side that a solution may leave before it is refined.
LEFT: Final = 1e-12


@final
@dataclass(frozen=True, eq=False)
class NestedPrior(Prior):
    """Prior of the latents whose probit terms make up the multinomial probit.

    A row of class y has the C - 1 latents ``g_j = f_y - f_j + u``, one for each other class j in
    ascending order, and one ``u ~ N(0, 1)`` that they share. With the terms ``Phi(g_j)`` of the
    binary probit, ``p(y | f) = int N(u) prod_j Phi(u + f_y - f_j) du``: binary EP under this prior
    is nested EP for the multinomial probit, since its inner iteration approximates a tilted
    distribution of just these terms. ``class_sites`` are its sites in the classes' latents.

    ``K_g = A K A^T + U`` is never formed: with u integrated out, site precisions tau become
    ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)`` in the latents f of a row, where ``d_y = 1`` and
    ``d_j = tau_j``, and the prior of the classes answers.

    A row that is given m times has m values of u, and the latents of its copies stay exchangeable:
    sites are kept as totals over the copies, ``multiply`` is about the copies' mean, whose u has
    the variance 1 / m (then ``d_y = m``), and marginal variances are those of one copy, whose own
    deviation from the mean adds ``(m - 1) / (m + sum_j tau_j)``.

    Parameters
    ----------
    class_prior : JointPrior
    codes : ndarray of shape (n,)
        Classes of the rows, integers from 0.
    counts : ndarray of shape (n,), default=None
        How often each row is given, finite and at least one, also between whole numbers, where
        the formulas are continued; None: once.

    References
    ----------
    Riihimäki, Jylänki & Vehtari (2013), eq. 3 for the likelihood, section 3.2 for the auxiliary
    variable and the tilted distribution.
    """

    class_prior: JointPrior
    codes: Codes
    counts: Array | None = None
    mean: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        n = self.class_prior.n
        as_codes(self.codes, n, self.class_prior.n_classes)
        if not np.issubdtype(self.codes.dtype, np.integer):
            raise ValueError(f"codes must be integers, got {self.codes.dtype}")
        counts = self.multiplicity
        if counts.shape != (n,) or not ((counts >= 1.0) & np.isfinite(counts)).all():
            raise ValueError(f"counts must be {n} finite numbers from one, got {self.counts}")

    @cached_property
    def multiplicity(self) -> Array:
        """How often each row is given, shape (n,)."""
        if self.counts is None:
            return np.ones(self.class_prior.n)
        return np.asarray(self.counts, dtype=np.float64)

    @cached_property
    def others(self) -> Codes:
        """The classes j of each row's latents, shape (n, C - 1), ascending."""
        return other_classes(self.codes, self.class_prior.n_classes)

    @cached_property
    def _rows(self) -> Codes:
        return np.arange(len(self.codes))[:, None]

    @property
    def n(self) -> int:
        """Number N = n (C - 1) of latents."""
        return self.others.size

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances of one copy's latents, shape (N,)."""
        variances = self.class_prior.diagonal
        return (self._own(variances) + self.of_others(variances) + 1.0).ravel()

    def multiply(self, v: Array) -> Array:
        """``K_g v`` for the mean over a row's copies, shape (N,)."""
        shared = self.row_sums(v) / self.multiplicity
        F = self.class_prior.multiply(self.gather(v))
        return np.asarray((self._own(F) - self.of_others(F) + shared[:, None]).ravel())

    def check(self) -> None:
        """Refuse covariances of the classes that are not positive semi-definite."""
        self.class_prior.check()

    def inner(self, G: Any) -> float:
        """Raise: u does not scale with the classes' covariances, of which G is the cotangent."""
        raise NotImplementedError("the covariance of a NestedPrior does not scale with K")

    def factor(self, tau: Array) -> "NestedFactor":
        """Factorise for site precisions, totals over a row's copies; none may be negative."""
        if not (tau >= 0.0).all():
            raise NotPositiveDefiniteError(
                f"site precisions under a NestedPrior must not be negative, got {np.min(tau)}"
            )
        coupled = self.class_prior.factor(self.precisions(tau)) if tau.any() else None
        return NestedFactor(self, tau, coupled)

    def gather(self, v: Array) -> Array:
        """``A^T v``: what latents g say, summed for the classes' latents f, shape (n, C)."""
        terms = v.reshape(self.others.shape)
        return self._classes(terms.sum(axis=1), -terms)

    def precisions(self, tau: Array) -> Array:
        """The d of the sites with u integrated out, shape (n, C); see `ClassSites`."""
        return self._classes(self.multiplicity, tau.reshape(self.others.shape))

    def class_sites(self, nu: Array, tau: Array) -> ClassSites:
        """Sites in the classes' latents f, with u integrated out.

        A row's ``sum_j nu_j g_j - tau_j g_j^2 / 2`` becomes ``b^T f - f^T W f / 2`` with
        ``b_j = -(nu_j - tau_j N / T)`` and ``b_y = m N / T`` for N the sum of nu and T that of d.
        """
        return ClassSites(self.given_u(nu, tau), self.precisions(tau))

    def given_u(self, r: Array, tau: Array) -> Array:
        """``A^T (I + T U)^-1 r``, shape (n, C)."""
        terms, tau = r.reshape(self.others.shape), tau.reshape(self.others.shape)
        # the same sum as in the factor's d, so that rows of what comes out sum to zero
        share = terms.sum(axis=1) / (self.multiplicity + tau.sum(axis=1))
        return self._classes(self.multiplicity * share, tau * share[:, None] - terms)

    def own_variance(self, i: int, tau: Array) -> float:
        """Variance of a copy's own deviation from the mean of its row's copies, given sites."""
        row = i // self.others.shape[1]
        m = self.multiplicity[row]
        return float((m - 1.0) / (m + self.row_sums(tau)[row]))

    def row_sums(self, v: Array) -> Array:
        """Sums of each row's latents, shape (n,)."""
        return np.asarray(v.reshape(self.others.shape).sum(axis=1))

    def _own(self, F: Array) -> Array:
        return np.asarray(F[self._rows, self.codes[:, None]])

    def of_others(self, F: Array) -> Array:
        """Entries of F, shape (n, C), at the other classes of each row, shape (n, C - 1)."""
        return np.asarray(F[self._rows, self.others])

    def _classes(self, own: Array, other: Array) -> Array:
        """Array of shape (n, C) of what belongs to a row's own class and to the others."""
        F = np.empty((len(other), other.shape[1] + 1))
        F[self._rows, self.codes[:, None]] = own[:, None]
        F[self._rows, self.others] = other
        return F


@final
@dataclass(frozen=True, eq=False)
class NestedFactor(SiteFactor):
    """A `NestedPrior` given site precisions; see `SiteFactor` for what is answered.

    With ``B = A^T (I + T U)^-1 r`` the solution x of ``(I + T K_g) x = r`` has
    ``A^T x = (I + W K)^-1 B``, whose entries at the other classes are -x. ``|I + T K_g|`` is
    ``|I + W K|`` times ``1 + sum_j tau_j / m`` for every copy of every row. ``coupled`` is the
    factor of the classes' prior given the sites without u, None where all precisions are zero.
    """

    has_products: ClassVar[bool] = False

    prior: NestedPrior
    tau: Array
    coupled: JointFactor | None

    def of_classes(self) -> JointFactor:
        """Factor of the classes' prior, made here where no site made it worth it before."""
        if self.coupled is not None:
            return self.coupled
        return self.prior.class_prior.factor(self.prior.precisions(self.tau))

    @property
    def log_det(self) -> float:
        """``log |I + T K_g|`` over all copies."""
        if self.coupled is None:
            return 0.0
        m = self.prior.multiplicity
        return self.coupled.log_det + float(m @ np.log1p(self.prior.row_sums(self.tau) / m))

    def solve(self, r: Array) -> Array:
        """``(I + T K_g)^-1 r``; a second solve mends what rounding left where K is large."""
        if self.coupled is None:
            return r.copy()
        x = self._solve_once(self.coupled, r)
        moved = self.tau * self.prior.multiply(x)
        left = r - x - moved
        size = max(np.abs(r).max(initial=0.0), np.abs(moved).max(initial=0.0))
        if np.abs(left).max(initial=0.0) > LEFT * size:
            x = x + self._solve_once(self.coupled, left)
        return x

    def _solve_once(self, coupled: JointFactor, r: Array) -> Array:
        a = coupled.solve(self.prior.given_u(r, self.tau))  # A^T x, whose rows sum to zero
        return np.asarray(-self.prior.of_others(a).ravel())

    def covariance(self) -> "NestedCovariance":
        """Marginal variances for one copy of each row, and the gradient.

        Given f, a row's u is Gaussian of precision ``t = m + sum_j tau_j``; for one copy
        ``g_j = f^ - f_j + N(0, m / t)``, f^ the mean of f weighted by d.
        """
        if self.coupled is None:
            return NestedCovariance(self, self.prior.diagonal)
        m = self.prior.multiplicity
        variances = self.coupled.difference_variances(self.prior.codes)
        variances += (m / (m + self.prior.row_sums(self.tau)))[:, None]
        return NestedCovariance(self, self.prior.of_others(variances).ravel())

    def sequential_covariance(self) -> RefactoredCovariance:
        """Sigma of the means over a row's copies, by a new factor after each block."""
        return RefactoredCovariance(self.prior, self, self.prior.own_variance)

    def new_weights(self, a: Array) -> Array:
        """The weights of the differences themselves."""
        return a

    def reduced_variance(self, K_cross: Array) -> Array:
        """``diag(K_cross^T R K_cross)`` for K_cross of shape (N, m)."""
        return np.array([k @ self.solve(self.tau * k) for k in K_cross.T])

    def conditional_covariance(self, K_cross: Array, K_new: Array) -> Array:
        """``K_new - K_cross^T R K_cross`` of shape (m, m)."""
        RK = [self.solve(self.tau * k) for k in K_cross.T]
        return K_new - linalg.product(np.stack(RK), np.ascontiguousarray(K_cross))


@final
@dataclass(frozen=True, eq=False)
class NestedCovariance(PosteriorCovariance):
    """Marginal variances under a `NestedPrior` given sites, for one copy of each row."""

    factor: NestedFactor
    variances: Array

    def products(self) -> CovarianceProducts:
        """Refused: iterations do without, as `SiteFactor.has_products` says."""
        raise NotImplementedError("a NestedPrior has no products with its posterior covariance")

    def pullback(
        self, a: Array, by_mean: Array | None = None, by_variance: Array | None = None
    ) -> Any:
        """`JointFactor.pullback`; without adjoints, since EP is stationary in its sites."""
        if by_mean is not None or by_variance is not None:
            raise NotImplementedError("a NestedPrior has the explicit gradient alone, as EP asks")
        return self.factor.of_classes().pullback(self.factor.prior.gather(a))
