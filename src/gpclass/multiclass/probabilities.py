"""Class probabilities from the latents' joint Gaussian: multinomial probit, threshold, softmax.

A row passes four stations, most rows only the first:

1. Classes that lose against a single other one with all but 1e-6 of probability keep that bound
   as their probability. One class left is certain, two are a one-dimensional integral.
2. The others are put in an order that does not depend on the order in which they came, and
   reduced to contrasts: what all classes share changes nothing.
3. The covariance is split into a part that is each class's own and the rest; which of the rules
   of `gpclass.multiclass.cubature` comes first follows from their sizes.
4. Points are doubled until the halves agree. If they do not, the other rules are tried, the most
   promising goes on, and what error is left is a warning.
"""

import warnings
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.likelihoods import Logit
from gpclass.multiclass import cubature
from gpclass.multiclass.cubature import Rows, Rule

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

# Invariants of two classes nearer than this (relative) are the same, but for rounding.
TIE = 1e-9

# Covariances computed as prior minus reduction have negative eigenvalues from rounding.
ROUNDING = 1e-8

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
        Positive, rows sum to one; absolute errors of 1e-4 at most, or a warning. A row
        of P depends on nothing but its mean and covariance, and a permutation of the classes
        permutes P, both to rounding.

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
        Positive, rows sum to one; absolute errors of 1e-4 at most, or a warning. A row
        of P depends on nothing but its mean and covariance, and a permutation of the classes
        permutes P, both to rounding.

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
    mean, cov, largest = _contrasts(mean, cov)
    order, ranks = _canonical_order(mean, cov)
    mean = np.take_along_axis(mean, order, axis=1)
    cov = np.take_along_axis(cov, order[:, :, None], axis=1)
    cov = np.take_along_axis(cov, order[:, None, :], axis=2)
    p, error = _integrated(_prepared(mean, cov, largest, gumbel))
    P = np.empty_like(p)
    np.put_along_axis(P, order, p, axis=1)
    return _share_ties(P, ranks, error), error


def _contrasts(mean: Array, cov: Array) -> tuple[Array, Array, Array]:
    """What is left without the mean over the classes; and the largest variance there was."""
    largest = np.diagonal(cov, axis1=1, axis2=2).max(axis=1)
    mean = mean - mean.mean(axis=1, keepdims=True)
    cov = cov - cov.mean(axis=1, keepdims=True)
    cov = cov - cov.mean(axis=2, keepdims=True)
    return mean, cov, largest


# -- the order of the classes ------------------------------------------------------------------


def _canonical_order(mean: Array, cov: Array) -> tuple[Index, Index]:
    """An order of the classes (m, K) by what they are, and equal ranks for those that are the same.

    The keys are continuous functions of mean and covariance that are permuted with the classes.
    They are compared with a tolerance, so that rounding does not decide the order.
    """
    m, K = mean.shape
    diagonal = np.diagonal(cov, axis1=1, axis2=2)
    spread = np.maximum(diagonal.sum(axis=1, keepdims=True), 1e-300)
    scale = np.abs(mean).max(axis=1, keepdims=True) + np.sqrt(spread)
    a, S = mean / scale, cov / spread[:, :, None]
    S2 = np.matmul(S, S)
    keys = [
        a,
        np.diagonal(S, axis1=1, axis2=2),
        np.matmul(S, a[:, :, None])[:, :, 0],
        np.diagonal(S2, axis1=1, axis2=2),
        np.matmul(S, (a * a)[:, :, None])[:, :, 0],
        np.einsum("mij,mji->mi", S2, S),
    ]
    ranks = np.zeros((m, K), dtype=np.intp)
    for key in keys:
        by = np.argsort(key, axis=1, kind="stable")
        gaps = np.diff(np.take_along_axis(key, by, axis=1), axis=1) > TIE
        place = np.concatenate([np.zeros((m, 1), dtype=np.intp), np.cumsum(gaps, axis=1)], axis=1)
        rank = np.empty_like(place)
        np.put_along_axis(rank, by, place, axis=1)
        ranks = _dense(ranks * K + rank)
    # the largest means first: they have most of the probability
    return np.argsort(-ranks, axis=1, kind="stable"), ranks


def _dense(ranks: Index) -> Index:
    """The same order with ranks 0, 1, ... in each row."""
    by = np.argsort(ranks, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(ranks, by, axis=1), axis=1) > 0
    out = np.zeros_like(ranks)
    np.put_along_axis(out[:, :], by[:, 1:], np.cumsum(steps, axis=1), axis=1)
    return out


