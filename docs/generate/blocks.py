"""Blocks of the pages that programs write, between two comments that name them."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(<!-- begin {re.escape(name)}: [^>]* -->\n)(.*?)(<!-- end {re.escape(name)} -->)", re.S
    )


def read_block(page: str, name: str) -> str:
    """Text of a block, without the comments around it."""
    found = _pattern(name).findall((DOCS / page).read_text(encoding="utf-8"))
    if len(found) != 1:
        raise ValueError(f"{page} must have one block {name!r}, it has {len(found)}")
    return str(found[0][1]).strip("\n")


def write_block(page: str, name: str, text: str) -> None:
    """Put text in the place of a block."""
    read_block(page, name)
    path = DOCS / page
    body = "\n" + text.strip("\n") + "\n\n"
    old = path.read_text(encoding="utf-8")
    path.write_text(
        _pattern(name).sub(lambda found: found[1] + body + found[3], old), encoding="utf-8"
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown table; columns after the first are centred on their figures by the theme."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
