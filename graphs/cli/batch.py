"""`triplewise ask --file`: many questions to a table of answers, resumable."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from triplewise.graphs.around import ServedGraph
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import csv_text, progress_bars, say
from triplewise.graphs.runs import RunRequest
from triplewise.graphs.trace import iris_of
from triplewise.nodes.state import Answer
from triplewise.tools.core import errors
from triplewise.tools.core.files import json_lines, lines_of, read_text, write_text, writing

COLUMNS = ("id", "question", "status", "confidence", "answer", "values", "iris", "query", "reason", "seconds")
"""Columns of the answers, before those of the questions; several answers in a cell are split by ` | `."""
SEPARATORS = ",;\t|"  # what may stand between the cells of a `.csv`

Row = dict[str, Any]


def read_questions(source: str) -> list[Row]:
    """Return the questions of a file, or of standard input for `-`: `id`, `question`, and other columns.

    The id is the line where there is none. Raises `DataError`: it cannot be read, or holds no question.
    """
    path, records = Path(source), iter(list[tuple[int, Mapping[str, Any]]]())
    if path.suffix == ".jsonl":
        records = json_lines(path)
    elif path.suffix == ".csv":
        table = read_text(path).lstrip("\n")
        csv.field_size_limit(max(len(table), csv.field_size_limit()))
        separator = max(SEPARATORS, key=table.partition("\n")[0].count)
        rows = csv.DictReader(io.StringIO(table), delimiter=separator)
        records = ((rows.line_num, row) for row in rows)
    else:
        lines_read = enumerate(sys.stdin, 1) if source == "-" else lines_of(path)
        records = ((n, {"question": line}) for n, line in lines_read if line.strip())
    questions = []
    for number, record in records:
        if not isinstance(text := record.get("question"), str):
            message = "no `question`; name the column or key of the questions so"
            raise errors.DataError(message, source, number)
        others = {k: v for k, v in record.items() if k is not None and k not in COLUMNS}
        questions.append({"id": str(record.get("id") or number), "question": text.strip(), **others})
    if not questions:
        raise errors.DataError("holds no question; write one a line, or a column `question`", source)
    return questions


def ask_all(source: str, out: Path | None, jobs: int, request: RunRequest, overwrite: bool = False) -> int:
    """Answer the questions of a file; return the exit code.

    Answers are kept in `OUT.part` as they come, so that the same command goes on where it was cut off; at
    the end they are written to `out` in the order of the questions. Without `out` they are printed as JSON
    lines. A question that fails has the status `failed` with the error as its reason, and ends nothing else.
    Raises `ConfigurationError`: a finished `out` may not be overwritten, or has an unknown ending.
    """
    part = out.with_name(f"{out.name}.part") if out is not None else None
    if out is not None and part is not None:
        if out.suffix not in (".csv", ".jsonl"):
            raise errors.ConfigurationError(f"--out {out} must end in .csv or .jsonl")
        if out.exists() and not overwrite and not part.exists():
            message = f"{out} is there already; give another --out, or --overwrite"
            raise errors.ConfigurationError(message)
    questions, served = read_questions(source), ServedGraph.open(request.preset, request.context)
    keys = [_key(question) for question in questions]
    graph, answers = build_graph(request.preset), dict(_answers_before(part, keys))
    if answers:
        say(f"{len(answers)} of {len(questions)} questions were answered before; going on", "notice")
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="triplewise-ask")
    try:
        with (
            part.open("a", encoding="utf-8") if part is not None else nullcontext(sys.stdout) as file,
            progress_bars("the same command goes on" if part is not None else "") as report,
        ):
            if answers:
                file.write("\n")  # ends the line that was being written when it was cut off
            report("asking", len(answers), len(questions))
            left = [question for question in questions if _key(question) not in answers]
            for future in as_completed([pool.submit(_answer, q, graph, served) for q in left]):
                record = future.result()
                answers[_key(record)] = record
                file.write(_line(record))
                file.flush()
                report("asking", len(answers), len(questions), _tally(answers.values()))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if out is not None and part is not None:
        records = [{**answers[key], **q} for key, q in zip(keys, questions, strict=True)]
        names = list(dict.fromkeys([*COLUMNS, *(name for record in records for name in record)]))
        is_csv, rows = out.suffix == ".csv", ([record.get(name, "") for name in names] for record in records)
        with writing(out):
            write_text(out, csv_text(names, rows) if is_csv else "".join(map(_line, records)))
        part.unlink()
        say(f"{_tally(answers.values())}; written to {out}")
    return 3 if any(record["status"] == "failed" for record in answers.values()) else 0


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["id"], row["question"]


def _line(record: Row) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _answer(question: Row, graph: Any, served: ServedGraph) -> Row:
    """Answer a question; return the row of `COLUMNS`, with its other columns."""
    status, run = None, {"question": question["question"], "entities": {}}
    try:
        answer: Answer = graph.invoke(run, context=served.context)["answer"]
    except errors.TriplewiseError as error:
        if isinstance(error, errors.UserError) and not isinstance(error, errors.QuestionError):
            raise  # it holds for every question: a setting, a file
        answer, status = Answer("not_found", reason=str(error)), "failed"
    sure = None if answer.confidence is None else round(answer.confidence, 3)
    texts = (answer.labels, answer.values, iris_of(answer, served.kg.profile))
    cells = (*(" | ".join(text) for text in texts), answer.sparql or answer.sql, answer.reason)
    values = (*_key(question), status or answer.status, sure, *cells, round(answer.usage.seconds, 2))
    return {**dict(zip(COLUMNS, values, strict=True)), **question}


def _tally(records: Iterable[Row]) -> str:
    counts = Counter(record["status"].replace("_", " ") for record in records)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _answers_before(part: Path | None, keys: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield the answers that an earlier run of these questions left; failed ones are asked again."""
    for line in part.read_bytes().split(b"\n") if part is not None and part.exists() else ():
        try:
            record = json.loads(line)
            key, status = _key(record), record["status"]
        except (ValueError, KeyError, TypeError):
            continue  # it was being written when the run was cut off, or is damaged
        if key in keys and status != "failed":
            yield key, record
