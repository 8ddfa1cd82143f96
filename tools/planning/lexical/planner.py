"""Plan: the rules that may answer a question, best first (SymAgent 4.1).

Where a KG has seed questions, rules come from the closed paths of the seeds most like the question. Without
seeds they come from the neighbourhood of the linked entities, ranked by how well they fit the words. A graph
that lacks a fact may lack all that leads to it: where there are documents, a rule with a gap stays alive
(SymAgent 4.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from triplewise.tools.core.rules import DroppedRule, Rule, dropped, path_text
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import ground, node_form, run, without_topic
from triplewise.tools.planning.lexical.constraints import Constraints
from triplewise.tools.planning.lexical.question import view
from triplewise.tools.planning.lexical.search import PlanSettings, Search
from triplewise.tools.planning.mining import LEAST_F1, Miner
from triplewise.tools.planning.seeds import Match, SeedIndex
from triplewise.tools.retrieval.encoder import Encoder

GAP = "with a gap in the graph"
"""How the provenance of a rule ends that only documents can complete."""
SHARPNESS = 4.0
"""How fast the weight of a seed falls with its BM25 score: the power it is raised to."""
ONE_TOPIC = 1.25
"""How many times better than a rule of two topics one must do that leaves out one of them."""
CHECKED = 3
"""Rules of seeds asked whether they come back to their topic."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a question, best first, and those that were thought of and dropped, with the reasons."""

    rules: tuple[Rule, ...] = ()
    dropped: tuple[DroppedRule, ...] = ()


def make_plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> Plan:
    """Plan for a question with linked entities: rules, best first, and what was dropped, with reasons.

    A rule that leads nowhere from its topic entity is dropped, unless documents may fill the gap.
    """
    settings = settings or PlanSettings()
    rules: list[Rule] = []
    reasons: list[DroppedRule] = []
    if seeds is not None and linked:
        mined = seed_rules(question, linked, kg, encoder, seeds, settings)
        rules, reasons = _with_grounding(kg, mined, settings)
    if not rules or rules[0].score < LEAST_F1:
        search = prepare(question, linked, kg, encoder, settings)
        rules += search.rules()
        reasons += search.dropped
    distinct: dict[tuple[object, ...], Rule] = {}
    for rule in rules:
        distinct.setdefault((rule.anchor, rule.body, rule.constraints), rule)
    best = share_places(list(distinct.values()), settings.rules)
    return Plan(tuple(best), tuple(dict.fromkeys(reasons)))


