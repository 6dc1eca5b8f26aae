"""The tables of a run as they stand in the documentation.

``python -m benchmarks.page RESULT.json`` writes them into docs/benchmarks.md between its marks,
so that no figure there is typed by hand. Tables of further results replace those of the first, each
with its commit.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

from benchmarks.multiclass import limits_of

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- tables: written by benchmarks.page -->"
END: Final = "<!-- end of the tables -->"


def markdown(result: dict[str, Any], *further: dict[str, Any]) -> str:
    """Every table of a run, its notes and its limits; tables of further runs in their place."""
    lines = [_how(result), ""]
    tables = {name: (figures, "") for name, figures in result["benchmarks"].items()}
    for other in further:
        how = f" {_how(other)}"
        tables |= {name: (figures, how) for name, figures in other["benchmarks"].items()}
    for name, (figures, how) in tables.items():
        lines += [f"### {name}", "", f"{figures['title']}.{how}", ""]
        lines += _table(figures["columns"], figures["rows"])
        lines += [f"- {note}" for note in figures["notes"]]
        lines += [""] if figures["notes"] else []
        judged = figures["limits"]
        if name == "classes":
            # by the limits of today, which an older record does not have
            judged = [limit.to_dict() for limit in limits_of(figures["records"])]
        if judged:
            limits = [
                (
                    limit["what"],
                    f"{limit['value']:.4g}",
                    f"{limit['sense']} {limit['bound']:g}",
                    "kept" if limit["kept"] else "**missed**",
                )
                for limit in judged
            ]
            lines += _table(("limit", "measured", "promised", ""), limits)
    return "\n".join(lines)


def _how(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"Measured {machine['date'][:10]} at commit {machine['commit']} on {machine['processor']}, "
        f"{machine['cores']} cores, OMP_NUM_THREADS={result['omp_num_threads']}, Python "
        f"{machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}, scikit-learn "
        f"{machine['scikit-learn']}; {result['repeat']} repetitions."
    )


def _table(columns: Any, rows: Any) -> list[str]:
    head = [_row(columns), "| --- |" + " ---: |" * (len(columns) - 1)]
    return [*head, *(_row(row) for row in rows), ""]


def _row(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def replaced(page: str, tables: str) -> str:
    """The page with other tables between its marks.

    Raises
    ------
    ValueError
        Where the page does not have each mark once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must have {BEGIN!r} and {END!r} once each")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="files under benchmarks/results")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to (default: %(default)s)")
    options = parser.parse_args(arguments)
    results = [json.loads(path.read_text()) for path in options.results]
    for path, result in zip(options.results, results, strict=True):
        without = [name for name, figures in result["benchmarks"].items() if "rows" not in figures]
        if without:
            parser.error(f"{path} is of an older form, without rows: {', '.join(without)}")
    options.page.write_text(replaced(options.page.read_text(), markdown(*results)))
    print(f"written: {options.page}")


if __name__ == "__main__":
    main()
