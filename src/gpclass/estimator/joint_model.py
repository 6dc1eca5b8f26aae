"""A learnt classifier of many classes by one joint model."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.model import (
    UNKNOWN_VARIANCE,
    Model,
    Setting,
    check_sample_size,
    chunks,
    cross_covariance,
    draw,
    draw_from_settings,
    inputs_for,
    warn_of_lost_rows,
    warn_of_overflow,
)
from gpclass.inference.joint import LatentPosterior
from gpclass.inference.weights import ClassWeightPrediction
from gpclass.kernels import evaluate
from gpclass.learning import InducingProblem, Node

Array = NDArray[np.float64]

# Latents beyond this, in their own unit (that of a label's noise), are scaled down to it before
# probabilities are taken: the noise is negligible there, and their squares would overflow.
MAX_LATENT: Final = 1e12


@final
@dataclass(eq=False)
class JointModel(Model):
    """One learnt classifier of many classes; `Model` has the fields."""

    def posterior_at(self, problem: Any, node: Node) -> LatentPosterior | ClassWeightPrediction:
        """Posterior of the latents of all classes."""
        found: LatentPosterior | ClassWeightPrediction
        found = problem.predictive(problem.prior(), node.sites)
        return found

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Means (m, C) and covariances (m, C, C) of the classes' latent functions at new inputs.

        A row's result does not depend on the others. NumericalWarning where the kernel overflows:
        the latents are then unknown, with mean 0 and variances that make all classes equally
        probable.
        """
        weights, found = self.at_settings(latent_at, X)
        if len(found) == 1:
            return found[0]
        means, covariances = (np.stack(part) for part in zip(*found, strict=True))
        mean = np.einsum("k,kic->ic", weights, means)
        away = means - mean
        covariances += away[..., :, None] * away[..., None, :]
        return mean, np.einsum("k,kicd->icd", weights, covariances)

    def probabilities(self, X: Any) -> Array:
        """Class probabilities at new inputs, averaged over the settings, shape (m, C)."""
        weights, found = self.at_settings(_probabilities_at, X)
        if len(found) == 1:
            return found[0]
        total = np.sum([w * P for w, P in zip(weights, found, strict=True)], axis=0)
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    @property
    def own_classes(self) -> NDArray[np.intp]:
        """The rows' codes."""
        return np.asarray(self.problem.codes)

    def left_out_at(self, setting: Setting, count: Array) -> Array:
        """Log probabilities under each row's latents without its own site, shape (n, C)."""
        problem, posterior = setting.problem, setting.posterior
        if isinstance(problem, InducingProblem):
            mean, variance = problem.cavities(posterior.q, count)
            covariance = variance[:, :, None] * np.eye(mean.shape[1])
        else:
            mean, covariance = posterior.leave_one_out(count)
        lost = np.asarray(~np.isfinite(covariance).all(axis=(1, 2)))
        if lost.any():
            mean[lost], covariance[lost] = 0.0, UNKNOWN_VARIANCE * np.eye(mean.shape[1])
            warn_of_lost_rows(lost)
        P = probabilities_of(problem, mean, covariance)
        return np.asarray(np.log(np.maximum(P, np.finfo(np.float64).tiny)))

    def sample(self, X: Any, n_samples: int, rng: np.random.RandomState) -> Array:
        """Draw the classes' latent functions at new inputs together, shape (m, C, n_samples)."""
        m, n_classes = len(X), self.problem.n_classes
        if not isinstance(self.problem, InducingProblem):
            check_sample_size(m * n_classes)

        def draw_at(setting: Setting, k: int) -> Array:
            _, problem, posterior = setting
            if isinstance(posterior, ClassWeightPrediction):
                return posterior.draws(*cross_covariance(problem, X), k, rng)
            crosses, _ = cross_covariance(problem, X)
            new = inputs_for(problem, X)
            K_new = [evaluate(kernel, new) for kernel in problem.kernels]
            mean, covariance = posterior.joint(crosses, K_new if len(K_new) > 1 else K_new[0])
            found = draw(mean.ravel(), covariance.reshape(m * n_classes, -1), k, rng)
            return found.reshape(m, n_classes, k)

        return draw_from_settings(self.settings(), n_samples, rng, draw_at)


def latent_at(setting: Setting, X: Any) -> tuple[Array, Array]:
    """`JointModel.latent` at one setting."""
    _, problem, posterior = setting
    m, n_classes = len(X), problem.n_classes
    mean, covariance = np.empty((m, n_classes)), np.empty((m, n_classes, n_classes))
    for part, rows in chunks(X):
        size = part.stop - part.start
        K_cross, k_diag = cross_covariance(problem, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            found_mean, found_covariance = posterior.predict(K_cross, k_diag)
        mean[part], covariance[part] = found_mean[:size], found_covariance[:size]
    known = np.isfinite(mean).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2))
    lost = np.asarray(~known)
    if lost.any():
        mean[lost], covariance[lost] = 0.0, UNKNOWN_VARIANCE * np.eye(n_classes)
        warn_of_overflow(problem, lost)
    return mean, covariance


def _probabilities_at(setting: Setting, X: Any) -> Array:
    """`JointModel.probabilities` at one setting."""
    return probabilities_of(setting.problem, *latent_at(setting, X))


def probabilities_of(problem: Any, mean: Array, covariance: Array) -> Array:
    """Class probabilities (m, C) of latents N(mean, covariance) of any size."""
    spread = np.abs(covariance).max(axis=(1, 2), initial=0.0)
    size = np.maximum(np.sqrt(spread), np.abs(mean).max(axis=1))
    scale = np.minimum(1.0, MAX_LATENT / np.maximum(size, 1.0))
    mean, covariance = mean * scale[:, None], covariance * (scale * scale)[:, None, None]
    P: Array = problem.scheme.probabilities(mean, covariance, problem.likelihood)
    return P
