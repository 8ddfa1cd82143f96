"""`triplewise ask --file`: many questions to a table of answers, resumable."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from os.path import exists
from pathlib import Path
from typing import Any, TextIO, get_args

from triplewise.graphs.around import ServedGraph
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import csv_text, progress_bars, say
from triplewise.graphs.runs import RunRequest
from triplewise.graphs.trace import iris_of
from triplewise.nodes.state import Answer, AnswerStatus
from triplewise.tools.core import errors, files
from triplewise.tools.core.files import exclusive, json_lines, lines_of, read_text, write_text, writing

COLUMNS = ("id", "question", "status", "confidence", "answer", "values", "iris", "query", "reason", "seconds")
"""Columns of the answers, before those of the questions; several answers in a cell are split by ` | `."""
SEPARATORS = ",;\t|"  # what may stand between the cells of a `.csv`
REFUSED = 4  # questions in a row that an error of the settings refuses before it ends the run

Row = dict[str, Any]


def read_questions(source: str) -> list[Row]:
    """Return the questions of a file, or of standard input for `-`: `id`, `question`, and other columns.

    The id is the line where there is none. A row that cannot be asked has the `reason`; other columns that
    are named like ours begin with `input_`. Raises `DataError`: it cannot be read, or holds no question.
    """
    path, records = Path(source), iter(list[tuple[int, Mapping[str, Any]]]())
    if path.suffix == ".jsonl":
        records = json_lines(path)
    elif path.suffix == ".csv":
        records = _table(read_text(path).lstrip("\n"))
    else:
        lines_read = enumerate(sys.stdin, 1) if source == "-" else lines_of(path)
        records = ((n, {"question": line}) for n, line in lines_read if line.strip())
    questions, is_there = list[Row](), False
    for number, record in records:
        row = {"id": str(number if record.get("id") in (None, "") else record["id"]), "question": ""}
        if isinstance(text := record.get("question"), str):
            is_there, row["question"] = True, text.strip()
        else:
            row["reason"] = "it has no `question`; name the column or key of the questions so"
        if None in record:
            row["reason"] = "more cells than the header has; a cell with a separator needs quotes around it"
        names = {k: f"input_{k}" if k in COLUMNS else k for k in record if k not in ("id", "question", None)}
        questions.append({**row, **{name: record[key] for key, name in names.items()}})
    if not is_there:
        fix = "write one a line, or name their column or key `question`"
        raise errors.DataError(f"holds no question; {fix}", source)
    return questions


def _table(text: str) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    """Yield number and cells by column of the rows of a `.csv`, with the key None for cells beyond."""
    csv.field_size_limit(max(len(text), csv.field_size_limit()))
    heads = {s: next(csv.reader([text.partition("\n")[0]], delimiter=s), []) for s in SEPARATORS}
    separator = max(SEPARATORS, key=lambda s: ("question" in heads[s], len(heads[s])))
    # Alone, a column needs no quotes around its commas.
    rows = csv.DictReader(io.StringIO(text), delimiter=separator if len(heads[separator]) > 1 else "\x1f")
    names, count = list[str](), Counter[str]()
    for name in rows.fieldnames or ():  # two columns of one name are both kept
        count[name] += 1
        names.append(f"{name}_{count[name]}" if count[name] > 1 else name)
    rows.fieldnames = names
    for row in rows:
        yield rows.line_num, row


def ask_all(source: str, out: Path | None, jobs: int, request: RunRequest, overwrite: bool = False) -> int:
    """Answer the questions of a file; return the exit code.

    Answers are kept in `OUT.part` as they come, so that the same command goes on where it was cut off; at
    the end they are written to `out` in the order of the questions. Without `out` they are printed as JSON
    lines. A question that fails has the status `failed` with the error as its reason, and ends nothing else.
    Raises `ConfigurationError`: `out` is finished, has an unknown ending, or another process writes it.
    """
    part = None if out is None else _part_of(out, overwrite)
    questions, served = read_questions(source), ServedGraph.open(request.preset, request.context)
    keys = [_key(question) for question in questions]
    with writing(part or Path("standard output")), ExitStack() as stack:
        file: TextIO = sys.stdout
        if part is not None:
            files.make_folder(part.parent)
            busy = f"another process writes {part}; wait for it to end, or give another --out"
            lock = exclusive(part.with_name(f"{part.name}.lock"), errors.ConfigurationError(busy))
            stack.enter_context(lock)
            file = stack.enter_context(part.open("a", encoding="utf-8"))
        answers = dict(_answers_before(part, keys))
        if answers:
            say(f"{len(answers)} of {len(questions)} questions were answered before; going on", "notice")
            file.write("\n")  # ends the line that was being written when it was cut off
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="triplewise-ask")
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        report = stack.enter_context(progress_bars("the same command goes on" if part is not None else ""))
        report("asking", len(answers), len(questions))
        graph, refused = build_graph(request.preset), 0
        left = [question for question in questions if _key(question) not in answers]
        for future in as_completed([pool.submit(_answer, q, graph, served) for q in left]):
            record, error = future.result()
            answers[_key(record)] = record
            file.write(_line(record))
            file.flush()
            report("asking", len(answers), len(questions), _tally(answers.values()))
            refused = refused + 1 if error is not None else 0
            if error is not None and refused >= min(len(left), jobs + REFUSED):
                raise error  # it holds for every question: a setting, a file
        if out is not None and part is not None:
            _write(out, [{**answers[key], **q} for key, q in zip(keys, questions, strict=True)])
            part.unlink()
            say(f"{_tally(answers.values())}; written to {out}")
    return 3 if any(record["status"] == "failed" for record in answers.values()) else 0


def _part_of(out: Path, overwrite: bool) -> Path:
    """Return where answers are kept as they come, once it is sure that `out` can be written."""
    if out.suffix not in (".csv", ".jsonl"):
        raise errors.ConfigurationError(f"--out {out} must end in .csv or .jsonl")
    if exists(out) and not overwrite:
        raise errors.ConfigurationError(f"{out} is there already; give another --out, or --overwrite")
    return out.with_name(f"{out.name}.part")


def _write(out: Path, records: Sequence[Row]) -> None:
    """Write the answers as a table or as JSON lines."""
    names = list(dict.fromkeys([*COLUMNS, *(name for record in records for name in record)]))
    rows = ([_cell(record.get(name, "")) for name in names] for record in records)
    with writing(out):
        write_text(out, csv_text(names, rows) if out.suffix == ".csv" else "".join(map(_line, records)))


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["id"], row["question"]


def _line(record: Row) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _answer(question: Row, graph: Any, served: ServedGraph) -> tuple[Row, errors.UserError | None]:
    """Answer a question; return its row of `COLUMNS` and other columns, and an error of the settings."""
    answer, status, wrong = Answer("not_found", reason=question.get("reason", "")), "failed", None
    if not answer.reason:
        try:
            run = {"question": question["question"], "entities": {}}
            answer = graph.invoke(run, context=served.context)["answer"]
            status = answer.status
        except errors.TriplewiseError as error:
            answer = Answer("not_found", reason=str(error))
            if isinstance(error, errors.UserError) and not isinstance(error, errors.QuestionError):
                wrong = error
    sure = None if answer.confidence is None else round(answer.confidence, 3)
    texts = (answer.labels, answer.values, iris_of(answer, served.kg.profile))
    cells = (*(" | ".join(text) for text in texts), answer.sparql or answer.sql, answer.reason)
    values = (*_key(question), status, sure, *cells, round(answer.usage.seconds, 2))
    return {**dict(zip(COLUMNS, values, strict=True)), **question}, wrong


def _tally(records: Iterable[Row]) -> str:
    counts = Counter(record["status"].replace("_", " ") for record in records)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _answers_before(part: Path | None, keys: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield the answers that an earlier run of these questions left; failed ones are asked again."""
    for line in part.read_bytes().split(b"\n") if part is not None and part.exists() else ():
        try:
            record = json.loads(line)
            key, is_whole = _key(record), record.keys() >= set(COLUMNS)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # it was being written when the run was cut off, or is damaged
        if key in keys and is_whole and record["status"] in get_args(AnswerStatus):
            yield key, record
