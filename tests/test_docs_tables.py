"""The pages of the documentation say what the code does, and include tables that exist."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="this copy has no docs folder")


@pytest.fixture
def parts(monkeypatch):
    """Import a module beside the pages."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(DOCS / "parts"))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(DOCS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_laplace_refuses_the_likelihood_of_the_page(parts):
    lapses = parts("lapses").Lapses()
    from gpclass.inference import Laplace

    with pytest.raises(ValueError, match="log-concave"):
        Laplace()([[1.0]], [1], lapses)


def test_settings_of_the_likelihood_of_the_page(parts):
    with pytest.raises(ValueError, match="guess and lapse"):
        parts("lapses").Lapses(guess=0.0)


INCLUDED = re.compile(
    r'^```{include} (.*)\n:start-after: "(.*)"\n:end-before: "(.*)"\n```$', re.MULTILINE
)


def test_what_a_page_includes_is_there():
    found = 0
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        included = INCLUDED.findall(text)
        assert len(included) == text.count("{include}"), page
        for path, start, end in included:
            source = (DOCS / path).read_text(encoding="utf-8")
            assert source.count(start) == 1, (page.name, path, start)
            text = source.partition(start)[2].partition(end)[0].strip()
            assert text.startswith("| " if "table" in start else "- "), (page.name, path, start)
            assert text.count("\n") > 1
        found += len(included)
    assert found > 15


def test_every_outcome_is_explained():
    from gpclass.inference import Outcome

    for page in ("methods.md", "troubleshooting.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        missing = [
            o.name for o in Outcome if o.name not in text and (page[0] == "m" or not o.converged)
        ]
        assert not missing, page
    table = (DOCS / "methods.md").read_text(encoding="utf-8")
    for outcome in Outcome:
        assert re.search(rf"^\| `{outcome.name}` \| {outcome.converged} \|", table, re.M), outcome


def test_architecture_names_every_room_once():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^## The rooms\n(.*?)^## ", text, re.S | re.M)
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.M)
    named = re.findall(r"`([\w.]+)/?`", " ".join(first_cells))
    source = DOCS.parent / "src" / "gpclass"
    rooms = {path.name for path in source.iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert sorted(named) == sorted(rooms)


def strings_of(path):
    """Every string constant of a file; of an f-string, its constant pieces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is str]


def test_every_message_that_troubleshooting_quotes_exists():
    source = DOCS.parent / "src" / "gpclass"
    strings = [text for path in source.rglob("*.py") for text in strings_of(path)]
    headings = re.findall(
        r"^##? (.*)", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.M
    )
    quotes = [quote for heading in headings for quote in re.findall(r'"([^"]+)"', heading)]
    assert len(quotes) > 8
    for quote in quotes:
        pieces = [piece.strip() for piece in quote.split("...") if len(piece.strip()) > 3]
        for piece in pieces:
            assert any(piece in text for text in strings), quote
