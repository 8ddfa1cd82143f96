"""Plan: the rules that may answer a question, best first (SymAgent 4.1).

Where a KG has seed questions, rules come from the closed paths of the seeds most like the question.
Without seeds they come from the neighbourhood of the linked entities, ranked by how well they fit the words;
where that has nothing and there are documents, from what the words say alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.rules import DroppedRule, Rule, dropped, path_text
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, shared_of
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import ground, node_form, rename, run, without_topic
from triplewise.tools.planning.lexical.conditions import Conditions
from triplewise.tools.planning.lexical.gaps import alike, guessed_rules, has_gap, shared_places, with_gap
from triplewise.tools.planning.lexical.question import MENTION, masked, view
from triplewise.tools.planning.lexical.search import PlanSettings, Search
from triplewise.tools.planning.lexical.structures import boolean_rules, class_rules, meeting_rules
from triplewise.tools.planning.mining import Caps, MinedBody, Miner, meeting
from triplewise.tools.planning.seeds import Match, SeedIndex
from triplewise.tools.retrieval.encoder import Encoder

LEAST_F1 = 0.25
"""Bodies that reproduce less than this share of a seed's answers are no rule for it."""
LEFT_OUT = 0.8
"""What a rule of two topics may score less than one that leaves out one of them, as a share of the latter."""
CHECKED = 3
"""Rules asked whether they come back to their topic."""
SHARPNESS = 4.0
"""How fast a seed's say falls with its BM25 score: the power it is raised to."""

