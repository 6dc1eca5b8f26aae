"""``E[log p(y|f)]`` by the trapezoidal rule, for passes over very many rows.

The rule's error falls off as ``exp(-2 pi a / h)``, where h is the spacing of the nodes and a the
distance from the real line to where ``log p`` is singular, both in deviations of f: 3.14 of the
logit and 2.82 of the probit over the deviation. So the spacing follows the variance, and the error
is below 2e-10 (measured). It is absolute: rows whose label is certain do not keep their digits, as
they do in `gpclass.likelihoods.by_quadrature`, which takes ten times as long.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.logit import Logit
from gpclass.likelihoods.normal import HAZARD_AT_ZERO, ROOT_TWO, clipped
from gpclass.likelihoods.probit import Probit
from gpclass.likelihoods.results import Array, ExpectedLogProb

# Spacing of the nodes up to the first deviation; both change by GROWTH from level to level.
SPACING: Final = 0.8
DEVIATION: Final = 0.75
GROWTH: Final = 1.25
# Deviations of f beyond which, or below which, the sums are left to quadrature: there nodes are
# many, or differences of slopes over the deviation rounding.
LEVELS: Final = 12
DONE: Final = -1.0
NARROW: Final = 1e-4
# Half-range in deviations: exp(-30) is 1e-13.
REACH: Final = 7.7
# The rule of `_probit_of_wide`: spacing of its nodes about zero, from which they are spread beyond
# BEND, up to RIGHT and down to FAR below zero; for deviations from WIDE_FROM to WIDE_TO, and means
# not below LOW of them.
WIDE: Final = 0.55
BEND: Final = 8.0
RIGHT: Final = 8.5
FAR: Final = 1.2e4
WIDE_FROM: Final = 0.75
WIDE_TO: Final = 1e3
LOW: Final = -3.0
# Elements of the (rows, nodes) arrays worked on together: 256 KB each.
CHUNK: Final = 32_768

# Logarithm of a sigmoid and its slope, of the argument's shape.
_Sigmoid = Callable[[Array], tuple[Array, Array]]


def _logit(x: Array) -> tuple[Array, Array]:
    e = np.exp(-np.abs(x))
    slope = np.where(x > 0.0, e, 1.0) / (1.0 + e)
    return np.minimum(x, 0.0) - np.log1p(e), slope


def _probit(x: Array) -> tuple[Array, Array]:
    a = np.abs(x)
    a *= 1.0 / ROOT_TWO
    tail = erfcx(a)
    density = np.exp(-a * a)
    positive = x > 0.0
    other = 1.0 - 0.5 * tail * density
    # Phi(-|x|) = tail * density / 2, and log Phi(x) = log(tail / 2) - a^2 for x < 0
    value = np.log(np.where(positive, other, 0.5 * tail))
    value -= np.where(positive, 0.0, a * a)
    slope: Array = np.where(positive, density / (2.0 * other), 1.0 / tail)
    slope *= HAZARD_AT_ZERO
    return value, slope


_SIGMOIDS: Final[dict[type[Likelihood], _Sigmoid]] = {Logit: _logit, Probit: _probit}


@cache
def _nodes(level: int) -> tuple[Array, Array]:
    """Nodes of the standard normal and their weights, whose sum is one."""
    step = SPACING * GROWTH**-level
    n = int(REACH / step)
    z = step * np.arange(-n, n + 1)
    weights = np.asarray(np.exp(-0.5 * z * z), dtype=float)
    return np.asarray(z, dtype=float), weights / weights.sum()


@cache
def _far_nodes() -> tuple[Array, Array]:
    """Nodes x of f, and columns of 1, x and x^2 times their weights.

    The weights have what is left of ``log Phi(x)`` without `_smooth`. It falls off on the right and
    grows like ``-log |x|`` on the left, where the nodes are spread.
    """
    first, last = (np.arcsinh(x / BEND) * BEND // WIDE for x in (-FAR, RIGHT))
    t = WIDE * np.arange(first, last + 1)
    x = BEND * np.sinh(t / BEND)
    rest = log_ndtr(x) - _smooth(x, np.ones_like(x))[0]
    weights = WIDE * np.cosh(t / BEND) * rest / np.sqrt(2.0 * np.pi)
    return x, weights[:, None] * x[:, None] ** np.arange(3)


def _smooth(t: Array, w: Array) -> tuple[Array, Array, Array]:
    """``E[-min(x, 0)^2 / 2]`` for ``x ~ N(t, w)``, and its derivatives by t and w."""
    root = np.sqrt(w)
    a = t / root
    below, density = ndtr(-a), np.exp(-0.5 * a * a) / np.sqrt(2.0 * np.pi)
    pull = t * below - root * density
    return -0.5 * (t * pull + w * below), -pull, -0.5 * below


def _probit_of_wide(t: Array, var: Array) -> tuple[Array, Array, Array]:
    """``E[log Phi(f)]`` for ``f ~ N(t, var)``, and its derivatives; for `WIDE_FROM` and wider.

    The nodes are the same for all rows, which need the Gaussian's density there alone, and are
    sorted so that those taken together need the same nodes.
    """
    x, columns = _far_nodes()
    value, by_mean, by_variance = _smooth(t, var + 1.0)
    sd = np.sqrt(var)
    lowest = t - REACH * sd
    order = np.argsort(lowest)
    nodes, start = np.searchsorted(x, lowest[order]), 0
    while start < len(t) and nodes[start] < len(x):
        used = slice(nodes[start], len(x))
        rows = order[start : start + max(1, CHUNK // (len(x) - used.start))]
        start += len(rows)
        centre, width = t[rows] / sd[rows], sd[rows]
        z = x[used] / width[:, None]
        z -= centre[:, None]
        z *= z
        z *= -0.5
        total, first, second = (np.exp(z, out=z) @ columns[used]).T / width
        # sums of z and z^2, for z = x / width - centre
        second = second / width**2 - centre * (2.0 * first / width - centre * total)
        value[rows] += total
        by_mean[rows] += (first / width - centre * total) / width
        by_variance[rows] += (second - total) / (2.0 * var[rows])
    return value, by_mean, by_variance


def expected_log_prob(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """``E[log p(y|f)]`` for ``f ~ N(mean, var)``, all (n,), and its derivatives by both.

    The derivatives are those of the sum itself. Likelihoods other than the probit and the logit
    and variances below 1e-8, or of the logit beyond 120, are left to their own
    ``expected_log_prob``.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> y, m, v = np.ones(3), np.array([-1.0, 0.0, 2.0]), np.array([0.1, 1.0, 4.0])
    >>> quick, exact = expected_log_prob(Probit(), y, m, v), Probit().expected_log_prob(y, m, v)
    >>> bool(np.abs(np.subtract(quick, exact)).max() < 1e-8)
    True
    """
    sigmoid = _SIGMOIDS.get(type(likelihood))
    if sigmoid is None:
        return likelihood.expected_log_prob(y, mean, var)
    sd, t = np.sqrt(var), clipped(y * mean)
    level = np.ceil(np.log(np.maximum(sd, DEVIATION) / DEVIATION) / np.log(GROWTH))
    level[sd < NARROW] = LEVELS + 1
    found = ExpectedLogProb(np.empty(len(t)), np.empty(len(t)), np.empty(len(t)))
    if isinstance(likelihood, Probit):
        wide = np.flatnonzero((sd >= WIDE_FROM) & (sd <= WIDE_TO) & (t >= LOW * sd))
        value, slope, found.d_var[wide] = _probit_of_wide(t[wide], var[wide])
        found.value[wide], found.d_mean[wide] = np.minimum(value, 0.0), y[wide] * slope
        level[wide] = DONE
    for one in np.unique(level[level != DONE]):
        members = np.flatnonzero(level == one)
        if one > LEVELS:
            own = likelihood.expected_log_prob(y[members], mean[members], var[members])
            for whole, part in zip(found, own, strict=True):
                whole[members] = part
            continue
        z, weights = _nodes(int(one))
        sums = np.stack([weights, weights * z], axis=1)
        size = max(1, CHUNK // len(z))
        for start in range(0, len(members), size):
            rows = members[start : start + size]
            value, slope = sigmoid(t[rows, None] + sd[rows, None] * z)
            slopes = slope @ sums
            found.value[rows] = value @ weights
            found.d_mean[rows] = y[rows] * slopes[:, 0]
            found.d_var[rows] = slopes[:, 1] / (2.0 * sd[rows])
    return found
