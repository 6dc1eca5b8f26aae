"""A joint model of many classes whose evidence depends on hyperparameters."""

from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass.inference import InferenceMethod
from gpclass.inference.joint import JointScheme, MultinomialProbit
from gpclass.inference.sites import Sites
from gpclass.kernels import pullback
from gpclass.learning.problem import Problem
from gpclass.likelihoods import Likelihood
from gpclass.priors.classes import ClassPrior

Array = NDArray[np.float64]

# Rows from which on a search begins with one in so many of them: a 64th of the cost.
MANY: Final = 800
ONE_IN: Final = 4
# Tolerances of the inference at the end of an optimiser's run, and in its line searches; and what
# the first leaves of the evidence, of which a smaller gain is noise.
LEARNING: Final = 1e-5
SEARCHING: Final = 1e-4
SLACK: Final = 1e-12


@final
@dataclass(frozen=True)
class JointProblem(Problem):
    """One classification problem of many classes, up to the values of its hyperparameters.

    Parameters
    ----------
    kernel : Kernel
        Shared by the classes, or a CompoundKernel with one for each.
    X : ndarray of shape (N, d), or whatever the kernel takes
    codes : ndarray of shape (n,)
        Class indices.
    n_classes : int
    scheme : JointScheme
    likelihood : Likelihood
    inference : InferenceMethod
    weights : ndarray of shape (n,), default=None
        Powers of the likelihood terms; None: all one.
    rows : ndarray of shape (n,), default=None
        Which rows of X belong to the problem; None: all.
    """

    kernel: Kernel
    X: Any
    codes: NDArray[np.intp]
    n_classes: int
    scheme: JointScheme
    likelihood: Likelihood
    inference: InferenceMethod
    weights: Array | None = None
    rows: NDArray[np.intp] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def n_sites(self) -> int:
        """As many as the scheme has for the rows."""
        return self.scheme.n_sites(len(self.codes), self.n_classes)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The shared kernel, or one a class."""
        if isinstance(self.kernel, CompoundKernel):
            return tuple(self.kernel.kernels)
        return (self.kernel,)

    def prior(self) -> ClassPrior:
        """Prior over the latents of all classes, with `jitter` on the diagonals."""
        found = [self.covariance(kernel) for kernel in self.kernels]
        K = found if isinstance(self.kernel, CompoundKernel) else found[0]
        return ClassPrior(K, self.n_classes, ", ".join(map(str, self.kernels)))

    def infer(self, prior: ClassPrior, init: Any) -> Any:
        """Approximation under a prior of this problem, from a start or None."""
        return self.scheme.infer(self, prior, init)

    def while_learning(self) -> "JointProblem":
        """With what the scheme takes for enough, where there are many rows.

        Few cost little, and then weights are repetition after learning too.
        """
        if not self._has_many_rows:
            return self
        return self._by(self.scheme.loosened(self.inference, LEARNING))

    def while_searching(self) -> "JointProblem":
        """With the tolerance that the scheme takes for enough there, where there are many rows."""
        if not self._has_many_rows:
            return self
        return self._by(self.scheme.loosened(self.inference, SEARCHING))

    def _by(self, inference: InferenceMethod) -> "JointProblem":
        return self if inference == self.inference else replace(self, inference=inference)

    def part(self) -> "JointProblem | None":
        """Every fourth row, where there are many."""
        if not self._has_many_rows:
            return None
        chosen = self._chosen
        return replace(
            self,
            inference=self.scheme.loosened(self.inference, SEARCHING),
            codes=self.codes[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            rows=chosen if self.rows is None else self.rows[chosen],
        )

    def sites_of_part(self, sites: Any) -> Sites | None:
        """Every row takes those of its class, on average; the rows of the part have their own."""
        if not isinstance(sites, Sites):
            return None
        known = self._chosen
        ends = []
        for values in (sites.nu, sites.tau):
            part = values.reshape(len(known), -1)
            rows = np.tile(part.mean(axis=0), (len(self.codes), 1))
            for c in np.unique(self.codes[known]):
                rows[self.codes == c] = part[self.codes[known] == c].mean(axis=0)
            rows[known] = part
            ends.append(rows.ravel())
        return Sites(*ends)

    @property
    def _has_many_rows(self) -> bool:
        return len(self.codes) >= MANY

    @property
    def _chosen(self) -> NDArray[np.intp]:
        """Rows of `part`."""
        return np.arange(0, len(self.codes), ONE_IN)

    @property
    def slack(self) -> float:
        """Relative error of the evidence `while_learning`."""
        ends_early = isinstance(self.scheme, MultinomialProbit) and self._has_many_rows
        return SLACK if ends_early else 0.0

    def pull(self, G: Array, prior: ClassPrior | None) -> Array:
        """Gradient by the theta of the shared kernel, or of each class's in turn."""
        each = G[None] if G.ndim == 2 else G
        known: tuple[Array | None, ...] = (None,) * len(each)
        if prior is not None:
            known = prior.covariances[: len(each)]
        return np.concatenate(
            [
                pullback(kernel, self.inputs, cotangent, K=K)
                for kernel, cotangent, K in zip(self.kernels, each, known, strict=True)
            ]
        )

    def site_prior(self) -> Any:
        """Prior of the differences, or of the classes' latents where they share a site."""
        return self.scheme.site_prior(self, self.prior())

    def site_labels(self) -> tuple[Array, Array]:
        """All sites say that their latent is positive, with the weight of their row."""
        weights = np.ones(len(self.codes)) if self.weights is None else self.weights
        repeated = np.repeat(weights, self.n_sites // len(self.codes))
        return np.ones(len(repeated)), repeated

    def pull_sites(self, G: Array, site_prior: Any) -> Array:
        """Gradient by theta from the cotangent of the site prior's covariance."""
        shared = len(self.kernels) == 1
        return self.pull(self.scheme.to_covariance(self, G, shared=shared), None)
