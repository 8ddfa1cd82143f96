"""Documents that say what a KG lacks (SymAgent 4.2.1): a folder of files, Wikipedia, any retriever."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.core.facts import Passage
from triplewise.tools.retrieval.documents.folder import FolderDocuments, open_folder
from triplewise.tools.retrieval.documents.passage_index import SHOWN, Documents
from triplewise.tools.retrieval.documents.wikipedia import WIKIPEDIA, WikipediaDocuments, open_wikipedia
from triplewise.tools.retrieval.encoder import Encoder

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

__all__ = [
    "SHOWN",
    "Documents",
    "FolderDocuments",
    "RetrieverDocuments",
    "WikipediaDocuments",
    "open_documents",
]


class RetrieverDocuments:
    """Any LangChain retriever as documents: its passages that name the entity, in its order.

    Args:
        retriever: given the name and the relation together, or the question where there is no name.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self._retriever = retriever

    def find(
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
    ) -> tuple[Passage, ...]:
        """Return passages about an entity, best first; see `Documents.find`."""
        query = " ".join(filter(None, (name, relation))) or question
        passages = (
            Passage(d.page_content, str(d.metadata.get("title", "")), str(d.metadata.get("source", "")))
            for d in (self._retriever.invoke(query) if query else ())
        )
        names = [n.casefold() for n in (name, *aliases) if n]
        named = (
            p for p in passages if not names or any(n in f"{p.title} {p.text}".casefold() for n in names)
        )
        return tuple(islice(named, limit))


def open_documents(
    source: str | Path | Documents | BaseRetriever, encoder: Encoder | None = None
) -> Documents:
    """Open the documents of a source; a folder and a wiki are opened once per process.

    Args:
        source: a folder of .txt, .md and .html files; `wikipedia` for the English one online; `wikipedia:de`
            for another language; `wikipedia:https://wiki.example.org/w/api.php` for any MediaWiki; a
            LangChain retriever; or documents themselves, which are returned as they are.
        encoder: makes the vectors of passages; None for the embedded one.

    Raises:
        DataError: no such folder, or no document in it that can be read.
        ConfigurationError: an address of a MediaWiki that is none.
    """
    if not isinstance(source, str | Path):
        return source if isinstance(source, Documents) else RetrieverDocuments(source)
    if isinstance(source, str) and (source == WIKIPEDIA or source.startswith(f"{WIKIPEDIA}:")):
        return open_wikipedia(source, encoder)
    return open_folder(source, encoder)
