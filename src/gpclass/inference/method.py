"""How an inference method is called: its arguments, checked and converted once for all methods."""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Approximation
from gpclass.inference.cavities import Copies
from gpclass.inference.sites import Sites
from gpclass.likelihoods.base import Likelihood
from gpclass.priors import DensePrior, Prior
from gpclass.priors.base import as_weights

A = TypeVar("A", bound=Approximation, covariant=True)


class InferenceMethod(Protocol):
    """A frozen dataclass of settings, called as a pure function."""

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> Approximation:
        """Approximate ``p(f | y)``; labels in {-1, +1}; ``init`` is where to start from."""


class GaussianMethod(ABC, Generic[A]):
    """An inference method of this library, with the call that all of them share."""

    def __call__(
        self,
        prior: Prior | ArrayLike,
        y: ArrayLike,
        likelihood: Likelihood,
        *,
        weights: ArrayLike | None = None,
        init: Approximation | Sites | None = None,
    ) -> A:
        """Approximate ``p(f | y)`` and the evidence.

        ``prior`` may be an (n, n) array, for a `DensePrior`. ``y``, shape (n,), has labels -1 or
        +1. ``weights``, shape (n,), are powers of the likelihood terms: a whole number is the row
        repeated. ``init`` is where to start; None: at the prior.

        Raises
        ------
        ValueError
            For bad labels, weights or lengths, and for a likelihood that the method cannot use.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        prior, copies = as_problem(prior, y, likelihood, weights)
        return self.approximate(prior, copies, initial_sites(init, prior.n))

    @abstractmethod
    def approximate(self, prior: Prior, copies: Copies, init: Sites | None) -> A:
        """Approximate the posterior for arguments that have been checked."""


def check_limits(max_iter: int, tol: float, fallback: int = 0) -> None:
    """Refuse limits of an iteration that cannot work."""
    if max_iter < 1 or not tol > 0 or fallback < 0:
        raise ValueError(
            f"max_iter must be at least 1, tol positive and fallback not negative, got {max_iter}, "
            f"{tol}, {fallback}"
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a setting that is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def as_problem(
    prior: Prior | ArrayLike, y: ArrayLike, likelihood: Likelihood, weights: ArrayLike | None
) -> tuple[Prior, Copies]:
    """Check and convert the arguments of a method; ValueError where they are bad."""
    if not isinstance(prior, Prior):
        prior = DensePrior(np.ascontiguousarray(prior, dtype=np.float64))
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (prior.n,):
        raise ValueError(
            f"y must have one label for each of the {prior.n} latent values of the prior, got "
            f"shape {labels.shape}"
        )
    if not (np.abs(labels) == 1.0).all():
        raise ValueError("y must hold -1 and +1 only")
    offset = np.zeros(prior.n) if prior.mean is None else prior.mean
    return prior, Copies(likelihood, labels, as_weights(weights, prior.n), offset)


def initial_sites(init: Approximation | Sites | None, n: int) -> Sites | None:
    """Sites of ``init``; ValueError where they are of another number of points."""
    sites = init.sites if isinstance(init, Approximation) else init
    if sites is not None and len(sites) != n:
        raise ValueError(f"init has {len(sites)} sites where the prior has {n} latent values")
    return sites


def usable_sites(init: Sites | None, prior: Prior) -> Sites:
    """Sites to start from: those given where the posterior is proper, else sites of zero."""
    if init is None or not (np.isfinite(init.nu).all() and np.isfinite(init.tau).all()):
        return Sites.zero(prior.n)
    if (init.tau < 0).any():
        try:
            prior.factor(init.tau)
        except NotPositiveDefiniteError:
            return Sites.zero(prior.n)
    return init
