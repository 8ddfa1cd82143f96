"""Staging: a dump as Parquet with the columns `s`, `p`, `o`, read once for any number of cuts.

Each part of a dump is a step of the work folder, and a process that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg import rdf as files
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.rdf import GraphReader, Progress, open_file
from triplewise.tools.kg.subset.engines import Engine, Lines
from triplewise.tools.kg.subset.lines import Bad, other_lines, parsed, plain_triples
from triplewise.tools.kg.subset.work import Facts, Work

if TYPE_CHECKING:
    import pyarrow as pa

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


def check_dump(path: Path) -> None:
    """Raise DataError unless a dump can be read: N-Triples or a table of labels, by its suffix."""
    if not path.exists():
        raise DataError("no such dump", path)
    if path.is_dir():
        raise DataError("a folder; name the dump's files, each by --from", path)
    if not (files.is_ntriples(path) or files.is_label_table(path)):
        raise DataError(
            "a cut reads N-Triples (.nt, also .gz, .zst, .bz2) and tables of labels (.tsv); "
            "make N-Triples of other formats and decompress other kinds first",
            path,
        )


def stage(
    work: Work, engine: Engine, dumps: Sequence[Path], profile: Profile, progress: Progress | None
) -> list[Source]:
    """Stage the dumps that are not staged yet. Files of the same name, size, time and head are the same."""
    staged = []
    for number, path in enumerate(dumps):
        place = f"{STAGED}/{number:03}"
        identity = _identity(path, engine, profile)
        work.agree(place, identity)
        facts = work.facts(f"{place}/end")
        if facts is None:
            parts = list(_parts(work, engine, path, number, profile, progress))
            facts = work.step(f"{place}/end", lambda _, parts=parts, path=path: _total(parts, path))  # type: ignore[misc]
        if progress is not None:
            progress(f"staging {path.name}", identity["bytes"], identity["bytes"])
        staged.append(Source(path, identity["bytes"], identity["head"], **facts))
    for number in count(len(dumps)):  # an earlier work may have had more dumps
        place = f"{STAGED}/{number:03}"
        if not work.path(place).exists():
            return staged
        work.forget(place)
    return staged


def _parts(
    work: Work, engine: Engine, path: Path, number: int, profile: Profile, progress: Progress | None
) -> Iterator[Facts]:
    """What there is to know of each part of a file, each staged now unless it is already."""
    place, place_of = f"{STAGED}/{number:03}", f"{STAGED}/{number:03}/{{:06}}".format
    if files.is_label_table(path):
        yield work.step(f"{place}/000000", lambda folder: _stage_labels(folder, path, profile))
        return
    done = 0
    first, end = 1, 0
    while (facts := work.facts(place_of(done))) is not None:
        yield facts
        done, first, end = done + 1, first + (facts["lines"] or 0), facts["end"]
        if facts["lines"] is None:
            return
    for part, lines in enumerate(engine.lines(path, first, end), done):
        yield work.step(
            place_of(part),
            lambda folder, lines=lines: _stage_part(folder, engine, lines, path, number),  # type: ignore[misc]
        )
        if progress is not None:
            progress(f"staging {path.name}", lines.position, path.stat().st_size)


def _stage_part(folder: Path, engine: Engine, lines: Lines, path: Path, number: int) -> Facts:
    plain, others = folder / "plain", folder / "others"
    for sub in (plain, others):
        sub.mkdir()
    engine.write(plain_triples(lines.table), plain)
    if sum(_rows(file) for file in plain.glob("*.parquet")) != lines.count:
        engine.write(other_lines(lines.table), others)
    bad = _Mistakes(path, lines.first)
    parsed_file = folder / "rest.parquet"
    _write_rows(parsed_file, _mended(others, number, bad))
    for file in others.iterdir():
        file.unlink()
    sizes = {file: _rows(file) for file in (*plain.glob("*.parquet"), parsed_file)}
    for file, size in sizes.items():
        if not size:  # DuckDB takes all files to be as large as the first, and joins from the wrong side
            file.unlink()
    triples = sum(sizes.values())
    return {"lines": lines.count, "end": lines.end, "triples": triples, **bad.facts()}


def _mended(folder: Path, number: int, bad: _Mistakes) -> Iterator[tuple[str, str, str]]:
    """The triples of the lines that are not plain."""
    for batch in batches(folder):
        for place, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found = parsed(line, number)
            if isinstance(found, Bad):
                bad.add(place, line, found.message)
            elif found is not None:
                yield found


class _Mistakes:
    """Account of a part's bad lines."""

    def __init__(self, path: Path, first: int) -> None:
        self._path, self._offset = path, first
        self._count = 0
        self._first: tuple[int | None, str, str] | None = None

    def add(self, place: int | None, line: str, message: str) -> None:
        self._count += 1
        if self._first is None or (place is not None and place < (self._first[0] or 0)):
            self._first = (place, line, message)

    def facts(self) -> Facts:
        if self._first is None:
            return {"bad_lines": 0, "first_bad": None, "message": ""}
        place, line, message = self._first
        number = self._offset + place if place is not None else _number_of(self._path, line)
        return {"bad_lines": self._count, "first_bad": number, "message": message}


def _number_of(path: Path, line: str) -> int | None:
    """Number of the first line of a file that reads so: for engines that read a file in no order."""
    with open_file(path) as stream:
        for number, found in files.numbered_lines(stream):
            if found.strip() == line.strip():
                return number
    return None


def _stage_labels(folder: Path, path: Path, profile: Profile) -> Facts:
    """Stage a table of labels as the facts that `triplewise kg load` would make of it."""
    feed = GraphReader(on_error="skip")
    quads = feed.labels([path], profile)
    rows = ((str(q.subject), str(q.predicate), str(q.object)) for q in quads)
    triples = _write_rows(folder / "labels.parquet", rows)
    first = feed.broken[0] if feed.broken else None
    return {
        "lines": None,
        "end": 0,
        "triples": triples,
        "bad_lines": feed.broken_count,
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


def _identity(path: Path, engine: Engine, profile: Profile) -> Facts:
    facts = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()
    mark: Facts = {"name": path.name, "bytes": facts.st_size, "modified": facts.st_mtime_ns, "head": head}
    if files.is_label_table(path):
        mark["profile"] = profile.name
    return mark | {"engine": engine.name}


def _write_rows(path: Path, rows: Iterator[tuple[str, str, str]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("s", "p", "o")])
    total = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(rows, ROWS)):
            columns = [list(column) for column in zip(*chunk, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
            total += len(chunk)
    return total


def batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a folder of Parquet files, file by file in the order of their names."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ROWS)


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def staged_table(work: Work, engine: Engine) -> Any:
    """All staged triples."""
    return engine.read(work.path(STAGED))
