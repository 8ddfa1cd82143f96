"""No reply of a model raises, and nothing but a read query that triplewise wrote itself reaches an engine."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyoxigraph as ox
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.calls import parse_call
from triplewise.tools.actions import DATABASE_TOOLSETS, TOOLSETS, parse_reply
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, ReasoningMemory
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.pyql.text import read_iri, read_literal
from triplewise.tools.sql.database import open_database

MARK = "zqxmark"
"""A word that stands in no graph and no query: payloads carry it."""
PAYLOADS = (
    f"}} DELETE WHERE {{ ?{MARK} ?p ?o",
    f"}} ; DELETE DATA {{ <urn:{MARK}> <urn:b> <urn:c> }} #",
    f"}} SERVICE <http://127.0.0.1/{MARK}> {{ ?s ?p ?o }} {{",
    f'"; DROP TABLE film; -- {MARK}',
    f"'; DROP TABLE film; -- {MARK}",
    f"' UNION SELECT {MARK} FROM sqlite_master --",
    f"film); ATTACH DATABASE '{MARK}' AS x; --",
    f'"Alien"@en-{MARK}}} LIMIT 1',
    f'"5"^^<urn:{MARK}> }} CLEAR ALL #>',
    f'"5"^^xsd:integer) }} {MARK}',
    f"<http://example.org/a>}} DELETE {{<{MARK}>",
    f"?x}} ASK {{ ?{MARK} ?p ?o",
    f"\\u0022 }} {MARK}",
    f'"""{MARK}""" }}',
    f"p:P39/ps:P39|^{MARK}",
    f"bif:sys_eval('{MARK}')",
    f"{{{{ {MARK}.__class__ }}}}",
    f"{MARK}\r\n}} DELETE WHERE {{ ?s ?p ?o }}",
)
"""Texts that would do harm if they left the place of a value."""
ODD = ("", "\x00", "\u2028", "\ud800", "\u0660\u0661", "??", "?1", "((", '"', "\\", "NaN", "1e999", "UNDEF",
       "1999-02-30", "*", "#-1", "^P1", "9" * 40, "<http://x:port/>", "5\u2212")  # fmt: skip
"""Texts at the edge of what a name, a number or a variable may be."""
FRAMES = (
    "{}",
    "Thought 1: I go on.\nAction 1: {}",
    "```python\n{}\n```",
    "<think>so</think>\nAction 2: {}",
    "**Action 4:** `{}`",
    "Action 1: {}\nAction 2: {}",
)
FITTING: Mapping[str, Sequence[str]] = {
    "node": ("Q1", "Q2", "Q9", "wd:Q1", "Q1 name", "?x", "?y", "#0"),
    "entity": ("Q1", "Q2", "Q9"),
    "relation": ("P31", "P36", "P1082", "P571", "wdt:P36"),
    "variable": ("?x", "?y", "?z"),
    "operator": ("=", "!=", ">", "<=", "contains"),
    "value": ("5", "1999", "1999-01-02", '"5"^^xsd:integer', '"text"@en', "none", "desc", "Q1", "?x"),
    "text": ("(?x, P36, Q1)", "5", '"text"'),
}
"""Kind of a parameter -> arguments that make sense on the graph below."""
COLUMNS = ("film", "title", "year", "film.title", "name", "place", 'odd " name')
PROGRAMS = ("", "add_fact(Q1, P36, ?x)", "add_fact(?x, P31, Q9)\nadd_fact(?x, P1082, ?y)")


class Target(NamedTuple):
    """What a toolset works on, arguments that make sense, programs to begin with, queries that were run."""

    context: ActionContext
    fitting: Mapping[str, Sequence[str]]
    programs: Sequence[str]
    queries: list[str]


@pytest.fixture(scope="module", params=sorted(TOOLSETS))
def toolset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def target(toolset: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A small graph whose labels try to leave their quotes, or a small database."""
    queries: list[str] = []
    if toolset not in DATABASE_TOOLSETS:
        yield Target(graph_context(queries), FITTING, PROGRAMS if toolset == "pyql" else ("",), queries)
        return

    path: Path = tmp_path_factory.mktemp("sql") / "films.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE film (title TEXT, year INTEGER, "odd "" name" TEXT,
                           person INTEGER REFERENCES person(id));
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, place TEXT);
        INSERT INTO person VALUES (1, 'Scott', 'South Shields'), (2, 'O''Hara', NULL);
        INSERT INTO film VALUES ('Alien', 1979, 'x', 1), ('Heat', 1995, 'y', 2);"""
    )
    connection.close()
    before, database = path.read_bytes(), open_database(str(path), timeout=5.0, limit=50)
    sa.event.listen(
        cast(Any, database.engine)._engine,
        "before_cursor_execute",
        lambda _c, _u, text, *_: queries.append(text),
    )
    nothing = LocalKG(ox.Store(), load_profile("generic"), "none")
    context = ActionContext(nothing, "Which film?", services={"database": database})
    fitting = dict.fromkeys(FITTING, COLUMNS) | {
        "operator": FITTING["operator"],
        "value": ("5", "1999", *COLUMNS, "Alien", "MAX", "COUNT"),
    }
    yield Target(context, fitting, ("", 'add_condition("film.title", "=", "Alien")'), queries)
    database.close()
    assert path.read_bytes() == before, "the database file was changed"


def graph_context(queries: list[str]) -> ActionContext:
    """A graph like Wikidata that notes what is run."""

    class SpyKG(LocalKG):
        def _run(self, query: Any, timeout: float, limit: int, foreign: bool) -> Any:
            queries.append(query.text)
            return super()._run(query, timeout, limit, foreign)

    store, profile = ox.Store(), load_profile("wikidata")
    triples = "Q1|P31|Q9 Q2|P31|Q9 Q1|P36|Q3 Q2|P36|Q4 Q9|P279|Q8 Q1|P1082|5 Q2|P1082|7 Q1|P571|1999-01-02"
    for subject, relation, value in (line.split("|") for line in triples.split()):
        start, edge = profile.expand(subject), profile.expand(relation, relation=True)
        end = profile.expand(value)
        assert start, subject
        assert edge, relation
        label = ox.Literal(f'{subject} "quoted" \\ {{name}}', language="en")
        node, object_ = ox.NamedNode(start.value), ox.NamedNode(end.value) if end else ox.Literal(value)
        store.add(ox.Quad(node, ox.NamedNode(edge.value), object_))
        store.add(ox.Quad(node, ox.NamedNode(RDFS + "label"), label))
    memory = ReasoningMemory(
        linked={"Q1": "Q1", "Q2": 'A "name", with (everything) } in it'},
        looked_up={"Q1": {"forward": list(FITTING["relation"]), "backward": []}},
        seen=frozenset(FITTING["entity"]),
    )
    services = {"rules": lambda _: ["Q1 -[P36]-> ?x"], "documents": lambda *_: ["a passage"]}
    kg = SpyKG(store, profile, "small")
    kg.timeout, kg.limit = 5.0, 200
    return ActionContext(kg, "Which one?", memory=memory, services=services)


def escaped(query: str) -> bool:
    """Whether a payload, or a word that changes data, stands outside literals, IRIs and variables."""
    values = r'"(?:[^"\\\n\r]|\\.)*"|<[^\x00-\x20<>"{}|^`\\]*>|\?\w+|@[\w-]+|\w*:[\w-]*'
    rest = re.sub(values, " ", query)
    words = r"\b(DELETE|INSERT|DROP|LOAD|CLEAR|SERVICE|ATTACH|UPDATE|PRAGMA)\b|;"
    return MARK in rest or re.search(words, rest, re.IGNORECASE) is not None


HOSTILE = st.sampled_from((*PAYLOADS, *ODD)) | st.text(st.characters(), max_size=20)
NESTED = st.builds(
    str.format,
    st.sampled_from(['"{}"', '"{}"@en', '"5"^^<{}>', "<{}>", "?{}", "(?x, >, {})", "wd:{}"]),
    HOSTILE,
)


@st.composite
def calls(draw: st.DrawFn, toolset: str, target: Target) -> str:
    """Calls of legal actions of the right arity, or of anything, with arguments hostile or sensible."""
    name = draw(st.sampled_from([*TOOLSETS[toolset].by_name, "", "__import__", "Finish"]))
    if name in TOOLSETS[toolset].by_name:
        kinds = [parameter.kind for parameter in TOOLSETS[toolset].action(name).parameters]
        arguments = [draw(st.sampled_from(target.fitting[kind]) | HOSTILE | NESTED) for kind in kinds]
    else:
        arguments = draw(st.lists(HOSTILE | NESTED, max_size=6))
    return f"{name}({', '.join(arguments)})"


def attempt(toolset: str, context: ActionContext, reply: str) -> Feedback | None:
    """What comes of a reply, as the agent reads it; None where the parser refuses it, as it may."""
    try:
        _, (call, *_) = parse_reply(reply, TOOLSETS[toolset].by_name, most=8)
    except ActionError:
        return None
    feedback = TOOLSETS[toolset].execute(context, call)
    json.dumps(asdict(replace(feedback, outcome=str(feedback.outcome))))
    return feedback


def test_hostile_replies_do_no_harm(toolset: str, target: Target) -> None:
    outcomes = set[str]()

    @settings(max_examples=400, deadline=2_000, database=None, suppress_health_check=list(HealthCheck))
    @given(calls(toolset, target), st.sampled_from(FRAMES), st.sampled_from(target.programs))
    def replies(call: str, frame: str, program: str) -> None:
        feedback = attempt(toolset, replace(target.context, program=program), frame.replace("{}", call))
        if feedback is not None:
            outcomes.add(str(feedback.outcome))

    replies()
    assert [query for query in target.queries if escaped(query)] == []
    assert "rows" in outcomes, "no text got through to an answer: the strategy has lost touch"


def test_a_payload_stays_a_value_in_every_place(toolset: str, target: Target) -> None:
    context = replace(target.context, program=target.programs[-1])
    for name, action in TOOLSETS[toolset].actions.items():
        fitting = [target.fitting[parameter.kind][0] for parameter in action.parameters]
        for place in range(len(fitting)):
            for payload in PAYLOADS:
                arguments = (*fitting[:place], payload, *fitting[place + 1 :])
                TOOLSETS[toolset].execute(context, Call(name, arguments))
        TOOLSETS[toolset].execute(context, Call(name, ("a",) * 3_000))
    assert [query for query in target.queries if escaped(query)] == []


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_reply, parse_call):
        with suppress(ActionError):
            read(text)


def rows(pattern: str) -> list[object]:
    """Return what a pattern matches in an empty store."""
    result = ox.Store().query(f"SELECT * {{ {pattern} }}")
    assert isinstance(result, ox.QuerySolutions)
    return list(result)


@given(st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(PAYLOADS))
def test_an_iri_or_literal_that_is_read_never_leaves_its_place(text: str) -> None:
    profile = load_profile("wikidata")
    for form in (text, f"<http://example.org/{text}>", f"<urn:{text}>"):
        iri = read_iri(form, profile)
        assert iri is None or not rows(f"{iri.n3()} ?p ?o")
    for form in (f'"{text}"', f'"x"^^<urn:{text}>', f'"x"@{text}', f'"{text}"^^xsd:integer', f"'{text}'"):
        with suppress(ActionError, SyntaxError):  # refused: a language of one letter
            literal = read_literal(form)
            assert literal is None or not rows(f"?s ?p {literal.n3()}")


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy", "add_fact(Q1, \ud83d, ?x)"])
def test_half_characters_are_replaced(text: str) -> None:
    parse_call(f"add_fact(Q1, {text}, ?x)").text().encode("utf-8")
    feedback = TOOLSETS["explore"].execute(graph_context([]), Call("answer", (f"wd:{text}",)))
    assert "\ufffd" in feedback.observation


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ('SELECT ?x WHERE { ?x <urn:p> "} DELETE WHERE {"@en . FILTER(?x > 5) }', False),
        (f"SELECT ?x WHERE {{ ?x ?p {MARK} }}", True),
        ("ASK { ?s ?p ?o } ; DROP ALL", True),
        ("ASK { SERVICE <urn:x> { ?s ?p ?o } }", True),
        (f"SELECT '{MARK}' FROM film", True),
    ],
)
def test_what_escapes_is_noticed(query: str, wrong: bool) -> None:
    assert escaped(query) is wrong
