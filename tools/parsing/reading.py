"""Readings of a question: query programs over a KG, best first, each with how sure its answer is.

Everything that understands a question without a model meets here: the index of the graph, grounding, the chart,
weights and confidence.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import NamedTuple

from triplewise.tools.core.errors import ActionError, DataError
from triplewise.tools.core.files import read_text
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.open import is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.linker import LinkedEntity, candidate_nodes
from triplewise.tools.parsing import learn
from triplewise.tools.parsing.chart import Candidate, Parser
from triplewise.tools.parsing.confidence import Calibration, calibration_for, trust_features
from triplewise.tools.parsing.denotation import Denotation, members
from triplewise.tools.parsing.grammar import PRIORS
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.learn import shares, shipped_weights
from triplewise.tools.parsing.program import compile_query, describe
from triplewise.tools.parsing.query import Image, Nodes, Query
from triplewise.tools.parsing.question import Question
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder

VALUES = 100
"""Answers of a reading that are kept with it."""
WORDS = "the words of the question"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a question, as a query program. JSON-able: it is kept in LangGraph's state.

    Attributes:
        program: PyQL, one action a line (`PyQL.parse` reads it back).
        text: the program in words, in one line.
        score: log-linear score of its derivation: readings of one question can be compared.
        confidence: calibrated probability that its answer is exactly right, in [0, 1].
        provenance: where it comes from, in words ("the words of the question", "2 seed questions").
        values: its answers, at most `VALUES`, as ids and literals ("true" or "false" for yes or no).
        uncovered: words of the question that became nothing.
        nearest: labels of the relations of the graph that are nearest to the uncovered words.
        missing: in words, a fact that is asked for and that the graph lacks.
        features: what the confidence was computed from.
    """

    program: str
    text: str
    score: float
    confidence: float
    provenance: str = WORDS
    values: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    missing: str = ""
    features: Mapping[str, float] = field(default_factory=dict)


class Parse(NamedTuple):
    """A grounded question and its derivations, best first."""

    question: Question
    candidates: list[Candidate]


def derive(
    question: str,
    kg: KnowledgeGraph,
    encoder: Encoder,
    linked: Mapping[str, str] | None = None,
    seeds: object = None,
    weights: Mapping[str, float] | None = None,
) -> Parse:
    """Return all derivations of a question over a KG that the beam leaves.

    Args:
        linked: mention -> id of the entities that the question names, where the caller says so; None: found.
        seeds: the seed questions whose chains are derivations too.
        weights: of features; None: the graph's own, else those that come with the package.
    """
    index = index_for(kg, encoder, question, partial(_named_nodes, question, kg, encoder, linked))
    given = None if linked is None else [LinkedEntity(name, -1, -1, id_, name, 1.0) for name, id_ in linked.items()]
    grounded = ground(question, index, linked=given)
    parser = Parser(weights_for(kg) if weights is None else weights)
    return Parse(grounded, parser.read(grounded))


def _named_nodes(
    question: str, kg: KnowledgeGraph, encoder: Encoder, given: Mapping[str, str] | None
) -> Iterable[IRI]:
    """Return the nodes that a question may name, the likeliest first."""
    if given is None:
        return candidate_nodes(question, kg, encoder)
    return [iri for id_ in given.values() if (iri := kg.profile.expand(id_)) is not None]


def read_question(
    question: str,
    kg: KnowledgeGraph,
    encoder: Encoder,
    linked: Mapping[str, str] | None = None,
    seeds: object = None,
    most: int = 5,
) -> tuple[Reading, ...]:
    """Return the readings of a question over a KG, best first, one for each distinct answer; () for none.

    One without values, whose fact the graph lacks, is a reading like others: `missing` names the fact.

    Args:
        linked, seeds: see `derive`. most: readings returned.
    """
    grounded, candidates = derive(question, kg, encoder, linked, seeds)
    calibration = _calibration(kg)
    ranked = shares([c.score for c in candidates], [c.answer for c in candidates])
    features = [c.features for c in candidates]
    of_answer = defaultdict[Hashable, list[Candidate]](list)
    for candidate in candidates:
        of_answer[candidate.answer].append(candidate)
    readings: list[Reading] = []
    for place, share in enumerate(ranked):
        if len(readings) == most or (kg.deadline is not None and kg.deadline.passed):
            break
        alike = sorted(of_answer[candidates[share.best].answer], key=lambda c: -c.score)
        evidence = trust_features(features, ranked, place)
        confidence = share.probability if calibration is None else calibration.probability(evidence)
        readings += _first_written(grounded, alike, kg, evidence, confidence)
    return tuple(readings)


