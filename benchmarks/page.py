"""The tables of a run as they stand in the documentation.

``python -m benchmarks.page RESULT.json`` writes them into docs/benchmarks.md between its marks,
so that no figure there is typed by hand.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- tables: written by benchmarks.page -->"
END: Final = "<!-- end of the tables -->"


def markdown(result: dict[str, Any]) -> str:
    """Every table of a run, its notes and its limits."""
    machine = result["machine"]
    lines = [
        f"Measured {machine['date'][:10]} at commit {machine['commit']} on {machine['processor']}, "
        f"{machine['cores']} cores, OMP_NUM_THREADS={result['omp_num_threads']}, Python "
        f"{machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}, scikit-learn "
        f"{machine['scikit-learn']}; {result['repeat']} repetitions.",
        "",
    ]
    for name, figures in result["benchmarks"].items():
        lines += [f"### {name}", "", figures["title"] + ".", ""]
        lines += _table(figures["columns"], figures["rows"])
        lines += [f"- {note}" for note in figures["notes"]]
        lines += [""] if figures["notes"] else []
        if figures["limits"]:
            limits = [
                (
                    limit["what"],
                    f"{limit['value']:.4g}",
                    f"{limit['sense']} {limit['bound']:g}",
                    "kept" if limit["kept"] else "**missed**",
                )
                for limit in figures["limits"]
            ]
            lines += _table(("limit", "measured", "promised", ""), limits)
    return "\n".join(lines)


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
    parser.add_argument("result", type=Path, help="a file under benchmarks/results")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to (default: %(default)s)")
    options = parser.parse_args(arguments)
    result = json.loads(options.result.read_text())
    without = [name for name, figures in result["benchmarks"].items() if "rows" not in figures]
    if without:
        parser.error(f"{options.result} is of an older form, without rows: {', '.join(without)}")
    options.page.write_text(replaced(options.page.read_text(), markdown(result)))
    print(f"written: {options.page}")


if __name__ == "__main__":
    main()
