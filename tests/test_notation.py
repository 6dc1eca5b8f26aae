"""docs/notation.md leads from each equation of the sources to a function that exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", PAGE.split("## Equations")[1].split("| --- ")[-1], re.M
)
LINKS = sorted({name for _, cell in ROWS for name in re.findall(r"`([\w.]+)`", cell)})


def numbers(text):
    """Equations and algorithms that a text names, as {("RW06", "3.26"), ...}."""
    found, source = set(), ""
    for token in re.findall(r"RW06|KG06|GTS19|B06|\d+(?:\.\d+)?(?: (?:to|-) \d+(?:\.\d+)?)?", text):
        if not token[0].isdigit():
            source = token
            continue
        first, *last = re.split(r" (?:to|-) ", token)
        whole, _, part = first.rpartition(".")
        end = int(last[0].rpartition(".")[2]) if last else int(part)
        for number in range(int(part), end + 1):
            found.add((source, f"{whole}.{number}" if whole else str(number)))
    return found


@pytest.mark.parametrize("name", LINKS)
def test_a_link_of_the_notation_page_is_alive(name):
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["gpclass", *parts[:k]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[k:]:
            found = getattr(found, attribute)
        assert found.__doc__
        return
    raise AssertionError(f"no module of gpclass has {name}")


def test_every_equation_that_the_code_cites_is_on_the_notation_page():
    listed = set().union(*(numbers(cell) for cell, _ in ROWS))
    cited = {}
    pattern = r"(RW06|KG06|GTS19|B06),? (?:eq\.|Algorithms?) (\d[\d. to,and-]*\d|\d)"
    for path in (ROOT / "src").rglob("*.py"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for source, equations in re.findall(pattern, text):
            for one in re.split(r", | and ", equations):
                for pair in numbers(f"{source} {one}"):
                    cited.setdefault(pair, path.name)
    assert len(cited) > 40
    missing = {pair: where for pair, where in cited.items() if pair not in listed}
    assert not missing
