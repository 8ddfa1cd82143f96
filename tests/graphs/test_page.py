"""The page as a file: what is in it, what can never be in it, and where it may be written."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from triplewise.graphs.page import render_page, write_page
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


def run_in(html: str) -> dict[str, Any]:
    """The run that a page holds, as the browser reads it."""
    (data,) = re.findall(r'<script type="application/json" id="run">([^<]*)</script>', html)
    read: dict[str, Any] = json.loads(data)
    return read


def page_of(text: str) -> str:
    """A page that has one text everywhere."""
    return render_page({"question": text, "labels": [text]}, {text: text})


def test_nothing_said_ever_becomes_an_element() -> None:
    plain, hostile = Elements(page_of("plain")), Elements(page_of(HOSTILE))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]
    assert HOSTILE in hostile.texts


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1))
def test_every_text_arrives_whole(text: str) -> None:
    known = text.encode(errors="replace").decode()
    assert run_in(page_of(text)) == {"trace": {"question": known, "labels": [known]}, "about": {known: known}}


def test_a_page_asks_for_nothing_and_allows_nothing_else() -> None:
    html = page_of("plain")
    for tag, attributes in Elements(html).found:
        assert tag not in ("link", "iframe", "object", "img")
        assert "src" not in attributes
    policy = next(a["content"] for tag, a in Elements(html).found if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_page(path, {"question": "first"}, {})

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match="No space left"):
        write_page(path, {"question": "second"}, {})
    assert path.read_text(encoding="utf-8") == render_page({"question": "first"}, {})
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(("place", "part"), [("no/page.html", "no folder"), ("", "is a folder")])
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, place: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        write_page(tmp_path / place, {"question": "plain"}, {})
