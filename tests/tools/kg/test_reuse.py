"""Answers that are used again: the same rows as the engine would give, and never one that is not whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triplewise.tools.kg import KnowledgeGraph, Outcome, open_kg
from triplewise.tools.kg.protocol import AnswerCache, Result, metered

BORDERS = "<http://www.wikidata.org/prop/direct/P47>"
PATTERN = f"{{ <http://www.wikidata.org/entity/Q183> {BORDERS} ?a . ?a {BORDERS} ?b . }}"

Ask = Callable[..., Result]


@pytest.fixture
def kg() -> KnowledgeGraph:
    return open_kg("demo")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN}", f"SELECT DISTINCT ?a ?b WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN} LIMIT 9000", f"SELECT DISTINCT ?a ?b WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN} LIMIT 9000", f"SELECT DISTINCT ?b WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN}", f"SELECT DISTINCT ?b ?a WHERE {PATTERN} LIMIT 8000"),
        (f"ASK {PATTERN}", f"ASK {PATTERN}"),
    ],
)
def test_what_is_known_is_not_asked_again(kg: KnowledgeGraph, first: str, second: str) -> None:
    plain = kg.query(second)
    kg = kg.session(answers=AnswerCache())
    with metered(kg) as meter:
        kg.query(first)
        again = kg.query(second)
    assert meter.queries == 1
    assert (again.outcome, again.variables, again.boolean) == (plain.outcome, plain.variables, plain.boolean)
    assert set(again.rows) == set(plain.rows)
    assert len(again.rows) == len(plain.rows)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN} LIMIT 3", f"SELECT DISTINCT ?a WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a WHERE {PATTERN}", f"SELECT DISTINCT ?a ?b WHERE {PATTERN}"),
        (f"SELECT ?a WHERE {PATTERN}", f"SELECT DISTINCT ?a WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a ?b WHERE {PATTERN} ORDER BY ?b LIMIT 1", f"SELECT DISTINCT ?a WHERE {PATTERN}"),
        (f"SELECT DISTINCT ?a WHERE {PATTERN}", f"SELECT (COUNT(DISTINCT ?a) AS ?n) WHERE {PATTERN}"),
    ],
)
def test_what_does_not_follow_is_asked(kg: KnowledgeGraph, first: str, second: str) -> None:
    plain = kg.query(second)
    kg = kg.session(answers=AnswerCache())
    with metered(kg) as meter:
        kg.query(first)
        assert set(kg.query(second).rows) == set(plain.rows)
    assert meter.queries == 2


def test_cut_and_failed_results_are_asked_for_again(kg: KnowledgeGraph) -> None:
    query = f"SELECT DISTINCT ?a WHERE {PATTERN}"
    kg = kg.session(answers=AnswerCache())
    with metered(kg) as meter:
        assert kg.query(query, limit=2).outcome is Outcome.TRUNCATED
        assert kg.query(query, limit=2).outcome is Outcome.TRUNCATED
        assert len(kg.query(query).rows) > 2
    assert meter.queries == 3


def test_nothing_is_kept_outside_a_question(kg: KnowledgeGraph) -> None:
    query = f"SELECT DISTINCT ?a WHERE {PATTERN}"
    with metered(kg) as meter:
        for answers in (AnswerCache(), AnswerCache(), None):
            kg.session(answers=answers, meter=kg.meter).query(query)
    assert meter.queries == 3
