"""Class probabilities from the latents' joint Gaussian: multinomial probit, threshold, softmax.

A row passes four steps; for most rows the first is enough:

1. A class that loses against a single other one with probability above 1 - 1e-6 keeps that bound
   as its probability. If one class is left, it is certain; two are a one-dimensional integral,
   three a closed form, or for the softmax, up to a variance, an average over a lattice.
2. The other classes are sorted by properties that do not depend on the order in which they came,
   and reduced to contrasts, as what all classes share changes no probability.
3. The covariance is split into variance that is each class's own and the rest. How large the rest
   is decides which rule of `gpclass.likelihoods.probabilities.cubature` integrates.
4. The rule's points are doubled until its two halves agree. If they do not with the most points
   allowed, there is a warning with the estimated error.

The softmax is the argmax with Gumbel noise. Where the rest is large it is integrated as the argmax
with normal noise, which is easier, plus a small correction.
"""

import warnings
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.likelihoods.logit import Logit
from gpclass.likelihoods.probabilities import cubature
from gpclass.likelihoods.probabilities.contrasts import (
    ROUNDING,
    canonical_order,
    contrasts,
    prepared,
    share_ties,
)
from gpclass.likelihoods.probabilities.cubature import Rows, Rule
from gpclass.likelihoods.probabilities.lattice import largest_deviation, softmax_on_lattice
from gpclass.likelihoods.probabilities.noise import GUMBEL_VARIANCE
from gpclass.likelihoods.probabilities.three import largest_of_three

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Cubature:
    """How exactly class probabilities are integrated.

    Parameters
    ----------
    tolerance : float, default=3e-5
        Half the distance of the means over the two halves of the points at which a row is done.
    warn_above : float, default=1e-4
        Estimated error from which a row gets a warning.
    max_points : int, default=131072
        Points of a row, a power of two from 1024.
    negligible : float, default=2e-6
        A class whose probability is below this share of 1/C is not integrated over.
    chunk : int, default=250_000
        Elements of the (rows, C, C) arrays worked on together: about ten of them, 20 MB.
    """

    tolerance: float = 3e-5
    warn_above: float = 1e-4
    max_points: int = 131_072
    negligible: float = 2e-6
    chunk: int = 250_000


DEFAULT: Final = Cubature()

# Share of the error that doubling the points leaves at least; share of the tolerance that the first
# two halves, which nothing before confirms, must keep to.
MEMORY: Final = 0.3
EARLY: Final = 0.5

# Least probability of a class, times the bound that it has from the others one by one.
FLOOR: Final = 1e-6

# Standardised differences are clipped to this: log Phi(-1e10) = -5e19.
Z_LIMIT: Final = 1e10

# Points in one call of a rule at most.
SLAB: Final = 2048

# The rest of the covariance, in units of each class's own noise, up to which `independent` is
# used: where `orthant` (quadratic in the classes) is the other choice, and from how many classes
# on that is too slow.
LITTLE: Final = 0.6
MILD: Final = 20.0
FEW_CLASSES: Final = 12

# The same up to which `correction` is used, and the nodes up to which it is; and those up to which
# `independent` is.
MILD_SOFTMAX: Final = 4.0
FEW_NODES: Final = 64
NODES: Final = 256

# Rest of the covariance, in the same units, that is none.
NO_REST: Final = 1e-8

# Deviation of the contrasts of three classes up to which a lattice of points is quick.
WIDEST: Final = 8.0

# Variance of a contrast below which the softmax itself is smooth.
SMOOTH: Final = 0.3


class Plan(NamedTuple):
    """A rule, and its points in the first call."""

    rule: Rule
    fewest: int


INDEPENDENT: Final = Plan(cubature.independent, 64)
SOFTMAX: Final = Plan(cubature.softmax, 512)
CORRECTION: Final = Plan(cubature.correction, 32)
PLAIN: Final = Plan(cubature.plain_correction, 64)
ORTHANT: Final = Plan(cubature.orthant, 64)

CORRECTIONS: Final = (CORRECTION, PLAIN)


