"""What a likelihood is asked under a Gaussian, from its ``log_prob`` and ``derivatives`` alone.

These are the defaults of `gpclass.likelihoods.base.Likelihood`. They assume of p(y|f):

- it is smooth, and varies in f on a scale of one or more; a likelihood that says it is not smooth
  is refused;
- with ``log_concave = True``, that ``log p`` and ``log(-log p)`` are concave in f, as they are
  for the logit, the probit and the complementary log-log, and that p is monotone. The results
  then hold to about 1e-12 relative for |mean| <= 50 and 1e-8 <= var <= 1e6, in both tails;
- with ``log_concave = False``, that it does not fall below exp(-700) where the Gaussian has mass.
  All of the Gaussian is then covered, in panels that are short near f = 0, which is slower.

Only the label that is less probable at the mean is integrated. With q its evidence and ``d, d2``
the derivatives of log q by the mean, the other label has ``Z = 1 - q`` and, with
``r = q / (1 - q)``, derivatives ``-r d`` and ``-r (d2 + (1 + r) d^2)``. So log Z and its
derivatives keep their digits where the label says next to nothing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods.quadrature import (
    BENDS,
    DROP,
    FINE_BENDS,
    NARROW,
    RADIUS,
    STRAIGHT,
    X_LIMIT,
    Sites,
    mass_interval,
    panel_edges,
    panel_rule,
    site_blocks,
    standardise,
)
from gpclass.likelihoods.results import (
    Array,
    Derivatives,
    ExpectedLogProb,
    TiltedMoments,
)

_LOG_SQRT_2PI: Final = 0.5 * float(np.log(2.0 * np.pi))

# Below this log-probability its differences carry rounding errors above 1e-10, and only the
# derivatives still tell the shape; the tails of log p are straight or parabolic so far out.
_DEEP: Final = -1e6

# From this x on the Gaussian's own exponent is a rounding error away from a constant.
_REMOTE: Final = 1e6

# From this variance on a bend of unit width is invisible in the moments of x, which are then
# the better source for the derivatives of log Z.
_WIDE: Final = 1e6

# Panels over the Gaussian where log-concavity does not say where the mass is, and deviations
# beyond which it is zero in double precision.
_EVEN_PANELS: Final = 16
_FARTHEST: Final = 40.0


class _Pointwise(Protocol):
    """What is used of a `Likelihood`."""

    @property
    def name(self) -> str: ...

    @property
    def smooth(self) -> bool: ...

    @property
    def log_concave(self) -> bool: ...

    def log_prob(self, y: Array, f: Array) -> Array: ...

    def derivatives(self, y: Array, f: Array) -> Derivatives: ...


class _Terms(NamedTuple):
    """The terms ``p(y_i|f)^power_i`` of n sites; a power of None is one."""

    likelihood: _Pointwise
    y: Array
    power: Array | None = None

    def log_prob(self, f: Array, sites: Sites) -> Array:
        """Logarithm of the sites' terms at f, whose last axis has the sites."""
        found = self.likelihood.log_prob(self.y[sites], f)
        return found if self.power is None else self.power[sites] * found

    def derivatives(self, f: Array, sites: Sites) -> tuple[Array, Array]:
        """First and second derivative of that."""
        first, second, _ = self.likelihood.derivatives(self.y[sites], f)
        if self.power is None:
            return first, second
        return self.power[sites] * first, self.power[sites] * second

    def exponent(self, f: Array, sites: Sites) -> tuple[Array, Array, Array]:
        """Logarithm and both derivatives."""
        return self.log_prob(f, sites), *self.derivatives(f, sites)

    def log_surprise(self, f: Array, sites: Sites) -> tuple[Array, Array, Array]:
        """``log(-log p(y|f))`` and its derivatives."""
        label = self.y[sites]
        cost = -self.log_prob(f, sites)
        first, second = self.derivatives(f, sites)
        # Where -log p underflows it is falling, in the direction of its label, faster than
        # any slope it had before; the mode is then looked for on the other side.
        certain = cost < 1e-300
        cost = np.where(certain, 1e-300, cost)
        slope = np.where(certain, -1e3 * label, -first / cost)
        return np.log(cost), slope, np.where(certain, 0.0, -second / cost - slope * slope)


