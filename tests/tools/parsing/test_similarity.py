"""What of a question a query accounts for."""

from __future__ import annotations

from triplewise.tools.kg import open_kg
from triplewise.tools.parsing.similarity import coverage
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import open_encoder


def test_words_that_stand_for_nothing_in_a_query_are_counted() -> None:
    kg = open_kg("demo")
    query = PyQL.parse("add_fact(Q90, P1082, ?n)\nset_answer(?n)", kg.profile)
    named, other = (
        coverage(words.split(), query, kg, open_encoder())
        for words in ("what is the population of", "who painted the ceiling of")
    )
    assert named["uncovered"] == 0.0 < other["uncovered"]
    assert named["unlike"] < 0.5 < other["unlike"]
