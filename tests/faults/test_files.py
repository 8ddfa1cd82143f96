"""Files that would hang a question, fill the memory, or be lost."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from triplewise.graphs.cli.app import run
from triplewise.tools.core import files
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import lines_of
from triplewise.tools.retrieval.documents import open_documents


def test_a_pipe_among_the_documents_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "texts"
    folder.mkdir()
    os.mkfifo(folder / "pipe.txt")
    with pytest.raises(DataError, match="no document in it"):
        open_documents(folder)
    (folder / "frost.txt").write_text("Early Frost was directed by Ada Moss.", encoding="utf-8")
    assert [p.text for p in open_documents(folder).find("Early Frost")] == [
        "Early Frost was directed by Ada Moss."
    ]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    path = tmp_path / "seeds.jsonl"
    path.write_text("{}\n" + "x" * 99 + "\n", encoding="utf-8")
    assert [number for number, _ in lines_of(path)] == [1, 2]
    path.write_text("{}\n" + "x" * 101, encoding="utf-8")
    with pytest.raises(DataError, match=r"seeds.jsonl:2: longer than 100 characters; write one"):
        list(lines_of(path))
    path.write_text("Who?", encoding="utf-16-be")
    with pytest.raises(DataError, match=r"not UTF-8 text \(a NUL\)"):
        list(lines_of(path))
    with pytest.raises(DataError, match="a device, which may never end"):
        list(lines_of(Path("/dev/zero")))


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "page.html")
    with ThreadPoolExecutor() as pool:
        received = pool.submit(pipe.read_bytes)
        files.write_text(pipe, "a page")
        assert received.result() == b"a page"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_reader_that_has_seen_enough_is_no_error_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), files.writing(tmp_path):
        raise BrokenPipeError


def test_a_link_to_itself_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (loop := tmp_path / "loop.jsonl").symlink_to(loop)
    assert run(["learn", str(loop), "--into", str(tmp_path / "learned")]) == 2
    assert str(loop) in capsys.readouterr().err
    with pytest.raises(DataError, match="no such folder of documents"):
        open_documents(loop)


def test_checkpoints_and_notes_are_nobody_elses_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["ask", "Who wrote Dracula?", "--quiet"]) == 0
    modes = {
        p: stat.S_IMODE(p.stat().st_mode)
        for p in (tmp_path / "triplewise", *(tmp_path / "triplewise").rglob("*"))
    }
    assert modes
    assert {p: oct(mode) for p, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.parametrize("content", ["my notes", '<!doctype html><meta name="generator" content="other">'])
def test_a_trace_overwrites_no_file_but_a_page_of_ours(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "page.html"
    path.write_text(content, encoding="utf-8")
    assert run(["ask", "Who wrote Dracula?", "--quiet", "--trace", str(path)]) == 2
    assert "is not a triplewise page, and is not overwritten; name another file" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == content
    path.write_text("", encoding="utf-8")
    for _ in range(2):  # a new one, then over the old
        assert run(["ask", "Who wrote Dracula?", "--quiet", "--trace", str(path)]) == 0
