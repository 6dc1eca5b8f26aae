"""The page of an experiment, its results as JSON, and the summary of all pages of a folder."""

import json
import math
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpclass._version import __version__
from gpclass.estimator.progress import duration
from gpclass.experiments.form import Experiment, Found, Published, Table, Verdict, judge
from gpclass.experiments.runner import Run, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX: Final = "index.md"
RULE: Final = (
    "A cell is **matched** where ours rounds to the published value, or is at most two standard "
    "errors from it, or the published value lies in the range of ours over draws; **near** at "
    "most five per cent, or two units of the last digit, from it; else **missed**. A claim in "
    "words holds (yes) or not."
)
QUICK: Final = (
    "This is a quick run: sizes are reduced, so that its numbers are no match for the paper's. It "
    "shows that everything runs."
)


def write_page(run: Run, folder: Path) -> dict[str, Any]:
    """Write NAME.md, its figures and NAME.json; return what the JSON file holds."""
    folder.mkdir(parents=True, exist_ok=True)
    record = record_of(run)
    name = run.experiment.name
    pictures, tables = [], {}
    if not run.left_out:
        tables = dict(run.experiment.tables(run.results))
        for i, (caption, figure) in enumerate(run.experiment.figures(run.results).items(), 1):
            pictures.append((f"{name}-{i}", caption))
            _draw(figure, folder / f"{name}-{i}")
    text = "\n\n".join(_page(run.experiment, record, tables, pictures))
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    (folder / f"{name}.json").write_text(_json(record) + "\n", encoding="utf-8")
    return record


def read_run(experiment: Experiment, folder: Path) -> Run:
    """Return the run on record in NAME.json, to write its page again without running it.

    Pieces whose arguments are others now are left out.

    Raises
    ------
    FileNotFoundError
        If there is no record.
    """
    record = json.loads((folder / f"{experiment.name}.json").read_text(encoding="utf-8"))
    pieces = experiment.pieces(record["size"])
    wanted = {piece.name: _rounded(plain(piece.arguments)) for piece in pieces}
    run = Run(experiment, record["size"], wanted)
    for name, arguments in wanted.items():
        piece = record["pieces"].get(name)
        if piece is None or piece.pop("arguments") != arguments:
            run.left_out[name] = record["left_out"].get(name, "it is not on record")
        else:
            run.pieces[name] = piece
    return run


def record_of(run: Run) -> dict[str, Any]:
    """What is kept of a run: cells with verdicts, pieces with seeds, results and seconds."""
    one = run.experiment
    ours = {
        place: value if isinstance(value, Found) else Found(value)
        for place, value in (one.found(run.results) if run.pieces else {}).items()
    }
    published = {(cell.row, cell.column): cell for cell in one.published}
    cells = [_cell(one, place, published.get(place), ours.get(place)) for place in published]
    cells += [_cell(one, place, None, ours[place]) for place in ours if place not in published]
    pieces = {
        name: {"arguments": run.arguments[name], **piece} for name, piece in run.pieces.items()
    }
    return {
        "experiment": one.name,
        "title": one.title,
        "source": one.source,
        "size": run.size,
        "gpclass": __version__,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "cpu_seconds": round(sum(piece["seconds"] for piece in run.pieces.values()), 1),
        "cells": cells,
        "left_out": run.left_out,
        "pieces": pieces,
    }


def _cell(
    one: Experiment, place: tuple[str, str], published: Published | None, found: Found | None
) -> dict[str, Any]:
    cell: dict[str, Any] = {"row": place[0], "column": place[1]}
    if published is not None:
        cell |= {"published": published.value, "resolution": published.resolution}
        cell |= {"published_error": published.error} if published.error else {}
        cell |= {"where": published.where} if published.where else {}
        verdict = judge(published, found)
        cell["verdict"] = verdict.value
        if verdict not in (Verdict.MATCHED, Verdict.NOT_RUN):
            cell["remark"] = one.remark(*place)
    if found is not None:
        cell["ours"] = found.value
        cell |= {"error": found.error} if found.error else {}
        cell |= {"spread": list(found.spread)} if found.spread is not None else {}
    return cell


