"""A self-contained page: text, tables and pictures, put into the template ``page.html``."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any, final

from gpclass._version import __version__
from gpclass.app.scores import Cell
from gpclass.app.tables import check_output, whole_file
from gpclass.displays.drawing import require_matplotlib


@final
@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of matplotlib with its heading, caption, and the text that stands in its place."""

    heading: str
    figure: Any
    alternative: str
    caption: str

    def html(self) -> str:
        """Return the figure as an element of the page, the picture inside it."""
        buffer = BytesIO()
        self.figure.savefig(buffer, format="png", dpi=160)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        width, height = (round(96 * inches) for inches in self.figure.get_size_inches())
        return (
            f"<figure>\n<h3>{escape(self.heading)}</h3>\n"
            f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
            f'alt="{escape(self.alternative)}">\n'
            f"<figcaption>{escape(self.caption)}</figcaption>\n</figure>"
        )


def check_page(path: Path, *read: Path) -> None:
    """Refuse a page that cannot be written or drawn, before the work."""
    require_matplotlib("matplotlib.figure")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"the page {path} must end in .html.")
    check_output(path, *read)


def write_page(path: Path, text: str) -> None:
    """Write a page; make its folder if need be."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def section(heading: str, *blocks: str) -> str:
    """Return a section of the page with its heading."""
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *blocks, "</section>"])


def paragraph(text: str) -> str:
    """Return a paragraph of text."""
    return f"<p>{escape(text)}</p>"


def findings(sentences: Iterable[str]) -> str:
    """Return a list of sentences."""
    items = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="findings">\n{items}\n</ul>'


def pictures(chosen: Iterable[Picture]) -> str:
    """Return pictures, side by side where the page is wide."""
    return f'<div class="pictures">\n{"".join(one.html() for one in chosen)}\n</div>'


def preformatted(text: str) -> str:
    """Return text as it is in a terminal; it can be scrolled by the keyboard."""
    return f'<pre tabindex="0">{escape(text)}</pre>'


def table(caption: str, headings: Sequence[str], rows: Iterable[tuple[str, list[Cell]]]) -> str:
    """Return a table whose first column names the rows; the best cells are strong."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_cell, cells))}</tr>'
        for name, cells in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">\n'
        f"<table>\n<caption><span>{escape(caption)}</span></caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    return f"<td><strong>{text}</strong></td>" if cell.best else f"<td>{text}</td>"


def whole_page(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """Return the page with its title."""
    template = Template(files("gpclass.app").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        sections="\n".join(sections),
        version=__version__,
    )
