"""The few-shot demonstrations of equation 3: seed questions like the one asked, with their own bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triplewise.tools.core.rules import path_text
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import rename
from triplewise.tools.planning.lexical.planner import LEAST_F1, find_matches, miner_of
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.seeds import Match, Mined, Seed, SeedIndex
from triplewise.tools.retrieval.encoder import Encoder

RULES = 3
"""Bodies shown of one seed question, best first."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A seed question and the bodies of closed paths from its entity to its answers, best first."""

    question: str
    rules: tuple[str, ...]


def demonstrate(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> tuple[Demonstration, ...]:
    """The seed questions most like a question, one of each structure, with their own mined bodies (eq. 3).

    The seed with the clearest body of its group is shown; a group in which none has any is left out.
    """
    miner = miner_of(kg, settings.mining, seeds, encoder)
    groups: dict[str, Match] = {}
    for _topics, matches in find_matches(question, linked, seeds, settings):
        for match in matches:
            if match.text not in groups or groups[match.text].score < match.score:
                groups[match.text] = match
    ranked = sorted(groups.values(), key=lambda m: -m.score)[: settings.seed_count]
    shown = (_shown(kg, miner, match, question) for match in ranked)
    return tuple(d for d in shown if d is not None)


def _shown(kg: KnowledgeGraph, miner: Miner, match: Match, question: str) -> Demonstration | None:
    """One demonstration out of a group of like seeds; never the question itself."""
    others = [s for s in match.seeds if s.question != question]
    mined = [(seed, miner.of_seed(seed)) for seed in miner.choose(others)] if others else []
    told = [(seed, found) for seed, found in mined if _best(found) >= LEAST_F1]
    if not told:
        return None
    seed, found = max(told, key=lambda pair: _best(pair[1]))
    return Demonstration(_plain(seed), tuple(_texts(kg, found)))


def _best(found: Mined) -> float:
    """F1 of the best body."""
    return max((q.f1 for q in found.values() if not (q.condition or q.other)), default=0.0)


def _texts(kg: KnowledgeGraph, found: Mined) -> list[str]:
    """The best bodies of a seed as a model reads and writes them."""
    # A chain that the seed counts, restricts or crosses with another is no body by itself.
    good = [(b, q) for b, q in found.items() if q.f1 >= LEAST_F1 and not (q.condition or q.other)]
    ranked = sorted(good, key=lambda pair: (-round(pair[1].f1, 6), len(pair[0]), pair[0]))
    return [path_text(rename(kg, body)) for body, _ in ranked[:RULES]]


def _plain(seed: Seed) -> str:
    """A seed's question without the brackets some data sets put around mentions."""
    text = seed.question
    for topic in seed.topics:
        text = text.replace(f"[{topic}]", topic)
    return text
