"""What every likelihood answers about one label and its latent value, vectorised over sites."""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from gpclass.likelihoods import by_quadrature
from gpclass.likelihoods.results import (
    Array,
    Derivatives,
    ExpectedLogProb,
    Linearisation,
    TiltedMoments,
    linearisation,
)

__all__ = [
    "Array",
    "Derivatives",
    "ExpectedLogProb",
    "Likelihood",
    "Linearisation",
    "TiltedMoments",
]


class Likelihood(ABC):
    """p(y | f) for labels y in {-1, +1} and a latent f, vectorised over sites.

    All arguments broadcast against each other; y is an array of -1.0 and +1.0, f, mean and var
    are finite, ``var >= 0``. Results have the broadcast shape, are finite for every finite input
    (log-probabilities may reach -1e300, never -inf) and never NaN. A subclass is a frozen dataclass
    whose fields are its settings.

    A subclass must answer ``log_concave``, ``log_prob`` and ``derivatives``. The Gaussian
    integrals have quadrature for a default (`gpclass.likelihoods.by_quadrature`), which a subclass
    replaces where it has a closed form, and must replace where it is not smooth. One with
    hyperparameters answers ``theta``, ``bounds``, ``hyperparameter_names``, ``with_theta`` and the
    two gradients as well.

    Laws, each a check in `gpclass.testing.check_likelihood`:

    - ``exp(log_prob(1, f)) + exp(log_prob(-1, f)) = 1``
    - ``derivatives`` are those of ``log_prob`` (central differences)
    - ``tilted_moments(y, m, 0)`` is ``(log_prob(y, m), m, 0)``
    - ``tilted_moments(y, m, v).log_z = log int p(y|f) N(f|m, v) df`` to 1e-10
    - ``d_mean, d2_mean`` are the derivatives of ``log_z`` by m; ``0 <= variance``
    - ``linearise``: ``A = Cov[f, E[y|f]] / v``, ``b = E[y] - A m``, ``Omega = 1 - E[y]^2 - A^2 v``
    - ``expected_log_prob`` is the integral of ``log_prob``, ``d_mean = E[first]``,
      ``d_var = E[second] / 2``
    - ``predict_proba(m, v) = exp(tilted_moments(1, m, v).log_z)``
    - ``power_moments(a, y, m, v)`` are the moments of ``p(y|f)^a N(f|m, v)``: the tilted moments
      for a = 1, the Gaussian's own for a = 0
    - ``log_z_gradient`` and ``expected_log_prob_gradient`` are the derivatives by ``theta``
    - ``with_theta(theta)`` of its own theta is the same likelihood

    Attributes
    ----------
    name : str
        What users call it.
    smooth : bool
        False where p(y|f) jumps in f: the derivatives of ``log p`` are then zero almost
        everywhere, and only integrals over f tell how the label pulls.
    """

    name: ClassVar[str]
    smooth: ClassVar[bool] = True

    # A property, so that it may depend on the object; a class attribute implements it as well.
    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """Whether log p(y|f) is concave in f for both labels."""

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """Log p(y|f)."""

    @abstractmethod
    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """First to third derivative of ``log p(y|f)`` by f."""

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Moments of ``p(y|f) N(f|mean, var)`` (RW06 eq. 3.58)."""
        return by_quadrature.tilted_moments(self, y, mean, var)

    def power_moments(
        self, power: Array | float, y: Array, mean: Array, var: Array
    ) -> TiltedMoments:
        """Moments of ``p(y|f)^power N(f|mean, var)``, powers from zero to one.

        Raises
        ------
        ValueError
            For a power out of range.
        """
        return by_quadrature.power_moments(self, power, y, mean, var)

    def linearise(self, mean: Array, var: Array) -> Linearisation:
        """Best affine fit to ``E[y|f]`` for f ~ N(mean, var), y in {-1, +1} (GTS19 eq. 15-17)."""
        m, v = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (mean, var)))
        rare = by_quadrature.rare_label(self, m)
        tilted = self.tilted_moments(rare, m, v)
        return linearisation(rare, tilted.log_z, tilted.d_mean, m, v)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """``E[log p(y|f)]`` for f ~ N(mean, var) and its derivatives by mean and var."""
        return by_quadrature.expected_log_prob(self, y, mean, var)

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """P(y = +1) for f ~ N(mean, var): averaged over the latent (RW06 eq. 3.25)."""
        return by_quadrature.predict_proba(self, mean, var)

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters, shape (p,)."""
        return np.empty(0)

    @property
    def bounds(self) -> Array:
        """Bounds of ``theta``, logarithms too, shape (p, 2)."""
        return np.empty((0, 2))

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """Names of the free hyperparameters, in the order of ``theta``."""
        return ()

    def with_theta(self, theta: Array) -> Self:
        """Return the likelihood of another theta; the object itself if nothing changes.

        Raises
        ------
        ValueError
            If theta has another shape.
        """
        self._check_theta(theta)
        return self

    def log_z_gradient(
        self, y: Array, mean: Array, var: Array, power: Array | float = 1.0
    ) -> Array:
        """Gradient of ``log int p(y|f)^power N(f|mean, var) df`` by theta, shape (p, ...).

        The mean and variance are held fixed.
        """
        return np.zeros((0, *np.broadcast_shapes(*(np.shape(a) for a in (y, mean, var, power)))))

    def expected_log_prob_gradient(self, y: Array, mean: Array, var: Array) -> Array:
        """Gradient of ``E[log p(y|f)]`` by theta at fixed mean and variance, shape (p, ...)."""
        return np.zeros((0, *np.broadcast_shapes(*(np.shape(a) for a in (y, mean, var)))))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, for scikit-learn's ``clone`` and ``get_params``.

        There is no ``set_params``: a likelihood is frozen. ``deep`` is ignored.

        Raises
        ------
        TypeError
            If the class is no dataclass, so that its settings are not known.
        """
        maker = next(kind for kind in type(self).__mro__ if "__init__" in vars(kind))
        if maker is object:
            return {}
        if "__dataclass_fields__" not in vars(maker):
            raise TypeError(
                f"{maker.__name__} must be a frozen dataclass: its settings are not known"
            )
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(maker) if f.init}

    def _check_theta(self, theta: Array) -> None:
        if np.shape(theta) != self.theta.shape:
            raise ValueError(
                f"theta has shape {np.shape(theta)}, expected {self.theta.shape}: the free "
                f"hyperparameters of {self!r} are {self.hyperparameter_names}"
            )
