"""Integrals over many latents by fixed points: P(a class has the largest noisy latent).

Four rules answer ``P_c = P(argmax_j z_j = c)``, ``z = mu + x + e``, x ~ N(0, A) and e
independent noise of each class: Gumbel noise, for which P is E[softmax(mu + x)], or none (Gaussian
noise is part of A). They differ in what is integrated without points:

- `independent`: a part diag(d) of A and the noise, by one integral over the value of the maximum;
- `softmax`: the Gumbel noise, in closed form;
- `line`: the direction in which the latents vary most, in closed form;
- `orthant`: one variable after the other, each restricted by those before it (Genz 1992).

Each is called with a range of points, so that twice the points cost only the new ones, and treats
every row on its own: a row's bits do not depend on its neighbours.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import qmc

Array = NDArray[np.float64]

# Elements of one temporary array: a few of them lie in a level 2 cache.
BLOCK = 32_000

# Bits of a Sobol point, as scipy's default; 2^30 points are more than anyone waits for.
BITS = 30

# Which scrambling: of 40, the one with the least errors at 64 to 1024 points on posteriors of six
# and ten classes; half those of the median.
SCRAMBLE = 1

# Each tail of the noise that the integral over the maximum leaves out.
LEFT_TAIL, RIGHT_TAIL = 1e-5, 5e-7

# Spacing of the trapezoidal rule in standard deviations of the narrowest noise. The Fourier
# transform of a normal (Gumbel) density bounds its error by about 1e-8 (1e-5) at 0.75; the maximum
# of several is narrower than one.
SPACING = 0.75

# Degrees of the noise's polynomials in value and in shape. Measured: the distribution function is
# right to 4e-5 for the shapes in between, 3e-6 for the normal, 2e-15 for the Gumbel.
VALUE_DEGREE, SHAPE_DEGREE = 12, 15

GUMBEL_VARIANCE = np.pi**2 / 6.0

_TINY = float(np.finfo(float).tiny)


class Rows(NamedTuple):
    """Rows of K classes each, in contrasts, with what every rule needs of them."""

    mean: Array  # (m, K), mean zero over the classes
    cov: Array  # (m, K, K), A with rows and columns summing to zero
    root: Array  # (m, K, K - 1), A = root root^T, the columns of most variance first
    own: Array  # (m, K), d: what of A is variance of a class alone
    rest: Array  # (m, K, K - 1), A - H diag(d) H^T = rest rest^T, H the centring
    gumbel: bool

    def take(self, index: NDArray[np.intp]) -> "Rows":
        """The rows of the index, or slice."""
        mean, cov, root, own, rest = (part[index] for part in self[:5])
        return Rows(mean, cov, root, own, rest, self.gumbel)


Rule = Callable[[Rows, int, int], Array]


# -- points ------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def sobol(dim: int, start: int, stop: int) -> Array:
    """Points start to stop of a scrambled Sobol sequence, shape (dim, stop - start), in (0, 1).

    Linear matrix scrambling and a digital shift (Matousek 1998) with fixed bits; scipy's own
    scrambling takes a random state, whose meaning may change from one version to the next.
    """
    engine = qmc.Sobol(dim, scramble=False, bits=BITS)
    if start:
        engine.fast_forward(start)
    plain = (engine.random(stop - start) * 2.0**BITS).astype(np.uint64).T
    out = np.zeros_like(plain)
    for k in range(dim):
        bits = [int(word) for word in np.random.PCG64([SCRAMBLE, k]).random_raw(BITS + 1)]
        for i in range(BITS):
            above = (1 << BITS) - (1 << (i + 1))
            mask = np.uint64((bits[i] & above) | (1 << i))
            parity = (np.bitwise_count(plain[k] & mask) & 1).astype(np.uint64)
            out[k] |= parity << np.uint64(i)
        out[k] ^= np.uint64(bits[BITS] & ((1 << BITS) - 1))
    return np.asarray((out.astype(float) + 0.5) / 2.0**BITS)


@lru_cache(maxsize=128)
def normals(dim: int, start: int, stop: int) -> Array:
    """Points with their negatives, shape (dim, stop - start), of mean 0 and covariance I exactly.

    So a rule is exact for cubic functions, which is what a posterior with little variance sees.
    """
    half = np.asarray(ndtri(sobol(dim, start // 2, stop // 2)))
    if half.shape[1] >= 2 * dim:
        L = np.linalg.cholesky(np.einsum("in,jn->ij", half, half) / half.shape[1])
        half = solve_triangular(L, half, lower=True)
    return np.concatenate([half, -half], axis=1)


@lru_cache(maxsize=128)
def _plain_normals(dim: int, start: int, stop: int) -> Array:
    return np.asarray(ndtri(sobol(dim, start, stop)))


def _gumbels(u: Array) -> Array:
    return np.asarray(-np.log(-np.log(u)))


def _blocks(n_rows: int, per_row: int) -> Iterator[slice]:
    size = max(1, BLOCK // per_row)
    for start in range(0, n_rows, size):
        yield slice(start, start + size)


# -- the rules ---------------------------------------------------------------------------------


def softmax(rows: Rows, start: int, stop: int) -> Array:
    """Average softmax over the points: (m, K)."""
    X = normals(rows.root.shape[2], start, stop)
    out = np.empty_like(rows.mean)
    for part in _blocks(len(out), out.shape[1] * X.shape[1]):
        f = np.matmul(rows.root[part], X)
        f += rows.mean[part, :, None]
        f -= f.max(axis=1, keepdims=True)
        np.exp(f, out=f)
        f /= f.sum(axis=1, keepdims=True)
        out[part] = f.mean(axis=2)
    return out


def line(rows: Rows, start: int, stop: int) -> Array:
    """Average over the points of P(argmax) along the direction of most variance: (m, K).

    Given all else, the latents are ``f_j + b_j s`` with s ~ N(0, 1), and class c is the largest
    for s between its last crossing with a class of smaller b and its first with one of larger.
    """
    m, K = rows.mean.shape
    f_dim = rows.root.shape[2] - 1
    n = stop - start
    noise: Array | float = 0.0
    if rows.gumbel:
        noise = _gumbels(sobol(f_dim + K, start, stop)[f_dim:])
    X = _plain_normals(f_dim, start, stop) if f_dim else np.zeros((0, n))
    order = np.argsort(rows.root[:, :, 0], axis=1, kind="stable")
    mean, root = _reorder(order, rows.mean), _reorder(order, rows.root)
    sums = np.empty_like(mean)
    for part in _blocks(m, K * n):
        b = root[part, :, 0]
        f = np.matmul(root[part, :, 1:], X)
        f += mean[part, :, None]
        if rows.gumbel:
            f += np.asarray(noise)[order[part]]
        lower, upper = np.full(f.shape, -40.0), np.full(f.shape, 40.0)
        for i in range(K):
            for j in range(i):
                with np.errstate(over="ignore"):
                    crossing = f[:, j] - f[:, i]
                    crossing /= np.maximum(b[:, i] - b[:, j], _TINY)[:, None]
                np.maximum(lower[:, i], crossing, out=lower[:, i])
                np.minimum(upper[:, j], crossing, out=upper[:, j])
        sums[part] = np.maximum(ndtr(upper) - ndtr(lower), 0.0).mean(axis=2)
    out = np.empty_like(sums)
    np.put_along_axis(out, order, sums, axis=1)
    return out


def _reorder(order: NDArray[np.intp], a: Array) -> Array:
    index = order.reshape(order.shape + (1,) * (a.ndim - 2))
    return np.take_along_axis(a, index, axis=1)


def orthant(rows: Rows, start: int, stop: int) -> Array:
    """Average over the points of Genz's product of one-dimensional probabilities: (m, K).

    P_c is the probability that all ``z_c - z_j`` are positive. The variables are taken in the
    order of Gibson, Glasbey & Elston (1994), the least probable first.

    References
    ----------
    Genz (1992), Numerical computation of multivariate normal probabilities, J. Comput. Graph.
    Stat. 1.
    """
    m, K = rows.mean.shape
    n = stop - start
    dim = K - 2
    U = sobol(dim + (K if rows.gumbel else 0), start, stop)
    noise = _gumbels(U[dim:]) if rows.gumbel else None
    out = np.empty((m, K))
    for c in range(K):
        others = np.delete(np.arange(K), c)
        shift = rows.mean[:, c, None] - rows.mean[:, others]
        S = (
            rows.cov[:, c, c][:, None, None]
            - rows.cov[:, c, others][:, :, None]
            - rows.cov[:, c, others][:, None, :]
            + rows.cov[:, others][:, :, others]
        )
        order, L, pivots = _prioritised(shift, S)
        shift = np.take_along_axis(shift, order, axis=1)
        for part in _blocks(m, 2 * n):
            size = len(shift[part])
            X = np.empty((size, max(dim, 1), n))
            product = np.ones((size, n))
            for i in range(K - 1):
                a = np.matmul(L[part, i, None, :i], X[:, :i])[:, 0]
                a += shift[part, i, None]
                if noise is not None:
                    a += noise[c] - noise[others[order[part, i]]]
                a /= pivots[part, i, None]
                p = ndtr(a)
                product *= p
                if i < K - 2:
                    # x >= -a, by its quantiles
                    X[:, i] = -ndtri(np.maximum(p * U[i], 1e-300))
            out[part, c] = product.mean(axis=1)
    return out


def _prioritised(shift: Array, S: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Order of the variables (m, k), Cholesky rows in that order (m, k, k), its diagonal."""
    m, k = shift.shape
    order = np.broadcast_to(np.arange(k), (m, k)).copy()
    rows_ = np.arange(m)
    L = np.zeros((m, k, k))
    pivots = np.empty((m, k))
    variance = np.diagonal(S, axis1=1, axis2=2).copy()
    least = 1e-20 * variance.max(axis=1) + _TINY
    reached = shift.copy()  # shift + sum of L times the mean of each variable so far
    left = np.ones((m, k), dtype=bool)
    for i in range(k):
        # rounded, so that a tie stays a tie when the input is rounded differently
        z = np.round(np.clip(reached / np.sqrt(np.maximum(variance, least[:, None])), -40, 40), 7)
        best = np.argmin(np.where(left, z, np.inf), axis=1)
        order[:, i] = best
        left[rows_, best] = False
        pivot = np.sqrt(np.maximum(variance[rows_, best], least))
        column = S[rows_, :, best] - np.einsum("mjk,mk->mj", L[:, :, :i], L[rows_, best, :i])
        column /= pivot[:, None]
        # no variable may get more than the variance it has left: pivots near zero are rounding
        limit = np.sqrt(np.maximum(variance, 0.0))
        column = np.where(left, np.clip(column, -limit, limit), 0.0)
        column[rows_, best] = pivot
        L[:, :, i] = column
        pivots[:, i] = pivot
        a = np.clip(reached[rows_, best] / pivot, -40.0, 40.0)
        # E[x | x > -a] = phi(a) / Phi(a)
        expected = np.exp(-0.5 * a * a - 0.5 * np.log(2 * np.pi) - log_ndtr(a))
        reached = reached + column * expected[:, None]
        variance = np.where(left, variance - column**2, variance)
    ordered = np.take_along_axis(L, order[:, :, None], axis=1)
    return order, ordered, pivots


