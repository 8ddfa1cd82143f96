"""Rules as actions: every constraint makes a query that runs, and chains stay simple paths."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.actions.pyql import script
from triplewise.tools.core.rules import Atom, Constraint, Rule, no_return
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.planning.bodies import rule_program
from triplewise.tools.pyql.program import PyQL

EX = "http://example.org/"
PROFILE = Profile(entity_namespaces=(EX,), relation_namespaces=(EX,))
TURTLE = """
@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:alien :director :scott ; :year 1979 ; :cast :weaver, :hurt ; a :Film .
:gladiator :director :scott ; :year 2000 ; :cast :crowe ; a :Film .
:advert :director :scott ; :year 1984 .
:aliens :director :cameron ; :cast :weaver ; :year 1986 ; a :Film .
:scott :friend :scott, :cameron .
"""
FILM = Atom("director", False, "film")
YEAR = Atom("year", True, "year")
CAST = Atom("cast", True, "actor")


@pytest.fixture(scope="module")
def kg() -> EmbeddedKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return EmbeddedKG(store, PROFILE, "films")


def found(kg: EmbeddedKG, rule: Rule) -> set[str]:
    """What the rule's program finds, as short ids, or the truth value; its calls make the same program."""
    calls = [c for c in script(rule, PROFILE) if c.name not in ("get_relation", "execute")]
    program = PyQL.parse("\n".join(c.text() for c in calls), PROFILE)
    assert rule_program(kg, rule) == program
    result = kg.query(program.sparql(PROFILE))
    assert result.outcome.ok, result.message
    if result.boolean is not None:
        return {str(result.boolean)}
    return {PROFILE.short(value) for row in result.rows for value in row if value is not None}


@pytest.mark.parametrize(
    ("body", "constraints", "expected"),
    [
        ((FILM,), (), "alien gladiator advert"),
        ((FILM, CAST), (), "weaver hurt crowe"),
        ((FILM,), (Constraint("meets", "film", (Atom("cast", False, "film"),), value="weaver"),), "alien"),
        ((FILM,), (Constraint("type", "film", value="Film"),), "alien gladiator"),
        ((FILM,), (Constraint("filter", "film", (YEAR,), ">", "1979"),), "gladiator advert"),
        ((FILM, YEAR), (Constraint("filter", "year", (), "<=", "1984"),), "1979 1984"),
        ((FILM,), (Constraint("max", "film", (YEAR,)),), "gladiator"),
        ((FILM,), (Constraint("min", "film", (YEAR,)),), "alien"),
        ((FILM,), (Constraint("most", "film", (CAST,)),), "alien"),
        ((FILM,), (Constraint("least", "film", (CAST,)),), "gladiator"),
        ((FILM,), (Constraint("count", "count", value="?film"),), "3"),
        ((FILM,), (Constraint("distinct", "film", value="alien"),), "gladiator advert"),
        (
            (FILM,),
            (Constraint("not", "film", (Atom("cast", False, "film"),), value="weaver"),),
            "gladiator advert",
        ),
        (
            (),
            (Constraint("either", "x", (Atom("director", False, "x"),), operator="scott", value="cameron"),),
            "alien gladiator advert aliens",
        ),
        ((FILM, CAST), (Constraint("ask"),), "True"),
        ((Atom("cast", True, "actor"),), (Constraint("ask"),), "False"),
        ((), (Constraint("ask"), Constraint("holds", "scott", (FILM,), value="alien")), "True"),
        ((), (Constraint("ask"), Constraint("holds", "scott", (FILM,), value="aliens")), "False"),
        (
            (FILM,),
            (Constraint("type", "film", value="Film"), Constraint("count", "count", value="?film")),
            "2",
        ),
    ],
)
def test_what_a_rule_means(
    kg: EmbeddedKG, body: tuple[Atom, ...], constraints: tuple[Constraint, ...], expected: str
) -> None:
    assert found(kg, Rule("scott", body, constraints)) == set(expected.split())


def test_a_script_looks_before_it_adds_and_ends_with_execute() -> None:
    rule = Rule("scott", (FILM, CAST), (Constraint("count", "count", value="?actor"),))
    assert [c.text() for c in script(rule, PROFILE)] == [
        "get_relation(scott)",
        "add_fact(?film, director, scott)",
        "get_relation(?film)",
        "add_fact(?film, cast, ?actor)",
        "add_count(?actor, ?count)",
        "set_answer(?count)",
        "execute()",
    ]


def test_there_and_back_leaves_where_it_came_from(kg: EmbeddedKG) -> None:
    body = (Atom("director", True, "director"), Atom("director", False, "film"))
    assert found(kg, Rule("alien", body)) == {"alien", "gladiator", "advert"}
    assert found(kg, Rule("alien", body, no_return("alien", body))) == {"gladiator", "advert"}
    longer = (*body, Atom("director", True, "again"))
    assert found(kg, Rule("alien", longer, no_return("alien", longer))) == set()


def test_rules_read_in_words() -> None:
    near = (Atom("P17", False, "x"),)
    length = Atom("P2043", True, "length")
    for constraint, words in (
        (Constraint("meets", "x", (Atom("P57", False, "x"),), value="Q1"), "; and Q1 <-[P57]- ?x"),
        (Constraint("filter", "x", (length,), ">", "500"), "; with P2043 > 500"),
        (Constraint("min", "x", (Atom("P36", True, "c"), length)), "; the least P2043 of its P36"),
        (Constraint("either", "x", near, "Q1", "Q2"), "; Q1 <-[P17]- ?x or Q2 <-[P17]- ?x"),
        (Constraint("not", "x", near, value="Q1"), "; but not Q1 <-[P17]- ?x"),
    ):
        assert Rule("Q419", near, (constraint,)).text() == "Q419 <-[P17]- ?x" + words
    asked = Rule("Q419", (*near, length), (Constraint("ask"),))
    assert asked.text("Peru") == "yes or no: Peru <-[P17]- ?x -[P2043]-> ?length"