class _Tilted(NamedTuple):
    """log Z, its derivatives by m, and the tilted variance in units of v; each of shape (n,)."""

    log_z: Array
    d_mean: Array
    d2_mean: Array
    variance: Array


def tilted_moments(likelihood: _Pointwise, y: Array, mean: Array, var: Array) -> TiltedMoments:
    """Moments of ``p(y|f) N(f | mean, var)`` (RW06 eq. 3.58); see `Likelihood.tilted_moments`.

    Examples
    --------
    >>> from gpclass.likelihoods import Probit
    >>> moments = tilted_moments(Probit(), 1.0, -50.0, 1e-4)
    >>> bool(abs(moments.log_z / Probit().tilted_moments(1.0, -50.0, 1e-4).log_z - 1) < 1e-13)
    True
    """
    shape, (y, m, v) = _flat(likelihood, y, mean, var)
    rare = rare_label(likelihood, m)
    tilted = _tilted(_Terms(likelihood, rare), m, v)
    q = np.exp(tilted.log_z)
    ratio = q / (1.0 - q)
    d, d2 = tilted.d_mean, tilted.d2_mean
    is_rare = y == rare
    log_z = np.where(is_rare, tilted.log_z, np.log1p(-q))
    # where the rare label is impossible its slope may be too large to be squared
    other = ~is_rare & (ratio > 0.0)
    slope, bend = np.where(other, d, 0.0), np.where(other, d2, 0.0)
    d_mean = np.where(is_rare, d, -ratio * slope)
    d2_mean = np.where(is_rare, d2, -ratio * (bend + (1.0 + ratio) * slope * slope))
    variance = v * np.where(is_rare, tilted.variance, 1.0 + v * d2_mean)
    return TiltedMoments(
        *(a.reshape(shape) for a in (log_z, m + v * d_mean, variance, d_mean, d2_mean))
    )


def power_moments(
    likelihood: _Pointwise, power: Array | float, y: Array, mean: Array, var: Array
) -> TiltedMoments:
    """Moments of ``p(y|f)^power N(f | mean, var)``; the power zero gives the Gaussian, exactly.

    Raises
    ------
    ValueError
        For a power out of range.
    """
    shape, (a, y, m, v) = _flat(likelihood, power, y, mean, var)
    if not ((a >= 0) & (a <= 1)).all():
        raise ValueError("power must be from zero to one")
    nothing = a == 0.0
    tilted = _tilted(_Terms(likelihood, y, np.where(nothing, 1.0, a)), m, v)
    zero = np.zeros_like(m)
    fields = (
        (tilted.log_z, zero),
        (m + v * tilted.d_mean, m),
        (v * tilted.variance, v),
        (tilted.d_mean, zero),
        (tilted.d2_mean, zero),
    )
    return TiltedMoments(*(np.where(nothing, own, found).reshape(shape) for found, own in fields))


def rare_label(likelihood: _Pointwise, m: Array) -> Array:
    """The label that is less probable at the mean m."""
    one = np.ones_like(m)
    return np.where(likelihood.log_prob(one, m) < likelihood.log_prob(-one, m), 1.0, -1.0)


def predict_proba(likelihood: _Pointwise, mean: Array, var: Array) -> Array:
    """P(y = +1) for ``f ~ N(mean, var)``."""
    shape, (m, v) = _flat(likelihood, mean, var)
    rare = rare_label(likelihood, m)
    q = np.exp(_tilted(_Terms(likelihood, rare), m, v, moments=False).log_z)
    return np.where(rare > 0.0, q, 1.0 - q).reshape(shape)