def prepare(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> Search:
    """Tell topics from classes: a linked "planet" in lower case names a class, not something asked about."""
    ordered = sorted(linked, key=lambda e: e.start)
    named = [e for e in ordered if e.mention == e.mention.lower() and find_classes(kg, e.mention)]
    topics = [e for e in ordered if e not in named]
    asked = view(question, [(e.start, e.end) for e in topics])
    noun = asked.expected or view(question, []).expected
    classes = find_classes(kg, asked.phrase) or find_classes(kg, noun)
    if not classes and not asked.boolean:
        inside = [e.mention for e in named if noun and noun in e.mention]
        classes = tuple(c for mention in inside for c in find_classes(kg, mention))
    forms = dict.fromkeys(node_form(kg, e.id) for e in topics)
    return Search(asked, list(forms), classes, kg, encoder, settings)


def seed_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> list[Rule]:
    """Return rules from seed questions: each body weighs its F1 by how like its seeds are to the question.

    Where seeds show that two topics meet, a rule that leaves out one of the question's has to do better.
    """
    miner = Miner(kg, settings.mining, seeds.mined(settings.mining, encoder.name), encoder)
    best: list[Rule] = []
    least = 0.0
    for topics, matches in seeds.matches(question, linked, settings.seed_count):
        constraints = Constraints(kg, encoder, view(question, [(e.start, e.end) for e in topics]))
        rules = _weigh_seeds(kg, miner, matches, [node_form(kg, e.id) for e in topics], constraints)
        if rules and rules[0].score > least:
            best, least = rules, rules[0].score * (ONE_TOPIC if len(topics) > 1 else 1.0)
    return best


def _weigh_seeds(
    kg: KnowledgeGraph,
    miner: Miner,
    matches: Sequence[Match],
    anchors: Sequence[str],
    constraints: Constraints,
) -> list[Rule]:
    """Return the rules of matched groups of seeds for one topic entity, or for two that meet, best first."""
    scores: dict[Rule, float] = {}
    noted: dict[Rule, Rule] = {}
    returning: set[Rule] = set()
    total = 0.0
    for match in matches:
        mined = miner.mine(match.seeds)
        weight = match.score**SHARPNESS if mined else 0.0
        total += weight
        for body in (m for m in mined if m.f1 >= LEAST_F1):
            rule = miner.rule(anchors, body.signature, body, constraints)
            if rule is None:
                continue
            rule = replace(rule, score=0.0)
            scores[rule] = scores.get(rule, 0.0) + weight * body.f1
            returning |= {rule} if body.keeps_topic else set()
            like = f'{body.support} seed questions like "{match.text}", F1 {body.f1:.2f}'
            figures = replace(rule, support=body.support, precision=body.precision, recall=body.recall)
            noted.setdefault(rule, replace(figures, provenance=f"reproduces the answers of {like}"))
        if mined and match.score == 1.0 and mined[0].f1 > 0.9 and mined[0].support > 2:
            break
    ranked = sorted(scores, key=lambda r: (-scores[r], len(r.body)))
    rules = [replace(noted[r], score=scores[r] / total) for r in ranked]
    for i, rule in enumerate(ranked[:CHECKED]):
        rules[i] = rules[i] if rule in returning else without_topic(kg, rules[i])
    return rules


def _with_grounding(
    kg: KnowledgeGraph, rules: Sequence[Rule], settings: PlanSettings
) -> tuple[list[Rule], list[DroppedRule]]:
    """Return the first rules that lead somewhere from their topic, and those dropped because they do not.

    With documents the latter stay where they are, marked as having a gap, and do not take the places of the
    others. One query a rule. What a graph did not answer in time stays.
    """
    grounded: list[Rule] = []
    reasons: list[DroppedRule] = []
    tried = 2 * settings.rules if settings.documents else settings.rules
    for rule in rules:
        if len(grounded) == tried:
            break
        if run(kg, rule, limit=1).outcome is not Outcome.EMPTY:
            grounded.append(rule)
        elif settings.documents:
            grounded.append(replace(rule, provenance=f"{rule.provenance}, {GAP}"))
        else:
            reasons.append(dropped(rule, _where_it_ends(kg, rule)))
    return share_places(grounded, settings.rules), reasons


def _where_it_ends(kg: KnowledgeGraph, rule: Rule) -> str:
    """Return where a rule without a grounding ends, in words."""
    for length in range(1, len(rule.body) + 1):
        part = ground(rule.anchor, rule.body[:length])
        if length == len(rule.body) or run(kg, part, limit=1).outcome is Outcome.EMPTY:
            break
    end = f"no grounding: the graph has nothing at {path_text(rule.body[:length])} from the entity"
    return f"{end} that meets the conditions" if part.body == rule.body and rule.constraints else end


def has_gap(rule: Rule) -> bool:
    """Return whether only documents can complete a rule."""
    return rule.provenance.endswith(GAP)


def share_places(rules: Sequence[Rule], limit: int) -> list[Rule]:
    """Return the first rules, in order, at most `limit`, where neither kind takes the place of the other.

    Rules with a gap have half of the places, more where there are not enough others.
    """
    gaps = [i for i, r in enumerate(rules) if has_gap(r)]
    whole = [i for i, r in enumerate(rules) if not has_gap(r)]
    gaps = gaps[: max(limit - len(whole), limit // 2)]
    chosen = {*gaps, *whole[: limit - len(gaps)]}
    return [r for i, r in enumerate(rules) if i in chosen]
