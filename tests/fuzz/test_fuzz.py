"""No reply of a model raises, and nothing but a read query that triplewise wrote itself reaches an engine."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdflib.plugins.sparql.parser import parseQuery

from tests.fuzz.small_targets import MARK, Spy, Target, escaped, targets_for
from triplewise.tools.actions import TOOLSETS, parse_call, parse_react
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.pyql.text import read_iri, read_literal

PAYLOADS = (
    f"}} DELETE WHERE {{ ?{MARK} ?p ?o",
    f"}} ; DELETE DATA {{ <urn:{MARK}> <urn:b> <urn:c> }} #",
    f"}} SERVICE <http://127.0.0.1/{MARK}> {{ ?s ?p ?o }} {{",
    f"LOAD <http://127.0.0.1/{MARK}>",
    f'"; DROP TABLE film; -- {MARK}',
    f"'; DROP TABLE film; -- {MARK}",
    f"' UNION SELECT {MARK} FROM sqlite_master --",
    f"film); ATTACH DATABASE '{MARK}' AS x; --",
    f'"Alien" . ?{MARK} ?p ?o',
    f'"Alien"@en-{MARK}}} LIMIT 1',
    f'"5"^^<urn:{MARK}> }} CLEAR ALL #>',
    f'"5"^^xsd:integer) }} {MARK}',
    f"<http://example.org/a>}} DELETE {{<{MARK}>",
    f"<http://example.org/{MARK} x>",
    f"?x}} ASK {{ ?{MARK} ?p ?o",
    f"?x ?p ?{MARK} . ?y",
    f"\\u0022 }} {MARK}",
    f'\\\\" }} {MARK}',
    f'"""{MARK}""" }}',
    f"_:b0 . ?{MARK} <urn:p> _:b0",
    f"p:P39/ps:P39|^{MARK}",
    f"bif:sys_eval('{MARK}')",
    f"{{{{ {MARK}.__class__ }}}}",
    f"{MARK}\r\n}} DELETE WHERE {{ ?s ?p ?o }}",
    f"%0A}}%20DELETE%20{MARK}",
    f"Q64 ({MARK})",
)
"""Texts that would do harm if they left the place of a value."""
ODD = (
    *("", " ", "\x00", "\u2028", "\u200b", "\u202e", "\ufeff", "\ud800", "\ufffe", "\u0660\u0661", "\uff08"),
    *[
        "??",
        "?1",
        "?x-y",
        "-",
        "((",
        "[",
        "}",
        "<>",
        '"',
        "'",
        "\\",
        "`",
        "&",
        ",,",
        "NaN",
        "1e999",
        "UNDEF",
        "1999-02-30",
        "0000-00-00",
        "none",
        "*",
        "#-1",
        "^P1",
    ],
    *("9" * 40, "http://x:port/", "<http://x:port/>", "5\u2212"),
)
"""Texts at the edge of what a name, a number or a variable may be."""
FRAMES = (
    "{}",
    "Thought 1: I go on.\nAction 1: {}",
    "```python\n{}\n```",
    "<think>so</think>\nAction 2: {}",
    "**Action 4:** `{}`",
    "Action 1: {}\nAction 2: {}",
    "Thought: {}",
)
SLOW = 2.0
"""Seconds one text may take."""


@st.composite
def calls(draw: st.DrawFn, target: Target) -> str:
    """Calls of legal actions, most often of the right arity, with arguments hostile or sensible."""
    name = draw(
        st.sampled_from(sorted(target.toolset)) | st.sampled_from(["", "drop", "__import__", "Finish"])
    )
    hostile = st.sampled_from((*PAYLOADS, *ODD)) | st.text(st.characters(), max_size=20)
    nested = st.builds(
        str.format,
        st.sampled_from(['"{}"', '"{}"@en', '"5"^^<{}>', "<{}>", "?{}", "(?x, >, {})", "wd:{}"]),
        hostile,
    )
    if name in target.toolset:
        kinds = [parameter.kind for parameter in target.toolset.action(name).parameters]
        arguments = [draw(st.sampled_from(target.fitting[kind]) | hostile | nested) for kind in kinds]
    else:
        arguments = draw(st.lists(hostile | nested, max_size=6))
    return f"{name}({', '.join(arguments)})"


def attempt(target: Target, program: str, text: str) -> Feedback | None:
    """What comes of a reply, as the agent reads it; None where the parser refuses it, as it may."""
    with suppress(ActionError):
        parse_call(text)
    try:
        action = parse_react(text).call
    except ActionError as error:
        action = str(error.detail.get("action", ""))
    try:
        call = parse_call(action or text, target.toolset)
    except ActionError:
        return None
    feedback = target.toolset.execute(replace(target.context, program=program), call)
    json.dumps(asdict(replace(feedback, outcome=str(feedback.outcome))))
    return feedback


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_hostile_replies_do_no_harm(toolset: str) -> None:
    spy, outcomes = Spy(), set[str]()
    with targets_for(toolset, spy) as targets:

        @settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def replies(data: st.DataObject) -> None:
            target = data.draw(st.sampled_from(targets))
            frame, call = data.draw(st.sampled_from(FRAMES)), data.draw(calls(target))
            start, text = time.perf_counter(), frame.replace("{}", call)
            feedback = attempt(target, data.draw(st.sampled_from(target.programs)), text)
            assert time.perf_counter() - start < SLOW
            if feedback is not None:
                outcomes.add(str(feedback.outcome))

        replies()
    assert not spy.escapes, spy.escapes[0]
    assert spy.queries
    assert "rows" in outcomes, "no text got through to an answer: the strategy has lost touch"


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_a_payload_stays_a_value_in_every_place(toolset: str) -> None:
    spy = Spy()
    with targets_for(toolset, spy) as targets:
        for target in targets:
            for name in target.toolset.actions:
                parameters = target.toolset.action(name).parameters
                for place in range(len(parameters)):
                    for payload in PAYLOADS:
                        arguments = [target.fitting[p.kind][0] for p in parameters]
                        arguments[place] = payload
                        context = replace(target.context, program=target.programs[-1])
                        target.toolset.execute(context, Call(name, tuple(arguments)))
    assert not spy.escapes, spy.escapes[0]


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_react, parse_call):
        with suppress(ActionError):
            read(text)


@given(st.text(st.characters(), max_size=60))
def test_an_iri_or_literal_that_is_read_never_leaves_its_place(text: str) -> None:
    profile = load_profile("wikidata")
    for form in (text, f"<http://example.org/{text}>", f"<urn:{text}>"):
        iri = read_iri(form, profile)
        assert iri is None or not escaped(f"ASK {{ {iri.n3()} ?p ?o }}")
    for form in (f'"{text}"', f'"x"^^<urn:{text}>', f'"x"@{text}', f'"{text}"^^xsd:integer', f"'{text}'"):
        with suppress(ActionError):
            literal = read_literal(form)
            assert literal is None or not escaped(f"ASK {{ ?s ?p {literal.n3()} }}")


def test_a_datatype_cannot_close_its_bracket() -> None:
    assert read_literal('"5"^^<urn:a>}UNION{?s?p?o>') is None
    assert read_literal('"5"^^<urn:a>') is not None


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy", "add_fact(Q1, \ud83d, ?x)"])
def test_half_characters_are_replaced(text: str) -> None:
    call = parse_call(f"add_fact(Q1, {text}, ?x)")
    call.text().encode("utf-8")
    with targets_for("explore", Spy()) as targets:
        feedback = targets[0].toolset.execute(targets[0].context, Call("answer", (f"wd:{text}",)))
    assert "\ufffd" in feedback.observation


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_thousands_of_arguments_take_no_time(toolset: str) -> None:
    with targets_for(toolset, Spy()) as targets:
        for name in targets[0].toolset.actions:
            start = time.perf_counter()
            targets[0].toolset.execute(targets[0].context, Call(name, ("a",) * 3_000))
            assert time.perf_counter() - start < SLOW, name


@pytest.mark.parametrize(
    "wrong",
    [
        f"SELECT ?x WHERE {{ ?x ?p {MARK} }}",
        "ASK { ?s ?p ?o } ; DROP ALL",
        "ASK { SERVICE <urn:x> { ?s ?p ?o } }",
        'ASK { ?s ?p "a" } } { "b" }',
        'ASK { ?s ?p "a\n" }',
        "ASK { ?s ?p ?o # comment\n }",
        "ASK { ?s ?p ?o ",
    ],
)
def test_the_spy_tells_what_escapes_from_what_does_not(wrong: str) -> None:
    right = 'SELECT DISTINCT ?x WHERE { ?x <urn:p> "} DELETE WHERE {"@en . FILTER(?x > 5) }'
    parseQuery(right)
    assert not escaped(right)
    assert escaped(wrong)
    spy = Spy()
    for text in (
        "DELETE FROM film",
        f"SELECT '{MARK}' FROM film",
        "SELECT 1; DROP TABLE film",
        "SELECT title",
    ):
        spy.sql(text)
    assert len(spy.escapes) == 3
