"""Public tables as they came: numbers, categories and missing entries."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpclass.experiments.raw_tables import RAW, RawTable

LARGEST: Final = 400
SUBSAMPLE_SEED: Final = 0


class Table(NamedTuple):
    """Columns as a frame, and the class of each row as text."""

    X: pd.DataFrame
    y: NDArray[Any]


def load(name: str) -> Table:
    """Load a table; of more than `LARGEST` rows, so many are drawn at random (seed 0)."""
    X, y = TABLES[name]()
    y = np.asarray(y).astype(str)
    if len(X) > LARGEST:
        chosen = np.random.default_rng(SUBSAMPLE_SEED).permutation(len(X))[:LARGEST]
        X, y = X.iloc[chosen], y[chosen]
    return Table(X.reset_index(drop=True), y)


def _file(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["GPCLASS_DATA"]) / f"{name}.csv.gz")


def _sklearn(name: str) -> Callable[[], Table]:
    def read() -> Table:
        return Table(
            *getattr(import_module("sklearn.datasets"), name)(return_X_y=True, as_frame=True)
        )

    return read


def _csv(recipe: RawTable) -> Callable[[], Table]:
    return lambda: Table(*recipe.read(_file(recipe.file)))


def _boston() -> Table:
    frame = _file("boston")
    return Table(
        frame.drop(columns="medv"), np.where(frame.medv > frame.medv.median(), "high", "low")
    )


def _boston_corrected() -> Table:
    """The corrected table with coordinates and towns; the class is the third of the value."""
    frame = _file("boston_corrected")
    y = pd.qcut(frame.CMEDV, 3, labels=["low", "middle", "high"])
    X = frame.drop(columns=["MEDV", "CMEDV", "TRACT", "TOWNNO"])
    return Table(X.assign(RAD=X.RAD.astype(str)), y.to_numpy())


def _pima() -> Table:
    """All 632 women, 100 of them with a missing value."""
    frame = pd.concat([_file("pima_tr2"), _file("pima_te")])
    return Table(frame.drop(columns="type"), frame.type.to_numpy())


def _flights() -> Table:
    """Late on arrival? By what is known before departure, and by the plane."""
    frame = _file("nycflights13_flights").dropna(subset="arr_delay")
    frame = frame.iloc[np.random.default_rng(SUBSAMPLE_SEED).permutation(len(frame))[:1000]]
    planes = _file("nycflights13_planes").set_index("tailnum")
    built = frame.tailnum.map(planes.year)
    X = frame[["month", "day", "sched_dep_time", "carrier", "origin", "dest", "distance"]]
    X = X.assign(
        weekday=pd.to_datetime(frame[["year", "month", "day"]]).dt.day_name(),
        age=2013 - built,
        maker=frame.tailnum.map(planes.manufacturer),
        seats=frame.tailnum.map(planes.seats),
    )
    return Table(X, np.where(frame.arr_delay > 0, "late", "in time"))


def _planes() -> Table:
    """Turbo-fan or turbo-jet? By maker, year, seats and number of engines."""
    frame = _file("nycflights13_planes")
    frame = frame[frame.engine.isin(["Turbo-fan", "Turbo-jet"])]
    X = frame[["year", "manufacturer", "engines", "seats"]]
    return Table(X, frame.engine.to_numpy())


TABLES: Final[dict[str, Callable[[], Table]]] = {
    "iris": _sklearn("load_iris"),
    "wine": _sklearn("load_wine"),
    "breast_cancer": _sklearn("load_breast_cancer"),
    "digits": _sklearn("load_digits"),
    "auto_mpg_origin": _csv(RawTable("auto_mpg", "origin", ("car_name",))),
    "boston": _boston,
    "boston_corrected": _boston_corrected,
    "breast_cancer_wisconsin": _csv(RawTable("breast_cancer_wisconsin", "class", ("id",))),
    **{name: _csv(recipe) for name, recipe in RAW.items()},
    "glass": _csv(RawTable("glass", "Type")),
    "ionosphere": _csv(RawTable("ionosphere", "class")),
    "new_thyroid": _csv(RawTable("new_thyroid", "class")),
    "pima": _pima,
    "skin": _csv(RawTable("skin_segmentation", "class")),
    "nycflights": _flights,
    "planes": _planes,
}