def _first_written(
    question: Question,
    candidates: Sequence[Candidate],
    kg: KnowledgeGraph,
    evidence: Mapping[str, float],
    confidence: float,
) -> list[Reading]:
    """Return the reading of the first of some derivations that PyQL has a program for."""
    index = question.index
    for candidate in candidates:
        try:
            program = compile_query(candidate.query, index, kg.profile)
        except ActionError:
            continue
        uncovered = question.uncovered(candidate.derivation)
        reading = Reading(
            program.text(kg.profile),
            describe(program, Labels(candidate.query, index, kg)),
            candidate.score,
            confidence,
            _provenance(evidence),
            _values(candidate.answer, index),
            uncovered,
            question.nearest(uncovered) if uncovered else (),
            "" if candidate.answer or isinstance(candidate.answer, bool | float) else _missing(candidate.query, index),
            dict(evidence),
        )
        return [reading]
    return []


def _provenance(evidence: Mapping[str, float]) -> str:
    count = round(evidence.get("seed_support", 0.0))
    return f"{count} seed question{'s' if count > 1 else ''}" if count else WORDS


def _values(answer: Denotation, index: GraphIndex) -> tuple[str, ...]:
    """Return an answer as ids and literals."""
    if isinstance(answer, bool):
        return (str(answer).lower(),)
    if isinstance(answer, float):
        return (str(int(answer)) if answer.is_integer() else repr(answer),)
    terms = [index.terms[n] for n in sorted(n for n in answer if isinstance(n, int))[:VALUES]]
    return tuple(map(index.profile.short, terms))


def _missing(query: Query, index: GraphIndex) -> str:
    """Return in words which fact is missing where a query finds nothing; "" where that is no single fact."""
    for part in _parts(query):
        if isinstance(part, Image) and isinstance(part.of, Nodes) and not members(part, index):
            relation, direction = part.path[0]
            names = index.rels[relation].names if direction > 0 else index.rels[relation].inverse
            name = (names or index.rels[relation].names)[0]
            return f"{index.label(min(part.of.nodes))} has no {name} in the graph"
    return ""


def _parts(tree: object) -> Iterator[object]:
    """Return a query tree and all trees inside it."""
    if is_dataclass(tree):
        yield tree
        for part in fields(tree):
            yield from _parts(getattr(tree, part.name))


class Labels:
    """Labels of what a query names: of nodes and classes as the index knows them, of relations as people see them."""

    def __init__(self, query: Query, index: GraphIndex, kg: KnowledgeGraph) -> None:
        self._kg, self._nodes = kg, dict[Term, str]()
        for part in _parts(query):
            if isinstance(part, Nodes):
                self._nodes |= {index.terms[n]: index.label(n) for n in part.nodes}
        self._classes = {c.iri: c.names[0] for c in index.classes if c.iri is not None and c.names}

    def __call__(self, iri: IRI) -> str:
        """The label of a node, class or relation."""
        if (known := self._nodes.get(iri)) or (known := self._classes.get(iri)):
            return known
        short = self._kg.profile.short(iri)
        return relation_texts(self._kg, [short])[short].label


def _calibration(kg: KnowledgeGraph) -> Calibration | None:
    try:
        return calibration_for(kg)
    except FileNotFoundError:  # until it is trained
        return None


def weights_for(kg: KnowledgeGraph) -> Mapping[str, float]:
    """Return the weights of a graph that has its own beside its profile, else those of the package."""
    folder = next((folder for folder in kg.cache_dirs if is_store(folder)), None)
    if folder is None or not (path := folder / learn.FILE).is_file():
        try:
            return shipped_weights()
        except FileNotFoundError:  # until they are trained
            return {**learn.PRIOR, **PRIORS}
    try:
        return {**shipped_weights(), **{str(k): float(v) for k, v in json.loads(read_text(path)).items()}}
    except (ValueError, AttributeError, TypeError) as error:
        raise DataError(f"no weights of features ({error})", path) from error
