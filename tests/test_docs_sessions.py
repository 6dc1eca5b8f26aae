"""What the pages with sessions show is what their code prints."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="this copy has no docs folder")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["decisions.md", "tutorial.md"])
def test_the_code_prints_what_the_page_says(name):
    page = DOCS / name
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    example = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, str(page), 0)
    lines = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(example, out=lines.append)
    assert not lines, "".join(lines)
