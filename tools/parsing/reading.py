"""Readings of a question: query programs over a KG, best first, each with how sure its answer is.

Everything that understands a question without a model meets here: the index of the graph, grounding, chains,
the chart, weights and confidence.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.framing import asked_parts
from triplewise.tools.language.text import singular
from triplewise.tools.linking.linker import LinkedEntity, candidate_nodes, link
from triplewise.tools.parsing.chains import Seeds, chain_anchors
from triplewise.tools.parsing.chart import Candidate, Parser
from triplewise.tools.parsing.confidence import SUMS, calibration_for, trust_features
from triplewise.tools.parsing.denotation import members
from triplewise.tools.parsing.derivation import Features, f
from triplewise.tools.parsing.follow_up import PROVENANCE, Turn, leans_on, write_tree
from triplewise.tools.parsing.grounding import context_turns, ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.learn import shares, weights_for
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.program import compile_query
from triplewise.tools.parsing.query import Image, Nodes, Query, parts_of
from triplewise.tools.parsing.question import Question
from triplewise.tools.parsing.vocabulary import Vocabulary
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.words import describe
from triplewise.tools.retrieval.encoder import Encoder

FEW = 3  # answers of a question before that are looked around in a large graph
VALUES = 100  # Answers of a reading that are kept with it
WORDS = "the words of the question"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a question, as a query program. JSON-able: it is kept in LangGraph's state."""

    program: str  # PyQL, one action a line (`PyQL.parse` reads it back)
    text: str  # the program in words, in one line
    score: float  # log-linear: readings of one question can be compared
    confidence: float  # calibrated probability that its answer is exactly right
    provenance: str = WORDS  # where it comes from, in words ("2 seed questions")
    values: tuple[str, ...] = ()  # its answers, at most `VALUES`, as ids and literals ("true" or "false")
    uncovered: tuple[str, ...] = ()  # words of the question that became nothing
    nearest: tuple[str, ...] = ()  # labels of the relations that are nearest to them
    missing: str = ""  # in words, a fact that would answer and that the graph lacks
    features: Mapping[str, float] = field(default_factory=dict)  # what the confidence was computed from
    tree: str = ""  # what later questions lean on, see `follow_up`

    def has_answer(self, values: Collection[str]) -> bool:
        """Whether values are its answer; of a longer one than is kept, whether they hold all that is kept."""
        own, others = {*self.values}, {*values}
        return own == others or (len(own) == VALUES < len(others) and own <= others)


def derive(
    question: str,
    kg: KnowledgeGraph,
    encoder: Encoder,
    linked: Mapping[str, str | None] | None = None,
    seeds: Seeds | None = None,
    weights: Mapping[str, float] | None = None,
    turns: Sequence[Turn] = (),
) -> tuple[Question, list[Candidate]]:
    """Return what a text asks, grounded over a KG, and all derivations that the beam leaves, best first.

    `linked`: mention -> id (None: to be found) of the entities that the caller names; None: all are found.
    The chains of similar `seeds` are derivations too. Without `weights`, those for the graph count.
    `turns`: the questions before it, newest first, that it may lean on.
    """
    given = link(question, kg, linked, encoder) if linked else None if linked is None else ()
    texts = [question, *(turn.question for turn in turns if turn.question)]
    index = index_for(kg, encoder, " ".join(texts), partial(_named, kg, encoder, given, texts, turns))
    parser = Parser(weights_for(kg) if weights is None else weights)
    chains = partial(chain_anchors, kg=kg, encoder=encoder, seeds=seeds)
    found = dict[Query, Candidate]()
    for text, before, aside in _asked(question, index):
        own = link(text, kg, linked, encoder) if linked and text != question else given
        grounded = ground(text, index, own, (*before, *turns))
        for candidate in parser.read(grounded, chains):
            score = candidate.score + parser.score(aside)
            if candidate.query not in found or score > found[candidate.query].score:
                found[candidate.query] = candidate._replace(
                    score=score, features=candidate.features | dict(aside)
                )
    ranked = sorted(found.values(), key=lambda candidate: -candidate.score)
    return ranked[0].question if ranked else grounded, ranked


def _named(
    kg: KnowledgeGraph,
    encoder: Encoder,
    given: Sequence[LinkedEntity] | None,
    texts: Sequence[str],
    turns: Sequence[Turn],
) -> list[IRI]:
    """What to look around in a large graph: the entities given, else those that texts name, and answers."""
    ids = [*(entity.id for entity in given or ()), *(v for turn in turns for v in turn.values[:FEW])]
    known = [iri for id_ in ids if (iri := kg.profile.expand(id_)) is not None]
    if given is None:
        known += (node for text in texts for node in candidate_nodes(text, kg, encoder))
    return known


def _asked(question: str, index: GraphIndex) -> Iterator[tuple[str, list[Turn], Features]]:
    """The parts of a text that may be what it asks, with what they may refer to, and features of what is left
    out; the whole text too where all of them leave out what the graph knows."""
    vocabulary, names, known = Vocabulary.of(index).words, index.named.by_word, list[bool]()
    for part in asked_parts(question):
        before, named = context_turns(part, index)
        forms = [{word, singular(word)} for word in part.context - named]
        of_graph = sum(bool(own & vocabulary or own & names.keys()) for own in forms)
        known.append(of_graph > 0)
        yield part.text, before, f(
            aside_words=math.log1p(len(forms) - of_graph), aside_known=of_graph,
            aside_own=part.is_personal and bool(part.context),
        )  # fmt: skip
    if all(known):
        yield question, [], []


