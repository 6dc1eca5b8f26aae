"""Columns of a table, whatever holds it, as numpy arrays: numbers, dates and texts of levels."""

import warnings
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

Array = NDArray[np.float64]

# Entries of a sparse table that is made dense: 200 MB. A kernel matrix of 5000 rows is as large.
LARGEST_DENSE: Final = 25_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Column(NamedTuple):
    """A column: its name or number, its values, and whether its type says that it has levels."""

    name: Any
    values: NDArray[Any]
    has_levels: bool


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas or polars; neither is imported."""
    return any(hasattr(X, name) for name in ("iloc", "get_columns")) and hasattr(X, "columns")


def as_table(X: Any, estimator: BaseEstimator) -> Any:
    """A frame as it is, or anything else that scikit-learn takes for a table as a 2-d array."""
    if is_frame(X):
        names = list(X.columns)
        twice = [name for k, name in enumerate(names) if name in names[:k]]
        if twice:
            raise ValueError(f"X has the column {twice[0]!r} twice.")
        return X
    X = as_dense(X)
    if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "USO":
        X = np.array(X, dtype=object)  # numbers and None are not made text
    return check_array(X, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X")


def as_dense(X: Any) -> Any:
    """A sparse table as an array, anything else as it is; ValueError above `LARGEST_DENSE`."""
    if not issparse(X):
        return X
    if np.prod(X.shape, dtype=float) > LARGEST_DENSE:
        raise ValueError(
            f"X is a sparse table of {X.shape[0]} rows and {X.shape[1]} columns. Its kernel is "
            f"dense, so it is made dense, which is done up to {LARGEST_DENSE:.1e} entries: "
            "reduce its columns first, for instance by TruncatedSVD"
        )
    return X.toarray()


def columns_of(table: Any) -> list[Column]:
    """Columns of what `as_table` returned."""
    if not is_frame(table):
        return [Column(j, values, False) for j, values in enumerate(table.T)]
    if hasattr(table, "get_columns"):
        found = [(one.name, one.to_numpy(), one.dtype) for one in table.get_columns()]
    else:
        found = [(name, np.asarray(one), one.dtype) for name, one in table.items()]
    nested = [name for name, values, _ in found if values.ndim != 1]
    if nested:
        raise ValueError(f"X has columns whose entries have several parts: {listed(nested)}.")
    levels = ("category", "Categorical", "Enum")
    return [Column(name, values, str(kind).startswith(levels)) for name, values, kind in found]


def is_missing(value: Any) -> bool:
    """Whether an entry is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA is neither equal nor unequal to itself
        return type(value).__name__ == "NAType"


def missing_in(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are missing."""
    if values.dtype.kind == "O":
        return np.array([is_missing(value) for value in values], dtype=bool)
    return np.asarray(values != values)  # NaN and NaT


def as_numbers(column: Column) -> tuple[str, Array] | None:
    """A column as float64 with NaN where it is missing, and what its numbers are; None for text.

    "numbers", or truth values; "numerals", text of numbers; "dates", points or lengths in time, in
    seconds.
    """
    values, kind = column.values, column.values.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: the column {column.name!r} of X is complex.")
    if kind in "fiub":
        return "numbers", values.astype(np.float64)
    if kind == "M":
        return "dates", (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    if kind == "m":
        return "dates", values / np.timedelta64(1, "s")
    is_known = ~missing_in(values)
    known, found = values[is_known], np.full(len(values), np.nan)
    if known.size and all(isinstance(value, date | timedelta) for value in known):
        found[is_known] = [_seconds(value) for value in known]
        return "dates", found
    try:
        found[is_known] = known.astype(np.float64)
    except OverflowError:  # of Python's integers
        found[is_known] = np.inf
    except (TypeError, ValueError):
        return None
    return "numerals" if any(isinstance(value, str) for value in known) else "numbers", found


def some_numbers(column: Column) -> Array:
    """Text of numbers as float64, NaN for text that is none, with a warning that names it."""
    found = np.full(len(column.values), np.nan)
    others = []
    for i, text in enumerate(as_texts(column)):
        try:
            found[i] = np.nan if text is None else float(text)
        except ValueError:
            others.append(text)
    warnings.warn(
        f"the column {column.name!r} of X has text that is no number, as all of its text was in "
        f"training: {listed(sorted(set(others)))}; it is taken for missing in {len(others)} rows",
        DataConversionWarning,
        stacklevel=2,
    )
    return found


def _seconds(value: date | timedelta) -> float:
    """Seconds of a length of time, or since 1970; a time without a zone is taken for UTC."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


def as_texts(column: Column) -> list[str | None]:
    """Levels of a column as text: 1, 1.0 and "1" are one level; None where an entry is missing."""
    gaps = missing_in(column.values)
    return [None if gap else _text(value) for value, gap in zip(column.values, gaps, strict=True)]


def _text(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value) if is_whole else value)


def listed(names: Iterable[Any], most: int = 12) -> str:
    """Join names for a message, the first `most` of them."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
