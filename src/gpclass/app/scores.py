"""The table of scores, for the terminal and for the page."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpclass.app.evaluation import Comparison


class Cell(NamedTuple):
    """The text of a score, and whether it is the best of its column."""

    text: str
    best: bool = False


class Column(NamedTuple):
    """Heading and unit of a score, its name, factor and decimals, and whether large is better.

    ``better``: -1 small, 1 large, 0 neither is marked.
    """

    heading: str
    score: str
    factor: float
    decimals: int
    better: int


COLUMNS = (
    Column("log loss\n(nats)", "log_loss", 1, 3, -1),
    Column("Brier\nscore", "brier", 1, 4, -1),
    Column("error\n(%)", "error", 100, 1, -1),
    Column("information\n(bits)", "information", 1, 3, 1),
    Column("log evidence\n(nats)", "log_evidence", 1, 1, 0),
    Column("seconds\na fold", "seconds", 1, 2, 0),
)


def comparison_rows(comparison: "Comparison") -> list[tuple[str, list[Cell]]]:
    """Mean and standard error over the folds of each model and score, as text."""

    def cell(folds: Any, column: Column) -> Cell:
        mean, error = folds[column.score].mean(), folds[column.score].sem()
        if mean != mean:
            return Cell("-")
        text = " ± ".join(f"{column.factor * x:.{column.decimals}f}" for x in (mean, error))
        means = [one.folds[column.score].mean() for one in comparison.models.values()]
        best = column.better and column.better * mean == max(column.better * x for x in means)
        return Cell(text, bool(best))

    return [
        (name, [cell(scores.folds, column) for column in COLUMNS])
        for name, scores in comparison.models.items()
    ]
