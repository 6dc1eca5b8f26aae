"""Approximations of many classes that a binary method made of latents with a site each."""

from abc import ABC

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.approximation import Approximation, Outcome
from gpclass.inference.sites import Sites

Array = NDArray[np.float64]


class OfBinary(ABC):
    """What is read from ``binary``, the binary method's approximation."""

    binary: Approximation

    @property
    def sites(self) -> Sites:
        """Sites of the N latents: what a later call can start from."""
        return self.binary.sites

    @property
    def log_evidence(self) -> float:
        """The binary method's approximation of the log evidence, in nats."""
        return self.binary.log_evidence

    @property
    def outcome(self) -> Outcome:
        """How the iteration ended."""
        return self.binary.outcome

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.binary.converged

    @property
    def n_iter(self) -> int:
        """Iterations that were taken."""
        return self.binary.n_iter

    @property
    def n_factorisations(self) -> int:
        """Factorisations that were made: what the time goes into."""
        return self.binary.n_factorisations

    def likelihood_gradient(self) -> Array:
        """``d log_evidence / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.binary.likelihood_gradient()
