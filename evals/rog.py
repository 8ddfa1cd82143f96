"""A reader in the manner of RoG on a graph before and after facts are added to it (SymAgent, figure 4).

RoG plans relation paths for a question, retrieves what lies on them in the graph, and answers from that
alone: no documents, no further look where a path ends. Here the paths come from mined seed questions in place
of a language model, and the ends of the retrieved paths are weighed by the paths' scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

from triplewise.evals.data import Record
from triplewise.evals.values import NOTHING, Overlap, best_overlap, normal_text
from triplewise.nodes.context import Context
from triplewise.nodes.resources import encoder_of, kg_of, seeds_of
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.oxterms import from_ox
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import link, without_brackets
from triplewise.tools.planning.bodies import answers
from triplewise.tools.planning.lexical.planner import seed_rules
from triplewise.tools.planning.lexical.search import PlanSettings

PLANS = 3
"""Relation paths that are retrieved for a question, as many as RoG's beam keeps."""
LEAST = 0.5
"""An end is an answer if it has at least this share of the votes of the best one."""


def plans(
    question: str, entities: Mapping[str, str | None], kg: KnowledgeGraph, context: Context
) -> list[Rule]:
    """The likeliest relation paths of a question, planned without a look at whether they lead anywhere.

    Args:
        question: without marks around its entity. entities: mention -> id. kg: where entities are linked.
        context: names the seed questions and the encoder.
    """
    encoder, seeds = encoder_of(context), seeds_of(context)
    linked = link(question, kg, given=entities, encoder=encoder)
    if seeds is None or not linked:
        return []
    rules = seed_rules(question, linked, kg, encoder, seeds, PlanSettings())
    return sorted(rules, key=lambda r: -r.score)[:PLANS]


def retrieved(kg: KnowledgeGraph, rules: Sequence[Rule]) -> list[Term]:
    """The ends of the paths that a graph has for some plans, most votes first; a plan's vote is its score."""
    votes: dict[Term, float] = defaultdict(float)
    for rule in rules:
        for end in answers(kg, rule):
            votes[end] += rule.score
    least = LEAST * max(votes.values(), default=0.0)
    return sorted((e for e in votes if votes[e] >= least), key=lambda e: -votes[e])


@dataclass(slots=True)
class RogReader:
    """Answers questions from the paths of one graph.

    Attributes:
        context: names the graph that paths are planned on, with its seeds. graph: where they are retrieved.
        said: what it answered, question by question.
    """

    context: Context
    graph: KnowledgeGraph
    said: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, record: Record, entities: Mapping[str, str | None]) -> tuple[Sequence[str], bool]:
        """The labels of the answers to a question, and whether there are any."""
        question = without_brackets(record["question"])
        found = retrieved(self.graph, plans(question, entities, kg_of(self.context), self.context))
        names = self.graph.labels(found)
        labels = tuple(names.get(t) or self.graph.profile.short(t) for t in found)
        self.said.append(labels)
        return labels, bool(labels)


@dataclass(frozen=True, slots=True)
class Change:
    """What the added facts changed.

    Attributes:
        gained, lost: questions whose first answer is right only after, only before. kept: right in both.
        better, worse, same: questions by the F1 of their answers.
        answers_gained, answers_lost: right answers that are found only after, only before.
        wrong_gained, wrong_lost: wrong ones, likewise.
    """

    gained: int = 0
    lost: int = 0
    kept: int = 0
    better: int = 0
    worse: int = 0
    same: int = 0
    answers_gained: int = 0
    answers_lost: int = 0
    wrong_gained: int = 0
    wrong_lost: int = 0


def changed(
    before: Sequence[Sequence[str]], after: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> Change:
    """Compare the answers to the same questions, one entry each.

    Raises:
        ValueError: they are not equally many.
    """
    told: dict[str, int] = defaultdict(int)
    for old, new, right in zip(before, after, gold, strict=True):
        was, now = _score(old, right), _score(new, right)
        told["gained"] += now.hits_at_1 > was.hits_at_1
        told["lost"] += now.hits_at_1 < was.hits_at_1
        told["kept"] += bool(now.hits_at_1 and was.hits_at_1)
        told["better" if now.f1 > was.f1 else "worse" if now.f1 < was.f1 else "same"] += 1
        said, says, wanted = (set(map(normal_text, x)) for x in (old, new, right))
        told["answers_gained"] += len((says - said) & wanted)
        told["answers_lost"] += len((said - says) & wanted)
        told["wrong_gained"] += len(says - said - wanted)
        told["wrong_lost"] += len(said - says - wanted)
    return Change(**told)


def _score(labels: Sequence[str], gold: Sequence[str]) -> Overlap:
    """How the answers to one question agree with the right ones."""
    return best_overlap(labels, [gold], "names") if labels else NOTHING


@dataclass(frozen=True, slots=True)
class Extraction:
    """How good extracted triples are.

    Attributes:
        facts: different triples. right: those that were dropped from the graph. dropped: all that were.
        minted: those about a node that the graph does not have.
    """

    facts: int
    right: int
    dropped: int
    minted: int

    @property
    def precision(self) -> float:
        """Share of the triples that were dropped from the graph; 0 without any."""
        return self.right / self.facts if self.facts else 0.0


def judged(facts: Sequence[ExtractedFact], dropped_file: Path) -> Extraction:
    """Compare extracted triples with what was dropped, which nothing but this scoring may see.

    Args:
        facts: extracted ones. dropped_file: N-Triples.

    Raises:
        OSError: there is no such file.
    """
    dropped = _triples(dropped_file)
    triples = {f.triple for f in facts}
    minted = {f.triple for f in facts if f.labels}
    return Extraction(len(triples), len(triples & dropped), len(dropped), len(minted))


def _triples(file: Path) -> set[Triple]:
    """The triples of a file of N-Triples."""
    parsed = ox.parse(file.read_text("utf-8"), format=ox.RdfFormat.N_TRIPLES)
    terms = ((from_ox(q.subject), from_ox(q.predicate), from_ox(q.object)) for q in parsed)
    return {
        Triple(s, p, o) for s, p, o in terms if isinstance(s, IRI) and isinstance(p, IRI) and o is not None
    }
