"""Class probabilities from the latents' joint Gaussian: multinomial probit, threshold, softmax.

A row passes four stations, most rows only the first:

1. Classes that lose against a single other one with all but 1e-6 of probability keep that bound
   as their probability. One class left is certain, two are a one-dimensional integral.
2. The others are put in an order that does not depend on the order in which they came, and
   reduced to contrasts: what all classes share changes nothing.
3. The covariance is split into a part that is each class's own and the rest; which of the rules
   of `gpclass.likelihoods.probabilities.cubature` comes first follows from their sizes.
4. Points are doubled until the halves agree. If they do not, the other rules are tried, and the
   most promising goes on. The softmax is also P with normal in place of Gumbel noise, which is
   easier, and a small correction. What error all rules leave is a warning.
"""

import warnings
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.likelihoods import Logit
from gpclass.likelihoods.probabilities import cubature
from gpclass.likelihoods.probabilities.contrasts import (
    ROUNDING,
    canonical_order,
    contrasts,
    prepared,
    share_ties,
)
from gpclass.likelihoods.probabilities.cubature import Rows, Rule
from gpclass.likelihoods.probabilities.noise import GUMBEL_VARIANCE

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Classes whose probability is below this share of 1/C are not integrated over.
NEGLIGIBLE = 2e-6

# Half the distance of the means over the first and the second half of the points, at which a row is
# done, and the error from which it gets a warning.
TOLERANCE, PROMISED = 3e-5, 1e-4

# Share of the error that doubling the points leaves at least; share of the tolerance that the first
# two halves, which nothing before confirms, must keep to.
MEMORY, EARLY = 0.3, 0.5

# Elements of the (rows, C, C) arrays of one chunk: with about ten of them, 20 MB.
CHUNK = 250_000

# Least probability of a class, times the bound that it has from the others one by one.
FLOOR = 1e-6

FAR = 1e10


class Plan(NamedTuple):
    """A rule; its points in the first call, as the first choice, at most, and to be judged by."""

    rule: Rule
    fewest: int
    first: int
    most: int
    trial: int


def softmax_probabilities(mean: ArrayLike, cov: ArrayLike) -> Array:
    """Average the softmax over Gaussian latents, ``E[softmax(f)]``, f ~ N(mean, cov).

    Parameters
    ----------
    mean : array_like of shape (m, C)
        Latent means of m rows.
    cov : array_like of shape (m, C, C)
        Their covariances. Only contrasts matter: a constant added to all entries is no change.

    Returns
    -------
    P : ndarray of shape (m, C)
        Positive, rows sum to one. Points are added until the estimated absolute error is below
        1e-4, mostly 3e-5; the largest error measured was 8e-5, on 54 rows of 3 to 30 classes,
        posteriors and arbitrary covariances of sizes 1 to 1e4. A row of P depends on nothing but
        its mean and covariance, and a permutation of the classes permutes P, both to rounding.

    Raises
    ------
    ValueError
        If shapes do not match, or a number is not finite.
    NotPositiveDefiniteError
        If a covariance has a negative eigenvalue that is no rounding, or is not symmetric.

    Warns
    -----
    NumericalWarning
        If the points allowed do not reach 1e-4; with the estimated error.

    See Also
    --------
    argmax_probabilities : With normal in place of Gumbel noise.

    Notes
    -----
    The softmax is the probability of the largest latent after independent Gumbel noise, so that
    the rules for `argmax_probabilities` serve here too. Two classes are the logit likelihood on
    their difference.

    References
    ----------
    RW06 eq. 3.34 and section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_probabilities([[1.0, 0.0, -1.0]], [np.zeros((3, 3))]).round(4)
    array([[0.6652, 0.2447, 0.09  ]])
    >>> softmax_probabilities([[1.0, 0.0, -1.0]], [4.0 * np.eye(3)]).round(3)
    array([[0.515, 0.309, 0.176]])
    """
    m, S = _checked(mean, cov)
    return _in_chunks(m, S, gumbel=True)


