"""Programs in words."""

from __future__ import annotations

import pytest

from triplewise.tools.core.terms import IRI, XSD
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.words import describe

EX = "http://example.org/"
PROFILE = Profile(entity_namespaces=(EX,), relation_namespaces=(EX,))


def label(iri: IRI) -> str:
    return iri.value.removeprefix(EX).replace("_", " ")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "add_fact(Goethe, partner, ?p); add_fact(?p, birth_place, ?place); set_answer(?place)",
            "Goethe -[partner]-> ?p -[birth place]-> ?place",
        ),
        (
            "add_fact(?c, inside, Texas); add_type(?c, City); add_fact(?c, size, ?size); add_max(?size)",
            "Texas <-[inside]- ?c; ?c is a City; ?c -[size]-> ?size; the greatest size",
        ),
        (
            "add_type(?c, City); add_fact(?c, size, ?n); add_min(?n)",
            "?c is a City; ?c -[size]-> ?n; the smallest n",
        ),
        ("add_fact(?c, inside, Texas); add_count(?c, ?n)", "Texas <-[inside]- ?c; how many c"),
        (
            "add_fact(?c, inside, ?s); add_group(?c, ?s, ?n); add_filter(?n, >, 2)",
            "?c -[inside]-> ?s; how many c of each s; ?n > 2",
        ),
        ("add_fact(Bonn, inside, Texas)", "yes or no: Bonn -[inside]-> Texas"),
        (
            "add_union((?x, =, Bonn), (?x, =, Ulm)); add_fact(?x, size, ?n); add_filter(?x, !=, Ulm)",
            "?x is Bonn or Ulm; ?x -[size]-> ?n; ?x is not Ulm",
        ),
        (
            "add_fact(?x, size, ?n); add_not((?x, inside, ?y) & (?y, a, Island)); add_order(?n, desc, 3)",
            "?x -[size]-> ?n; but not ?x -[inside]-> ?y and ?y is an Island; the first 3 by n, largest first",
        ),
    ],
)
def test_words(script: str, words: str) -> None:
    assert describe(PyQL.parse(script.replace("; ", "\n"), PROFILE), label) == words


def test_literals_read_as_people_write_them_or_as_the_graph_has_them() -> None:
    script = f"""add_fact(?x, open, "true"^^<{XSD}boolean>)
add_fact(?x, since, ?d)
add_filter(?d, <, "1903-06-25"^^<{XSD}date>)"""
    program = PyQL.parse(script, PROFILE)
    assert describe(program, label) == "?x -[open]-> yes; ?x -[since]-> ?d; ?d < 25 June 1903"
    exact = describe(program, label, lambda literal: literal.value)
    assert exact == "?x -[open]-> true; ?x -[since]-> ?d; ?d < 1903-06-25"
