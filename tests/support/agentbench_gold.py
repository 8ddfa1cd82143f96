"""AgentBench's gold sequences, replayed on the Freebase extract or on a graph made up for each of them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox

from tests.support.calls import parse_call
from triplewise.guidelines import Guidelines, Match
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.actions.toolset import ReasoningMemory
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.protocol import KnowledgeGraph

FILES = ("dev", "std", "kg_rl_all")
NS = "http://rdf.freebase.com/ns/"
XSD = "http://www.w3.org/2001/XMLSchema#"
AGENTBENCH = TOOLSETS["agentbench"]
Record = dict[str, Any]
_CALL = re.compile(r"(\w+)\((.*)\)")


class Played(NamedTuple):
    """One step of a replay: what was called, what came of it, and the guideline that fired."""

    call: str
    feedback: Feedback
    match: Match | None


def records(folder: Path) -> Iterator[Record]:
    """All records of all files."""
    for name in FILES:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def gold(record: Record) -> set[str]:
    """The gold answers."""
    return {str(answer["answer_argument"]) for answer in record["answer"]}


def play(kg: KnowledgeGraph, record: Record, guidelines: Guidelines) -> list[Played]:
    """Carry out a gold sequence and answer with its last set; stop where a step fails."""
    made = sum(not call.startswith("get_") or "neighbors" in call for call in record["actions"])
    steps: list[Played] = []
    program, memory = "", ReasoningMemory(linked={v: k for k, v in record["entities"].items()}, budget=40)
    for written in (*record["actions"], f"answer(#{made - 1})"):
        bench = ActionContext(kg, question=record["question"], program=program, memory=memory)
        feedback = AGENTBENCH.execute(bench, parse_call(written, AGENTBENCH))
        match = guidelines.match(feedback, memory, question=record["question"], toolset="agentbench")
        steps.append(Played(written, feedback, match))
        if feedback.error or feedback.outcome not in ("rows", "truncated"):
            break
        program, memory = feedback.program, _remembered(memory, feedback)
    return steps


def _remembered(memory: ReasoningMemory, feedback: Feedback) -> ReasoningMemory:
    """The reasoning memory after a step that stands."""
    node, call = feedback.arguments[0], f"{feedback.action}({', '.join(feedback.arguments)})"
    offered = {node: memory.looked_up.get(node, {}) | feedback.relations} if feedback.relations else {}
    return ReasoningMemory(
        linked=memory.linked,
        looked_up=memory.looked_up | offered,
        bound=tuple(dict.fromkeys((*memory.bound, *feedback.values))),
        seen=memory.seen.union(*feedback.ids.values()),
        steps=memory.steps + 1,
        budget=memory.budget,
        calls=(*memory.calls, call),
    )


@dataclass
class MadeUp:
    """A graph in which a gold sequence leads to exactly its gold answer, past members that must drop out.

    It is made from the end: what a set has to hold says what the sets before it have to hold. Each side of an
    intersection gets a member that the other lacks, each superlative one that is beaten.
    """

    record: Record
    quads: list[ox.Quad] = field(default_factory=list)
    made: list[tuple[str, list[str]]] = field(default_factory=list)
    invented: int = 0

    def kg(self) -> LocalKG:
        """The graph."""
        for written in self.record["actions"]:
            match = _CALL.fullmatch(written)
            assert match is not None
            if match[1] not in ("get_relations", "get_attributes"):
                self.made.append((match[1], [a.strip() for a in match[2].split(",")]))
        for answer in self.record["answer"]:
            self._name(answer)
        self._hold(len(self.made) - 1, [_term(a) for a in self.record["answer"]])
        store = ox.Store()
        store.extend(self.quads)
        return LocalKG(store, load_profile("freebase"), "made up")

    def _name(self, answer: dict[str, str]) -> None:
        """A label for an answer, so that it is not a mediator."""
        node, name = _term(answer), answer.get("entity_name") or "an answer"
        if isinstance(node, ox.NamedNode):
            label = ox.NamedNode(f"{NS}type.object.name")
            self.quads.append(ox.Quad(node, label, ox.Literal(name, language="en")))

    def _new(self) -> ox.NamedNode:
        self.invented += 1
        return ox.NamedNode(f"{NS}m.made_up_{self.invented}")

    def _hold(self, n: int, members: list[ox.NamedNode | ox.Literal]) -> None:
        """Add the facts by which a set holds the members."""
        name, arguments = self.made[n]
        sources = [int(a[1:]) for a in arguments if a.startswith("#")]
        if name == "count":
            self._hold(sources[0], [self._new() for _ in range(int(members[0].value))])
        elif name == "intersection":
            for source in sources:
                self._hold(source, [*members, self._new()])
        elif name in ("argmax", "argmin"):
            self._superlative(sources[0], arguments[1], members, name == "argmax")
        else:
            start = self._new() if sources else ox.NamedNode(NS + arguments[0])
            self._facts(start, arguments[1], members)
            if sources:
                self._hold(sources[0], [start])

    def _superlative(
        self, source: int, attribute: str, members: list[ox.NamedNode | ox.Literal], largest: bool
    ) -> None:
        beaten = self._new()
        for member in (*members, beaten):
            value = "10" if (member != beaten) == largest else "9"
            self._facts(member, attribute, [ox.Literal(value, datatype=ox.NamedNode(XSD + "integer"))])
        self._hold(source, [*members, beaten])

    def _facts(self, start: Any, relation: str, ends: list[Any]) -> None:
        self.quads += [ox.Quad(start, ox.NamedNode(NS + relation), end) for end in ends]


def _term(answer: dict[str, str]) -> ox.NamedNode | ox.Literal:
    """A gold answer as a node: an entity, or a literal."""
    value = str(answer["answer_argument"])
    is_entity = re.fullmatch(r"[mg]\.\w+|[a-z_]+(\.\w+)+", value) is not None
    return ox.NamedNode(NS + value) if is_entity else ox.Literal(value)
