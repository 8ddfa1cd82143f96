"""The label index of a loaded KG, on disk: SQLite for exact names and trigrams, tantivy for fuzzy ones."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.labels import Entry, Name

if TYPE_CHECKING:
    import tantivy

SQLITE, FUZZY = "labels.sqlite", "fuzzy"

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = FILE;
CREATE TABLE nodes (id INTEGER PRIMARY KEY, iri TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                    popularity INTEGER NOT NULL, description TEXT NOT NULL);
CREATE TABLE names (id INTEGER PRIMARY KEY, norm TEXT NOT NULL, node INTEGER NOT NULL, text TEXT NOT NULL,
                    alias INTEGER NOT NULL);
"""
_FINISH = """
CREATE INDEX names_norm ON names(norm);
CREATE VIRTUAL TABLE trigrams USING fts5(norm, content='names', content_rowid='id', tokenize='trigram');
INSERT INTO trigrams(rowid, norm) SELECT id, norm FROM names;
CREATE VIRTUAL TABLE trigram_counts USING fts5vocab(trigrams, 'row');
CREATE TABLE facts AS SELECT COUNT(*) AS names,
    COALESCE(MAX(LENGTH(norm) - LENGTH(REPLACE(norm, ' ', '')) + 1), 0) AS most_words FROM names;
"""
_SELECT = """
SELECT nodes.iri, nodes.label, names.text, names.alias, nodes.popularity, nodes.description, names.norm
FROM names JOIN nodes ON nodes.id = names.node WHERE """
_BATCH = 20_000
_HOLDING = 20_000
"""Names at most that are looked at for one that goes on before or behind a text."""
_RARE = 8
"""How many of a text's trigrams are asked for, rarest first."""


