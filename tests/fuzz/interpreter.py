"""Fuzzing the interpreter: no reply may raise, and nothing but read queries may reach an engine.

`python -m tests.fuzz.interpreter --texts 1000000 --seed 1` spreads them over all toolsets. Every text
goes through `parse_react`, `parse_call` and `Toolset.execute`; a spy stands where queries reach the engine,
and reads each with a tokeniser of its own: outside literals and IRIs only triplewise's own words may stand.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.hostile import MARK, Hostile, Vocabulary
from triplewise.tools.actions import TOOLSETS, Feedback, Toolset, parse_call, parse_react
from triplewise.tools.actions.action import ActionContext, ReasoningMemory
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Result
from triplewise.tools.kg.readonly import ReadQuery

SLOW = 2.0
"""Seconds one text may take."""
KEPT = 20
"""Faults that are reported in full."""
_LONGEST_PROGRAM = 8
_ANEW = 0.1

_WORDS = """SELECT DISTINCT WHERE FILTER NOT EXISTS OPTIONAL UNION VALUES ORDER GROUP BY DESC ASC LIMIT ASK
    PREFIX
    COUNT MAX MIN AS BIND BOUND STR SUBSTR STRLEN LCASE CONTAINS STRSTARTS STRENDS LANG LANGMATCHES ISIRI
    ISLITERAL ISNUMERIC DATATYPE UNDEF IN COALESCE IF TRUE FALSE A REDUCED HAVING SAMPLE"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"""
      (?P<space>[ \n\t]+)
    | (?P<string>"(?:[^"\\\n\r]|\\[tbnrf"'\\])*")
    | (?P<iri><[^\x00-\x20<>"{}|^`\\]*>)
    | (?P<variable>\?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (?P<name>[A-Za-z][A-Za-z0-9_-]*:[A-Za-z0-9_-]*)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
    | (?P<word>[A-Za-z]+)
    | (?P<mark>\^\^|&&|\|\||!=|<=|>=|[{}().,;*/|^=!<>+-])
    """,
    re.VERBOSE,
)


def escaped(sparql: str) -> str:
    """What stands in a query outside literals and IRIs and is no word of triplewise's own; "" if nothing."""
    at, depth = 0, 0
    while at < len(sparql):
        token = _TOKEN.match(sparql, at)
        if token is None or (token.lastgroup == "word" and token[0].upper() not in _KEYWORDS):
            return sparql[at : at + 80]
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0:
            return sparql[at : at + 80]
        at = token.end()
    return "" if depth == 0 else "an open brace"


@dataclass
class Seen:
    """What reached engines.

    Attributes:
        queries: how many; each different text is read once. escapes: the ones that held more than they may.
        check: another opinion on a query text, "" if it is a read query; asked about every `every`-th.
    """

    queries: int = 0
    escapes: list[str] = field(default_factory=list)
    check: Callable[[str], str] | None = None
    every: int = 1000

    def sparql(self, text: str) -> None:
        """Note a SPARQL query."""
        self.queries += 1
        wrong = escaped(text)
        if not wrong and self.check is not None and self.queries % self.every == 0:
            wrong = self.check(text)
        if wrong:
            self.escapes.append(f"{wrong!r} in {text}")

    def sql(self, text: str) -> None:
        """Note an SQL query, values as parameters."""
        self.queries += 1
        if not re.match(r"(?:WITH|SELECT)\b", text) or MARK in text.casefold() or ";" in text:
            self.escapes.append(text)


class SpyKG(EmbeddedKG):
    """A graph in memory that notes every query that passes the gate."""

    def __init__(self, store: Any, profile: Profile, name: str, seen: Seen) -> None:
        super().__init__(store, profile, name, timeout=5.0, limit=200)
        self.seen = seen

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        self.seen.sparql(query.text)
        return super()._run(query, timeout, limit)


@dataclass
class Report:
    """What a run found.

    Attributes:
        texts, executed, queries: texts tried, calls carried out, queries that reached an engine.
        seconds: wall clock. outcomes: error codes and outcomes of the calls. faults: what must not be.
    """

    texts: int = 0
    executed: int = 0
    queries: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0

    def fault(self, what: str, text: str) -> None:
        """Note something that must not happen."""
        self.fault_count += 1
        if len(self.faults) < KEPT:
            self.faults.append(f"{what}: {text[:400]!r}")


@dataclass(frozen=True)
class Target:
    """A toolset with a bench to run it on, what its calls are made of, and programs to begin with."""

    toolset: Toolset
    bench: ActionContext
    vocabulary: Vocabulary
    programs: Sequence[str]


@dataclass(frozen=True)
class Small:
    """A small graph in the shape of one profile.

    Attributes:
        triples: `subject|relation|object`. entities, relations: ids and names that exist; the first entity is
            linked. programs: what a PyQL program may hold already.
    """

    triples: tuple[str, ...]
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    programs: tuple[str, ...]


GRAPHS: Mapping[str, Small] = {
    "wikidata": Small(
        ("Q1|P31|Q9", "Q2|P31|Q9", "Q1|P36|Q3", "Q2|P36|Q4", "Q3|P17|Q1", "Q4|P17|Q2", "Q9|P279|Q8",
         "Q1|P1082|5", "Q2|P1082|7", "Q1|P571|1999-01-02"),
        ("Q1", "Q2", "Q9", "wd:Q1", "<http://www.wikidata.org/entity/Q1>", "Q1 name"),
        ("P31", "P36", "P1082", "P571", "wdt:P36", "P36 (capital)"),
        ("", "add_fact(Q1, P36, ?x)", "add_fact(?x, P31, Q9)\nadd_fact(?x, P1082, ?y)", "ask()"),
    ),
    "freebase": Small(
        ("m.01|people.person.parents|m.02", "m.02|people.person.parents|m.03",
         "m.01|people.person.spouse_s|m.09", "m.09|people.marriage.spouse|m.04",
         "m.09|people.marriage.from|1999-01-02", "m.01|people.person.height|2"),
        ("m.01", "m.02", "ns:m.01", "people.person"),
        ("people.person.parents", "people.person.spouse_s", "people.marriage.from"),
        ("", "add_fact(m.01, people.person.parents, ?x)",
         "add_fact(m.01, people.person.spouse_s, ?x)\nadd_fact(?x, people.marriage.from, ?y)"),
    ),
    "metaqa": Small(
        ("Alien|directed_by|Ridley Scott", "Alien|release_year|1979", "Alien|has_genre|Horror",
         "Heat|directed_by|Mann", "Heat|release_year|1995"),
        ("Alien", "Heat", "Ridley Scott", "1979", '"Alien"', "alien"),
        ("directed_by", "release_year", "has_genre"),
        ("", "add_fact(Alien, directed_by, ?x)",
         "add_fact(?x, has_genre, Horror)\nadd_fact(?x, release_year, ?y)"),
    ),
}  # fmt: skip
"""Small graphs in the shapes of three profiles."""

VARIABLES = ("?x", "?y", "?z", "?count", "#0", "#1")
VALUES = ("5", "1999", "1999-01-02", '"5"^^xsd:integer', '"text"', '"text"@en', "none", "desc", "text")
OPERATORS = ("=", "!=", ">", "<", ">=", "<=", "contains", "starts_with")
_SQL_NAMES = ("film", "person", "title", "year", "film.title", "name", "place", 'odd " name')
_SQL_PROGRAMS = (
    "",
    'add_condition("film.title", "=", "Alien")',
    'add_condition("person.name", "=", "Scott")',
)


@cache
def _profile(name: str) -> Profile:
    return load_profile(name)


def small_graph(name: str, seen: Seen) -> SpyKG:
    """One of `GRAPHS` in memory, every entity with a name that tries to leave its quotes."""
    import pyoxigraph as ox

    profile, store = _profile(name), ox.Store()
    for line in GRAPHS[name].triples:
        subject, relation, value = line.split("|")
        start, edge = profile.expand(subject), profile.expand(relation, relation=True)
        assert start, line
        assert edge, line
        iri = profile.expand(value)
        end: Any = ox.NamedNode(iri.value) if iri else ox.Literal(value)
        label = ox.Literal(f'{subject} "quoted" \\ {{name}}', language="en")
        store.add(ox.Quad(ox.NamedNode(start.value), ox.NamedNode(edge.value), end))
        store.add(ox.Quad(ox.NamedNode(start.value), ox.NamedNode(RDFS + "label"), label))
    return SpyKG(store, profile, name, seen)


def _memory(small: Small) -> ReasoningMemory:
    """What was linked and looked up: one entity by its id, one by a name that is hard to write."""
    linked, other = small.entities[:2]
    return ReasoningMemory(
        linked={linked: linked, other: 'A "name", with (everything) } in it'},
        looked_up={linked: {"forward": list(small.relations), "backward": []}},
        seen=frozenset(small.entities[:3]),
    )


def graph_targets(toolset: Toolset, seen: Seen) -> Iterator[Target]:
    """A toolset for knowledge graphs on each of the small graphs."""
    for name, small in GRAPHS.items():
        services = {"rules": lambda _q: ["Q1 -[P36]-> ?x"], "documents": lambda _n, _r: ["a passage"]}
        kg = small_graph(name, seen)
        bench = ActionContext(kg, "Which one?", memory=_memory(small), services=services)
        pattern = f"({VARIABLES[0]}, {small.relations[0]}, {small.entities[0]})"
        nodes = (*small.entities, *VARIABLES)
        fitting: dict[str, Sequence[str]] = {
            "node": nodes, "entity": small.entities, "relation": small.relations, "variable": VARIABLES[:3],
            "operator": OPERATORS, "value": (*VALUES, *nodes), "text": (pattern, *VALUES),
        }  # fmt: skip
        programs = small.programs if toolset.name == "pyql" else ("",)
        yield Target(toolset, bench, Vocabulary(_calls(toolset), fitting), programs)


def _calls(toolset: Toolset) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, tuple(p.kind for p in toolset.action(name).parameters)) for name in toolset]


@contextmanager
def sql_target(toolset: Toolset, seen: Seen) -> Iterator[Target]:
    """The SQL toolset on a small SQLite file, with a spy at the engine."""
    from triplewise.tools.sql.database import RelationalDatabase
    from triplewise.tools.sql.engines import SQLiteEngine
    from triplewise.tools.sql.nograph import NoGraph

    class Spy(SQLiteEngine):
        def fetch(self, statement: Any, timeout: float) -> list[tuple[Any, ...]]:
            seen.sql(str(statement.compile(dialect=self.dialect)))
            return super().fetch(statement, timeout)

    with tempfile.TemporaryDirectory(prefix="triplewise-fuzz-") as folder:
        path = Path(folder) / "films.db"
        _fill(path)
        before = path.read_bytes()
        database = RelationalDatabase(Spy(path), timeout=5.0, limit=50)
        try:
            bench = ActionContext(NoGraph(), "Which film?", services={"database": database})
            names = dict.fromkeys(("node", "entity", "relation", "variable", "text"), _SQL_NAMES)
            fitting = {
                **names,
                "operator": OPERATORS,
                "value": (*VALUES, *_SQL_NAMES, "Alien", "MAX", "COUNT"),
            }
            yield Target(toolset, bench, Vocabulary(_calls(toolset), fitting), _SQL_PROGRAMS)
        finally:
            database.close()
        if path.read_bytes() != before:
            seen.escapes.append("the database file was changed")


def _fill(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE film (title TEXT, year INTEGER, "odd "" name" TEXT,
                           person INTEGER REFERENCES person(id));
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, place TEXT);
        INSERT INTO person VALUES (1, 'Scott', 'South Shields'), (2, 'O''Hara', NULL);
        INSERT INTO film VALUES ('Alien', 1979, 'x', 1), ('Heat', 1995, 'y', 2), ('', NULL, NULL, NULL);"""
    )
    connection.commit()
    connection.close()


@contextmanager
def targets_for(name: str, seen: Seen) -> Iterator[list[Target]]:
    """Everything that a toolset is fuzzed on."""
    toolset = TOOLSETS[name]
    if name == "sql":
        with sql_target(toolset, seen) as target:
            yield [target]
    else:
        yield list(graph_targets(toolset, seen))


def fuzz(
    toolset: str,
    texts: int,
    seed: int,
    check: Callable[[str], str] | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> Report:
    """Try many hostile replies on one toolset.

    Args:
        toolset: a name of `TOOLSETS`.
        texts, seed: how many, and which.
        check: an independent parser's opinion on a query, "" if it is a read query; asked about one in 1,000.
        progress: told how many more texts are done.
    """
    seen, report, start = Seen(check=check), Report(), time.perf_counter()
    with targets_for(toolset, seen) as targets:
        for number, target in enumerate(targets):
            share = texts // len(targets) + (number < texts % len(targets))
            _attack(target, share, seed + number, report, progress)
    for text in seen.escapes:
        report.fault("reached the engine", text)
    report.queries, report.seconds = seen.queries, time.perf_counter() - start
    return report


def _attack(target: Target, texts: int, seed: int, report: Report, progress: Callable[[int], None]) -> None:
    hostile, random = Hostile(seed, target.vocabulary), Random(seed)
    program = ""
    for number in range(1, texts + 1):
        text = hostile.text()
        start = time.perf_counter()
        feedback = _try(target, program, text, report)
        if time.perf_counter() - start > SLOW:
            report.fault(f"took {time.perf_counter() - start:.1f} s", text)
        program = feedback.program if feedback else ""
        if feedback is None or program.count("\n") >= _LONGEST_PROGRAM or random.random() < _ANEW:
            program = random.choice(target.programs)
        if number % 500 == 0 or number == texts:
            progress(number % 500 or 500)


def _try(target: Target, program: str, text: str, report: Report) -> Feedback | None:
    """One text on one program. None if it raised what it may not."""
    report.texts += 1
    bench = replace(target.bench, program=program)
    try:
        call = _read(text, target.toolset)
        if call is None:
            report.outcomes["no call"] += 1
            return Feedback(program=program)
        report.executed += 1
        feedback = target.toolset.execute(bench, call)
        json.dumps(asdict(replace(feedback, outcome=str(feedback.outcome))))
    except Exception as error:  # noqa: BLE001 - whatever is raised is what is looked for
        report.fault(f"{type(error).__name__}: {error}", f"{program} || {text}")
        return None
    report.outcomes[feedback.error or str(feedback.outcome) or "said"] += 1
    return feedback


def _read(text: str, toolset: Toolset) -> Call | None:
    """The call of a reply; None where the parser refuses it, as it may."""
    with suppress(ActionError):
        parse_call(text)
    try:
        action = parse_react(text).call
    except ActionError as error:
        action = str(error.detail.get("action", ""))
    try:
        return parse_call(action or text, toolset)
    except ActionError:
        return None


def by_rdflib(sparql: str) -> str:
    """What rdflib's parser finds wrong with a query; "" if it reads it as a query too."""
    from pyparsing.exceptions import ParseException
    from rdflib.plugins.sparql.parser import parseQuery

    try:
        parseQuery(sparql)
    except ParseException as error:
        return f"rdflib: {error}"
    return ""
