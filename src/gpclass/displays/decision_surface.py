"""Class probabilities over two columns of many, and where the latent is not known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.displays.drawing import COLOURS, MARKERS, axes_of, legend_above, mark_dates
from gpclass.displays.effect import classes_shown
from gpclass.displays.tables import Table, check_numbers, text_of
from gpclass.estimator.intervals import probability_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Values of so many other columns are told one by one.
MOST_NAMED: Final = 8
# Part of the width or height from an edge within which a label would be cut.
NEAR_EDGE: Final = 0.06


@final
@dataclass(eq=False)
class DecisionSurfaceDisplay:
    """Class probabilities over two columns, with lines of the latent's standard deviation.

    Make it with :meth:`from_estimator`, or :meth:`compute` without drawing.

    Parameters
    ----------
    columns : tuple of two str
        Names of the columns: x and y.
    x, y : ndarray of shape (m,), (k,)
    probability : ndarray of shape (k, m, C)
    deviation : ndarray of shape (k, m, C)
        Of the class's latent less the mean of the others'; of two classes, of the one latent.
    classes : ndarray of shape (C,)
    shown : int or None
        Index of the class whose probability is drawn, None for the most probable one's.
    rest : str
        What the other columns are, for the title.
    points, codes : tuple of two ndarrays of shape (r,), ndarray of shape (r,)
        Entries of the rows that have both columns, and their classes (-1 where not known).

    Attributes
    ----------
    ax_, figure_, surface_, lines_ : matplotlib Axes, Figure, ContourSet or AxesImage, ContourSet
        What the last call to :meth:`plot` drew: probabilities, and deviations.

    References
    ----------
    RW06 section 3.7.2, Figures 3.6 and 3.8.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.displays import DecisionSurfaceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier().fit(X[50:], y[50:])
    >>> surface = DecisionSurfaceDisplay.compute(model, X[50:], (2, 3), n_points=4)
    >>> surface.columns, surface.probability.shape, surface.rest
    (('x2', 'x3'), (4, 4, 2), 'x0 = 6.3, x1 = 2.9')
    """

    columns: tuple[str, str]
    x: NDArray[Any]
    y: NDArray[Any]
    probability: Array
    deviation: Array
    classes: NDArray[Any]
    shown: int | None
    rest: str
    points: tuple[NDArray[Any], NDArray[Any]] = field(repr=False)
    codes: NDArray[np.intp] = field(repr=False)

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any,
        columns: tuple[Any, Any],
        *,
        y: ArrayLike | None = None,
        at: Mapping[Any, Any] | None = None,
        average: bool = False,
        class_of_interest: Any = None,
        n_points: int = 41,
        max_rows: int = 50,
    ) -> Self:
        """Compute the surface without drawing it (which needs no matplotlib).

        Parameters
        ----------
        estimator : GaussianProcessClassifier
            Fitted, and not one against one, which has no latent of a class.
        X : table of n rows
            As for `predict_proba`: its ranges are drawn, and the other columns come from it.
        columns : pair of str or int
            Names or numbers of two columns of numbers: x and y.
        y : array-like of shape (n,), default=None
            Classes of the rows, to mark them.
        at : mapping, default=None
            Values of other columns, by name or number; a level of a category as in the table.
        average : bool, default=False
            The other columns: False, at their median, or their most frequent level; True,
            probabilities and deviations are averaged over (at most ``max_rows``) rows.
        class_of_interest : label, default=None
            The class whose probability is drawn; None: the second of two, the most probable of
            more.
        n_points : int, default=41
            Values of each column.
        max_rows : int, default=50

        Raises
        ------
        TypeError, ValueError
            For an estimator without latents, and a wrong column, value, class or number.
        """
        table = Table.of(estimator, X)
        check_numbers(n_points, max_rows)
        classes = estimator.classes_
        shown: int | None = None
        wanted = classes_shown(classes, class_of_interest)
        if len(wanted) == 1:
            (shown,) = wanted
        a, b = _two_columns(table, columns)
        given = fixed = _fixed(table, at, (a, b))
        others = [j for j in range(len(table.columns)) if j not in (a, b, *fixed)]
        if not average:
            fixed = given | {j: table.typical(j) for j in others}
        rows = table.some_rows(max_rows if average else 1)
        ends = [(known.min(), known.max()) for known in (table.numbers(a), table.numbers(b))]
        u, v = (np.linspace(low, high, n_points) for low, high in ends)
        r = len(rows)
        grid_u, grid_v = (one.ravel() for one in np.meshgrid(u, v))
        changes = {a: np.repeat(grid_u, r), b: np.repeat(grid_v, r)} | fixed
        new = table.rows(np.tile(rows, len(grid_u)), changes)
        found = (estimator.predict_proba(new), probability_intervals(estimator, new).deviation)
        shape = (n_points, n_points, r, len(classes))
        probability, deviation = (one.reshape(shape).mean(axis=2) for one in found)
        told = fixed if len(fixed) <= MOST_NAMED else given
        parts = [f"{table.names[j]} = {_shown_value(table, j, fixed[j])}" for j in sorted(told)]
        if len(told) < len(fixed):
            parts.append(f"{len(others)} other columns at their medians or most frequent levels")
        if average and others:
            parts.append(f"averaged over {r} rows" + (" otherwise" if parts else ""))
        codes = _codes(y, classes, len(table.columns[a].values))
        known = np.isfinite(table.entries(a)) & np.isfinite(table.entries(b))
        points = [table.as_shown(j, table.entries(j)[known]) for j in (a, b)]
        return cls(
            (table.names[a], table.names[b]),
            table.as_shown(a, u),
            table.as_shown(b, v),
            probability,
            deviation,
            classes,
            shown,
            ", ".join(parts),
            (points[0], points[1]),
            codes[known],
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        columns: tuple[Any, Any],
        *,
        ax: "Axes | None" = None,
        **options: Any,
    ) -> Self:
        """Compute the surface, with the options of `compute`, and draw it on axes ``ax``."""
        return cls.compute(estimator, X, columns, **options).plot(ax)

    def plot(
        self, ax: "Axes | None" = None, *, points: bool = True, deviation: bool = True
    ) -> Self:
        """Draw probabilities, lines of the latent's deviation, and the rows of the table."""
        ax = axes_of(ax)
        self._probabilities(ax)
        self.lines_ = None
        if deviation:
            chosen = self.probability.argmax(axis=2) if self.shown is None else self.shown
            spread = np.take_along_axis(
                self.deviation, np.broadcast_to(chosen, self.probability.shape[:2])[..., None], 2
            )[..., 0]
            if np.ptp(spread) > 1e-6 * spread.max():
                self.lines_ = ax.contour(self.x, self.y, spread, levels=5, colors="0.15",
                                         linewidths=0.8, linestyles="dashed")  # fmt: skip
        if points:
            self._points(ax)
        # a value stays on the line of its column
        kept = self.rest.replace(" = ", "\u00a0=\u00a0")
        rest = "\n".join(wrap(f"({kept})", 46)) if kept else ""
        ax.set_xlabel(self.columns[0] + (f"\n{rest}" if rest else ""))
        ax.set_ylabel(self.columns[1])
        mark_dates(ax.xaxis, self.x)
        mark_dates(ax.yaxis, self.y)
        ax.set_xlim(self.x[0], self.x[-1])
        ax.set_ylim(self.y[0], self.y[-1])
        if self.lines_ is not None:
            _label_lines(ax, self.lines_)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _probabilities(self, ax: "Axes") -> None:
        if self.shown is not None:
            P = self.probability[..., self.shown]
            self.surface_: Any = ax.contourf(self.x, self.y, P, levels=np.linspace(0, 1, 11),
                                        cmap="RdBu_r", alpha=0.8)  # fmt: skip
            if P.min() < 0.5 < P.max():
                ax.contour(self.x, self.y, P, levels=[0.5], colors="black", linewidths=1.8)
            bar = ax.figure.colorbar(self.surface_, ax=ax)
            bar.set_label(f"Probability of class {self.classes[self.shown]!s}")
            return
        best = self.probability.argmax(axis=2)
        C = len(self.classes)
        # white where all classes are equally probable
        weight = ((self.probability.max(axis=2) - 1 / C) / (1 - 1 / C))[..., None]
        hues = np.array([_rgb(COLOURS[c % len(COLOURS)]) for c in range(C)])
        image = 1.0 - 0.75 * weight * (1.0 - hues[best])
        self.surface_ = ax.pcolormesh(self.x, self.y, image, shading="gouraud", rasterized=True)

    def _points(self, ax: "Axes") -> None:
        for c in np.unique(self.codes):
            mine = self.codes == c
            known = c >= 0
            # the hue of the class's side of the surface
            hue = _hue(int(c), self.shown) if known else "0.4"
            ax.plot(
                self.points[0][mine], self.points[1][mine], MARKERS[c % len(MARKERS)],
                color=hue, markeredgecolor="white", markeredgewidth=0.7, markersize=5.5, alpha=0.9,
                clip_on=False,
                label=f"class {self.classes[c]!s}" if known else "rows",
            )  # fmt: skip
        legend_above(ax)