def softmax_probabilities(mean: ArrayLike, cov: ArrayLike, settings: Cubature = DEFAULT) -> Array:
    """Average the softmax over Gaussian latents, ``E[softmax(f)]``, f ~ N(mean, cov).

    It is the probability of the largest latent after independent Gumbel noise. Arguments, results
    and errors are those of `argmax_probabilities`.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_probabilities([[1.0, 0.0, -1.0]], [np.zeros((3, 3))]).round(4)
    array([[0.6652, 0.2447, 0.09  ]])
    >>> softmax_probabilities([[1.0, 0.0, -1.0]], [4.0 * np.eye(3)]).round(3)
    array([[0.515, 0.309, 0.176]])

    References
    ----------
    RW06 eq. 3.34 and section 3.5.
    """
    m, S = _checked(mean, cov)
    return _in_chunks(m, S, gumbel=True, settings=settings)


def argmax_probabilities(
    mean: ArrayLike, cov: ArrayLike, noise: float = 1.0, settings: Cubature = DEFAULT
) -> Array:
    """Probabilities that each noisy latent is the largest, for z ~ N(mean, cov + noise I).

    Parameters
    ----------
    mean : array_like of shape (m, C)
        Latent means of m rows.
    cov : array_like of shape (m, C, C)
        Their covariances. Only contrasts matter: a constant added to all entries is no change.
    noise : float, default=1.0
        Variance of independent normal noise: 1 is the multinomial probit; 0 the threshold.
    settings : Cubature, default=Cubature()

    Returns
    -------
    P : ndarray of shape (m, C)
        Positive, rows sum to one. The largest error measured was 8e-5, on rows of 3 to 30 classes,
        posteriors and arbitrary covariances of sizes 1 to 1e4. A row of P depends on nothing but
        its mean and covariance, and a permutation of the classes permutes P, both to rounding.

    Raises
    ------
    ValueError
        If shapes do not match, or a number is not finite, or the noise is negative.
    NotPositiveDefiniteError
        If a covariance has a negative eigenvalue that is no rounding, or is not symmetric.

    Warns
    -----
    NumericalWarning
        If the points allowed do not reach ``settings.warn_above``; with the estimated error.

    Examples
    --------
    >>> import numpy as np
    >>> argmax_probabilities([[1.0, 0.0, -1.0]], [np.zeros((3, 3))]).round(3)
    array([[0.729, 0.224, 0.047]])

    References
    ----------
    KG06 eq. 50; Riihimäki, Jylänki & Vehtari (2013), Nested expectation propagation for Gaussian
    process classification with a multinomial probit likelihood, JMLR 14.
    """
    if not (np.isfinite(noise) and noise >= 0.0):
        raise ValueError(f"noise must be finite and at least 0, not {noise!r}.")
    m, S = _checked(mean, cov)
    # not in place: the covariance may be the caller's
    return _in_chunks(m, S + noise * np.eye(m.shape[1]), gumbel=False, settings=settings)


def _checked(mean: ArrayLike, cov: ArrayLike) -> tuple[Array, Array]:
    m, S = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    if m.ndim != 2 or m.shape[1] < 1:
        raise ValueError(f"mean must have shape (m, C), C >= 1, not {m.shape}.")
    expected = (*m.shape, m.shape[1])
    if S.shape != expected:
        raise ValueError(f"cov must have shape {expected}, as mean has {m.shape}, not {S.shape}.")
    for name, a in (("mean", m), ("cov", S)):
        if not np.isfinite(a).all():
            raise ValueError(f"{name} must be finite.")
    if S.size:
        size = np.abs(S).max(axis=(1, 2))
        skew = np.abs(S - S.transpose(0, 2, 1)).max(axis=(1, 2))
        worst = int(np.argmax(skew - ROUNDING * size))
        if skew[worst] > ROUNDING * size[worst]:
            raise NotPositiveDefiniteError(
                f"cov must be symmetric, but entries of row {worst} differ by {skew[worst]:.3g} "
                "from those mirrored."
            )
    return m, S