def independent(rows: Rows, start: int, stop: int) -> Array:
    """Average over the points for the rest of A of an integral over the maximum: (m, K).

    Given the rest, the z_j are independent with distribution functions F_j, and

        ``P_c = int f_c(t) prod_{j != c} F_j(t) dt = int lambda_c u_c' exp(-sum_j lambda_j) dt``

    with ``lambda_j = -log F_j = exp(-u_j)``. Of Gumbel noise u is t itself, of normal noise and
    of sums of both it is a polynomial to what matters (`noise_polynomials`). One
    trapezoidal rule serves all classes: linear in K. Start = stop = 0 says that there is no rest.
    """
    m, K = rows.mean.shape
    n = max(stop - start, 1)
    X = normals(K - 2, start, stop) if stop else np.zeros((K - 2, 1))
    own = rows.own
    variance = own + GUMBEL_VARIANCE if rows.gumbel else own
    scale = np.sqrt(variance)
    shift = np.euler_gamma if rows.gumbel else 0.0
    lower, upper, coefficients = noise_polynomials(own / variance)
    nodes = node_counts(rows)
    out = np.empty((m, K))
    for count in np.unique(nodes):
        (chosen,) = np.nonzero(nodes == count)
        ticks = (np.arange(count) + 0.5) / count
        for part in _blocks(chosen.size, K * n * count):
            r = chosen[part]
            f = np.matmul(rows.rest[r, :, : K - 2], X)
            f += rows.mean[r, :, None] + shift
            begin, end = lower[r] * scale[r], upper[r] * scale[r]
            half = 0.5 * (end - begin)
            low = (f + begin[:, :, None]).max(axis=1)
            step = (f + end[:, :, None]).max(axis=1) - low
            t = low[:, None] + step[:, None] * ticks[:, None]
            x = t[:, None] - (f + (begin + half)[:, :, None])[:, :, None]
            x /= half[:, :, None, None]
            np.clip(x, -1.0, 1.0, out=x)
            u, slope = _evaluate(coefficients[r], x)
            np.negative(u, out=u)
            np.exp(u, out=u)
            product = np.exp(-u.sum(axis=1))
            u *= slope
            u *= product[:, None]
            mass = u.sum(axis=2)
            mass /= half[:, :, None]
            mass /= mass.sum(axis=1, keepdims=True)
            out[r] = mass.mean(axis=2)
    return out


