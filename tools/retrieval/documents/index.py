"""The index over passages: by name, by BM25, by vectors.

Which passages are about an entity is settled by an inverted index of words, in a fraction of a millisecond;
BM25 and vectors only order those. Where no entity is named, all passages are searched by BM25 and by Faiss.
Rankings are fused by reciprocal ranks (Cormack et al., 2009).
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.documents.base import Progress
from triplewise.tools.retrieval.documents.embeddings import KeptEmbeddings

if TYPE_CHECKING:
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS

FUSION = 60
"""The constant k of reciprocal rank fusion."""
WIDE = 50
"""Passages each retriever gives when all passages are searched."""
NEAR = 2
"""How many times the passages wanted are compared by vectors."""


class PassageIndex:
    """Passages, searchable. Safe to use from many threads; built where it is first needed.

    Args:
        passages: what is searched. embeddings: makes and keeps their vectors, opened when first needed.
    """

    def __init__(self, passages: Sequence[Passage], embeddings: Callable[[], KeptEmbeddings]) -> None:
        self.passages = tuple(passages)
        self._open_embeddings = embeddings
        self._lock = RLock()

    def find(
        self, names: Sequence[str], query: str, words: str, limit: int, mentioned: bool = True
    ) -> tuple[Passage, ...]:
        """Passages that bear one of the names in title or text, best first; with no names, of all.

        Passages of documents that are titled by a name, or begin with it, are no better than others that
        name it: what is said counts. Where no passage has a name in full, those that have all its words do.

        Args:
            names: of the entity. query: what is looked for, as vectors see it. words: likewise for BM25.
            limit: passages at most. mentioned: whether passages without a name are left out.
        """
        with self._lock:
            about = self.about(names) if names else []
            if not about and names and mentioned:
                return ()
            order = self._ordered(about, query, words, limit) if about else self._anywhere(query, words)
            return tuple(self.passages[i] for i in order[:limit])

    def about(self, names: Sequence[str]) -> list[int]:
        """Numbers of the passages that bear a name: in full, else all its words."""
        norms = [n for n in dict.fromkeys(normalise(name) for name in names) if n]
        held = {norm: self._with_words(norm.split()) for norm in norms}
        full = {i for norm, ids in held.items() for i in ids if f" {norm} " in self._texts[i]}
        return sorted(full or {i for norm, ids in held.items() if " " in norm for i in ids})

    def prepare(self, progress: Progress | None = None) -> None:
        """Build everything, and say how far it is."""
        with self._lock:
            if self.passages:
                self._embeddings.passages([_embedded(p) for p in self.passages], progress)
                _ = self._postings, self._bm25, self._faiss

    def _with_words(self, words: Sequence[str]) -> list[int]:
        postings = [self._postings.get(word) for word in dict.fromkeys(words)]
        if not postings or any(p is None for p in postings):
            return []
        found = sorted((p for p in postings if p is not None), key=len)
        common = found[0]
        for other in found[1:]:
            common = np.intersect1d(common, other, assume_unique=True)
        return [int(i) for i in common]

    def _ordered(self, ids: list[int], query: str, words: str, limit: int) -> list[int]:
        """Passages by both rankings.

        Vectors are made of no more passages than BM25 puts first: nobody waits for those of a whole folder.
        """
        if len(ids) == 1 or not (query or words):
            return ids
        terms = [w for w in dict.fromkeys(normalise(words).split()) if w in self._postings]
        lexical = self._bm25.vectorizer.get_batch_scores(terms, ids) if terms else [0.0] * len(ids)
        best = sorted(zip((-float(score) for score in lexical), ids, strict=True))[: max(NEAR * limit, WIDE)]
        ids = [i for _, i in best]
        vectors = self._embeddings.passages([_embedded(self.passages[i]) for i in ids])
        dense = vectors @ np.asarray(self._embeddings.embed_query(query or words), np.float32)
        return _fused([_ranked(ids, [-score for score, _ in best]), _ranked(ids, dense.tolist())])

    def _anywhere(self, query: str, words: str) -> list[int]:
        """All passages by both retrievers."""
        if not self.passages or not (query or words):
            return []
        sparse, dense = self._bm25, self._faiss.as_retriever(search_kwargs={"k": WIDE})
        found = (sparse.invoke(normalise(words or query)), dense.invoke(query or words))
        numbers = ([int(d.metadata["number"]) for d in documents] for documents in found)
        return _fused({i: rank for rank, i in enumerate(some, 1)} for some in numbers)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Normal forms of title and text, with blanks around."""
        return tuple(f" {normalise(p.title)} {normalise(p.text)} " for p in self.passages)

    @cached_property
    def _postings(self) -> dict[str, np.ndarray]:
        """Word -> the passages that have it, ascending."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for i, text in enumerate(self._texts):
            for word in set(text.split()):
                found[word].append(i)
        return {word: np.asarray(ids, np.int32) for word, ids in found.items()}

    @cached_property
    def _embeddings(self) -> KeptEmbeddings:
        return self._open_embeddings()

    @cached_property
    def _bm25(self) -> BM25Retriever:
        from langchain_core.documents import Document

        # A passage of signs alone has no word. Of the variants, BM25+ gives no term of few passages a weight
        # of nothing or below.
        texts = [text.split() or ["-"] for text in self._texts]
        documents = [Document("", metadata={"number": i}) for i in range(len(texts))]
        scorer = importlib.import_module("rank_bm25").BM25Plus(texts)
        made: BM25Retriever = community().retrievers.BM25Retriever(
            vectorizer=scorer, docs=documents, preprocess_func=str.split, k=WIDE
        )
        return made

    @cached_property
    def _faiss(self) -> FAISS:
        import faiss
        from langchain_core.documents import Document

        library = community()
        vectors = self._embeddings.passages([_embedded(p) for p in self.passages])
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(np.ascontiguousarray(vectors, np.float32))
        held = {str(i): Document("", metadata={"number": i}) for i in range(len(self.passages))}
        made: FAISS = library.vectorstores.FAISS(
            self._embeddings,
            index,
            library.docstore.InMemoryDocstore(held),
            {i: str(i) for i in range(len(self.passages))},
            distance_strategy=library.vectorstores.faiss.DistanceStrategy.MAX_INNER_PRODUCT,
        )
        return made


def community() -> Any:
    """langchain-community with what is used of it, without its note at import that it is in maintenance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import langchain_community.docstore
        import langchain_community.retrievers
        import langchain_community.vectorstores.faiss

    return langchain_community


def _embedded(passage: Passage) -> str:
    """A passage as its vector sees it: its title says what `it` and `he` are."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text


def _ranked(ids: Sequence[int], scores: Sequence[float]) -> dict[int, int]:
    """The rank of each, from 1; equal scores share theirs."""
    place, ranks = 1, dict[float, int]()
    for score, count in sorted(Counter(map(float, scores)).items(), reverse=True):
        ranks[score] = place
        place += count
    return {i: ranks[float(score)] for i, score in zip(ids, scores, strict=True)}


def _fused(rankings: Iterable[Mapping[int, int]]) -> list[int]:
    """Reciprocal rank fusion: a passage's score is the sum of 1 / (k + rank) over the rankings."""
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for i, rank in ranking.items():
            scores[i] += 1 / (FUSION + rank)
    return sorted(scores, key=lambda i: (-scores[i], i))
