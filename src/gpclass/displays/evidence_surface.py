"""The evidence over two hyperparameters, and the path of the optimiser."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray

from gpclass.displays.drawing import axes_of, legend_above, require_matplotlib
from gpclass.displays.tables import check_model
from gpclass.estimator.evidence import evidence_at
from gpclass.estimator.labels import labels_of_theta
from gpclass.exceptions import NotPositiveDefiniteError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# How far below the best point the lines are, in nats; rounder steps where the surface is deeper.
DROPS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


@final
@dataclass(eq=False)
class EvidenceSurfaceDisplay:
    """Log evidence over two hyperparameters, all others as they were learnt.

    Make it with :meth:`from_estimator`, or :meth:`compute` without drawing. The evaluations of the
    optimiser are drawn as their two entries of theta; the others moved too, so their evidence is
    not that of the surface there. With a prior over hyperparameters, as the default kernel has,
    learning ends at the maximum of the product, and not at that of the evidence.

    Parameters
    ----------
    parameters : tuple of two str
        Names as in ``optimizer_report_.parameter_names``: x and y.
    x, y : ndarray of shape (m,), (k,)
        Values of the two hyperparameters, on their own scale.
    log_evidence : ndarray of shape (k, m)
        In nats; NaN where it cannot be evaluated.
    learnt : tuple of two floats
    path : ndarray of shape (e, 2)
        The evaluations of the best run, empty where nothing was learnt.
    labels : tuple of two str
        Of which column it is the length-scale (as the kernel takes the column: standardised, by
        the default kernel), or of which part of the kernel the variance.

    Attributes
    ----------
    ax_, figure_, surface_, path_ : matplotlib Axes, Figure, ContourSet and Line2D
        What the last call to :meth:`plot` drew.

    References
    ----------
    RW06 section 3.7.1, Figure 3.7.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.displays import EvidenceSurfaceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier(1.0 * RBF(1.0), inference="laplace").fit(X[50:], y[50:])
    >>> surface = EvidenceSurfaceDisplay.compute(model, n_points=5)
    >>> surface.parameters, surface.log_evidence.shape
    (('k1__constant_value', 'k2__length_scale'), (5, 5))
    >>> bool(surface.log_evidence.max() <= model.log_marginal_likelihood_value_ + 1e-6)
    True
    """

    parameters: tuple[str, str]
    x: Array
    y: Array
    log_evidence: Array
    learnt: tuple[float, float]
    path: Array
    labels: tuple[str, str]

    @classmethod
    def compute(
        cls,
        estimator: Any,
        parameters: tuple[Any, Any] | None = None,
        *,
        n_points: int = 21,
        reach: float = 2.0,
        problem: int = 0,
    ) -> Self:
        """Evaluate the evidence without drawing it (which needs no matplotlib).

        Parameters
        ----------
        estimator : GaussianProcessClassifier
            Fitted.
        parameters : pair of str or int, default=None
            Names of two hyperparameters, or their positions in theta. None: the two that learning
            moved farthest, or the first two.
        n_points : int, default=21
            Values of each; the evidence is evaluated at the square of it.
        reach : float, default=2.0
            The surface goes so far to both sides of what was learnt, in logarithms, and farther
            where the path did, within the bounds.
        problem : int, default=0
            Which binary problem, where there are several.

        Raises
        ------
        TypeError, ValueError
            For an estimator that is none of ours, and for wrong parameters or numbers.
        """
        check_model(estimator)
        if n_points < 2:
            raise ValueError(f"n_points must be at least 2, got {n_points}.")
        if not (np.isfinite(reach) and reach > 0):
            raise ValueError(f"reach must be a positive number, got {reach}.")
        models = estimator.models_
        if not 0 <= problem < len(models):
            raise ValueError(f"problem must be from 0 to {len(models) - 1}, got {problem}.")
        model = models[problem]
        free = model.problem.hyperparameters
        theta, bounds = free.theta, free.bounds
        runs = [run for run in model.learned.runs if np.isfinite(run.log_evidence)]
        path = np.empty((0, len(theta)))
        if runs:
            path = max(runs, key=lambda run: run.log_evidence).path
        a, b = _pair(parameters, free.names, path)
        axes = [_axis(theta[j], path[:, j], bounds[j], reach, n_points) for j in (a, b)]
        surface = np.empty((n_points, n_points))
        for row, v in enumerate(axes[1]):
            for column, u in enumerate(axes[0]):
                there = theta.copy()
                there[[a, b]] = u, v
                surface[row, column] = _evidence(model, there)
        names = (free.names[a], free.names[b])
        said = labels_of_theta(estimator, model.problem)
        labels = (said[a], said[b])
        ends = (float(np.exp(theta[a])), float(np.exp(theta[b])))
        x, y = np.exp(axes)
        return cls(names, x, y, surface, ends, np.exp(path[:, [a, b]]), labels)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameters: tuple[Any, Any] | None = None,
        *,
        ax: "Axes | None" = None,
        **options: Any,
    ) -> Self:
        """Evaluate the evidence, with the options of `compute`, and draw it on axes ``ax``."""
        return cls.compute(estimator, parameters, **options).plot(ax)

    def plot(self, ax: "Axes | None" = None, *, path: bool = True, **kwargs: Any) -> Self:
        """Draw the surface, in the style ``kwargs`` of ``Axes.contourf``, and the path."""
        ax = axes_of(ax)
        top = float(np.nanmax(self.log_evidence))
        below = top - float(np.nanmin(self.log_evidence))
        drops = [drop for drop in DROPS if drop < below] or [0.5 * below or 1.0]
        levels = [top - below - 1e-9, *[top - drop for drop in drops[::-1]], top + 1e-9]
        style = {"cmap": "Blues", "levels": levels} | kwargs
        # by order and not by height, so that the steps near the top show
        colours = np.linspace(0.05, 0.85, len(levels) - 1)
        if "colors" not in style and isinstance(style["cmap"], str):
            from_map = require_matplotlib("matplotlib").colormaps[style.pop("cmap")]
            style["colors"] = [from_map(value) for value in colours]
        ax.set(xscale="log", yscale="log")
        values = np.ma.masked_invalid(self.log_evidence)
        self.surface_ = ax.contourf(self.x, self.y, values, **style)
        bar = ax.figure.colorbar(self.surface_, ax=ax, ticks=levels[1:-1])
        bar.ax.set_yticklabels([f"{-drop:g}" for drop in drops[::-1]])
        bar.set_label(f"Log evidence less its best\non the grid, {top:.1f} nats")
        self.path_ = None
        if path and len(self.path):
            start = self.path[0]
            (self.path_,) = ax.plot(
                *self.path.T, color="black", linewidth=0.9, marker=".", markersize=5, zorder=3,
                label=f"{len(self.path)} evaluations",
            )  # fmt: skip
            ax.plot(*start, "o", color="black", markerfacecolor="white", markersize=8, zorder=4,
                    label="first")  # fmt: skip
        ax.plot(*self.learnt, "*", color="#D55E00", markeredgecolor="white", markersize=17,
                zorder=5, label="learnt")  # fmt: skip
        for axis, grid in ((ax.xaxis, self.x), (ax.yaxis, self.y)):
            axis.set_major_locator(_ticker().LogLocator(subs=_marks(grid), numticks=99))
            axis.set_major_formatter(_ticker().FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(_ticker().NullLocator())
        ax.set_xlim(self.x[0], self.x[-1])
        ax.set_ylim(self.y[0], self.y[-1])
        ax.set_xlabel(self.labels[0])
        ax.set_ylabel(self.labels[1])
        legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _ticker() -> Any:
    return require_matplotlib("matplotlib.ticker")


def _marks(values: Array) -> tuple[float, ...]:
    """Marks in each decade, fewer of many decades."""
    decades = np.log10(values[-1] / values[0])
    return (1.0,) if decades > 4 else (1.0, 3.0) if decades > 1.5 else (1.0, 2.0, 5.0)


def _evidence(model: Any, theta: Array) -> float:
    """Evidence at theta, NaN where the kernel is not positive definite or overflows."""
    try:
        return float(evidence_at([model], theta, False).log_evidence)
    except (NotPositiveDefiniteError, ArithmeticError):
        return np.nan


def _axis(learnt: float, path: Array, bounds: Array, reach: float, n: int) -> Array:
    """Logarithms from below what was learnt and seen to above it, within the bounds."""
    low = min(learnt - reach, *(path - 0.2)) if path.size else learnt - reach
    high = max(learnt + reach, *(path + 0.2)) if path.size else learnt + reach
    return np.linspace(max(low, bounds[0]), min(high, bounds[1]), n)


def _pair(wanted: Any, names: tuple[str, ...], path: Array) -> tuple[int, int]:
    """Positions of two hyperparameters in theta."""
    if len(names) < 2:
        raise ValueError(f"a surface needs two free hyperparameters, and the model has {names}.")
    if wanted is None:
        if not path.size:
            return 0, 1
        moved = np.abs(path[-1] - path[0])
        first, second = sorted(np.argsort(-moved, kind="stable")[:2].tolist())
        return first, second
    found = []
    for one in wanted:
        if isinstance(one, str) and one in names:
            found.append(names.index(one))
        elif isinstance(one, int | np.integer) and 0 <= one < len(names):
            found.append(int(one))
        else:
            raise ValueError(f"parameters has {one!r}, which is none of {', '.join(names)}.")
    if len(found) != 2 or found[0] == found[1]:
        raise ValueError(f"parameters must be two different hyperparameters, got {wanted!r}.")
    return found[0], found[1]
