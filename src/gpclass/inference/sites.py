"""Gaussian sites: what every method of this library turns a label into."""

from dataclasses import dataclass
from typing import final

import numpy as np

from gpclass.linalg import Array


@final
@dataclass(frozen=True)
class Sites:
    """Gaussian sites ``exp(nu_i f_i - tau_i f_i^2 / 2)``, one a training point.

    Parameters
    ----------
    nu : ndarray of shape (n,)
        First natural parameter, RW06 eq. 3.67: site precision times site mean.
    tau : ndarray of shape (n,)
        Site precision, the second natural parameter.

    Examples
    --------
    >>> import numpy as np
    >>> old = Sites(np.zeros(2), np.ones(2))
    >>> new = Sites(np.ones(2), 3 * np.ones(2))
    >>> old.damped_towards(new, 0.5).tau
    array([2., 2.])
    """

    nu: Array
    tau: Array

    def __post_init__(self) -> None:
        """Refuse sites of two lengths."""
        if self.nu.shape != self.tau.shape or self.nu.ndim != 1:
            raise ValueError(
                f"nu and tau must be vectors of one length, got {self.nu.shape} and "
                f"{self.tau.shape}"
            )

    @classmethod
    def zero(cls, n: int) -> "Sites":
        """Sites of zero precision: the posterior is the prior."""
        return cls(np.zeros(n), np.zeros(n))

    def __len__(self) -> int:
        """Return the number of training points."""
        return len(self.nu)

    def damped_towards(self, target: "Sites", step: float) -> "Sites":
        """Natural parameters moved by a fraction ``step`` of the way to ``target``."""
        return Sites(
            (1 - step) * self.nu + step * target.nu, (1 - step) * self.tau + step * target.tau
        )