def read_question(
    question: str,
    kg: KnowledgeGraph,
    encoder: Encoder,
    linked: Mapping[str, str | None] | None = None,
    seeds: Seeds | None = None,
    most: int = 5,
    turns: Sequence[Turn] = (),
) -> tuple[Reading, ...]:
    """Return the readings of a question over a KG, best first, one for each distinct answer; () for none.

    One without values, whose fact the graph lacks, is a reading like others: `missing` names the fact.
    """
    asked, candidates = derive(question, kg, encoder, linked, seeds, turns=turns)
    calibration = calibration_for(kg)
    ranked = shares([c.score for c in candidates], [c.answer for c in candidates])
    features = [c.features for c in candidates]
    readings: list[Reading] = []
    for place, share in enumerate(ranked):
        if len(readings) == most or (kg.deadline is not None and kg.deadline.passed):
            break
        if features[share.best].get("answer_named"):
            continue
        evidence = trust_features(features, ranked, place)
        earlier = [turn for turn, _ in candidates[share.best].question.earlier]
        if (turn := leans_on(features[share.best], earlier)) is not None:
            evidence |= {name: evidence[name] + turn.evidence.get(name, 0.0) for name in SUMS}
        left = 1.0 - sum(reading.confidence for reading in readings)
        confidence = min(calibration.probability(evidence), max(left, 0.0))
        alike = (c for c in candidates if c.answer == candidates[share.best].answer)
        written = (_written(candidate, kg, evidence, confidence) for candidate in alike)
        if (reading := next(filter(None, written), None)) is not None:
            readings.append(reading)
    return _with_values(readings, kg) if asked.index.is_part else tuple(readings)


def _with_values(readings: Sequence[Reading], kg: KnowledgeGraph) -> tuple[Reading, ...]:
    """Return readings with what their programs find in the KG itself, one for each distinct answer."""
    programs = [PyQL.parse(reading.program, kg.profile).sparql(kg.profile) for reading in readings]
    results = kg.together([partial(kg.query, sparql, limit=VALUES) for sparql in programs])
    of_values: dict[Hashable, Reading] = {}
    for reading, result in zip(readings, results, strict=True):
        values = reading.values
        if result.outcome.ok:
            column = result.column(result.variables[0]) if result.rows else ()
            values = tuple(map(kg.profile.short, column))
        if result.boolean is not None:
            values = (str(result.boolean).lower(),)
        key: Hashable = frozenset(values) or reading.program
        if (better := of_values.get(key)) is not None:
            of_values[key] = replace(better, confidence=min(better.confidence + reading.confidence, 1.0))
        else:
            of_values[key] = replace(reading, values=values, missing="" if values else reading.missing)
    return tuple(of_values.values())


def _written(
    candidate: Candidate, kg: KnowledgeGraph, evidence: Mapping[str, float], confidence: float
) -> Reading | None:
    """Return a derivation as a reading; None where PyQL has no program for it."""
    question, index, answer = candidate.question, candidate.question.index, candidate.answer
    if (program := program_of(candidate.query, index, kg)) is None:
        return None
    values: tuple[str, ...] = (str(answer).lower(),)
    if isinstance(answer, frozenset):
        nodes = sorted(n for n in answer if isinstance(n, int))[:VALUES]
        values = tuple(index.profile.short(index.terms[n]) for n in nodes)
    elif isinstance(answer, float):
        values = (str(int(answer)) if answer.is_integer() else repr(answer),)
    seeds = round(math.expm1(candidate.features.get("seed_support", 0.0)))  # see `chains`
    uncovered = question.uncovered(candidate.derivation)
    is_earlier = not {"ana", "ell"}.isdisjoint(candidate.features)
    source = f"{seeds} seed question{'s' if seeds > 1 else ''}" if seeds else WORDS
    source = PROVENANCE if is_earlier and not seeds else source
    missing = _missing(candidate.query, index) if answer == frozenset() else ""
    return Reading(
        *program, candidate.score, confidence, source, values, tuple(question.raw[i] for i in uncovered),
        question.nearest(uncovered), missing, dict(evidence), write_tree(candidate.query, index),
    )  # fmt: skip


def _missing(query: Query, index: GraphIndex) -> str:
    """Return in words which fact is missing where a query finds nothing; "" where several may be."""
    for part in parts_of(query):
        if isinstance(part, Image) and isinstance(part.of, Nodes) and not members(part, index):
            relation, direction = part.path[0]
            names = index.rels[relation].names if direction > 0 else index.rels[relation].inverse
            name = (names or index.rels[relation].names)[0]
            return f"{index.label(min(part.of.nodes))} has no {name} in the graph"
    return ""


def program_of(query: Query, index: GraphIndex, kg: KnowledgeGraph) -> tuple[str, str] | None:
    """Return the program of a query tree, and that in words; None where PyQL has none for it.

    Nodes and classes are labelled by the index, relations as readers know them.
    """
    try:
        program = compile_query(query, index, kg.profile)
    except ActionError:
        return None
    if "class names" not in index.kept:
        classes = {c.iri: c.names[0] for c in index.classes if c.iri is not None and c.names}
        index.kept["class names"] = classes
    named = (part.nodes for part in parts_of(query) if isinstance(part, Nodes))
    known: dict[Term, str] = {index.terms[n]: index.label(n) for nodes in named for n in nodes}

    def label(iri: IRI) -> str:
        short, name = kg.profile.short(iri), known.get(iri) or index.kept["class names"].get(iri)
        return name or relation_texts(kg, [short])[short].label

    return program.text(kg.profile), describe(program, label)
