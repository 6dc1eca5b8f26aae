"""Figures on a terminal: by rich where it is installed, else in plain columns."""

import importlib.util
import sys

from benchmarks.figures import Figures

RICH = importlib.util.find_spec("rich") is not None


def show(figures: Figures, judged: bool) -> None:
    """Print the table, its notes, and whether each limit was kept."""
    if RICH:
        _show_rich(figures)
    else:
        _show_plain(figures)
    for note in figures.notes:
        print(f"  note: {note}")
    for limit in figures.limits:
        sense = "at most" if limit.at_most else "at least"
        verdict = ("kept" if limit.kept else "MISSED") if judged else "not judged in a dry run"
        print(f"  limit: {limit.what}: {limit.value:.4g}, {sense} {limit.bound:g}: {verdict}")
    print(flush=True)


def _show_rich(figures: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    print(figures.title)
    table = Table()
    for number, column in enumerate(figures.columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in figures.rows:
        table.add_row(*row)
    # a file or a pipe has no width of its own; the tables must not be folded there
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _show_plain(figures: Figures) -> None:
    lines = [figures.columns, *figures.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(figures.title)
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
