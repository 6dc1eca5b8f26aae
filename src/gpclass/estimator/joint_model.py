"""A joint model of many classes whose hyperparameters and sites are known."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.binary_model import CHUNK, UNKNOWN_VARIANCE, Model, check_sample_size, draw
from gpclass.inference.joint import LatentPosterior
from gpclass.kernels import cross, evaluate

Array = NDArray[np.float64]

# Latent values and deviations that probabilities are taken of.
LARGEST: Final = 1e12


@final
@dataclass(frozen=True)
class JointModel(Model):
    """One learnt classifier of many classes; `Model` has the fields."""

    @cached_property
    def posterior(self) -> LatentPosterior:
        """Posterior of the latents of all classes."""
        problem = self.problem
        return problem.scheme.posterior(  # type: ignore[no-any-return]
            problem, problem.prior(), self.sites
        )

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Means and covariances of the classes' latent functions at new inputs.

        Parameters
        ----------
        X : array-like of shape (m, d), or whatever the kernel takes

        Returns
        -------
        mean : ndarray of shape (m, C)
        covariance : ndarray of shape (m, C, C)
            A row does not depend on the others bit for bit.

        Warns
        -----
        NumericalWarning
            Where the kernel overflows at new rows; their latents are then unknown: mean 0 and
            variances so large that all classes are equally probable.
        """
        m, n_classes = len(X), self.problem.n_classes
        mean, covariance = np.empty((m, n_classes)), np.empty((m, n_classes, n_classes))
        for start in range(0, m, CHUNK):
            part = slice(start, min(start + CHUNK, m))
            # an overflow is found and told below
            with np.errstate(over="ignore", invalid="ignore"):
                mean[part], covariance[part] = self.posterior.predict(*self._covariances(X[part]))
        lost = ~(np.isfinite(mean).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2)))
        if lost.any():
            mean[lost], covariance[lost] = 0.0, UNKNOWN_VARIANCE * np.eye(n_classes)
            self.warn_of_overflow(int(lost.sum()), m)
        return mean, covariance

    def sample(self, X: Any, n_samples: int, rng: np.random.RandomState) -> Array:
        """Draw the classes' latent functions at new inputs together, shape (m, C, n_samples)."""
        m, n_classes = len(X), self.problem.n_classes
        check_sample_size(m * n_classes)
        crosses, _ = self._covariances(X)
        X = self.new_rows(X)
        K_new = [evaluate(kernel, X) for kernel in self.problem.kernels]
        mean, covariance = self.posterior.joint(crosses, K_new if len(K_new) > 1 else K_new[0])
        found = draw(mean.ravel(), covariance.reshape(m * n_classes, -1), n_samples, rng)
        return found.reshape(m, n_classes, n_samples)

    def probabilities(self, X: Any) -> Array:
        """Class probabilities at new inputs, shape (m, C)."""
        problem = self.problem
        mean, covariance = self.latent(X)
        # beyond LARGEST the noise of a label is nothing, and squares would overflow
        spread = np.abs(covariance).max(axis=(1, 2), initial=0.0)
        size = np.maximum(np.sqrt(spread), np.abs(mean).max(axis=1))
        scale = np.minimum(1.0, LARGEST / np.maximum(size, 1.0))
        mean, covariance = mean * scale[:, None], covariance * (scale * scale)[:, None, None]
        P: Array = problem.scheme.probabilities(mean, covariance, problem.likelihood)
        return P

    def _covariances(self, X: Any) -> tuple[Any, Array]:
        """Covariances with the training inputs and variances: of all classes, or of each."""
        X, trained_on = self.new_rows(X), self.problem.inputs
        crosses, variances = [], []
        for kernel in self.problem.kernels:
            variances.append(self.variances(kernel, X))
            with np.errstate(over="ignore", invalid="ignore"):
                crosses.append(cross(kernel, trained_on, X))
        if len(crosses) == 1:
            return crosses[0], variances[0]
        return crosses, np.stack(variances, axis=1)