def _in_chunks(mean: Array, cov: Array, *, gumbel: bool, settings: Cubature) -> Array:
    m, C = mean.shape
    out = np.ones((m, C))
    if C == 1:
        return out
    size = max(1, settings.chunk // (C * C))
    error = np.zeros(m)
    for start in range(0, m, size):
        rows = slice(start, start + size)
        out[rows], error[rows] = _probabilities(mean[rows], cov[rows], gumbel, settings)
    unsure = int((error > settings.warn_above).sum())
    if unsure:
        warnings.warn(
            f"Class probabilities of {unsure} rows may be off by more than "
            f"{settings.warn_above:g} (estimated error at most {error.max():.1e}): their latents "
            "are too many and too correlated for the number of points allowed.",
            NumericalWarning,
            stacklevel=3,
        )
    return out


def _probabilities(
    mean: Array, cov: Array, gumbel: bool, settings: Cubature
) -> tuple[Array, Array]:
    """Probabilities and their estimated errors (m,) of one chunk."""
    m, C = mean.shape
    cov = 0.5 * (cov + cov.transpose(0, 2, 1))
    log_bound = _pair_bounds(mean, cov, gumbel)
    active = log_bound >= (np.log(settings.negligible / C) if C > 2 else -np.inf)
    error = np.zeros(m)
    P = np.where(active, 0.0, np.exp(log_bound))
    left = 1.0 - P.sum(axis=1)
    counts = active.sum(axis=1)
    first = np.argsort(~active, axis=1, kind="stable")
    for K in np.unique(counts):
        (rows,) = np.nonzero(counts == K)
        classes = first[rows, :K]
        at = (rows[:, None], classes)
        S = cov[rows[:, None, None], classes[:, :, None], classes[:, None, :]]
        p, error[rows] = _few(mean[at], S, gumbel, settings)
        P[at] = p * left[rows, None]
    # what the points have missed is not impossible
    P = np.maximum(P, np.exp(np.maximum(log_bound + np.log(FLOOR), np.log(1e-300))))
    P /= P.sum(axis=1, keepdims=True)
    return P, error


def _pair_bounds(mean: Array, cov: Array, gumbel: bool) -> Array:
    """Upper bounds of the log probabilities (m, C), each from the worst of the other classes.

    ``P_c <= P(z_c > z_j)``; and for the softmax ``P_c <= E[min(1, exp(f_c - f_j))]``, which is at
    most twice the probability of c against j alone.
    """
    C = mean.shape[1]
    variances = np.diagonal(cov, axis1=1, axis2=2)
    log_bound = np.zeros_like(mean)
    for c in range(C):
        d = mean[:, c, None] - mean
        v = variances[:, c, None] + variances - 2.0 * cov[:, c]
        if (v < -4.0 * ROUNDING * np.abs(variances).max(axis=1, keepdims=True)).any():
            raise NotPositiveDefiniteError(
                f"cov must be positive semi-definite, but the difference of class {c} and another "
                f"has variance {v.min():.3g}."
            )
        v = np.maximum(v, 0.0)
        sd = np.maximum(np.sqrt(v), 1e-150)
        log_p = log_ndtr(np.clip(d / sd, -Z_LIMIT, Z_LIMIT))
        if gumbel:
            decay = d + 0.5 * v + log_ndtr(np.clip(-(d + v) / sd, -Z_LIMIT, Z_LIMIT))
            log_p = np.logaddexp(log_p, decay)
        log_p[:, c] = 0.0
        log_bound[:, c] = np.minimum(log_p.min(axis=1), 0.0)
    return log_bound


def _few(mean: Array, cov: Array, gumbel: bool, settings: Cubature) -> tuple[Array, Array]:
    """The same for rows that all have K classes worth integrating over."""
    m, K = mean.shape
    if K == 1:
        return np.ones((m, 1)), np.zeros(m)
    if K == 2:
        d = mean[:, 0] - mean[:, 1]
        v = np.maximum(cov[:, 0, 0] + cov[:, 1, 1] - 2.0 * cov[:, 0, 1], 0.0)
        if gumbel:
            pair = [Logit().predict_proba(sign * d, v) for sign in (1.0, -1.0)]
        else:
            z = np.clip(d / np.maximum(np.sqrt(v), 1e-150), -Z_LIMIT, Z_LIMIT)
            pair = [ndtr(z), ndtr(-z)]
        return np.stack(pair, axis=1), np.zeros(m)
    if K == 3 and not gumbel:
        return largest_of_three(mean, cov), np.zeros(m)
    mean, cov, largest = contrasts(mean, cov)
    order, ranks = canonical_order(mean, cov)
    mean = np.take_along_axis(mean, order, axis=1)
    cov = np.take_along_axis(cov, order[:, :, None], axis=1)
    cov = np.take_along_axis(cov, order[:, None, :], axis=2)
    p, error = _integrated(prepared(mean, cov, largest, gumbel), settings)
    P = np.empty_like(p)
    np.put_along_axis(P, order, p, axis=1)
    return share_ties(P, ranks, np.maximum(error, settings.warn_above)), error


def _integrated(rows: Rows, settings: Cubature) -> tuple[Array, Array]:
    """Probabilities (m, K) and estimated errors (m,), by the rule that suits each row."""
    m, K = rows.mean.shape
    variance = rows.own + GUMBEL_VARIANCE if rows.gumbel else rows.own
    separate = np.asarray((variance > 0.0).all(axis=1), dtype=bool)
    safe = np.where(separate[:, None], variance, 1.0)
    ratio = np.where(separate, (rows.rest**2 / safe[:, :, None]).sum(axis=(1, 2)), np.inf)
    nodes = cubature.node_counts(rows)
    separate &= nodes <= NODES

    P, error = np.zeros((m, K)), np.zeros(m)
    smooth = (rows.root[:, :, 0] ** 2).sum(axis=1) < (SMOOTH if rows.gumbel else 0.0)
    few = np.zeros(m, dtype=bool)
    if rows.gumbel and K == 3:
        few = largest_deviation(rows.root) <= WIDEST
        P[few] = softmax_on_lattice(rows.mean[few], rows.root[few])
    smooth &= ~few
    alone = np.flatnonzero(~smooth & ~few & separate & (ratio < NO_REST))
    if alone.size:
        P[alone] = cubature.independent(rows.take(alone), 0, 0)
    left = ~smooth & ~few
    left[alone] = False
    mild = left & separate & (ratio < (LITTLE if K <= FEW_CLASSES else MILD))
    left &= ~mild
    close = left & separate & (ratio < MILD_SOFTMAX) & (nodes <= FEW_NODES)
    if not rows.gumbel:
        close[:] = False
    for plan, chosen in (
        (SOFTMAX, smooth),
        (INDEPENDENT, mild),
        (CORRECTION, close),
        (PLAIN if rows.gumbel else ORTHANT, left & ~close),
    ):
        (index,) = np.nonzero(chosen)
        if index.size:
            P[index], error[index] = _by(plan, rows.take(index), settings)
    return P, error


def _by(plan: Plan, rows: Rows, settings: Cubature) -> tuple[Array, Array]:
    """Probabilities and errors by one rule; a correction has what it corrects added."""
    P, error = _doubled(plan, rows, settings)
    if plan not in CORRECTIONS:
        return P, error
    K = rows.mean.shape[1]
    noisy = rows.cov + cubature.CONTROL * (np.eye(K) - 1.0 / K)
    largest = np.diagonal(noisy, axis1=1, axis2=2).max(axis=1)
    normal, its_error = _integrated(prepared(rows.mean, noisy, largest, gumbel=False), settings)
    return normal + P, np.hypot(its_error, error)


def _doubled(plan: Plan, rows: Rows, settings: Cubature) -> tuple[Array, Array]:
    """Double the points until the halves agree, or there are as many as allowed."""
    n = plan.fewest
    P, error = _mean_over(plan, rows, 0, n), np.zeros(len(rows.mean))
    open_ = np.arange(len(P))
    while open_.size and n < settings.max_points:
        new = _mean_over(plan, rows.take(open_), n, 2 * n)
        apart = 0.5 * np.abs(new - P[open_]).max(axis=1)
        P[open_] = 0.5 * (P[open_] + new)
        # halves may agree by chance; then those before did not
        error[open_] = np.maximum(apart, MEMORY * error[open_])
        allowed = settings.tolerance * (EARLY if n == plan.fewest else 1.0)
        open_ = open_[error[open_] > allowed]
        n *= 2
    return P, error


def _mean_over(plan: Plan, rows: Rows, start: int, stop: int) -> Array:
    slabs = range(start, stop, SLAB)
    total = np.zeros_like(rows.mean)
    for slab in slabs:
        total += plan.rule(rows, slab, min(slab + SLAB, stop))
    if plan in CORRECTIONS:
        return total / len(slabs)
    return np.asarray(total / total.sum(axis=1, keepdims=True))
