"""Questions with answers, all that self-learning is given, and what an answer is worth (SymAgent 4.3)."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.overlap import overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold answers. `entities`: mention -> id, or None to have it linked."""

    id: str
    question: str
    entities: Mapping[str, str | None]
    answers: tuple[str, ...]


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a JSON-lines file (plain or .gz): `question`, `answers`, and optionally `id`, and
    `entities` or `topic_entity` (a name, a list of names, or a mapping mention -> id).

    Without `id` a question is named by its line. Questions without answers are left out: nothing can be
    learned from them.

    Raises:
        DataError: a line is no such record, an id stands twice, or no question has answers.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = data.decode().split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read questions: {error}", path) from error
    questions: dict[str, Question] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            question = _question(json.loads(line), number)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"not a question ({error!r}); a line needs question and a list of answers, "
                "and may have id and entities",
                path,
                number,
            ) from error
        if question.id in questions:
            raise DataError(f"the id {question.id!r} stands twice; give every question its own", path, number)
        if question.answers:
            questions[question.id] = question
    if not questions:
        raise DataError("holds no question with answers", path)
    return list(questions.values())


def _question(record: Any, number: int) -> Question:
    answers, entities = record["answers"], record.get("entities", record.get("topic_entity"))
    if not isinstance(answers, list):
        raise TypeError(f"answers must be a list, got {answers!r}")
    if not isinstance(entities, Mapping):
        entities = dict.fromkeys([entities] if isinstance(entities, str) else entities or [])
    return Question(
        str(record.get("id", f"line-{number}")),
        str(record["question"]),
        {str(mention): None if id_ is None else str(id_) for mention, id_ in entities.items()},
        # Booleans as the agent writes them.
        tuple(str(a).lower() if isinstance(a, bool) else str(a) for a in answers if a is not None),
    )


def split(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Questions to learn from, and a seeded random share held out for validation, both in file order.

    Raises:
        ConfigurationError: the share leaves nothing on either side.
    """
    count = round(len(questions) * share)
    if not 0 < count < len(questions):
        raise ConfigurationError(
            f"a validation share of {share:g} of {len(questions)} questions leaves nothing on one side; "
            "give another share, or a file of validation questions"
        )
    held = set(random.Random(seed).sample(range(len(questions)), count))
    learned = [q for i, q in enumerate(questions) if i not in held]
    return learned, [q for i, q in enumerate(questions) if i in held]


class Reward(NamedTuple):
    """How good an attempt's answers are, and the answers in the form that the gold ones have.

    `recall` is the reward of equation 6; all numbers are in [0, 1].
    """

    recall: float
    f1: float
    predicted: tuple[str, ...]


def short_answers(kg: KnowledgeGraph, answers: Sequence[str]) -> list[str]:
    """Return gold answers with full IRIs in the short form that the agent answers in."""
    return [kg.profile.short(IRI(a)) if a.startswith(("http://", "https://")) else a for a in answers]


def reward_of(values: Sequence[str], labels: Sequence[str], gold: Sequence[str]) -> Reward:
    """Compare answers with gold answers that are ids or literals, or else names.

    Args:
        values: ids or literals of the answers. labels: their names, in the same order.
        gold: the gold answers; all of one form.
    """
    if not gold:
        return Reward(0.0, 0.0, tuple(values))
    by_id, by_name = overlap(values, gold), overlap(labels, gold, "names")
    if by_name.f1 > by_id.f1:
        return Reward(by_name.recall, by_name.f1, tuple(labels))
    return Reward(by_id.recall, by_id.f1, tuple(values))
