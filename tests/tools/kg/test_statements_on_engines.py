"""Claims and slots are decided alike by every engine, a lone entity and a lone relation included."""

from __future__ import annotations

import pytest

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import answers, run
from triplewise.tools.planning.lexical.claims import claim_rules
from triplewise.tools.planning.lexical.slots import slot_rules
from triplewise.tools.retrieval.encoder import open_encoder

from .test_conformance import e


def topic(kg: KnowledgeGraph, name: str, mention: str) -> LinkedEntity:
    return LinkedEntity(mention, 0, len(mention), kg.profile.short(e(name)), mention, 1.0)


@pytest.mark.parametrize(
    ("claim", "name", "mention", "decided"),
    [
        ("White Fang is set in Yukon.", "fang", "White Fang", True),
        ("Yukon is in White Fang.", "yukon", "Yukon", None),
        ("White Fang is in Yukon.", "fang", "White Fang", True),
        ("White Fang hates Yukon.", "fang", "White Fang", None),
    ],
)
def test_claims(kg: KnowledgeGraph, claim: str, name: str, mention: str, decided: bool | None) -> None:
    rules = claim_rules(claim, [topic(kg, name, mention)], kg, open_encoder("embedded"))
    assert (run(kg, rules[0]).boolean if rules else None) is decided


def test_slots(kg: KnowledgeGraph) -> None:
    (rule,) = slot_rules("author", [topic(kg, "call", "x")], kg, open_encoder("embedded"))
    assert answers(kg, rule) == (e("london"),)
    assert slot_rules("spouse", [topic(kg, "call", "x")], kg, open_encoder("embedded")) == ()
