"""Questions with answers, all that self-learning is given, and what an answer is worth (SymAgent 4.3)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.overlap import overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.planning.seeds import question_parts


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold answers. `entities`: mention -> id, or None to have it linked."""

    id: str
    question: str
    entities: Mapping[str, str | None]
    answers: tuple[str, ...]

    def attempt(self, **values: Any) -> Trajectory:
        """Return an attempt at it that found nothing, with further attributes of a `Trajectory`."""
        entities = {mention: node for mention, node in self.entities.items() if node}
        return Trajectory(self.id, self.question, self.answers, entities, **values)


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a JSON-lines file (plain or .gz), with lines as `question_parts` reads them.

    A line without an `id` is named by its number. Questions without answers are left out. Raises `DataError`
    where a line is not such a record, an id occurs twice, or no question has answers.
    """
    questions: dict[str, Question] = {}
    for number, record in json_lines(path):
        id_ = str(record.get("id", f"line-{number}"))
        question = Question(id_, *question_parts(record, path, number))
        if id_ in questions:
            raise DataError(f"the id {id_!r} stands twice; give every question its own", path, number)
        if question.answers:
            questions[id_] = question
    if not questions:
        raise DataError("holds no question with answers", path)
    return list(questions.values())


def split(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Questions to learn from, and a seeded random share held out for validation, both in file order.

    Raises `ConfigurationError` where the share leaves nothing on either side.
    """
    count = max(round(len(questions) * share), 1) if share > 0 else 0
    if not 0 < count < len(questions):
        raise ConfigurationError(
            f"a validation share of {share:g} of {len(questions)} questions leaves nothing on one side; "
            "give another share, or a file of validation questions"
        )
    held = set(random.Random(seed).sample(range(len(questions)), count))
    learned = [q for i, q in enumerate(questions) if i not in held]
    return learned, [q for i, q in enumerate(questions) if i in held]


class Reward(NamedTuple):
    """Recall (the reward of equation 6) and F1 of an attempt's answers, and these in the gold ones' form."""

    recall: float
    f1: float
    predicted: tuple[str, ...]


def short_answers(kg: KnowledgeGraph, answers: Sequence[str]) -> list[str]:
    """Return gold answers with full IRIs in the short form that the agent answers in."""
    return [kg.profile.short(IRI(a)) if a.startswith(("http://", "https://")) else a for a in answers]


def reward_of(values: Sequence[str], labels: Sequence[str], gold: Sequence[str]) -> Reward:
    """Compare answers (ids or literals, and their names in the same order) with gold ones of one form."""
    if not gold:
        return Reward(0.0, 0.0, tuple(values))
    by_id, by_name = overlap(values, gold), overlap(labels, gold, "names")
    best, predicted = (by_name, labels) if by_name.f1 > by_id.f1 else (by_id, values)
    return Reward(best.recall, best.f1, tuple(predicted))
