"""Frames with text columns for kernels of the user's that compare these for equality alone."""

from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from gpclass.estimator.inputs.base import Inputs, Labels
from gpclass.estimator.inputs.columns import (
    Array,
    Column,
    as_numbers,
    as_texts,
    columns_of,
    is_frame,
    listed,
)
from gpclass.estimator.inputs.kinds import refuse_gaps, takes_vectors
from gpclass.kernels import columns_as_numbers, resolved


@final
class CodedFrame(Inputs):
    """Columns of numbers as they are, and codes of text: 0, 1, ... of the sorted training levels.

    A new level is -1. Text goes with `MixedRBF`, where the column is discrete, and with a
    `ColumnKernel` that leaves it out.
    """

    @classmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether the kernels are functions of vectors and X is a frame with text in it."""
        if not (is_frame(X) and takes_vectors(kernel)):
            return False
        return any(as_numbers(column) is None for column in columns_of(X))

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Find the levels; ValueError for text that a kernel would take for numbers."""
        refuse_gaps(X)
        validate_data(estimator, X, skip_check_array=True)
        columns, given = columns_of(X), estimator.kernel
        self.levels = [_levels(column) for column in columns]
        names = [column.name for column in columns]
        kernels = [
            resolved(k, names) for k in (given if isinstance(given, list | tuple) else [given])
        ]
        numbers = set().union(*(columns_as_numbers(kernel, len(names)) for kernel in kernels))
        wrong = {
            names[j]: levels for j, levels in enumerate(self.levels) if levels and j in numbers
        }
        if wrong:
            raise ValueError(
                f"could not convert string to float: {next(iter(wrong.values()))[0]!r}. The kernel "
                f"takes the columns {listed(wrong)} of X, which have text, for numbers: name them "
                "in MixedRBF(discrete=...), give it the others by ColumnKernel, or leave "
                "kernel=None, which takes text"
            )
        return check_X_y(self._matrix(columns), y, estimator=estimator)  # type: ignore[no-any-return]

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Check a frame of the same columns."""
        refuse_gaps(X)
        validate_data(estimator, X, skip_check_array=True, reset=False)
        return check_array(self._matrix(columns_of(X)), estimator=estimator, input_name="X")

    def _matrix(self, columns: list[Column]) -> Array:
        pairs = zip(columns, self.levels, strict=True)
        return np.column_stack([_read(column, levels) for column, levels in pairs])


def _levels(column: Column) -> list[str] | None:
    """Levels of a column of text, None of numbers."""
    return sorted(set(map(str, as_texts(column)))) if as_numbers(column) is None else None


def _read(column: Column, levels: list[str] | None) -> Array:
    if levels is not None:
        places = {level: k for k, level in enumerate(levels)}
        return np.array([places.get(str(text), -1) for text in as_texts(column)], dtype=np.float64)
    found = as_numbers(column)
    if found is None:
        raise ValueError(f"X has text in the column {column.name!r}, which had numbers in training")
    return found[1]
