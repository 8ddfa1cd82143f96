"""Documents as they come: web pages, large and broken files; and what is kept between processes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.retrieval.documents import folder as folder_module
from triplewise.tools.retrieval.documents import open_documents
from triplewise.tools.retrieval.documents.folder import open_folder
from triplewise.tools.retrieval.documents.reading import LONGEST, passages, read_file
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folder_module, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


class Counting:
    """The real encoder, with a record of what it was asked to embed."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.name, self.dimension = encoder, encoder.name, encoder.dimension
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        return self.encoder.encode(texts)


@pytest.fixture
def encoder() -> Counting:
    return Counting(open_encoder())


PAGE = """<!DOCTYPE html><html><head><title>Ann &amp; Bo</title><style>p{}</style></head><body>
<script>var secret = "Ann was born in Hell";</script><!-- Ann hides --><nav>Home</nav>
<h1>Ann Lee</h1><p>Ann <b>Lee</b> was
born in Oslo.<p>She paints.<table><tr><th>Film</th><th>Role</th></tr>
<tr><td>Jaws</td><td>Quint</td></tr></table>
<ul><li>One<li>Two</ul><noscript>turn it on</noscript><p>caf&eacute; &lt;3</body></html>"""


def test_pages_are_read_without_what_nobody_sees(tmp_path: Path) -> None:
    (tmp_path / "ann.html").write_text(PAGE, encoding="utf-8")
    title, (text,) = read_file(tmp_path / "ann.html")
    assert title == "Ann & Bo"
    assert "Ann Lee was born in Oslo.\nShe paints." in text
    assert "Film ; Role\nJaws ; Quint" in text
    assert "One\nTwo\ncafé <3" in text
    for hidden in ("secret", "hides", "p{}", "Home", "turn it on"):
        assert hidden not in text


def test_broken_pages_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    (tmp_path / "a.htm").write_bytes(
        b"<p>Ann Lee <b>paints<p><<<>>&&;<table><td>x" + b"<div>" * 800 + b"deep \xff"
    )
    found = open_documents(tmp_path).search("Ann Lee", "")
    assert found
    assert "paints" in found[0]


def test_one_bad_file_spoils_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.txt").write_text("Ann Lee paints.")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.md").write_text(" \n\n ")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "zero.txt").write_bytes(b"Ann Lee\x00\x00")
    os.symlink(tmp_path / "nowhere", tmp_path / "link.txt")
    documents = open_folder(tmp_path)
    assert documents.search("Ann Lee", "") == ["Ann Lee paints."]
    assert set(documents.skipped) == {"binary.txt", "zero.txt"}
    assert "left out" in caplog.text


def test_nothing_but_empty_files_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert open_documents(tmp_path).find("Ann Lee", "born", "When?") == ()


def test_huge_files_are_cut_and_long_lines_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triplewise.tools.retrieval.documents.reading.MOST_BYTES", 100_000)
    (tmp_path / "huge.txt").write_bytes("é".encode() * 100_001)
    _, texts = read_file(tmp_path / "huge.txt")
    assert sum(map(len, texts)) <= 100_000
    assert max(map(len, texts)) <= LONGEST


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=3000))
def test_passages_hold_the_words_of_the_text_in_order(text: str) -> None:
    found = list(passages(text))
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(
        p == "\n".join(" ".join(line.split()) for line in p.split("\n")) and 0 < len(p) <= 2 * LONGEST
        for p in found
    )


def test_a_heading_is_no_part_of_the_next_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Ann Lee\n\nAnn Lee paints.\n\n## Life\nShe lives.")
    title, (text,) = read_file(tmp_path / "a.md")
    assert (title, text) == ("Ann Lee", "Ann Lee\nAnn Lee paints.\nLife\nShe lives.")


def test_found_by_an_alias_and_by_words_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Samuel Clemens wrote novels.")
    (tmp_path / "b.txt").write_text("Twain, Mark: author.")
    documents = open_documents(tmp_path)
    (first,) = documents.find("Mark Twain", "occupation")
    assert first.source == "b.txt", "no passage has the name in full"
    both = documents.find("Mark Twain", "wrote", aliases=("Samuel Clemens", "Twain, Mark"))
    assert {p.source for p in both} == {"a.txt", "b.txt"}
    assert documents.find("Mark Twain", aliases=("Sam",)) == (first,)


def test_without_a_name_the_whole_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The painter came into the world in Oslo.")
    (tmp_path / "b.txt").write_text("Bread is baked from flour.")
    found = open_documents(tmp_path).find("", question="Where was the artist born?")
    assert found[0].source == "a.txt"


def test_no_passage_is_embedded_twice(tmp_path: Path, encoder: Counting) -> None:
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text(f"Ann Lee painted picture number {i}.")
    told: list[tuple[str, int, int | None]] = []
    open_folder(tmp_path, encoder).prepare(lambda *step: told.append(step))
    assert ("embedding passages", 5, 5) in told
    assert len(encoder.asked) == 5
    folder_module._opened.clear()
    (tmp_path / "0.txt").rename(tmp_path / "moved.txt")
    (tmp_path / "moved.txt").touch()
    (tmp_path / "1.txt").write_text("Ann Lee painted something else.")
    again = open_folder(tmp_path, encoder)
    again.prepare()
    # Titles are part of what is embedded: the moved file and the changed one are new.
    assert len(encoder.asked) == 7
    assert len(again.passages) == 5


def test_what_is_kept_is_read_again_when_it_is_damaged(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann Lee paints.")
    open_folder(tmp_path)
    (kept,) = cache.glob("*/passages.jsonl")
    for damage in ("", "nonsense", kept.read_text()[:-9], "\n".join([folder_module.FORMAT, "[1]"])):
        kept.write_text(damage)
        folder_module._opened.clear()
        assert open_folder(tmp_path).search("Ann Lee", "") == ["Ann Lee paints."]


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    (tmp_path / "a.txt").write_text("Ann Lee paints.")
    (tmp_path / "b.txt").write_text("Ann Lee sings.")
    assert open_folder(tmp_path).search("Ann Lee", "songs")[0] == "Ann Lee sings."


def test_names_are_looked_up_in_milliseconds(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / f"{i:03}.txt").write_text(f"Person {i} stood before Picture {i % 60}.")
    documents = open_folder(tmp_path)
    documents.prepare()
    start = time.perf_counter()
    for j in range(60):
        assert len(documents.find(f"Picture {j}", "stood before", limit=40)) == 5
    assert (time.perf_counter() - start) / 60 < 0.2


def test_a_folder_of_files_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.html").mkdir()
    (tmp_path / "x.html" / "y.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"y\.txt: cannot read the document"):
        open_documents(tmp_path)
