"""The label index of a KG: which nodes bear a name, exactly or nearly. Each name is a document of tantivy.

Near names share words, up to one or two typing errors, or runs of three letters; rapidfuzz scores them.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal as OneOf, NamedTuple, TypeAlias

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.names import MOST_WORDS, Span, normalise, spans
from triplewise.tools.core.terms import IRI

if TYPE_CHECKING:
    import tantivy

    from triplewise.tools.kg.endpoint_names import EndpointNames

    Names: TypeAlias = "_Names | EndpointNames"

FOLDER = "names"  # where the index lies in a store's folder
DAMAGED = (
    "the label index is damaged ({}); load the graph again with `triplewise kg load FILES --into FOLDER "
    "--replace`, or index the endpoint again with `triplewise kg index URL --force`"
)
_LEAST_SCORE = 0.6  # a near name below this score is not offered
_NEAR = 100  # near names that are scored
_MOST = 2_000  # entries that names have in common at most: the most popular ones
_LOOKED_AT = 500  # names that hold all words of a text, of which some begin or end with it
_COMPARED = 200  # characters of a text that names like it are looked up by: each costs memory
_PORTION = 10_000  # nodes that are read at once
_HEAP = 64 << 20  # bytes that tantivy's writer may take


@dataclass(frozen=True, slots=True)
class Entry:
    """A node with one of its names: its preferred `label`, and the `text` that matched, as the KG has it."""

    iri: IRI
    label: str
    text: str
    alias: bool = False
    popularity: int = 0  # the facts that the node takes part in, a lower bound on very large graphs
    description: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that a text may mean, with how well the names agree (0 to 1) and how it was found."""

    entry: Entry
    score: float
    kind: OneOf["exact", "alias", "fuzzy"]

    @property
    def iri(self) -> IRI:
        """The node."""
        return self.entry.iri


class SpanMatch(NamedTuple):
    """A span of a question that is a name, and the entries that bear it (most popular first)."""

    span: Span
    entries: tuple[Entry, ...]


class Name(NamedTuple):
    """One name of a node, as it goes into an index, and what `Entry` says of the node."""

    iri: str
    text: str
    alias: bool = False
    popularity: int = 0
    description: str = ""


