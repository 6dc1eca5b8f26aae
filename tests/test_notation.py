"""docs/notation.md leads from each equation of the sources to a function that exists."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import gpclass

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", PAGE.split("## Equations")[1].split("| --- ")[-1], re.M
)
SYMBOLS = sorted(set(re.findall(r"`(\w+(?:\.\w+)+)`", PAGE.split("## Equations")[0])))
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


def at(name):
    """What a dotted name below gpclass leads to; None where it leads nowhere."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["gpclass", *parts[:k]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[k:]:
            found = getattr(found, attribute, None)
        return found
    return None


@pytest.mark.parametrize("name", LINKS)
def test_a_link_of_the_notation_page_is_alive(name):
    found = at(name)
    assert found is not None
    assert found.__doc__


def classes():
    """Every class of the library by its name."""
    names = [one.name for one in pkgutil.walk_packages(gpclass.__path__, "gpclass.")]
    modules = [importlib.import_module(one) for one in names if not one.endswith("__main__")]
    members = [pair for one in modules for pair in inspect.getmembers(one, inspect.isclass)]
    return {name: one for name, one in members if one.__module__.startswith("gpclass.")}


def has(owner, name):
    """Whether instances have an attribute: a field or what a class defines."""
    fields = [getattr(one, "__annotations__", {}) for one in inspect.getmro(owner)]
    return hasattr(owner, name) or any(name in each for each in fields)


def test_names_in_the_tables_of_symbols_are_alive():
    by_name, dead = classes(), []
    assert len(SYMBOLS) > 50
    for name in SYMBOLS:
        owner, *rest = name.split(".")
        if owner in by_name:
            alive = len(rest) == 1 and has(by_name[owner], rest[0])
        elif owner == "scaled":  # `DenseFactor.scaled`
            alive = all(has(by_name[one], *rest) for one in ("Definite", "QuasiDefinite"))
        else:
            alive = at(name) is not None
        if not alive:
            dead.append(name)
    assert not dead


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
