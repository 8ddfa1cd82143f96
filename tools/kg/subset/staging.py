"""The first step of a cut: a dump as Parquet with the columns `s`, `p`, `o`, kept until the cut is done.

Nearly all lines of a dump are plain: one regular expression recognises those that the parser would accept and
write the same way, and the engine takes them apart. All others go through the parser.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import write_json, writing
from triplewise.tools.core.terms import XSD
from triplewise.tools.kg import rdf
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.subset.engines import DuckDB

if TYPE_CHECKING:
    import pyarrow as pa

DONE = "done.json"
ROWS = 100_000
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


@dataclass(slots=True)
class Source:
    """A staged dump.

    Attributes:
        path: the file. bytes: its size.
        triples: facts in it, repetitions included. bad_lines: lines that are no triple.
        lines: how many it has; None for a table of labels.
        first_bad, message: number of the first bad line, and what is wrong with it.
    """

    path: Path
    bytes: int
    triples: int = 0
    lines: int | None = None
    bad_lines: int = 0
    first_bad: int | None = None
    message: str = ""


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
    folder: Path, engine: DuckDB, dumps: Sequence[Path], profile: Profile, progress: rdf.Progress
) -> dict[Path, Source]:
    """Stage the dumps that are not staged yet; return each one's folder of Parquet, and what it is.

    A folder is made under another name and renamed when it is complete: what is killed leaves nothing that
    looks finished. Raises `DataError` where the disk cannot be written, or a dump has no triple.
    """
    staged: dict[Path, Source] = {}
    for number, path in enumerate(dumps):
        facts = path.stat()
        about = f"{number} {path.absolute()} {facts.st_size} {facts.st_mtime_ns} {profile!r}"
        final = folder / hashlib.sha256(about.encode()).hexdigest()[:20]
        part = final.with_suffix(".part")
        source, known = Source(path, facts.st_size), tuple(Source.__slots__)[2:]
        if (final / DONE).is_file():
            for name, value in json.loads((final / DONE).read_text(encoding="utf-8")).items():
                setattr(source, name, value)
        else:
            with writing(final):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                if rdf.is_label_table(path):
                    _stage_labels(part, source, profile)
                else:
                    _stage_triples(part, engine, source, number, progress)
                if not source.triples:
                    raise DataError("no triple in it", path)
                write_json(part / DONE, {name: getattr(source, name) for name in known})
                part.rename(final)
        progress(f"staging {path.name}", source.bytes, source.bytes)
        staged[final] = source
    return staged


def _stage_triples(folder: Path, engine: DuckDB, source: Source, number: int, progress: rdf.Progress) -> None:
    """Stage N-Triples part by part."""
    source.lines = 0
    for part, (count, position) in enumerate(engine.lines(source.path)):
        plain, others = folder / f"{part:06}" / "plain", folder / f"{part:06}" / "others"
        for sub in (plain, others):
            sub.mkdir(parents=True)
        engine.write(_TRIPLES, plain)
        if row_count(plain) != count:
            engine.write(_OTHERS, others)
        write_rows(plain / "rest.parquet", _parsed(rows(others), source, number), ("s", "p", "o"))
        shutil.rmtree(others)
        source.triples += row_count(plain)
        for file in plain.glob("*.parquet"):
            if not row_count(file):  # DuckDB takes all files to be as large as the first one when it joins
                file.unlink()
        source.lines += count
        progress(f"staging {source.path.name}", position, source.bytes)


def _parsed(lines: Iterator[tuple[Any, ...]], source: Source, number: int) -> Iterator[tuple[str, str, str]]:
    """The triples of lines that the parser has to read; bad ones are counted in the source."""
    for place, line in lines:
        try:
            if (triple := parse_line(line, number)) is not None:
                yield triple
        except ValueError as error:
            if not source.bad_lines:
                source.first_bad, source.message = (source.lines or 0) + place + 1, str(error)
            source.bad_lines += 1


def _stage_labels(folder: Path, source: Source, profile: Profile) -> None:
    """Stage a table of labels as the facts that `triplewise kg load` would make of it."""
    reader = rdf.GraphReader(on_error="skip")
    quads = reader.labels([source.path], profile)
    facts = ((str(q.subject), str(q.predicate), str(q.object)) for q in quads)
    source.triples = write_rows(folder / "labels.parquet", facts, ("s", "p", "o"))
    source.bad_lines = reader.broken_count
    if reader.broken:
        source.first_bad, source.message = reader.broken[0].line, reader.broken[0].message


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


def row_count(path: Path) -> int:
    """The rows of a Parquet file, or of those in a folder."""
    import pyarrow.parquet as pq

    files = path.glob("*.parquet") if path.is_dir() else [path]
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def write_rows(path: Path, facts: Iterator[tuple[str, ...]], names: Sequence[str]) -> int:
    """Write rows of texts as a Parquet file with these columns; return how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, total = pa.schema([(name, pa.string()) for name in names]), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(facts, ROWS)):
            columns = [list(column) for column in zip(*chunk, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            total += len(chunk)
    return total
