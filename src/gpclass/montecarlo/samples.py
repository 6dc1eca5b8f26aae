"""Predictions that are averaged over samples of the latent posterior."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import LatentGaussian
from gpclass.montecarlo.problem import RandomState, check_counts, generator
from gpclass.priors import Prior
from gpclass.priors.classes import ClassPrior

# New inputs handled at a time, always this many: einsum orders its loops by the shapes, so equal
# shapes make a row's bits independent of its batch; and arrays of (S, 32, C) stay small.
WIDTH: Final = 32
# A probability above 0.9 is not taken for the smaller one: its complement would lose digits.
LOG_LARGER: Final = float(np.log(0.9))


@final
@dataclass(frozen=True)
class Samples:
    """Samples of the latent posterior, by their weights: what a saved model holds.

    Parameters
    ----------
    weights : ndarray of shape (n, S), or (n, C, S) for many classes
        Sample s is ``f = K weights[:, s]``, of class c ``f_c = K_c weights[:, c, s]``.
    """

    weights: Array

    def __post_init__(self) -> None:
        if self.weights.ndim not in (2, 3) or self.weights.shape[-1] == 0:
            raise ValueError(
                f"weights must have shape (n, S) or (n, C, S) with S > 0, got {self.weights.shape}"
            )
        if not np.isfinite(self.weights).all():
            raise ValueError("weights must be finite")

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def by_function(self) -> Array:
        """Weights of shape (n, C, S), also where C is 1."""
        return self.weights if self.weights.ndim == 3 else self.weights[:, None]


class _Block(NamedTuple):
    """Where a block's rows belong, the samples' means (S, WIDTH, C), and variances (WIDTH, C)."""

    where: slice
    mean: Array
    variance: Array

    @property
    def width(self) -> int:
        """Number of rows that are not padding."""
        return int(self.where.stop - self.where.start)


@final
@dataclass(frozen=True)
class SamplePosterior:
    """An equal mixture of Gaussians, one a sample: ``f_* | s ~ N(k^T a_s, k_** - k^T K^+ k)``.

    Given a sample the latent functions of many classes are independent; ``prior`` is that of the
    training rows.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> posterior = SamplePosterior.from_samples(K, Samples(np.array([[0.0, 1.0], [1.0, 0.0]])))
    >>> posterior.predict(K, np.diag(K))
    (array([1.5, 1.5]), array([0.25, 0.25]))
    """

    samples: Samples
    prior: LatentGaussian

    @classmethod
    def from_samples(
        cls, prior: Prior | ClassPrior | ArrayLike, samples: Samples
    ) -> "SamplePosterior":
        """Rebuild from the prior's covariance and the samples; ValueError for other numbers."""
        gaussian = LatentGaussian.prior(prior)
        n, n_functions, _ = samples.by_function.shape
        if [len(root) for root in gaussian.roots] != [n] * n_functions:
            raise ValueError(
                f"the samples are of {n} rows and {n_functions} latent functions, and the prior of "
                f"{len(gaussian.roots[0])} and {len(gaussian.roots)}"
            )
        return cls(samples, gaussian)

    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> tuple[Array, Array]:
        """Latent mean (m,) and variance (m,) of the mixture, by the law of total variance.

        ``K_cross`` (n, m) and ``k_diag`` (m,) are the covariances with m new inputs and their prior
        variances. Of many classes each may be one a class, k_diag of shape (m, C), and the result
        is the mean (m, C) and the covariance (m, C, C). A row's bits depend on that row alone.
        """
        C = len(self.prior.roots)
        mean, covariance = np.empty((len(k_diag), C)), np.empty((len(k_diag), C, C))
        each = np.arange(C)
        for block in self._blocks(K_cross, k_diag):
            average = block.mean.mean(axis=0)
            spread = block.mean - average
            total = np.einsum("swc,swd->wcd", spread, spread) / len(spread)
            total[:, each, each] += block.variance
            mean[block.where] = average[: block.width]
            covariance[block.where] = total[: block.width]
        if self.samples.weights.ndim == 2:
            return mean[:, 0], covariance[:, 0, 0]
        return mean, covariance

    def log_probabilities(
        self, likelihood: Likelihood, K_cross: Array, k_diag: Array, offset: Array | None = None
    ) -> Array:
        """``log P(-1)`` and ``log P(+1)``, shape (m, 2): averages over samples of each probability.

        ``offset`` of shape (m,) is the prior's own mean at the new inputs; None: zero. The smaller
        probability is averaged and the larger is its complement, so both keep their relative
        accuracy. A row's bits depend on that row alone.
        """
        log_p = np.empty((len(k_diag), 2))
        for block in self._blocks(K_cross, k_diag):
            mean, variance = block.mean[:, :, 0], block.variance[:, 0]
            if offset is not None:
                mean[:, : block.width] += offset[block.where]
            # the mean has the sign of the larger probability, but for very skewed mixtures
            label = np.where(mean.mean(axis=0) > 0.0, -1.0, 1.0)
            smaller = _log_average(likelihood, label, mean, variance)
            wrong = smaller > LOG_LARGER
            if wrong.any():
                label = np.where(wrong, -label, label)
                again = _log_average(likelihood, label, mean, variance)
                smaller = np.where(wrong, again, smaller)
            larger = np.log1p(-np.exp(smaller))
            pair = np.where(label < 0.0, (smaller, larger), (larger, smaller))
            log_p[block.where] = pair.T[: block.width]
        return log_p

    def probabilities(
        self,
        likelihood: ClassLikelihood,
        K_cross: Array | Sequence[Array],
        k_diag: Array,
        *,
        n_draws: int = 4,
        random_state: RandomState = 0,
    ) -> Array:
        """Class probabilities, (m, C): averages of the likelihood over draws of the new latents.

        ``n_draws`` is the number of antithetic pairs of new latents for each sample. Rows sum to
        one, to the accuracy of the likelihood.
        """
        check_counts(n_draws=n_draws)
        rng = generator(random_state)
        P = np.zeros((len(k_diag), len(self.prior.roots)))
        for block in self._blocks(K_cross, k_diag):
            mean, sd = block.mean[:, : block.width], np.sqrt(block.variance[: block.width])
            for _ in range(n_draws):
                noise = sd * rng.standard_normal(mean.shape)
                for F in (mean + noise, mean - noise):
                    P[block.where] += likelihood.probabilities(F).mean(axis=0)
        return P / (2 * n_draws)

    def _blocks(self, K_cross: Array | Sequence[Array], k_diag: Array) -> Iterator[_Block]:
        weights, roots, m = self.samples.by_function, self.prior.weight_roots, len(k_diag)
        n, C, S = weights.shape
        crosses = [K_cross] * C if isinstance(K_cross, np.ndarray) else list(K_cross)
        if len(crosses) != C or any(cross.shape != (n, m) for cross in crosses):
            raise ValueError(
                f"K_cross must have shape ({n}, m), once or for each of {C} latent functions, and "
                f"k_diag m rows, got {[cross.shape for cross in crosses]} and {k_diag.shape}"
            )
        diagonal = np.broadcast_to(k_diag if k_diag.ndim == 2 else k_diag[:, None], (m, C))
        for start in range(0, m, WIDTH):
            where = slice(start, min(start + WIDTH, m))
            width = where.stop - start
            mean, variance = np.empty((S, WIDTH, C)), np.zeros((WIDTH, C))
            variance[:width] = diagonal[where]
            for c, (root, cross) in enumerate(zip(roots, crosses, strict=True)):
                K = np.zeros((n, WIDTH))
                K[:, :width] = cross[:, where]
                mean[:, :, c] = np.einsum("ns,nw->sw", weights[:, c], K)
                known = np.einsum("nr,nw->rw", root, K)
                variance[:, c] -= np.einsum("rw,rw->w", known, known)
            yield _Block(where, mean, np.maximum(variance, 0.0))


def _log_average(likelihood: Likelihood, label: Array, mean: Array, variance: Array) -> Array:
    """``log mean_s P(label)``, shape (WIDTH,), for means of shape (S, WIDTH)."""
    labels, variances = (np.broadcast_to(x, mean.shape).ravel() for x in (label, variance))
    log_z = likelihood.tilted_moments(labels, mean.ravel(), variances).log_z.reshape(mean.shape)
    top = log_z.max(axis=0)
    return np.asarray(top + np.log(np.exp(log_z - top).mean(axis=0)))