def build(
    folder: Path,
    names: Iterable[Name],
    popularity: Mapping[str, int],
    description: Callable[[str], str],
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write the index of `names` (in order of preference) into `folder`; returns how many names it holds."""
    connection = sqlite3.connect(folder / SQLITE, isolation_level=None)
    try:
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN")
        count = 0
        source = iter(names)
        while batch := list(islice(source, _BATCH)):
            _insert(connection, batch, popularity, description)
            count += len(batch)
            if progress is not None:
                progress(count)
        connection.execute("COMMIT")
        connection.executescript(_FINISH)
        _build_fuzzy(folder / FUZZY, connection)
    finally:
        connection.close()
    return count


class DiskNames:
    """Names in the files that `build` wrote. Opened when first asked, one SQLite connection a thread."""

    def __init__(self, folder: Path) -> None:
        if not (folder / SQLITE).is_file():
            raise DataError("the label index is missing; load the graph again", folder / SQLITE)
        self._folder = folder
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        self._fuzzy: tuple[tantivy.Searcher, tantivy.Schema] | None = None
        self._count, self.most_words = self._connection().execute("SELECT * FROM facts").fetchone()

    def exact(self, norms: Sequence[str]) -> dict[str, list[Entry]]:
        """Entries by normal form."""
        marks = ",".join("?" * len(norms))
        found: dict[str, list[Entry]] = {}
        for *row, norm in self._connection().execute(f"{_SELECT} names.norm IN ({marks})", norms):
            found.setdefault(norm, []).append(_entry(*row))
        return found

    def fuzzy(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries that share nearly the same words: one edit a word, two in long ones."""
        import tantivy

        searcher, schema = self._searcher()
        words = [
            (tantivy.Occur.Should, tantivy.Query.fuzzy_term_query(schema, "norm", word, _edits(word)))
            for word in norm.split()
        ]
        hits = searcher.search(tantivy.Query.boolean_query(words), limit, count=False).hits
        return self._rows([searcher.doc(address)["id"][0] for _, address in hits])

    def trigrams(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries that share the text's rarest runs of three characters."""
        grams = list(dict.fromkeys(norm[i : i + 3] for i in range(len(norm) - 2)))
        marks = ",".join("?" * len(grams))
        connection = self._connection()
        rare = connection.execute(
            f"SELECT term FROM trigram_counts WHERE term IN ({marks}) ORDER BY doc LIMIT {_RARE}", grams
        ).fetchall()
        if not rare:
            return []
        query = " OR ".join('"' + gram.replace('"', '""') + '"' for (gram,) in rare)
        sql = "SELECT rowid FROM trigrams WHERE trigrams MATCH ? ORDER BY rank LIMIT ?"
        return self._rows([row for (row,) in connection.execute(sql, (query, limit))])

    def longer(self, norm: str, limit: int) -> Iterable[Entry]:
        """Names that begin or end with these words and go on, most popular first."""
        if len(norm) < 3:
            return []
        sql = (
            f"{_SELECT} names.id IN (SELECT rowid FROM trigrams WHERE trigrams MATCH ? LIMIT {_HOLDING})"
            " AND (names.norm LIKE ? || ' %' OR names.norm LIKE '% ' || ?) ORDER BY popularity DESC LIMIT ?"
        )
        rows = self._connection().execute(sql, (f'"{norm}"', norm, norm, limit))
        return [_entry(*row) for *row, _ in rows]

    def node(self, iri: IRI) -> Entry | None:
        """The entry of a node under its preferred label."""
        sql = "SELECT iri, label, label, 0, popularity, description FROM nodes WHERE iri = ?"
        row = self._connection().execute(sql, (iri.value,)).fetchone()
        return None if row is None else _entry(*row)

    def __len__(self) -> int:
        return int(self._count)

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            while self._connections:
                self._connections.pop().close()
            self._local = threading.local()
            self._fuzzy = None

    def _rows(self, ids: Sequence[int]) -> list[Entry]:
        marks = ",".join("?" * len(ids))
        rows = self._connection().execute(f"{_SELECT} names.id IN ({marks})", ids)
        return [_entry(*row) for *row, _ in rows]

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is None:
            uri = f"{(self._folder / SQLITE).absolute().as_uri()}?mode=ro&immutable=1"
            known = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._local.connection = known
            with self._lock:
                self._connections.append(known)
        return known

    def _searcher(self) -> tuple[tantivy.Searcher, tantivy.Schema]:
        import tantivy

        with self._lock:
            if self._fuzzy is None:
                index = tantivy.Index.open(str(self._folder / FUZZY))
                self._fuzzy = (index.searcher(), index.schema)
            return self._fuzzy


def _insert(
    connection: sqlite3.Connection,
    batch: Sequence[Name],
    popularity: Mapping[str, int],
    description: Callable[[str], str],
) -> None:
    preferred = {name.iri: name for name in reversed(batch)}
    connection.executemany(
        "INSERT OR IGNORE INTO nodes(iri, label, popularity, description) VALUES (?, ?, ?, ?)",
        ((n.iri, n.text, popularity.get(n.iri, 0), description(n.iri)) for n in preferred.values()),
    )
    connection.executemany(
        "INSERT INTO names(norm, node, text, alias) "
        "SELECT ?, id, ?, ? OR label <> ? FROM nodes WHERE iri = ?",
        ((norm, n.text, n.alias, n.text, n.iri) for n in batch if (norm := normalise(n.text))),
    )


def _build_fuzzy(folder: Path, connection: sqlite3.Connection) -> None:
    import tantivy

    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("norm", tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("id", stored=True)
    writer: Any = tantivy.Index(builder.build(), str(folder)).writer(heap_size=64_000_000, num_threads=1)
    for row, norm in connection.execute("SELECT id, norm FROM names"):
        writer.add_document(tantivy.Document(norm=norm, id=row))
    writer.commit()
    writer.wait_merging_threads()


def _edits(word: str) -> int:
    return 0 if len(word) < 3 else 1 if len(word) < 8 else 2


def _entry(iri: str, label: str, text: str, alias: int, popularity: int, description: str) -> Entry:
    return Entry(IRI(iri), label, text, bool(alias), popularity, description)
