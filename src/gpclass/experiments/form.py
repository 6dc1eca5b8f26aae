"""What an experiment is: published values, pieces of work, what these give, a verdict a cell."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, final

from gpclass.displays.drawing import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["quick", "full"]
# (row, column) of a table
Place = tuple[str, str]
# name of a piece -> what it returned, as JSON gives it back (arrays are lists)
Results = Mapping[str, Any]
# caption, head, rows
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]

# A value that is not matched is near within this part of the published one, or two last digits.
NEAR: Final = 0.05


@final
@dataclass(frozen=True)
class Published:
    """A value that a paper prints.

    Parameters
    ----------
    row, column : str
        The cell of our page. A claim in words is a row, with a bool for its value.
    value : float or bool
    resolution : float
        Unit of the last digit that is printed: 0.1 of 3.1.
    error : float, default=0.0
        Its standard error, where the paper prints one.
    where : str, default=""
        The place in the paper, where it is not that of the whole experiment.
    """

    row: str
    column: str
    value: float | bool
    resolution: float = 1.0
    error: float = 0.0
    where: str = ""


@final
@dataclass(frozen=True)
class Found:
    """What we get for a cell: the value, its standard error, the range of it over draws."""

    value: float | bool
    error: float = 0.0
    spread: tuple[float, float] | None = None


class Verdict(StrEnum):
    """How a cell compares with the published one."""

    MATCHED = "matched"
    NEAR = "near"
    MISSED = "missed"
    NOT_RUN = "not run"


def judge(published: Published, found: Found | None) -> Verdict:
    """Compare a cell with the published one.

    Matched: ours rounds to the published value, or differs by at most two standard errors, or the
    published value lies in the range of ours over draws. Near: ours differs by at most five per
    cent of the published value, or two units of its last digit. A claim holds or is missed.

    Examples
    --------
    >>> cell = Published("EP", "errors (%)", 3.1, resolution=0.1)
    >>> [judge(cell, Found(value)).value for value in (3.14, 3.28, 4.0)]
    ['matched', 'near', 'missed']
    >>> judge(cell, Found(3.6, error=0.3)).value, judge(cell, None).value
    ('matched', 'not run')
    """
    if found is None:
        return Verdict.NOT_RUN
    if isinstance(published.value, bool):
        return Verdict.MATCHED if found.value == published.value else Verdict.MISSED
    distance = abs(found.value - published.value)
    # a little more than half a unit: 0.25 and 0.3 differ by 0.04999... or by 0.0500...1
    if distance <= published.resolution * (0.5 + 1e-9):
        return Verdict.MATCHED
    if distance <= 2.0 * math.hypot(found.error, published.error):
        return Verdict.MATCHED
    if found.spread is not None and found.spread[0] <= published.value <= found.spread[1]:
        return Verdict.MATCHED
    tolerance = max(NEAR * abs(published.value), 2.0 * published.resolution * (1.0 + 1e-9))
    return Verdict.NEAR if distance <= tolerance else Verdict.MISSED


@final
@dataclass(frozen=True)
class Piece:
    """A piece of work, which needs no other piece.

    Parameters
    ----------
    name : str
        Its key in the results.
    run : callable
        A function of a module: ``run(*tables, **arguments)`` with the data that `data` names. It
        returns what JSON can hold, or arrays. Its result is kept until its own source, or the
        arguments, change; it is not seen when a function that it calls changes.
    arguments : mapping, default={}
        Numbers, text and sequences of them; seeds too.
    data : tuple of str, default=()
        Names that `gpclass.app.reproduce.load` knows.
    cost : float, default=1.0
        About the seconds that it takes, for the time that is left.
    """

    name: str
    run: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    cost: float = 1.0


def _none(results: Results) -> Mapping[str, Any]:
    return {}


@final
@dataclass(frozen=True)
class Experiment:
    """A figure, a table or an exercise of a paper, or a comparison of our own.

    Parameters
    ----------
    name : str
        As it is typed: "rw06-3.7".
    title, source : str
        What it shows; paper, figure or table, and page.
    settings : str
        Markdown: what the paper says, what it leaves open, and what we chose there.
    published : tuple of Published
    pieces : callable
        Of "quick" (at most 20 s on one core) or "full".
    found : callable
        Of the results of those pieces that were run: a Found or a number for each (row, column)
        that they suffice for. Rows that the paper has not are shown without a verdict.
    figures : callable, default=no figures
        Of the results: caption -> matplotlib Figure. They are drawn where every piece was run.
    remarks : mapping, default={}
        The likely reason of what is not matched: of a (row, column), a row, a column, or "" for
        all others.
    tables : callable, default=no tables
        Of the results, where every piece was run: key -> caption, head and rows. Other pages
        include a table of the experiment's page by its key.
    """

    name: str
    title: str
    source: str
    settings: str
    published: tuple[Published, ...]
    pieces: Callable[[Size], Iterable[Piece]]
    found: Callable[[Results], Mapping[Place, Found | float | bool]]
    figures: Callable[[Results], Mapping[str, "Figure"]] = _none
    remarks: Mapping[Place | str, str] = field(default_factory=dict)
    tables: Callable[[Results], Mapping[str, Table]] = _none

    def remark(self, row: str, column: str) -> str:
        """Return the reason given for a cell, empty where there is none."""
        keys = ((row, column), row, column, "")
        return next((self.remarks[key] for key in keys if key in self.remarks), "")


def panels(rows: int, columns: int, size: float = 3.6) -> tuple["Figure", Any]:
    """A figure with an array of axes, (rows, columns), each about `size` inches wide."""
    figure = require_matplotlib("matplotlib.figure").Figure(
        figsize=(size * columns, 0.85 * size * rows), layout="constrained"
    )
    return figure, figure.subplots(rows, columns, squeeze=False)