class LabelIndex:
    """Looks names up, in one place or several, made when they are first needed. Read-only and thread-safe."""

    def __init__(self, names: Callable[[], Sequence[Names]]) -> None:
        self._make = names
        self._made: Sequence[Names] | None = None
        self._lock = threading.Lock()

    @property
    def _names(self) -> Sequence[Names]:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    @classmethod
    def in_memory(cls, names: Callable[[], Iterable[Name]]) -> LabelIndex:
        """An index of a small KG, built from names in order of preference when it is first used."""

        def build() -> list[Names]:
            _write(index := _new_index(None), names(), lambda count: None)
            return [_Names(index, None)]

        return cls(build)

    @classmethod
    def on_disk(cls, folder: Path) -> LabelIndex:
        """Return the index that `build_label_index` wrote into a store's folder."""

        def open_index() -> list[Names]:
            import tantivy

            try:
                return [_Names(tantivy.Index.open(str(folder / FOLDER)), folder / FOLDER)]
            except ValueError as error:
                raise DataError(DAMAGED.format(error), folder / FOLDER) from error

        return cls(open_index)

    def with_names(self, names: Sequence[Name]) -> LabelIndex:
        """An index of these names too. This one stays as it is, and must outlive the other."""
        more = LabelIndex.in_memory(lambda: names)
        return LabelIndex(lambda: [*self._names, *more._names])

    def exact(self, *texts: str) -> tuple[Entry, ...]:
        """Return entries of which a name is a text, but for case, accents and signs; labels first."""
        return _ordered(chain(*self._exact((normalise(text), text) for text in texts).values()))

    def search(self, text: str, limit: int = 10, near: bool = False) -> tuple[Candidate, ...]:
        """Return candidates for a text, best first: of that name; without any, or for `near`, near ones."""
        if not normalise(text):
            return ()
        candidates = []
        for entry in self.exact(text):  # 1.0 as written; less where case, signs or only an alias agree
            score = (0.97 if entry.alias else 1.0) - (0.0 if entry.text == text else 0.01)
            candidates.append(Candidate(entry, score, "alias" if entry.alias else "exact"))
        if near or not candidates:
            candidates += _scored(text, (e for names in self._names for e in names.by_words(text, False)))
        return _distinct(candidates)[:limit]

    def longer(self, text: str, limit: int = 10) -> tuple[Candidate, ...]:
        """Nodes whose longer name begins or ends with the text (`Lincoln`: Abraham Lincoln)."""
        if not (norm := normalise(text)):
            return ()
        entries = ((normalise(e.text), e) for names in self._names for e in names.by_words(text, True))
        longer = [e for n, e in entries if n.startswith(f"{norm} ") or n.endswith(f" {norm}")]
        return _distinct(_scored(text, sorted(longer, key=lambda entry: -entry.popularity)[:limit]))

    def spans(self, question: str, may_name: Callable[[Span], bool]) -> tuple[SpanMatch, ...]:
        """All spans of the question, of those that may be names (`may_name`), that are full names."""
        most_words = max(names.most_words for names in self._names)
        runs = [span for span in spans(question, most_words) if span.norm and may_name(span)]
        entries = self._exact((span.norm, span.text) for span in runs)
        return tuple(SpanMatch(span, _ordered(entries[span.norm])) for span in runs if span.norm in entries)

    def node(self, iri: IRI) -> Entry | None:
        """Return the entry of a node under its preferred label; None if the index has none."""
        return next((e for names in self._names if (e := names.node(iri)) is not None), None)

    def close(self) -> None:
        """Free what is held until it is used again. Safe to call twice."""
        with self._lock:
            self._made = None

    def _exact(self, forms: Iterable[tuple[str, str]]) -> dict[str, list[Entry]]:
        texts, entries = defaultdict[str, set[str]](set), defaultdict[str, list[Entry]](list)
        for norm, text in forms:
            if norm:
                texts[norm].add(text)
        for names in self._names if texts else ():
            for norm, more in names.exact(texts).items():
                entries[norm] += more
        return entries


def similarity(norm: str, other: str) -> float:
    """How alike two normalised names are, 0 to 1: by edits, by edits in any word order, or as part of a name.

    A text that holds all of a name and more is not that name: only the text may leave words out.
    """
    from rapidfuzz import fuzz

    edits = max(fuzz.ratio(norm, other), 0.95 * fuzz.token_sort_ratio(norm, other)) / 100
    words, others = set(norm.split()), set(other.split())
    return max(edits, 0.7 + 0.2 * len(words) / len(others)) if words < others else edits


def _scored(text: str, entries: Iterable[Entry]) -> list[Candidate]:
    """Near names that are like enough; none outranks an exact one found elsewhere."""
    norm = normalise(text)
    scores = ((entry, similarity(norm, normalise(entry.text))) for entry in entries)
    return [Candidate(entry, min(score, 0.95), "fuzzy") for entry, score in scores if score >= _LEAST_SCORE]


def _distinct(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The best candidate of each node, best first."""
    best: dict[IRI, Candidate] = {}
    for c in sorted(candidates, key=lambda c: (-round(c.score, 2), -c.entry.popularity, c.iri.value)):
        best.setdefault(c.iri, c)
    return tuple(best.values())


def _ordered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One entry a node, labels before aliases, popular before rare."""
    best: dict[IRI, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.alias, -e.popularity, e.iri.value)):
        best.setdefault(entry.iri, entry)
    return tuple(best.values())


def build_label_index(folder: Path, names: Iterable[Name], progress: Callable[[int], None]) -> int:
    """Write the index of `names` (in order of preference) into `folder`; returns how many names it holds."""
    (folder / FOLDER).mkdir()
    number = _write(_new_index(folder / FOLDER), names, progress)
    mode = folder.stat().st_mode & 0o666  # tantivy keeps some of its files to the user
    for file in (folder / FOLDER).iterdir():
        file.chmod(mode)
    return number


