"""What the page on decisions shows is what its code prints."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "decisions.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs folder")
@pytest.mark.slow
def test_the_code_prints_what_the_page_says():
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    example = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    lines = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(example, out=lines.append)
    assert not lines, "".join(lines)
