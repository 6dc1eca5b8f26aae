"""What a likelihood is asked under a Gaussian, from its ``log_prob`` and ``derivatives`` alone.

A likelihood without closed forms calls these functions from its methods::

    def tilted_moments(self, y, mean, var):
        return by_quadrature.tilted_moments(self, y, mean, var)

They assume of p(y|f):

- it varies in f on a scale of one or more (`gpclass.likelihoods.quadrature.BENDS`), and is
  smooth; a likelihood that says it is not is refused;
- with ``log_concave = True``, that ``log p`` and ``log(-log p)`` are concave in f, as they are
  for the logit, the probit and the complementary log-log, and that p is monotone. The results
  then hold to about 1e-12 relative for |mean| <= 50 and 1e-8 <= var <= 1e6, in both tails;
- with ``log_concave = False``, that it does not fall below exp(-700) where the Gaussian has mass.
  The range of f is then covered evenly, which is slower, and right to 1e-10 where p is smooth
  on the scale of one and on a tenth of the Gaussian's deviation.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods.base import (
    Array,
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    Linearisation,
    TiltedMoments,
    linearisation,
)
from gpclass.likelihoods.quadrature import (
    BENDS,
    DROP,
    NARROW,
    RADIUS,
    STRAIGHT,
    Exponent,
    Sites,
    mass_interval,
    panel_edges,
    panel_rule,
    site_blocks,
    standardise,
)

_LOG_SQRT_2PI = 0.5 * float(np.log(2.0 * np.pi))

# Below this log-probability its differences carry rounding errors above 1e-10, and only the
# derivatives still tell the shape; the tails of log p are straight or parabolic so far out.
_DEEP = -1e6

# From this x on the Gaussian's own exponent is a rounding error away from a constant.
_REMOTE = 1e6

# From this variance on a bend of unit width is invisible in the moments of x, which are then
# the better source for the derivatives of log Z.
_WIDE = 1e6

# Panels over the Gaussian where log-concavity does not say where the mass is.
_EVEN_PANELS = 16


class _Tilted(NamedTuple):
    """log Z, its derivatives by m, and the tilted variance in units of v; each of shape (n,)."""

    log_z: Array
    d_mean: Array
    d2_mean: Array
    variance: Array


def tilted_moments(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> TiltedMoments:
    """Moments of ``p(y|f) N(f | mean, var)`` by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        Only its ``log_prob``, ``derivatives``, ``log_concave`` and ``smooth`` are used.
    y, mean, var : array_like
        Labels in {-1, +1}, means and variances, broadcast against each other.

    Returns
    -------
    TiltedMoments
        Each field of the broadcast shape.

    Notes
    -----
    Only the label that is less probable at the mean is integrated. With q its evidence and
    ``d, d2`` the derivatives of log q by the mean, the other label has ``Z = 1 - q`` and, with
    ``r = q / (1 - q)``, derivatives ``-r d`` and ``-r (d2 + (1 + r) d^2)``. So log Z and its
    derivatives keep their digits where the label says next to nothing.

    References
    ----------
    RW06 eq. 3.58.

    Examples
    --------
    >>> from gpclass.likelihoods import Probit
    >>> moments = tilted_moments(Probit(), 1.0, -50.0, 1e-4)
    >>> bool(abs(moments.log_z / Probit().tilted_moments(1.0, -50.0, 1e-4).log_z - 1) < 1e-13)
    True
    """
    _require_smooth(likelihood)
    shape, y, m, v = _sites(y, mean, var)
    rare = _rare_label(likelihood, m)
    tilted = _tilted(likelihood, rare, m, v)
    q = np.exp(tilted.log_z)
    ratio = q / (1.0 - q)
    d, d2 = tilted.d_mean, tilted.d2_mean
    is_rare = y == rare
    log_z = np.where(is_rare, tilted.log_z, np.log1p(-q))
    d_mean = np.where(is_rare, d, -ratio * d)
    d2_mean = np.where(is_rare, d2, -ratio * (d2 + (1.0 + ratio) * d * d))
    variance = v * np.where(is_rare, tilted.variance, 1.0 + v * d2_mean)
    return TiltedMoments(
        *(a.reshape(shape) for a in (log_z, m + v * d_mean, variance, d_mean, d2_mean))
    )


def power_moments(
    likelihood: Likelihood, power: Array, y: Array, mean: Array, var: Array
) -> TiltedMoments:
    """Moments of ``p(y|f)^power N(f | mean, var)`` by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        Only its ``log_prob``, ``derivatives``, ``log_concave`` and ``smooth`` are used.
    power : array_like
        From zero to one.
    y, mean, var : array_like
        Labels in {-1, +1}, means and variances; all are broadcast against each other.

    Returns
    -------
    TiltedMoments
        Each field of the broadcast shape. The power zero gives back the Gaussian, exactly.

    Raises
    ------
    ValueError
        For a power out of range.
    """
    _require_smooth(likelihood)
    power = np.asarray(power, dtype=np.float64)
    if not ((power >= 0) & (power <= 1)).all():
        raise ValueError("power must be from zero to one")
    nothing = power == 0.0
    # the power travels in the size of the label, so that it is cut into blocks along with it
    signed_label = np.multiply(y, np.where(nothing, 1.0, power))
    shape, signed, m, v = _sites(signed_label, mean, var)
    powered: Any = _Powered(likelihood)
    tilted = _tilted(powered, signed, m, v)
    fields = (
        tilted.log_z,
        m + v * tilted.d_mean,
        v * tilted.variance,
        tilted.d_mean,
        tilted.d2_mean,
    )
    zero = np.zeros_like(m)
    gaussian = (zero, m, v, zero, zero)
    return TiltedMoments(
        *(
            np.where(nothing, own.reshape(shape), field.reshape(shape))
            for field, own in zip(fields, gaussian, strict=True)
        )
    )


@final
class _Powered:
    """``p(sign(y)|f)^|y|``: a likelihood whose label carries a power in its size."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood
        self.log_concave = likelihood.log_concave
        self.name = f"power of {likelihood.name}"

    def log_prob(self, y: Array, f: Array) -> Array:
        return np.abs(y) * self.likelihood.log_prob(np.sign(y), f)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        d = self.likelihood.derivatives(np.sign(y), f)
        return Derivatives(*(np.abs(y) * part for part in d))