def argmax_probabilities(mean: ArrayLike, cov: ArrayLike, noise: float = 1.0) -> Array:
    """Probabilities that each noisy latent is the largest, for z ~ N(mean, cov + noise I).

    Parameters
    ----------
    mean : array_like of shape (m, C)
        Latent means of m rows.
    cov : array_like of shape (m, C, C)
        Their covariances. Only contrasts matter: a constant added to all entries is no change.
    noise : float, default=1.0
        Variance of independent normal noise: 1 is the multinomial probit; 0 the threshold.

    Returns
    -------
    P : ndarray of shape (m, C)
        Positive, rows sum to one. Points are added until the estimated absolute error is below
        1e-4, mostly 3e-5; the largest error measured was 8e-5, on 54 rows of 3 to 30 classes,
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
        If the points allowed do not reach 1e-4; with the estimated error.

    See Also
    --------
    softmax_probabilities : With Gumbel in place of normal noise.

    Notes
    -----
    Two classes are ``Phi((m_0 - m_1) / sqrt(v))``, v the variance of the difference.

    References
    ----------
    KG06 eq. 51; Riihimaki, Jylanki & Vehtari (2013), Nested expectation propagation for Gaussian
    process classification with a multinomial probit likelihood, JMLR 14.

    Examples
    --------
    >>> import numpy as np
    >>> argmax_probabilities([[1.0, 0.0, -1.0]], [np.zeros((3, 3))]).round(3)
    array([[0.729, 0.224, 0.047]])
    """
    if not (np.isfinite(noise) and noise >= 0.0):
        raise ValueError(f"noise must be finite and at least 0, not {noise!r}.")
    m, S = _checked(mean, cov)
    # not in place: the covariance may be the caller's
    return _in_chunks(m, S + noise * np.eye(m.shape[1]), gumbel=False)


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


