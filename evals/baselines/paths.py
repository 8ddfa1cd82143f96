"""Reasoning paths of a beam: chains of facts from the question's entities, and their form in the state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from triplewise.nodes.state import State
from triplewise.nodes.text import node_labels
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Hop
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import Body, ground, rename
from triplewise.tools.pyql.text import read_relation, read_term, write_node

UNNAMED = "an unnamed node"
"""How a mediator reads: a node that only joins others and has no name."""


@dataclass(frozen=True, slots=True)
class Step:
    """A relation that a path may go on over; `forward` where the path's end is the subject."""

    relation: IRI
    forward: bool


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of facts from an entity of the question (Think-on-Graph, section 2.1).

    Attributes:
        start: the entity. hops: the facts, each with the direction it is walked in.
        ahead: the relation that was chosen to go on over and has not been walked yet.
        score: what paths are ordered by.
    """

    start: Term
    hops: tuple[Hop, ...] = ()
    ahead: Step | None = None
    score: float = 1.0

    @property
    def nodes(self) -> tuple[Term, ...]:
        """Its nodes, the start first."""
        ends = (h.triple.object if h.forward else h.triple.subject for h in self.hops)
        return (self.start, *ends)

    @property
    def end(self) -> Term:
        """Where it leads so far."""
        return self.nodes[-1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its relations, with the one ahead."""
        walked = tuple(Step(h.triple.relation, h.forward) for h in self.hops)
        return walked if self.ahead is None else (*walked, self.ahead)

    def toward(self, step: Step, score: float) -> Path:
        """The path with a relation to go on over."""
        return replace(self, ahead=step, score=score)

    def over(self, hop: Hop, score: float) -> Path:
        """The path one fact longer."""
        return Path(self.start, (*self.hops, hop), None, score)


def paths_of(state: State, kg: KnowledgeGraph) -> list[Path]:
    """The beam of a state, best first; at the start, a path of no fact for every linked entity.

    Memory holds the facts of each path and `rules`, in the same order, its chain: the directions and, where
    it is one longer, the relation ahead.
    """
    if not state.rules:
        starts = dict.fromkeys(read_term(e.id, kg.profile) for e in state.linked)
        return [Path(start) for start in starts if start is not None]
    found = []
    for rule, facts in zip(state.rules, state.memory, strict=True):
        start = read_term(rule.anchor, kg.profile)
        assert start is not None, "anchors are written from terms"
        hops = tuple(Hop(t, a.forward) for t, a in zip(facts, rule.body, strict=False))
        ahead = None
        if len(rule.body) > len(facts):
            ahead = Step(read_relation(rule.body[-1].relation, kg.profile), rule.body[-1].forward)
        found.append(Path(start, hops, ahead, rule.score))
    return found


def beam(paths: Sequence[Path], kg: KnowledgeGraph, why: str) -> dict[str, object]:
    """The part of the state that holds a beam. `why` says where its paths come from."""
    short = kg.profile.short
    return {
        "memory": tuple(tuple(h.triple for h in p.hops) for p in paths),
        "rules": tuple(replace(chain(p, kg), score=p.score, provenance=why) for p in paths),
        "focus": tuple(dict.fromkeys(short(p.end) for p in paths)),
    }


def settled(paths: Sequence[Path]) -> list[Path]:
    """The paths without relations that were not walked, each once; those of no fact are none."""
    return list({(p.start, p.hops): replace(p, ahead=None) for p in reversed(paths) if p.hops}.values())[::-1]


def chain(path: Path, kg: KnowledgeGraph) -> Rule:
    """The relations of a path as a rule body from its start (ToG-R's relation chain, section 2.2)."""
    body: Body = rename(kg, [(kg.profile.short(s.relation), s.forward) for s in path.steps])
    return Rule(write_node(path.start, kg.profile), body)


def simple(rule: Rule) -> Rule:
    """The rule without ways that go back where they came from."""
    return ground(rule.anchor, rule.body)


def step_texts(kg: KnowledgeGraph, steps: Iterable[Step]) -> dict[Step, str]:
    """How relations read in the direction they are walked in."""
    names = {s: kg.profile.short(s.relation) for s in dict.fromkeys(steps)}
    texts = relation_texts(kg, names.values())
    return {s: texts[n].label if s.forward else texts[n].inverse or texts[n].label for s, n in names.items()}


def chain_texts(kg: KnowledgeGraph, paths: Sequence[Path]) -> list[str]:
    """The relations of each path in words, without its entities."""
    texts = step_texts(kg, (s for p in paths for s in p.steps))
    return [", ".join(texts[s] for s in p.steps) for p in paths]


def node_texts(kg: KnowledgeGraph, nodes: Iterable[Term]) -> dict[Term, str]:
    """Names of nodes, fetched together; mediators read as what they are."""
    nodes = list(dict.fromkeys(nodes))
    known, texts = kg.labels(nodes), node_labels(kg, nodes, exact=False)
    return {n: UNNAMED if kg.profile.is_mediator(n, known.get(n)) else texts[n] for n in nodes}


def path_lines(kg: KnowledgeGraph, paths: Sequence[Path]) -> list[str]:
    """Each path in a line, e.g. `Alien -[directed by]-> Ridley Scott <-[directed by]- Gladiator`."""
    names = node_texts(kg, (n for p in paths for n in p.nodes))
    relations = relation_texts(kg, [kg.profile.short(s.relation) for p in paths for s in p.steps])
    lines = []
    for path in paths:
        line, ends = names[path.start], [*(names[n] for n in path.nodes[1:]), "?"]
        for step, end in zip(path.steps, ends, strict=False):
            label = relations[kg.profile.short(step.relation)].label
            line += f" -[{label}]-> {end}" if step.forward else f" <-[{label}]- {end}"
        lines.append(line)
    return lines
