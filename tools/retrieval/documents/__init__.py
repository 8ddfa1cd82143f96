"""Documents that say what a knowledge graph lacks (SymAgent 4.2.1): a folder of files, or Wikipedia online.

Both are read through langchain-community's retrievers and searched alike: passages that name the entity are
found by an inverted index of words, and ordered by BM25 and by vectors, the two rankings fused.
"""

from __future__ import annotations

from pathlib import Path

from triplewise.tools.core.facts import Passage
from triplewise.tools.retrieval.documents.base import SHOWN, Documents, Progress
from triplewise.tools.retrieval.documents.folder import FolderDocuments, open_folder
from triplewise.tools.retrieval.documents.wikipedia import WIKIPEDIA, WikipediaDocuments
from triplewise.tools.retrieval.encoder import Encoder

__all__ = [
    "SHOWN",
    "Documents",
    "FolderDocuments",
    "Passage",
    "Progress",
    "WikipediaDocuments",
    "open_documents",
]


def open_documents(source: str | Path, encoder: Encoder | None = None) -> Documents:
    """The documents of a source, opened once per process.

    Args:
        source: a folder of .txt, .md and .html files; `wikipedia` for the English one online; `wikipedia:de`
            for another language; or `wikipedia:https://wiki.example.org/w/api.php` for any MediaWiki.
        encoder: makes the vectors of passages; None for the embedded one.

    Raises:
        DataError: no such folder, or no document in it that can be read.
        ConfigurationError: an address of a MediaWiki that is none.
    """
    if isinstance(source, str) and (source == WIKIPEDIA or source.startswith(f"{WIKIPEDIA}:")):
        return WikipediaDocuments.of(source, encoder)
    return open_folder(source, encoder)
