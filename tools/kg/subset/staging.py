"""Work in progress in a folder, and its first step: a dump as Parquet with the columns `s`, `p`, `o`.

Nearly all lines of a dump are plain: one regular expression recognises those that the parser would accept and
write the same way, and the engine takes them apart. All others go through the parser.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive, write_json, writing
from triplewise.tools.core.terms import XSD
from triplewise.tools.kg import rdf
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.subset.engines import DuckDB

if TYPE_CHECKING:
    import pyarrow as pa

Facts = dict[str, Any]
DONE, STAGED = "done.json", "staged"
ROWS = 100_000
_HEAD = 1 << 20
_CHARACTER = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f][0-9A-Fa-f])"
_IRI = (
    rf"<[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?:[/?]{_CHARACTER}*)?|[A-Za-z0-9]{_CHARACTER}*)"
    rf"(?:#{_CHARACTER}*)?>"
)
_TAG = r"@[a-z]{1,8}(?:-[a-z0-9]{1,8})*"
_LITERAL = rf'"(?:[^"\\\x00-\x1f\x7f]|\\["\\nrt])*"(?:{_TAG}|\^\^{_IRI})?'
PLAIN = rf"^{_IRI} {_IRI} (?:{_IRI}|{_LITERAL}) \.$"
"""A plain line, without its end. The same in the dialects of RE2 and Python."""
_STRING = f"^^<{XSD}string>"
_IS_PLAIN = "regexp_matches(line, '" + PLAIN.replace("'", "''") + "')"
_TRIPLES = f"""
WITH plain AS (
    SELECT split_part(line, ' ', 1) AS s, split_part(line, ' ', 2) AS p,
        substr(line, length(s) + length(p) + 3, length(line) - length(s) - length(p) - 4) AS o
    FROM lines WHERE {_IS_PLAIN}
)
SELECT s, p, CASE WHEN o LIKE '%{_STRING}' THEN left(o, length(o) - {len(_STRING)}) ELSE o END AS o FROM plain
"""
"""The triples of plain lines, as N-Triples writes them."""
_OTHERS = f"SELECT n, line FROM lines WHERE line <> '' AND NOT {_IS_PLAIN} ORDER BY n"


class Steps:
    """Steps in a folder, done by one process at a time, each done once, whole or not at all.

    A step is a folder. It is made under another name and renamed when it is complete, with what there is to
    remember of it in `done.json`: a process that is killed leaves nothing that looks like a finished step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def facts(self, name: str) -> Facts | None:
        """What is remembered of a finished step; None if it is not finished."""
        try:
            return dict(json.loads((self.folder / name / DONE).read_text(encoding="utf-8")))
        except OSError:
            return None

    def step(self, name: str, make: Callable[[Path], Facts]) -> Facts:
        """Do a step unless it is done. `make` writes its files and returns what to remember (JSON).

        Raises:
            DataError: the disk is full or cannot be written.
        """
        if (facts := self.facts(name)) is not None:
            return facts
        final = self.folder / name
        part = final.with_name(final.name + ".part")
        with writing(final):
            shutil.rmtree(part, ignore_errors=True)
            shutil.rmtree(final, ignore_errors=True)
            part.mkdir(parents=True)
            facts = make(part)
            write_json(part / DONE, facts)
            part.rename(final)
        return facts

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder.

        Raises:
            ConfigurationError: another process works in it. DataError: it cannot be made.
        """
        busy = ConfigurationError(f"another process is working in {self.folder}; wait for it to end")
        with ExitStack() as stack:
            with writing(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(exclusive(self.folder / "lock", busy))
            yield


@dataclass(frozen=True, slots=True)
class Source:
    """A staged dump.

    Attributes:
        path: the file. bytes: its size. sha256_of_first_mib: of the file as it is on disk.
        triples: facts in it, repetitions included. bad_lines: lines that are no triple.
        lines: how many it has; None for a table of labels.
        first_bad, message: number of the first bad line, and what is wrong with it.
    """

    path: Path
    bytes: int
    sha256_of_first_mib: str
    triples: int
    lines: int | None
    bad_lines: int
    first_bad: int | None
    message: str


def check_dump(path: Path) -> None:
    """Raise DataError unless a dump can be read: N-Triples or a table of labels, by its suffix."""
    if not path.exists():
        raise DataError("no such dump", path)
    if path.is_dir():
        raise DataError("a folder; name the dump's files, each by --from", path)
    if not (rdf.is_ntriples(path) or rdf.is_label_table(path)):
        raise DataError(
            "a cut reads N-Triples (.nt, also .gz, .zst, .bz2) and tables of labels (.tsv); "
            "make N-Triples of other formats and decompress other kinds first",
            path,
        )


def stage(
    steps: Steps, engine: DuckDB, dumps: Sequence[Path], profile: Profile, progress: rdf.Progress
) -> list[Source]:
    """Stage the dumps that are not staged yet."""
    sources = []
    for number, path in enumerate(dumps):
        with path.open("rb") as file:
            head = hashlib.sha256(file.read(_HEAD)).hexdigest()

        def make(folder: Path, path: Path = path, number: int = number) -> Facts:
            if rdf.is_label_table(path):
                facts = _stage_labels(folder, path, profile)
            else:
                facts = _stage_triples(folder, engine, path, number, progress)
            if not facts["triples"]:
                raise DataError("no triple in it", path)
            return facts

        facts, size = steps.step(f"{STAGED}/{number:03}", make), path.stat().st_size
        progress(f"staging {path.name}", size, size)
        sources.append(Source(path, size, head, **facts))
    return sources


def batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a folder of Parquet files, file by file in the order of their names."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ROWS)


def rows(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The same, row by row."""
    for batch in batches(folder):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _stage_triples(folder: Path, engine: DuckDB, path: Path, number: int, progress: rdf.Progress) -> Facts:
    """Stage N-Triples part by part."""
    lines = triples = 0
    bad_lines = 0
    first: tuple[int | None, str] = (None, "")  # number of the first bad line, and what is wrong with it

    def parsed(others: Path) -> Iterator[tuple[str, str, str]]:
        nonlocal bad_lines, first
        for place, line in rows(others):
            try:
                if (triple := parse_line(line, number)) is not None:
                    yield triple
            except ValueError as error:
                first = first if bad_lines else (lines + place + 1, str(error))
                bad_lines += 1

    for part, (count, position) in enumerate(engine.lines(path)):
        plain, others = folder / f"{part:06}" / "plain", folder / f"{part:06}" / "others"
        for sub in (plain, others):
            sub.mkdir(parents=True)
        engine.write(_TRIPLES, plain)
        if row_count(plain) != count:
            engine.write(_OTHERS, others)
        _write_rows(plain / "rest.parquet", parsed(others))
        shutil.rmtree(others)
        triples += row_count(plain)
        for file in plain.glob("*.parquet"):
            if not row_count(file):  # DuckDB takes all files to be as large as the first one when it joins
                file.unlink()
        lines += count
        progress(f"staging {path.name}", position, path.stat().st_size)
    return _facts(triples, lines, bad_lines, *first)


