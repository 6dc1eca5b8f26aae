"""Columns of a table, by position or by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.linalg import Array

# Positions or names of columns.
Columns = int | str | Sequence[int | str]


def as_list(columns: Any) -> list[Any]:
    """Columns as a list, also where just one is given."""
    given = [columns] if np.ndim(columns) == 0 else list(columns)
    return [int(one) if isinstance(one, np.integer) else one for one in given]


def has_names(columns: Columns) -> bool:
    """Whether a column is given by its name."""
    return any(isinstance(column, str) for column in as_list(columns))


def find(columns: Columns, names: Sequence[str] | None) -> list[int]:
    """Positions of columns in a table of these names; ValueError where one is not there.

    TypeError for what is neither a name nor a number.
    """
    found = []
    for column in as_list(columns):
        if isinstance(column, int) and not isinstance(column, bool):
            found.append(column)
        elif not isinstance(column, str):
            raise TypeError(f"columns of a kernel are positions or names, got {column!r}")
        elif names is None:
            raise ValueError(
                f"the kernel names the column {column!r}, but the columns of X have no names: "
                "give X as a frame, or give the kernel positions"
            )
        elif column not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(f"the kernel names the column {column!r}, but X has {known}")
        else:
            found.append(list(names).index(column))
    return found


def pick(columns: Columns, positions: Sequence[int] | None, n_columns: int) -> NDArray[np.intp]:
    """Positions of the columns from 0 on; ``positions`` are those of named columns."""
    if positions is None:
        positions = find(columns, None)
    chosen = np.asarray(as_list(positions), dtype=np.intp)
    wrong = chosen[(chosen < -n_columns) | (chosen >= n_columns)]
    if len(wrong):
        raise ValueError(f"the kernel takes column {wrong[0]} of X, which has {n_columns} columns")
    return chosen % max(n_columns, 1)


def part(X: Any, columns: NDArray[np.intp]) -> Array:
    """Columns of a table (n, d) as a C-contiguous one."""
    return np.ascontiguousarray(np.asarray(X, dtype=np.float64)[:, columns])
