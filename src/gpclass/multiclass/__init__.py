"""Many classes: joint models, and decompositions into binary problems."""

from typing import Final

from gpclass.multiclass.decomposition import Decomposition, OneVsOne, OneVsRest, Subproblem
from gpclass.multiclass.schemes import (
    JOINT,
    JointScheme,
    LatentDifferences,
    MultinomialProbit,
    Softmax,
    joint_scheme,
)

DECOMPOSITIONS: Final[dict[str, type[OneVsRest] | type[OneVsOne]]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
}

__all__ = [
    "DECOMPOSITIONS",
    "JOINT",
    "Decomposition",
    "JointScheme",
    "LatentDifferences",
    "MultinomialProbit",
    "OneVsOne",
    "OneVsRest",
    "Softmax",
    "Subproblem",
    "joint_scheme",
]
