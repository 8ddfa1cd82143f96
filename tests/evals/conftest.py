"""A data folder with a tiny MetaQA, and a cache folder of its own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

KB = (
    "Alien|directed_by|Ridley Scott",
    "Alien|release_year|1979",
    "Alien|has_genre|Horror",
    "Blade Runner|directed_by|Ridley Scott",
    "Blade Runner|release_year|1982",
    "Amélie|directed_by|Jean-Pierre Jeunet",
    "Amélie|in_language|French",
)
QUESTIONS = (
    ("who directed [Alien]", "Alien", ["Ridley Scott"]),
    ("what films did [Ridley Scott] direct", "Ridley Scott", ["Alien", "Blade Runner"]),
    ("which person directed the movie [Amélie]", "Amélie", ["Jean-Pierre Jeunet"]),
    ("what language is [Amélie] in", "Amélie", ["French"]),
)


@pytest.fixture(scope="session")
def film_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of two systems asked about films, the second in a grid; tests only read them."""
    from tests.evals.reported import cell, run_films

    folder = tmp_path_factory.mktemp("films")
    run_films(folder)
    run_films(folder, "oda", **cell("w/o ERASER"))
    return folder / "logs"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with seven facts and four questions a split."""
    return write_data(tmp_path, monkeypatch)


def write_data(parent: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make that folder, with a cache beside it, and have both found."""
    folder = parent / "data"
    (folder / "metaqa").mkdir(parents=True)
    with gzip.open(folder / "metaqa" / "kb.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(KB) + "\n")
    for split in ("test", "dev"):
        for hops in (1, 2, 3):
            write_questions(folder / "metaqa" / f"{split}_{hops}hop.jsonl.gz", split)
    monkeypatch.setenv("TRIPLEWISE_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(parent / "cache"))
    return folder


def write_questions(path: Path, split: str = "test") -> None:
    """The questions as MetaQA's records."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for i, (question, topic, answers) in enumerate(QUESTIONS):
            record = {"id": f"{split}-{i}", "question": question, "topic_entity": topic, "answers": answers}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
