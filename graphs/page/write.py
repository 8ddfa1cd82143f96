"""A page as one HTML file that needs nothing else: no network, no server.

Text of graphs and models reaches the page as text alone: the template escapes it, the script sets it as text
content, and the page's own content security policy allows no script but the page's, and no connection.

The page's data are compressed blocks, opened in the browser when needed: of a run one with the list of its
questions, and blocks of `CHUNK` traces each, so that a page of thousands of questions opens at once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from triplewise.graphs.page.model import Cell, Page, Table
from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from jinja2 import Template

CHUNK = 100
"""Traces in a block."""
MOST = 200
"""Most answers of a question in the list."""
SCRIPTS = ("base.js", "terms.js", "code.js", "network.js", "question.js", "list.js", "charts.js", "main.js")
"""The page's script, in the order in which it is read."""

_FIGURE = re.compile(r"\s*[-−+~<>≤≥±$€£]?\s*\.?\d")
_WORD = re.compile(r"\w")


def render_page(page: Page) -> str:
    """Return the page as one HTML document.

    Raises:
        ConfigurationError: it has plots, and the extra `evals` that draws them is not installed.
    """
    template, script = _template()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    links = {}
    for run in page.runs:
        links[run.name] = f"#{quote(run.name, safe='')}"
        for question in run.questions:
            links[f"{run.name}/{question.id}"] = f"{links[run.name]}/{quote(question.id, safe='')}"
    return template.render(
        page=page,
        script=script,
        style=_read("page.css"),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}' blob:; base-uri 'none'; form-action 'none'",
        blocks=[{"id": name, "data": _compress(text)} for name, text in _blocks(page)],
        interval=interval,
        footnotes=footnotes,
        in_words=_columns_in_words,
        marks=_marks,
        link=lambda cell: links.get(cell.link, ""),
    )


def write_page(path: Path | str, page: Page) -> Path:
    """Write the page to a file, whole or not at all, and return where it is.

    Raises:
        DataError: the folder is missing or cannot be written.
        ConfigurationError: as `render_page`.
    """
    path = Path(path)
    check_place(path)
    content = render_page(page)
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"cannot write the page: {error.strerror or error}", path) from error
    return path


def check_place(path: Path) -> None:
    """Check that a page can be written there, before anything long begins.

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
    """Return the confidence interval of a cell, with as many decimals as its figure has; "" without one."""
    if cell.low is None or cell.high is None:
        return ""
    decimals = re.search(r"\.(\d+)", cell.text)
    places = len(decimals.group(1)) if decimals else 0
    return f"{cell.low:.{places}f}–{cell.high:.{places}f}"


def _blocks(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the blocks of data that the page's script reads."""
    for number, run in enumerate(page.runs):
        listed = [
            {
                "id": q.id,
                "question": q.question,
                "gold": _first(q.gold),
                "answer": _first(q.answer),
                "status": q.status,
                "score": q.score,
                "error": q.error_class,
                "tags": list(q.tags),
            }
            for q in run.questions
        ]
        about = [
            [name, value if isinstance(value, str) else _json(value)] for name, value in run.about.items()
        ]
        index = {"name": run.name, "metric": run.metric, "chunk": CHUNK, "about": about, "questions": listed}
        yield f"run-{number}", _json(index)
        for at in range(0, len(run.questions), CHUNK):
            yield f"run-{number}-{at // CHUNK}", _json([q.trace for q in run.questions[at : at + CHUNK]])
    if page.charts:
        try:
            from vl_convert import javascript_bundle
        except ImportError as error:
            raise ConfigurationError("plots need vl-convert: pip install 'triplewise[evals]'") from error
        yield "charts", _json([chart.spec for chart in page.charts])
        yield "vega", str(javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _json(value: Any) -> str:
    """Return a value as JSON; what JSON does not know, as a path or a date, is written as its text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _compress(text: str) -> str:
    """Return text as gzip in base64, which has no character that means anything in HTML.

    The same text gives the same bytes. Half a surrogate pair becomes `?`.
    """
    return base64.b64encode(gzip.compress(text.encode(errors="replace"), 6, mtime=0)).decode()


def _first(values: Sequence[str]) -> list[str]:
    """Return a list, its end in words where it is very long."""
    rest = len(values) - MOST
    return [*values[:MOST], *([f"… and {rest:,} more"] if rest > 0 else [])]


def _columns_in_words(table: Table) -> set[int]:
    """Return the indices of the columns, beside the first, that hold words and no figure."""
    texts = [(i, cell.text) for row in table.rows for i, cell in enumerate(row) if i]
    figures = {i for i, text in texts if _FIGURE.match(text)}
    return {i for i, text in texts if _WORD.search(text)} - figures


def _marks(table: Table) -> tuple[set[int], set[int]]:
    """Return the rows and columns that are published throughout: marked at their head, not in each cell."""
    rows = {i for i, row in enumerate(table.rows) if len(row) > 1 and all(cell.published for cell in row)}
    others = [row for i, row in enumerate(table.rows) if i not in rows]
    columns = {
        i
        for i in range(1, len(table.columns))
        if others and all(i < len(row) and row[i].published for row in others)
    }
    return rows, columns


def footnotes(table: Table) -> dict[str, int]:
    """Return the different notes of a table's cells, numbered from 1."""
    notes = dict.fromkeys(cell.note for row in table.rows for cell in row if cell.note)
    return {note: number for number, note in enumerate(notes, 1)}


def _read(name: str) -> str:
    """Return a file of this package."""
    return (files("triplewise.graphs.page") / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _template() -> tuple[Template, str]:
    """Return the template, which escapes all but what it marks as safe, and the page's whole script."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_read),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = "\n".join(map(_read, SCRIPTS))
    return environment.get_template("page.html.jinja"), f'"use strict";\n(() => {{\n{scripts}}})();\n'