def _in_chunks(mean: Array, cov: Array, gumbel: bool) -> Array:
    m, C = mean.shape
    out = np.ones((m, C))
    if C == 1:
        return out
    size = max(1, CHUNK // (C * C))
    worst, unsure = 0.0, 0
    for start in range(0, m, size):
        rows = slice(start, start + size)
        out[rows], error = _probabilities(mean[rows], cov[rows], gumbel)
        worst = max(worst, float(error.max()))
        unsure += int((error > PROMISED).sum())
    if unsure:
        warnings.warn(
            f"Class probabilities of {unsure} rows may be off by more than {PROMISED:g} "
            f"(estimated error at most {worst:.1e}): their latents are too many and too "
            "correlated for the number of points allowed.",
            NumericalWarning,
            stacklevel=3,
        )
    return out


def _probabilities(mean: Array, cov: Array, gumbel: bool) -> tuple[Array, Array]:
    """Probabilities and their estimated errors (m,) of one chunk."""
    m, C = mean.shape
    cov = 0.5 * (cov + cov.transpose(0, 2, 1))
    log_bound = _pair_bounds(mean, cov, gumbel)
    active = log_bound >= (np.log(NEGLIGIBLE / C) if C > 2 else -np.inf)
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
        p, error[rows] = _few(mean[at], S, gumbel)
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
        log_p = log_ndtr(np.clip(d / sd, -FAR, FAR))
        if gumbel:
            decay = d + 0.5 * v + log_ndtr(np.clip(-(d + v) / sd, -FAR, FAR))
            log_p = np.logaddexp(log_p, decay)
        log_p[:, c] = 0.0
        log_bound[:, c] = np.minimum(log_p.min(axis=1), 0.0)
    return log_bound


def _few(mean: Array, cov: Array, gumbel: bool) -> tuple[Array, Array]:
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
            z = np.clip(d / np.maximum(np.sqrt(v), 1e-150), -FAR, FAR)
            pair = [ndtr(z), ndtr(-z)]
        return np.stack(pair, axis=1), np.zeros(m)
    mean, cov, largest = contrasts(mean, cov)
    order, ranks = canonical_order(mean, cov)
    mean = np.take_along_axis(mean, order, axis=1)
    cov = np.take_along_axis(cov, order[:, :, None], axis=1)
    cov = np.take_along_axis(cov, order[:, None, :], axis=2)
    p, error = _integrated(prepared(mean, cov, largest, gumbel))
    P = np.empty_like(p)
    np.put_along_axis(P, order, p, axis=1)
    return share_ties(P, ranks, np.maximum(error, PROMISED)), error


# -- which rule, and how many points -----------------------------------------------------------

INDEPENDENT: Final = Plan(cubature.independent, 64, 512, 65_536, 256)
SOFTMAX: Final = Plan(cubature.softmax, 512, 4096, 1_048_576, 4096)
CORRECTION: Final = Plan(cubature.correction, 32, 512, 16_384, 128)
PLAIN: Final = Plan(cubature.plain_correction, 64, 64, 131_072, 256)
LINE: Final = Plan(cubature.line, 128, 4096, 131_072, 512)
ORTHANT: Final = Plan(cubature.orthant, 64, 2048, 131_072, 256)

CORRECTIONS: Final = (CORRECTION, PLAIN)

# Points that `orthant` takes, roughly, for what a correction is added to.
NORMAL_POINTS = 4096

# Points in one call of a rule at most.
SLAB = 2048

# The rest of the covariance, in units of each class's own noise, up to which `independent` comes
# first: where `orthant` (quadratic in the classes) is the other choice, and from how many classes
# on that is too slow, and `independent` gets more points.
LITTLE, MILD, FEW_CLASSES, MANY = 0.6, 20.0, 12, 8192

# The same up to which `correction` comes first.
MILD_SOFTMAX = 4.0

# Nodes up to which `independent` is tried at all, and up to which its correction is.
NODES, FEW_NODES = 256, 64

# Variance of a contrast below which the softmax itself is smooth.
SMOOTH = 0.3

# What a rule has left of its error after 2^k times the points, 2^(-k RATE): a rough reading of
# a few posteriors of ten classes, not a fit. It decides which rule goes on, not when it stops.
RATE = 0.8


def _integrated(rows: Rows) -> tuple[Array, Array]:
    """Probabilities (m, K) and estimated errors (m,)."""
    m, K = rows.mean.shape
    variance = rows.own + GUMBEL_VARIANCE if rows.gumbel else rows.own
    separate = np.asarray((variance > 0.0).all(axis=1), dtype=bool)
    safe = np.where(separate[:, None], variance, 1.0)
    ratio = np.where(separate, (rows.rest**2 / safe[:, :, None]).sum(axis=(1, 2)), np.inf)
    nodes = cubature.node_counts(rows)
    separate &= nodes <= NODES
    columns = (rows.root**2).sum(axis=1)
    widest = columns[:, 0]

    P, error, limit = np.zeros((m, K)), np.zeros(m), np.full(m, TOLERANCE)
    smooth = widest < (SMOOTH if rows.gumbel else 0.0)
    alone = np.flatnonzero(~smooth & separate & (ratio < 1e-8))
    if alone.size:
        P[alone] = cubature.independent(rows.take(alone), 0, 0)
    left = ~smooth
    left[alone] = False
    mild = left & separate & (ratio < (LITTLE if K <= FEW_CLASSES else MILD))
    # steps in a few directions: all classes cross on lines
    flat = left & ~mild & (columns[:, -1] < 1e-4 * widest)
    flat &= columns[:, 3:].sum(axis=1) < 1e-4 * widest
    close = left & ~mild & separate & (ratio < MILD_SOFTMAX) & (nodes <= FEW_NODES)
    if rows.gumbel:
        flat[:] = False
    else:
        close[:] = False
    for plan, chosen in (
        (SOFTMAX, smooth),
        (INDEPENDENT, mild),
        (CORRECTION, close),
        (LINE, flat),
        (SOFTMAX if rows.gumbel else ORTHANT, left & ~mild & ~flat & ~close),
    ):
        (index,) = np.nonzero(chosen)
        if index.size:
            first = plan.first if plan is not INDEPENDENT or K <= FEW_CLASSES else MANY
            P[index], error[index] = _finished(plan, rows.take(index), first)
            # the error of a correction is that of two averages
            limit[index] *= np.sqrt(2.0) if plan in CORRECTIONS else 1.0
    (open_,) = np.nonzero(error > limit)
    if open_.size:
        P[open_], error[open_] = _race(rows.take(open_), separate[open_])
    return P, error


def _doubled(plan: Plan, rows: Rows, most: int) -> tuple[Array, Array]:
    """Double the points until the halves agree, or there are as many as allowed."""
    m = len(rows.mean)
    n = plan.fewest
    P, error = _mean_over(plan.rule, rows, 0, n), np.zeros(m)
    open_ = np.arange(m)
    while open_.size and n < most:
        new = _mean_over(plan.rule, rows.take(open_), n, 2 * n)
        apart = 0.5 * np.abs(new - P[open_]).max(axis=1)
        P[open_] = 0.5 * (P[open_] + new)
        # halves may agree by chance; then those before did not
        error[open_] = np.maximum(apart, MEMORY * error[open_])
        open_ = open_[error[open_] > (EARLY if n == plan.fewest else 1.0) * TOLERANCE]
        n *= 2
    return P, error


def _mean_over(rule: Rule, rows: Rows, start: int, stop: int) -> Array:
    slabs = range(start, stop, SLAB)
    total = np.zeros_like(rows.mean)
    for slab in slabs:
        total += rule(rows, slab, min(slab + SLAB, stop))
    if any(rule is plan.rule for plan in CORRECTIONS):
        return total / len(slabs)
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def _race(rows: Rows, separate: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Each rule that may do on a few points; the one that promises the least cost goes on."""
    m, K = rows.mean.shape
    every = np.ones(m, dtype=bool)
    nodes = cubature.node_counts(rows)
    # nanoseconds a point, as measured on one core; and before the first
    entries = [(INDEPENDENT, separate, 7.0 * K * nodes, 0.0)]
    if rows.gumbel:
        entries.append((SOFTMAX, every, np.full(m, 2.6 * K), 0.0))
        few = separate & (nodes <= FEW_NODES)
        entries.append((CORRECTION, few, 14.0 * K * nodes, NORMAL_POINTS * 16.0 * K * K))
        entries.append((PLAIN, every, np.full(m, 100.0 * K), NORMAL_POINTS * 16.0 * K * K))
    else:
        entries.append((ORTHANT, every, np.full(m, 16.0 * K * K), 0.0))
        entries.append((LINE, every, np.full(m, 4.0 * K * K), 0.0))
    costs = np.full((len(entries), m), np.inf)
    for k, (plan, allowed, price, once) in enumerate(entries):
        (index,) = np.nonzero(allowed)
        if index.size:
            _, error = _doubled(plan, rows.take(index), plan.trial)
            needed = np.maximum(error / TOLERANCE, 1.0) ** (1.0 / RATE) * plan.trial
            # what the rule cannot reach is a warning, which is worse than any price
            needed *= np.where(needed > 4.0 * plan.most, 100.0, 1.0)
            costs[k, index] = needed * price[index] + once
    P, error = np.empty((m, K)), np.full(m, np.inf)
    for choice in np.argsort(costs, axis=0, kind="stable"):
        # those that the cheapest leaves with an error go on with the next
        open_ = (error > PROMISED) & np.isfinite(costs[choice, np.arange(m)])
        for k, (plan, *_) in enumerate(entries):
            (index,) = np.nonzero(open_ & (choice == k))
            if index.size:
                new, left = _finished(plan, rows.take(index), plan.most)
                better = left < error[index]
                P[index[better]], error[index[better]] = new[better], left[better]
    return P, error


def _finished(plan: Plan, rows: Rows, most: int) -> tuple[Array, Array]:
    """Probabilities and errors; a correction has what it corrects added."""
    P, error = _doubled(plan, rows, most)
    if plan not in CORRECTIONS:
        return P, error
    K = rows.mean.shape[1]
    noisy = rows.cov + cubature.CONTROL * (np.eye(K) - 1.0 / K)
    largest = np.diagonal(noisy, axis1=1, axis2=2).max(axis=1)
    normal, its_error = _integrated(prepared(rows.mean, noisy, largest, gumbel=False))
    return normal + P, np.hypot(its_error, error)


__all__ = ["argmax_probabilities", "softmax_probabilities"]
