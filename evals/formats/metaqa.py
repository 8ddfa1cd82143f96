"""MetaQA in its published form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import lines_of
from triplewise.tools.core.errors import DataError

Record = dict[str, Any]

_HOPS = re.compile(r"([123])[-_]?hop")
_SPLIT = re.compile(r"qa_(train|dev|test)")
_TOPIC = re.compile(r"\[([^\[\]]+)\]")


def metaqa(path: Path) -> Iterator[Record]:
    """qa_test.txt of a folder `1-hop/vanilla` (or `ntm`): question, tab, answers with | between them.

    The question types are read from `qa_test_qtype.txt` beside the file or a folder above, as published. The
    knowledge base, kb.txt (`subject|relation|object`), is loaded as it is.
    """
    kinds = _kinds(path)
    split = found[1] if (found := _SPLIT.search(path.name)) else "questions"
    near = _HOPS.search("/".join(path.parts[-3:]))
    lines = list(lines_of(path))
    if kinds is not None and len(kinds) != len(lines):
        raise DataError(
            f"has {len(lines)} questions, but its file of question types {len(kinds)} lines: both have to be "
            "of the same split and number of hops",
            path,
        )
    for index, (number, line) in enumerate(lines):
        question, answers = _fields(path, number, line)
        topic = _TOPIC.search(question)
        if topic is None:
            raise DataError(f"the question has no [entity] in brackets: {question[:80]!r}", path, number)
        kind = kinds[index] if kinds else ""
        hops = kind.count("_to_") if kind else int(near[1]) if near else 0
        yield {
            "id": f"metaqa-{f'{hops}hop-' if hops else ''}{split}-{number - 1:05}",
            "question": question,
            "topic_entity": topic[1],
            "answers": answers,
            "qtype": kind,
            "hops": hops,
        }


def _fields(path: Path, number: int, line: str) -> tuple[str, list[str]]:
    """Question and answers of a line."""
    question, tab, rest = line.partition("\t")
    answers = [answer.strip() for answer in rest.split("|") if answer.strip()]
    if not tab or not question.strip() or not answers:
        raise DataError(
            f"a line has to be a question, a tab, and answers with | between them, found {line[:80]!r}; take "
            "the file as it is published",
            path,
            number,
        )
    return question.strip(), list(dict.fromkeys(answers))


def _kinds(path: Path) -> list[str] | None:
    """The question types, one a question; None where their file is not there."""
    name = f"{path.name.removesuffix('.gz').removesuffix('.txt')}_qtype.txt"
    for folder in (path.parent, path.parent.parent):
        if (folder / name).is_file():
            return [line.strip() for _, line in lines_of(folder / name)]
    return None
