"""A weak prior over the hyperparameters of any kernel, from its structure and from X."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from gpclass.kernels import ColumnKernel, MixedRBF, diagonal, expected_lengths, two_valued
from gpclass.learning.hyperparameters import Hyperparameters, HyperPrior

Array = NDArray[np.float64]

# Standard deviation of a half-normal deviation of each term of the latent. Where classes can be
# separated the evidence may rise without end; a latent of 10 makes a probit sure to 1e-23.
SIGNAL_DEVIATION: Final = 10.0
# Where length-scales are expected, in units of `expected_lengths`: smoother functions than these.
LENGTH_FACTOR: Final = 2.0
# Standard deviations of logarithms: of a length-scale, or of what those of the columns have in
# common (Hvarfner, Hellsten & Nardi 2024), and of each about that.
LENGTH_DEVIATION: Final = float(np.sqrt(3.0))
COLUMN_DEVIATION: Final = 1.0
# The same of a column of two values, one of many levels of a category, say, and of all its levels.
LEVEL_DEVIATION: Final = 0.5
# What a level's column has in it: two different levels have distance 1, as in `MixedRBF`.
LEVEL: Final = float(np.sqrt(0.5))


@final
@dataclass(frozen=True, eq=False)
class WeakHyperPrior(HyperPrior):
    r"""A normal density of some entries of theta, and half-normal deviations in others.

    .. math:: \log p(\theta) = -\tfrac12 (\theta - m)^\top P (\theta - m)
        + \sum_{k : r_k > 0} \left[ \log \sigma_k - \frac{\sigma_k^2}{2 s_k^2} \right] , \quad
        \sigma_k = e^{r_k \theta_k}

    It is a density of theta itself, of logarithms. So its maximum does not depend on whether a
    kernel has a variance or a deviation, and :math:`\log \sigma_k`, the Jacobian, keeps deviations
    away from zero. An entry that is in neither part has a flat density.

    Parameters
    ----------
    centre : ndarray of shape (p,)
        m.
    precision : ndarray of shape (p, p)
        P, positive semi-definite.
    deviation, power : ndarray of shape (p,)
        s and r: 1/2 for a variance, 1 for a deviation, 0 (and s infinite) for neither.

    References
    ----------
    Gelman, *Prior distributions for variance parameters in hierarchical models*, 2006, for
    half-normal deviations; Hvarfner, Hellsten & Nardi, *Vanilla Bayesian optimization performs
    great in high dimensions*, 2024, for length-scales.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.learning import WeakHyperPrior
    >>> prior = WeakHyperPrior(
    ...     centre=np.array([0.0, 1.0]), precision=np.diag([0.0, 0.25]),
    ...     deviation=np.array([10.0, np.inf]), power=np.array([0.5, 0.0]),
    ... )
    >>> value, gradient = prior.log_density(np.log([25.0, 1.0]))
    >>> round(value, 4), gradient.round(4)
    (1.3594, array([0.375, 0.25 ]))
    """

    centre: Array
    precision: Array
    deviation: Array
    power: Array

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Logarithm of the density of theta, up to a constant, and its gradient, shape (p,)."""
        away = theta - self.centre
        pulled = self.precision @ away
        log_sigma = self.power * theta
        ratio = np.exp(2.0 * log_sigma) / self.deviation**2
        value = -0.5 * float(away @ pulled) + float(log_sigma.sum() - 0.5 * ratio.sum())
        return value, self.power * (1.0 - ratio) - pulled


def weak_hyperprior(free: Hyperparameters, X: Any) -> WeakHyperPrior:
    """Weak prior of the hyperparameters of kernels and likelihood, for inputs X.

    Each term of a sum has a half-normal deviation of sd 10, at a row like those of X: a constant,
    alone or before an RBF or a DotProduct. A length-scale is log-normal, with sd ``sqrt(3)`` of the
    logarithm, about twice the root of the columns' summed variances. Length-scales of the columns
    have the same prior in common, about twice `gpclass.kernels.expected_lengths`, and differ from
    what they have in common with an sd of 1 (0.5 for a column of two values, of which a table may
    have many, and for the levels of a category together). On d standardised columns all these
    centres are ``2 sqrt(d)``. Those of the discrete columns of a `MixedRBF` are as of one-hot
    columns in which two levels have distance 1; those of its continuous columns are apart.

    All else is flat: what no rule is known for, the likelihood's hyperparameters, length-scales of
    constant columns and of kernels that take no vectors.

    Parameters
    ----------
    free : Hyperparameters
    X : array-like of shape (n, d) or sequence of n objects
        Just the distinct rows matter.

    Returns
    -------
    WeakHyperPrior

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.learning import Hyperparameters, weak_hyperprior
    >>> from gpclass.likelihoods import Probit
    >>> X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> prior = weak_hyperprior(Hyperparameters(1.0 * RBF(1.0), Probit()), X)
    >>> np.exp(2 * prior.centre[1:]).round(6), prior.precision[1, 1:].round(3), prior.deviation[:1]
    (array([8.]), array([0.333]), array([10.]))
    """
    vectors = all(kernel.requires_vector_input for kernel in free.kernels)
    rows = np.unique(np.asarray(X, dtype=np.float64), axis=0) if vectors else X
    parts = [part for kernel in free.kernels for part in _parts(kernel, rows, 1.0)]
    parts.append(_flat(len(free.likelihood.theta)))
    p = sum(len(part.centre) for part in parts)
    precision, end = np.zeros((p, p)), 0
    for part in parts:
        own = slice(end, end + len(part.centre))
        precision[own, own], end = part.precision, own.stop
    return WeakHyperPrior(
        np.concatenate([part.centre for part in parts]),
        precision,
        np.concatenate([part.deviation for part in parts]),
        np.concatenate([part.power for part in parts]),
    )


