"""Questions with answers, all that self-learning is given, and the offline policy's attempts at them.

Exploring thousands of questions (SymAgent 4.3.1) grows chains and runs them as rules, without the agent's
loop. Refinement sees the attempt and its reward, never the answers: the next best chains are run, and the
best is kept by recall plus F1, since recall alone (equation 6) prefers paths that reach everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.overlap import Overlap, best_overlap
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.trajectory import Choice, Trajectory, Turn
from triplewise.tools.parsing.chains import ChainGrower, edges_of, topics_of
from triplewise.tools.parsing.reading import derive
from triplewise.tools.planning.paths import answers, grow, node_form, with_variables
from triplewise.tools.planning.seeds import question_parts
from triplewise.tools.retrieval.encoder import Encoder

ROWS = 1_000  # Answers of a rule that are looked at


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold answers. `entities`: mention -> id, or None to have it linked."""

    id: str
    question: str
    entities: Mapping[str, str | None]
    answers: tuple[str, ...]

    def attempt(self, **values: Any) -> Trajectory:
        """Return an attempt at it that found nothing, with further attributes of a `Trajectory`."""
        entities = {mention: node for mention, node in self.entities.items() if node}
        return Trajectory(self.id, self.question, self.answers, entities, **values)


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a JSON-lines file (plain or .gz), with lines as `question_parts` reads them.

    A line without an `id` is named by its number; questions without answers are left out. Raises `DataError`.
    """
    questions: dict[str, Question] = {}
    for number, record in json_lines(path):
        id_ = str(record.get("id", f"line-{number}"))
        question = Question(id_, *question_parts(record, path, number))
        if id_ in questions:
            raise DataError(f"the id {id_!r} stands twice; give every question its own", path, number)
        if question.answers:
            questions[id_] = question
    if not questions:
        raise DataError("holds no question with answers", path)
    return list(questions.values())


def split(questions: Sequence[Question], share: float) -> tuple[list[Question], list[Question]]:
    """Questions to learn from, and a random share held out for validation, always the same, in file order."""
    count = max(round(len(questions) * share), 1) if share > 0 else 0
    if not 0 < count < len(questions):
        held_out = f"a validation share of {share:g} of {len(questions)} questions"
        raise ConfigurationError(f"{held_out} leaves nothing on one side")
    held = set(random.Random(0).sample(range(len(questions)), count))
    learned = [q for i, q in enumerate(questions) if i not in held]
    return learned, [q for i, q in enumerate(questions) if i in held]


def short_answers(kg: KnowledgeGraph, answers: Sequence[str]) -> list[str]:
    """Return gold answers with full IRIs in the short form that the agent answers in."""
    return [kg.profile.short(IRI(a)) if a.startswith(("http://", "https://")) else a for a in answers]


def agreements(
    kg: KnowledgeGraph, values: Sequence[str], labels: Sequence[str], golds: Iterable[Sequence[str]]
) -> tuple[Overlap, Overlap]:
    """Return how answers agree with the best set of gold answers: as ids or literals, and by their names."""
    sets = [short_answers(kg, gold) for gold in golds]
    return best_overlap(values, sets), best_overlap(labels, sets, "names")


def rewarded(
    kg: KnowledgeGraph, attempt: Trajectory, values: Sequence[str], labels: Sequence[str]
) -> Trajectory:
    """Return an attempt with its answers and their recall (equation 6), as ids or names: what agrees best."""
    by_id, by_name = agreements(kg, values, labels, [attempt.answers])
    best, predicted = (by_name, labels) if by_name.f1 > by_id.f1 else (by_id, values)
    return replace(attempt, predicted=tuple(predicted), reward=best.recall, f1=best.f1)


def explore(kg: KnowledgeGraph, encoder: Encoder, question: Question, blank: Trajectory) -> Trajectory:
    """Return the offline policy's own attempt, its first rule, made from one that found nothing."""
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
    """Return the chains around the entities of a question as rules, those that fit its words best first."""
    read, _ = derive(question.question, kg, encoder, question.entities or None)
    topics, found, short = topics_of(read), list[tuple[float, Rule]](), kg.profile.short
    grower = ChainGrower(read, topics, kg, encoder)
    for topic in topics:
        (node,) = topic.mentions
        anchor = node_form(kg, short(read.index.terms[node]))
        for chain in grower.chains(topic):
            steps = [Atom(short(iri), forward) for iri, forward in edges_of(read.index, chain.path)]
            found.append((chain.score, Rule(anchor, with_variables(kg, steps))))
    return [rule for _, rule in sorted(found, key=lambda f: -f[0])]


def follow(kg: KnowledgeGraph, rule: Rule, attempt: Trajectory) -> Trajectory:
    """Return the attempt made by following a rule, with the reward of its answers (equation 6)."""
    terms, short = answers(kg, rule, ROWS), kg.profile.short
    labels = kg.labels([term for term in terms if isinstance(term, IRI)])
    values = [short(t) if isinstance(t, IRI) else str(getattr(t, "value", t)) for t in terms]
    names = [labels.get(t, text) for t, text in zip(terms, values, strict=True)]
    calls = ["get_rules"] if attempt.origin == "explored" else []
    calls += [*(atom.arrow() for atom in rule.path), "finish"]
    turns = tuple(Turn("", call, "") for call in calls)
    return rewarded(kg, replace(attempt, turns=turns, rule=rule.text()), values, names)


def choices_of(kg: KnowledgeGraph, rule: Rule) -> tuple[Choice, ...]:
    """Return the choices behind a rule: at each hop, what was taken and what was offered; none over a gap."""

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
