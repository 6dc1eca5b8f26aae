"""Columns of the tables that a fitted classifier predicts, and rows with other values in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gpclass.estimator.inputs import listed
from gpclass.estimator.inputs.columns import (
    Array,
    Column,
    as_numbers,
    as_table,
    as_texts,
    columns_of,
    is_frame,
)

# A column of so few different numbers is drawn as points.
FEW: Final = 5


def check_model(model: Any) -> None:
    """TypeError for what is not our classifier; NotFittedError before the fit."""
    if not hasattr(type(model), "predict_latent"):
        raise TypeError(
            f"{type(model).__name__} has no predict_latent: a fitted GaussianProcessClassifier is "
            "needed."
        )
    check_is_fitted(model)


def check_numbers(n_points: int, max_rows: int) -> None:
    """ValueError for less than two points of a column, or no row."""
    for name, number, least in (("n_points", n_points, 2), ("max_rows", max_rows, 1)):
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}.")


def text_of(value: Any) -> str:
    """A value of a column as text: a level, a day, or a number of three digits."""
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[D]"))
    if isinstance(value, float):
        return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    return str(value)


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows as `predict_proba` of a fitted classifier takes them, with the columns it knows.

    ``frame`` is a frame of pandas or polars, or an array (n, d).
    """

    model: Any
    frame: Any
    columns: list[Column]

    @classmethod
    def of(cls, model: Any, X: Any) -> Self:
        """Columns that the model was fitted to, in its order."""
        check_model(model)
        frame = as_table(X, model)
        names = list(getattr(model, "feature_names_in_", ()))
        if names and is_frame(frame):
            missing = [name for name in names if name not in frame.columns]
            if missing:
                raise ValueError(f"X lacks the columns {listed(missing)} of the fit.")
            frame = frame[names]
        columns = columns_of(frame)
        expected = getattr(model, "n_features_in_", None)
        if expected is None or model.kernel == "precomputed":
            raise ValueError("X must be a table: the model's kernel takes no columns.")
        if len(columns) != expected:
            raise ValueError(
                f"X has {len(columns)} columns, but the model was fitted to {expected}."
            )
        return cls(model, frame, columns)

    @property
    def names(self) -> list[str]:
        """Names of the columns; x0, x1 and so on of an array."""
        given = getattr(self.model, "feature_names_in_", None)
        if given is not None:
            return [str(name) for name in given]
        return [f"x{c.name}" if isinstance(c.name, int) else str(c.name) for c in self.columns]

    def position(self, column: Any) -> int:
        """Where a column is, by its name or number; ValueError for none."""
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
        if whole and 0 <= column < len(self.columns):
            return int(column)
        raise ValueError(
            f"column {column!r} is none of those of X, by name {listed(self.names)}, or by number "
            f"0 to {len(self.columns) - 1}."
        )

    def has_levels(self, j: int) -> bool:
        """Whether the model only compares the entries of a column."""
        kinds = getattr(self.model._inputs, "kinds", None)
        if kinds is not None:
            return bool(kinds[j] == "levels")
        return as_numbers(self.columns[j]) is None

    def entries(self, j: int) -> Array:
        """Numbers of all rows (dates in seconds), NaN where they are missing."""
        found = as_numbers(self.columns[j])
        if found is None:
            raise ValueError(f"the column {self.names[j]!r} of X has text, and numbers are needed.")
        return found[1]

    def numbers(self, j: int) -> Array:
        """Known numbers of a column (dates in seconds)."""
        known = self.entries(j)
        known = known[np.isfinite(known)]
        if not known.size:
            raise ValueError(f"the column {self.names[j]!r} of X has no entry.")
        return known

    def is_date(self, j: int) -> bool:
        """Whether a column of numbers has dates or lengths of time."""
        found = as_numbers(self.columns[j])
        return found is not None and found[0] == "dates"

    def texts(self, j: int) -> NDArray[Any]:
        """Levels of all rows as text; "missing" where there is none."""
        texts = ["missing" if text is None else text for text in as_texts(self.columns[j])]
        return np.array(texts, dtype=object)

    def typical(self, j: int) -> Any:
        """Median of a column of numbers, the most frequent level of another."""
        if self.has_levels(j):
            levels, counts = np.unique(self.texts(j), return_counts=True)
            return levels[counts.argmax()]
        return np.median(self.numbers(j))

    def some_rows(self, most: int) -> NDArray[np.intp]:
        """At most so many rows, evenly spaced over the table."""
        n = len(self.columns[0].values)
        return np.unique(np.linspace(0, n - 1, most).astype(np.intp))

    def rows(self, rows: NDArray[np.intp], changes: Mapping[int, Any]) -> Any:
        """Take rows, with repetition, and put other values in some columns.

        Numbers of dates are in seconds, and "missing" is a missing entry of a column of levels.
        """
        new = {j: self._entries(j, values, len(rows)) for j, values in changes.items()}
        if not is_frame(self.frame):
            taken = np.asarray(self.frame)[rows]
            if any(values.dtype.kind == "O" for values in new.values()):
                taken = taken.astype(object)
            elif taken.dtype.kind in "iub":
                taken = taken.astype(np.float64)
            for j, values in new.items():
                taken[:, j] = values
            return taken
        named = {self.columns[j].name: values for j, values in new.items()}
        if hasattr(self.frame, "get_columns"):
            series = import_module("polars").Series
            return self.frame[rows].with_columns(
                [series(name, values.tolist(), strict=False) for name, values in named.items()]
            )
        taken = self.frame.iloc[rows].reset_index(drop=True)
        for name, values in named.items():
            taken[name] = values
        return taken

    def _entries(self, j: int, values: Any, n: int) -> NDArray[Any]:
        values = np.broadcast_to(np.asarray(values), (n,))
        if self.has_levels(j):
            return np.array([None if v == "missing" else str(v) for v in values], dtype=object)
        values = values.astype(np.float64)
        return self.as_shown(j, values)

    def as_shown(self, j: int, values: Array) -> NDArray[Any]:
        """Numbers of a column as the table has them: seconds become points or lengths in time."""
        if not self.is_date(j):
            return values
        given = self.columns[j].values
        length = given.dtype.kind == "m" or isinstance(given[0], timedelta)
        return np.round(values * 1e6).astype("timedelta64[us]" if length else "datetime64[us]")
