"""Tables of CSV and Parquet files, and their class column; pandas is imported when one is read."""

import gzip
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")


def check_suffix(path: Path) -> None:
    """Raise a ValueError if the ending of a file is none of `SUFFIXES`."""
    if not path.name.lower().endswith(SUFFIXES):
        raise ValueError(f"{path} is not a file that ends in {', '.join(SUFFIXES)}.")


def require(module: str, need: str) -> Any:
    """Return a module, or raise an ImportError with the pip line to type."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{need}; install it with: pip install 'gpclass[cli]'") from error


def require_pandas() -> Any:
    """Return the module pandas."""
    return require("pandas", "reading tables needs pandas")


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
    """Read a CSV or Parquet file: its table, and the (unpacked) bytes that it was read from.

    FileNotFoundError, or ValueError where it has another ending, is no table or is empty.
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
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error
    frame.columns = [str(column) for column in frame.columns]
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows.")
    return frame, content


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


def write_table(frame: Any, path: Path) -> None:
    """Write a frame without its index, by the ending of the file; make its folder."""
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in (".parquet", ".pq"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