def _label_lines(ax: "Axes", lines: Any) -> None:
    """Label lines above the points, but for labels that an edge would cut."""
    to_axes = ax.transData + ax.transAxes.inverted()
    for text in ax.clabel(lines, fmt="sd %.2g", fontsize=8, zorder=5):
        place = to_axes.transform(text.get_position())
        if ((place < NEAR_EDGE) | (place > 1.0 - NEAR_EDGE)).any():
            text.remove()
        else:
            text.set_bbox({"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6})


def _hue(c: int, shown: int | None) -> str:
    if shown is None:
        return COLOURS[c % len(COLOURS)]
    return "#B2182B" if c == shown else "#2166AC"


def _rgb(colour: str) -> list[float]:
    return [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]


def _two_columns(table: Table, columns: Any) -> tuple[int, int]:
    try:
        first, second = columns
    except (TypeError, ValueError) as error:
        raise ValueError(f"columns must be a pair of columns, got {columns!r}.") from error
    a, b = table.position(first), table.position(second)
    if a == b:
        raise ValueError(f"columns must be two different columns, got {columns!r}.")
    for j in (a, b):
        if table.has_levels(j):
            raise ValueError(
                f"columns has {table.names[j]!r}, which has levels: take two columns of numbers, "
                "and give a level of it in `at`."
            )
    return a, b


def _fixed(table: Table, at: Mapping[Any, Any] | None, axes: tuple[int, int]) -> dict[int, Any]:
    """Values of columns by position; ValueError for a column of the axes, or an unknown level."""
    fixed = {}
    for column, value in (at or {}).items():
        j = table.position(column)
        if j in axes:
            raise ValueError(f"at has the column {column!r}, which is one of the two drawn.")
        if table.has_levels(j):
            levels = np.unique(table.texts(j)).tolist()
            if str(value) not in levels:
                raise ValueError(f"at has {value!r} for {column!r}, which is none of {levels}.")
            value = str(value)
        elif isinstance(value, str) or not np.isfinite(value):
            raise ValueError(f"at has {value!r} for {column!r}, and a finite number is needed.")
        fixed[j] = value
    return fixed


def _shown_value(table: Table, j: int, value: Any) -> str:
    if table.has_levels(j):
        return str(value)
    if table.is_date(j):
        return text_of(table.as_shown(j, np.array([float(value)]))[0])
    return text_of(float(value))


def _codes(y: ArrayLike | None, classes: NDArray[Any], n: int) -> NDArray[np.intp]:
    if y is None:
        return np.full(n, -1)
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y must have a class for each of the {n} rows, got shape {labels.shape}.")
    unknown = labels[~np.isin(labels, classes)]
    if len(unknown):
        raise ValueError(f"y has {str(unknown[0])!r}, which is none of {classes.tolist()}.")
    return np.searchsorted(classes, labels)
