"""The tables of KG06 and GTS19 as these describe them, and folds of their rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from gpclass.displays.drawing import COLOURS, MARKERS
from gpclass.experiments.form import Found, Place, Published, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

FOLDS: Final = 10
# The least number of ways to divide the rows into folds: those of the papers are not known.
DRAWS: Final = 5


class Table(NamedTuple):
    """Columns (n, d), NaN where an entry is missing; classes 0, 1, ...; discrete columns."""

    X: Array
    y: Codes
    discrete: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Recipe:
    """Which columns of a file are attributes, which of these are discrete, and what the class is.

    ``text`` names an attribute of text with the level that counts as 1. ``complete`` leaves out
    rows with a missing entry.
    """

    file: str
    classes: Callable[[Any], Any]
    drop: tuple[str, ...]
    discrete: tuple[str, ...] = ()
    text: tuple[str, str] = ("", "")
    complete: bool = False

    @property
    def data(self) -> str:
        """Name of the data for a `Piece`."""
        return f"csv:{self.file}"

    def read(self, frame: Any) -> Table:
        """Make the table of the file's frame."""
        if self.complete:
            frame = frame.dropna()
        X, (name, level) = frame.drop(columns=list(self.drop)), self.text
        if name:
            X = X.assign(**{name: (X[name] == level).astype(float)})
        _, y = np.unique(np.asarray(self.classes(frame)), return_inverse=True)
        discrete = tuple(X.columns.get_loc(column) for column in self.discrete)
        return Table(X.to_numpy(dtype=np.float64), y, discrete)


def _price(column: str, *limits: float) -> Callable[[Any], Any]:
    # a price at a limit belongs to the lower class
    return lambda frame: np.digitize(frame[column], limits, right=True)


def _column(name: str) -> Callable[[Any], Any]:
    return lambda frame: frame[name]


GTS19: Final = {
    "Can.": Recipe("breast_cancer_wisconsin", _column("class"), ("id", "class"), complete=True),
    "Crab": Recipe("crabs", _column("sex"), ("sex", "index"), text=("sp", "O")),
    "Glass": Recipe("glass", lambda frame: frame["Type"] <= 3, ("Type",)),
    "Ionos.": Recipe("ionosphere", _column("class"), ("class", "V2")),
    "Thy.": Recipe("new_thyroid", lambda frame: frame["class"] == 1, ("class",)),
    "Hous.": Recipe("boston", _price("medv", 25.0), ("medv",)),
}
_HEART = ("sex", "cp", "fbs", "restecg", "exang", "slope", "thal")
KG06: Final = {
    "Heart disease": Recipe("heart_hungarian", _column("num"), ("num",), _HEART),
    "Thyroid": Recipe("new_thyroid", lambda frame: frame["class"] == 1, ("class",)),
    "Ionosphere": Recipe("ionosphere", _column("class"), ("class",)),
    "Crabs": Recipe("crabs", _column("sex"), ("sex",), ("sp", "index"), text=("sp", "O")),
    "Pima": Recipe("pima_tr", _column("type"), ("type",)),
    "Boston": Recipe(
        "boston_corrected",
        _price("CMEDV", 25.0),
        ("TOWN", "MEDV", "CMEDV"),
        ("TOWNNO", "TRACT", "CHAS"),
    ),
}
KG06_CLASSES: Final = {
    "New Thyroid": Recipe("new_thyroid", _column("class"), ("class",)),
    "Auto-Mpg": Recipe(
        "auto_mpg", _column("origin"), ("origin", "car_name"), ("cylinders", "model_year")
    ),
    "Boston Housing": Recipe("boston", _price("medv", 15.4, 23.7), ("medv",), ("chas",)),
}


def folds(n: int, draw: int) -> Iterator[tuple[Codes, Codes]]:
    """Training and test rows of ten folds; ``draw`` seeds the permutation."""
    splitter = KFold(FOLDS, shuffle=True, random_state=draw)
    division: Iterator[tuple[Codes, Codes]] = splitter.split(np.empty((n, 1)))
    return division


def stratified_folds(y: Any, n_folds: int = 5, seed: int = 0) -> list[tuple[Codes, Codes]]:
    """Training and test rows of folds with the classes in proportion."""
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.empty((len(y), 1)), y))


