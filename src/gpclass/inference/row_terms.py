"""What a row's label says on average over independent Gaussian latents, with its derivatives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods import by_nodes
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.probabilities.points import normals
from gpclass.linalg import Array, blocks

# Elements of the (rows, C, points) arrays worked on together: 2 MB each, two of which stay in a
# cache.
CHUNK: Final = 250_000
# Means and deviations are clipped to these: sums of a few of them, and squares, stay finite.
LARGEST_MEAN: Final = 1e300
LARGEST_VARIANCE: Final = 1e300
# Deviation below which differences of probabilities over it would be rounding.
SMALLEST_DEVIATION: Final = 1e-4


class RowSlopes(NamedTuple):
    """``E_i``, shape (b,), and its derivatives by the means and the variances, (b, C) each."""

    value: Array
    by_mean: Array
    by_variance: Array


class RowTerms(ABC):
    """``E_i(m_i, v_i) = E[log p(y_i | f_i)]`` for independent ``f_ic ~ N(m_ic, v_ic)``.

    Laws: ``by_mean`` and ``by_variance`` are derivatives of the ``value`` that is returned with
    them, also where that is a sum over points; everything is finite for finite arguments with
    ``v >= 0``.

    Attributes
    ----------
    n_latents : int
        C, the latents of a row: 1 for two classes.
    log_concave : bool
        Whether ``E_i`` is concave in m.
    """

    @property
    @abstractmethod
    def n_latents(self) -> int:
        """C, the latents of a row: 1 for two classes."""

    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """Whether ``E_i`` is concave in m."""

    @abstractmethod
    def __call__(self, y: NDArray[Any], mean: Array, variance: Array) -> RowSlopes:
        """Value and derivatives for labels y (b,), means and variances (b, C)."""

    @abstractmethod
    def likelihood_gradient(self, y: NDArray[Any], mean: Array, variance: Array) -> Array:
        """Derivatives of ``E_i`` by the likelihood's own theta, shape (p, b)."""


@final
@dataclass(frozen=True)
class BinaryTerms(RowTerms):
    """Labels -1 and +1 and one latent; see `gpclass.likelihoods.by_nodes`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Logit
    >>> found = BinaryTerms(Logit())(np.ones(1), np.zeros((1, 1)), np.ones((1, 1)))
    >>> found.value.round(4), found.by_mean.round(4), found.by_variance.round(4)
    (array([-0.8061]), array([[0.5]]), array([[-0.1033]]))
    """

    likelihood: Likelihood

    @property
    def n_latents(self) -> int:
        """One."""
        return 1

    @property
    def log_concave(self) -> bool:
        """Whether the likelihood is."""
        return self.likelihood.log_concave

    def __call__(self, y: NDArray[Any], mean: Array, variance: Array) -> RowSlopes:
        """See `RowTerms`."""
        found = by_nodes.expected_log_prob(self.likelihood, y, mean[:, 0], variance[:, 0])
        return RowSlopes(found.value, found.d_mean[:, None], found.d_var[:, None])

    def likelihood_gradient(self, y: NDArray[Any], mean: Array, variance: Array) -> Array:
        """See `RowTerms`."""
        return self.likelihood.expected_log_prob_gradient(y, mean[:, 0], variance[:, 0])


@final
@dataclass(frozen=True)
class SoftmaxTerms(RowTerms):
    """Classes 0 to C - 1 under the softmax of C latents, averaged over fixed points.

    With normal points z_s, of mean 0 and covariance I exactly, and ``f_s = m + v^1/2 z_s``, the
    value is the mean over s of ``log p(y | f_s)``, and the derivatives are those of this mean:
    ``[c = y] - mean_s p_cs`` by m_c, and ``-mean_s p_cs z_cs / (2 v_c^1/2)`` by v_c.

    Parameters
    ----------
    n_classes : int
    n_points : int, default=128
        A power of two.
    order : tuple of int, default=None
        Which coordinate of the points a class has; None: its own number. Where the order follows
        from the data, results do not depend on how the classes are numbered.

    Raises
    ------
    ValueError
        If there are fewer than two classes, the points are no power of two or too few for a
        covariance of I, or ``order`` is not an order of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> found = SoftmaxTerms(3)(np.zeros(1, int), np.zeros((1, 3)), np.ones((1, 3)))
    >>> found.value.round(3), found.by_mean.round(3)
    (array([-1.39]), array([[ 0.666, -0.332, -0.334]]))
    """

    n_classes: int
    n_points: int = 128
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}")
        if self.n_points < 4 * self.n_classes or self.n_points & (self.n_points - 1):
            raise ValueError(
                f"n_points must be a power of two, at least 4 a class ({4 * self.n_classes}), "
                f"got {self.n_points}"
            )
        if self.order is not None and sorted(self.order) != list(range(self.n_classes)):
            raise ValueError(f"order must have each of {self.n_classes} once, got {self.order}")

    @property
    def n_latents(self) -> int:
        """C: one latent for each class."""
        return self.n_classes

    @property
    def log_concave(self) -> bool:
        """True: it is a mean of concave functions of m."""
        return True

    def __call__(self, y: NDArray[Any], mean: Array, variance: Array) -> RowSlopes:
        """See `RowTerms`."""
        Z = normals(self.n_classes, 0, self.n_points)
        if self.order is not None:
            Z = Z[list(self.order)]
        m = np.clip(mean, -LARGEST_MEAN, LARGEST_MEAN)
        v = np.minimum(variance, LARGEST_VARIANCE)
        found = RowSlopes(np.empty(len(m)), np.empty(m.shape), np.empty(m.shape))
        for part in blocks(len(m), max(1, CHUNK // Z.size)):
            slopes = _softmax_slopes(y[part], m[part], v[part], Z)
            for whole, one in zip(found, slopes, strict=True):
                whole[part] = one
        return found

    def likelihood_gradient(self, y: NDArray[Any], mean: Array, variance: Array) -> Array:
        """The softmax has no hyperparameters."""
        return np.zeros((0, len(y)))


def _softmax_slopes(codes: NDArray[Any], m: Array, v: Array, Z: Array) -> RowSlopes:
    rows, sd = np.arange(len(m)), np.sqrt(v)
    P = sd[:, :, None] * Z
    P += m[:, :, None]
    P -= P.max(axis=1, keepdims=True)
    own = P[rows, codes].mean(axis=1)
    np.exp(P, out=P)
    norm = P.sum(axis=1)
    value = own - np.log(norm).mean(axis=1)
    P /= norm[:, None]
    by_mean = -P.mean(axis=2)
    # 1 - p of the own class from the others, which keeps the digits of a small one
    by_mean[rows, codes] = 0.0
    by_mean[rows, codes] = -by_mean.sum(axis=1)
    by_variance = np.einsum("ics,cs->ic", P, Z) / Z.shape[1]
    by_variance /= -2.0 * np.maximum(sd, SMALLEST_DEVIATION)
    narrow = sd < SMALLEST_DEVIATION
    if narrow.any():
        # Bonnet and Price: half the mean second derivative, which is the limit for v = 0
        second = np.einsum("ics,ics->ic", P, 1.0 - P) / Z.shape[1]
        by_variance = np.where(narrow, -0.5 * second, by_variance)
    return RowSlopes(value, by_mean, by_variance)
