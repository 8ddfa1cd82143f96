"""Staging: a dump as Parquet with the columns `s`, `p`, `o`, read once for any number of extractions.

Each part of a dump is a step of the work folder, and a process that was killed goes on where it was.

Nearly all lines of a dump are plain. They are recognised by one regular expression, which accepts only what
the parser would accept and write the same way, and taken apart by the engine. Every other line (escapes of
characters, blank nodes, comments, IRIs out of the ordinary, mistakes) goes through the parser. All terms come
out in one spelling, so that equal terms are equal strings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import XSD
from triplewise.tools.kg import rdf
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.subset.engines import Engine, Lines
from triplewise.tools.kg.subset.steps import Facts, Steps

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_CHARACTER = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f][0-9A-Fa-f])"
_IRI = (
    rf"<[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?:[/?]{_CHARACTER}*)?|[A-Za-z0-9]{_CHARACTER}*)"
    rf"(?:#{_CHARACTER}*)?>"
)
_TAG = r"@[a-z]{1,8}(?:-[a-z0-9]{1,8})*"
_LITERAL = rf'"(?:[^"\\\x00-\x1f\x7f]|\\["\\nrt])*"(?:{_TAG}|\^\^{_IRI})?'
PLAIN = rf"^{_IRI} {_IRI} (?:{_IRI}|{_LITERAL}) \.$"
"""A plain line, without its end. The same in the dialects of RE2, Java and Python."""
STRING = f"^^<{XSD}string>"

STAGED = "staged"
ROWS = 100_000
_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A staged dump.

    Attributes:
        path: the file. bytes: its size. sha256_of_first_mib: of the file as it is on disk.
        triples: facts in it, repetitions included. lines: lines in it; None where the engine cannot tell.
        bad_lines: lines that are no triple. first_bad: number of the first; None if there is none.
        message: what is wrong with the first.
    """

    path: Path
    bytes: int
    sha256_of_first_mib: str
    triples: int
    lines: int | None
    bad_lines: int
    first_bad: int | None
    message: str


@dataclass(frozen=True, slots=True)
class BadLine:
    """Why a line is no triple."""

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
    steps: Steps, engine: Engine, dumps: Sequence[Path], profile: Profile, progress: rdf.Progress | None
) -> list[Source]:
    """Stage the dumps that are not staged yet. Files of the same name, size, time and head are the same."""
    staged = []
    for number, path in enumerate(dumps):
        place, stat = f"{STAGED}/{number:03}", path.stat()
        with path.open("rb") as file:
            head = hashlib.sha256(file.read(_HEAD)).hexdigest()
        identity: Facts = {
            "name": path.name,
            "bytes": stat.st_size,
            "modified": stat.st_mtime_ns,
            "head": head,
        }
        if rdf.is_label_table(path):
            identity["profile"] = profile.name
        steps.clear_unless(place, identity | {"engine": engine.name})
        facts = steps.facts(f"{place}/end")
        if facts is None:
            total = _total(list(_parts(steps, engine, path, number, profile, progress)), path)
            facts = steps.step(f"{place}/end", lambda _, total=total: total)  # type: ignore[misc]
        if progress is not None:
            progress(f"staging {path.name}", stat.st_size, stat.st_size)
        staged.append(Source(path, stat.st_size, head, **facts))
    for number in count(len(dumps)):  # an earlier work may have had more dumps
        if not steps.path(place := f"{STAGED}/{number:03}").exists():
            return staged
        steps.forget(place)
    return staged


def staged_table(steps: Steps, engine: Engine) -> Any:
    """All staged triples."""
    return engine.read(steps.path(STAGED))


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


def _parts(
    steps: Steps, engine: Engine, path: Path, number: int, profile: Profile, progress: rdf.Progress | None
) -> Iterator[Facts]:
    """What there is to know of each part of a file, each staged now unless it is already."""
    place = f"{STAGED}/{number:03}"
    if rdf.is_label_table(path):
        yield steps.step(f"{place}/000000", lambda folder: _stage_labels(folder, path, profile))
        return
    done, first, end = 0, 1, 0
    while (facts := steps.facts(f"{place}/{done:06}")) is not None:
        yield facts
        if facts["lines"] is None:
            return
        done, first, end = done + 1, first + facts["lines"], facts["end"]
    for part, lines in enumerate(engine.lines(path, first, end), done):
        yield steps.step(
            f"{place}/{part:06}",
            lambda folder, lines=lines: _stage_part(folder, engine, lines, path, number),  # type: ignore[misc]
        )
        if progress is not None:
            progress(f"staging {path.name}", lines.position, path.stat().st_size)