def expected_log_prob(likelihood: _Pointwise, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """``E[log p(y|f)]`` for ``f ~ N(mean, var)`` and its derivatives.

    Notes
    -----
    The interval is that of ``-log p(y|f) N(f | mean, var)``, which is log-concave where the
    module says so; that keeps the digits where the label is all but certain. It reaches further
    to the side where p(y|f) grows: there the curvature of log p may outlive ``-log p``.
    """
    shape, (y, m, v) = _flat(likelihood, y, mean, var)
    sd = np.sqrt(v)
    terms = _Terms(likelihood, y)
    if likelihood.log_concave:
        lower, mode, upper = mass_interval(terms.log_surprise, m, sd)
        end, last = _growing_end(y, lower, upper, m, sd)
        # -log p is straight where p is small, and not there where p is one
        points, bends = [np.where(y > 0.0, lower, upper), mode, last, end], [-STRAIGHT * y]
    else:
        points, bends = _even_points(RADIUS + np.minimum(sd, RADIUS)), []
    results = np.empty((3, m.size))
    everyone = np.arange(m.size)
    for sites, x, weights, f in _blocks(points, bends, m, sd, everyone, likelihood.log_concave):
        measure = weights * np.exp(-0.5 * x * x - _LOG_SQRT_2PI)
        first, second = terms.derivatives(f, (sites, None))
        results[0, sites] = np.vecdot(measure, terms.log_prob(f, (sites, None)))
        results[1, sites] = np.vecdot(measure, first)
        results[2, sites] = 0.5 * np.vecdot(measure, second)
    return ExpectedLogProb(*results.reshape(3, *shape))


def _tilted(terms: _Terms, m: Array, v: Array, *, moments: bool = True) -> _Tilted:
    """Integrate the terms; without ``moments`` only log_z is filled in."""
    sd = np.sqrt(v)
    everyone = np.arange(m.size)
    log_concave = terms.likelihood.log_concave
    if log_concave:
        y = terms.y
        lower, mode, upper = mass_interval(terms.exponent, m, sd)
        end, last = _growing_end(y, lower, upper, m, sd)
        straight = np.clip(standardise(STRAIGHT * y, m, sd), lower, upper)
        points = [np.where(y > 0.0, lower, upper), mode, np.where(end == last, straight, last), end]
        result, deep = _parabolic(terms, mode, m, sd)
        everyone = everyone[~deep]
    else:
        points = _even_points(_reach(terms, m, sd))
        result = _Tilted(*np.empty((4, m.size)))

    for sites, x, weights, f in _blocks(points, [], m, sd, everyone, log_concave):
        log_density = terms.log_prob(f, (sites, None)) - 0.5 * x * x
        peak = log_density.argmax(axis=1)[:, None]
        top = np.take_along_axis(log_density, peak, axis=1)
        log_density -= top
        weights *= np.exp(log_density, out=log_density)
        mass = weights.sum(axis=1)
        result.log_z[sites] = top[:, 0] + np.log(mass) - _LOG_SQRT_2PI
        if not moments:
            continue
        first, second = terms.derivatives(f, (sites, None))
        x_mean = np.vecdot(weights, x) / mass
        x -= x_mean[:, None]
        x_var = np.vecdot(weights, np.square(x, out=x)) / mass
        d = np.vecdot(weights, first) / mass
        # about a value it takes: where first is 1 - exp(-50), d's rounding outweighs the spread
        off = first - np.take_along_axis(first, peak, axis=1)
        # beyond this the weight is zero, and the square would be infinite
        np.clip(off, -X_LIMIT, X_LIMIT, out=off)
        shift = np.vecdot(weights, off) / mass
        spread = np.vecdot(weights, np.square(off, out=off)) / mass - shift * shift
        bend = np.vecdot(weights, second) / mass
        # two expressions of d2 log Z / dm2; the one that cancels less
        d2, d2_by_moments = bend + spread, (x_var - 1.0) / np.maximum(v[sites], 1e-300)
        cancels = (np.abs(bend) + spread) * np.abs(x_var - 1.0) > (x_var + 1.0) * np.abs(d2)
        wide = v[sites] > _WIDE
        result.d_mean[sites] = np.where(wide, x_mean / np.maximum(sd[sites], 1e-150), d)
        result.d2_mean[sites] = np.where(wide | cancels, d2_by_moments, d2)
        # a log-concave factor never widens a Gaussian, but the rounding of log p may seem to
        result.variance[sites] = np.minimum(x_var, 1.0) if log_concave else x_var
    return result


def _growing_end(y: Array, lower: Array, upper: Array, m: Array, sd: Array) -> tuple[Array, Array]:
    """End of the interval in the direction in which p(y|f) grows, and a cut before it.

    Where the interval ends before the sigmoid has bent, the second derivative of log p times the
    product has its mass further on (each factor sigma(f) shifts the Gaussian by sd in x). The
    interval is then longer by that shift, and the cut is its old end; otherwise cut and end agree.
    """
    last = np.where(y > 0.0, upper, lower)
    before = y * (m + sd * last) < BENDS[-1]
    return last + np.where(before, y * np.minimum(sd, RADIUS), 0.0), last


def _parabolic(terms: _Terms, x: Array, m: Array, sd: Array) -> tuple[_Tilted, NDArray[np.bool_]]:
    """Moments from the parabola through log p near the mode, and where it is to be used."""
    k, k1, k2 = terms.exponent(m + sd * x, slice(None))
    with np.errstate(over="ignore"):
        slope = np.clip(sd * k1 - x, -X_LIMIT, X_LIMIT)
        precision = np.minimum(1.0 - sd * sd * k2, X_LIMIT * X_LIMIT)
    step = np.clip(slope / precision, -1.0, 1.0)
    log_z = k - 0.5 * x * x + 0.5 * slope * step - 0.5 * np.log(precision)
    wide = sd * sd > _WIDE
    d_mean = np.where(wide, (x + step) / np.where(wide, sd, 1.0), k1 + k2 * sd * step)
    fit = _Tilted(log_z, d_mean, k2 / precision, 1.0 / precision)
    return fit, (k < _DEEP) | (np.abs(x) > _REMOTE)


def _blocks(
    points: list[Array],
    bends: list[Array],
    m: Array,
    sd: Array,
    sites: NDArray[np.intp],
    log_concave: bool,
) -> Iterator[tuple[NDArray[np.intp], Array, Array, Array]]:
    """Blocks of sites with their nodes in x, weights and nodes in f, (n_block, n_nodes) each."""
    bends = bends + [np.full_like(m, bend) for bend in (BENDS if log_concave else FINE_BENDS)]
    narrow = (sd[sites] <= NARROW) & log_concave
    for group, cuts in ((sites[narrow], []), (sites[~narrow], bends)):
        for block in site_blocks(group, len(points) - 1 + len(cuts)):
            mean, scale = m[block], sd[block]
            edges = panel_edges([p[block] for p in points], [c[block] for c in cuts], mean, scale)
            x, weights = panel_rule(edges)
            f = scale[:, None] * x
            f += mean[:, None]
            yield block, x, weights, f


def _even_points(reach: Array) -> list[Array]:
    """Edges of `_EVEN_PANELS` equal panels over [-reach, reach]."""
    return list(np.linspace(-reach, reach, _EVEN_PANELS + 1))


def _reach(terms: _Terms, m: Array, sd: Array) -> Array:
    """Half-range in x outside which ``p N`` is below exp(-DROP) of its maximum, as p <= 1."""
    best = terms.log_prob(m, slice(None))
    for bend in (-STRAIGHT, *BENDS, STRAIGHT):
        x = np.clip(standardise(np.full_like(m, bend), m, sd), -_FARTHEST, _FARTHEST)
        best = np.maximum(best, terms.log_prob(m + sd * x, slice(None)) - 0.5 * x * x)
    return np.minimum(np.sqrt(2.0 * (DROP - best)), _FARTHEST)


def _flat(likelihood: _Pointwise, *arguments: Array | float) -> tuple[tuple[int, ...], list[Array]]:
    """Broadcast shape, and the arguments as flat arrays of that size; a smooth likelihood only."""
    if not likelihood.smooth:
        raise ValueError(
            f"{likelihood.name!r} is not smooth: quadrature would miss where it jumps, and its "
            "integrals must be closed forms of its own"
        )
    arrays = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in arguments))
    return arrays[0].shape, [np.ravel(a) for a in arrays]
