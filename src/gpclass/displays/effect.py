"""The effect of one column on the class probabilities, and how sure it is."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from gpclass.displays.drawing import COLOURS, MARKERS, axes_of, legend_above, mark_dates
from gpclass.displays.tables import FEW, Table, check_numbers, text_of
from gpclass.estimator.intervals import probability_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


@final
@dataclass(eq=False)
class EffectDisplay:
    """Partial dependence: class probabilities as one column takes other values.

    Make it with :meth:`from_estimator`, or :meth:`compute` without drawing. At each value the
    column is replaced in (at most ``max_rows``) rows of the table, and what the model says of them
    is averaged. The band has, of each row, the interval that holds its probability given the latent
    (`gpclass.estimator.intervals`), averaged too: it is of one row, not of the average, whose
    interval is narrower. Nothing is drawn at random.

    Parameters
    ----------
    column : str
    values : ndarray of shape (k,)
        Numbers, points in time, or levels as text.
    as_points : bool
        Levels and columns of at most five different numbers are points, others a line.
    probability, lower, upper : ndarray of shape (k, C)
        Averages over the rows, and the ends of the band.
    by_row : ndarray of shape (k, r, C)
        Probability of each row.
    shares : ndarray of shape (k,)
        Share of the table's rows whose own value is nearest to each value.
    seen : ndarray
        Different values of the table, for the marks on the axis; none of levels.
    classes : ndarray of shape (C,)
    shown : tuple of int
        Indices of the classes that are drawn.
    confidence : float

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib Axes, Figure and a list with a Line2D for each class shown
        What the last call to :meth:`plot` drew on, and the curves.

    References
    ----------
    J. H. Friedman, Greedy function approximation, 2001, section 8.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.displays import EffectDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier().fit(X[50:], y[50:])
    >>> effect = EffectDisplay.compute(model, X[50:], 3, n_points=3)
    >>> effect.column, effect.values.round(1).tolist()
    ('x3', [1.0, 1.8, 2.5])
    >>> bool(effect.probability[-1, 1] > effect.probability[0, 1] + 0.5)
    True
    """

    column: str
    values: NDArray[Any]
    as_points: bool
    probability: Array
    lower: Array
    upper: Array
    by_row: Array = field(repr=False)
    shares: Array = field(repr=False)
    seen: NDArray[Any] = field(repr=False)
    classes: NDArray[Any]
    shown: tuple[int, ...]
    confidence: float = 0.95

    @property
    def influence(self) -> Array:
        """How much the column changes the probability of a row, shape (C,).

        Mean over the rows of the standard deviation of a row's probability, where the column has
        the values that it has in the table. Interactions are in it, which the average hides.
        """
        mean = np.tensordot(self.shares, self.by_row, 1)
        variance = np.tensordot(self.shares, (self.by_row - mean) ** 2, 1)
        return np.asarray(np.sqrt(variance).mean(axis=0))

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any,
        column: Any,
        *,
        class_of_interest: Any = None,
        n_points: int = 31,
        max_rows: int = 100,
        confidence: float = 0.95,
    ) -> Self:
        """Compute the effect without drawing it (which needs no matplotlib).

        Parameters
        ----------
        estimator : GaussianProcessClassifier
            Fitted, and not one against one, which has no latent of a class.
        X : table of n rows
            As for `predict_proba`; the other columns are averaged over its rows.
        column : str or int
            Name or number.
        class_of_interest : label, default=None
            The class whose probability is drawn; None: the second of two, each of more.
        n_points : int, default=31
            Values of a column of numbers, evenly spaced over its range in X.
        max_rows : int, default=100
            Rows that are averaged, evenly spaced over X.
        confidence : float, default=0.95

        Raises
        ------
        TypeError, ValueError
            For an estimator without latents, and a wrong column, class or number.
        """
        table = Table.of(estimator, X)
        check_numbers(n_points, max_rows)
        classes = estimator.classes_
        shown = classes_shown(classes, class_of_interest)
        j = table.position(column)
        if table.has_levels(j):
            texts = table.texts(j)
            values, counts = np.unique(texts, return_counts=True)
            shares, seen, as_points = counts / len(texts), values[:0], True
        else:
            known = table.numbers(j)
            seen = np.unique(known)
            as_points = len(seen) <= FEW
            values = seen if as_points else np.linspace(seen[0], seen[-1], n_points)
            nearest = np.abs(known[:, None] - values).argmin(axis=1)
            shares = np.bincount(nearest, minlength=len(values)) / len(known)
        rows = table.some_rows(max_rows)
        k, r = len(values), len(rows)
        new = table.rows(np.tile(rows, k), {j: np.repeat(values, r)})
        by_row = estimator.predict_proba(new).reshape(k, r, -1)
        ends = probability_intervals(estimator, new, confidence)
        lower, upper = (end.reshape(k, r, -1).mean(axis=1) for end in (ends.lower, ends.upper))
        if not table.has_levels(j):
            values, seen = table.as_shown(j, values), table.as_shown(j, seen)
        probability = by_row.mean(axis=1)
        name = table.names[j]
        return cls(name, values, as_points, probability, lower, upper, by_row, shares, seen,
                   classes, shown, confidence)  # fmt: skip

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, column: Any, *, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Compute the effect, with the options of `compute`, and draw it on axes ``ax``."""
        return cls.compute(estimator, X, column, **options).plot(ax)

    def plot(self, ax: "Axes | None" = None, *, interval: bool = True, **kwargs: Any) -> Self:
        """Draw a line or points for each class shown, in the style ``kwargs`` of ``Axes.plot``."""
        ax = axes_of(ax)
        places = np.arange(len(self.values)) if self.values.dtype == object else self.values
        self.lines_ = []
        for i, c in enumerate(self.shown):
            colour = COLOURS[i % len(COLOURS)]
            mean, low, high = (one[:, c] for one in (self.probability, self.lower, self.upper))
            label = f"class {self.classes[c]!s}"
            style = dict[str, Any](color=colour, label=label, linewidth=1.8, zorder=3) | kwargs
            at = places
            if self.as_points:
                style = dict[str, Any](linestyle="none", marker=MARKERS[i % len(MARKERS)]) | style
                if places.dtype.kind in "if":
                    gap = np.diff(places).min() if len(places) > 1 else 1.0
                    at = places + 0.08 * gap * (i - 0.5 * (len(self.shown) - 1))
            (line,) = ax.plot(at, mean, **style)
            self.lines_.append(line)
            if interval and self.as_points:
                ax.vlines(at, low, high, color=colour, alpha=0.5, linewidth=3)
            elif interval:
                ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
        self._axes(ax, places)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _axes(self, ax: "Axes", places: NDArray[Any]) -> None:
        ax.set_xlabel(self.column)
        ax.set_ylim(-0.04, 1.04)
        if len(self.shown) == 1:
            ax.set_ylabel(f"Probability of class {self.classes[self.shown[0]]!s}")
        else:
            ax.set_ylabel("Probability")
            legend_above(ax)
        if self.as_points:
            texts = [text_of(value) for value in self.values]
            crowded = sum(map(len, texts)) > 40
            ax.set_xticks(places, texts, rotation=30 if crowded else 0,
                          ha="right" if crowded else "center")  # fmt: skip
            if self.values.dtype == object:
                ax.set_xlim(-0.5, len(places) - 0.5)
        else:
            mark_dates(ax.xaxis, self.values)
            # where the table has rows
            ax.plot(self.seen, np.full(len(self.seen), -0.02), "|", color="0.35", markersize=6)


def classes_shown(classes: NDArray[Any], wanted: Any) -> tuple[int, ...]:
    """Indices of the classes to draw: the one wanted, the second of two, or each of more."""
    if wanted is None:
        if len(classes) > len(COLOURS):
            raise ValueError(
                f"{len(classes)} classes are too many for one picture: name class_of_interest."
            )
        return (1,) if len(classes) == 2 else tuple(range(len(classes)))
    found = np.flatnonzero(classes == wanted)
    if not found.size:
        raise ValueError(f"class_of_interest {wanted!r} is none of {classes.tolist()}.")
    return (int(found[0]),)
