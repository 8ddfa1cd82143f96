"""Exploring and refining with the embedded policy (SymAgent 4.3.1), and the choices that it learns from.

The agent's loop adds nothing where a rule is one query, so exploring thousands of questions grows chains and
runs them as rules directly. Refinement is given the attempt and its reward, never the answers: the next best
chains are run, and the one rewarded best is kept. Recall alone (equation 6) would prefer paths that reach
everything, so among attempts it is recall plus F1 that decides.
"""

from __future__ import annotations

from dataclasses import replace

from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.questions import Question, reward_of, short_answers
from triplewise.tools.learning.trajectory import Choice, Trajectory, Turn
from triplewise.tools.parsing.chains import ChainGrower, edges_of, topics_of
from triplewise.tools.parsing.query import Path
from triplewise.tools.parsing.reading import derive
from triplewise.tools.planning.paths import answers, grow, node_form, with_variables
from triplewise.tools.retrieval.encoder import Encoder

ROWS = 1_000
"""Answers of a rule that are looked at."""


def explore(kg: KnowledgeGraph, encoder: Encoder, question: Question, blank: Trajectory) -> Trajectory:
    """Return the embedded policy's own attempt, its first rule, made from one that found nothing."""
    if not (rules := rules_for(kg, encoder, question)):
        return blank
    made = follow(kg, rules[0], blank)
    return replace(made, choices=choices_of(kg, rules[0])) if made.reward else made


def refine(kg: KnowledgeGraph, encoder: Encoder, question: Question, explored: Trajectory) -> Trajectory:
    """Return the best of the next rules, given the first attempt; that itself where it was perfect."""
    # The first attempt had a plan to make, a refined one knows it: so the refined is shorter (equation 7).
    turns = tuple(t for t in explored.turns if t.call != "get_rules")
    best, taken = replace(explored, origin="refined", turns=turns), None
    if explored.f1 < 1.0 and not explored.status:
        for rule in rules_for(kg, encoder, question)[1:]:
            made = follow(kg, rule, best)
            if made.reward + made.f1 > best.reward + best.f1:
                best, taken = made, rule
    return best if taken is None else replace(best, choices=choices_of(kg, taken))


def rules_for(kg: KnowledgeGraph, encoder: Encoder, question: Question) -> list[Rule]:
    """Return the chains around the entities of a question as rules, those that fit its words best first.

    Raises `ConfigurationError` for an entity that the graph lacks.
    """
    read, _ = derive(question.question, kg, encoder, question.entities or None)
    topics, found = topics_of(read), list[tuple[float, int, Path]]()
    grower, short, rules = ChainGrower(read, topics, kg, encoder), kg.profile.short, list[Rule]()
    for topic in topics:
        (node,) = topic.mentions
        found += [(chain.score, node, chain.path) for chain in grower.chains(topic)]
    for _, node, path in sorted(found, key=lambda f: -f[0]):
        steps = [Atom(short(iri), forward) for iri, forward in edges_of(read.index, path)]
        rules.append(Rule(node_form(kg, short(read.index.terms[node])), with_variables(kg, steps)))
    return rules


def follow(kg: KnowledgeGraph, rule: Rule, attempt: Trajectory) -> Trajectory:
    """Return the attempt made by following a rule, with the reward of its answers (equation 6)."""
    terms, short = answers(kg, rule, ROWS), kg.profile.short
    labels = kg.labels([term for term in terms if isinstance(term, IRI)])
    values = [short(t) if isinstance(t, IRI) else str(getattr(t, "value", t)) for t in terms]
    names = [labels.get(t, text) for t, text in zip(terms, values, strict=True)]
    reward = reward_of(values, names, short_answers(kg, attempt.answers))
    calls = ["get_rules"] if attempt.origin == "explored" else []
    calls += [*(atom.arrow() for atom in rule.path), "finish"]
    turns = tuple(Turn("", call, "") for call in calls)
    return replace(
        attempt,
        predicted=reward.predicted,
        reward=reward.recall,
        f1=reward.f1,
        turns=turns,
        rule=rule.text(),
    )


def choices_of(kg: KnowledgeGraph, rule: Rule) -> tuple[Choice, ...]:
    """Return the choices behind a rule: at each hop, what was taken and what was offered.

    The embedded policy learns from them, as a language model learns from thoughts and actions. One query a
    hop. A hop whose relation the KG does not offer there (a gap) is left out.
    """

    def text(atom: Atom) -> str:
        iri = kg.profile.expand(atom.relation, relation=True)
        return f"{'' if atom.forward else '^'}{atom.relation if iri is None else kg.profile.short(iri)}"

    choices, before = list[Choice](), tuple[str, ...]()
    for hop, atom in enumerate(rule.path):
        offered = dict.fromkeys(text(path[-1]) for path in grow(kg, rule.anchor, rule.path[:hop]))
        if text(atom) in offered:
            choices.append(Choice(text(atom), tuple(offered), before))
        before = (*before, text(atom))
    return tuple(choices)
