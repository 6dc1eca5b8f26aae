"""Tables of text and Parquet files, and their class column; pandas is imported when one is read."""

import codecs
import csv
import gzip
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.inputs import listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# Dates, and points in time, as ISO 8601 writes them. Others could be read in two ways.
ISO_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")


def check_suffix(path: Path) -> None:
    """Raise a ValueError if the ending of a file is none of `SUFFIXES`."""
    if not path.name.lower().endswith(SUFFIXES):
        raise ValueError(f"{path} is not a file that ends in {', '.join(SUFFIXES)}.")


def require(module: str, need: str, extra: str = "gpclass[cli]") -> Any:
    """Return a module, or raise an ImportError with the pip line to type."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{need}; install it with: pip install '{extra}'") from error


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


@final
@dataclass(frozen=True)
class Reading:
    """How a file is read: separator and encoding, None where they are found; columns ``ids``.

    An id is text (``007``) that is carried along, and no feature.
    """

    sep: str | None = None
    encoding: str | None = None
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a separator of several characters; backslash and t are the tab."""
        if self.sep is not None and len(self.sep.replace("\\t", "\t")) != 1:
            raise ValueError(f"the separator (--sep) must be one character, got {self.sep!r}.")


FOUND = Reading()


class Table(NamedTuple):
    """A table, the (unpacked) bytes of its file, and a text of how they were read."""

    frame: "DataFrame"
    content: bytes
    how: str

    def check_columns(self, path: Path, *columns: str) -> None:
        """Raise a ValueError if one of the columns is not there."""
        for column in columns:
            if column not in self.frame.columns:
                raise ValueError(
                    f"{path.name} has no column {column!r}; its columns are "
                    f"{listed(self.frame.columns)}{self.how}."
                )


def read_table(path: Path, reading: Reading = FOUND) -> Table:
    """Read a CSV, TSV or Parquet file; ``?`` is a missing cell, as pandas' own marks are.

    FileNotFoundError, or ValueError where it has another ending, is no table or is empty. A
    UserWarning says what was guessed or left out.
    """
    check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    content = unpacked(path)
    if _is_parquet(path):
        frame, how = _read_parquet(path, content), ""
    else:
        frame, how = _read_text(path, content, reading)
    frame.columns = [str(column) for column in frame.columns]
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows{how}.")
    table = Table(frame, content, how)
    table.check_columns(path, *reading.ids)
    return table


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _read_parquet(path: Path, content: bytes) -> "DataFrame":
    try:
        return require_pandas().read_parquet(BytesIO(content))
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow; install it with: pip install 'gpclass[cli]'"
        ) from error
    # arrow's errors are of many types; each means a bad file
    except Exception as error:
        raise ValueError(f"{path} cannot be read as Parquet: {_reason(error)}") from error


def _read_text(path: Path, content: bytes, reading: Reading) -> tuple["DataFrame", str]:
    """Parse a text file: the frame, and how it was read."""
    text, encoding = _decoded(path, content, reading.encoding)
    sep = reading.sep or _separator(text)
    how = f" (read as {encoding} with the separator {sep!r}; --encoding and --sep change this)"
    try:
        frame = _parsed(text, sep.replace("\\t", "\t"), reading.ids)
        return _with_dates(frame, reading.ids), how
    # pandas' errors are of many types; each means a bad file
    except Exception as error:
        raise ValueError(f"{path} cannot be read as CSV{how}: {_reason(error)}") from error


def _decoded(path: Path, content: bytes, encoding: str | None) -> tuple[str, str]:
    """Text of a file, and its encoding: UTF-8, or that of Windows, if none is given."""
    if encoding is not None:
        tried: tuple[str, ...] = (encoding,)
    elif content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        tried = ("utf-16",)
    else:
        tried = ("utf-8", "cp1252")
    for name in tried:
        try:
            text = content.decode("utf-8-sig" if name == "utf-8" else name)
        except UnicodeError:
            continue
        except LookupError as error:
            raise ValueError(f"the encoding {name!r} (--encoding) does not exist.") from error
        if "\0" in text:  # bytes of no text, or of UTF-16
            continue
        if encoding is None and name == "cp1252":
            warnings.warn(
                f"{path.name} is not UTF-8 and was read as cp1252 (Windows); --encoding names "
                "another encoding",
                stacklevel=2,
            )
        return text, name
    raise ValueError(
        f"{path} cannot be read as CSV: it is no text in {' or '.join(tried)}; name its encoding "
        "with --encoding."
    )


def _separator(text: str) -> str:
    """The separator that cuts the first line into most fields."""
    line = text.lstrip("\r\n").partition("\n")[0]
    fields = {sep: len(next(csv.reader([line], delimiter=sep), [])) for sep in ",;\t|"}
    return max(fields, key=lambda sep: fields[sep])


def _parsed(text: str, sep: str, ids: tuple[str, ...]) -> "DataFrame":
    """Frame of a text; where a comma does not separate, it may be the decimal point."""
    pandas = require_pandas()

    def read(decimal: str) -> "DataFrame":
        return pandas.read_csv(
            StringIO(text),
            sep=r"\s+" if sep == " " else sep,
            decimal=decimal,
            index_col=False,
            dtype=dict.fromkeys(ids, str),
            na_values=["?"],
            skipinitialspace=True,
            low_memory=False,
        )

    with warnings.catch_warnings():
        # rows of more fields than the header has would be cut
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        frame = read(".")
        if sep == ",":
            return frame
        return max(frame, read(","), key=lambda one: one.select_dtypes("number").shape[1])


def _with_dates(frame: "DataFrame", ids: tuple[str, ...]) -> "DataFrame":
    """Columns of which each entry is an `ISO_DATE` as points in time, UTC where it has no zone."""
    pandas = require_pandas()
    for name, column in frame.drop(columns=list(ids), errors="ignore").items():
        known = column.dropna()
        is_text = pandas.api.types.is_string_dtype(known)
        if known.empty or not (is_text and known.str.fullmatch(ISO_DATE).all()):
            continue
        points = pandas.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        if points.count() == len(known):  # else there was a 2020-02-30
            frame[name] = points
    return frame


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def class_labels(column: "Series") -> NDArray[Any]:
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


def check_output(path: Path, *inputs: Path) -> None:
    """Raise an OSError if a file cannot be written, and a ValueError if it is one of the inputs.

    To be called before the work: nothing is left behind.
    """
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs):
        raise ValueError(f"{path} is read too, and would be overwritten; name another output.")
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    try:
        if path.exists():
            path.open("ab").close()
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces the output at the end, so that no part of one is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_table(frame: "DataFrame", path: Path) -> None:
    """Write a frame without its index, by the ending of the file; make its folder."""
    check_suffix(path)
    with whole_file(path) as part:
        if _is_parquet(path):
            frame.to_parquet(part, index=False)
        else:
            sep = "\t" if ".tsv" in path.suffixes else ","
            frame.to_csv(part, index=False, sep=sep)
