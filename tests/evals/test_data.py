"""Benchmark files: what is said when they are missing, broken, or not the published ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from triplewise.evals.data import catalog, locate, prepared, read_records
from triplewise.tools.core.errors import DataError


def test_a_missing_file_says_where_it_is_published_and_where_it_goes(data: Path) -> None:
    path = data / "metaqa" / "test_1hop.jsonl.gz"
    path.unlink()
    file = catalog().benchmarks["metaqa"].files["metaqa/test_1hop.jsonl.gz"]
    with pytest.raises(DataError, match=r"github\.com/yuyuz/MetaQA") as caught:
        locate(file)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"id": 1}', "a question without answers"),
    ],
)
def test_a_broken_record_is_named_by_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": 0, "answers": []}\n\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"questions.jsonl:3: {message}"):
        read_records(path, "id", "answers")


@pytest.mark.parametrize("content", [b"plain text", gzip.compress(b'{"id": 1}\n', mtime=0)[:-6]])
def test_a_broken_archive_is_an_error_of_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "questions.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read to its end"):
        read_records(path)


def test_a_graph_is_loaded_once_and_again_when_its_file_changes(data: Path) -> None:
    kg = prepared(catalog().graphs["metaqa"])
    stamp = (Path(kg.path) / "manifest.json").stat().st_mtime_ns
    assert prepared(catalog().graphs["metaqa"]) == kg
    assert (Path(kg.path) / "manifest.json").stat().st_mtime_ns == stamp
    with gzip.open(data / "metaqa" / "kb.txt.gz", "wt", encoding="utf-8") as file:
        file.write("Alien|directed_by|Ridley Scott\n")
    changed_kg = prepared(catalog().graphs["metaqa"])
    assert changed_kg.path != kg.path
    assert changed_kg.triples < kg.triples