def _stage_labels(folder: Path, path: Path, profile: Profile) -> Facts:
    """Stage a table of labels as the facts that `triplewise kg load` would make of it."""
    reader = rdf.GraphReader(on_error="skip")
    facts = ((str(q.subject), str(q.predicate), str(q.object)) for q in reader.labels([path], profile))
    triples = _write_rows(folder / "labels.parquet", facts)
    first = (reader.broken[0].line, reader.broken[0].message) if reader.broken else (None, "")
    return _facts(triples, None, reader.broken_count, *first)


def _facts(triples: int, lines: int | None, bad_lines: int, first_bad: int | None, message: str) -> Facts:
    """What is remembered of a staged dump: fields of its `Source`."""
    bad = {"bad_lines": bad_lines, "first_bad": first_bad, "message": message}
    return {"triples": triples, "lines": lines, **bad}


def _write_rows(path: Path, triples: Iterator[tuple[str, str, str]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("s", "p", "o")])
    total = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(triples, ROWS)):
            columns = [list(column) for column in zip(*chunk, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            total += len(chunk)
    return total


def row_count(path: Path) -> int:
    """The rows of a Parquet file, or of those in a folder."""
    import pyarrow.parquet as pq

    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def write_column(values: Sequence[str], name: str, folder: Path) -> None:
    """Write texts as a table of one column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: pa.array(values, pa.string())}), folder / "part-0.parquet")


def parse_line(line: str, source: int) -> tuple[str, str, str] | None:
    """The triple of any line, in the same spelling; None for a comment.

    Args:
        line: the line. source: number of its file: blank nodes become IRIs that are distinct by file.

    Raises:
        ValueError: the line is no triple; says why.
    """
    try:
        quad = next(iter(ox.parse(input=line.encode(), format=ox.RdfFormat.N_TRIPLES)), None)
    except SyntaxError as error:
        raise ValueError(str(error.msg or error).split(": ", 1)[-1]) from error
    except UnicodeEncodeError as error:
        raise ValueError("not UTF-8") from error
    if quad is None:
        return None
    if isinstance(quad.object, ox.Triple):
        raise ValueError("a triple as the object of a triple (RDF 1.2) is not supported")
    quad = rdf.without_blanks(quad, source)
    return str(quad.subject), str(quad.predicate), str(quad.object)
