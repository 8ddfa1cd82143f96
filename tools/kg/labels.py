"""The label index of a KG: which nodes bear a name, exactly or nearly.

Finding is a cascade, each stage asked only when the one before found too little: exact label or alias
(SQLite), fuzzy (tantivy on disk, rapidfuzz over all names in memory), on disk character trigrams.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from typing import Literal as OneOf

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.names import Span, normalise, spans
from triplewise.tools.core.terms import IRI

if TYPE_CHECKING:
    import tantivy

    from triplewise.tools.kg.endpoint_names import EndpointNames

    Names: TypeAlias = "_Names | EndpointNames"

Kind = OneOf["exact", "alias", "fuzzy", "trigram"]

_LEAST_SCORE = 0.6  # a fuzzy or trigram candidate below this score is not offered
_GOOD = 0.8  # trigrams are tried only when the best fuzzy candidate is below this score
_CHUNK = 400
SQLITE, FUZZY = "labels.sqlite", "fuzzy"

_SCHEMA = """
CREATE TABLE nodes (id INTEGER PRIMARY KEY, iri TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                    popularity INTEGER NOT NULL, description TEXT NOT NULL);
CREATE TABLE names (id INTEGER PRIMARY KEY, norm TEXT NOT NULL, node INTEGER NOT NULL, text TEXT NOT NULL,
                    alias INTEGER NOT NULL);
"""
_INDEX = """
CREATE INDEX names_norm ON names(norm);
CREATE TABLE facts AS SELECT COUNT(*) AS names,
    COALESCE(MAX(LENGTH(norm) - LENGTH(REPLACE(norm, ' ', '')) + 1), 0) AS most_words FROM names;
"""
_TRIGRAMS = """
CREATE VIRTUAL TABLE trigrams USING fts5(norm, content='names', content_rowid='id', tokenize='trigram');
INSERT INTO trigrams(rowid, norm) SELECT id, norm FROM names;
CREATE VIRTUAL TABLE trigram_counts USING fts5vocab(trigrams, 'row');
"""
_SELECT = """
SELECT nodes.iri, nodes.label, names.text, names.alias, nodes.popularity, nodes.description, names.norm
FROM names JOIN nodes ON nodes.id = names.node WHERE """
_BATCH = 20_000
_HOLDING = 20_000  # names at most that are looked at for one that goes on before or behind a text
_RARE = 8  # how many of a text's trigrams are asked for, rarest first


@dataclass(frozen=True, slots=True)
class Entry:
    """A node with one of its names.

    Attributes:
        iri: the node. label: its preferred label. text: the name that matched, as the KG writes it.
        alias: whether that name is an alias.
        popularity: number of facts the node takes part in (a lower bound on very large graphs).
        description: the KG's description, "" if none.
    """

    iri: IRI
    label: str
    text: str
    alias: bool = False
    popularity: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that a text may mean, with how well the names agree (0 to 1) and how it was found."""

    entry: Entry
    score: float
    kind: Kind

    @property
    def iri(self) -> IRI:
        """The node."""
        return self.entry.iri

    @property
    def label(self) -> str:
        """Its preferred label."""
        return self.entry.label


@dataclass(frozen=True, slots=True)
class SpanMatch:
    """A span of a question that is a name, and the entries that bear it (most popular first)."""

    span: Span
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """One name of a node, as it goes into an index."""

    iri: str
    text: str
    alias: bool = False


