"""A problem whose hyperparameters and sites are known: what predicts, and what is saved."""

import numbers
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.inference import Approximation, Outcome, SitePosterior
from gpclass.kernels import cross, diagonal, evaluate, restrict
from gpclass.learning import Problem
from gpclass.likelihoods import Likelihood
from gpclass.linalg import TILE, product, symmetric_eigen
from gpclass.montecarlo import SamplePosterior, Samples
from gpclass.priors.dense import DenseFactor

Array = NDArray[np.float64]

# New rows at a time: the covariance with 1024 of them is smaller than the training matrix as soon
# as n > 1024, and wide enough for the triangular solve to run at full speed.
CHUNK: Final = 1024
# Values drawn together: their covariance and its eigenvectors take 5 GB.
LARGEST_SAMPLE: Final = 15_000
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


def check_sample_count(n_samples: Any) -> None:
    """Refuse what is no number of samples.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, numbers.Integral):
        raise TypeError(f"n_samples must be an integer, got {n_samples!r}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")


def check_sample_size(size: int) -> None:
    """Refuse to draw more values together than have a covariance in memory.

    Raises
    ------
    ValueError
        Naming what it would take.
    """
    if size > LARGEST_SAMPLE:
        raise ValueError(
            f"a draw of {size} latent values together needs {3 * 8e-9 * size**2:.0f} GB: draw for "
            "fewer rows of X"
        )


def draw(mean: Array, covariance: Array, n_samples: int, rng: np.random.RandomState) -> Array:
    """Draws of N(mean, covariance), singular or not, shape (k, n_samples)."""
    values, vectors = symmetric_eigen(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean[:, None] + product(root, rng.standard_normal((len(mean), n_samples)))


@dataclass(frozen=True)
class Model(ABC):
    """A problem whose hyperparameters and sites are known.

    It keeps the inputs, the hyperparameters and the sites; the n x n factor is rebuilt from them
    on first use and left out when the model is saved, so a model file grows with n, not n^2.

    Parameters
    ----------
    problem : Problem
        With the hyperparameters that were learnt.
    sites : Sites, or ClassSites or Samples in their place
    log_evidence : float
    outcome_name : str
        Name of the `Outcome` of the inference that found the sites.
    n_iter : int
        Its iterations.
    """

    problem: Any
    sites: Any
    log_evidence: float
    outcome_name: str
    n_iter: int

    @classmethod
    def of(cls, problem: Problem, approximation: Approximation) -> Self:
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

    @property
    @abstractmethod
    def posterior(self) -> Any:
        """Posterior at the training inputs."""

    @property
    def start(self) -> Any:
        """Where another inference may start, None for samples."""
        return None if isinstance(self.sites, Samples) else self.sites

    def approximation(self) -> Any:
        """Run the inference again from its own end: the evidence with its gradient."""
        problem = self.problem
        return problem.evaluate(problem.theta, gradient=False, init=self.start).approximation

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the factor."""
        return {key: value for key, value in self.__dict__.items() if key != "posterior"}

    def warn_of_overflow(self, n_lost: int, n_rows: int) -> None:
        """Say that the latent values of some new rows are not known."""
        warnings.warn(
            f"the kernel {self.problem.kernel} overflows at {n_lost} of the {n_rows} new rows; "
            "their latent value is taken as unknown (all classes equally probable)",
            NumericalWarning,
            stacklevel=3,
        )

    def variances(self, kernel: Kernel, X: Any) -> Array:
        """Prior variances of new rows under one kernel of the problem.

        Raises
        ------
        NotPositiveDefiniteError
            Where one is negative.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            k_diag = diagonal(kernel, X, self.problem.inputs)
        if (k_diag < 0).any():
            raise NotPositiveDefiniteError(
                f"the kernel {kernel} gives rows of X a negative variance ({k_diag.min():.3g})"
            )
        return k_diag

    def new_rows(self, X: Any) -> Any:
        """New inputs as the kernels of the problem's own rows want them."""
        problem = self.problem
        if problem.rows is None:
            return X
        return restrict(problem.kernels[0], X, problem.rows, len(problem.X))


@final
@dataclass(frozen=True)
class BinaryModel(Model):
    """One learnt binary classifier; `Model` has the fields."""

    @cached_property
    def posterior(self) -> SitePosterior | SamplePosterior:
        """Posterior at the training inputs."""
        prior = self.problem.prior()
        if isinstance(self.sites, Samples):
            return SamplePosterior.from_samples(prior, self.sites)
        return SitePosterior.from_sites(prior, self.sites)

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
            self.warn_of_overflow(int(lost.sum()), m)
        return mean, variance

    def sample(self, X: Any, n_samples: int, rng: np.random.RandomState) -> Array:
        """Draw the latent function at new inputs together, shape (m, n_samples).

        Raises
        ------
        ValueError
            Where the posterior is held as samples.
        """
        posterior, problem = self.posterior, self.problem
        if isinstance(posterior, SamplePosterior):
            raise ValueError(
                "sample_latent needs a Gaussian posterior: Monte Carlo has samples at the training "
                "rows alone (approximation_.draws)"
            )
        X = self.new_rows(X)
        check_sample_size(len(X))
        K_new = evaluate(problem.kernel, X)
        K_cross = cross(problem.kernel, problem.inputs, X)
        mean = posterior.mean_weights @ K_cross
        assert isinstance(posterior.factor, DenseFactor)
        return draw(mean, posterior.factor.conditional_covariance(K_cross, K_new), n_samples, rng)

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
        X = self.new_rows(X)
        m = len(X)
        k_diag = np.zeros(m + -m % TILE)
        k_diag[:m] = self.variances(self.problem.kernel, X)
        with np.errstate(over="ignore", invalid="ignore"):
            K_cross = cross(self.problem.kernel, trained_on, X)
        if m % TILE:
            K_cross = np.hstack([K_cross, np.zeros((len(K_cross), -m % TILE))])
        return K_cross, k_diag
