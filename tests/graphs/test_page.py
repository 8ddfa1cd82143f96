"""The page as a file: what is in it, what can never be in it, and where it may be written."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.graphs.page import (
    CHUNK,
    Cell,
    Page,
    Question,
    RunBlock,
    Table,
    interval,
    render_page,
    write_page,
)
from triplewise.tools.core.errors import DataError

HOSTILE = '</script><img src=x onerror="window.hacked=1">&amp;<!--'


class Elements(HTMLParser):
    """Names of the elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def blocks(html: str) -> dict[str, Any]:
    """The page's blocks of data, read as the browser reads them."""
    found = re.findall(r'<script type="text/plain" id="(run[^"]*)">([^<]*)</script>', html)
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in found}


def page_of(text: str) -> Page:
    """A page that says one thing everywhere."""
    cell = Cell(text, text, note=text, link=f"{text}/{text}")
    question = Question(text, text, [text], [text], text, 0.5, text, [text], {"text": text})
    table = Table(text, [text], [[cell]], text)
    return Page(text, text, [text], [table], runs=[RunBlock(text, {text: text}, [question])])


def test_nothing_said_ever_becomes_an_element() -> None:
    plain, hostile = Elements(render_page(page_of("plain"))), Elements(render_page(page_of(HOSTILE)))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]
    assert HOSTILE in hostile.texts


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1))
def test_every_text_arrives_whole(text: str) -> None:
    found = blocks(render_page(page_of(text)))
    known = text.encode(errors="replace").decode()
    assert found["run-0"]["questions"][0]["question"] == known
    assert found["run-0-0"] == [{"text": known}]


def test_a_page_asks_for_nothing_and_allows_nothing_else() -> None:
    html = render_page(page_of("plain"))
    for tag, attributes in Elements(html).found:
        assert tag not in ("link", "iframe", "object", "img")
        assert "src" not in attributes
    policy = next(a["content"] for tag, a in Elements(html).found if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_traces_lie_apart_from_what_the_list_shows() -> None:
    questions = [Question(str(n), "?", trace={"n": n}) for n in range(CHUNK + 1)]
    found = blocks(render_page(Page("many", runs=[RunBlock("run", questions=questions)])))
    assert [len(found[name]) for name in ("run-0-0", "run-0-1")] == [CHUNK, 1]
    assert found["run-0-1"] == [{"n": CHUNK}]
    assert "trace" not in found["run-0"]["questions"][0]


def test_cells_lead_to_questions_of_runs_with_any_name() -> None:
    runs = [
        RunBlock("a/b", questions=[Question("c/d é", "?")]),
        RunBlock("a", questions=[Question("x", "?")]),
    ]
    cells = [Cell("one", link="a/b/c/d é"), Cell("two", link="a/b"), Cell("none", link="a/y")]
    html = render_page(Page("links", tables=[Table("t", ["a", "b", "c"], [cells])], runs=runs))
    links = [a["href"] for tag, a in Elements(html).found if tag == "a" and len(a) == 1]
    assert links == ["#a%2Fb/c%2Fd%20%C3%A9", "#a%2Fb"]


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        (Cell("82.3", low=80.04, high=84.96), "80.0–85.0"),
        (Cell("0.823", low=0.8, high=0.85), "0.800–0.850"),
        (Cell("12", low=10.2, high=13.7), "10–14"),
        (Cell("12", low=10.2), ""),
    ],
)
def test_an_interval_has_the_decimals_of_its_figure(cell: Cell, part: str) -> None:
    assert interval(cell) == part


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_page(path, page_of("first"))

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match="No space left"):
        write_page(path, page_of("second"))
    assert path.read_text(encoding="utf-8") == render_page(page_of("first"))
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(("place", "part"), [("no/page.html", "no folder"), ("", "is a folder")])
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, place: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        write_page(tmp_path / place, page_of("plain"))
