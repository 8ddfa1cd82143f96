"""Folders of documents: found by the name of an entity, ordered by what is asked; as hostile as they come."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.facts import Passage
from triplewise.tools.retrieval.documents import PASSAGE, Documents, open_documents, passages, read_file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def search(documents: Documents, name: str, relation: str = "", limit: int = 5) -> list[str]:
    return [p.text for p in documents.find(name, relation, limit=limit)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Viggo_Mortensen.txt").write_text(
        "Viggo was born in Manhattan.\n\n" + "He paints, and he plays the piano. " * 20 + "\n\n"
        "He is starring in The Lord of the Rings.\n"
    )
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "rings.md").write_text("# Rings\n\nElijah Wood and Viggo Mortensen are starring.")
    (tmp_path / "notes.pdf").write_bytes(b"\xff\xfe no text")
    return tmp_path


def test_passages_about_an_entity_best_match_first(folder: Path) -> None:
    documents = open_documents(folder)
    found = search(documents, "Viggo Mortensen", "film starring", limit=2)
    assert len(found) == 2
    assert all("starring" in passage for passage in found)
    assert search(documents, "viggo mortensen", "born in")[0] == "Viggo was born in Manhattan."
    assert search(documents, "Vig", "film") == [], "whole names only"
    assert search(documents, "???", "film") == search(documents, "") == []
    assert len(search(documents, "Elijah Wood", "zzz")) == 1


def test_changed_files_are_read_again(folder: Path) -> None:
    assert open_documents(folder) is open_documents(str(folder))
    (folder / "new.txt").write_text("Bilbo")
    assert search(open_documents(folder), "Bilbo") == ["Bilbo"]


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
    best, *_ = open_documents(tmp_path).find("", question="Where was the artist born?")
    assert best.source == "a.txt"


PAGE = """<!DOCTYPE html><html><head><title>Ann &amp; Bo</title><style>p{}</style></head><body>
<script>var secret = "Ann was born in Hell";</script><!-- Ann hides --><nav>Home</nav>
<h1>Ann Lee</h1><p>Ann <b>Lee</b> was
born in Oslo.<p>She paints.<table><tr><th>Film</th><th>Role</th></tr>
<tr><td>Jaws</td><td>Quint</td></tr></table>
<ul><li>One<li>Two</ul><noscript>turn it on</noscript><p>caf&eacute; &lt;3</body></html>"""


def test_pages_are_read_without_what_nobody_sees(tmp_path: Path) -> None:
    (tmp_path / "ann.html").write_text(PAGE, encoding="utf-8")
    title, text = read_file(tmp_path / "ann.html")
    assert title == "Ann & Bo"
    assert "Ann Lee was born in Oslo. She paints. Film Role Jaws Quint One Two café <3" in text
    (tmp_path / "a.md").write_text("# Bo\n\nBo paints.\n\n## Life\nHe lives.")
    assert read_file(tmp_path / "a.md") == ["Bo", "Bo\nBo paints.\nLife\nHe lives."]
    for hidden in ("secret", "hides", "p{}", "Home", "turn it on"):
        assert hidden not in text


def test_one_bad_file_spoils_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.txt").write_text("Ann Lee paints.")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.md").write_text(" \n\n ")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "zero.txt").write_bytes(b"Ann Lee\x00\x00")
    broken = b"<p>Ann Lee <b>sings<p><<<>>&&;<table><td>x" + b"<div>" * 800 + b"deep \xff"
    (tmp_path / "broken.htm").write_bytes(broken)
    os.symlink(tmp_path / "nowhere", tmp_path / "link.txt")
    found = search(open_documents(tmp_path), "Ann Lee")
    assert "Ann Lee paints." in found
    assert any("sings" in text for text in found)
    assert sum("left out" in record.getMessage() for record in caplog.records) == 2


def test_huge_files_are_cut_and_long_lines_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triplewise.tools.retrieval.documents.MOST_BYTES", 100_000)
    (tmp_path / "huge.txt").write_bytes("é".encode() * 100_001)
    _, *texts = read_file(tmp_path / "huge.txt")
    assert sum(map(len, texts)) <= 100_000
    assert max(map(len, texts)) <= PASSAGE


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=3000))
def test_passages_hold_the_words_of_the_text_in_order(text: str) -> None:
    found = list(passages(text))
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(
        p == "\n".join(" ".join(line.split()) for line in p.split("\n")) and 0 < len(p) <= PASSAGE
        for p in found
    )


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder of documents"):
        open_documents(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"files that end in \.txt, \.md, \.html or \.htm"):
        open_documents(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bad\.txt: not UTF-8"):
        open_documents(tmp_path)
    (tmp_path / "bad.txt").write_text("")
    assert open_documents(tmp_path).find("Ann Lee", "born", "When?") == ()


def test_a_langchain_retriever_serves_as_documents() -> None:
    queries: list[str] = []

    class Retriever(BaseRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            queries.append(query)
            first = Document("Ann paints.", metadata={"title": "Ann", "source": "x"})
            return [first, Document("Bo."), Document("ANN sings."), Document("By A. Lee.")]

    documents = open_documents(Retriever())
    assert isinstance(documents, Documents)
    assert documents.find("Ann", "job", "What?", limit=1) == (Passage("Ann paints.", "Ann", "x"),)
    texts = [p.text for p in documents.find("Ann", aliases=["A. Lee"])]
    assert texts == ["Ann paints.", "ANN sings.", "By A. Lee."], "those that name the entity nowhere go"
    assert len(documents.find("", question="What?")) == 4
    assert documents.find("") == ()
    assert queries == ["Ann job", "Ann", "What?"]
    assert open_documents(documents) is documents


@pytest.mark.parametrize("page", ["<!--" * 60_000, "<div>" * 100_000, "<a b='" * 60_000])
def test_a_page_that_its_parser_never_ends_is_left_out(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triplewise.tools.retrieval.documents.HTML_SECONDS", 1.0)
    (tmp_path / "a.txt").write_text("Ann Lee was born in Oslo.")
    (tmp_path / "b.html").write_text(page)
    begun = time.monotonic()
    assert search(open_documents(tmp_path), "Ann Lee") == ["Ann Lee was born in Oslo."]
    assert time.monotonic() - begun < 20
