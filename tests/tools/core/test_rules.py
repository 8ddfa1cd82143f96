"""Rules as programs and actions: chains stay simple paths, the topic is not an answer of its own question."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.actions.pyql import script
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.planning.paths import rule_program
from triplewise.tools.pyql.program import PyQL

EX = "http://example.org/"
PROFILE = Profile(entity_namespaces=(EX,), relation_namespaces=(EX,))
TURTLE = """
@prefix : <http://example.org/> .
:alien :director :scott ; :cast :weaver, :hurt .
:gladiator :director :scott ; :cast :crowe .
:aliens :director :cameron ; :cast :weaver .
:scott :friend :scott, :cameron .
"""
DIRECTOR, FILM = Atom("director", True, "director"), Atom("director", False, "film")
CAST = Atom("cast", True, "actor")


@pytest.fixture(scope="module")
def kg() -> LocalKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, PROFILE, "films")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule("scott", (FILM,)), "alien gladiator"),
        (Rule("scott", (FILM, CAST)), "weaver hurt crowe"),
        (Rule("alien", (DIRECTOR, FILM)), "gladiator"),
        (Rule("alien", (DIRECTOR, FILM, Atom("director", True, "again"))), ""),
        (Rule("alien", (CAST, Atom("cast", False, "film"), DIRECTOR)), "cameron"),
        (Rule("scott", (Atom("friend", True, "friend"),)), "scott cameron"),
        (Rule("scott", (Atom("friend", True, "friend"), Atom("friend", True, "other"))), "cameron"),
        (
            Rule("scott", (Atom("friend", True, "friend"), Atom("friend", True, "other")), keeps_topic=True),
            "scott cameron",
        ),
    ],
)
def test_what_a_rule_leads_to(kg: LocalKG, rule: Rule, expected: str) -> None:
    program = rule_program(kg, rule)
    calls = [c.text() for c in script(program, PROFILE) if c.name != "execute"]
    assert PyQL.parse("\n".join(calls), PROFILE) == program
    result = kg.query(program.sparql(PROFILE))
    assert {PROFILE.short(v) for v in result.column(rule.answer)} == set(expected.split())


def test_a_script_is_the_lines_of_a_program() -> None:
    lines = ("add_fact(?film, director, scott)", "add_count(?film, ?count)", "set_answer(?count)")
    program = PyQL.parse("\n".join(lines), PROFILE)
    assert [c.text() for c in script(program, PROFILE)] == [*lines, "execute()"]


def test_a_script_of_a_yes_or_no_question_says_so_first() -> None:
    program = PyQL.parse("add_fact(alien, director, ?who)\nadd_fact(?who, friend, cameron)\nask()", PROFILE)
    assert [c.name for c in script(program, PROFILE)] == ["ask", "add_fact", "add_fact", "execute"]


def test_rules_read_as_paths() -> None:
    rule = Rule("Q419", (Atom("P17", False, "x"), Atom("P2043", True, "length")))
    assert rule.text() == "Q419 <-[P17]- ?x -[P2043]-> ?length"
    assert rule.text("Peru").startswith("Peru <-[P17]-")
