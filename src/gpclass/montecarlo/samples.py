"""Predictions that are averaged over samples of the latent posterior."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.likelihoods.base import Likelihood
from gpclass.montecarlo.gaussian import LatentGaussian
from gpclass.priors import Prior

Array = NDArray[np.float64]

# New inputs at a time, always this many: einsum orders its loops by the shapes, so equal shapes
# are what makes a row's bits independent of its batch; and (S, 64) arrays stay in the cache.
WIDTH: Final = 64
# Above this a probability is not taken for the smaller one: its complement would lose digits.
LARGE: Final = float(np.log(0.9))


@final
@dataclass(frozen=True)
class Samples:
    """Samples of the latent posterior, by their weights: what a saved model holds.

    Parameters
    ----------
    weights : ndarray of shape (n, S)
        Sample s is ``f = K weights[:, s]``.

    Examples
    --------
    >>> import numpy as np
    >>> len(Samples(np.zeros((3, 100))))
    3
    """

    weights: Array

    def __post_init__(self) -> None:
        """Refuse what is not a table of at least one finite sample."""
        if self.weights.ndim != 2 or self.weights.shape[1] == 0:
            raise ValueError(f"weights must have shape (n, S) with S > 0, got {self.weights.shape}")
        if not np.isfinite(self.weights).all():
            raise ValueError("weights must be finite")

    def __len__(self) -> int:
        """Return the number of training points."""
        return len(self.weights)


class _Block(NamedTuple):
    """Where a block's columns belong, the samples' means (S, WIDTH) and the variance (WIDTH,)."""

    where: slice
    mean: Array
    variance: Array


@final
@dataclass(frozen=True)
class SamplePosterior:
    """An equal mixture of Gaussians, one a sample: ``f_* | s ~ N(k^T a_s, k_** - k^T K^+ k)``.

    Parameters
    ----------
    samples : Samples
    inverse_root : ndarray of shape (n, r)
        ``inverse_root inverse_root^T = K^+``.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> posterior = SamplePosterior.from_samples(K, Samples(np.array([[0.0, 1.0], [1.0, 0.0]])))
    >>> posterior.predict(K, np.diag(K))
    (array([1.5, 1.5]), array([0.25, 0.25]))
    """

    samples: Samples
    inverse_root: Array

    @classmethod
    def from_samples(cls, prior: Prior | ArrayLike, samples: Samples) -> "SamplePosterior":
        """Rebuild from the prior's covariance and the samples.

        Raises
        ------
        ValueError
            For another number of latent values.
        """
        gaussian = LatentGaussian.prior(prior)
        if len(samples) != gaussian.n:
            raise ValueError(
                f"the samples are of {len(samples)} latent values and the prior of {gaussian.n}"
            )
        return cls(samples, gaussian.weight_root)

    def predict(self, K_cross: Array, k_diag: Array) -> tuple[Array, Array]:
        """Latent mean and variance of the mixture, by the law of total variance.

        Parameters
        ----------
        K_cross : ndarray of shape (n, m)
            Covariance of training and new inputs.
        k_diag : ndarray of shape (m,)
            Prior variances of the new inputs.

        Returns
        -------
        mean, variance : ndarray of shape (m,)
            About the prior's own mean. A column's bits do not depend on the others.
        """
        mean, variance = np.empty(len(k_diag)), np.empty(len(k_diag))
        for block in self._blocks(K_cross, k_diag):
            average = block.mean.mean(axis=0)
            spread = block.mean - average
            width = block.where.stop - block.where.start
            mean[block.where] = average[:width]
            variance[block.where] = (block.variance + (spread * spread).mean(axis=0))[:width]
        return mean, variance

    def log_probabilities(
        self, likelihood: Likelihood, K_cross: Array, k_diag: Array, offset: Array | None = None
    ) -> Array:
        """``log P(-1)`` and ``log P(+1)``: averages over samples of each one's probability.

        Parameters
        ----------
        likelihood : Likelihood
        K_cross : ndarray of shape (n, m)
        k_diag : ndarray of shape (m,)
        offset : ndarray of shape (m,), default=None
            The prior's own mean at the new inputs. None: zero.

        Returns
        -------
        log_p : ndarray of shape (m, 2)
            The smaller probability is averaged and the larger is its complement, so both keep
            their relative accuracy. A row's bits do not depend on the others.
        """
        log_p = np.empty((len(k_diag), 2))
        for block in self._blocks(K_cross, k_diag, offset):
            # the mean has the sign of the larger probability, but for very skewed mixtures
            label = np.where(block.mean.mean(axis=0) > 0.0, -1.0, 1.0)
            smaller = self._average(likelihood, label, block)
            wrong = smaller > LARGE
            if wrong.any():
                label = np.where(wrong, -label, label)
                smaller = np.where(wrong, self._average(likelihood, label, block), smaller)
            larger = np.log1p(-np.exp(smaller))
            width = block.where.stop - block.where.start
            log_p[block.where, 0] = np.where(label < 0.0, smaller, larger)[:width]
            log_p[block.where, 1] = np.where(label < 0.0, larger, smaller)[:width]
        return log_p

    @staticmethod
    def _average(likelihood: Likelihood, label: Array, block: _Block) -> Array:
        """``log mean_s P(label)``, shape (WIDTH,)."""
        shape = block.mean.shape
        log_z = likelihood.tilted_moments(
            np.broadcast_to(label, shape).ravel(),
            block.mean.ravel(),
            np.broadcast_to(block.variance, shape).ravel(),
        ).log_z.reshape(shape)
        top = log_z.max(axis=0)
        return np.asarray(top + np.log(np.exp(log_z - top).mean(axis=0)))

    def _blocks(
        self, K_cross: Array, k_diag: Array, offset: Array | None = None
    ) -> Iterator[_Block]:
        n, m = K_cross.shape
        if n != len(self.samples) or k_diag.shape != (m,):
            raise ValueError(
                f"K_cross must have shape ({len(self.samples)}, m) and k_diag (m,), got "
                f"{K_cross.shape} and {k_diag.shape}"
            )
        for start in range(0, m, WIDTH):
            stop = min(start + WIDTH, m)
            K, k = np.zeros((n, WIDTH)), np.zeros(WIDTH)
            K[:, : stop - start], k[: stop - start] = K_cross[:, start:stop], k_diag[start:stop]
            mean = np.einsum("ns,nm->sm", self.samples.weights, K)
            if offset is not None:
                mean[:, : stop - start] += offset[start:stop]
            known = np.einsum("nr,nm->rm", self.inverse_root, K)
            variance = np.maximum(k - np.einsum("rm,rm->m", known, known), 0.0)
            yield _Block(slice(start, stop), mean, variance)
