"""Class probabilities that are averaged over samples of the latents of all classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.montecarlo.class_gaussian import ClassGaussian
from gpclass.montecarlo.problem import RandomState, check_counts, generator
from gpclass.priors.classes import ClassPrior
from gpclass.priors.coupled import as_crosses

Array = NDArray[np.float64]

# New inputs handled at a time: arrays of (S, WIDTH, C).
WIDTH: Final = 32


@final
@dataclass(frozen=True)
class ClassSamples:
    """Samples of the latents of all classes at the training rows, by their weights.

    Parameters
    ----------
    weights : ndarray of shape (n, C, S)
        Sample s of class c is ``f_c = K_c weights[:, c, s]``.

    Examples
    --------
    >>> import numpy as np
    >>> len(ClassSamples(np.zeros((4, 3, 100))))
    4
    """

    weights: Array

    def __post_init__(self) -> None:
        """Refuse what is not at least one finite sample."""
        if self.weights.ndim != 3 or self.weights.shape[2] == 0:
            raise ValueError(
                f"weights must have shape (n, C, S) with S > 0, got {self.weights.shape}"
            )
        if not np.isfinite(self.weights).all():
            raise ValueError("weights must be finite")

    def __len__(self) -> int:
        """Return the number of training rows."""
        return len(self.weights)


class _Block(NamedTuple):
    """Where a block's rows belong, the samples' means (S, w, C), and the variances (w, C)."""

    where: slice
    mean: Array
    variance: Array


@final
@dataclass(frozen=True)
class ClassSamplePosterior:
    """An equal mixture of Gaussians, one a sample, whose classes are independent.

    Given sample s, ``f_*c ~ N(k_c^T a_cs, k_**c - k_c^T K_c^+ k_c)``.

    Parameters
    ----------
    samples : ClassSamples
    prior : ClassGaussian

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods.classes import SoftmaxLikelihood
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> samples = ClassSamples(np.stack([np.eye(2), np.zeros((2, 2))], axis=1))
    >>> posterior = ClassSamplePosterior.from_samples(ClassPrior(K, 2), samples)
    >>> posterior.predict(K, np.diag(K))[0]
    array([[1.5, 0. ],
           [1.5, 0. ]])
    >>> posterior.probabilities(SoftmaxLikelihood(), K, np.diag(K)).round(3)
    array([[0.806, 0.194],
           [0.806, 0.194]])
    """

    samples: ClassSamples
    prior: ClassGaussian

    @classmethod
    def from_samples(cls, prior: ClassPrior, samples: ClassSamples) -> "ClassSamplePosterior":
        """Rebuild from the prior's covariances and the samples.

        Raises
        ------
        ValueError
            For another number of rows or classes.
        """
        expected = (prior.n, prior.n_classes)
        if samples.weights.shape[:2] != expected:
            raise ValueError(
                f"the samples are of shape {samples.weights.shape[:2]} and the prior is {expected}"
            )
        return cls(samples, ClassGaussian.prior(prior))

    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> tuple[Array, Array]:
        """Latent mean and covariance of the classes at m new inputs.

        Parameters
        ----------
        K_cross : ndarray of shape (n, m), or sequence of C such arrays
        k_diag : ndarray of shape (m,) or (m, C)

        Returns
        -------
        mean : ndarray of shape (m, C)
        covariance : ndarray of shape (m, C, C)
        """
        n_classes = len(self.prior.blocks)
        mean = np.empty((len(k_diag), n_classes))
        covariance = np.empty((len(k_diag), n_classes, n_classes))
        for block in self._blocks(K_cross, k_diag):
            average = block.mean.mean(axis=0)
            spread = block.mean - average
            mean[block.where] = average
            covariance[block.where] = np.einsum("swc,swd->wcd", spread, spread) / len(spread)
            covariance[block.where, range(n_classes), range(n_classes)] += block.variance
        return mean, covariance

    def probabilities(
        self,
        likelihood: ClassLikelihood,
        K_cross: Array | Sequence[Array],
        k_diag: Array,
        *,
        n_draws: int = 4,
        random_state: RandomState = 0,
    ) -> Array:
        """Class probabilities: averages of the likelihood over draws of the new latents.

        Parameters
        ----------
        likelihood : ClassLikelihood
        K_cross : ndarray of shape (n, m), or sequence of C such arrays
        k_diag : ndarray of shape (m,) or (m, C)
        n_draws : int, default=4
            Antithetic pairs of new latents for each sample.
        random_state : int, Generator, RandomState or None, default=0

        Returns
        -------
        P : ndarray of shape (m, C)
            Rows sum to one, to the accuracy of the likelihood.
        """
        check_counts(n_draws=n_draws)
        rng = generator(random_state)
        n_classes = len(self.prior.blocks)
        P = np.zeros((len(k_diag), n_classes))
        for block in self._blocks(K_cross, k_diag):
            sd = np.sqrt(block.variance)
            for _ in range(n_draws):
                noise = sd * rng.standard_normal(block.mean.shape)
                for F in (block.mean + noise, block.mean - noise):
                    P[block.where] += likelihood.probabilities(F).mean(axis=0)
        return P / (2 * n_draws)

    def _blocks(self, K_cross: Array | Sequence[Array], k_diag: Array) -> Iterator[_Block]:
        blocks, m = self.prior.blocks, len(k_diag)
        # padded to whole tiles
        crosses = [cross[:, :m] for cross in as_crosses(K_cross, len(blocks))]
        for cross in crosses:
            if cross.shape != (len(self.samples), m):
                raise ValueError(
                    f"K_cross must have {len(self.samples)} rows and the {m} columns of k_diag, "
                    f"got {cross.shape}"
                )
        diagonal = np.broadcast_to(k_diag.reshape(m, -1), (m, len(blocks)))
        for start in range(0, m, WIDTH):
            where = slice(start, min(start + WIDTH, m))
            means, variances = [], []
            for c, (block, cross) in enumerate(zip(blocks, crosses, strict=True)):
                K = np.ascontiguousarray(cross[:, where])
                means.append(np.einsum("ns,nw->sw", self.samples.weights[:, c], K))
                known = np.einsum("nr,nw->rw", block.weight_root, K)
                reduced = np.einsum("rw,rw->w", known, known)
                variances.append(np.maximum(diagonal[where, c] - reduced, 0.0))
            yield _Block(where, np.stack(means, axis=-1), np.stack(variances, axis=-1))