class _Part(NamedTuple):
    """The fields of `WeakHyperPrior` for some entries."""

    centre: Array
    precision: Array
    deviation: Array
    power: Array


def _flat(k: int) -> _Part:
    return _Part(np.zeros(k), np.zeros((k, k)), np.full(k, np.inf), np.zeros(k))


def _parts(kernel: Kernel, rows: Any, size: float) -> Iterator[_Part]:
    """Parts of a kernel whose prior variances other factors multiply by ``size``."""
    if isinstance(kernel, Sum):
        yield from _parts(kernel.k1, rows, size)
        yield from _parts(kernel.k2, rows, size)
    elif isinstance(kernel, Product):
        yield from _parts(kernel.k1, rows, size * _mean_variance(kernel.k2, rows))
        yield from _parts(kernel.k2, rows, size * _mean_variance(kernel.k1, rows))
    elif isinstance(kernel, ColumnKernel):
        chosen = np.unique(kernel.chosen(rows), axis=0)
        if kernel.shared is None:
            yield from _parts(kernel.kernel, chosen, size)
        elif kernel.n_dims:
            yield _length_scales(chosen, np.asarray(kernel.shared))
    else:
        for one in kernel.hyperparameters:
            if not one.fixed:
                yield _rule(kernel, one.name, rows, size) or _flat(one.n_elements)


def _mean_variance(kernel: Kernel, rows: Any) -> float:
    with np.errstate(over="ignore"):
        return float(diagonal(kernel, rows).mean())


def _rule(kernel: Kernel, name: str, rows: Any, size: float) -> _Part | None:
    """Part of one hyperparameter; None where no rule is known."""
    if isinstance(kernel, ConstantKernel | WhiteKernel | DotProduct) and 0.0 < size < np.inf:
        power = 1.0 if isinstance(kernel, DotProduct) else 0.5
        deviation = SIGNAL_DEVIATION / np.sqrt(size)
        return _Part(np.zeros(1), np.zeros((1, 1)), np.full(1, deviation), np.full(1, power))
    if isinstance(kernel, RBF | RationalQuadratic) and name == "length_scale":
        return _length_scales(rows, np.arange(np.size(kernel.length_scale)))
    if isinstance(kernel, MixedRBF):
        numbers, codes = kernel.parts(rows)
        if name == "length_scale":
            return _length_scales(numbers, np.arange(np.size(kernel.length_scale)))
        levels = [np.unique(column) for column in codes.T]
        columns = [np.equal.outer(a, b) * LEVEL for a, b in zip(codes.T, levels, strict=True)]
        each = np.arange(np.size(kernel.discrete_length_scale))
        own = np.repeat(each, [len(one) for one in levels]) if len(each) > 1 else each
        return _length_scales(np.hstack(columns), own)
    return None


def _length_scales(rows: Array, own: NDArray[np.intp]) -> _Part:
    """Part of one length-scale, or of several, where ``own`` (d,) numbers that of each column."""
    several = own.max() > 0
    first = np.unique(own, return_index=True)[1]
    if several:
        scales = expected_lengths(rows)[first]
    else:
        largest = float(np.abs(rows).max(initial=0.0)) or 1.0
        offsets = rows / largest - rows[0] / largest
        scales = largest * np.sqrt(offsets.var(axis=0).sum(keepdims=True))
    known = scales > 0.0
    centre = np.zeros(len(scales))
    centre[known] = np.log(scales[known]) + np.log(LENGTH_FACTOR)
    precision = np.diag(known / LENGTH_DEVIATION**2)
    if several:
        deviation = np.where(two_valued(rows)[first], LEVEL_DEVIATION, COLUMN_DEVIATION)
        weight = known / deviation**2
        # the inverse of a diagonal plus a constant (Sherman & Morrison)
        precision = np.diag(weight) - np.outer(weight, weight) / (
            LENGTH_DEVIATION**-2 + weight.sum()
        )
    return _flat(len(scales))._replace(centre=centre, precision=precision)
