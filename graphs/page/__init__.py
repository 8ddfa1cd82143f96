"""The page of a run or of an evaluation: one HTML file that needs nothing else, no network, no server.

What a page shows is text or JSON, and never taken for HTML: the template escapes it, the script sets it as
text content, and the content security policy allows no other script and no connection.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import write_text, writing

CHUNK, MOST = 100, 200
"""Traces in a block; most answers of a question in the list."""
SCRIPTS = ("base.js", "terms.js", "code.js", "network.js", "question.js", "list.js", "main.js")
"""The page's script, in the order in which it is read."""
SERVICE_SCRIPTS = (*SCRIPTS[:5], "service.js")
"""The script of the web service's page, which draws an answer as the page of a run does."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: `text`, a `detail` under it, and a `note` that is set under the table.

    `published`: the figure is another's. `best`: to be set off. `low`, `high`: confidence interval in the
    unit of `text`. `number`: to sort by, where `text` is none. `link`: `run` or `run/question` to open.
    """

    text: str
    detail: str = ""
    published: bool = False
    best: bool = False
    low: float | None = None
    high: float | None = None
    number: float | None = None
    link: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a row has as many cells as columns, and the first names it; `note` stands under it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a run: `id` is unique in it, `gold` are the right answers as text, as far as known.

    `answer`: labels. `status`: of an `Answer`, or crashed. `score`: in [0, 1] by the task's own metric.
    `error_class`: why it went wrong. `tags`: to filter by. `trace`: as `trace_of` has it, {} for none.
    """

    id: str
    question: str
    gold: Sequence[str] = ()
    answer: Sequence[str] = ()
    status: str = ""
    score: float | None = None
    error_class: str = ""
    tags: Sequence[str] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunBlock:
    """The questions of a run; `name` is unique on the page, `about` its provenance, `metric` e.g. `F1`."""

    name: str
    about: Mapping[str, Any] = field(default_factory=dict)
    questions: Sequence[Question] = ()
    metric: str = "score"


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `notes` stand before anything else, e.g. that a graph is partial."""

    title: str
    subtitle: str = ""
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    runs: Sequence[RunBlock] = ()


def render_page(page: Page) -> str:
    """Return the page as one HTML document."""
    links = {}
    for run in page.runs:
        links[run.name] = f"#{quote(run.name, safe='')}"
        links |= {f"{run.name}/{q.id}": f"{links[run.name]}/{quote(q.id, safe='')}" for q in run.questions}
    script = _script(SCRIPTS)
    return _render(
        "page.html.jinja",
        page=page,
        script=script,
        style=_read("page.css"),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'",
        blocks=_blocks(page),
        interval=interval,
        footnotes=footnotes,
        in_words=_columns_in_words,
        link=lambda cell: links.get(cell.link, ""),
    )


def render_service(graph: str, model: str, examples: Sequence[str]) -> tuple[str, str]:
    """Return the page of the web service as HTML, and the content security policy to send with it."""
    script, style = _script(SERVICE_SCRIPTS), f"\n{_read('page.css')}\n{_read('service.css')}\n"
    shown = {"graph": graph, "model": model, "examples": examples, "style": style, "script": script}
    return _render("service.html.jinja", **shown), (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def render_docs(api: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page of the service's API as HTML, and the content security policy to send with it."""
    style = f"\n{_read('page.css')}\n"
    policy = f"default-src 'none'; style-src {_digest(style)}; img-src data:; base-uri 'none'"
    return _render("docs.html.jinja", api=api, style=style), f"{policy}; frame-ancestors 'none'"


def write_page(path: Path | str, page: Page) -> Path:
    """Write the page to a file, whole or not at all, and return where it is. Raises as `check_page`."""
    path = Path(path)
    check_page(path)
    with writing(path):
        write_text(path.resolve(), render_page(page))
    return path


def check_place(path: Path) -> None:
    """Check that a page can be written there, before anything long begins. Raises `DataError` if not."""
    folder = path.parent
    if path.is_dir():
        raise DataError("is a folder; name a file in it, e.g. run.html", path)
    if not folder.is_dir():
        raise DataError(f"cannot write a page there: no folder {str(folder)!r}; make it first", path)
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise DataError("cannot write a page there: no permission; choose another place", path)


def check_page(path: Path) -> None:
    """Check as `check_place`, and that no file is lost but a page of ours, by its first bytes."""
    check_place(path)
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(4_096)
        if begin and b'<meta name="generator" content="triplewise">' not in begin:
            raise DataError("is no page of triplewise, and is not overwritten; name another file", path)


def interval(cell: Cell) -> str:
    """Return the confidence interval of a cell, with as many decimals as its figure has; "" without one."""
    if cell.low is None or cell.high is None:
        return ""
    decimals = re.search(r"\.(\d+)", cell.text)
    places = len(decimals[1]) if decimals else 0
    return f"{cell.low:.{places}f}–{cell.high:.{places}f}"


def footnotes(table: Table) -> dict[str, int]:
    """Return the different notes of a table's cells, numbered from 1."""
    notes = dict.fromkeys(cell.note for row in table.rows for cell in row if cell.note)
    return {note: number for number, note in enumerate(notes, 1)}


def _columns_in_words(table: Table) -> set[int]:
    """Return the indices of the columns, next to the first, that hold words and no figure."""
    texts = [(i, cell.text) for row in table.rows for i, cell in enumerate(row) if i]
    figures = {i for i, text in texts if re.match(r"\s*[-−+~<>≤≥±$€£]?\s*\.?\d", text)}
    return {i for i, text in texts if re.search(r"\w", text)} - figures


def _blocks(page: Page) -> Iterator[dict[str, str]]:
    """Yield the data that the page's script reads, as gzip in base64: of a run its list, then its traces."""

    as_json = partial(json.dumps, ensure_ascii=False, default=str)

    def block(id: str, value: Any) -> dict[str, str]:
        packed = gzip.compress(as_json(value).encode(errors="replace"), 6, mtime=0)
        return {"id": id, "data": base64.b64encode(packed).decode()}

    def first(values: Sequence[str]) -> list[str]:
        rest = len(values) - MOST
        return [*values[:MOST], *([f"… and {rest:,} more"] if rest > 0 else [])]

    for number, run in enumerate(page.runs):
        listed = []
        for q in run.questions:
            plain = {name: getattr(q, name) for name in ("id", "question", "status", "score", "tags")}
            listed.append(plain | {"gold": first(q.gold), "answer": first(q.answer), "error": q.error_class})
        about = [(n, value if isinstance(value, str) else as_json(value)) for n, value in run.about.items()]
        index = {"name": run.name, "metric": run.metric, "chunk": CHUNK, "about": about, "questions": listed}
        yield block(f"run-{number}", index)
        for at in range(0, len(run.questions), CHUNK):
            yield block(f"run-{number}-{at // CHUNK}", [q.trace for q in run.questions[at : at + CHUNK]])


def _read(name: str) -> str:
    return (files("triplewise.graphs.page") / name).read_text(encoding="utf-8")


def _script(names: Sequence[str]) -> str:
    parts = "\n".join(map(_read, names))
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _render(name: str, **values: Any) -> str:
    import jinja2

    loader = jinja2.FunctionLoader(_read)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(name).render(values)
