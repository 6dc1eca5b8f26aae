"""How the sites are found: Laplace's method, for now.

A method is a frozen dataclass of its settings, called as
``method(prior, y, likelihood, *, weights=None, init=None) -> Approximation``.
"""

from typing import Final

from gpclass.inference.approximation import (
    Approximation,
    InferenceMethod,
    Outcome,
    SitePosterior,
)
from gpclass.inference.ep import EP, EPApproximation
from gpclass.inference.laplace import Laplace, LaplaceApproximation

# name -> class; each takes max_iter
METHODS: Final[dict[str, type[Laplace] | type[EP]]] = {"laplace": Laplace, "ep": EP}

__all__ = [
    "EP",
    "METHODS",
    "Approximation",
    "EPApproximation",
    "InferenceMethod",
    "Laplace",
    "LaplaceApproximation",
    "Outcome",
    "SitePosterior",
]
