"""Small graphs and a database on which hostile replies are tried, with a spy where queries are run."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import sqlalchemy as sa

from triplewise.tools.actions import TOOLSETS, Toolset
from triplewise.tools.actions.toolset import ActionContext, ReasoningMemory
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.engine import ReadQuery
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Result
from triplewise.tools.sql.database import open_database

MARK = "zqxmark"
"""A word that stands in no graph, no query and no keyword: payloads carry it."""
_WORDS = """SELECT DISTINCT WHERE FILTER NOT EXISTS OPTIONAL UNION VALUES ORDER GROUP BY DESC ASC LIMIT ASK
    PREFIX COUNT MAX MIN AS BIND BOUND STR SUBSTR STRLEN LCASE CONTAINS STRSTARTS STRENDS LANG LANGMATCHES
    ISIRI ISLITERAL ISNUMERIC DATATYPE UNDEF IN COALESCE IF TRUE FALSE A REDUCED HAVING SAMPLE"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"""[ \n\t]+
    | "(?:[^"\\\n\r]|\\[tbnrf"'\\])*"
    | <[^\x00-\x20<>"{}|^`\\]*>
    | \?[A-Za-z_][A-Za-z0-9_]*
    | @[A-Za-z]+(?:-[A-Za-z0-9]+)*
    | [A-Za-z][A-Za-z0-9_-]*:[A-Za-z0-9_-]*
    | -?[0-9]+(?:\.[0-9]+)?
    | (?P<word>[A-Za-z]+)
    | \^\^|&&|\|\||!=|<=|>=|[{}().,;*/|^=!<>+-]""",
    re.VERBOSE,
)


def escaped(sparql: str) -> str:
    """Return what a query has outside literals and IRIs that is no word of ours; "" if nothing."""
    at, depth = 0, 0
    while at < len(sparql):
        token = _TOKEN.match(sparql, at)
        if token is None or (token["word"] and token["word"].upper() not in _KEYWORDS):
            return sparql[at : at + 80]
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0:
            return sparql[at : at + 80]
        at = token.end()
    return "" if depth == 0 else "an open brace"


@dataclass
class Spy:
    """What reached engines: how many queries, and those that held more than they may."""

    queries: int = 0
    escapes: list[str] = field(default_factory=list)

    def sparql(self, text: str) -> None:
        """Check a SPARQL query."""
        self.queries += 1
        if wrong := escaped(text):
            self.escapes.append(f"{wrong!r} in {text}")

    def sql(self, text: str) -> None:
        """Check an SQL query, values as parameters."""
        self.queries += 1
        if not re.match(r"(?:WITH|SELECT)\b", text) or MARK in text.casefold() or ";" in text:
            self.escapes.append(text)


class SpyKG(EmbeddedKG):
    """A graph in memory that notes every query that passes the gate."""

    def __init__(self, store: Any, profile: Profile, name: str, spy: Spy) -> None:
        super().__init__(store, profile, name, timeout=5.0, limit=200)
        self.spy = spy

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        self.spy.sparql(query.text)
        return super()._run(query, timeout, limit)


@dataclass(frozen=True)
class Target:
    """A toolset with what it works on, arguments that make sense by kind, and programs to begin with."""

    toolset: Toolset
    context: ActionContext
    fitting: Mapping[str, Sequence[str]]
    programs: Sequence[str]


GRAPHS: Mapping[str, tuple[str, Sequence[str], Sequence[str], Sequence[str]]] = {
    "wikidata": (
        "Q1|P31|Q9 Q2|P31|Q9 Q1|P36|Q3 Q2|P36|Q4 Q9|P279|Q8 Q1|P1082|5 Q2|P1082|7 Q1|P571|1999-01-02",
        ("Q1", "Q2", "Q9", "wd:Q1", "<http://www.wikidata.org/entity/Q1>", "Q1 name"),
        ("P31", "P36", "P1082", "P571", "wdt:P36", "P36 (capital)"),
        ("", "add_fact(Q1, P36, ?x)", "add_fact(?x, P31, Q9)\nadd_fact(?x, P1082, ?y)", "ask()"),
    ),
    "metaqa": (
        "Alien|directed_by|Scott Alien|release_year|1979 Alien|has_genre|Horror Heat|directed_by|Mann",
        ("Alien", "Heat", "Scott", "1979", '"Alien"', "alien"),
        ("directed_by", "release_year", "has_genre"),
        ("", "add_fact(Alien, directed_by, ?x)", "add_fact(?x, has_genre, Horror)"),
    ),
}
"""Profile -> triples, entities, relations, programs. The first entity is linked."""
VARIABLES = ("?x", "?y", "?z", "?count", "#0", "#1")
VALUES = ("5", "1999", "1999-01-02", '"5"^^xsd:integer', '"text"', '"text"@en', "none", "desc", "text")
OPERATORS = ("=", "!=", ">", "<", ">=", "<=", "contains", "starts_with")
COLUMNS = ("film", "person", "title", "year", "film.title", "name", "place", 'odd " name')


@contextmanager
def targets_for(name: str, spy: Spy) -> Iterator[list[Target]]:
    """Everything that a toolset is tried on."""
    toolset = TOOLSETS[name]
    if name != "sql":
        yield [_on_graph(toolset, profile, spy) for profile in GRAPHS]
        return

    with tempfile.TemporaryDirectory(prefix="triplewise-fuzz-") as folder:
        path = Path(folder) / "films.db"
        connection = sqlite3.connect(path)
        connection.executescript(
            """CREATE TABLE film (title TEXT, year INTEGER, "odd "" name" TEXT,
                               person INTEGER REFERENCES person(id));
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, place TEXT);
            INSERT INTO person VALUES (1, 'Scott', 'South Shields'), (2, 'O''Hara', NULL);
            INSERT INTO film VALUES ('Alien', 1979, 'x', 1), ('Heat', 1995, 'y', 2);"""
        )
        connection.commit()
        connection.close()
        before, database = path.read_bytes(), open_database(str(path), timeout=5.0, limit=50)

        def look(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            spy.sql(statement)

        sa.event.listen(database.engine, "before_cursor_execute", look)
        try:
            context = ActionContext(
                EmbeddedKG(ox.Store(), load_profile("generic"), "none"),
                "Which film?",
                services={"database": database},
            )
            fitting = dict.fromkeys(("node", "entity", "relation", "variable", "text"), COLUMNS)
            values = (*VALUES, *COLUMNS, "Alien", "MAX", "COUNT")
            programs = ("", 'add_condition("film.title", "=", "Alien")')
            yield [Target(toolset, context, {**fitting, "operator": OPERATORS, "value": values}, programs)]
        finally:
            database.close()
        if path.read_bytes() != before:
            spy.escapes.append("the database file was changed")


def _on_graph(toolset: Toolset, name: str, spy: Spy) -> Target:
    """A toolset on a small graph in which every entity has a name that tries to leave its quotes."""
    triples, entities, relations, programs = GRAPHS[name]
    profile, store = load_profile(name), ox.Store()
    for line in triples.split():
        subject, relation, value = line.split("|")
        start, edge, iri = (
            profile.expand(subject),
            profile.expand(relation, relation=True),
            profile.expand(value),
        )
        assert start, line
        assert edge, line
        end: Any = ox.NamedNode(iri.value) if iri else ox.Literal(value)
        label = ox.Literal(f'{subject} "quoted" \\ {{name}}', language="en")
        store.add(ox.Quad(ox.NamedNode(start.value), ox.NamedNode(edge.value), end))
        store.add(ox.Quad(ox.NamedNode(start.value), ox.NamedNode(RDFS + "label"), label))
    memory = ReasoningMemory(
        linked={entities[0]: entities[0], entities[1]: 'A "name", with (everything) } in it'},
        looked_up={entities[0]: {"forward": list(relations), "backward": []}},
        seen=frozenset(entities[:3]),
    )
    services = {"rules": lambda _q: ["Q1 -[P36]-> ?x"], "documents": lambda _n, _r: ["a passage"]}
    context = ActionContext(SpyKG(store, profile, name, spy), "Which one?", memory=memory, services=services)
    nodes = (*entities, *VARIABLES)
    pattern = f"(?x, {relations[0]}, {entities[0]})"
    fitting = {
        "node": nodes, "entity": entities, "relation": relations, "variable": VARIABLES[:3],
        "operator": OPERATORS, "value": (*VALUES, *nodes), "text": (pattern, *VALUES),
    }  # fmt: skip
    return Target(toolset, context, fitting, programs if toolset.name == "pyql" else ("",))
