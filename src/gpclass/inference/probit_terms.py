"""The multinomial probit averaged over independent Gaussian latents: a lower bound by row."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.row_terms import RowSlopes, RowTerms
from gpclass.likelihoods import Probit, by_nodes
from gpclass.likelihoods.classes import other_classes
from gpclass.linalg import Array

# Steps for the noise of a row, and the change, relative to 1 + |a|, that ends them: the value then
# has full precision, its derivatives seven digits. Rows of 10 classes whose variances go from 1e-8
# to 1e16 took up to 47 steps, rows of 100 classes up to 171.
MAX_STEPS: Final = 300
TOL: Final = 1e-8
# Factors of the part of a step that is taken: where it turns back on the last one, and elsewhere.
SHORTER: Final = 0.7
LONGER: Final = 1.2
# Latents are clipped to these: sums and squares of a few of their differences stay finite.
LARGEST_MEAN: Final = 1e8
LARGEST_VARIANCE: Final = 1e16


@final
@dataclass(frozen=True)
class MultinomialProbitTerms(RowTerms):
    """Classes 0 to C - 1 under the multinomial probit, whose noise has a Gaussian of its own.

    In ``p(y | f) = E_u[prod_j Phi(u + f_y - f_j)]``, ``u ~ N(0, 1)``, the row's noise u has the
    Gaussian factor ``q(u | f) = N(a + b^T (f - m), s)`` of the variational posterior. So the value
    is a bound by C - 1 averages over one dimension, which is concave in m,

    ``E = max_{a, b, s} sum_j E[log Phi(g_j)] - E[KL(q(u | f) || N(0, 1))]``,

    where ``g_j = u + f_y - f_j`` is normal. With ``lambda_j = -2 dE_j/dv_j`` the maximum has
    ``s = 1 / (1 + Lambda)``, ``b_y = -s Lambda``, ``b_j = s lambda_j`` and ``a = sum_j dE_j/dm_j``,
    where ``Lambda = sum_j lambda_j``: natural steps find them. The derivatives by the variances,
    ``-s Lambda / 2`` and ``-(lambda_j - s lambda_j^2) / 2``, are those of the sites of g_j once u
    is integrated out.

    Parameters
    ----------
    n_classes : int

    Raises
    ------
    ValueError
        If there are fewer than two classes.

    References
    ----------
    Riihimäki, Jylänki & Vehtari, JMLR 14, 2013, eq. 3; Girolami & Rogers, Neural Computation 18,
    2006, for the noise as a variable of its own.

    Examples
    --------
    >>> import numpy as np
    >>> terms = MultinomialProbitTerms(3)
    >>> found = terms(np.zeros(1, int), np.zeros((1, 3)), np.ones((1, 3)))
    >>> found.value.round(3), found.by_mean.round(3)
    (array([-1.634]), array([[ 0.968, -0.484, -0.484]]))
    """

    n_classes: int

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}")

    @property
    def n_latents(self) -> int:
        """C: one latent for each class."""
        return self.n_classes

    @property
    def log_concave(self) -> bool:
        """True: the maximum over part of the arguments of a concave function."""
        return True

    def __call__(self, y: NDArray[Any], mean: Array, variance: Array) -> RowSlopes:
        """See `RowTerms`."""
        m = np.clip(mean, -LARGEST_MEAN, LARGEST_MEAN)
        v = np.minimum(variance, LARGEST_VARIANCE)
        own = np.asarray(y)[:, None]
        others = other_classes(own[:, 0], self.n_classes)
        gaps = np.take_along_axis(m, own, 1) - np.take_along_axis(m, others, 1)
        found = _of_gaps(gaps, np.take_along_axis(v, own, 1), np.take_along_axis(v, others, 1))
        value, slopes, precisions = found
        total = precisions.sum(axis=1, keepdims=True)
        by_mean, by_variance = np.empty(m.shape), np.empty(m.shape)
        np.put_along_axis(by_mean, own, slopes.sum(axis=1, keepdims=True), 1)
        np.put_along_axis(by_mean, others, -slopes, 1)
        np.put_along_axis(by_variance, own, -0.5 * total / (1.0 + total), 1)
        left = precisions * (1.0 - precisions / (1.0 + total))
        np.put_along_axis(by_variance, others, -0.5 * left, 1)
        return RowSlopes(value, by_mean, by_variance)

    def likelihood_gradient(self, y: NDArray[Any], mean: Array, variance: Array) -> Array:
        """The multinomial probit has no hyperparameters."""
        return np.zeros((0, len(y)))


def _of_gaps(gaps: Array, own: Array, others: Array) -> tuple[Array, Array, Array]:
    """The bound (n,), ``dE_j/dm_j`` and lambda_j (n, C - 1), for ``m_y - m_j`` and variances."""
    n = len(gaps)
    value, slopes, precisions = np.empty(n), np.empty(gaps.shape), np.empty(gaps.shape)
    a, lam, moving = np.zeros(n), np.zeros(gaps.shape), np.arange(n)
    # whole steps swing for ever where some variances are large and others small
    part, last_a, last_lam = np.ones(n), np.zeros(n), np.zeros(gaps.shape)
    for _ in range(MAX_STEPS):
        s = 1.0 / (1.0 + lam.sum(axis=1, keepdims=True))
        b = s * lam
        v_own, v = own[moving], others[moving]
        of_others = np.einsum("ij,ij->i", b**2, v)
        shared = s + s**2 * v_own + of_others[:, None]
        each = by_nodes.expected_log_prob(
            Probit(),
            np.ones(lam.size),
            (gaps[moving] + a[:, None]).ravel(),
            (shared + (1.0 - 2.0 * b) * v).ravel(),
        )
        log_p, slope, by_variance = (one.reshape(lam.shape) for one in each)
        kl = s[:, 0] + a**2 - 1.0 - np.log(s[:, 0])
        kl += ((1.0 - s) ** 2 * v_own)[:, 0] + of_others
        value[moving] = log_p.sum(axis=1) - 0.5 * kl
        slopes[moving], precisions[moving] = slope, -2.0 * by_variance
        step_a = (slope.sum(axis=1) - a) / (1.0 - 2.0 * by_variance.sum(axis=1))
        step_lam = -2.0 * by_variance - lam
        change = np.maximum(np.abs(step_a), np.abs(step_lam).max(axis=1))
        left = change > TOL * (1.0 + np.abs(a))
        if not left.any():
            break
        back = step_a * last_a + np.einsum("ij,ij->i", step_lam, last_lam) < 0.0
        part = np.where(back, SHORTER * part, np.minimum(1.0, LONGER * part))
        a, lam = a + part * step_a, lam + part[:, None] * step_lam
        state = (moving, a, lam, part, step_a, step_lam)
        moving, a, lam, part, last_a, last_lam = (one[left] for one in state)
    return value, slopes, precisions