def linearise(likelihood: Likelihood, mean: Array, var: Array) -> Linearisation:
    """Statistical linear regression of E[y|f] on ``f ~ N(mean, var)`` by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        Only its ``log_prob``, ``derivatives``, ``log_concave`` and ``smooth`` are used.
    mean, var : array_like
        Means and variances, broadcast against each other.

    Returns
    -------
    Linearisation
        Each field of the broadcast shape.

    References
    ----------
    GTS19 eq. 15 to 17.
    """
    _require_smooth(likelihood)
    shape, _, m, v = _sites(1.0, mean, var)
    rare = _rare_label(likelihood, m)
    tilted = _tilted(likelihood, rare, m, v)
    fit = linearisation(rare, tilted.log_z, tilted.d_mean, m, v)
    return Linearisation(*(a.reshape(shape) for a in fit))


def predict_proba(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """P(y = +1) for ``f ~ N(mean, var)`` by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        Only its ``log_prob``, ``derivatives``, ``log_concave`` and ``smooth`` are used.
    mean, var : array_like
        Means and variances, broadcast against each other.

    Returns
    -------
    ndarray
        Probabilities of the broadcast shape.
    """
    _require_smooth(likelihood)
    shape, _, m, v = _sites(1.0, mean, var)
    rare = _rare_label(likelihood, m)
    q = np.exp(_tilted(likelihood, rare, m, v, moments=False).log_z)
    return np.where(rare > 0.0, q, 1.0 - q).reshape(shape)


def expected_log_prob(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """``E[log p(y|f)]`` for ``f ~ N(mean, var)`` and its derivatives, by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        Only its ``log_prob``, ``derivatives``, ``log_concave`` and ``smooth`` are used.
    y, mean, var : array_like
        Labels in {-1, +1}, means and variances, broadcast against each other.

    Returns
    -------
    ExpectedLogProb
        Each field of the broadcast shape.

    Notes
    -----
    The interval is that of ``-log p(y|f) N(f | mean, var)``, which is log-concave where the
    module says so; that keeps the digits where the label is all but certain. It reaches further
    to the side where p(y|f) grows: there the curvature of log p may outlive ``-log p``.
    """
    _require_smooth(likelihood)
    shape, y, m, v = _sites(y, mean, var)
    sd = np.sqrt(v)
    if likelihood.log_concave:
        lower, mode, upper = mass_interval(_log_surprise(likelihood, y), m, sd)
        end, last = _growing_end(y, lower, upper, m, sd)
        # -log p is straight where p is small, and not there where p is one
        points, bends = [np.where(y > 0.0, lower, upper), mode, last, end], [-STRAIGHT * y]
    else:
        points, bends = _even_points(RADIUS + np.minimum(sd, RADIUS)), []
    results = np.empty((3, m.size))
    everyone = np.arange(m.size)
    for sites, x, weights, f in _blocks(points, bends, m, sd, everyone, likelihood.log_concave):
        measure = weights * np.exp(-0.5 * x * x - _LOG_SQRT_2PI)
        label = y[sites, None]
        first, second, _ = likelihood.derivatives(label, f)
        results[0, sites] = np.vecdot(measure, likelihood.log_prob(label, f))
        results[1, sites] = np.vecdot(measure, first)
        results[2, sites] = 0.5 * np.vecdot(measure, second)
    return ExpectedLogProb(*results.reshape(3, *shape))


def _tilted(
    likelihood: Likelihood, y: Array, m: Array, v: Array, *, moments: bool = True
) -> _Tilted:
    """Integrate one label; without ``moments`` only log_z is filled in."""
    sd = np.sqrt(v)
    everyone = np.arange(m.size)
    if likelihood.log_concave:
        exponent = _log_label(likelihood, y)
        lower, mode, upper = mass_interval(exponent, m, sd)
        end, last = _growing_end(y, lower, upper, m, sd)
        straight = np.clip(standardise(STRAIGHT * np.sign(y), m, sd), lower, upper)
        points = [np.where(y > 0.0, lower, upper), mode, np.where(end == last, straight, last), end]
        result, deep = _parabolic(exponent, mode, m, sd)
        everyone = everyone[~deep]
    else:
        points = _even_points(_reach(likelihood, y, m, sd))
        result = _Tilted(*np.empty((4, m.size)))

    for sites, x, weights, f in _blocks(points, [], m, sd, everyone, likelihood.log_concave):
        label = y[sites, None]
        exponent_at = likelihood.log_prob(label, f) - 0.5 * x * x
        peak = exponent_at.argmax(axis=1)[:, None]
        top = np.take_along_axis(exponent_at, peak, axis=1)
        exponent_at -= top
        weights *= np.exp(exponent_at, out=exponent_at)
        mass = weights.sum(axis=1)
        result.log_z[sites] = top[:, 0] + np.log(mass) - _LOG_SQRT_2PI
        if not moments:
            continue
        first, second, _ = likelihood.derivatives(label, f)
        x_mean = np.vecdot(weights, x) / mass
        x -= x_mean[:, None]
        x_var = np.vecdot(weights, np.square(x, out=x)) / mass
        d = np.vecdot(weights, first) / mass
        # about a value it takes: where first is 1 - exp(-50), d's rounding outweighs the spread
        off = first - np.take_along_axis(first, peak, axis=1)
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
        result.variance[sites] = np.minimum(x_var, 1.0) if likelihood.log_concave else x_var
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


def _parabolic(
    exponent: Exponent, x: Array, m: Array, sd: Array
) -> tuple[_Tilted, NDArray[np.bool_]]:
    """Moments from the parabola through log p near the mode, and where it is to be used."""
    k, k1, k2 = exponent(m + sd * x, slice(None))
    slope, precision = sd * k1 - x, 1.0 - sd * sd * k2
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
    bends = bends + [np.full_like(m, bend) for bend in BENDS]
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


def _reach(likelihood: Likelihood, y: Array, m: Array, sd: Array) -> Array:
    """Half-range in x outside which ``p N`` is below exp(-DROP) of its maximum, as p <= 1."""
    best = likelihood.log_prob(y, m)
    for bend in (-STRAIGHT, *BENDS, STRAIGHT):
        x = np.clip(standardise(np.full_like(m, bend), m, sd), -40.0, 40.0)
        best = np.maximum(best, likelihood.log_prob(y, m + sd * x) - 0.5 * x * x)
    return np.minimum(np.sqrt(2.0 * (DROP - best)), 40.0)


def _rare_label(likelihood: Likelihood, m: Array) -> Array:
    """Find the label that is less probable at the mean."""
    one = np.ones_like(m)
    return np.where(likelihood.log_prob(one, m) < likelihood.log_prob(-one, m), 1.0, -1.0)


def _log_label(likelihood: Likelihood, y: Array) -> Exponent:
    """``log p(y|f)`` as an exponent."""

    def exponent(f: Array, sites: Sites) -> tuple[Array, Array, Array]:
        first, second, _ = likelihood.derivatives(y[sites], f)
        return likelihood.log_prob(y[sites], f), first, second

    return exponent


def _log_surprise(likelihood: Likelihood, y: Array) -> Exponent:
    """``log(-log p(y|f))`` as an exponent."""

    def exponent(f: Array, sites: Sites) -> tuple[Array, Array, Array]:
        label = y[sites]
        cost = -likelihood.log_prob(label, f)
        first, second, _ = likelihood.derivatives(label, f)
        # Where -log p underflows it is falling, in the direction of its label, faster than
        # any slope it had before; the mode is then looked for on the other side.
        certain = cost < 1e-300
        cost = np.where(certain, 1e-300, cost)
        slope = np.where(certain, -1e3 * label, -first / cost)
        return np.log(cost), slope, np.where(certain, 0.0, -second / cost - slope * slope)

    return exponent


def _require_smooth(likelihood: Likelihood) -> None:
    if not likelihood.smooth:
        raise ValueError(
            f"{likelihood.name!r} is not smooth: quadrature would miss where it jumps, and its "
            "integrals must be closed forms of its own"
        )


def _sites(
    y: Array | float, mean: Array, var: Array
) -> tuple[tuple[int, ...], Array, Array, Array]:
    """Broadcast shape, and the three arguments as flat arrays of that size."""
    arrays = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
    flat = [np.ravel(a) for a in arrays]
    return arrays[0].shape, flat[0], flat[1], flat[2]