def _share_ties(P: Array, ranks: Index, error: Array) -> Array:
    """Average over classes that are the same, which the points do not treat as the same."""
    same = ranks[:, :, None] == ranks[:, None, :]
    tied = same.sum(axis=(1, 2)) > P.shape[1]
    if not tied.any():
        return P
    same, p = same[tied], P[tied]
    shared = (same * p[:, None, :]).sum(axis=2) / same.sum(axis=2)
    # two classes with equal keys that are not the same would differ by more than the points do
    near = np.abs(shared - p).max(axis=1) <= 10.0 * np.maximum(error[tied], PROMISED)
    P[tied] = np.where(near[:, None], shared, p)
    return P


# -- the split of the covariance ---------------------------------------------------------------


def _prepared(mean: Array, cov: Array, largest: Array, gumbel: bool) -> Rows:
    """Factors of the covariances: all of it, and what is not each class's own."""
    K = mean.shape[1]
    H = _helmert(K)
    M = np.matmul(np.matmul(H.T, cov), H)
    trace = np.trace(M, axis1=1, axis2=2)
    w, root = _ordered_root(M, trace)
    if (w[:, -1] < -K * ROUNDING * largest).any():
        raise NotPositiveDefiniteError(
            f"cov must be positive semi-definite, but has an eigenvalue {w[:, -1].min():.3g}."
        )
    own = _own_variances(cov, M, trace, H)
    _, rest = _ordered_root(M - np.einsum("ik,mi,il->mkl", H, own, H), trace)
    return Rows(mean, cov, np.matmul(H, root), own, np.matmul(H, rest), gumbel)


