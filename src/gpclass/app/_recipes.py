"""The named tables: of scikit-learn, of OpenML, and the folder's files, columns and checksums."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame

Table = tuple[Any, NDArray[Any]]


SKLEARN_TABLES = {
    "breast_cancer": "Breast Cancer Wisconsin (Diagnostic), 569 rows, 30 features",
    "digits": "8x8 images of digits, 1797 rows, 64 features, 10 classes",
    "iris": "iris flowers, 150 rows, 4 features, 3 classes",
    "wine": "Italian wines by cultivar, 178 rows, 13 features, 3 classes",
}


@dataclass(frozen=True)
class FolderTable:
    """A data set of the local folder: its files (a CSV may have .gz), and what reads them."""

    files: tuple[str, ...]
    target: str
    description: str
    build: Callable[..., Table] = field(repr=False)


# sha256 of the unpacked CSV files and of the .npz file, which is not unpacked.
SHA256 = {
    "auto_mpg.csv": "31098be308e6f601a54eb2608b8c89feeb7568353050df893c610f16009b86be",
    "boston.csv": "b9f88f3463a208dadd78546f0fb9ddacfa4897b4c92dd1b8269734f000fe377c",
    "boston_corrected.csv": "f8a06ad1ad7e6bea2f04a12ffa78ec5a86be8c8bed8a0b99d073524285f8975e",
    "breast_cancer_wisconsin.csv": (
        "0b7ee6b2069ee177ba842a04f466c846caa2cd401c38cf4b2943bc4571af4164"
    ),
    "crabs.csv": "bbd2a2c36e5cfe41fdde3868d06ab184360548f545cd46d0070f32d1c614c1de",
    "glass.csv": "2149f02ac25f885c7c5eb83c0555a9729242791a2b37c5a6386604ba570680c7",
    "heart_hungarian.csv": "b612d844d8289d69a20009ab1d4a2f9e8adcc757b1ba36bf5cb612443d6ac64a",
    "ionosphere.csv": "1fc408aa183e7f307eeb4294f86d1eedd9d36f7a9a80fe24af9bdb390415c024",
    "new_thyroid.csv": "55dca4c3c99fbe89aa928ba3e7c8022913fe13942325bb9f495f7a80275db4c8",
    "pima_te.csv": "5df53a692ed8a9052afd618401027691a565073b9044e72903796967329e5f8e",
    "pima_tr.csv": "dd253952a163c8395a872f139e45dc282bb71e3047fed1c9d174b6870813702b",
    "skin_segmentation.csv": "5f41684c57659e7b71c9912749fa900a35822ca1413892f3e3ecf7a419fbac24",
    "usps_resampled.npz": "4a0846eab878e4d33ff2c61ff81f3e76cf50793bd25a9c4f631adf0857cd1152",
}


def _frame(*contents: bytes) -> "DataFrame":
    pd = import_module("pandas")
    return pd.concat([pd.read_csv(BytesIO(content)) for content in contents], ignore_index=True)


def _csv(
    files: str,
    target: str,
    description: str,
    *,
    drop: tuple[str, ...] = (),
    groups: dict[Any, str] | None = None,
) -> FolderTable:
    """Table of CSV files without columns ``drop`` and incomplete rows, with classes in groups."""

    def build(*contents: bytes) -> Table:
        frame = _frame(*contents).drop(columns=list(drop)).dropna(ignore_index=True)
        y = frame[target] if groups is None else frame[target].map(groups)
        values = y.to_numpy()
        if values.dtype.kind not in "iub":
            values = values.astype(str)
        return frame.drop(columns=target).astype(np.float64), values

    return FolderTable(tuple(files.split()), target, description, build)


def _crabs(target: str, description: str, feature: str, one: str) -> FolderTable:
    """Table of the crabs, where the other of species and sex is a 0/1 feature."""

    def build(content: bytes) -> Table:
        frame = _frame(content).drop(columns="index")
        frame[feature] = (frame[feature] == one).astype(np.float64)
        return frame.drop(columns=target).astype(np.float64), frame[target].to_numpy().astype(str)

    return FolderTable(("crabs.csv",), target, f"Leptograpsus crabs by {description}", build)


def _usps(digits: tuple[int, ...] | None, parts: tuple[str, ...], description: str) -> FolderTable:
    """Table of some USPS digits, or all; training rows come first, in file order."""

    def build(content: bytes) -> Table:
        with np.load(BytesIO(content)) as arrays:
            X = np.concatenate([arrays[f"X_{part}"] for part in parts]).astype(np.float64)
            y = np.concatenate([arrays[f"y_{part}"] for part in parts]).astype(np.int64)
        chosen = np.ones(y.size, dtype=bool) if digits is None else np.isin(y, digits)
        columns = [f"x{j}" for j in range(X.shape[1])]
        return import_module("pandas").DataFrame(X[chosen], columns=columns), y[chosen]

    return FolderTable(("usps_resampled.npz",), "y", f"USPS {description}", build)


_WINDOW = dict.fromkeys((1, 2, 3), "window") | dict.fromkeys((5, 6, 7), "non-window")
_THYROID = {1: "normal", 2: "not normal", 3: "not normal"}
_BOTH = ("train", "test")
_3V5 = "3s and 5s of RW06 section 3.7"

FOLDER_TABLES = {
    "auto_mpg_origin": _csv(
        "auto_mpg.csv",
        "origin",
        "cars by origin (1 USA, 2 Europe, 3 Japan); 6 rows without horsepower left out",
        drop=("car_name",),
    ),
    "breast_cancer_wisconsin": _csv(
        "breast_cancer_wisconsin.csv",
        "class",
        "UCI Breast Cancer Wisconsin (Original), 9 attributes; id and 16 incomplete rows left out",
        drop=("id",),
    ),
    "crabs_sex": _crabs("sex", "sex: 5 lengths and the species (sp = 1 for O)", "sp", "O"),
    "crabs_species": _crabs("sp", "species: 5 lengths and the sex (sex = 1 for M)", "sex", "M"),
    "glass": _csv(
        "glass.csv",
        "Type",
        "UCI glass, window (types 1 to 3) against non-window (5 to 7)",
        groups=_WINDOW,
    ),
    "glass_types": _csv("glass.csv", "Type", "UCI glass, the 6 types that occur"),
    "heart_hungarian": _csv(
        "heart_hungarian.csv",
        "num",
        "UCI heart disease, Hungarian, 10 attributes; slope, ca and thal (mostly missing) and 33 "
        "incomplete rows left out",
        drop=("slope", "ca", "thal"),
    ),
    "ionosphere": _csv(
        "ionosphere.csv",
        "class",
        "UCI ionosphere, 33 attributes; V2, which is always 0, left out",
        drop=("V2",),
    ),
    "new_thyroid": _csv("new_thyroid.csv", "class", "UCI new-thyroid (1 normal, 2 hyper, 3 hypo)"),
    "new_thyroid_binary": _csv(
        "new_thyroid.csv",
        "class",
        "UCI new-thyroid, normal against hyper and hypo together, as in KG06 section 5",
        groups=_THYROID,
    ),
    "pima": _csv(
        "pima_tr.csv pima_te.csv",
        "type",
        "diabetes in Pima women, Ripley's 200 training rows, then his 332 test rows",
    ),
    "pima_te": _csv("pima_te.csv", "type", "diabetes in Pima women, Ripley's test set"),
    "pima_tr": _csv("pima_tr.csv", "type", "diabetes in Pima women, Ripley's training set"),
    "skin_segmentation": _csv(
        "skin_segmentation.csv",
        "class",
        "colours of skin (1) and not (2), 245,057 rows sorted by class",
    ),
    "usps": _usps(
        None, _BOTH, "digits, resampled split of RW06: 4649 training rows, then 4649 test rows"
    ),
    "usps_3v5": _usps((3, 5), _BOTH, f"{_3V5}: 767 training rows, then 773 test rows"),
    "usps_3v5_test": _usps((3, 5), ("test",), f"{_3V5}, the 773 test rows"),
    "usps_3v5_train": _usps((3, 5), ("train",), f"{_3V5}, the 767 training rows"),
}

# OpenML's id pins name and version for good; the target is its default class column.
OPENML_TABLES = {
    "banknote-authentication": (1462, "Class"),
    "blood-transfusion-service-center": (1464, "Class"),
    "diabetes": (37, "class"),
    "heart-statlog": (53, "class"),
    "qsar-biodeg": (1494, "Class"),
    "sonar": (40, "Class"),
    "spambase": (44, "class"),
    "vehicle": (54, "Class"),
    "wdbc": (1510, "Class"),
}
