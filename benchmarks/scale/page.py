"""Tables of ``docs/scale.md`` beside others: ``python -m benchmarks.scale.page``."""

import json
from typing import Any, Final

from benchmarks.quality.page import DOCS, markdown, write
from benchmarks.scale.models import MODELS
from benchmarks.scale.run import RESULTS
from benchmarks.scale.tables import TABLES

PAGE: Final = DOCS / "scale.md"
OURS: Final = ("gpclass", "gpclass, one length-scale")
SVGP: Final = "GPyTorch SVGP"
WITHOUT_POINTS: Final = (
    "gpclass, exact on 2,000 rows",
    "logistic regression",
    "histogram boosting",
    "CatBoost",
    "GPBoost",
)

Line = dict[str, Any]


def chosen(lines: list[Line]) -> list[Line]:
    """The last line of each model, number of points and of rows; of SVGP's epochs two.

    They are the last within the CPU time of ours with as many points, and the last.
    """
    last = {(one["model"], one["inducing"], one["n"]): one for one in lines}
    ours: dict[int, float] = {}
    for (model, m, _), one in last.items():
        if model in OURS:
            ours[m] = max(ours.get(m, 0.0), one["cpu_seconds"])
    found = []
    for (model, m, n), one in last.items():
        if model == SVGP and m in ours:
            within = [
                each
                for each in lines
                if (each["model"], each["inducing"], each["n"]) == (model, m, n)
                and each["cpu_seconds"] <= ours[m]
            ]
            found += [each for each in within[-1:] if each is not one]
        found.append(one)
    order = list(MODELS)
    return sorted(found, key=lambda one: (order.index(one["model"]), one["inducing"], -one["n"]))


def table(lines: list[Line]) -> str:
    """The lines of one table as they are shown."""
    most = max(one["n"] for one in lines)
    rows = []
    for one in chosen(lines):
        model = one["model"] + (f", {one['n']:,} rows" if one["n"] < most else "")
        points = "" if one["model"] in WITHOUT_POINTS else str(one["inducing"])
        numbers = [
            f"{one['cpu_seconds']:.{0 if one['cpu_seconds'] > 9.5 else 1}f}",
            f"{one['log_loss']:.4f}",
            f"{100 * one['error']:.2f} %",
            f"{one['calibration']:.4f}",
            f"{one['memory_gb']:.1f} GB",
        ]
        rows.append([f"**{model}**" if one["model"] in OURS else model, points, *numbers])
    head = ["model", "points", "CPU seconds", "log loss", "error", "calibration error", "memory"]
    return markdown(head, rows)


def main() -> None:
    """Write the page."""
    lines = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    text = PAGE.read_text(encoding="utf-8")
    names = [one for one in TABLES if f"<!-- begin {one}:" in text]
    write({name: table([one for one in lines if one["table"] == name]) for name in names}, PAGE)


if __name__ == "__main__":
    main()
