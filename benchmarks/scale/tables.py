"""Large tables, each with the division into training and test rows that is stated with it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.ndimage import affine_transform
from sklearn.decomposition import PCA


class Split(NamedTuple):
    """Raw rows to learn from and to judge by, and what is known of the best possible."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    about: str


def _folder() -> Path:
    folder = os.environ.get("GPCLASS_DATA")
    if not folder:
        raise FileNotFoundError("set GPCLASS_DATA to the folder that has the tables")
    return Path(folder)


def sines(n: int = 50_000, n_test: int = 20_000, n_columns: int = 10) -> Split:
    """``y = sign(2 sin x1 + x2 x3 + noise / 2)`` of normal columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + n_test, n_columns))
    f = 2.0 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    y = np.where(f + 0.5 * rng.standard_normal(len(X)) > 0, 1, -1)
    about = (
        f"Generated; {n_columns - 3} of the {n_columns} columns say nothing. The best possible log "
        "loss is 0.167."
    )
    return Split(X[:n], y[:n], X[n:], y[n:], about)


def sines_large() -> Split:
    """Five million rows of twenty columns."""
    return sines(5_000_000, 50_000, 20)


def skin() -> Split:
    """A fifth of the distinct colours are test rows, with all their copies."""
    frame = pd.read_csv(_folder() / "skin_segmentation.csv.gz")
    colours = frame.groupby(["B", "G", "R"], sort=True).ngroup().to_numpy()
    rng = np.random.default_rng(0)
    test = rng.permutation(colours.max() + 1)[colours] < 0.2 * (colours.max() + 1)
    rows = rng.permutation(len(frame))
    frame, test = frame.iloc[rows], test[rows]
    X, y = frame[["B", "G", "R"]], frame["class"].to_numpy()
    about = (
        "UCI's skin segmentation. Colours are repeated, so that a random division would show the "
        "test rows while learning: a fifth of the 51,433 distinct colours are the test rows."
    )
    return Split(X[~test], y[~test], X[test], y[test], about)


def flights() -> Split:
    """Fifteen minutes late or more? January to October for learning, then two months."""
    frame = pd.read_csv(_folder() / "nycflights13_flights.csv.gz").dropna(subset="arr_delay")
    planes = pd.read_csv(_folder() / "nycflights13_planes.csv.gz").set_index("tailnum")
    dates = pd.to_datetime(frame[["year", "month", "day"]])
    minutes = frame.sched_dep_time // 100 * 60 + frame.sched_dep_time % 100
    arrival = frame.sched_arr_time // 100 * 60 + frame.sched_arr_time % 100
    X = frame[["carrier", "origin", "dest", "distance"]].assign(
        day_of_year=dates.dt.dayofyear,
        weekday=dates.dt.day_name(),
        departure=minutes,
        arrival=arrival,
        age=2013 - frame.tailnum.map(planes.year),
        maker=frame.tailnum.map(planes.manufacturer),
        seats=frame.tailnum.map(planes.seats),
    )
    y = np.where(frame.arr_delay >= 15, "late", "in time")
    test = (frame.month > 10).to_numpy()
    rows = np.random.default_rng(0).permutation(int((~test).sum()))
    about = (
        "nycflights13: arrival 15 minutes late or more, by what is known the day before. January "
        "to October for learning, November and December for the test."
    )
    return Split(X[~test].iloc[rows], y[~test][rows], X[test], y[test], about)


def mnist() -> Split:
    """The usual division, grey values from 0 to 1."""
    with np.load(_folder() / "mnist.npz") as file:
        data = {key: file[key] for key in file.files}
    X, X_test = (data[key].reshape(-1, 784) / 255.0 for key in ("X_train", "X_test"))
    about = "60,000 and 10,000 digits of 784 grey values; ten classes."
    return Split(X, data["y_train"], X_test, data["y_test"], about)


def mnist_upright() -> Split:
    """The digits without their slant, as 40 principal components of the training rows."""
    split = mnist()
    X, X_test = (
        np.stack([_upright(image) for image in one.reshape(-1, 28, 28)]).reshape(-1, 784)
        for one in (split.X, split.X_test)
    )
    components = PCA(40, svd_solver="covariance_eigh").fit(X)
    about = (
        "MNIST's digits, each sheared by its own moments so that it stands upright (as in LeCun et "
        "al. 1998), as 40 principal components of the training rows. No label is looked at."
    )
    return Split(
        components.transform(X), split.y, components.transform(X_test), split.y_test, about
    )


def _upright(image: Any) -> Any:
    """An image sheared until its rows and columns do not covary, with its centre in the middle."""
    row, column = np.indices(image.shape)
    weight = image / image.sum()
    centre = np.array([(row * weight).sum(), (column * weight).sum()])
    row, column = row - centre[0], column - centre[1]
    slant = (row * column * weight).sum() / (row**2 * weight).sum()
    shear = np.array([[1.0, 0.0], [slant, 1.0]])
    middle = (np.array(image.shape) - 1.0) / 2.0
    return affine_transform(image, shear, offset=centre - shear @ middle, order=1)


TABLES: Final[dict[str, Callable[[], Split]]] = {
    "sines": sines,
    "sines_large": sines_large,
    "skin": skin,
    "flights": flights,
    "mnist": mnist,
    "mnist_upright": mnist_upright,
}
