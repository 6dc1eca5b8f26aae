"""What X may be: checked at fit and at prediction, and given to the kernels as they take it."""

from typing import Any

from gpclass.estimator.inputs.base import Inputs
from gpclass.estimator.inputs.coded import CodedFrame
from gpclass.estimator.inputs.columns import listed
from gpclass.estimator.inputs.kinds import (
    CovarianceMatrix,
    FloatTable,
    Objects,
    is_precomputed,
    takes_vectors,
)
from gpclass.estimator.inputs.mixed import MixedTable, TableEncoder, with_any_table

__all__ = [
    "KINDS",
    "CodedFrame",
    "CovarianceMatrix",
    "FloatTable",
    "Inputs",
    "MixedTable",
    "Objects",
    "TableEncoder",
    "inputs_of",
    "is_precomputed",
    "listed",
    "takes_vectors",
    "with_any_table",
]

KINDS: tuple[type[Inputs], ...] = (CovarianceMatrix, MixedTable, CodedFrame, FloatTable, Objects)


def inputs_of(kernel: object, X: Any) -> Inputs:
    """Return a new object of the kind that X is, by the estimator's argument ``kernel``."""
    return next(kind for kind in KINDS if kind.takes(kernel, X))()