class LabelIndex:
    """Looks names up, in one place or several. Read-only, and safe to use from several threads.

    Args:
        names: makes where the names are, when they are first needed.
    """

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
    def in_memory(
        cls,
        names: Callable[[], Iterable[Name]],
        popularity: Mapping[str, int] | None = None,
        description: Callable[[str], str] = lambda iri: "",
    ) -> LabelIndex:
        """Return an index of a small KG, built from names in order of preference when it is first used."""
        return cls(lambda: [_memory_names(names(), Counter(popularity).__getitem__, description)])

    @classmethod
    def on_disk(cls, folder: Path) -> LabelIndex:
        """Return the index that `build_label_index` wrote into a store's folder."""

        def names() -> list[Names]:
            if not (folder / SQLITE).is_file():
                raise DataError("the label index is missing; load the graph again", folder / SQLITE)
            uri = f"{(folder / SQLITE).absolute().as_uri()}?mode=ro&immutable=1"
            try:
                return [_Names(sqlite3.connect(uri, uri=True, check_same_thread=False), folder / FUZZY)]
            except (sqlite3.Error, ValueError) as error:
                raise DataError(f"damaged ({error}); load the graph again", folder / SQLITE) from error

        return cls(names)

    def with_names(self, names: Sequence[Name], popularity: Mapping[str, int] | None = None) -> LabelIndex:
        """Return an index of these names too. This one stays as it is, and must outlive the other."""
        return LabelIndex(
            lambda: [*self._names, _memory_names(names, Counter(popularity).__getitem__, lambda iri: "")]
        )

    def exact(self, *texts: str) -> tuple[Entry, ...]:
        """Return entries of which a name is a text, but for case, accents and signs; labels first."""
        entries = self._exact((normalise(text), text) for text in texts)
        return _ordered(chain.from_iterable(entries.values()))

    def search(self, text: str, limit: int = 10, near: bool = False) -> tuple[Candidate, ...]:
        """Return the best candidates for a text, best first: the cascade exact or alias, fuzzy, trigrams.

        `near` asks for near names also where there are exact ones.
        """
        norm = normalise(text)
        if not norm:
            return ()
        candidates = []
        for entry in self.exact(text):  # 1.0 as written; less where case, signs or only an alias agree
            score = (0.97 if entry.alias else 1.0) - (0.0 if entry.text == text else 0.01)
            candidates.append(Candidate(entry, score, "alias" if entry.alias else "exact"))
        if near or not candidates:
            candidates += _rescored(norm, (e for n in self._names for e in n.fuzzy(text, 100)), "fuzzy")
            if not candidates or candidates[0].score < _GOOD:
                entries = (e for n in self._names for e in n.trigrams(text, 100))
                candidates += _rescored(norm, entries, "trigram")
        return _distinct(candidates)[:limit]

    def longer(self, text: str, limit: int = 10) -> tuple[Candidate, ...]:
        """Return nodes whose longer name begins or ends with the text (`Lincoln`: Abraham Lincoln)."""
        if not (norm := normalise(text)):
            return ()
        entries = (entry for names in self._names for entry in names.longer(text, limit))
        popular = sorted(entries, key=lambda entry: -entry.popularity)[:limit]
        return _distinct(_rescored(norm, popular, "fuzzy"))

    def spans(
        self, question: str, asked: Callable[[Span], bool] = lambda span: True
    ) -> tuple[SpanMatch, ...]:
        """Return all spans of the question that are full names, longest first, from batched look-ups.

        Args:
            asked: which spans may be names.
        """
        most_words = max(names.most_words for names in self._names)
        runs = [span for span in spans(question, most_words) if span.norm and asked(span)]
        entries = self._exact((span.norm, span.text) for span in runs)
        return tuple(SpanMatch(span, _ordered(entries[span.norm])) for span in runs if span.norm in entries)

    def node(self, iri: IRI) -> Entry | None:
        """Return the entry of a node under its preferred label; None if the index has none."""
        return next((e for names in self._names if (e := names.node(iri)) is not None), None)

    def nodes(self) -> Iterator[tuple[int, Entry]]:
        """Yield the nodes of the KG itself with their numbers, each under its preferred label."""
        return self._names[0].nodes()

    def numbered(self, numbers: Sequence[int]) -> dict[int, Entry]:
        """Return nodes by their numbers, see `nodes`."""
        return dict(self._names[0].nodes(numbers))

    def close(self) -> None:
        """Free what is held until it is used again. Safe to call twice."""
        with self._lock:
            for names in self._made or ():
                names.close()
            self._made = None

    def _exact(self, forms: Iterable[tuple[str, str]]) -> dict[str, list[Entry]]:
        texts, entries = dict[str, set[str]](), dict[str, list[Entry]]()
        for norm, text in forms:
            if norm:
                texts.setdefault(norm, set()).add(text)
        for names in self._names if texts else ():
            for norm, more in names.exact(texts).items():
                entries.setdefault(norm, []).extend(more)
        return entries


def similarity(norm: str, other: str) -> float:
    """How alike two normalised names are, 0 to 1: by edits, by edits in any word order, or as part of a name.

    A text that holds all of a name and more is not that name: only the text may leave words out.
    """
    from rapidfuzz import fuzz

    edits = max(fuzz.ratio(norm, other), 0.95 * fuzz.token_sort_ratio(norm, other)) / 100
    words, others = set(norm.split()), set(other.split())
    part = 0.7 + 0.2 * len(words) / len(others) if words < others else 0.0
    return max(edits, part)


