"""Questions with answers only: all that self-learning is given (SymAgent 4.3)."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triplewise.tools.core.errors import ConfigurationError, DataError


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
    questions: dict[str, Question] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        question = _question(line, path, number)
        if question.id in questions:
            raise DataError(f"the id {question.id!r} stands twice; give every question its own", path, number)
        if question.answers:
            questions[question.id] = question
    if not questions:
        raise DataError("holds no question with answers", path)
    return list(questions.values())


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file. Raises `DataError` if it cannot be read."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            yield from lines
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read questions: {error}", path) from error


def _question(line: str, path: Path, number: int) -> Question:
    """Read one question. Raises `DataError`, naming the line, where it is none."""
    try:
        record = json.loads(line)
        text, answers = str(record["question"]), record["answers"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(
            f"not a question ({error!r}); a line needs question and answers, and may have id and entities",
            path,
            number,
        ) from error
    if not isinstance(answers, list):
        raise DataError(f"answers must be a list, got {answers!r}", path, number)
    entities = record.get("entities", record.get("topic_entity"))
    if not isinstance(entities, Mapping):
        entities = dict.fromkeys([entities] if isinstance(entities, str) else entities or [])
    return Question(
        str(record.get("id", f"line-{number}")),
        text,
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
