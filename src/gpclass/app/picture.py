"""Pictures of `gpclass evaluate` and of pages, made without pyplot: no screen, no global state."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gpclass.displays.drawing import COLOURS, DASHES, MARKERS, require_matplotlib
from gpclass.displays.probabilities import ErrorRejectDisplay, ReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def probability_figure(
    y_true: ArrayLike,
    y_prob: Mapping[str, ArrayLike],
    *,
    labels: ArrayLike | None = None,
    title: str | None = None,
    n_bins: int = 10,
) -> "Figure":
    """Matplotlib figure of reliability and error-reject curves side by side, one line a model.

    ``y_true`` (n,) are classes; ``y_prob`` has each named model's probabilities (n, C) of the same
    rows, columns in the order of ``labels`` (default: the sorted ``y_true``). The ``n_bins`` bins
    of the reliability diagram are of equal width.
    """
    if not y_prob:
        raise ValueError("there is no model to draw.")
    figure: Figure = _figure((11.5, 5.6))
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    reliability = figure.add_subplot(grid[0, 0])
    counts = figure.add_subplot(grid[1, 0], sharex=reliability)
    reject = figure.add_subplot(grid[:, 1])
    handles, _ = _draw_reliability(reliability, counts, y_true, y_prob, labels, n_bins)
    _draw_reject(reject, y_true, y_prob, labels)
    reliability.set_title("Reliability")
    reject.set_title("Error-reject curve")
    # One legend below the axes, where it hides no curve.
    figure.legend(
        handles, list(y_prob), loc="outside lower center", ncols=len(y_prob), frameon=False
    )
    if title is not None:
        figure.suptitle(title)
    return figure


def new_figure(height: float = 3.6) -> tuple[Any, Any]:
    """Return a figure of a page, and its axes: narrow, so that a phone does not shrink its text."""
    figure = _figure((4.6, height))
    axes = figure.subplots()
    _tidy(axes)
    return figure, axes


def reliability_figure(
    y_true: ArrayLike, y_prob: Mapping[str, ArrayLike], *, labels: ArrayLike, n_bins: int = 10
) -> tuple[Any, str]:
    """Reliability of several models for a page, and what the probabilities are of."""
    figure = _figure((4.6, 4.6 + 0.2 * len(y_prob)))
    reliability, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    handles, event = _draw_reliability(reliability, counts, y_true, y_prob, labels, n_bins)
    if len(y_prob) > 1:
        figure.legend(handles, list(y_prob), loc="outside lower center", frameon=False)
    return figure, event


def error_reject_figure(
    y_true: ArrayLike, y_prob: Mapping[str, ArrayLike], *, labels: ArrayLike
) -> Any:
    """Error-reject curves of several models for a page."""
    figure = _figure((4.6, 4.6 + 0.2 * len(y_prob)))
    axes = figure.subplots()
    handles = _draw_reject(axes, y_true, y_prob, labels)
    if len(y_prob) > 1:
        figure.legend(handles, list(y_prob), loc="outside lower center", frameon=False)
    return figure


def _figure(size: tuple[float, float]) -> Any:
    return require_matplotlib("matplotlib.figure").Figure(figsize=size, layout="constrained")


def _style(i: int) -> dict[str, Any]:
    """Style of a model's line.

    Models that agree lie on each other: the first is thin and on top, so that both show.
    """
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": DASHES[i % len(DASHES)],
        "linewidth": 1.4 if i == 0 else 2.6,
        "zorder": 3 + 1 / (1 + i),
    }


def _draw_reliability(
    reliability: Any,
    counts: Any,
    y_true: ArrayLike,
    y_prob: Mapping[str, ArrayLike],
    labels: ArrayLike | None,
    n_bins: int,
) -> tuple[list[Any], str]:
    """Draw a line a model, and the number of cases in each bin below; return lines and event."""
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    handles, event = [], ""
    for i, proba in enumerate(y_prob.values()):
        style = _style(i)
        # Equal widths and not quantiles: a good classifier is near 0 or 1 almost everywhere, and
        # the rare cases between are what the diagram is read for.
        bins = ReliabilityDisplay.bin_predictions(
            y_true, proba, labels=labels, n_bins=n_bins, strategy="uniform"
        )
        line = bins.plot(
            reliability,
            ref_line=i == 0,
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5 if i == 0 else 7.5,
            **style,
        ).line_
        handles.append(line)
        counts.stairs(np.histogram(bins.prob, bins=edges)[0], edges, **style)
        event = bins.event
    reliability.set(xlabel="")
    reliability.tick_params(labelbottom=False)
    reliability.set_ylabel(f"Observed frequency of\n{event}")
    counts.set_xlabel(f"Predicted probability of {event}")
    counts.set_ylabel("Cases")
    counts.set_yscale("symlog", linthresh=1)
    counts.set_ylim(bottom=0)
    # zero and the powers of ten would lie on each other
    counts.set_yticks([t for t in (1, 10, 100, 1000, 10000) if t <= counts.get_ylim()[1]])
    _tidy(reliability)
    _tidy(counts)
    return handles, event


def _draw_reject(
    reject: Any, y_true: ArrayLike, y_prob: Mapping[str, ArrayLike], labels: ArrayLike | None
) -> list[Any]:
    """Draw a curve a model."""
    handles = [
        ErrorRejectDisplay.from_predictions(
            y_true, proba, labels=labels, ax=reject, **_style(i)
        ).line_
        for i, proba in enumerate(y_prob.values())
    ]
    _tidy(reject)
    return handles


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
