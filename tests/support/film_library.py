"""A text about each of the ten films, and contexts in which questions about them are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.films import FILMS, write_graph, write_questions
from triplewise.nodes.context import Context


def write_texts(folder: Path) -> Path:
    """A file a film."""
    folder.mkdir()
    for film, (director, town, year) in FILMS.items():
        text = f"{film} is a film of {year}. It was directed by {director}, who was born in {town}."
        (folder / f"{film}.txt").write_text(f"{film}\n\n{text}\n", encoding="utf-8")
    return folder


def film_context(folder: Path, **settings: Any) -> Context:
    """A context whose graph, seed questions and documents are about the films."""
    if not (folder / "films.nt").exists():
        write_graph(folder / "films.nt")
        write_questions(folder / "questions.jsonl")
        write_texts(folder / "texts")
    given = {"kg": str(folder / "films.nt"), "seeds": str(folder / "questions.jsonl"), **settings}
    return Context(**given)
