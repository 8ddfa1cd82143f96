"""The questions of the learning benchmark: training questions with answers, test questions of the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from triplewise.evals import training
from triplewise.evals.data import benchmark, graph, locate
from triplewise.evals.kgs import prepared
from triplewise.evals.tasks.webqsp import webqsp
from triplewise.evals.tasks.wikiwebquestions import wikiwebquestions
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.questions import Question

Name = Literal["webqsp", "wikiwebquestions"]
NAMES: tuple[Name, ...] = ("webqsp", "wikiwebquestions")


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
    own = graph(benchmark(name).graph)
    return prepared(own, [p for p in own.facts if gold_derived or p != "gold_derived"]).path


def training_questions(name: Name, kg: KnowledgeGraph) -> list[Question]:
    """Training questions whose answers the graph holds, each with one topic entity of Freebase."""
    (file,) = benchmark(name).seeds.values()
    return training.training_questions(locate(file), kg, topics=1)
