"""Reading tables from CSV and Parquet files, and their columns as numbers and classes.

pandas is imported when a table is read, so that the library works without it.
"""

import gzip
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SUFFIXES", "class_labels", "numeric_columns", "read_table", "write_table"]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""The endings of the files that are read and written."""


def check_suffix(path: Path) -> None:
    """Raise a ValueError if the ending of a file is none of `SUFFIXES`."""
    if not path.name.lower().endswith(SUFFIXES):
        raise ValueError(f"{path} is not a file that ends in {', '.join(SUFFIXES)}.")


def require_pandas() -> Any:
    """Return the module pandas, or raise an ImportError with the pip line to type."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "reading tables needs pandas; install it with: pip install 'gpclass[cli]'"
        ) from error


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, without its gzip packing if the name ends in .gz."""
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}.") from error


def read_table(path: Path) -> tuple[Any, bytes]:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : Path
        A file that ends in .csv, .csv.gz, .parquet or .pq.

    Returns
    -------
    frame : pandas.DataFrame
        The table, as it is in the file.
    content : bytes
        The (unpacked) bytes that it was read from.

    Raises
    ------
    ValueError
        If the file has another ending, cannot be read as a table, or has no rows.
    FileNotFoundError
        If there is no such file.
    """
    pd = require_pandas()
    check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    content = unpacked(path)
    parquet = path.suffix.lower() in (".parquet", ".pq")
    reader: Callable[..., Any] = pd.read_parquet if parquet else pd.read_csv
    try:
        frame = reader(BytesIO(content))
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow; install it with: pip install 'gpclass[cli]'"
        ) from error
    # The readers raise errors of many types (parser, unicode, arrow); each means a bad file.
    except Exception as error:
        kind = "Parquet" if parquet else "CSV"
        raise ValueError(f"{path} cannot be read as {kind}: {_one_line(error)}") from error
    frame.columns = [str(column) for column in frame.columns]
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows.")
    return frame, content


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def listed(names: Any, most: int = 12) -> str:
    """Join names for a message, the first `most` of them."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def class_labels(column: Any) -> NDArray[Any]:
    """Return the class column of a table as integers, booleans or text, without missing values."""
    pd = require_pandas()
    if hasattr(column, "cat"):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column):
        return np.asarray(column.to_numpy(dtype=bool))
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=np.float64)
        # 1.0 in the file and 1 in the answer are the same class; fractions stay as they are and
        # are refused as a continuous target where the classes are checked.
        whole = np.isfinite(values).all() and (values == np.round(values)).all()
        classes: NDArray[Any] = values.astype(np.int64) if whole else values
        return classes
    return np.asarray(column.astype(str).to_numpy(), dtype=np.str_)


def numeric_columns(frame: Any, name: str) -> Any:
    """Return the columns of a table as numbers.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n, d)
        Feature columns. Booleans become 0 and 1, text that is a number becomes that number.
    name : str
        What the table is called in messages.

    Returns
    -------
    numbers : pandas.DataFrame of shape (n, d)
        The columns in float64.

    Raises
    ------
    ValueError
        If there is no column, or columns hold text that is not a number, missing values or
        infinity.

    Examples
    --------
    >>> import pandas as pd
    >>> from gpclass.app.tables import numeric_columns
    >>> frame = pd.DataFrame({"ill": [True, False], "age": ["3", "5"]})
    >>> numeric_columns(frame, "the table").to_numpy().tolist()
    [[1.0, 3.0], [0.0, 5.0]]
    """
    pd = require_pandas()
    if frame.shape[1] == 0:
        raise ValueError(f"{name} has no feature column.")
    if not frame.columns.is_unique:
        raise ValueError(
            f"{name} has the column {frame.columns[frame.columns.duplicated()][0]!r} twice."
        )
    numbers: dict[str, Any] = {}
    text: list[str] = []
    for column, values in frame.items():
        if hasattr(values, "cat"):
            values = values.astype(values.cat.categories.dtype)
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values):
            numbers[column] = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        # A column of an object type can hold booleans beside missing values; dates and the like
        # are not numbers and must not become nanoseconds.
        plain = values.map(lambda value: int(value) if isinstance(value, bool) else value)
        parsed = pd.to_numeric(plain.astype("string"), errors="coerce")
        if parsed[values.notna()].isna().any():
            text.append(column)
        else:
            numbers[column] = parsed.to_numpy(dtype=np.float64, na_value=np.nan)
    if text:
        raise ValueError(
            f"{name} has text columns that cannot be used as numbers: {listed(text)}; encode them "
            "as numbers or leave them out."
        )
    table = pd.DataFrame(numbers, index=frame.index)
    counts = table.isna().sum()
    if counts.any():
        named = listed(f"{column} ({count})" for column, count in counts.items() if count)
        raise ValueError(f"{name} has missing values in the columns {named}; fill or drop them.")
    infinite = [column for column in table if not np.isfinite(table[column]).all()]
    if infinite:
        raise ValueError(f"{name} has infinite values in the columns {listed(infinite)}.")
    return table


def write_table(frame: Any, path: Path) -> None:
    """Write a table as CSV or Parquet, by the ending of the file.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table; its index is not written.
    path : Path
        A file that ends in .csv, .csv.gz, .parquet or .pq; its folder is made if need be.

    Raises
    ------
    ValueError
        If the file has another ending.
    """
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in (".parquet", ".pq"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
