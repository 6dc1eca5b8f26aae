"""A binary problem whose hyperparameters and sites are known: what predicts, and what is saved."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.inference import Approximation, Outcome, SitePosterior
from gpclass.kernels import cross, diagonal, restrict
from gpclass.learning import BinaryProblem
from gpclass.likelihoods import Likelihood
from gpclass.linalg import TILE
from gpclass.montecarlo import SamplePosterior, Samples
from gpclass.sites import Sites

Array = NDArray[np.float64]

# New rows at a time: the covariance with 1024 of them is smaller than the training matrix as soon
# as n > 1024, and wide enough for the triangular solve to run at full speed.
CHUNK: Final = 1024
# Stands for an infinite latent variance: large enough for a probability of 1/2, and finite.
UNKNOWN_VARIANCE: Final = 1e300


def log_probabilities(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """``log P(-1)`` and ``log P(+1)`` for latents N(mean, variance), shape (m, 2).

    The smaller probability is computed and the larger is its complement, so both keep their
    relative accuracy and sum to one.
    """
    positive = likelihood.predict_proba(mean, variance) > 0.5
    smaller = likelihood.tilted_moments(np.where(positive, -1.0, 1.0), mean, variance).log_z
    larger = np.log1p(-np.exp(smaller))
    return np.stack(
        [np.where(positive, smaller, larger), np.where(positive, larger, smaller)], axis=1
    )


@final
@dataclass(frozen=True)
class BinaryModel:
    """One learnt binary classifier.

    It keeps the inputs, the hyperparameters and the sites; the n x n factor is rebuilt from them
    on first use and left out when the model is saved, so a model file grows with n, not n^2.

    Parameters
    ----------
    problem : BinaryProblem
        With the hyperparameters that were learnt.
    sites : Sites, or Samples in their place
    log_evidence : float
    outcome_name : str
        Name of the `Outcome` of the inference that found the sites.
    n_iter : int
        Its iterations.
    """

    problem: BinaryProblem
    sites: Sites | Samples
    log_evidence: float
    outcome_name: str
    n_iter: int

    @classmethod
    def of(cls, problem: BinaryProblem, approximation: Approximation) -> "BinaryModel":
        """Return the model of a problem's approximation."""
        return cls(
            problem,
            approximation.sites,
            approximation.log_evidence,
            approximation.outcome.name,
            approximation.n_iter,
        )

    @property
    def outcome(self) -> Outcome:
        """How the inference ended."""
        return Outcome[self.outcome_name]

    @cached_property
    def posterior(self) -> SitePosterior | SamplePosterior:
        """Posterior at the training inputs."""
        prior = self.problem.prior()
        if isinstance(self.sites, Samples):
            return SamplePosterior.from_samples(prior, self.sites)
        return SitePosterior.from_sites(prior, self.sites)

    @property
    def start(self) -> Sites | None:
        """Where another inference may start."""
        return None if isinstance(self.sites, Samples) else self.sites

    def approximation(self) -> Approximation:
        """Run the inference again from its own end: the evidence with its gradient."""
        problem = self.problem
        return problem.evaluate(problem.theta, gradient=False, init=self.start).approximation

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the factor."""
        return {key: value for key, value in self.__dict__.items() if key != "posterior"}

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent function at new inputs.

        Parameters
        ----------
        X : array-like of shape (m, d), or whatever the kernel takes

        Returns
        -------
        mean, variance : ndarray of shape (m,)
            A row does not depend on the others bit for bit.

        Warns
        -----
        NumericalWarning
            Where the kernel overflows at new rows; their latent is then unknown: mean 0 and a
            variance so large that the probability is one half.
        """
        m = len(X)
        trained_on = self.problem.inputs
        mean, variance = np.empty(m), np.empty(m)
        for start in range(0, m, CHUNK):
            part = slice(start, min(start + CHUNK, m))
            mean[part], variance[part] = self._latent_chunk(X[part], trained_on)
        lost = ~(np.isfinite(mean) & np.isfinite(variance))
        if lost.any():
            mean[lost], variance[lost] = 0.0, UNKNOWN_VARIANCE
            warnings.warn(
                f"the kernel {self.problem.kernel} overflows at {int(lost.sum())} of the {m} new "
                "rows; their latent value is taken as unknown (probability one half)",
                NumericalWarning,
                stacklevel=2,
            )
        return mean, variance

    def log_probabilities(self, X: Any) -> Array:
        """``log P(-1)`` and ``log P(+1)`` at new inputs, shape (m, 2).

        Averages over the Gaussian of the latent, or over samples where the posterior has them.
        """
        posterior = self.posterior
        if isinstance(posterior, SitePosterior):
            return log_probabilities(self.problem.likelihood, *self.latent(X))
        trained_on = self.problem.inputs
        log_p = np.empty((len(X), 2))
        for start in range(0, len(X), CHUNK):
            part = slice(start, min(start + CHUNK, len(X)))
            K_cross, k_diag = self._covariances(X[part], trained_on)
            if not (np.isfinite(K_cross).all() and np.isfinite(k_diag).all()):
                raise NotPositiveDefiniteError(
                    f"the kernel {self.problem.kernel} overflows at new rows"
                )
            found = posterior.log_probabilities(self.problem.likelihood, K_cross, k_diag)
            log_p[part] = found[: part.stop - part.start]
        return log_p

    def _latent_chunk(self, X: Any, trained_on: Any) -> tuple[Array, Array]:
        # an overflow is found and told by the caller
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = self.posterior.predict(*self._covariances(X, trained_on))
        return mean[: len(X)], variance[: len(X)]

    def _covariances(self, X: Any, trained_on: Any) -> tuple[Array, Array]:
        """Covariances with the training inputs and variances, padded to whole tiles."""
        problem = self.problem
        if problem.rows is not None:
            X = restrict(problem.kernel, X, problem.rows, len(problem.X))
        m = len(X)
        with np.errstate(over="ignore", invalid="ignore"):
            k_diag = np.zeros(m + -m % TILE)
            k_diag[:m] = diagonal(problem.kernel, X, trained_on)
            if (k_diag < 0).any():
                raise NotPositiveDefiniteError(
                    f"the kernel {problem.kernel} gives rows of X a negative variance "
                    f"({k_diag.min():.3g})"
                )
            K_cross = cross(problem.kernel, trained_on, X)
            if m % TILE:
                K_cross = np.hstack([K_cross, np.zeros((len(K_cross), -m % TILE))])
        return K_cross, k_diag
