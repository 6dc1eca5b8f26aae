"""Tables with a class column: of scikit-learn, of the local folder, of OpenML, and files.

The environment variable ``GPCLASS_DATA`` names the folder; its files have checksums.
"""

import hashlib
import io
import os
import warnings
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray

from gpclass.app._recipes import FOLDER_TABLES, OPENML_TABLES, SHA256, SKLEARN_TABLES, FolderTable
from gpclass.app.tables import (
    FOUND,
    SUFFIXES,
    Reading,
    class_labels,
    read_table,
    require_pandas,
    unpacked,
)
from gpclass.estimator.inputs import TableEncoder, listed

if TYPE_CHECKING:
    from pandas import DataFrame

DATA_VARIABLE = "GPCLASS_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of features with a class for each row.

    Attributes
    ----------
    name : str
        Name of the data set, or the file name.
    X : pandas.DataFrame of shape (n, d)
        Features as they are in the table: numbers, text and missing entries.
    y : ndarray of shape (n,)
        Classes, integers, booleans or text, of the column `target`.
    description, source : str
        What a row is, and what was left out; where the table comes from.
    sha256 : str or None
        Checksum of the (unpacked) file; None for tables that are not a file of ours to check.
    """

    name: str
    X: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    target: str
    description: str
    source: str
    sha256: str | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return tuple(self.X.columns)


def list_datasets() -> dict[str, str]:
    """Names that `load_dataset` knows, with one line on each; OpenML has more, as ``openml:ID``.

    Examples
    --------
    >>> from gpclass.app.datasets import list_datasets
    >>> list_datasets()["iris"]
    'scikit-learn: iris flowers, 150 rows, 4 features, 3 classes'
    """
    known = {name: f"scikit-learn: {about}" for name, about in SKLEARN_TABLES.items()}
    known |= {
        name: f"{DATA_VARIABLE} folder: {table.description}"
        for name, table in FOLDER_TABLES.items()
    }
    known |= {name: f"OpenML {data_id}" for name, (data_id, _) in OPENML_TABLES.items()}
    return dict(sorted(known.items()))


def load_dataset(
    name_or_path: str | os.PathLike[str], target: str | None = None, reading: Reading = FOUND
) -> Dataset:
    """Load a named data set, a CSV, TSV or Parquet file, or an OpenML table.

    Parameters
    ----------
    name_or_path : str or path
        A name of `list_datasets`, ``openml:ID``, or a file that ends in .csv, .tsv (either with
        .gz), .parquet or .pq.
    target : str, default=None
        The class column; needed for a file. Rows without a class are left out.
    reading : Reading, default=Reading()
        Separator and encoding of a file, and its columns that are no features.

    Raises
    ------
    ValueError
        For an unknown name or target, a file that is no table, or another checksum.
    FileNotFoundError, ConnectionError, ImportError
        If the file or the local folder, OpenML, or pandas is missing.

    Warns
    -----
    UserWarning
        Where rows have no class, or an encoding was guessed.

    Examples
    --------
    >>> from gpclass.app.datasets import load_dataset
    >>> load_dataset("iris").X.shape
    (150, 4)
    """
    name = os.fspath(name_or_path)
    if reading != FOUND and (name in list_datasets() or name.startswith("openml:")):
        raise ValueError(
            f"{name} is a named data set; --sep, --encoding and --id are for files alone."
        )
    if name in SKLEARN_TABLES:
        _fixed_target(name, "target", target)
        return _load_sklearn(name)
    if name in FOLDER_TABLES:
        _fixed_target(name, FOLDER_TABLES[name].target, target)
        return _load_folder(name, FOLDER_TABLES[name])
    if name in OPENML_TABLES:
        data_id, default = OPENML_TABLES[name]
        return _load_openml(data_id, default if target is None else target, name)
    if name.startswith("openml:"):
        number = name.removeprefix("openml:")
        if not (number.isascii() and number.isdecimal()):
            raise ValueError(f"{name!r} must be openml: and a number, such as openml:40.")
        return _load_openml(int(number), target, None)
    return _load_file(Path(name), target, reading)


def _fixed_target(name: str, fixed: str, target: str | None) -> None:
    if target not in (None, fixed):
        raise ValueError(
            f"the target of the named data set {name} is {fixed!r}, got {target!r}; give the path "
            "of a file to choose another column."
        )


def _load_sklearn(name: str) -> Dataset:
    require_pandas()
    bunch = getattr(import_module("sklearn.datasets"), f"load_{name}")(as_frame=True)
    y = bunch.target.to_numpy()
    # The names where the classes have names; the digits are their own.
    if name != "digits":
        y = np.asarray(bunch.target_names).astype(str)[y]
    source = f"sklearn.datasets.load_{name}"
    return Dataset(name, bunch.data, y, "target", SKLEARN_TABLES[name], source)


def load_frame(name: str) -> "DataFrame":
    """Load all rows and columns of NAME.csv of the local folder, as they are.

    Raises
    ------
    ValueError
        For a file that is not known, or another checksum.
    FileNotFoundError
        If the folder, or the file in it, is missing.
    """
    pd, file = require_pandas(), f"{name}.csv"
    if file not in SHA256:
        raise ValueError(f"{file} is no known file; there are {listed(SHA256, 99)}.")
    return pd.read_csv(io.BytesIO(_verified(_folder(name, file), file)))


def _folder(name: str, file: str) -> Path:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"the data set {name} is read from a local folder; set the environment variable "
            f"{DATA_VARIABLE} to the folder that has {file}."
        )
    return Path(folder)


def _load_folder(name: str, table: FolderTable) -> Dataset:
    folder = _folder(name, table.files[0])
    contents = [_verified(folder, file) for file in table.files]
    X, y = table.build(*contents)
    source = ", ".join(str(folder / file) for file in table.files)
    sha256 = " ".join(hashlib.sha256(content).hexdigest() for content in contents)
    return Dataset(name, X, y, table.target, table.description, source, sha256)


def _verified(folder: Path, file: str) -> bytes:
    """Return the unpacked bytes of a file of the local folder, checked."""
    candidates = (folder / file, folder / f"{file}.gz")
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{DATA_VARIABLE} is {folder}, which has no file {file}[.gz].")
    content = unpacked(path)
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise ValueError(
            f"{path} is not the known {file}: its sha256 begins with {found[:12]}, expected "
            f"{SHA256[file][:12]}."
        )
    return content


def _load_openml(data_id: int, target: str | None, name: str | None) -> Dataset:
    require_pandas()
    fetch_openml = import_module("sklearn.datasets").fetch_openml
    try:
        with warnings.catch_warnings():
            # The retry is not news; if it fails too, the error below says so.
            warnings.filterwarnings("ignore", message="A network error occurred")
            bunch = fetch_openml(data_id=data_id, as_frame=True, parser="auto", n_retries=1)
    except (URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"OpenML gave no table {data_id}: {reason}.") from error
    found = str(bunch.details["name"])
    if name is not None and found.casefold() != name.casefold():
        raise ValueError(f"OpenML {data_id} is {found!r} and not {name!r}.")
    if target is None:
        if len(bunch.target_names) != 1:
            raise ValueError(
                f"OpenML {data_id} has no single class column; give one as the target."
            )
        target = str(bunch.target_names[0])
    return _from_frame(
        bunch.frame,
        target,
        name=found,
        description=f"OpenML table {data_id}, version {bunch.details['version']}",
        source=f"https://www.openml.org/d/{data_id}",
    )


def _load_file(path: Path, target: str | None, reading: Reading) -> Dataset:
    if not path.exists() and not path.name.lower().endswith(SUFFIXES):
        raise ValueError(
            f"{str(path)!r} is neither a file that ends in {', '.join(SUFFIXES)} nor a known data "
            f"set; the names are {listed(list_datasets(), 99)}."
        )
    table = read_table(path, reading)
    frame = table.frame
    if target is None:
        raise ValueError(f"{path} needs a target; its columns are {listed(frame.columns)}.")
    table.check_columns(path, target)
    if target in reading.ids:
        raise ValueError(f"{target!r} is given both as the target and as an id (--id).")
    first = frame.columns[0]
    if first == "Unnamed: 0" and first not in (target, *reading.ids) and frame[first].is_unique:
        warnings.warn(
            f"{path.name}: the first column has no name and another value in each row; it is taken "
            "for the names of the rows and left out",
            stacklevel=2,
        )
        frame = frame.drop(columns=first)
    return _from_frame(
        frame.drop(columns=list(reading.ids)),
        target,
        name=path.name,
        description=f"{len(frame)} rows of {path.name}",
        source=str(path),
        sha256=hashlib.sha256(table.content).hexdigest(),
    )


def _from_frame(frame: "DataFrame", target: str, **about: Any) -> Dataset:
    if target not in frame.columns:
        raise ValueError(
            f"{about['name']} has no column {target!r}; its columns are {listed(frame.columns)}."
        )
    missing = frame[target].isna()
    if missing.all():
        raise ValueError(f"the target {target!r} of {about['name']} has no value in any row.")
    if missing.any():
        warnings.warn(
            f"{about['name']}: {missing.sum()} of {len(frame)} rows have no class in {target!r} "
            "and are left out",
            stacklevel=2,
        )
        frame = frame[~missing].reset_index(drop=True)
    X = frame.drop(columns=target)
    if X.shape[1] == 0:
        raise ValueError(f"{about['name']} has no feature column.")
    try:
        TableEncoder().fit(X)  # before minutes of work
    except ValueError as error:
        raise ValueError(f"{about['name']}: {error}") from error
    return Dataset(X=X, y=class_labels(frame[target]), target=target, **about)
