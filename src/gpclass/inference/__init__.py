"""How the sites are found: one file a method.

A method is a frozen dataclass of its settings, called as
``method(prior, y, likelihood, *, weights=None, init=None) -> Approximation``.
"""

from typing import Any, Final

from gpclass.inference.approximation import Approximation, Outcome, SitePosterior
from gpclass.inference.bound import BoundApproximation, TangentBound
from gpclass.inference.ep import EP, EPApproximation
from gpclass.inference.implicit import EnergyApproximation
from gpclass.inference.laplace import Laplace, LaplaceApproximation
from gpclass.inference.linearisation import PosteriorLinearisation
from gpclass.inference.method import InferenceMethod
from gpclass.inference.variational import Variational, VariationalApproximation

# name -> class; each takes max_iter
METHODS: Final[dict[str, type[Any]]] = {
    "laplace": Laplace,
    "ep": EP,
    "pl": PosteriorLinearisation,
    "vi": Variational,
    "bound": TangentBound,
}

__all__ = [
    "EP",
    "METHODS",
    "Approximation",
    "BoundApproximation",
    "EPApproximation",
    "EnergyApproximation",
    "InferenceMethod",
    "Laplace",
    "LaplaceApproximation",
    "Outcome",
    "PosteriorLinearisation",
    "SitePosterior",
    "TangentBound",
    "Variational",
    "VariationalApproximation",
]
