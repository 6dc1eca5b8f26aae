"""Rows whose own class the others make improbable."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.displays.drawing import COLOURS, MARKERS, axes_of, legend_above
from gpclass.displays.tables import check_model
from gpclass.metrics import check_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Marks of the axis, whose ends stand for what is beyond them.
TICKS: Final = (1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999)


@final
@dataclass(eq=False)
class OutlierDisplay:
    """Probability of each row's own class, by a model that did not have the row.

    Make it with :meth:`from_estimator`, from the leave-one-out probabilities of a fitted model, or
    with :meth:`from_predictions`, from any that are out of sample. A row far down is a mistake of
    the label, a rare case, or a place where the model is wrong.

    Parameters
    ----------
    own : ndarray of shape (n,)
        Probability of the class that was observed.
    codes, predicted : ndarray of shape (n,)
        Indices of the observed class, and of the most probable one.
    rows : ndarray of shape (n,)
        Numbers of the rows.
    classes : ndarray of shape (C,)
    threshold : float
        Rows below it are outliers.

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib Axes, Figure and a list with a Line2D for each class
        What the last call to :meth:`plot` drew.

    Examples
    --------
    >>> from gpclass.displays import OutlierDisplay
    >>> display = OutlierDisplay.compute([0, 1, 1, 0], [0.1, 0.9, 0.02, 0.4])
    >>> display.outliers.tolist(), display.own.tolist()
    ([2], [0.9, 0.9, 0.02, 0.6])
    """

    own: Array
    codes: NDArray[np.intp]
    predicted: NDArray[np.intp]
    rows: NDArray[np.intp]
    classes: NDArray[Any]
    threshold: float = 0.05

    @property
    def outliers(self) -> NDArray[np.intp]:
        """Numbers of the rows below the threshold, the least probable first."""
        order = np.argsort(self.own, kind="stable")
        return self.rows[order[self.own[order] < self.threshold]]

    @classmethod
    def compute(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        threshold: float = 0.05,
    ) -> Self:
        """Find the outliers of predictions without drawing them (which needs no matplotlib).

        Parameters
        ----------
        y_true, y_prob, labels
            As in `gpclass.decision.error_reject_curve`, of a model that did not have the row.
        threshold : float, default=0.05
        """
        codes, proba, classes = check_probabilities(y_true, y_prob, labels)
        assert codes is not None
        if not 0.0 < threshold < 1.0:
            raise ValueError(f"threshold must be between 0 and 1, got {threshold}.")
        own = proba[np.arange(len(codes)), codes]
        return cls(own, codes, proba.argmax(axis=1), np.arange(len(codes)), classes, threshold)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_prob: ArrayLike, *, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Find the outliers, with the options of `compute`, and draw them on axes ``ax``."""
        return cls.compute(y_true, y_prob, **options).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None, **options: Any) -> Self:
        """Draw the training rows of a fitted model by its ``loo_proba_``; needs no refit."""
        return cls.of_training(estimator, **options).plot(ax)

    @classmethod
    def of_training(cls, estimator: Any, **options: Any) -> Self:
        """Find the outliers of the training rows by ``loo_proba_``, without drawing them."""
        check_model(estimator)
        # -1: a row of weight zero, whose class no other row has
        rows = np.flatnonzero(estimator.y_train_ >= 0)
        labels = estimator.classes_
        y, proba = labels[estimator.y_train_[rows]], estimator.loo_proba_[rows]
        found = cls.compute(y, proba, labels=labels, **options)
        found.rows = rows
        return found

    def plot(self, ax: "Axes | None" = None, *, most: int = 10, **kwargs: Any) -> Self:
        """Draw the rows in the order of the table, with numbers at the ``most`` least probable.

        ``kwargs`` is the style of ``Axes.plot``.
        """
        ax = axes_of(ax)
        self.lines_ = []
        shown = np.clip(self.own, TICKS[0], TICKS[-1])
        for c, label in enumerate(self.classes):
            mine = self.codes == c
            style = {
                "color": COLOURS[c % len(COLOURS)], "marker": MARKERS[c % len(MARKERS)],
                "linestyle": "none", "markersize": 4.5, "alpha": 0.75,
            } | kwargs  # fmt: skip
            (line,) = ax.plot(self.rows[mine], shown[mine], label=f"class {label!s}", **style)
            self.lines_.append(line)
        ax.axhline(self.threshold, color="0.35", linewidth=1, linestyle=(0, (4, 3)))
        ax.annotate(
            f"{self.threshold:g}", (1.0, self.threshold), xycoords=ax.get_yaxis_transform(),
            xytext=(3, -3), textcoords="offset points", fontsize=8,
        )  # fmt: skip
        order = np.argsort(self.own, kind="stable")
        n = len(self.rows)
        for i in order[:most][self.own[order[:most]] < self.threshold]:
            left = self.rows[i] > 0.9 * self.rows[-1]
            ax.annotate(
                str(self.rows[i]), (self.rows[i], shown[i]), xytext=(-5 if left else 5, -3),
                textcoords="offset points", fontsize=8, ha="right" if left else "left",
            )  # fmt: skip
        ax.set_yscale("logit")
        ticks = [p for p in TICKS if p > 0.3 * shown.min() and 1 - p > 0.3 * (1 - shown.max())]
        ax.set_yticks(ticks, [f"{p:g}" for p in ticks])
        ax.set_yticks([], minor=True)
        ax.set_xlim(-0.02 * n, self.rows[-1] + 0.02 * n + 1)
        ax.set_xlabel("Row of the table, from 0")
        ax.set_ylabel("Probability of its own class,\nfrom all other rows")
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