def write_summary(folder: Path, order: Sequence[str]) -> Counter[str]:
    """Write the summary of the records of a folder; count the cells of each verdict."""
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (folder / f"{name}.json" for name in order)
        if path.exists()
    ]
    missing = sorted(set(order) - {record["experiment"] for record in records}, key=order.index)
    text = "\n\n".join(_summary(records, missing))
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")
    return sum((counts(record) for record in records), Counter())


def counts(record: dict[str, Any]) -> Counter[str]:
    """Cells of each verdict."""
    return Counter(cell["verdict"] for cell in record["cells"] if "verdict" in cell)


def _page(
    one: Experiment,
    record: dict[str, Any],
    tables: dict[str, Table],
    pictures: list[tuple[str, str]],
) -> Iterator[str]:
    yield f"# {one.title}"
    yield f"{one.source}. Written by `gpclass reproduce {one.name}`."
    if record["size"] == "quick":
        yield f"**{QUICK}**"
    yield f"## Settings\n\n{one.settings}"
    title = "Published and ours" if one.published else "In short"
    yield f"## {title}\n\n{_cells(record['cells'])}"
    reasons = [cell for cell in record["cells"] if cell.get("remark")]
    if reasons:
        yield "### What is not matched, and why\n\n" + _reasons([("", cell) for cell in reasons])
    if tables:
        yield "## Tables"
    for key, (caption, head, rows) in tables.items():
        text = _table([list(head), ["---"] * len(head), *map(list, rows)])
        # between the comments, what other pages include
        yield f"{caption}\n\n<!-- table {key} -->\n\n{text}\n\n<!-- end -->"
    if pictures:
        yield "## Figures"
    for name, caption in pictures:
        yield f"![{caption}]({name}.png)\n\n{caption} ([SVG]({name}.svg))."
    yield from _ending(record)


def _ending(record: dict[str, Any]) -> Iterator[str]:
    """What was left out, warnings, time."""
    if record["left_out"]:
        reasons = Counter(record["left_out"].values())
        lines = [f"- {n} of the pieces: {reason}" for reason, n in reasons.items()]
        yield "## Not run\n\n" + "\n".join(lines)
    warned: Counter[str] = Counter()
    for piece in record["pieces"].values():
        warned.update(piece["warnings"])
    if warned:
        lines = [f"- {n} times {message}" for message, n in warned.most_common(5)]
        yield "## Warnings\n\n" + "\n".join(lines)
    origins = Counter(piece["origin"] for piece in record["pieces"].values() if "origin" in piece)
    for origin, n in origins.items():
        yield f"{n} of the pieces were not run in this form: {origin}"
    yield (
        f"Pieces of work: {len(record['pieces'])}, {duration(record['cpu_seconds'])} of CPU time; "
        f"their seeds, results and seconds are in `{record['experiment']}.json`."
    )


def _summary(records: list[dict[str, Any]], missing: list[str]) -> Iterator[str]:
    yield "# The papers' figures and tables, reproduced"
    yield (
        "Each page shows what a paper prints beside what this library gets, run by `gpclass "
        f"reproduce --all`. {RULE}"
    )
    yield (
        "Exercises 3.10.1 to 3.10.5 of RW06 are `examples/rw06_exercise_*.py` of the repository; "
        "formulas that are misprinted are tested in `tests/test_papers.py`."
    )
    if any(record["size"] == "quick" for record in records):
        yield f"**{QUICK}**"
    verdicts = [verdict.value for verdict in Verdict]
    lines = [["experiment", "source", *verdicts, "CPU time"]]
    lines.append(["---"] * 2 + ["---:"] * (len(verdicts) + 1))
    own = [["experiment", "source", "CPU time"], ["---", "---", "---:"]]
    for record in records:
        found, time = counts(record), duration(record["cpu_seconds"])
        begin = [f"[{record['title']}]({record['experiment']}.md)", record["source"]]
        if found:
            lines.append([*begin, *(str(found[verdict]) for verdict in verdicts), time])
        else:
            own.append([*begin, time])
    total = sum((counts(record) for record in records), Counter())
    spent = duration(sum(record["cpu_seconds"] for record in records))
    lines.append(["all", "", *(f"**{total[verdict]}**" for verdict in verdicts), spent])
    yield _table(lines)
    if own[2:]:
        yield f"Comparisons of our own, for which no number is published:\n\n{_table(own)}"
    for verdict in (Verdict.MISSED, Verdict.NEAR):
        reasons = [
            (f"{record['experiment']}, ", cell)
            for record in records
            for cell in record["cells"]
            if cell.get("verdict") == verdict.value
        ]
        if reasons:
            yield f"## What is {verdict.value}\n\n{_reasons(reasons)}"
    if missing:
        yield "Not run here yet: " + ", ".join(missing) + "."
    names = "\n".join(record["experiment"] for record in records)
    yield f"```{{toctree}}\n:hidden:\n\n{names}\n```"


