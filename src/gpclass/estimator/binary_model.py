"""A learnt binary classifier."""

from dataclasses import dataclass
from typing import Any, final

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
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import SitePosterior
from gpclass.inference.cavities import Cavities
from gpclass.inference.weights import WeightPrediction
from gpclass.kernels import evaluate
from gpclass.learning import BinaryProblem, InducingProblem, Node
from gpclass.likelihoods import Likelihood
from gpclass.montecarlo import SamplePosterior, Samples

Array = NDArray[np.float64]


def log_probabilities(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """``log P(-1)`` and ``log P(+1)`` for latents N(mean, variance), shape (m, 2).

    The larger is the complement of the smaller, so both keep their relative accuracy.
    """
    positive = likelihood.predict_proba(mean, variance) > 0.5
    smaller = likelihood.tilted_moments(np.where(positive, -1.0, 1.0), mean, variance).log_z
    larger = np.log1p(-np.exp(smaller))
    return np.stack(
        [np.where(positive, smaller, larger), np.where(positive, larger, smaller)], axis=1
    )


@final
@dataclass(eq=False)
class BinaryModel(Model):
    """One learnt binary classifier; `Model` has the fields."""

    def posterior_at(
        self, problem: BinaryProblem, node: Node
    ) -> SitePosterior | SamplePosterior | WeightPrediction:
        """Posterior at the training inputs."""
        prior = problem.prior()
        if isinstance(node.sites, Samples):
            return SamplePosterior.from_samples(prior, node.sites)
        return problem.predictive(prior, node.sites)

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent function at new inputs, each of shape (m,).

        A row's result does not depend on the others. NumericalWarning where the kernel overflows:
        the latent is then unknown, with mean 0 and a variance that makes the probability one half.
        """
        weights, found = self.at_settings(latent_at, X)
        if len(found) == 1:
            return found[0]
        means, variances = (np.stack(part) for part in zip(*found, strict=True))
        mean = weights @ means
        return mean, weights @ (variances + (means - mean) ** 2)

    def log_probabilities(self, X: Any) -> Array:
        """``log P(-1)`` and ``log P(+1)`` at new inputs, averaged over the settings, (m, 2)."""
        weights, found = self.at_settings(_log_probabilities_at, X)
        if len(found) == 1:
            return found[0]
        with np.errstate(divide="ignore"):
            weighted = np.stack(found) + np.log(weights)[:, None, None]
        return np.asarray(np.logaddexp.reduce(weighted, axis=0))

    @property
    def own_classes(self) -> NDArray[np.intp]:
        """0 for the label -1, 1 for +1."""
        return np.asarray((self.problem.y > 0).astype(np.intp))

    def left_out_at(self, setting: Setting, count: Array) -> Array:
        """``log P(-1)`` and ``log P(+1)`` under a row's cavity, (n, 2)."""
        _, problem, posterior = setting
        if isinstance(posterior, SamplePosterior):
            raise AttributeError(
                "leave-one-out needs Gaussian sites, and Monte Carlo has samples: take another "
                "inference, such as 'ep', at the same kernel"
            )
        if isinstance(problem, InducingProblem):
            x, v = (one[:, 0] for one in problem.cavities(posterior.q, count))
        else:
            x, v = Cavities.of(posterior.with_covariance(), count)
        lost = ~np.isfinite(v)
        if lost.any():
            x, v = np.where(lost, 0.0, x), np.where(lost, UNKNOWN_VARIANCE, v)
            warn_of_lost_rows(lost)
        return log_probabilities(problem.likelihood, x, v)

    def sample(self, X: Any, n_samples: int, rng: np.random.RandomState) -> Array:
        """Draw the latent function at new inputs together, shape (m, n_samples).

        ValueError where the posterior is held as samples.
        """

        def draw_at(setting: Setting, k: int) -> Array:
            _, problem, posterior = setting
            if isinstance(posterior, SamplePosterior):
                raise ValueError(
                    "sample_latent needs a Gaussian posterior: Monte Carlo has samples at the "
                    "training rows alone (approximation_.draws)"
                )
            if isinstance(posterior, WeightPrediction):
                return posterior.draws(*cross_covariance(problem, X), k, rng)
            check_sample_size(len(X))
            K_cross, _ = cross_covariance(problem, X)
            mean = posterior.new_weights @ K_cross
            K_new = evaluate(problem.kernel, inputs_for(problem, X))
            return draw(mean, posterior.factor.conditional_covariance(K_cross, K_new), k, rng)

        return draw_from_settings(self.settings(), n_samples, rng, draw_at)


def latent_at(setting: Setting, X: Any) -> tuple[Array, Array]:
    """`BinaryModel.latent` at one setting."""
    _, problem, posterior = setting
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for part, rows in chunks(X):
        K_cross, k_diag = cross_covariance(problem, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            m, v = posterior.predict(K_cross, k_diag)
        mean[part], variance[part] = m[: part.stop - part.start], v[: part.stop - part.start]
    lost = ~(np.isfinite(mean) & np.isfinite(variance))
    if lost.any():
        mean[lost], variance[lost] = 0.0, UNKNOWN_VARIANCE
        warn_of_overflow(problem, lost)
    return mean, variance


def _log_probabilities_at(setting: Setting, X: Any) -> Array:
    """`BinaryModel.log_probabilities` at one setting."""
    _, problem, posterior = setting
    if not isinstance(posterior, SamplePosterior):
        return log_probabilities(problem.likelihood, *latent_at(setting, X))
    log_p = np.empty((len(X), 2))
    for part, rows in chunks(X):
        K_cross, k_diag = cross_covariance(problem, rows)
        if not (np.isfinite(K_cross).all() and np.isfinite(k_diag).all()):
            raise NotPositiveDefiniteError(f"the kernel {problem.kernel} overflows at new rows")
        found = posterior.log_probabilities(problem.likelihood, K_cross, k_diag)
        log_p[part] = found[: part.stop - part.start]
    return log_p
