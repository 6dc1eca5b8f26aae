"""The example of the README prints what the README says."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def example():
    found = blocks("python")
    assert len(found) == 1, "the README has one example"
    return found[0]


def test_the_example_prints_its_output(example):
    (output,) = blocks("text")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {"__name__": "example"})
    assert printed.getvalue() == output


def test_the_example_has_at_most_twenty_lines(example):
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 20


@pytest.mark.skipif(not (README.parent / "docs").is_dir(), reason="this copy has no docs folder")
def test_the_pages_it_links_to_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert targets
    missing = [target for target in targets if not (README.parent / target).is_file()]
    assert not missing
