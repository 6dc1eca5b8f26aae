"""Many classes: decompositions into binary problems, for now."""

from typing import Final

from gpclass.multiclass.decomposition import Decomposition, OneVsOne, OneVsRest, Subproblem

DECOMPOSITIONS: Final[dict[str, type[OneVsRest] | type[OneVsOne]]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
}

__all__ = ["DECOMPOSITIONS", "Decomposition", "OneVsOne", "OneVsRest", "Subproblem"]