def _helmert(K: int) -> Array:
    """Orthonormal contrasts, shape (K, K - 1)."""
    H = np.zeros((K, K - 1))
    for k in range(1, K):
        H[:k, k - 1], H[k, k - 1] = 1.0, -k
        H[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return H


def _ordered_root(M: Array, trace: Array) -> tuple[Array, Array]:
    """Eigenvalues, descending, and ``M = root root^T`` with columns of falling size.

    A tiny multiple of a fixed diagonal decides between eigenvectors of the same eigenvalue, and a
    fixed vector their signs, so that rounding does not.
    """
    k = M.shape[1]
    golden = np.mod(np.arange(1, k + 1) * 0.6180339887498949, 1.0)
    w, V = np.linalg.eigh(M + (TIE * trace)[:, None, None] * np.diag(golden))
    w, V = w[:, ::-1], V[:, :, ::-1]
    sign = np.where(np.matmul(0.5 + golden, V) < 0.0, -1.0, 1.0)
    kept = np.where(w > 2.0 * TIE * trace[:, None], w, 0.0)
    return w, V * (sign * np.sqrt(kept))[:, None, :]


def _own_variances(cov: Array, M: Array, trace: Array, H: Array) -> Array:
    """A large diagonal d (m, K) with ``M - H^T diag(d) H`` positive semi-definite.

    Of two shapes, all alike and what is left of the diagonal when ``v_i + v_j`` is fitted to the
    entries off it (which is no contrast), each as large as it can be, the one that takes away more.
    """
    m, K = cov.shape[:2]
    diagonal = np.diagonal(cov, axis1=1, axis2=2)
    total = -diagonal.sum(axis=1, keepdims=True) / (2.0 * (K - 1))
    fitted = diagonal + 2.0 * (diagonal + total) / (K - 2)
    largest = fitted.max(axis=1, keepdims=True)
    fitted = np.maximum(fitted, 1e-3 * largest) / np.where(largest > 0.0, largest, 1.0)
    best, taken = np.zeros((m, K)), np.zeros(m)
    for shape in (np.ones((m, K)), np.where(largest > 0.0, fitted, 1.0)):
        N = np.einsum("ik,mi,il->mkl", H, shape, H)
        L = np.linalg.cholesky(N)
        G = np.linalg.solve(L, np.linalg.solve(L, M).transpose(0, 2, 1))
        most = np.linalg.eigvalsh(G)[:, 0] * (1.0 - 1e-9)
        most = np.where(most * np.trace(N, axis1=1, axis2=2) > 1e-9 * trace, most, 0.0)
        size = most * np.trace(N, axis1=1, axis2=2)
        better = size > taken * (1.0 + 1e-6)
        best = np.where(better[:, None], most[:, None] * shape, best)
        taken = np.where(better, size, taken)
    return best


# -- which rule, and how many points -----------------------------------------------------------

INDEPENDENT: Final = Plan(cubature.independent, 64, 512, 16_384, 256)
SOFTMAX: Final = Plan(cubature.softmax, 512, 4096, 262_144, 4096)
LINE: Final = Plan(cubature.line, 128, 4096, 131_072, 512)
ORTHANT: Final = Plan(cubature.orthant, 64, 2048, 65_536, 256)

# Points in one call of a rule at most.
SLAB = 2048

# The rest of the covariance, in units of each class's own noise, up to which `independent` comes
# first, where `orthant` (quadratic in the classes) is the other choice, and where it is not.
LITTLE, MILD, FEW_CLASSES = 0.6, 20.0, 12

# Nodes up to which `independent` is tried at all.
NODES = 256

# Variance of a contrast below which the softmax itself is smooth, and above which it is a step.
SMOOTH, STEEP = 0.3, 100.0

# What a rule has left of its error after 2^k times the points, 2^(-k RATE): a rough reading of
# a few posteriors of ten classes, not a fit. It decides which rule goes on, not when it stops.
RATE = 0.8


def _integrated(rows: Rows) -> tuple[Array, Array]:
    """Probabilities (m, K) and estimated errors (m,)."""
    m, K = rows.mean.shape
    variance = rows.own + cubature.GUMBEL_VARIANCE if rows.gumbel else rows.own
    separate = np.asarray((variance > 0.0).all(axis=1), dtype=bool)
    safe = np.where(separate[:, None], variance, 1.0)
    ratio = np.where(separate, (rows.rest**2 / safe[:, :, None]).sum(axis=(1, 2)), np.inf)
    separate &= cubature.node_counts(rows) <= NODES
    columns = (rows.root**2).sum(axis=1)
    widest = columns[:, 0]

    P, error = np.zeros((m, K)), np.zeros(m)
    smooth = widest < (SMOOTH if rows.gumbel else 0.0)
    alone = np.flatnonzero(~smooth & separate & (ratio < 1e-8))
    if alone.size:
        P[alone] = cubature.independent(rows.take(alone), 0, 0)
    left = ~smooth
    left[alone] = False
    little = LITTLE if K <= FEW_CLASSES and not rows.gumbel else MILD
    mild = left & separate & (ratio < little)
    # steps in a few directions: all classes cross on lines
    flat = left & ~mild & (columns[:, -1] < 1e-4 * widest)
    flat &= columns[:, 3:].sum(axis=1) < 1e-4 * widest
    if rows.gumbel:
        flat &= False
    for plan, chosen in (
        (SOFTMAX, smooth),
        (INDEPENDENT, mild),
        (LINE, flat),
        (SOFTMAX if rows.gumbel else ORTHANT, left & ~mild & ~flat),
    ):
        (index,) = np.nonzero(chosen)
        if index.size:
            P[index], error[index] = _doubled(plan, rows.take(index), plan.first)
    (open_,) = np.nonzero(error > TOLERANCE)
    if open_.size:
        P[open_], error[open_] = _race(rows.take(open_), separate[open_], widest[open_])
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
    total /= total.sum(axis=1, keepdims=True)
    return total


def _race(rows: Rows, separate: NDArray[np.bool_], widest: Array) -> tuple[Array, Array]:
    """Each rule that may do on a few points; the one that promises the least cost goes on."""
    m, K = rows.mean.shape
    steps = np.asarray(widest > (STEEP if rows.gumbel else -1.0), dtype=bool)
    # nanoseconds a point, as measured on one core
    entries = [
        (INDEPENDENT, separate, 10.0 * K * cubature.node_counts(rows)),
        (ORTHANT, steps, np.full(m, 29.0 * K * K)),
        (LINE, steps, np.full(m, 4.0 * K * K)),
    ]
    if rows.gumbel:
        entries.append((SOFTMAX, np.ones(m, dtype=bool), np.full(m, 2.6 * K)))
    costs = np.full((len(entries), m), np.inf)
    for k, (plan, allowed, price) in enumerate(entries):
        (index,) = np.nonzero(allowed)
        if index.size:
            _, error = _doubled(plan, rows.take(index), plan.trial)
            needed = np.maximum(error / TOLERANCE, 1.0) ** (1.0 / RATE) * plan.trial
            # what the rule cannot reach is a warning, which is worse than any price
            needed *= np.where(needed > 4.0 * plan.most, 100.0, 1.0)
            costs[k, index] = needed * price[index]
    choice = np.argmin(costs, axis=0)
    P, error = np.empty((m, K)), np.empty(m)
    for k, (plan, _, _) in enumerate(entries):
        (index,) = np.nonzero(choice == k)
        if index.size:
            P[index], error[index] = _doubled(plan, rows.take(index), plan.most)
    return P, error


__all__ = ["argmax_probabilities", "softmax_probabilities"]