def node_counts(rows: Rows) -> NDArray[np.intp]:
    """Nodes (m,) that `independent` takes, the next power of 2^(1/4) above what is needed."""
    variance = rows.own + GUMBEL_VARIANCE if rows.gumbel else rows.own
    variance = np.maximum(variance, _TINY)
    lower, upper, _ = noise_polynomials(rows.own / variance)
    scale = np.sqrt(variance)
    width = (upper * scale).max(axis=1) - (lower * scale).min(axis=1)
    needed = np.clip(width / (SPACING * scale.min(axis=1)), 1.0, 1e6)
    nodes = np.ceil(2.0 ** (np.ceil(4.0 * np.log2(needed)) / 4.0))
    return np.asarray(nodes, dtype=np.intp)


def _evaluate(coefficients: Array, x: Array) -> tuple[Array, Array]:
    """Polynomials (r, K, degree + 1) and their derivatives at x (r, K, ...), by Horner's rule."""
    c = coefficients[:, :, :, None, None]
    value = c[:, :, -1] * x
    slope = np.empty_like(x)
    slope[:] = c[:, :, -1]
    for k in range(coefficients.shape[2] - 2, 0, -1):
        value += c[:, :, k]
        slope *= x
        slope += value
        value *= x
    value += c[:, :, 0]
    return value, slope


