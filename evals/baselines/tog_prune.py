"""How Think-on-Graph chooses among what it found (section 2.1.2, "prune"): by the model, or by likeness.

The model scores the options of one path a call, as in the paper: at most N calls for relations and N for
entities at each depth. A reply without any readable score is no reason to stop or to ask for ever: the
encoder's likeness decides then, and the step says so. The published code retries without end where the server
fails, and stops exploring where it cannot read a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from triplewise.evals.baselines.asking import Asker
from triplewise.evals.baselines.paths import (
    UNNAMED,
    Path,
    Step,
    chain_texts,
    node_texts,
    path_lines,
    step_texts,
)
from triplewise.evals.baselines.scores import read_scores
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.tools.kg.protocol import Hop
from triplewise.tools.planning.lexical.question import MENTION, masked
from triplewise.tools.retrieval.observation.ranker import PairRanker

UNREAD = "the reply had no readable score: the encoder's likeness decided"
"""What a step says where a model's reply could not be used."""
NEXT = 0.8
"""What the next likeliest entity behind a relation scores, as a share of the one before it."""
LEAST = 1e-6
"""Likeness of a chain that is not like the question at all: still better than no way on."""


class Pruner(Protocol):
    """Scores the ways on from a path; 0 leaves a way out.

    Attributes:
        notes: what a reader of the step has to know.
    """

    notes: list[str]

    @property
    def over(self) -> str:
        """The budget that ran out meanwhile, in words; what was not asked for has score 0."""
        ...

    def relations(self, path: Path, ways: Sequence[Step]) -> list[float]:
        """Scores of the path with each relation to go on over."""
        ...

    def entities(self, path: Path, hops: Sequence[Hop]) -> list[float]:
        """Scores of the path longer by each fact."""
        ...


@dataclass(slots=True)
class LikenessPruner:
    """Prunes by the cosine of the question with chains, and with "relation entity" among those of one chain.

    Our stand-in for the model: a path's score is how like the question its chain of relations is, without the
    question's own entities. Every text's vector is kept with the KG.

    Attributes:
        width: entities kept behind one relation.
    """

    state: State
    context: Context
    width: int
    over: str = ""
    notes: list[str] = field(default_factory=list)

    def relations(self, path: Path, ways: Sequence[Step]) -> list[float]:
        """The likeness of each longer chain, `LEAST` at least."""
        texts = chain_texts(environment(self.context).kg, [path.toward(way, 0.0) for way in ways])
        return [max(float(s), LEAST) for s in self._ranker().closeness(texts)] if texts else []

    def entities(self, path: Path, hops: Sequence[Hop]) -> list[float]:
        """The chain's likeness for the likeliest entity, less for each next one; 0 for those not kept.

        Less, so that a beam is not filled with the entities of one chain.
        """
        kg = environment(self.context).kg
        ends = [path.over(hop, 0.0).end for hop in hops]
        names, step = node_texts(kg, ends), path.ahead
        assert step is not None, "facts lie behind a relation"
        pairs = [(step_texts(kg, [step])[step], names[end]) for end in ends]
        best = self._ranker().best(pairs, self.width)
        scores = [0.0] * len(hops)
        for rank, (place, _) in enumerate(best):
            scores[place] = path.score * NEXT**rank
        return scores

    def _ranker(self) -> PairRanker:
        """Ranks by the question without the names of its entities, which are like everything around them."""
        spans = [(e.start, e.end) for e in self.state.linked if e.start >= 0]
        words = masked(self.state.question, spans).split()
        asked = " ".join(w for w in words if w != MENTION) or self.state.question
        return PairRanker(environment(self.context).kg, asked, environment(self.context).encoder)


@dataclass(slots=True)
class ModelPruner:
    """Prunes by the scores of a model.

    Attributes:
        asker: asks it. fallback: decides where a reply has no score. width: options the model is to name.
    """

    asker: Asker
    fallback: LikenessPruner
    width: int
    notes: list[str] = field(default_factory=list)

    @property
    def over(self) -> str:
        """The budget that is spent, in words."""
        return self.asker.over

    def relations(self, path: Path, ways: Sequence[Step]) -> list[float]:
        """The path's score times that of each relation."""
        kg = environment(self.asker.context).kg
        texts = step_texts(kg, ways)
        longer = [path.toward(way, 0.0) for way in ways]
        tails = [Path(p.end, (), p.ahead) for p in longer]
        names = [(texts[w], kg.profile.short(w.relation), f"^{kg.profile.short(w.relation)}") for w in ways]
        scores = self._asked("relations", path, path_lines(kg, tails), names)
        return scores if scores is not None else self._by_likeness(self.fallback.relations(path, ways), path)

    def entities(self, path: Path, hops: Sequence[Hop]) -> list[float]:
        """The path's score times that of each entity; not asked where there is nothing to tell apart."""
        kg = environment(self.asker.context).kg
        ends = [path.over(hop, 0.0).end for hop in hops]
        names = node_texts(kg, ends)
        if len(hops) == 1 or all(names[e] == UNNAMED for e in ends):
            return [path.score / len(hops)] * len(hops)
        known = [(names[e], kg.profile.short(e)) for e in ends]
        scores = self._asked("entities", path, [names[e] for e in ends], known)
        return scores if scores is not None else self._by_likeness(self.fallback.entities(path, hops), path)

    def _asked(
        self, part: str, path: Path, options: Sequence[str], names: Sequence[tuple[str, ...]]
    ) -> list[float] | None:
        """The scores of a reply for all options; None where it has none."""
        if not options:
            return []
        line = path_lines(environment(self.asker.context).kg, [path])[0]
        reply = self.asker.ask(part, path=line, options=list(options), limit=self.width)
        if reply is None:
            return [0.0] * len(options)
        said = read_scores(reply, names)
        return [path.score * said.get(i, 0.0) for i in range(len(options))] if said else None

    def _by_likeness(self, likeness: Sequence[float], path: Path) -> list[float]:
        """The likeliest options, on the scale of a model's scores."""
        self.notes.append(UNREAD)
        kept = sorted(range(len(likeness)), key=lambda i: -likeness[i])[: self.width]
        total = sum(likeness[i] for i in kept) or 1.0
        return [path.score * likeness[i] / total if i in kept else 0.0 for i in range(len(likeness))]
