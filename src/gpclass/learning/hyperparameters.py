"""The vector theta of free hyperparameters: the one place where it is split and joined."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass.kernels import n_free, with_theta
from gpclass.likelihoods import Likelihood

Array = NDArray[np.float64]


def split(theta: Array, sizes: Sequence[int]) -> list[Array]:
    """Consecutive parts of theta of these sizes."""
    return np.split(theta, np.cumsum(sizes)[:-1])


@final
@dataclass(frozen=True)
class Hyperparameters:
    """Logarithms of what is free: of one kernel, or of each class's in turn, then the likelihood's.

    A CompoundKernel has one kernel a class.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.likelihoods import NoisyThreshold
    >>> free = Hyperparameters(RBF(2.0), NoisyThreshold(0.1))
    >>> free.names
    ('length_scale', 'likelihood__epsilon')
    >>> free.at(np.log([3.0, 0.2])).kernel
    RBF(length_scale=3)
    """

    kernel: Kernel
    likelihood: Likelihood

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The shared kernel, or one a class."""
        if isinstance(self.kernel, CompoundKernel):
            return tuple(self.kernel.kernels)
        return (self.kernel,)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of each kernel, then of the likelihood."""
        return (*map(n_free, self.kernels), len(self.likelihood.theta))

    @property
    def n_kernel(self) -> int:
        """Number of entries of the kernels together, which come first."""
        return sum(self.sizes[:-1])

    @property
    def theta(self) -> Array:
        """Their logarithms, shape (p,)."""
        # a hyperparameter of zero is minus infinity here, and legal: DotProduct(0)
        with np.errstate(divide="ignore"):
            kernels = [np.asarray(one.theta, dtype=np.float64) for one in self.kernels]
        return np.concatenate([*kernels, self.likelihood.theta])

    @cached_property
    def bounds(self) -> Array:
        """Their bounds, logarithms too, shape (p, 2); read only."""
        with np.errstate(divide="ignore"):
            kernels = [np.asarray(one.bounds, float).reshape(-1, 2) for one in self.kernels]
        bounds = np.vstack([*kernels, self.likelihood.bounds])
        bounds.setflags(write=False)
        return bounds

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, as in `Kernel.get_params`; an entry of a vector has an index."""
        return parameter_names(self.kernel, self.likelihood)

    @property
    def ties(self) -> Array:
        """Which hyperparameter an entry of theta belongs to: (p, q), one 1 in each row."""
        sizes = [one.n_elements for k in self.kernels for one in k.hyperparameters if not one.fixed]
        sizes += [1] * len(self.likelihood.theta)
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    def at(self, theta: Array) -> "Hyperparameters":
        """Return the same kernels and likelihood with other values."""
        *parts, last = split(np.asarray(theta, dtype=np.float64), self.sizes)
        kernels = [with_theta(one, t) for one, t in zip(self.kernels, parts, strict=True)]
        compound = isinstance(self.kernel, CompoundKernel)
        kernel = CompoundKernel(kernels) if compound else kernels[0]
        return Hyperparameters(kernel, self.likelihood.with_theta(last))

    def completed(self, theta: Array) -> Array:
        """Theta whose last entries, where they are left out, are those of now."""
        return np.concatenate([theta, self.theta[len(theta) :]])


def parameter_names(kernel: Kernel, likelihood: Likelihood | None = None) -> tuple[str, ...]:
    """Names of the entries of theta: the kernel's, then the likelihood's if there is one."""
    names: list[str] = []
    if isinstance(kernel, CompoundKernel):
        for c, one in enumerate(kernel.kernels):
            names.extend(f"kernels[{c}]__{name}" for name in parameter_names(one))
    else:
        for one in kernel.hyperparameters:
            if one.n_elements == 1 and not one.fixed:
                names.append(one.name)
            elif not one.fixed:
                names.extend(f"{one.name}[{i}]" for i in range(one.n_elements))
    if likelihood is not None:
        names.extend(f"likelihood__{name}" for name in likelihood.hyperparameter_names)
    return tuple(names)


class HyperPrior(ABC):
    """A prior over hyperparameters: learning then maximises the evidence times its density."""

    @abstractmethod
    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Logarithm of the density of theta, up to a constant, and its gradient, shape (p,)."""
