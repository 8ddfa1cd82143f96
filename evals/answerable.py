"""Which questions a graph can answer, for benchmarks without a gold query: a share that every result states.

Nothing here is ever shown to the agent. What was judged once stays in the user's cache folder for as long as
questions and graph stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from triplewise.evals.data import DataFile, LoadedKG, cached_text, checksum, locate
from triplewise.tools.core.files import Record
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.core.values import Value, normal_text, read_value, same
from triplewise.tools.kg.protocol import KnowledgeGraph

FORMAT = 1
"""Raised when the same question may be judged in another way."""
WIDEST = 20_000
"""Terms of a neighbourhood; what lies behind more of them is not looked at."""


class Reach:
    """What lies around the nodes of a graph, remembered because questions share their topics."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg
        self._around: dict[Term, tuple[Term, ...]] = {}
        self._balls: dict[tuple[Term, int], Callable[[str], bool]] = {}

    def has_fact(self, topic: str, relation: str, answer: str) -> bool:
        """Return whether a topic has a fact with a relation of that local name and a value of that name."""
        if (node := self._kg.profile.expand(topic)) is None:
            return False
        facts = self._kg.neighbours(node, direction="forward").triples
        return self._naming(t.object for t in facts if t.relation.value.rpartition(".")[2] == relation)(
            answer
        )

    def holds(self, topics: Iterable[str], answers: Sequence[str], hops: int) -> bool:
        """Return whether every topic has a fact, and every answer lies up to so many relations from one.

        That is the least it takes: it does not say that the right relations lead there.

        Args:
            topics: short ids. answers: short ids, names, or values. hops: relations, either way.
        """
        nodes = [self._kg.profile.expand(topic) for topic in topics]
        connected = [node for node in nodes if node is not None and self._neighbours(node)]
        if not connected or len(connected) < len(nodes):
            return False
        balls = [self._ball(node, hops) for node in connected]
        return bool(answers) and all(any(has(answer) for has in balls) for answer in answers)

    def _ball(self, start: Term, hops: int) -> Callable[[str], bool]:
        """Whether something of a name or value lies up to so many relations from a node."""
        if (start, hops) not in self._balls:
            reached: set[Term] = {start}
            edge: list[Term] = [start]
            for _ in range(hops):
                fresh = {end for node in edge for end in self._neighbours(node)} - reached
                reached |= fresh
                edge = [node for node in fresh if isinstance(node, IRI)]
                if len(reached) > WIDEST:
                    break
            self._balls[start, hops] = self._naming(reached - {start})
        return self._balls[start, hops]

    def _neighbours(self, node: Term) -> tuple[Term, ...]:
        if node not in self._around:
            triples = self._kg.neighbours(node).triples
            self._around[node] = tuple(end for t in triples for end in (t.subject, t.object) if end != node)
        return self._around[node]

    def _naming(self, terms: Iterable[Term]) -> Callable[[str], bool]:
        """Whether a short id, a name or a value is that of one of some terms."""
        terms = list(terms)
        labels = self._kg.labels([term for term in terms if isinstance(term, IRI)])
        texts = set(map(normal_text, [*map(self._kg.profile.short, terms), *labels.values()]))
        values: list[Value] = [read_value(term.value) for term in terms if isinstance(term, Literal)]
        values = [value for value in values if value.number is not None or value.date]

        def has(answer: str) -> bool:
            value = read_value(answer)
            return normal_text(answer) in texts or any(same(own, value) for own in values)

        return has


def answerable_ids(
    name: str,
    records: Sequence[Record],
    file: DataFile,
    kg: LoadedKG,
    judge: Callable[[Reach, Record], bool],
) -> set[str] | None:
    """Return ids of the questions that a graph can answer; None for a graph of the user's: it is not judged.

    Args:
        name: of the judgement, part of the name of the file that keeps it.
        records: the questions. file: where they come from. kg: the graph. judge: says it of one question.
    """
    if kg.own:
        return None

    def judge_all() -> str:
        reach = Reach(kg.open())
        return json.dumps([str(record["id"]) for record in records if judge(reach, record)])

    made_from = (FORMAT, kg.checksum, checksum(locate(file)))
    path = cached_text(f"{name}-answerable-{{}}.json", made_from, judge_all)
    return set(json.loads(path.read_text(encoding="utf-8")))