def _rescored(norm: str, entries: Iterable[Entry], kind: Kind) -> list[Candidate]:
    scored = (Candidate(entry, similarity(norm, normalise(entry.text)), kind) for entry in entries)
    # A near match never outranks an exact one found elsewhere.
    near = (replace(c, score=min(c.score, 0.95)) for c in scored if c.score >= _LEAST_SCORE)
    return sorted(near, key=_rank)


def _distinct(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The best candidate of each node, best first."""
    best: dict[IRI, Candidate] = {}
    for candidate in sorted(candidates, key=_rank):
        best.setdefault(candidate.iri, candidate)
    return tuple(best.values())


def _rank(candidate: Candidate) -> tuple[float, int, str]:
    return (-round(candidate.score, 2), -candidate.entry.popularity, candidate.iri.value)


def _ordered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One entry a node, labels before aliases, popular before rare."""
    best: dict[IRI, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.alias, -e.popularity, e.iri.value)):
        best.setdefault(entry.iri, entry)
    return tuple(best.values())


def build_label_index(
    folder: Path,
    names: Iterable[Name],
    popularity: Callable[[str], int],
    description: Callable[[str], str],
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Write the index of `names` (in order of preference) into `folder`; returns how many names it holds."""
    import tantivy

    connection = sqlite3.connect(folder / SQLITE, isolation_level=None)
    try:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;"
        )
        count = _insert(connection, names, popularity, description, progress)
        connection.executescript(_TRIGRAMS)
        (folder / FUZZY).mkdir()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("norm", tokenizer_name="whitespace", index_option="freq")
        builder.add_unsigned_field("id", stored=True)
        index = tantivy.Index(builder.build(), str(folder / FUZZY))
        writer: Any = index.writer(heap_size=64_000_000, num_threads=1)
        for row, norm in connection.execute("SELECT id, norm FROM names"):
            writer.add_document(tantivy.Document(norm=norm, id=row))
        writer.commit()
        writer.wait_merging_threads()
    finally:
        connection.close()
    return count


def _insert(
    connection: sqlite3.Connection,
    names: Iterable[Name],
    popularity: Callable[[str], int],
    description: Callable[[str], str],
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Make the tables of an index. Returns how many names there were."""
    connection.executescript(_SCHEMA)
    connection.execute("BEGIN")
    count, source = 0, iter(names)
    while batch := list(islice(source, _BATCH)):
        preferred = {name.iri: name for name in reversed(batch)}
        connection.executemany(
            "INSERT OR IGNORE INTO nodes(iri, label, popularity, description) VALUES (?, ?, ?, ?)",
            ((n.iri, n.text, popularity(n.iri), description(n.iri)) for n in preferred.values()),
        )
        connection.executemany(
            "INSERT INTO names(norm, node, text, alias) "
            "SELECT ?, id, ?, ? OR label <> ? FROM nodes WHERE iri = ?",
            ((norm, n.text, n.alias, n.text, n.iri) for n in batch if (norm := normalise(n.text))),
        )
        count += len(batch)
        progress(count)
    connection.execute("COMMIT")
    connection.executescript(_INDEX)
    return count


def _memory_names(
    names: Iterable[Name], popularity: Callable[[str], int], description: Callable[[str], str]
) -> _Names:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _insert(connection, names, popularity, description)
    return _Names(connection)


class _Names:
    """Names in SQLite. One connection serves all threads: SQLite lets them in one by one.

    Args:
        connection: to the tables. fuzzy: the folder of tantivy's index, where the names lie on disk: only
            then there are trigrams; in memory, near names are found by comparing with all.
    """

    def __init__(self, connection: sqlite3.Connection, fuzzy: Path | None = None) -> None:
        self._connection, self._folder = connection, fuzzy
        _, self.most_words = connection.execute("SELECT * FROM facts").fetchone()

    def exact(self, texts: Mapping[str, Collection[str]]) -> Mapping[str, list[Entry]]:
        by_norm: dict[str, list[Entry]] = {}
        norms = iter(texts)
        while batch := list(islice(norms, _CHUNK)):
            for norm, entry in self._select(f"names.norm IN ({_marks(batch)})", batch):
                by_norm.setdefault(norm, []).append(entry)
        return by_norm

    def fuzzy(self, text: str, limit: int) -> Iterable[Entry]:
        norm = normalise(text)
        if self._folder is None:
            from rapidfuzz import fuzz, process

            near: dict[str, None] = {}
            for scorer in (fuzz.ratio, fuzz.token_set_ratio):
                similar = process.extract(
                    norm, self._norms, scorer=scorer, processor=None, limit=limit, score_cutoff=60
                )
                near.update(dict.fromkeys(other for other, *_ in similar))
            return [entry for _, entry in self._select(f"names.norm IN ({_marks(near)})", list(near))]
        import tantivy

        searcher, schema = self._searcher
        words = []
        for word in norm.split():
            edits = 0 if len(word) < 3 else 1 if len(word) < 8 else 2
            query = tantivy.Query.fuzzy_term_query(schema, "norm", word, edits)
            words.append((tantivy.Occur.Should, query))
        hits = searcher.search(tantivy.Query.boolean_query(words), limit, count=False).hits
        return self._numbered([searcher.doc(address)["id"][0] for _, address in hits])

    def trigrams(self, text: str, limit: int) -> Iterable[Entry]:
        if self._folder is None:
            return []
        norm = normalise(text)
        grams = list(dict.fromkeys(norm[i : i + 3] for i in range(len(norm) - 2)))
        rare = self._execute(
            f"SELECT term FROM trigram_counts WHERE term IN ({_marks(grams)}) ORDER BY doc LIMIT {_RARE}",
            grams,
        )
        if not rare:
            return []
        query = " OR ".join('"' + gram.replace('"', '""') + '"' for (gram,) in rare)
        sql = "SELECT rowid FROM trigrams WHERE trigrams MATCH ? ORDER BY rank LIMIT ?"
        return self._numbered([number for (number,) in self._execute(sql, (query, limit))])

    def longer(self, text: str, limit: int) -> Iterable[Entry]:
        norm = normalise(text)
        ends = "(names.norm LIKE ? || ' %' OR names.norm LIKE '% ' || ?) ORDER BY popularity DESC LIMIT ?"
        values: list[object] = [norm, norm, limit]
        if self._folder is not None:
            if len(norm) < 3:
                return []
            holding = f"SELECT rowid FROM trigrams WHERE trigrams MATCH ? LIMIT {_HOLDING}"
            ends, values = f"names.id IN ({holding}) AND {ends}", [f'"{norm}"', *values]
        return [entry for _, entry in self._select(ends, values)]

    def node(self, iri: IRI) -> Entry | None:
        sql = "SELECT iri, label, label, 0, popularity, description FROM nodes WHERE iri = ?"
        return next((_entry(*row) for row in self._execute(sql, (iri.value,))), None)

    def nodes(self, numbers: Sequence[int] | None = None) -> Iterator[tuple[int, Entry]]:
        sql = "SELECT id, iri, label, label, 0, popularity, description FROM nodes"
        some = "" if numbers is None else f" WHERE id IN ({_marks(numbers)})"
        for number, *row in self._connection.execute(sql + some, numbers or ()):
            yield number, _entry(*row)

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def _norms(self) -> list[str]:
        return [norm for (norm,) in self._execute("SELECT DISTINCT norm FROM names")]

    @cached_property
    def _searcher(self) -> tuple[tantivy.Searcher, tantivy.Schema]:
        import tantivy

        try:
            index = tantivy.Index.open(str(self._folder))
        except ValueError as error:
            raise DataError(f"the label index fails ({error}); load the graph again", self._folder) from error
        return index.searcher(), index.schema

    def _numbered(self, ids: Sequence[int]) -> list[Entry]:
        return [entry for _, entry in self._select(f"names.id IN ({_marks(ids)})", ids)]

    def _select(self, condition: str, values: Sequence[object]) -> list[tuple[str, Entry]]:
        """The names that meet a condition, in normal form, with their entries."""
        return [(norm, _entry(*row)) for *row, norm in self._execute(_SELECT + condition, values)]

    def _execute(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query. Raises `DataError` where the file is damaged."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise DataError(f"the label index fails ({error}); load the graph again", self._folder) from error


def _marks(values: Collection[object]) -> str:
    return ",".join("?" * len(values))


def _entry(iri: str, label: str, text: str, alias: int, popularity: int, description: str) -> Entry:
    return Entry(IRI(iri), label, text, bool(alias), popularity, description)
