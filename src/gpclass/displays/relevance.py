"""Which columns a kernel with a length-scale a column finds relevant."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

from gpclass.displays.drawing import COLOURS, MARKERS, axes_of
from gpclass.displays.tables import check_model
from gpclass.estimator.summary import names_of_columns, scales_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


@final
@dataclass(eq=False)
class RelevanceDisplay:
    """Inverse length-scales of the columns, in units of one over the column's deviation.

    Make it with :meth:`from_estimator`, or :meth:`compute` without drawing. It is what the kernel's
    smooth part says of the columns as the kernel takes them, each level of a category being one;
    the linear part of the default kernel is not in it: `EffectDisplay.influence` has all.

    Parameters
    ----------
    names : ndarray of shape (d,)
        Columns that have a length-scale of their own, the most relevant first.
    relevance : ndarray of shape (k, d)
        One over the length-scale, of each of k kernels; of a column in several parts of a kernel
        the largest.
    matters : ndarray of shape (k, d)
        Whether the column changes any covariance by more than a thousandth.
    kernels : tuple of str
        What each kernel is of.

    Attributes
    ----------
    ax_, figure_, lines_ : matplotlib Axes, Figure and a list with a Line2D for each kernel
        What the last call to :meth:`plot` drew on, and the points that matter.

    References
    ----------
    R. M. Neal, Bayesian Learning for Neural Networks, 1996: automatic relevance determination.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.displays import RelevanceDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GaussianProcessClassifier().fit(X[50:], y[50:])
    >>> found = RelevanceDisplay.compute(model)
    >>> found.relevance.shape, bool((found.relevance[0, :-1] >= found.relevance[0, 1:]).all())
    ((1, 4), True)
    """

    names: NDArray[Any]
    relevance: Array
    matters: NDArray[np.bool_]
    kernels: tuple[str, ...]

    @classmethod
    def compute(cls, estimator: Any) -> Self:
        """Read the length-scales of a fitted GaussianProcessClassifier.

        ValueError where no kernel has length-scales of single columns.
        """
        check_model(estimator)
        problems = [model.problem for model in estimator.models_]
        kernels = [(kernel, one.inputs) for one in problems for kernel in one.kernels]
        found = [scales_of(kernel, X) for kernel, X in kernels]
        if not any(found):
            raise ValueError(
                "no kernel of the model has a length-scale for each column: take the default, or "
                "RBF or Matern with a list of length-scales."
            )
        names = np.array(names_of_columns(estimator, kernels[0][1]), dtype=object)
        relevance = np.full((len(found), len(names)), np.nan)
        matters = np.zeros(relevance.shape, dtype=bool)
        for k, scales in enumerate(found):
            for one in scales:
                relevance[k, one.column] = np.fmax(relevance[k, one.column], 1.0 / one.relative)
                matters[k, one.column] |= one.matters
        own = np.flatnonzero(~np.isnan(relevance).all(axis=0))
        order = own[np.argsort(-np.nanmax(relevance[:, own], axis=0), kind="stable")]
        labels = _names_of_kernels(estimator, len(found))
        return cls(names[order], relevance[:, order], matters[:, order], labels)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None, **kwargs: Any) -> Self:
        """Read the length-scales, and draw them as in `plot`."""
        return cls.compute(estimator).plot(ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, *, most: int = 20, **kwargs: Any) -> Self:
        """Draw at most so many columns, hollow where they do not matter.

        ``kwargs`` is the style of ``Axes.plot``.
        """
        if most < 1:
            raise ValueError(f"most must be at least 1, got {most}.")
        ax = axes_of(ax)
        names = self.names[:most]
        n_kernels, places = len(self.relevance), np.arange(len(names))
        self.lines_ = []
        for k, (relevance, matters) in enumerate(zip(self.relevance, self.matters, strict=True)):
            x, solid = relevance[:most], matters[:most]
            y = places + 0.5 * (k - 0.5 * (n_kernels - 1)) / n_kernels
            style = {
                "color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)],
                "linestyle": "none", "markersize": 7,
            } | kwargs  # fmt: skip
            label = self.kernels[k] if n_kernels > 1 else None
            ax.hlines(y, 0.0, x, color=style["color"], alpha=0.35, linewidth=2)
            (line,) = ax.plot(x[solid], y[solid], label=label, **style)
            ax.plot(x[~solid], y[~solid], **style | {"markerfacecolor": "white"})
            self.lines_.append(line)
        more = len(self.names) - len(names)
        ax.set_yticks(places, names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlim(left=0.0)
        ax.set_xlabel("Relevance: one over the length-scale,\nin standard deviations of the column"
                      + (f" ({more} less relevant columns left out)" if more else ""))  # fmt: skip
        if not self.matters[:, :most].all():
            ax.plot([], [], "o", color="0.3", markerfacecolor="white", label="does not matter")
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="lower right", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _names_of_kernels(estimator: Any, n_kernels: int) -> tuple[str, ...]:
    """The binary problems, or the classes, that have a kernel of their own."""
    problems = tuple(dict.fromkeys(run.problem for run in estimator.optimizer_report_.runs))
    if len(problems) == n_kernels:
        return problems
    if len(estimator.classes_) == n_kernels:
        return tuple(f"class {label!s}" for label in estimator.classes_)
    return tuple(f"kernel {k + 1}" for k in range(n_kernels))
