"""Reasoning paths of Think-on-Graph: chains of facts, their form in the state, and the search at their ends.

Relations of all ends come in one query, with the number of facts of each; facts of all chosen relations in
another, at most so many of each, drawn by a seed (section 2.1.2, "search"). The published code asks once for
every entity, direction and label, and draws without a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.nodes.text import node_labels
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.frontier import Bundle, bundle_sizes, read_bundles
from triplewise.tools.kg.protocol import Deadline, Hop
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.planning.bodies import rename
from triplewise.tools.pyql.text import read_relation, read_term, write_node
from triplewise.tools.retrieval.ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

UNNAMED = "an unnamed node"
"""How a mediator reads: a node that only joins others and has no name."""
ENTITIES = 20
"""Entities looked at behind one relation, as many as the published code shows before it samples."""


class Step(NamedTuple):
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
        return (self.start, *map(far_end, self.hops))

    @property
    def end(self) -> Term:
        """Where it leads so far."""
        return far_end(self.hops[-1]) if self.hops else self.start

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


def far_end(hop: Hop) -> Term:
    """Return the node that a hop leads to."""
    return hop.triple.object if hop.forward else hop.triple.subject


def paths_of(state: State, kg: KnowledgeGraph) -> list[Path]:
    """Return the beam of a state, best first; at the start, a path of no fact for every linked entity.

    Memory holds the facts of each path and `rules`, in the same order, its chain: the directions and, where
    it is one longer, the relation ahead.
    """
    if not state.rules:
        starts = dict.fromkeys(read_term(e.id, kg.profile) for e in state.linked)
        return [Path(start) for start in starts if start is not None]
    paths = []
    for rule, facts in zip(state.rules, state.memory, strict=True):
        start = read_term(rule.anchor, kg.profile)
        assert start is not None, "anchors are written from terms"
        hops = tuple(Hop(t, a.forward) for t, a in zip(facts, rule.body, strict=False))
        ahead = None
        if len(rule.body) > len(facts):
            ahead = Step(read_relation(rule.body[-1].relation, kg.profile), rule.body[-1].forward)
        paths.append(Path(start, hops, ahead, rule.score))
    return paths


def beam_update(paths: Sequence[Path], kg: KnowledgeGraph, why: str) -> dict[str, object]:
    """Return the part of the state that holds a beam. `why` says where its paths come from."""
    short = kg.profile.short
    return {
        "memory": tuple(tuple(h.triple for h in p.hops) for p in paths),
        "rules": tuple(replace(chain_of(p, kg), score=p.score, provenance=why) for p in paths),
        "focus": tuple(dict.fromkeys(short(p.end) for p in paths)),
    }


def chain_of(path: Path, kg: KnowledgeGraph) -> Rule:
    """Return the relations of a path as a rule body from its start (ToG-R's relation chain, section 2.2)."""
    body = rename(kg, [(kg.profile.short(s.relation), s.forward) for s in path.steps])
    return Rule(write_node(path.start, kg.profile), body)


def step_texts(kg: KnowledgeGraph, steps: Iterable[Step]) -> dict[Step, str]:
    """Return how relations read in the direction they are walked in."""
    names = {s: kg.profile.short(s.relation) for s in dict.fromkeys(steps)}
    texts = relation_texts(kg, names.values())
    return {s: texts[n].label if s.forward else texts[n].inverse or texts[n].label for s, n in names.items()}


def node_texts(kg: KnowledgeGraph, nodes: Iterable[Term]) -> dict[Term, str]:
    """Return names of nodes, fetched together; mediators read as what they are."""
    nodes = list(dict.fromkeys(nodes))
    labels, texts = kg.labels(nodes), node_labels(kg, nodes, exact=False)
    return {n: UNNAMED if kg.profile.is_mediator(n, labels.get(n)) else texts[n] for n in nodes}


def path_lines(kg: KnowledgeGraph, paths: Sequence[Path]) -> list[str]:
    """Return each path in a line, e.g. `Alien -[directed by]-> Ridley Scott <-[directed by]- Gladiator`."""
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


def relations_around(paths: Sequence[Path], question: str, context: Context) -> tuple[list[list[Step]], str]:
    """Return the relations by which each path may go on, both directions; and what is missing, in words.

    Paths with one end share its relations: the best of them takes all, the others get none. Where an end has
    more than `relation_cut` relations those most like the question are taken, so that no hub floods a prompt.
    A relation whose only fact the path has just come over is none.
    """
    kg = environment(context).kg
    sizes, trouble = bundle_sizes(kg, list(dict.fromkeys(p.end for p in paths)), "both", Deadline(kg.timeout))
    at: dict[Term, list[Bundle]] = {}
    for bundle in sorted(sizes, key=lambda b: b.place):
        at.setdefault(bundle.node, []).append(bundle)
    encoder, ways = environment(context).ranking_encoder, []
    store = None if encoder is None else vectors_of(kg, encoder)
    for path in paths:
        back = Step(path.hops[-1].triple.relation, not path.hops[-1].forward) if path.hops else None
        sides = [(Step(b.relation, b.forward), sizes[b]) for b in at.pop(path.end, [])]
        steps = [step for step, size in sides if step != back or size > 1]
        texts = step_texts(kg, steps)
        ranked = rank_relations(
            question,
            [(str(i), texts[s]) for i, s in enumerate(steps)],
            method=context.ranking,
            encoder=encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            vectors=None if store is None else lambda words: store.vectors(words, encoder),
        )
        ways.append([steps[int(i)] for i in ranked])
    return ways, trouble


def facts_ahead(paths: Sequence[Path], seed: int, context: Context) -> tuple[list[list[Hop]], str]:
    """Return the facts behind the relation ahead of each path; and what is missing, in words.

    Nodes that the path has been at are left out. Where a relation has more than `ENTITIES` facts a sample is
    drawn, the same for the same seed from every engine. All paths are read in one query for each twenty
    relations.
    """
    kg = environment(context).kg
    bundles = [Bundle(p.end, p.ahead.relation, p.ahead.forward) for p in paths if p.ahead is not None]
    # One more than is shown, for the way back may be among them; the size is not known, so all are sampled.
    facts, trouble = read_bundles(
        kg,
        dict.fromkeys(bundles, ENTITIES + 1),
        dict.fromkeys(bundles, ENTITIES + 2),
        seed,
        Deadline(kg.timeout),
    )
    behind: dict[Bundle, list[Hop]] = {b: [] for b in bundles}
    for fact in facts:
        behind[fact.bundle].append(Hop(fact.triple, fact.forward))
    return [
        [h for h in behind[bundle] if far_end(h) not in path.nodes][:ENTITIES]
        for path, bundle in zip(paths, bundles, strict=True)
    ], trouble
