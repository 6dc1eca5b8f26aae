"""Concave functions of the latent values, whose sum a search maximises under the prior."""

from typing import Any, NamedTuple, Protocol

from gpclass.linalg import Array


class Terms(NamedTuple):
    """Sum of the terms at f (NaN where it has no closed form), first and second derivative of each.

    The second derivatives are at most zero, and exact near the mode; ``detail`` is the caller's.
    """

    total: float
    first: Array
    second: Array
    detail: Any


class ConcaveTerms(Protocol):
    """A sum of concave functions, one of each latent value."""

    def __call__(self, f: Array, nearby: Terms | None) -> Terms:
        """Evaluate at f; ``nearby`` is what was found at the point before, a start for searches."""
