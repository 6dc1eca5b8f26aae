"""The picture of `gpclass evaluate`, made without pyplot: no screen, no global state."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gpclass.decision.display import ErrorRejectDisplay, ReliabilityDisplay, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The palette of Okabe and Ito (2008), distinct for colour-blind readers; the rest is for print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (5, 2)), (0, (6, 2, 1, 2)), (0, (1, 1.2)))


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
    figure: Figure = require_matplotlib("matplotlib.figure").Figure(
        figsize=(11.5, 5.6), layout="constrained"
    )
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    reliability = figure.add_subplot(grid[0, 0])
    counts = figure.add_subplot(grid[1, 0], sharex=reliability)
    reject = figure.add_subplot(grid[:, 1])

    edges = np.linspace(0.0, 1.0, n_bins + 1)
    handles = []
    for i, proba in enumerate(y_prob.values()):
        # Models that agree lie on each other: the first is thin and on top, so that both show.
        style: dict[str, Any] = {
            "color": _COLOURS[i % len(_COLOURS)],
            "linestyle": _DASHES[i % len(_DASHES)],
            "linewidth": 1.4 if i == 0 else 2.6,
            "zorder": 3 + 1 / (1 + i),
        }
        # Equal widths and not quantiles: a good classifier is near 0 or 1 almost everywhere, and
        # the rare cases between are what the diagram is read for.
        bins = ReliabilityDisplay.bin_predictions(
            y_true, proba, labels=labels, n_bins=n_bins, strategy="uniform"
        )
        line = bins.plot(
            reliability,
            ref_line=i == 0,
            marker=_MARKERS[i % len(_MARKERS)],
            markersize=4.5 if i == 0 else 7.5,
            **style,
        ).line_
        handles.append(line)
        counts.stairs(np.histogram(bins.prob, bins=edges)[0], edges, **style)
        ErrorRejectDisplay.from_predictions(y_true, proba, labels=labels, ax=reject, **style)

    reliability.set(title="Reliability", xlabel="")
    reliability.tick_params(labelbottom=False)
    reliability.set_ylabel(f"Observed frequency of\n{bins.event}")
    counts.set_xlabel(f"Predicted probability of {bins.event}")
    counts.set_ylabel("Cases")
    counts.set_yscale("symlog", linthresh=1)
    counts.set_ylim(bottom=0)
    reject.set_title("Error-reject curve")
    for axes in (reliability, counts, reject):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    # One legend below the axes, where it hides no curve.
    figure.legend(
        handles, list(y_prob), loc="outside lower center", ncols=len(y_prob), frameon=False
    )
    if title is not None:
        figure.suptitle(title)
    return figure
