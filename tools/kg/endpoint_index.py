"""The label index of an endpoint: its names are read page by page and indexed as those of a loaded graph.

What is read is kept at once, so that reading goes on where it stopped. The index lies in the user's cache by
the endpoint's URL, and `open_kg` opens it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.core.terms import IRI, Literal, whole_number
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.infer import infer_profile
from triplewise.tools.kg.labels import Name, build_label_index
from triplewise.tools.kg.load import finish, scratch_folder
from triplewise.tools.kg.open import INDEX
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.rdf import QUESTIONS_IN, Progress, node_names

UNFINISHED = "index.names.sqlite"
PAGE, LEAST_PAGE = 10_000, 100  # names read at once: at first and at least
PATIENCE = 60.0  # seconds that a page may take
MOST_RELATIONS = 20_000
_TABLES = """CREATE TABLE IF NOT EXISTS names (iri TEXT, section TEXT, text TEXT, language TEXT,
    facts INTEGER, PRIMARY KEY (iri, section, text, language)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_section ON names (section);
CREATE TABLE IF NOT EXISTS pages (section TEXT PRIMARY KEY, read INTEGER, finished INTEGER);"""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was read: the index's folder, its profile, names in it, pages and seconds of this run."""

    path: Path
    profile: Profile
    names: int
    pages: int
    seconds: float


def index_endpoint(kg: EndpointKG, *, pause: float = 0.2, progress: Progress | None = None) -> IndexReport:
    """Read the names of an endpoint by its profile and index them, replacing an earlier index.

    An endpoint that is not recognised gets the profile inferred from its facts, stored with the index. Waits
    `pause` seconds between two requests. Raises `KGUnavailableError` where the endpoint stopped answering;
    what was read is kept for the next call.
    """
    start, folder = time.perf_counter(), kg.cache_dirs[0] / INDEX
    patient = kg.session(timeout=PATIENCE, limit=PAGE + 1)
    with scratch_folder(folder, progress) as building:
        profile = infer_profile(patient) if kg.profile.name == "generic" else kg.profile
        with closing(sqlite3.connect(folder.parent / UNFINISHED, isolation_level=None)) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {_TABLES}")
            reading = _NameReader(patient, profile, connection, pause, progress or (lambda *_: None))
            reading.read()
            report = lambda done: reading.progress("indexing labels", done, None)  # noqa: E731
            names = build_label_index(building, reading.names(), report)
        finish(building, folder, profile, {"endpoint": kg.name, "names": names})
    (folder.parent / UNFINISHED).unlink()
    return IndexReport(folder, profile, names, reading.pages, time.perf_counter() - start)


@dataclass
class _NameReader:
    """The reading of one endpoint, and what was read."""

    kg: EndpointKG
    profile: Profile
    connection: sqlite3.Connection
    pause: float
    progress: Progress
    pages: int = 0

    def read(self) -> None:
        """Read all sections that are not finished: labels, aliases, descriptions, and nodes known by id."""
        profile = self.profile

        def texts_by(predicate: str, *others: str) -> str:
            tags = dict.fromkeys((profile.language, "mul", *others))
            tagged = " || ".join(f'LANGMATCHES(LANG(?text), "{tag}")' for tag in tags)
            return f'?node <{predicate}> ?text FILTER(LANG(?text) = "" || {tagged})'

        for predicate in dict.fromkeys((*profile.label_predicates, *profile.alias_predicates)):
            self._read_section(predicate, texts_by(predicate, *QUESTIONS_IN), "labels")
        for predicate in profile.description_predicates:
            self._read_section(predicate, texts_by(predicate), "descriptions")
        if profile.entity_text == "local":
            nodes = "{ ?node ?a ?b } UNION { ?b ?a ?node } FILTER(isIRI(?node))"
            ids = f'{{ SELECT DISTINCT ?node WHERE {{ {nodes} }} }} BIND("" AS ?text)'
            self._read_section("", ids, "ids")

    def _read_section(self, section: str, pattern: str, kind: str) -> None:
        """Read the names of one predicate, in the engine's own order."""
        state: Any = self.connection.execute("SELECT * FROM pages WHERE section = ?", (section,)).fetchone()
        (_, read, finished), last = state or (section, 0, False), frozenset[object]()
        page, facts = PAGE, kind != "descriptions"
        # Classes are not known by their instances.
        types = ", ".join(f"<{p}>" for p in self.profile.type_predicates)
        untyped = f"FILTER(?b NOT IN ({types}))" if types else ""
        counted = f"{{ ?node ?a ?x }} UNION {{ ?x ?b ?node {untyped} }}"
        while not finished:
            self.progress(f"reading {kind} {section.rpartition('/')[2]}", read, None)
            some = f"{{ SELECT ?node ?text WHERE {{ {pattern} }} OFFSET {read} LIMIT {page} }}"
            group = f"{{ {some} {counted if facts else 'BIND(1 AS ?x)'} }} GROUP BY ?node ?text"
            result = self.kg.query(f"SELECT ?node ?text (COUNT(?x) AS ?n) WHERE {group}")
            self.pages += 1
            time.sleep(self.pause)
            if result.outcome is Outcome.TRUNCATED:  # the endpoint sends fewer rows than requested
                page = max(len(result.rows) - 1, LEAST_PAGE)
            elif result.outcome.ok:
                earlier, last = last, frozenset(result.rows)
                if last and last == earlier:
                    raise KGUnavailableError("it gives the same names again and again: it ignores OFFSET")
                rows = [
                    (node.value, section, name.value, name.language.lower(), whole_number(n) or 0)
                    for node, name, n in result.rows
                    if isinstance(node, IRI) and isinstance(name, Literal)
                ]
                finished, read = not result.rows, read + (page if result.rows else 0)
                done = (section, read, finished)
                with self.connection:
                    self.connection.execute("BEGIN")
                    self.connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?, ?, ?, ?)", rows)
                    self.connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", done)
            elif page > LEAST_PAGE:
                page = max(page // 4, LEAST_PAGE)
            elif facts:  # to count the facts of nodes is too much for it
                facts = False
            else:
                kept = f"{read:,} names are read and kept: run the same command again to go on"
                raise KGUnavailableError(f"{result.message} {kept}")

    def names(self) -> Iterator[Name]:
        """The names of the nodes that questions can be about, in order of preference."""
        relations = list[str]()
        if not self.profile.linkable_pattern:  # else the profile itself tells relations from nodes
            used = self.kg.query("SELECT DISTINCT ?p WHERE { ?s ?p ?o }", limit=MOST_RELATIONS)
            relations = [row[0].value for row in used._rows if row[0] is not None]

        def texts(predicate: str) -> Iterator[tuple[str, str, str]]:
            sql = "SELECT iri, text, language FROM names WHERE section = ?"
            yield from self.connection.execute(sql, (predicate,))

        describing = self.profile.description_predicates
        is_description = f"section IN ({', '.join('?' * len(describing))})"
        numbers = f"SELECT MAX(facts), MAX(text) FILTER (WHERE {is_description}) FROM names WHERE iri = ?"

        def about(iri: str) -> tuple[int, str]:
            facts, description = self.connection.execute(numbers, (*describing, iri)).fetchone()
            return int(facts), description or ""

        return node_names(self.profile, relations, texts, (iri for iri, *_ in texts("")), about)