def _stage_part(folder: Path, engine: Engine, lines: Lines, path: Path, number: int) -> Facts:
    plain, others = folder / "plain", folder / "others"
    for sub in (plain, others):
        sub.mkdir()
    engine.write(plain_triples(lines.table), plain)
    if sum(_size(file) for file in plain.glob("*.parquet")) != lines.count:
        engine.write(other_lines(lines.table), others)
    bad: list[tuple[int | None, str, str]] = []

    def parsed() -> Iterator[tuple[str, str, str]]:
        for place, line in rows(others):
            triple = parse_line(line, number)
            if isinstance(triple, BadLine):
                bad.append((place, line, triple.message))
            elif triple is not None:
                yield triple

    rest = folder / "rest.parquet"
    _write_rows(rest, parsed())
    for file in others.iterdir():
        file.unlink()
    sizes = {file: _size(file) for file in (*plain.glob("*.parquet"), rest)}
    for file, size in sizes.items():
        if not size:  # DuckDB takes all files to be as large as the first, and joins from the wrong side
            file.unlink()
    facts: Facts = {"lines": lines.count, "end": lines.end, "triples": sum(sizes.values())}
    if not bad:
        return facts | {"bad_lines": 0, "first_bad": None, "message": ""}
    at, line, message = min(bad, key=lambda b: b[0] or 0)
    if at is not None:
        first_bad: int | None = lines.first + at
    else:  # the engine read the file in no order
        with rdf.open_file(path) as stream:
            first_bad = next(
                (n for n, text in rdf.numbered_lines(stream) if text.strip() == line.strip()), None
            )
    return facts | {"bad_lines": len(bad), "first_bad": first_bad, "message": message}


def _stage_labels(folder: Path, path: Path, profile: Profile) -> Facts:
    """Stage a table of labels as the facts that `triplewise kg load` would make of it."""
    reader = rdf.GraphReader(on_error="skip")
    quads = reader.labels([path], profile)
    triples = _write_rows(
        folder / "labels.parquet", ((str(q.subject), str(q.predicate), str(q.object)) for q in quads)
    )
    first = reader.broken[0] if reader.broken else None
    return {
        "lines": None,
        "end": 0,
        "triples": triples,
        "bad_lines": reader.broken_count,
        "first_bad": first and first.line,
        "message": first.message if first else "",
    }


def _total(parts: Sequence[Facts], path: Path) -> Facts:
    if not any(part["triples"] for part in parts):
        raise DataError("no triple in it", path)
    lines = [part["lines"] for part in parts]
    bad = next((part for part in parts if part["bad_lines"]), None)
    return {
        "triples": sum(part["triples"] for part in parts),
        "lines": None if None in lines else sum(lines),
        "bad_lines": sum(part["bad_lines"] for part in parts),
        "first_bad": bad and bad["first_bad"],
        "message": bad["message"] if bad else "",
    }


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


def _size(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def plain_triples(lines: ir.Table) -> ir.Table:
    """The triples of the plain lines: `s`, `p`, `o`, as N-Triples writes them, from a table with `line`."""
    import ibis

    plain = lines.filter(lines.line.re_search(PLAIN))
    plain = plain.mutate(cut=plain.line.find(" "))
    plain = plain.mutate(s=plain.line.left(plain.cut), rest=plain.line.substr(plain.cut + 1))
    plain = plain.mutate(cut=plain.rest.find(" "))
    size = plain.rest.length() - plain.cut - len("  .")
    plain = plain.select("s", p=plain.rest.left(plain.cut), o=plain.rest.substr(plain.cut + 1, size))
    bare = plain.o.left(plain.o.length() - len(STRING))
    return plain.mutate(o=ibis.ifelse(plain.o.endswith(STRING), bare, plain.o))


def other_lines(lines: ir.Table) -> ir.Table:
    """The lines that are not plain: `n`, `line`. Empty ones are left out."""
    return lines.filter(~lines.line.re_search(PLAIN) & (lines.line != "")).select("n", "line")


def parse_line(line: str, source: int) -> tuple[str, str, str] | BadLine | None:
    """The triple of any line, in the same spelling; None for a comment.

    Args:
        line: the line. source: number of its file: blank nodes become IRIs that are distinct by file.
    """
    try:
        quad = next(iter(ox.parse(input=line.encode(), format=ox.RdfFormat.N_TRIPLES)), None)
    except SyntaxError as error:
        return BadLine(str(error.msg or error).split(": ", 1)[-1])
    except UnicodeEncodeError:
        return BadLine("not UTF-8")
    if quad is None:
        return None
    if isinstance(quad.object, ox.Triple):
        return BadLine("a triple as the object of a triple (RDF 1.2) is not supported")
    quad = rdf.without_blanks(quad, source)
    return str(quad.subject), str(quad.predicate), str(quad.object)
