"""One-dimensional Gaussian integrals of functions that may sit anywhere under the Gaussian.

An integral of ``exp(k(f)) N(f | m, v)`` is taken over the standardised ``x = (f - m) / sqrt(v)``,
so that v = 0 is no special case. A Gauss-Hermite rule has its nodes where the Gaussian is; the
product may live far out in its tail, or change within a thousandth of its width. So the rule here
first finds where the product is (`mass_interval`), cuts that interval at its mode and where
sigmoids bend (`panel_edges`), and puts Gauss-Legendre nodes on each panel (`panel_rule`).

The accuracy rests on three numbers. Outside the interval the product is below ``exp(-DROP)`` of
its maximum. A concave log product falls at least as fast as the Gaussian, so that half the
interval is at most ``RADIUS`` wide in x, and ``ORDER`` nodes integrate half a Gaussian bell to
rounding. The logistic has its nearest poles at +-i pi; a panel of half-length 3 around them lies
in a Bernstein ellipse of parameter 2.5, where the error of 24 nodes is near 2.5^-48 = 1e-19. The
logarithm of the complementary log-log has branch points at 1.84 +- i pi / 2: 1.78^-48 = 1e-12.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpclass.linalg import EPS

Array = NDArray[np.float64]
Sites = slice | NDArray[np.intp] | tuple[NDArray[np.intp], None]

# k(f), k'(f), k''(f) at latent values f of the sites named: the exponent next to the Gaussian.
Exponent = Callable[[Array, Sites], tuple[Array, Array, Array]]

# Nodes of a panel (Gauss-Legendre). The interval ends where the integrand has fallen by exp(-38)
# from its mode, which is below rounding: RADIUS deviations for a Gaussian.
ORDER: Final = 24
DROP: Final = 38.0
RADIUS: Final = float(np.sqrt(2.0 * DROP))

# Where a log-concave sigmoid of unit scale bends, and where it has become straight: what is left
# of a logistic beyond 28 is exp(-28) = 7e-13.
BENDS: Final = (-12.0, -3.0, 3.0, 12.0)
STRAIGHT: Final = 28.0

# The same for any sigmoid: the cauchit has its poles at +-i and never becomes straight, but is
# smooth on the scale of |f|.
FINE_BENDS: Final = (*(-(4.0**k) for k in range(8, -1, -1)), 0.0, *(4.0**k for k in range(9)))

# Every sigmoid of unit scale is 0 or 1 to rounding at FLAT, but not yet its logarithm; beyond
# UNDERFLOW exp(-f) is zero in double precision.
FLAT: Final = 100.0
UNDERFLOW: Final = 740.0

# Up to this deviation the whole interval is short enough in f to need no BENDS (4.36 * 0.68 < 3).
NARROW: Final = 0.68

# The mode only places panels: half a tenth below the maximum is near enough.
MODE_GAP: Final = 0.05

# x and f stay below this, so that x^2 and sd * x do not overflow.
X_LIMIT: Final = 1e150

# Array elements a block of nodes may have: three such arrays lie in a level 2 cache.
BLOCK: Final = 16_000

_TINY = float(np.finfo(float).tiny)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)


class MassInterval(NamedTuple):
    """Where ``exp(k(m + sd x) - x^2 / 2)`` has its mass; each array of shape (n,), in x."""

    lower: Array
    mode: Array
    upper: Array


def standardise(f: Array, mean: Array, sd: Array) -> Array:
    """``(f - mean) / sd``, infinite or huge (to be clipped) where sd is zero or tiny."""
    with np.errstate(over="ignore"):
        return (f - mean) / np.maximum(sd, _TINY)


def mass_interval(exponent: Exponent, mean: Array, sd: Array) -> MassInterval:
    """Find where a log-concave factor ``exp(k)`` times N(mean, sd^2) has its mass.

    ``exponent(f, sites)`` gives k and its first two derivatives at f, of shape (..., n_sites), for
    the sites that the slice or index array selects. The mode is found within `MODE_GAP` of the
    maximum. A site's result does not depend on the others.

    The mode is the root of ``F(x) = x - sd k'(m + sd x)``, which increases with slope at least
    one. As k' decreases, the root lies between 0 and ``sd k'(m)``; the bends of a sigmoid
    tighten that bracket, then Newton steps from the better end, every third one a bisection.
    ``R(x) = log product(x) - log product(mode) + DROP`` is concave, so that a Newton step on it
    from outside the interval stays outside.

    Examples
    --------
    A linear exponent shifts the Gaussian: the mode of ``exp(3 f) N(f | 0, 1)`` is 3.

    >>> import numpy as np
    >>> shift = lambda f, sites: (3 * f, 3 + 0 * f, 0 * f)
    >>> interval = mass_interval(shift, np.array([0.0]), np.array([1.0]))
    >>> [float(np.round(end[0], 2)) for end in interval]
    [-5.72, 3.0, 11.72]
    """
    # an exponent of -1e300 may overflow in products with sd; infinity tells the side as well
    with np.errstate(over="ignore", invalid="ignore"):
        return _mass_interval(exponent, mean, sd)


def _mass_interval(exponent: Exponent, mean: Array, sd: Array) -> MassInterval:
    low, high = _bracket_mode(exponent, mean, sd)
    left = -low.slope < high.slope
    mode = np.where(left, low.x, high.x)
    # log product has curvature below -1 in x, so the maximum is no farther than its slope
    reach = np.where(left, -low.slope, high.slope)
    start = np.stack(
        [np.maximum(low.x, mode - reach) - RADIUS, np.minimum(high.x, mode + reach) + RADIUS]
    )
    top = exponent(mean + sd * mode, slice(None))[0]
    end = start.copy()
    side = np.array([[1.0], [-1.0]])

    def excess_at(x: Array) -> tuple[Array, Array]:
        k, k1, _ = exponent(mean + sd * x, slice(None))
        return k - top - 0.5 * (x - mode) * (x + mode) + DROP, sd * k1 - x

    # farther out than FLAT the exponent may have underflowed and show no slope to follow
    flat = np.clip(standardise(-side * FLAT, mean, sd), start[0], start[1])
    nearer = (side * (flat - mode) < 0.0) & (excess_at(flat)[0] < 0.0)
    end = np.where(nearer, flat, end)
    moving = np.ones(end.shape, dtype=bool)
    for _ in range(60):
        excess, slope = excess_at(end)
        moving &= (excess < 0.0) & (side * slope > 0.0)
        step = np.where(moving, excess / np.where(moving, slope, 1.0), 0.0)
        end = np.where(side > 0, np.minimum(end - step, mode), np.maximum(end - step, mode))
        moving &= np.abs(step) > 0.03 * np.abs(end - mode)
        if not moving.any():
            break
    return MassInterval(end[0], mode, end[1])


class _BracketEnd(NamedTuple):
    """One end of a bracket of the root of F, with F and F' there; each of shape (n,)."""

    x: Array
    slope: Array
    curvature: Array

    def where(self, chosen: NDArray[np.bool_], other: "_BracketEnd") -> "_BracketEnd":
        """Take this end where ``chosen``, the other elsewhere."""
        return _BracketEnd(*(np.where(chosen, a, b) for a, b in zip(self, other, strict=True)))

    def put(self, sites: NDArray[np.intp], other: "_BracketEnd", part: NDArray[np.bool_]) -> None:
        """Write ``part`` of another end, of the sites alone, in place."""
        for own, new in zip(self, other, strict=True):
            own[sites[part]] = new[part]


