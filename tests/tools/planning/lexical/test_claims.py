"""Claims: what the graph holds proves them, another value of a single-valued relation contradicts them."""

from __future__ import annotations

from functools import cache

import pytest

from tests.support.statements import statements
from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.bodies import rule_program, run
from triplewise.tools.planning.lexical.statements import claim_rules
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@cache
def demo() -> tuple[KnowledgeGraph, Encoder]:
    return open_kg("demo"), open_encoder("embedded")


def rules_for(claim: str, **topic: str) -> tuple[Rule, ...]:
    kg, encoder = demo()
    given = {name.replace("_", " "): id_ for name, id_ in topic.items()}
    return claim_rules(claim, link(claim, kg, given=given), kg, encoder)


def truth(rules: tuple[Rule, ...]) -> bool | None:
    """Whether the best rule holds on the graph; None without one."""
    return run(demo()[0], rules[0]).boolean if rules else None


SINGLE = ("P19", "P36", "P20", "P57", "P38", "P86", "P50")
SEVERAL = ("P27", "P161", "P136", "P37", "P840", "P69")


@pytest.mark.parametrize("relation", [*SINGLE, *SEVERAL])
def test_no_claim_made_from_facts_is_judged_wrongly(relation: str) -> None:
    kg, encoder = demo()
    judged = [
        (s.truth, truth(claim_rules(s.text, [s.subject], kg, encoder))) for s in statements(kg, relation, 12)
    ]
    assert (True, False) not in judged
    assert (False, True) not in judged
    assert judged.count((True, True)) >= 9
    # Where a subject may have several values, a claim that is not there may still be true.
    assert (judged.count((False, False)) >= 6) is (relation in SINGLE)


def test_the_rule_that_proves_is_the_fact_itself() -> None:
    (rule, *_) = rules_for("The capital of Peru is Lima.", Peru="Q419")
    assert rule.text() == "yes or no: Q419 -[P36]-> Q2868"
    assert rule_program(demo()[0], rule).boolean


@pytest.mark.parametrize(
    ("claim", "topic"),
    [
        ("Lima is a planet.", {"Lima": "Q2868"}),  # nothing excludes it
        ("The capital of Peru is Lima on the moon.", {"Peru": "Q419"}),  # says more than the fact
        ("Peru sold Lima.", {"Peru": "Q419"}),  # another relation than any between the two
    ],
)
def test_what_the_graph_does_not_say_is_left_open(claim: str, topic: dict[str, str]) -> None:
    assert rules_for(claim, **topic) == ()


def test_dates_are_compared_by_year() -> None:
    church = {"Alonzo_Church": "dbr:Alonzo_Church"}
    assert truth(rules_for("Alonzo Church was born in 1903.", **church)) is True
    assert truth(rules_for("Alonzo Church was born in 1904.", **church)) is False
    assert rules_for("Alonzo Church was born in 12 places.", **church) == ()


def test_without_a_word_for_it_the_first_name_is_the_subject() -> None:
    assert truth(rules_for("Lima is in Peru.", Lima="Q2868"))
    assert truth(rules_for("Lima is in Peru.", Peru="Q419"))
    assert truth(rules_for("Lima is in Peru.", Peru="Q419", Lima="Q2868"))
    assert rules_for("Peru is in Charles Darwin.", Peru="Q419") == ()
