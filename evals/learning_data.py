"""The questions of the learning benchmark: training questions with answers, test questions of the tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from triplewise.evals.data import DataFile, Record, locate, read_records
from triplewise.evals.tasks.webqsp import webqsp
from triplewise.evals.tasks.wikiwebquestions import entities_of, wikiwebquestions
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.terms import IRI, Term
from triplewise.tools.learning.questions import Question

Name = Literal["webqsp", "wikiwebquestions"]
NAMES: tuple[Name, ...] = ("webqsp", "wikiwebquestions")
_TRAIN = {
    "webqsp": "webqsp/train_questions.jsonl.gz",
    "wikiwebquestions": "wikiwebquestions/train_dev.jsonl.gz",
}
_MID = re.compile(r"<http://rdf\.freebase\.com/ns/([mg]\.\w+)>")
_STOP = frozenset(("the", "of", "and", "in", "a", "is", "what", "who"))
_WORD = re.compile(r"[^\W_]+")
ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Tested:
    """A test question with its gold answer sets: the best one counts."""

    question: Question
    gold_sets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TestSet:
    """The questions of one test and the graph they are asked of."""

    kg: str
    profile: str
    questions: tuple[Tested, ...]


def test_set(name: Name, gold_derived: bool) -> TestSet:
    """Test questions that the graph answers exactly, entities given, in the task's random order."""
    make = webqsp if name == "webqsp" else wikiwebquestions
    task = make(kg_exact=True, gold_derived=gold_derived, n=0)
    questions = []
    for sample in task.dataset:
        found: dict[str, Any] = sample.metadata or {}
        target = [sample.target] if isinstance(sample.target, str) else sample.target
        sets = tuple(tuple(map(str, s)) for s in found.get("gold_sets") or [target])
        question = Question(str(sample.id), str(sample.input), found["entities"], sets[0])
        questions.append(Tested(question, sets))
    settings = (task.metadata or {})["kg_profile"]
    return TestSet(_path_of(name, gold_derived), str(settings), tuple(questions))


def _path_of(name: Name, gold_derived: bool) -> str:
    """The folder of the graph that the task loaded."""
    from triplewise.evals.data import benchmark, graph
    from triplewise.evals.kgs import prepared

    own = graph(benchmark(name).graph)
    return prepared(own, [p for p in own.facts if gold_derived or p != "gold_derived"]).path


def training_questions(name: Name, kg: KnowledgeGraph) -> list[Question]:
    """Training questions whose answers the graph holds, with the entities that their gold query names.

    Where the file has no answers, the training question's gold query is run on the graph, and what it finds
    is the answer. Nothing else is taken from the query: not its relations, not its shape.

    Raises:
        DataError: a missing or broken file.
    """
    file = locate(DataFile(_TRAIN[name], "", "the benchmark's own site"))
    found: dict[str, Question] = {}
    for record in read_records(file, "id", "question"):
        sparql = str(record.get("sparql11") or record.get("sparql") or "")
        given = [str(a) for a in record.get("answers") or [] if a is not None]
        answers = (given or _answers(kg, sparql)) if sparql else []
        entities = dict(_entities(record, sparql, kg)) if answers else {}
        if entities:
            question = Question(record["id"], record["question"], entities, tuple(answers))
            found.setdefault(question.id, question)
    return list(found.values())


def _answers(kg: KnowledgeGraph, sparql: str) -> list[str]:
    """What a training question's query finds on the graph."""
    result = kg.query(sparql, limit=ROWS)
    if not result.rows:
        return []
    return list(dict.fromkeys(_text(kg, v) for v in result.column(result.variables[0])))


def _text(kg: KnowledgeGraph, value: Term) -> str:
    return kg.profile.short(value) if isinstance(value, IRI) else str(getattr(value, "value", value))


def _entities(record: Record, sparql: str, kg: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Mention and id of the topic entities: those of the query that the graph has and the question names."""
    ids = entities_of(sparql) or tuple(dict.fromkeys(_MID.findall(sparql)))[:1]
    for short in ids:
        iri = kg.profile.expand(short)
        if iri is None:
            continue
        around = kg.relations(iri)
        mention = mention_of(record["question"], kg.labels([iri]).get(iri, ""))
        if mention and (around.forward or around.backward):
            yield mention, short


def mention_of(question: str, name: str) -> str:
    """The words of a question that name something: its name, or the longest run of words like its own."""
    at = question.casefold().find(name.casefold()) if name else -1
    if at >= 0:
        return question[at : at + len(name)]
    own = [w.casefold() for w in _WORD.findall(name)]
    best, run = (0, 0), (0, 0)
    for match in _WORD.finditer(question):
        word = match.group().casefold()
        if any(_alike(word, o) for o in own) and (run[1] > run[0] or word not in _STOP):
            run = (run[0] if run[1] > run[0] else match.start(), match.end())
            best = max(best, run, key=lambda r: r[1] - r[0])
        else:
            run = (0, 0)
    return question[best[0] : best[1]]


def _alike(word: str, other: str) -> bool:
    """Whether words are the same but for an ending ("jamaican", "Jamaica")."""
    return word == other or (min(len(word), len(other)) > 3 and word[:4] == other[:4])
