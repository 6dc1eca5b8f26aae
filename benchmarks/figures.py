"""What a benchmark returns: a table to be read, limits that were judged, rows for the file."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Limit:
    """A promise about one figure.

    Parameters
    ----------
    what : str
    value : float
    bound : float
    at_most : bool, default=True
        Whether the bound is from above.
    """

    what: str
    value: float
    bound: float
    at_most: bool = True

    @property
    def kept(self) -> bool:
        """Whether the figure is within its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "what": self.what,
            "value": self.value,
            "bound": self.bound,
            "sense": "at most" if self.at_most else "at least",
            "kept": self.kept,
        }


@dataclass
class Figures:
    """One benchmark's results.

    Parameters
    ----------
    title : str
    columns : tuple of str
    rows : list of tuple of str
        The table.
    limits : list of Limit
    records : list of dict
        The same with full precision and every repetition.
    notes : list of str
        What the reader must know to read the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "records": self.records,
            "limits": [limit.to_dict() for limit in self.limits],
            "notes": self.notes,
        }


def seconds(value: float) -> str:
    """Format a time to three digits, with the unit that suits."""
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def times(value: float) -> str:
    """Format a ratio."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
