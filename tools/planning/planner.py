"""Plan: the rules that may answer a question, best first (SymAgent 4.1).

Where a KG has seed questions, rules come from the closed paths of the seeds most like the question.
Without seeds they come from the neighbourhood of the linked entities, ranked by how well they fit the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.encoder import Encoder
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.linking import LinkedEntity
from triplewise.tools.planning.bodies import Body, ground, node_form, rename, without_topic
from triplewise.tools.planning.classes import find_classes
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.question import view
from triplewise.tools.planning.search import PlanSettings, Search
from triplewise.tools.planning.seeds import Match, SeedIndex
from triplewise.tools.planning.structures import boolean_rules, class_rules, meeting_rules
from triplewise.tools.rules import Rule

LEAST_F1 = 0.25
"""Bodies that reproduce less than this share of a seed's answers are no rule for it."""
CHECKED = 3
"""Rules asked whether they come back to their topic."""
SHARPNESS = 4.0
"""How fast a seed's say falls with its BM25 score: the power it is raised to."""

_miners: WeakKeyDictionary[KnowledgeGraph, dict[int, Miner]] = WeakKeyDictionary()
_lock = Lock()


def miner_of(kg: KnowledgeGraph, hops: int) -> Miner:
    """The miner of a KG, shared by all questions so that no seed is mined twice."""
    with _lock:
        return _miners.setdefault(kg, {}).setdefault(hops, Miner(kg, hops))


def plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> tuple[Rule, ...]:
    """Rules for a question with linked entities, best first; () where nothing fits."""
    settings = settings or PlanSettings()
    rules: list[Rule] = []
    if seeds is not None and linked:
        rules = seed_rules(question, linked, kg, seeds, settings)
    if not rules or rules[0].score < LEAST_F1:
        rules += neighbourhood_rules(question, linked, kg, encoder, settings)
    return tuple(_distinct(rules)[: settings.rules])


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """Each rule once, in order."""
    kept: dict[tuple[object, ...], Rule] = {}
    for rule in rules:
        kept.setdefault((rule.anchor, rule.body, rule.constraints), rule)
    return list(kept.values())


def seed_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> list[Rule]:
    """Rules from seed questions: each body weighs its F1 by how like its seeds are to the question."""
    best: list[Rule] = []
    for entity in linked:
        matches = seeds.search(question, [(entity.start, entity.end)], settings.seed_count)
        found = _weigh(matches, entity, kg, settings)
        if found and (not best or found[0].score > best[0].score):
            best = found
    return best


def _weigh(
    matches: Sequence[Match], entity: LinkedEntity, kg: KnowledgeGraph, settings: PlanSettings
) -> list[Rule]:
    """Rules of the matched groups for one topic entity."""
    miner, total = miner_of(kg, settings.hops), 0.0
    scores: dict[Body, float] = {}
    notes: dict[Body, Rule] = {}
    kept: set[Body] = set()
    anchor = node_form(kg, entity.id)
    for match in matches:
        weight = match.score**SHARPNESS
        mined = miner.mine(match.seeds)
        if not mined:
            continue
        total += weight
        for m in mined:
            if m.f1 < LEAST_F1:
                continue
            body = rename(kg, m.signature)
            scores[body] = scores.get(body, 0.0) + weight * m.f1
            note = f'reproduces the answers of {m.support} seed questions like "{match.text}", F1 {m.f1:.2f}'
            rule = replace(ground(anchor, body), support=m.support, precision=m.precision, recall=m.recall)
            kept |= {body} if m.keeps_topic else set()
            notes.setdefault(body, replace(rule, provenance=note))
        if match.score == 1.0 and mined[0].f1 > 0.9 and mined[0].support > 2:
            break
    ranked = sorted(scores, key=lambda b: (-scores[b], len(b)))
    rules = [replace(notes[b], score=scores[b] / total) for b in ranked]
    return [r if r.body in kept else without_topic(kg, r) for r in rules[:CHECKED]] + rules[CHECKED:]


def neighbourhood_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> list[Rule]:
    """Rules from the neighbourhood of the linked entities, fitted to the words of the question."""
    search = prepare(question, linked, kg, encoder, settings)
    if search.seen.boolean:
        return boolean_rules(search)
    rules = meeting_rules(search)
    if not (rules and search.excluded):
        rules += [r for t in search.topics for r in search.chains(t)] + class_rules(search)
    return search.finished(search.checked(search.ranked(rules)))


def prepare(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> Search:
    """Tell topics from classes: a linked "planet" in lower case names a class, not something asked about."""
    ordered = sorted(linked, key=lambda e: e.start)
    whole = view(question, [])
    noun = whole.expected
    named = [e for e in ordered if e.mention == e.mention.lower() and find_classes(kg, e.mention)]
    topics = [e for e in ordered if e not in named]
    seen = view(question, [(e.start, e.end) for e in topics])
    noun = seen.expected or noun
    classes = find_classes(kg, seen.phrase) or find_classes(kg, noun)
    first = seen.phrase.partition(" ")[0]
    if not classes and first != noun and (classes := find_classes(kg, first)):
        # "Which river flows ...": the second word is the verb.
        seen = replace(seen, expected=first, phrase=first)
    if not classes and named and not seen.boolean:
        inside = [e for e in named if noun and noun in e.mention]
        classes = tuple(c for e in inside for c in find_classes(kg, e.mention))
    forms = list(dict.fromkeys(node_form(kg, e.id) for e in topics))
    return Search(seen, forms, classes, kg, encoder, settings)