_miners: WeakKeyDictionary[KnowledgeGraph, dict[tuple[Caps, str, str], Miner]] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a question, best first, and those that were thought of and dropped, with the reasons."""

    rules: tuple[Rule, ...] = ()
    dropped: tuple[DroppedRule, ...] = ()


def miner_of(
    kg: KnowledgeGraph,
    caps: Caps | None = None,
    seeds: SeedIndex | None = None,
    encoder: Encoder | None = None,
) -> Miner:
    """The miner of a KG, shared by all questions so that no seed is mined twice.

    What `seeds` keep as mined already is not mined again.
    """
    caps = caps or Caps()
    kept = seeds.kept if seeds is not None else None
    name = seeds.name if seeds is not None and kept is not None else ""
    key = (caps, name, encoder.name if encoder is not None else "")
    with _lock:
        shared = shared_of(kg)
        miner = _miners.setdefault(shared, {}).setdefault(key, Miner(shared, caps, kept, encoder))
    return miner.session(kg)


def plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> tuple[Rule, ...]:
    """Rules for a question with linked entities, best first; () where nothing fits."""
    return make_plan(question, linked, kg, encoder, seeds, settings).rules


def make_plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> Plan:
    """The plan for a question with linked entities: rules, best first, and what was dropped, with reasons.

    A rule that leads nowhere from its topic entity is dropped, unless documents may fill the gap (SymAgent
    4.2.1).
    """
    settings = settings or PlanSettings()
    rules: list[Rule] = []
    left: list[DroppedRule] = []
    if seeds is not None and linked:
        rules, left = grounded(kg, seed_rules(question, linked, kg, encoder, seeds, settings), settings)
    unlike = bool(rules) and has_gap(rules[0]) and not _like_seeds(question, linked, seeds, settings)
    if not rules or rules[0].score < LEAST_F1 or unlike:
        search = prepare(question, linked, kg, encoder, settings)
        found = neighbourhood_rules(search)
        if settings.documents and not found and (unlike or not rules):
            found = guessed_rules(search)
        rules = found + rules if unlike else rules + found
        left += search.dropped
    kept = shared_places(_distinct(rules), settings.rules)
    return Plan(tuple(kept), tuple(dict.fromkeys(left)))


def _like_seeds(
    question: str, linked: Sequence[LinkedEntity], seeds: SeedIndex | None, settings: PlanSettings
) -> bool:
    """Whether some seed asks much the same as the question: without that, its rules are no evidence.

    Where the graph follows a rule, that itself speaks for it; a rule with a gap has nothing else.
    """
    if seeds is None:
        return False
    for topics, matches in find_matches(question, linked, seeds, settings):
        asked = masked(question, [(e.start, e.end) for e in topics])
        if any(alike(asked, m.text) for m in matches):
            return True
    return False


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """Each rule once, in order."""
    kept: dict[tuple[object, ...], Rule] = {}
    for rule in rules:
        kept.setdefault((rule.anchor, rule.body, rule.constraints), rule)
    return list(kept.values())


def grounded(
    kg: KnowledgeGraph, rules: Sequence[Rule], settings: PlanSettings
) -> tuple[list[Rule], list[DroppedRule]]:
    """The first rules that lead somewhere from their topic entity, and those dropped because they do not.

    With documents the latter stay where they are, marked as having a gap, and do not take the places of the
    others. One query a rule. What a graph did not answer in time is kept.
    """
    kept: list[Rule] = []
    left: list[DroppedRule] = []
    tried = 2 * settings.rules if settings.documents else settings.rules
    for rule in rules:
        if len(kept) == tried:
            break
        if run(kg, rule, limit=1).outcome is not Outcome.EMPTY:
            kept.append(rule)
        elif settings.documents:
            kept.append(with_gap(rule))
        else:
            left.append(dropped(rule, missing(kg, rule)))
    return shared_places(kept, settings.rules), left


def missing(kg: KnowledgeGraph, rule: Rule) -> str:
    """Where a rule without a grounding ends, in words."""
    for length in range(1, len(rule.body)):
        part = ground(rule.anchor, rule.body[:length])
        if run(kg, part, limit=1).outcome is Outcome.EMPTY:
            return f"no grounding: the graph has nothing at {path_text(rule.body[:length])} from the entity"
    whole = f"no grounding: the graph has nothing at {path_text(rule.body)} from the entity"
    return f"{whole} that meets the conditions" if rule.constraints else whole


Topics = tuple[LinkedEntity, ...]


def find_matches(
    question: str, linked: Sequence[LinkedEntity], seeds: SeedIndex, settings: PlanSettings
) -> list[tuple[Topics, tuple[Match, ...]]]:
    """The groups of seeds most like the question with one of its entities masked, or with two of them.

    Two stand first, in the order of the question, and are matched with seeds that have two.
    """
    count = settings.seed_count
    found: list[tuple[Topics, tuple[Match, ...]]] = []
    for pair in combinations(sorted((e for e in linked if e.start >= 0), key=lambda e: e.start), 2):
        matches = seeds.search(question, [(e.start, e.end) for e in pair], count)
        both = tuple(m for m in matches if m.text.split().count(MENTION) > 1)
        found += [(pair, both)] if both else []
    return found + [((e,), seeds.search(question, [(e.start, e.end)], count)) for e in linked]


def seed_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> list[Rule]:
    """Rules from seed questions: each body weighs its F1 by how like its seeds are to the question.

    Where seeds show that two topics meet, a rule that leaves out one of the question's has to do better.
    """
    miner = miner_of(kg, settings.mining, seeds, encoder)
    best: list[Rule] = []
    least = 0.0
    for topics, matches in find_matches(question, linked, seeds, settings):
        found = _Weighing(kg, encoder, miner, question, topics).rules(matches)
        if found and found[0].score > least:
            best, least = found, found[0].score / (LEFT_OUT if len(topics) > 1 else 1.0)
    return best


class _Weighing:
    """Rules of matched groups of seeds for one topic entity, or for two that meet."""

    def __init__(
        self, kg: KnowledgeGraph, encoder: Encoder, miner: Miner, question: str, topics: Topics
    ) -> None:
        self._kg, self._miner = kg, miner
        self._anchors = [node_form(kg, e.id) for e in topics]
        self._conditions = Conditions(kg, encoder, question, [(e.start, e.end) for e in topics])
        self._scores: dict[Rule, float] = {}
        self._notes: dict[Rule, Rule] = {}
        self._kept: set[Rule] = set()

    def rules(self, matches: Sequence[Match]) -> list[Rule]:
        """Their rules, best first."""
        total = 0.0
        for match in matches:
            mined = self._miner.mine(match.seeds)
            if not mined:
                continue
            weight = match.score**SHARPNESS
            total += weight
            for m in mined:
                if m.f1 >= LEAST_F1:
                    self._add(m, match, weight)
            if match.score == 1.0 and mined[0].f1 > 0.9 and mined[0].support > 2:
                break
        ranked = sorted(self._scores, key=lambda r: (-self._scores[r], len(r.body)))
        scored = [(r, replace(self._notes[r], score=self._scores[r] / total)) for r in ranked]
        first = [s if r in self._kept else without_topic(self._kg, s) for r, s in scored[:CHECKED]]
        return first + [s for _, s in scored[CHECKED:]]

    def _add(self, mined: MinedBody, match: Match, weight: float) -> None:
        """Count a body for the question, with the conditions its seeds have."""
        rule = self._rule(mined)
        if rule is None:
            return
        self._scores[rule] = self._scores.get(rule, 0.0) + weight * mined.f1
        self._kept |= {rule} if mined.keeps_topic else set()
        self._notes.setdefault(rule, _noted(rule, mined, match))

    def _rule(self, mined: MinedBody) -> Rule | None:
        """A mined body at the topics of the question; None where a second one or a quantity is missing."""
        body = rename(self._kg, mined.signature)
        if mined.other:
            if len(self._anchors) < 2:
                return None
            return meeting(self._kg, self._anchors[0], body, self._anchors[1], mined.other)
        rule = ground(self._anchors[0], body)
        if not mined.condition:
            return rule
        found = next(iter(self._conditions.apply(rule, mined.condition)), None)
        return None if found is None else replace(found, score=0.0)


def _noted(rule: Rule, mined: MinedBody, match: Match) -> Rule:
    """A rule with the figures of its body over its seeds, and what they are."""
    note = f'reproduces the answers of {mined.support} seed questions like "{match.text}", F1 {mined.f1:.2f}'
    return replace(
        rule, support=mined.support, precision=mined.precision, recall=mined.recall, provenance=note
    )


def neighbourhood_rules(search: Search) -> list[Rule]:
    """Rules from the neighbourhood of the linked entities, fitted to the words of the question."""
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
