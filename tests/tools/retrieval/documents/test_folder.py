"""Documents: found by the name of an entity, ordered by what is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.core.errors import DataError
from triplewise.tools.retrieval.documents import open_documents


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
    found = open_documents(folder).search("Viggo Mortensen", "film starring", limit=2)
    assert len(found) == 2
    assert all("starring" in passage for passage in found)
    assert open_documents(folder).search("viggo mortensen", "born in")[0] == "Viggo was born in Manhattan."


def test_whole_names_only(folder: Path) -> None:
    documents = open_documents(folder)
    assert documents.search("Vig", "film") == []
    assert documents.search("", "film") == []
    assert len(documents.search("Elijah Wood", "zzz")) == 1


def test_changed_files_are_read_again(folder: Path) -> None:
    assert open_documents(folder) is open_documents(str(folder))
    (folder / "new.txt").write_text("Bilbo")
    assert open_documents(folder).search("Bilbo", "") == ["Bilbo"]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder of documents"):
        open_documents(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"files that end in \.txt, \.md, \.html or \.htm"):
        open_documents(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bad\.txt: cannot read the document"):
        open_documents(tmp_path)


def test_case_and_marks_of_a_question_hide_no_word(folder: Path) -> None:
    documents = open_documents(folder)
    asked = [documents.find("", "", words, limit=1) for words in ("Manhattan?", "manhattan", "MANHATTAN!")]
    assert asked[0] == asked[1] == asked[2]
    assert "Manhattan" in asked[0][0].text