def _cells(cells: list[dict[str, Any]]) -> str:
    lines = [["", "", "published", "ours", "verdict"], ["---", "---", "---:", "---:", "---"]]
    for cell in cells:
        step = cell.get("resolution", 0.0)
        published = number(cell["published"], step) if "published" in cell else ""
        if "published_error" in cell:
            published += f" ± {number(cell['published_error'], step)}"
        verdict = cell.get("verdict", "")
        verdict = verdict if verdict in ("", Verdict.MATCHED) else f"**{verdict}**"
        row = cell["row"] + (f" ({cell['where']})" if "where" in cell else "")
        lines.append([row, cell["column"], published, _ours(cell), verdict])
    if not any("verdict" in cell for cell in cells):
        lines = [[row, column, ours] for row, column, _, ours, _ in lines]
    return _table(lines)


def _ours(cell: dict[str, Any]) -> str:
    """Our value one digit finer than the published one, with its error and range."""
    if "ours" not in cell:
        return ""
    step = cell.get("resolution", 0.0) / 10.0
    if not step and cell.get("error"):
        step = 10.0 ** math.floor(math.log10(cell["error"]))
    text = number(cell["ours"], step)
    if "error" in cell:
        text += f" ± {number(cell['error'], step)}"
    if "spread" in cell:
        low, high = (number(value, step) for value in cell["spread"])
        text += f" ({low} to {high})"
    return text


def _reasons(cells: list[tuple[str, dict[str, Any]]]) -> str:
    """A line a remark, with the cells (and what their names begin with) that it is about."""
    about: dict[str, list[str]] = {}
    for name, cell in cells:
        published = number(cell["published"], cell["resolution"])
        text = f"{name}{cell['row']}, {cell['column']}: published {published}, "
        about.setdefault(cell.get("remark", ""), []).append(f"{text}ours {_ours(cell) or 'none'}")
    return "\n".join(
        f"- {'; '.join(texts)}" + (f". {remark}" if remark else "")
        for remark, texts in about.items()
    )


def number(value: float | bool, step: float) -> str:
    """Print a value to a unit of its last digit, or to four digits where that is 0.

    >>> number(3.14159, 0.01), number(1e-12, 0.0), number(True, 1.0), number(21.0, 1.0)
    ('3.14', '1e-12', 'yes', '21')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if step <= 0.0:
        return f"{value:.4g}"
    digits = len(f"{step:.10f}".rstrip("0").partition(".")[2])
    return f"{value:.{digits}f}"


def _table(lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _draw(figure: "Figure", path: Path) -> None:
    """Save as PNG and as SVG; the same figure gives the same bytes."""
    import matplotlib

    figure.savefig(path.with_name(path.name + ".png"), dpi=110)
    with matplotlib.rc_context({"svg.hashsalt": "gpclass"}):
        figure.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})


def _json(record: dict[str, Any]) -> str:
    """Results to six digits, one line a cell and a piece."""
    short = _rounded(record)
    lines = []
    for key, value in short.items():
        if isinstance(value, dict) and key == "pieces":
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        elif isinstance(value, list):
            inner = ",\n".join(f"  {json.dumps(one)}" for one in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