def _bracket_mode(exponent: Exponent, mean: Array, sd: Array) -> tuple[_BracketEnd, _BracketEnd]:
    """Bracket the root of ``F(x) = x - sd k'(m + sd x)``."""

    def at(x: Array, sites: Sites = slice(None)) -> _BracketEnd:
        scale = sd[sites]
        _, k1, k2 = exponent(mean[sites] + scale * x, sites)
        return _BracketEnd(x, x - scale * k1, 1.0 - scale * scale * k2)

    origin = at(np.zeros_like(mean))
    origin = origin._replace(slope=np.clip(origin.slope, -X_LIMIT, X_LIMIT))
    bound = at(-origin.slope)
    rising = bound.x >= 0.0
    low, high = origin.where(rising, bound), bound.where(rising, origin)
    low = low._replace(slope=np.minimum(low.slope, 0.0))
    high = high._replace(slope=np.maximum(high.slope, 0.0))

    # a few roundings beyond the bend, so that f is on the side meant however large m and sd are
    beyond = 8.0 * EPS * np.abs(mean)
    for bend in (-UNDERFLOW, UNDERFLOW, -FLAT, FLAT, BENDS[0], BENDS[-1], 0.0):
        x = np.clip(standardise(bend + np.sign(bend) * beyond, mean, sd), low.x, high.x)
        if ((low.x < x) & (x < high.x)).any():
            new = at(x)
            below = new.slope <= 0.0
            low, high = new.where(below, low), high.where(below, new)

    for iteration in range(240):
        best = np.minimum(-low.slope, high.slope)
        # the maximum is above the better end by at most F^2 / 2, and by at most |F| (high - low)
        gap = best * np.minimum(0.5 * best, high.x - low.x)
        (open_,) = np.nonzero(gap > MODE_GAP)
        if not open_.size:
            break
        lo, hi = (_BracketEnd(*(a[open_] for a in end)) for end in (low, high))
        x = 0.5 * (lo.x + hi.x)
        if iteration % 3 < 2:
            better = lo.where(-lo.slope < hi.slope, hi)
            newton = better.x - better.slope / better.curvature
            x = np.where((newton > lo.x) & (newton < hi.x), newton, x)
        new = at(x, open_)
        below = new.slope <= 0.0
        low.put(open_, new, below)
        high.put(open_, new, ~below)
    return low, high


