"""Which questions a graph can answer, for benchmarks without a gold query: a share that every result states.

Nothing here is ever shown to the agent. What was judged once stays in the user's cache folder for as long as
questions and graph stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from triplewise.evals.data import DataFile, Record, cached_text, checksum, locate
from triplewise.evals.kgs import LoadedKG
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.core.values import Value, normal_text, read_value, same
from triplewise.tools.kg.protocol import KnowledgeGraph

FORMAT = 1
"""Raised when the same question may be judged in another way."""
WIDEST = 20_000
"""Terms of a neighbourhood; what lies behind more of them is not looked at."""

Judging = Callable[[KnowledgeGraph], Callable[[Record], bool]]


def answerable_ids(
    name: str, records: Sequence[Record], file: DataFile, kg: LoadedKG, judging: Judging
) -> set[str] | None:
    """Ids of the questions that a graph can answer; None for a graph of the user's own, which is not judged.

    Args:
        name: of the judgement, part of the name of the file that keeps it.
        records: the questions. file: where they come from. kg: the graph.
        judging: makes what says it of one question.
    """
    if kg.own:
        return None

    def judge_all() -> str:
        judge = judging(kg.open())
        return json.dumps([str(record["id"]) for record in records if judge(record)])

    made_from = (FORMAT, kg.checksum, checksum(locate(file)))
    path = cached_text(f"{name}-answerable-{{}}.json", made_from, judge_all)
    return set(json.loads(path.read_text(encoding="utf-8")))


def has_fact(kg: KnowledgeGraph, topic: str, relation: str, answer: str) -> bool:
    """Whether the graph has a fact of a topic with a relation of that local name and a value of that name."""
    node = kg.profile.expand(topic)
    if node is None:
        return False
    facts = kg.neighbours(node, direction="forward").triples
    return _ball_of(kg, [t.object for t in facts if t.relation.value.rpartition(".")[2] == relation]).has(
        answer
    )


class Reach:
    """The neighbourhoods of nodes, remembered because questions share their topics."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg
        self._around: dict[Term, tuple[Term, ...]] = {}
        self._balls: dict[tuple[Term, int], _Ball] = {}

    def holds(self, topics: Iterable[str], answers: Sequence[str], hops: int) -> bool:
        """Whether every topic has a fact, and every answer lies up to so many relations from one of them.

        That is the least it takes: it does not say that the right relations lead there.

        Args:
            topics: short ids. answers: short ids, names, or values. hops: relations, either way.
        """
        nodes = [self._kg.profile.expand(topic) for topic in topics]
        connected = [node for node in nodes if node is not None and self._neighbours(node)]
        if not connected or len(connected) < len(nodes):
            return False
        balls = [self._ball(node, hops) for node in connected]
        return bool(answers) and all(any(ball.has(answer) for ball in balls) for answer in answers)

    def _ball(self, start: Term, hops: int) -> _Ball:
        """All that lies up to so many relations from a node."""
        if (start, hops) not in self._balls:
            reached: set[Term] = {start}
            edge: list[Term] = [start]
            for _ in range(hops):
                fresh = {end for node in edge for end in self._neighbours(node)} - reached
                reached |= fresh
                edge = [node for node in fresh if isinstance(node, IRI)]
                if len(reached) > WIDEST:
                    break
            self._balls[start, hops] = _ball_of(self._kg, reached - {start})
        return self._balls[start, hops]

    def _neighbours(self, node: Term) -> tuple[Term, ...]:
        if node not in self._around:
            triples = self._kg.neighbours(node).triples
            self._around[node] = tuple(end for t in triples for end in (t.subject, t.object) if end != node)
        return self._around[node]


@dataclass(frozen=True, slots=True)
class _Ball:
    """Some terms: how they are written and called, as `normal_text`, and those that are numbers or dates."""

    texts: frozenset[str]
    values: tuple[Value, ...]

    def has(self, answer: str) -> bool:
        """Whether a short id, a name or a value is that of one of the terms."""
        value = read_value(answer)
        return normal_text(answer) in self.texts or any(same(own, value) for own in self.values)


def _ball_of(kg: KnowledgeGraph, terms: Iterable[Term]) -> _Ball:
    terms = list(terms)
    nodes = [term for term in terms if isinstance(term, IRI)]
    texts = [kg.profile.short(term) for term in terms]
    values = [read_value(term.value) for term in terms if isinstance(term, Literal)]
    return _Ball(
        frozenset(map(normal_text, [*texts, *kg.labels(nodes).values()])),
        tuple(value for value in values if value.number is not None or value.date),
    )
