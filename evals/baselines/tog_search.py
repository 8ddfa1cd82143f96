"""What Think-on-Graph looks up around the ends of its paths (section 2.1.2, "search").

Relations of all ends come in one query, with the number of facts of each; facts of all chosen relations in
another, at most so many of each, drawn by a seed. The published code asks once for every entity, direction
and label, and draws without a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from triplewise.evals.baselines.paths import Path, Step, step_texts
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.frontier import Bundle, bundle_sizes, read_bundles
from triplewise.tools.kg.protocol import Hop
from triplewise.tools.retrieval.relation_ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

ENTITIES = 20
"""Entities looked at behind one relation, as many as the published code shows before it samples."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a search found: for each path, in order, the ways on; and what is missing, in words."""

    ways: tuple[tuple[Step, ...], ...]
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Reached:
    """The facts behind the relation ahead of each path, in order; and what is missing, in words."""

    hops: tuple[tuple[Hop, ...], ...]
    trouble: str = ""


def relations_around(paths: Sequence[Path], question: str, context: Context) -> Around:
    """The relations by which paths may go on, both directions (relation search).

    Paths with one end share its relations: the best of them takes all, the others get none. Where an end has
    more than `relation_cut` relations those most like the question are taken, so that no hub floods a prompt.
    """
    kg = environment(context).kg
    ends = list(dict.fromkeys(p.end for p in paths))
    sizes, trouble = bundle_sizes(kg, ends, "both", Deadline(kg.timeout))
    at: dict[Term, list[Bundle]] = {}
    for bundle in sorted(sizes, key=lambda b: b.place):
        at.setdefault(bundle.node, []).append(bundle)
    ways, taken = [], set[Term]()
    for path in paths:
        offered = [] if path.end in taken else at.get(path.end, [])
        steps = [Step(b.relation, b.forward) for b in offered if not _returns(path, b, sizes)]
        ways.append(tuple(_cut(kg, steps, question, context)))
        taken.add(path.end)
    return Around(tuple(ways), trouble)


def _returns(path: Path, bundle: Bundle, sizes: Mapping[Bundle, int]) -> bool:
    """Whether the only fact of a relation is the one the path has just come over."""
    if not path.hops or sizes[bundle] > 1:
        return False
    last = path.hops[-1]
    return last.triple.relation == bundle.relation and last.forward != bundle.forward


def _cut(kg: KnowledgeGraph, steps: Sequence[Step], question: str, context: Context) -> list[Step]:
    """As many relations as may be offered at once, those most like the question first."""
    texts, encoder = step_texts(kg, steps), environment(context).ranking_encoder

    def vectors(wanted: Sequence[str]) -> np.ndarray:
        assert encoder is not None, "no vectors are asked for where nothing ranks by them"
        return vectors_of(kg, encoder).vectors(wanted, encoder)

    kept = rank_relations(
        question,
        [(str(i), texts[s]) for i, s in enumerate(steps)],
        method=context.ranking,
        encoder=encoder,
        cut=context.relation_cut,
        shuffle_seed=context.shuffle_seed,
        vectors=vectors,
    )
    return [steps[int(i)] for i in kept]


def facts_ahead(paths: Sequence[Path], seed: int, context: Context) -> Reached:
    """The facts behind the relation ahead of each path, without nodes that it has been at (entity search).

    Where a relation has more than `ENTITIES` of them a sample is drawn, the same for the same seed from every
    engine. All paths are read in one query for each twenty relations.
    """
    kg = environment(context).kg
    bundles = [Bundle(p.end, p.ahead.relation, p.ahead.forward) for p in paths if p.ahead is not None]
    # One more than is shown, for the way back may be among them; the size is not known, so all are sampled.
    wanted = dict.fromkeys(bundles, ENTITIES + 1)
    found, trouble = read_bundles(
        kg, wanted, {b: n + 1 for b, n in wanted.items()}, seed, Deadline(kg.timeout)
    )
    behind: dict[Bundle, list[Hop]] = {b: [] for b in bundles}
    for fact in found:
        behind[fact.bundle].append(Hop(fact.triple, fact.forward))
    kept = (
        [h for h in behind[bundle] if _far(h) not in path.nodes][:ENTITIES]
        for path, bundle in zip(paths, bundles, strict=True)
    )
    return Reached(tuple(tuple(hops) for hops in kept), trouble)


def _far(hop: Hop) -> Term:
    """The end that a hop leads to."""
    return hop.triple.object if hop.forward else hop.triple.subject
