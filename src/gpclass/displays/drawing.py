"""What all displays draw with: matplotlib when it is asked for, and colours."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The palette of Okabe and Ito (2008), distinct for colour-blind readers; the rest is for print.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
DASHES: Final = ("-", (0, (5, 2)), (0, (6, 2, 1, 2)), (0, (1, 1.2)))


def require_matplotlib(module: str) -> Any:
    """Import a module of matplotlib, or raise an ImportError with the pip line to type."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib; install it with: pip install 'gpclass[cli]'"
        ) from error


def legend_above(ax: Any, columns: int = 3) -> None:
    """Draw a legend above the axes, where it hides nothing."""
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        frameon=False,
        columnspacing=1.0,
        handletextpad=0.3,
        borderpad=0.2,
    )


def mark_dates(axis: Any, values: Any) -> None:
    """Mark dates so that they do not lie on each other; numbers stay as they are."""
    if values.dtype.kind == "M":
        dates = require_matplotlib("matplotlib.dates")
        locator = dates.AutoDateLocator(maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator))


def axes_of(ax: "Axes | None") -> "Axes":
    """Return `ax`, or the axes of a new pyplot figure, which notebooks show by themselves."""
    if ax is not None:
        return ax
    axes: Axes = require_matplotlib("matplotlib.pyplot").subplots()[1]
    return axes
