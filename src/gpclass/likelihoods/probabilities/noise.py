"""The distribution of the sum of Gumbel and normal noise, by polynomials."""

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from gpclass import linalg

Array = NDArray[np.float64]

GUMBEL_VARIANCE = np.pi**2 / 6.0

# Each tail of the noise that the polynomials leave out.
LEFT_TAIL, RIGHT_TAIL = 1e-5, 5e-7

# Degrees of the noise's polynomials in value and in shape. Measured: the distribution function is
# right to 4e-5 for the shapes in between, 3e-6 for the normal, 2e-15 for the Gumbel.
VALUE_DEGREE, SHAPE_DEGREE = 12, 15

_TINY = float(np.finfo(float).tiny)


def noise_polynomials(shape: Array) -> tuple[Array, Array, Array]:
    """Ends and polynomials of ``u = -log(-log F)`` for noise of mean 0 and variance 1.

    ``shape`` is the normal part of the variance: 0 for Gumbel noise, 1 for normal noise. The ends
    are where F is LEFT_TAIL and 1 - RIGHT_TAIL; the coefficients, powers ascending along one more
    axis, are those of u in ``x = -1`` (lower) to ``x = 1`` (upper).
    """
    if (shape == 1.0).all():
        table = _noise_table()[-1]
        expanded = np.broadcast_to(table, (*shape.shape, table.size))
    else:
        basis = _noise_basis()
        powers = chebyshev.chebvander(2.0 * shape - 1.0, SHAPE_DEGREE)
        expanded = np.einsum("...k,kj->...j", powers, basis)
    return expanded[..., 0], expanded[..., 1], expanded[..., 2:]


def noise_quantiles(shape: Array, tail: float) -> Array:
    """Where F is tail, for the same noise; LEFT_TAIL <= tail <= 1/2 or a little more."""
    return np.asarray(chebyshev.chebval(2.0 * shape - 1.0, _quantile_basis(tail)))


@lru_cache(maxsize=256)
def _quantile_basis(tail: float) -> Array:
    values = np.array([_quantile(tail, shape) for shape in _shapes()])
    V = np.asarray(chebyshev.chebvander(2.0 * _shapes() - 1.0, SHAPE_DEGREE), dtype=float)
    return linalg.solve_general(V, values)


def _quantile(tail: float, shape: float) -> float:
    return float(brentq(lambda w: double_log(w, shape) + np.log(-np.log(tail)), -8, 8))


@lru_cache(maxsize=1)
def _noise_basis() -> Array:
    """Chebyshev coefficients in the shape, (SHAPE_DEGREE + 1, 2 + VALUE_DEGREE + 1)."""
    table = _noise_table()
    # the points of the second kind include the Gumbel and the normal
    V = np.asarray(chebyshev.chebvander(2.0 * _shapes() - 1.0, SHAPE_DEGREE), dtype=float)
    return linalg.solve_general(V, table)


def _shapes() -> Array:
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.arange(SHAPE_DEGREE + 1) / SHAPE_DEGREE))


@lru_cache(maxsize=1)
def _noise_table() -> Array:
    """Ends and coefficients for each of the shapes, (SHAPE_DEGREE + 1, 2 + VALUE_DEGREE + 1)."""
    x = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    table = np.empty((SHAPE_DEGREE + 1, VALUE_DEGREE + 3))
    for row, shape in zip(table, _shapes(), strict=True):
        row[0] = _quantile(LEFT_TAIL, shape)
        row[1] = brentq(lambda w, s=shape: double_log(w, s) + np.log(RIGHT_TAIL), 0, 16)
        u = double_log(row[0] + 0.5 * (row[1] - row[0]) * (x + 1.0), shape)
        # an error of u moves F by lambda exp(-lambda) times it
        tail = np.exp(-u)
        weights = np.sqrt(np.minimum(tail, 1.0) * np.exp(-tail) + 1e-5)
        row[2:] = chebyshev.cheb2poly(chebyshev.chebfit(x, u, VALUE_DEGREE, w=weights))
    return table


def double_log(w: Array | float, shape: float) -> Array:
    """``-log(-log F(w))`` of the standardised sum of Gumbel and normal noise."""
    w = np.asarray(w, dtype=float)
    if shape == 1.0:
        return np.asarray(-np.log(-log_ndtr(w)))
    scale = np.sqrt(GUMBEL_VARIANCE / (1.0 - shape))
    v, sd = w * scale + np.euler_gamma, scale * np.sqrt(shape)
    if sd >= 1.0:
        g = np.arange(-4.0, 45.0, 0.04)
        weights = np.exp(-g - np.exp(-g))
        z = (v[..., None] - g) / sd
        below, above = ndtr(z), ndtr(-z)
    else:
        g = np.arange(-9.0, 9.0, 0.03)
        weights = np.exp(-0.5 * g * g)
        rate = np.exp(sd * g - v[..., None])
        below, above = np.exp(-rate), -np.expm1(-rate)
    weights = weights / weights.sum()
    F, rest = (below * weights).sum(axis=-1), (above * weights).sum(axis=-1)
    small = np.minimum(rest, 0.5)
    rate = np.where(rest < 0.5, -np.log1p(-small), -np.log(np.maximum(F, _TINY)))
    return np.asarray(-np.log(rate))
