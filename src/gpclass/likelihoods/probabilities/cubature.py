"""Integrals over many latents by fixed points: P(a class has the largest noisy latent).

The rules here answer ``P_c = P(argmax_j z_j = c)``, ``z = mu + x + e``, x ~ N(0, A) and e
independent noise of each class: Gumbel noise, for which P is E[softmax(mu + x)], or none (Gaussian
noise is part of A). They differ in what is integrated without points:

- `independent`: a part diag(d) of A and the noise, by one integral over the value of the maximum;
- `softmax`: the Gumbel noise, in closed form;
- `orthant`: one variable after the other, each restricted by those before it (Genz 1992); without
  Gumbel noise;
- `correction`, `plain_correction`: what Gumbel noise changes against normal noise, by the first two
  rules; to be added to P with normal noise.

Each is called with a range of points, so that twice the points cost only the new ones, and treats
every row on its own: a row's bits do not depend on its neighbours.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from gpclass.likelihoods.probabilities.noise import (
    GUMBEL_VARIANCE,
    noise_polynomials,
    noise_quantiles,
)
from gpclass.likelihoods.probabilities.points import normals, sobol

Array = NDArray[np.float64]
Singles = NDArray[np.float32]

# Elements of one temporary array: a few of them lie in a level 2 cache.
BLOCK: Final = 32_000

# Probability that the maximum is below the range of the integral over it, at most.
BELOW: Final = 1e-6

# Spacing of the midpoint rule for the maximum, in standard deviations of the narrowest noise, of
# one class: the maximum of K is narrower. Measured on 3 to 50 classes: errors of 2e-6 and less.
SPACING: Final = 0.85
NARROWER: Final = 0.1

# Points by which the nodes are counted.
PROBES: Final = 32

# Variance of the normal noise nearest to Gumbel noise: on random covariances of 3 to 30 classes and
# sizes 9 and 30, the softmax less its normal counterpart has the least variance for 1.5 to 1.8.
CONTROL: Final = 1.6

_TINY: Final = float(np.finfo(float).tiny)


class Rows(NamedTuple):
    """Rows of K classes each, in contrasts, with what every rule needs of them."""

    mean: Array  # (m, K), mean zero over the classes
    cov: Array  # (m, K, K), A with rows and columns summing to zero
    root: Array  # (m, K, K - 1), A = root root^T, the columns of most variance first
    own: Array  # (m, K), d: what of A is variance of a class alone
    rest: Array  # (m, K, at most K - 1), A - H diag(d) H^T = rest rest^T, H the centring
    gumbel: bool

    def take(self, index: NDArray[np.intp]) -> "Rows":
        """The rows of the index, or slice."""
        mean, cov, root, own, rest = (part[index] for part in self[:5])
        return Rows(mean, cov, root, own, rest, self.gumbel)


Rule = Callable[[Rows, int, int], Array]


def _blocks(n_rows: int, per_row: int) -> Iterator[slice]:
    size = max(1, BLOCK // per_row)
    for start in range(0, n_rows, size):
        yield slice(start, start + size)


def softmax(rows: Rows, start: int, stop: int) -> Array:
    """Average softmax over the points: (m, K)."""
    X = normals(rows.root.shape[2], start, stop, fresh=True)
    out = np.empty_like(rows.mean)
    for part in _blocks(len(out), out.shape[1] * X.shape[1]):
        f = np.matmul(rows.root[part], X)
        f += rows.mean[part, :, None]
        f -= f.max(axis=1, keepdims=True)
        np.exp(f, out=f)
        f /= f.sum(axis=1, keepdims=True)
        out[part] = f.mean(axis=2)
    return out


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
    U = sobol(dim, start, stop)
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


def independent(rows: Rows, start: int, stop: int, fresh: bool = False) -> Array:
    """Average over the points for the rest of A of an integral over the maximum: (m, K).

    Given the rest, the z_j are independent with distribution functions F_j, and

        ``P_c = int f_c(t) prod_{j != c} F_j(t) dt = int lambda_c u_c' exp(-sum_j lambda_j) dt``

    with ``lambda_j = -log F_j = exp(-u_j)``. Of Gumbel noise u is t itself, of normal noise and
    of sums of both it is a polynomial to what matters (`noise_polynomials`). One
    midpoint rule serves all classes: linear in K. Start = stop = 0 says that there is no rest.
    """
    m, K = rows.mean.shape
    n = max(stop - start, 1)
    dim = rows.rest.shape[2]
    X = normals(dim, start, stop, fresh) if stop else np.zeros((dim, 1))
    noise = _Noise.of(rows)
    nodes = node_counts(rows)
    out = np.empty((m, K))
    for count in np.unique(nodes):
        (chosen,) = np.nonzero(nodes == count)
        ticks = (np.arange(count) + 0.5) / count
        for part in _blocks(chosen.size, K * n * count):
            r = chosen[part]
            f = np.matmul(rows.rest[r], X)
            f += rows.mean[r, :, None]
            own = noise.take(r)
            low, high = own.range_of_maximum(f)
            t = low[:, None] + (high - low)[:, None] * ticks[:, None]
            half = 0.5 * (own.end - own.begin)
            f += (own.begin + half)[:, :, None]
            # single precision does for a factor of an average
            x = np.empty((r.size, K, count, n), dtype=np.float32)
            np.subtract(t[:, None], f[:, :, None], out=x, casting="same_kind")
            x *= (1.0 / half)[:, :, None, None].astype(np.float32)
            np.clip(x, -1.0, 1.0, out=x)
            u, slope = _evaluate(own.coefficients.astype(np.float32), x)
            # a narrow class has nothing where only a wide one can be
            slope *= x < 1.0
            np.negative(u, out=u)
            np.exp(u, out=u)
            product = np.exp(-u.sum(axis=1))
            u *= slope
            u *= product[:, None]
            mass = u.sum(axis=2).astype(float)
            mass /= half[:, :, None]
            mass /= mass.sum(axis=1, keepdims=True)
            out[r] = mass.mean(axis=2)
    return out


class _Noise(NamedTuple):
    """What rows have of each class alone: from where to where, polynomials, and quantiles."""

    begin: Array  # (m, K)
    end: Array  # (m, K)
    coefficients: Array  # (m, K, degree + 1)
    quantiles: Array  # (m, K, number of COUNTS)

    @classmethod
    def of(cls, rows: Rows) -> "_Noise":
        variance = rows.own + GUMBEL_VARIANCE if rows.gumbel else rows.own
        variance = np.maximum(variance, _TINY)
        scale, shape = np.sqrt(variance), rows.own / variance
        shift = np.euler_gamma if rows.gumbel else 0.0
        lower, upper, coefficients = noise_polynomials(shape)
        quantiles = [noise_quantiles(shape, BELOW ** (1.0 / k)) for k in _counts(shape.shape[1])]
        return cls(
            shift + scale * lower,
            shift + scale * upper,
            coefficients,
            shift + scale[:, :, None] * np.stack(quantiles, axis=2),
        )

    def take(self, index: NDArray[np.intp] | slice) -> "_Noise":
        return _Noise(*(part[index] for part in self))

    def range_of_maximum(self, f: Array) -> tuple[Array, Array]:
        """Between what values the maximum is, each of shape (m, n), for f (m, K, n).

        All of k independent variables are below their quantiles of ``BELOW^(1/k)`` with
        probability BELOW, so that the k-th largest of these is a lower bound, for each k.
        """
        K = f.shape[1]
        low = (f + self.begin[:, :, None]).max(axis=1)
        for i, k in enumerate(_counts(K)):
            q = f + self.quantiles[:, :, i, None]
            kth = q.min(axis=1) if k == K else np.partition(q, K - k, axis=1)[:, K - k]
            np.maximum(low, kth, out=low)
        return low, (f + self.end[:, :, None]).max(axis=1)


def _counts(K: int) -> list[int]:
    return sorted({round(K**power) for power in (0.35, 0.65, 1.0)} - {1})


def correction(rows: Rows, start: int, stop: int) -> Array:
    """Average over the points of what Gumbel noise changes against normal noise: (m, K).

    `independent` less the same with normal noise of the variance CONTROL, whose
    average `orthant` knows better: the more is of each class alone, the more nearly this is zero.
    """
    normal = rows._replace(own=rows.own + CONTROL, gumbel=False)
    return independent(rows, start, stop) - independent(normal, start, stop)


def plain_correction(rows: Rows, start: int, stop: int) -> Array:
    """The same where each class has little of its own: `softmax` less that with normal noise."""
    noise = np.full_like(rows.own, CONTROL)
    normal = rows._replace(own=noise, rest=rows.root, gumbel=False)
    return softmax(rows, start, stop) - independent(normal, start, stop, fresh=True)


def node_counts(rows: Rows) -> NDArray[np.intp]:
    """Nodes (m,) that `independent` takes, the next power of 2^(1/4) above what is needed."""
    variance = rows.own + GUMBEL_VARIANCE if rows.gumbel else rows.own
    noise = _Noise.of(rows)
    width = np.empty(len(variance))
    X = normals(rows.rest.shape[2], 0, PROBES)
    for part in _blocks(len(width), 4 * rows.mean.shape[1] * PROBES):
        f = np.matmul(rows.rest[part], X)
        f += rows.mean[part, :, None]
        low, high = noise.take(part).range_of_maximum(f)
        width[part] = (high - low).max(axis=1)
    spacing = SPACING * rows.mean.shape[1] ** -NARROWER
    spacing = spacing * np.sqrt(np.maximum(variance.min(axis=1), _TINY))
    nodes = np.ceil(2.0 ** (np.ceil(4.0 * np.log2(np.clip(width / spacing, 1.0, 1e6))) / 4.0))
    return np.asarray(nodes, dtype=np.intp)


def _evaluate(coefficients: Singles, x: Singles) -> tuple[Singles, Singles]:
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