def _new_index(folder: Path | None) -> tantivy.Index:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("name", tokenizer_name="raw", index_option="basic")  # in normal form
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("letters", tokenizer_name="letters", index_option="freq")
    builder.add_integer_field("popularity", fast=True)
    builder.add_bytes_field("entry", stored=True, indexed=False)
    # What only the document of a node's preferred label has:
    builder.add_text_field("iri", tokenizer_name="raw", index_option="basic")
    index = tantivy.Index(builder.build(), None if folder is None else str(folder))
    threes = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.ngram(3, 3)).build()
    index.register_tokenizer("letters", threes)  # of names as they are written into the index
    return index


def _write(index: tantivy.Index, names: Iterable[Name], progress: Callable[[int], None]) -> int:
    import tantivy

    labels: dict[str, str] = {}
    writer: Any = index.writer(heap_size=_HEAP, num_threads=1)
    number = 0
    for number, name in enumerate(names, 1):
        if number % _PORTION == 0:
            progress(number)
        preferred = {} if name.iri in labels else {"iri": name.iri}
        label = labels.setdefault(name.iri, name.text)
        norm, is_alias = normalise(name.text), name.alias or name.text != label
        entry = name.iri, label, name.text, is_alias, name.popularity, name.description
        written = {"name": norm, "words": norm, "letters": norm} if norm else {}
        stored = {"popularity": name.popularity, "entry": json.dumps(entry).encode()}
        writer.add_document(tantivy.Document(**written, **stored, **preferred))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return number


class _Names:
    """Names in an index of tantivy; `folder` is where it lies, None in memory."""

    most_words = MOST_WORDS

    def __init__(self, index: tantivy.Index, folder: Path | None) -> None:
        import tantivy

        self._searcher, self._folder, self._query = index.searcher(), folder, tantivy.Query
        self._term = partial(tantivy.Query.term_query, index.schema)
        self._fuzzy = partial(tantivy.Query.fuzzy_term_query, index.schema, "words")
        self._any, self._all = tantivy.Occur.Should, tantivy.Occur.Must

    def exact(self, texts: Mapping[str, Collection[str]]) -> Mapping[str, list[Entry]]:
        by_norm = defaultdict[str, list[Entry]](list)
        query = self._query.boolean_query([(self._any, self._term("name", norm)) for norm in texts])
        for entry in self._entries(query, _MOST, "popularity"):
            by_norm[normalise(entry.text)].append(entry)
        return by_norm

    def by_words(self, text: str, every: bool) -> list[Entry]:
        norm = normalise(text)[:_COMPARED]
        if every:
            own = [(self._all, self._term("words", word)) for word in norm.split()]
            return self._entries(self._query.boolean_query(own), _LOOKED_AT, "popularity")
        words = ((word, 0 if len(word) < 3 else 1 if len(word) < 8 else 2) for word in norm.split())
        parts = [self._query.boost_query(self._fuzzy(word, edits), 3.0) for word, edits in words]
        letters = dict.fromkeys(norm[i : i + 3] for i in range(len(norm) - 2))
        parts += [self._term("letters", three) for three in letters]
        return self._entries(self._query.boolean_query([(self._any, part) for part in parts]), _NEAR)

    def node(self, iri: IRI) -> Entry | None:
        return next(iter(self._entries(self._term("iri", iri.value), 1)), None)

    def _entries(self, query: tantivy.Query, limit: int, by: str | None = None) -> list[Entry]:
        """What a query finds, best first, or by a field. Raises `DataError` where the index is damaged."""
        try:
            hits = self._searcher.search(query, limit, count=False, order_by_field=by).hits
            stored = [self._searcher.doc(address)["entry"][0] for _, address in hits]
        except BaseException as error:
            if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":  # of Rust
                raise
            raise DataError(DAMAGED.format(error), self._folder) from error
        return [Entry(IRI(iri), *rest) for iri, *rest in map(json.loads, stored)]
