"""Documents that say what a knowledge graph lacks: a folder of text files, read offline (SymAgent 4.2.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.errors import DataError
from triplewise.tools.kg.names import normalise

if TYPE_CHECKING:
    import bm25s

ENDINGS = (".txt", ".md")
PASSAGE = 600
"""Characters of a passage; paragraphs are joined up to it, longer ones are kept whole."""
SHOWN = 5
"""Passages a search gives."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document. `title`: the file's name in words."""

    title: str
    text: str


@dataclass(frozen=True)
class Documents:
    """The passages of some documents, searchable by name and words.

    Attributes:
        passages: in the order of files and of their text.
    """

    passages: tuple[Passage, ...]
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", tuple(normalise(f"{p.title} {p.text}") for p in self.passages))

    def search(self, name: str, relation: str, limit: int = SHOWN) -> list[str]:
        """Passages of documents titled like an entity or that name it, best match of the relation first.

        Args:
            name: label of the entity. relation: what is asked of it, in words.
            limit: how many passages to give at most.
        """
        wanted = normalise(name)
        about = [i for i, text in enumerate(self._names) if wanted and f" {wanted} " in f" {text} "]
        scores = self._scores(f"{name} {relation}") if about else []
        return [self.passages[i].text for i in sorted(about, key=lambda i: -scores[i])[:limit]]

    @cached_property
    def _index(self) -> bm25s.BM25:
        import bm25s

        index = bm25s.BM25()
        index.index([text.split() for text in self._names], show_progress=False)
        return index

    def _scores(self, query: str) -> list[float]:
        """BM25 of every passage."""
        vocabulary = self._index.vocab_dict
        words = [w for w in normalise(query).split() if w in vocabulary]
        return [float(x) for x in self._index.get_scores(words)] if words else [0.0] * len(self.passages)


def open_documents(folder: str | Path) -> Documents:
    """The text files of a folder and its sub-folders, read once per process and again when they change.

    Raises:
        DataError: no such folder, no text file in it, or a file that is no UTF-8 text.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError("no such folder of documents; setting documents takes a folder of text files", path)
    files = tuple(sorted(f for f in path.rglob("*") if f.suffix.lower() in ENDINGS and f.is_file()))
    if not files:
        raise DataError(f"no document in it; it should hold files that end in {' or '.join(ENDINGS)}", path)
    return _read(files, tuple(f.stat().st_mtime_ns for f in files))


@lru_cache(maxsize=8)
def _read(files: tuple[Path, ...], _versions: tuple[int, ...]) -> Documents:
    return Documents(tuple(passage for file in files for passage in _passages(file)))


def _passages(file: Path) -> list[Passage]:
    """The passages of a file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the document as UTF-8 text: {error}", file) from error
    title = re.sub(r"[_-]+", " ", file.stem)
    pieces: list[str] = []
    for paragraph in (" ".join(p.split()) for p in re.split(r"\n\s*\n", text)):
        if pieces and len(pieces[-1]) + len(paragraph) < PASSAGE:
            pieces[-1] = f"{pieces[-1]} {paragraph}".strip()
        else:
            pieces.append(paragraph)
    return [Passage(title, piece) for piece in pieces if piece]
