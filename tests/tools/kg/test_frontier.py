"""Reading around many nodes at once: every engine gives the same facts, samples included."""

from __future__ import annotations

from hashlib import md5

import pytest

from tests.support.words import Words
from triplewise.tools.core.terms import XSD, Literal, Term
from triplewise.tools.kg.protocol import Deadline, Hop, KnowledgeGraph, Meter
from triplewise.tools.retrieval.observation import (
    Bundle,
    ObserveSettings,
    bundle_sizes,
    observe,
    read_bundles,
)

from .test_conformance import EX, e

YEAR = Literal("1903", XSD + "gYear")


def sizes(kg: KnowledgeGraph, *names: str) -> dict[Bundle, int]:
    found, trouble = bundle_sizes(kg, [e(n) for n in names], Deadline(20))
    assert trouble == ""
    return found


def read(kg: KnowledgeGraph, wanted: dict[Bundle, int], known: dict[Bundle, int], seed: int = 7) -> list[Hop]:
    facts, trouble = read_bundles(kg, wanted, known, seed, Deadline(20))
    assert trouble == ""
    return facts


def names(found: list[Hop]) -> list[str]:
    return [f.far.value.removeprefix(EX) for f in found]


def test_sizes_of_many_nodes_with_one_query(kg: KnowledgeGraph) -> None:
    meter = Meter(kg.meter)
    found = sizes(kg, "london", "hub", "yukon", "nobody")
    assert meter.queries == 1
    assert found == {
        Bundle(e("london"), e("bornIn"), True): 1,
        Bundle(e("london"), e("spouse"), True): 2,
        Bundle(e("london"), e("author"), False): 3,
        Bundle(e("hub"), e("memberOf"), False): 60,
        Bundle(e("yukon"), e("within"), True): 1,
        Bundle(e("yukon"), e("setIn"), False): 2,
    }, "names are excluded by the profile"


def test_no_fact_leaves_a_literal(kg: KnowledgeGraph) -> None:
    found, _ = bundle_sizes(kg, [YEAR], Deadline(20))
    assert found[Bundle(YEAR, e("published"), False)] == 2
    facts = read(kg, found, found)
    assert {(f.far, f.forward) for f in facts} >= {(e("call"), False), (e("eel"), False)}


def test_whole_bundles_come_sorted_with_one_query(kg: KnowledgeGraph) -> None:
    known = sizes(kg, "london", "call")
    meter = Meter(kg.meter)
    facts = read(kg, known, known)
    assert meter.queries == 1
    assert len(facts) == sum(known.values())
    assert [f.near for f in facts] == [e("call")] * 5 + [e("london")] * 6
    assert facts[0].far == e("london"), "outgoing facts come first, by relation"


def test_a_sample_is_the_same_in_every_engine(kg: KnowledgeGraph) -> None:
    known = sizes(kg, "hub", "london")
    wanted = {b: min(size, 5) for b, size in known.items()}
    facts = read(kg, wanted, known)
    drawn = [n for n in names(facts) if n.startswith("member")]
    members = [f"member{i:03}" for i in range(60)]
    assert drawn == sorted(sorted(members, key=lambda m: md5(f"7 {EX}{m}".encode()).hexdigest())[:5])
    assert len(facts) == 5 + 6
    assert facts == read(kg, wanted, known)
    assert facts != read(kg, wanted, known, seed=8)


@pytest.mark.parametrize(("facts", "depth"), [(10_000, 1), (25, 1), (10_000, 3)])
def test_the_same_observation_in_the_same_order(
    kg: KnowledgeGraph, memory_kg: KnowledgeGraph, facts: int, depth: int
) -> None:
    question = "author of the wild member"
    entities: list[Term] = [e("call"), e("hub"), YEAR]
    values = ObserveSettings(facts=facts, depth=depth, width=20, keep=20)
    here = observe(kg, question, entities, Words(), values)
    assert here == observe(memory_kg, question, entities, Words(), values)
    assert here.facts
    assert bool(here.cuts) or facts > 60
