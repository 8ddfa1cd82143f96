"""A page as one HTML file that needs nothing else: no network, no server.

Text of graphs and models reaches the page as text alone: the template escapes it, the script sets it as text
content, and the page's own content security policy allows no script but the page's, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from triplewise.graphs.page.model import Cell, Page, Table
from triplewise.graphs.page.pack import blocks_of
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from jinja2 import Template

SCRIPTS = ("base.js", "terms.js", "code.js", "network.js", "question.js", "list.js", "charts.js", "main.js")
"""The page's script, in the order in which it is read."""

_FIGURE = re.compile(r"\s*[-−+~<>≤≥±$€£]?\s*\.?\d")
_WORD = re.compile(r"\w")


def render_page(page: Page) -> str:
    """The page as one HTML document.

    Raises:
        ConfigurationError: it has plots, and the extra `evals` that draws them is not installed.
    """
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    blocks = list(blocks_of(page))
    links = _links(page)
    return _template().render(
        page=page,
        script=script,
        style=_read("page.css"),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}' blob:; base-uri 'none'; form-action 'none'",
        blocks=blocks,
        interval=interval,
        footnotes=_footnotes,
        in_words=_columns_in_words,
        marks=_marks,
        link=lambda cell: _link(cell, links),
    )


def write_page(path: Path | str, page: Page) -> Path:
    """Write the page to a file, whole or not at all; where it stands.

    Raises:
        DataError: the folder is missing or cannot be written.
        ConfigurationError: as `render_page`.
    """
    path = Path(path)
    check_place(path)
    content = render_page(page)
    place = path.resolve()
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.write_text(content, encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise DataError(f"cannot write the page: {error.strerror or error}", path) from error
    return path


def check_place(path: Path) -> None:
    """See that a page can be written there, before anything long begins.

    Raises:
        DataError: the folder is missing or cannot be written, or the path is a folder.
    """
    folder = path.parent
    if path.is_dir():
        raise DataError("is a folder; name a file in it, e.g. run.html", path)
    if not folder.is_dir():
        raise DataError(f"cannot write a page there: no folder {str(folder)!r}; make it first", path)
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise DataError("cannot write a page there: no permission; choose another place", path)


def interval(cell: Cell) -> str:
    """The confidence interval of a cell, with as many decimals as its figure has; "" without one."""
    if cell.low is None or cell.high is None:
        return ""
    decimals = re.search(r"\.(\d+)", cell.text)
    places = len(decimals.group(1)) if decimals else 0
    return f"{cell.low:.{places}f}–{cell.high:.{places}f}"


def _columns_in_words(table: Table) -> set[int]:
    """Indices of the columns, beside the first, that hold words and no figure."""
    cells: dict[int, list[str]] = {}
    for row in table.rows:
        for column, cell in enumerate(row):
            cells.setdefault(column, []).append(cell.text)
    figures = {i for i, texts in cells.items() if any(_FIGURE.match(text) for text in texts)}
    return {i for i, texts in cells.items() if any(_WORD.search(text) for text in texts)} - figures - {0}


def _marks(table: Table) -> tuple[set[int], set[int]]:
    """Rows and columns that are published throughout: marked once, at their head, not in each cell."""
    rows = {i for i, row in enumerate(table.rows) if len(row) > 1 and all(cell.published for cell in row)}
    others = [row for i, row in enumerate(table.rows) if i not in rows]
    columns = {
        i
        for i in range(1, len(table.columns))
        if others and all(i < len(row) and row[i].published for row in others)
    }
    return rows, columns


def _footnotes(table: Table) -> dict[str, int]:
    """The different notes of a table's cells, numbered from 1."""
    notes = dict.fromkeys(cell.note for row in table.rows for cell in row if cell.note)
    return {note: number for number, note in enumerate(notes, 1)}


def _links(page: Page) -> dict[str, str]:
    """`run` and `run/question` -> where on the page it is."""
    found = {}
    for run in page.runs:
        found[run.name] = f"#{quote(run.name, safe='')}"
        for question in run.questions:
            found[f"{run.name}/{question.id}"] = f"{found[run.name]}/{quote(question.id, safe='')}"
    return found


def _link(cell: Cell, links: Mapping[str, str]) -> str:
    """Where a cell leads to; "" if that is nowhere on this page."""
    return links.get(cell.link, "")


def _read(name: str) -> str:
    """A file of this package."""
    return (files("triplewise.graphs.page") / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _script() -> str:
    """The page's script, all of it, nothing of it visible outside."""
    parts = "\n".join(_read(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


@lru_cache(maxsize=1)
def _template() -> Template:
    """The template; all that is put into it is escaped but what the template itself marks as safe."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_read),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")
