"""Benchmarks that are published as lines with tabs: MetaQA and SimpleQuestions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triplewise.evals.text_files import lines_of
from triplewise.tools.core.errors import DataError

Record = dict[str, Any]

FREEBASE = "www.freebase.com/"
"""What SimpleQuestions writes before ids and relations."""

_HOPS = re.compile(r"([123])[-_]?hop")
_SPLIT = re.compile(r"qa_(train|dev|test)")
_TOPIC = re.compile(r"\[([^\[\]]+)\]")


def read_metaqa(path: Path) -> Iterator[Record]:
    """qa_test.txt of a folder `1-hop/vanilla` (or `ntm`): question, tab, answers with | between them.

    The question types are read from `qa_test_qtype.txt` beside the file or a folder above, as published. The
    knowledge base, kb.txt (`subject|relation|object`), is loaded as it is.

    Raises:
        DataError: a line of another form, or another number of question types.
    """
    name = f"{path.name.removesuffix('.gz').removesuffix('.txt')}_qtype.txt"
    beside = [folder / name for folder in (path.parent, path.parent.parent) if (folder / name).is_file()]
    types = [line.strip() for _, line in lines_of(beside[0])] if beside else None
    split = match[1] if (match := _SPLIT.search(path.name)) else "questions"
    folder_hops = _HOPS.search("/".join(path.parts[-3:]))
    lines = list(lines_of(path))
    if types is not None and len(types) != len(lines):
        raise DataError(
            f"has {len(lines)} questions, but its file of question types {len(types)} lines: both have to be "
            "of the same split and number of hops",
            path,
        )
    for index, (number, line) in enumerate(lines):
        question, tab, rest = line.partition("\t")
        answers = [answer.strip() for answer in rest.split("|") if answer.strip()]
        if not tab or not question.strip() or not answers:
            raise _wrong_line("a question, a tab, and answers with | between them", line, path, number)
        topic = _TOPIC.search(question)
        if topic is None:
            raise DataError(f"the question has no [entity] in brackets: {question[:80]!r}", path, number)
        qtype = types[index] if types else ""
        hops = qtype.count("_to_") if qtype else int(folder_hops[1]) if folder_hops else 0
        yield {
            "id": f"metaqa-{f'{hops}hop-' if hops else ''}{split}-{number - 1:05}",
            "question": question.strip(),
            "topic_entity": topic[1],
            "answers": list(dict.fromkeys(answers)),
            "qtype": qtype,
            "hops": hops or None,
        }


def read_simplequestions(path: Path) -> Iterator[Record]:
    """annotated_fb_data_test.txt (SimpleQuestions_v2): subject, relation, object, question, tabs between.

    Ids are written `www.freebase.com/m/04whkz5`, relations `www.freebase.com/book/written_work/subjects`. The
    gold answer is the object's mid; neither it nor the subject has a name in the file.

    Raises:
        DataError: a line of another form.
    """
    for number, line in lines_of(path):
        fields = line.split("\t")
        ids = [field.removeprefix(FREEBASE).replace("/", ".") for field in fields[:3]]
        if len(fields) != 4 or not all(f.startswith(FREEBASE) for f in fields[:3]) or not fields[3].strip():
            needed = f"subject, relation, object ({FREEBASE}...) and question, with tabs between them"
            raise _wrong_line(needed, line, path, number)
        yield {
            "id": f"simplequestions-{number - 1:05}",
            "question": fields[3].strip(),
            "topic_entity": {ids[0]: ids[0]},
            "relation": ids[1].rpartition(".")[2],
            "answer": ids[2],
        }


def _wrong_line(needed: str, line: str, path: Path, number: int) -> DataError:
    message = f"a line has to be {needed}, found {line[:80]!r}; take the file as it is published"
    return DataError(message, path, number)
