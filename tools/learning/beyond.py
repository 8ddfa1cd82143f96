"""Rules beyond the plan, to explore: chains that exist around the topic, whatever the question's words say.

A plan keeps to what the words support. What the words do not say yet is what there is to learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triplewise.tools.core.rules import Rule
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import ground
from triplewise.tools.planning.lexical.planner import prepare
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.retrieval.encoder import Encoder

NOTE = "a chain of the graph, to explore"


def rules_beyond(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    *,
    hops: int,
    beam: int,
    count: int,
) -> list[Rule]:
    """Chains of up to `hops` relations from the linked entities, the likeliest `count`, best first."""
    search = prepare(question, linked, kg, encoder, PlanSettings(hops=hops, beam=beam))
    scored = [(score, topic, body) for topic in search.topics for body, score in search.bodies(topic)]
    best = sorted(scored, key=lambda found: (-found[0], len(found[2])))[:count]
    return [replace(ground(topic, body), score=score, provenance=NOTE) for score, topic, body in best]