def panel_edges(points: list[Array], bends: list[Array], mean: Array, sd: Array) -> Array:
    """Sort points in x, and bends in f, into edges of panels: (n, n_points + n_bends).

    The smallest and the largest of the points, each of shape (n,), are the ends of the integral;
    bends beyond them give empty panels there.
    """
    edges = np.stack(points, axis=1)
    if bends:
        inner = np.stack([standardise(bend, mean, sd) for bend in bends], axis=1)
        low, high = edges.min(axis=1), edges.max(axis=1)
        edges = np.concatenate([edges, np.clip(inner, low[:, None], high[:, None])], axis=1)
    return np.sort(edges, axis=1)


def panel_rule(edges: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights, (n, n_panels * ORDER) each, of edges (n, n_panels + 1).

    Examples
    --------
    >>> import numpy as np
    >>> x, weights = panel_rule(np.array([[0.0, 1.0, 3.0]]))
    >>> bool(np.isclose((weights * x**2).sum(), 9.0, rtol=1e-15))
    True
    """
    half = 0.5 * (edges[:, 1:] - edges[:, :-1])
    middle = edges[:, :-1] + half
    x = half[:, :, None] * _NODES
    x += middle[:, :, None]
    weights = half[:, :, None] * _WEIGHTS
    return x.reshape(len(edges), -1), weights.reshape(len(edges), -1)


def site_blocks(sites: NDArray[np.intp], panels: int) -> Iterator[NDArray[np.intp]]:
    """Split the indices of sites, shape (n,), into blocks whose arrays of nodes stay in cache."""
    size = max(1, BLOCK // (panels * ORDER))
    for start in range(0, sites.size, size):
        yield sites[start : start + size]