class Fold(NamedTuple):
    """Training and test part; ``codes`` have a column for each attribute, ``wide`` one a level.

    In both the continuous columns come first, standardised by the training part. In ``wide`` two
    different levels have the squared distance 1, as in KG06 eq. 14.
    """

    codes: Array
    codes_test: Array
    wide: Array
    wide_test: Array
    y: Codes
    y_test: Codes
    n_continuous: int


def fold_of(table: Table, train: Codes, test: Codes, *, scaled: bool = True) -> Fold:
    """Columns of a fold: a missing number is the training mean, a missing level one of its own."""
    continuous = [j for j in range(table.X.shape[1]) if j not in table.discrete]
    numbers = make_pipeline(SimpleImputer(), StandardScaler() if scaled else "passthrough")
    levels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-1.0),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    )
    columns = ColumnTransformer(
        [("numbers", numbers, continuous), ("levels", levels, list(table.discrete))]
    )
    codes, codes_test = columns.fit_transform(table.X[train]), columns.transform(table.X[test])
    n = len(continuous)
    sizes = codes[:, n:].max(axis=0).astype(int) + 2
    wide, wide_test = (_by_level(X, n, sizes) for X in (codes, codes_test))
    return Fold(codes, codes_test, wide, wide_test, table.y[train], table.y[test], n)


def folds_of(
    table: Table, draw: int, wanted: Iterable[int], *, scaled: bool = True
) -> Iterator[Fold]:
    """Some of the ten folds of a table, by their numbers."""
    division = list(folds(len(table.y), draw))
    for k in wanted:
        yield fold_of(table, *division[k], scaled=scaled)


def _by_level(codes: Array, n_continuous: int, sizes: Codes) -> Array:
    """A column for each level, and one for levels of no training row."""
    levels = codes[:, n_continuous:].astype(int) + 1
    parts = [np.eye(size)[level] for size, level in zip(sizes, levels.T, strict=True)]
    return np.hstack([codes[:, :n_continuous], *(part / np.sqrt(2.0) for part in parts)])


def error_rate(predicted: Any, y: Any) -> float:
    """Part of the rows whose class is another one."""
    return float(np.mean(np.asarray(predicted) != y))


def published_errors(rows: Mapping[str, str], columns: Sequence[str]) -> tuple[Published, ...]:
    """Cells of rows that are written as error, standard error, error, standard error, ..."""
    cells = []
    for row, numbers in rows.items():
        values = [float(number) for number in numbers.split()]
        for column, value, error in zip(columns, values[::2], values[1::2], strict=True):
            cells.append(Published(row, column, value, 0.0001, error))
    return tuple(cells)


def of_draws(draws: Sequence[Sequence[float]]) -> Found:
    """Mean error rate over draws of folds, of which each has its folds' errors.

    The standard error is the deviation of one draw's mean from another's, as the paper has one
    draw, and the spread is that of these means. Of a single draw it is the folds' standard error.
    """
    means = np.array([np.mean(draw) for draw in draws])
    if len(means) == 1:
        own = np.asarray(draws[0])
        error = float(own.std(ddof=1) / np.sqrt(len(own))) if len(own) > 1 else 0.0
        return Found(float(means[0]), error)
    spread = float(means.min()), float(means.max())
    return Found(float(means.mean()), float(means.std(ddof=1)), spread)


def against_published(
    published: Sequence[Published], cells: Mapping[Place, Any], columns: Sequence[str]
) -> "Figure":
    """Our error rates over the published ones, with bars for the ranges over draws."""
    figure, axes = panels(1, 1, 5.0)
    ax = axes.flat[0]
    top = 0.0
    for column, colour, marker in zip(columns, COLOURS, MARKERS, strict=False):
        pairs = [
            (cell.value, cells[cell.row, cell.column])
            for cell in published
            if cell.column == column and isinstance(cells.get((cell.row, column)), Found)
        ]
        if not pairs:
            continue
        x, y = [value for value, _ in pairs], [one.value for _, one in pairs]
        ranges = [one.spread or (one.value, one.value) for _, one in pairs]
        bars = np.abs(np.array(ranges).T - y)
        ax.errorbar(x, y, bars, fmt=marker, color=colour, ms=4, lw=0.8, label=column)
        top = max(top, *x, *y)
    ax.plot([0.0, top], [0.0, top], color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="published error rate", ylabel="ours")
    if top:
        ax.legend(frameon=False)
    return figure