# -- the distribution of Gumbel plus normal noise ------------------------------------------------


def noise_polynomials(shape: Array) -> tuple[Array, Array, Array]:
    """Ends and polynomials of ``u = -log(-log F)`` for noise of mean 0 and variance 1.

    Parameters
    ----------
    shape : ndarray
        The normal part of the variance: 0 for Gumbel noise, 1 for normal noise.

    Returns
    -------
    lower, upper : ndarray
        Where F is LEFT_TAIL, and 1 - RIGHT_TAIL.
    coefficients : ndarray, one axis more
        Of u in ``x = -1`` (lower) to ``x = 1`` (upper), powers ascending.
    """
    if (shape == 1.0).all():
        table = _noise_table()[-1]
        expanded = np.broadcast_to(table, (*shape.shape, table.size))
    else:
        basis = _noise_basis()
        powers = chebyshev.chebvander(2.0 * shape - 1.0, SHAPE_DEGREE)
        expanded = np.einsum("...k,kj->...j", powers, basis)
    return expanded[..., 0], expanded[..., 1], expanded[..., 2:]


@lru_cache(maxsize=1)
def _noise_basis() -> Array:
    """Chebyshev coefficients in the shape, (SHAPE_DEGREE + 1, 2 + VALUE_DEGREE + 1)."""
    table = _noise_table()
    # the points of the second kind include the Gumbel and the normal
    V = chebyshev.chebvander(2.0 * _shapes() - 1.0, SHAPE_DEGREE)
    return np.asarray(np.linalg.solve(V, table))


def _shapes() -> Array:
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.arange(SHAPE_DEGREE + 1) / SHAPE_DEGREE))


@lru_cache(maxsize=1)
def _noise_table() -> Array:
    """Ends and coefficients for each of the shapes, (SHAPE_DEGREE + 1, 2 + VALUE_DEGREE + 1)."""
    x = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    table = np.empty((SHAPE_DEGREE + 1, VALUE_DEGREE + 3))
    for row, shape in zip(table, _shapes(), strict=True):
        row[0] = brentq(lambda w, s=shape: _double_log(w, s) + np.log(-np.log(LEFT_TAIL)), -8, 0)
        row[1] = brentq(lambda w, s=shape: _double_log(w, s) + np.log(RIGHT_TAIL), 0, 16)
        u = _double_log(row[0] + 0.5 * (row[1] - row[0]) * (x + 1.0), shape)
        # an error of u moves F by lambda exp(-lambda) times it
        tail = np.exp(-u)
        weights = np.sqrt(np.minimum(tail, 1.0) * np.exp(-tail) + 1e-5)
        row[2:] = chebyshev.cheb2poly(chebyshev.chebfit(x, u, VALUE_DEGREE, w=weights))
    return table


def _double_log(w: Array | float, shape: float) -> Array:
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


__all__ = ["Rows", "Rule", "independent", "line", "node_counts", "orthant", "sobol", "softmax"]
