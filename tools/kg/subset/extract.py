"""Extracting the part of a graph within some hops of given entities from a dump (ODA, section 3.2).

The result is a folder with `triples.nt.gz`, `labels.nt.gz` and `cut.json` (what was extracted, from what,
how), which `triplewise kg load` takes as it is. It stands in its place once it is whole; until then the
dumps are tables of a database next to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import numbered_lines, packaged, write_json
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import rdf
from triplewise.tools.kg.load import install, is_taken, scratch_folder
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import batches

TRIPLES, LABELS, MANIFEST = "triples.nt.gz", "labels.nt.gz", "cut.json"
ROWS = 100_000  # that are staged at once

_COLUMNS = "UNNEST(?::VARCHAR[]) AS s, UNNEST(?::VARCHAR[]) AS p, UNNEST(?::VARCHAR[]) AS o"
_TAG = "regexp_extract(o, '\"@([a-z0-9-]+)$', 1)"  # the language tag of a literal, '' for none


@dataclass(frozen=True)
class SubsetSpec:
    """What to extract: hops from the seeds, both ways.

    A node with more neighbours than `hub_limit` on one side (as subject, as object) is not expanded on that
    side (0 for no limit; seeds always are).
    """

    hops: int = 3
    hub_limit: int = 10_000
    languages: tuple[str, ...] = ()  # of labels that are kept besides untagged ones; () for all


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop: nodes expanded, triples found that no hop before had, hubs not expanded."""

    number: int
    nodes: int
    triples: int
    hubs: int


@dataclass(frozen=True, slots=True)
class Source:
    """A dump that was read: its facts, repetitions included; its bad lines, the first, and what is wrong."""

    path: Path
    bytes: int
    triples: int
    bad_lines: int
    first_bad: int | None
    message: str


@dataclass(frozen=True)
class SubsetReport:
    """What an extraction did: facts in each of the two files, and what became of seeds and dumps."""

    path: Path
    spec: SubsetSpec
    profile: str
    triples: int
    labels: int
    hops: tuple[Hop, ...]
    seeds: int
    unknown: tuple[str, ...]  # seeds that are not in the dump, or not ids
    left_out: int  # triples that the profile leaves out
    sources: tuple[Source, ...]
    seconds: float = 0.0


def extract_subset(
    seeds: Path | str,
    dumps: Sequence[Path | str],
    into: Path | str,
    spec: SubsetSpec | None = None,
    *,
    profile: str | Path | Profile = "generic",
    memory: str = "4GB",
    overwrite: bool = False,
    progress: rdf.Progress | None = None,
) -> SubsetReport:
    """Cut all triples within some hops of the seeds out of a dump, with the labels of what they name.

    Args:
        seeds: file of ids or IRIs, one a line (see `read_seed_ids`).
        dumps: files of facts and tables of labels, as `kg load` takes them.
        into: the folder to make.
        profile: of the dump. Relations that it leaves out are neither followed nor kept; labels, aliases and
            descriptions are kept, not followed.
        memory: what DuckDB may use; what does not fit goes to the disk.
        overwrite: replace the cut that the folder holds.

    Raises:
        DataError: a dump or seeds file that cannot be used. ConfigurationError: the folder holds something, a
            package is missing, settings that cannot work.
    """
    begun, paths, spec = time.perf_counter(), [Path(path) for path in dumps], spec or SubsetSpec()
    tell = progress or (lambda stage, done, total: None)
    if not paths:
        raise ConfigurationError("nothing to cut from: name at least one dump by --from")
    for path in paths:
        rdf.check_format(path)
    shape, target = load_profile(profile), Path(into).absolute()
    entities, unreadable = read_seed_ids(Path(seeds), shape)
    with scratch_folder(target, progress) as work, closing(_Tables(work, memory)) as tables:
        if is_taken(target) and not (overwrite and (target / MANIFEST).is_file()):
            remedy = "name another folder, or give --overwrite where it holds a cut"
            raise ConfigurationError(f"{target} exists already; {remedy}")
        staged = [_stage(tables, path, number, shape, tell) for number, path in enumerate(paths)]
        every = " UNION ALL ".join(f"FROM {name}" for name, _ in staged)
        tables.rows(f"CREATE OR REPLACE VIEW staged AS {every}")
        facts = _extract(tables, spec, shape, entities, tell)
        tell("writing", 0, None)
        (cut := work / "cut").mkdir()
        facts["triples"] = tables.dump("triples", cut / TRIPLES)
        facts["labels"] = tables.dump("names", cut / LABELS)
        facts["unknown"] = (*unreadable, *facts["unknown"])
        facts["sources"] = tuple(source for _, source in staged)
        seconds = round(time.perf_counter() - begun, 3)
        report = SubsetReport(path=target, spec=spec, profile=shape.name, seconds=seconds, **facts)
        # No times and no folders: the same extraction has the same manifest.
        about = {k: v for k, v in asdict(report).items() if k not in ("path", "seconds")}
        about["sources"] = [asdict(source) | {"path": source.path.name} for source in report.sources]
        write_json(cut / MANIFEST, {"version": version("triplewise"), **about}, indent=2)
        install(cut, target)
    return report


def _stage(
    tables: _Tables, path: Path, number: int, profile: Profile, tell: rdf.Progress
) -> tuple[str, Source]:
    """The table that holds a dump with the columns `s`, `p`, `o`."""
    reader, is_table = rdf.GraphReader(on_error="skip", progress=tell), rdf.suffix_of(path) == rdf.LABELS
    quads = reader.labels([path], profile) if is_table else reader.facts([path], profile, number)
    name, size = f"dump_{number}", path.stat().st_size
    count = tables.make(name, f"SELECT {_COLUMNS}", [], [], [])
    for batch in batches(((str(q.subject), str(q.predicate), str(q.object)) for q in quads), ROWS):
        tables.rows(f"INSERT INTO {name} SELECT {_COLUMNS}", *map(list, zip(*batch, strict=True)))
        count += len(batch)
    tell(f"staging {path.name}", size, size)
    line, message = next(((broken.line, broken.reason) for broken in reader.broken), (None, ""))
    return name, Source(path, size, count, reader.broken_count, line, message)


class _Tables:
    """Tables in a DuckDB database in a folder, where also goes what does not fit into `memory` (`4GB`)."""

    def __init__(self, folder: Path, memory: str) -> None:
        try:
            import duckdb
        except ImportError as error:
            remedy = "pip install 'triplewise[cut]'"
            raise ConfigurationError(f"the package {error.name} is not installed: {remedy}") from error
        config: dict[str, Any] = {"temp_directory": str(folder / "spill"), "memory_limit": memory}
        try:
            self._con = duckdb.connect(folder / "tables.duckdb", config=config)
        except duckdb.Error as error:
            raise ConfigurationError(f"memory {memory!r} is not a size; write e.g. 4GB ({error})") from error
        self._con.execute("SET preserve_insertion_order = false")
        self._duckdb, self.close = duckdb, self._con.close

    def make(self, name: str, query: str, *values: object) -> int:
        """Make or replace the table of what a query yields; return its number of rows."""
        self.rows(f"CREATE OR REPLACE TABLE {name} AS {query}", *values)
        return int(self.rows(f"SELECT COUNT(*) FROM {name}")[0][0])

    def make_column(self, name: str, column: str, values: Iterable[str]) -> None:
        """Make a table with one column of texts."""
        self.make(name, f"SELECT UNNEST(?::VARCHAR[]) AS {column}", sorted(values))

    def dump(self, table: str, path: Path) -> int:
        """Write triples as N-Triples, compressed: the same bytes for the same triples. Return how many."""
        lines = f"SELECT s || ' ' || p || ' ' || o || ' .' FROM {table} ORDER BY s, p, o"
        options = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01', COMPRESSION gzip"
        quoted = str(path).replace("'", "''")
        return int(self.rows(f"COPY ({lines}) TO '{quoted}' ({options})")[0][0])

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query yields, all at once."""
        try:
            return list(self._con.execute(query, values).fetchall())
        except self._duckdb.IOException as error:
            raise DataError(f"cannot be read or written: {error}") from error
        except self._duckdb.OutOfMemoryException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(f"too little memory ({reason}); give more by --memory") from error
        except RuntimeError as error:
            if "interrupted" in str(error).lower():  # this is how Ctrl-C reaches a query
                raise KeyboardInterrupt from error
            raise


def _extract(
    tables: _Tables, spec: SubsetSpec, profile: Profile, seeds: Sequence[IRI], tell: rdf.Progress
) -> dict[str, Any]:
    """Make the tables `triples` and `names` from `staged`, hop by hop; return what the report says of it."""
    sql = packaged("triplewise.tools.kg.subset", "cut.yaml")
    texts = {*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates}
    counts = dict(tables.rows("SELECT p, COUNT(*) FROM staged GROUP BY p"))
    naming = {relation for relation in counts if relation[1:-1] in texts}
    left_out = {r for r in counts.keys() - naming if profile.excludes(rdf.safe_iri(r[1:-1]))}
    tables.make_column("naming", "p", naming)
    tables.make_column("followed", "p", counts.keys() - naming - left_out)
    tell("finding the seeds", 0, None)
    tables.make_column("listed", "node", (iri.n3() for iri in seeds))
    nodes, hops = tables.make("seeds", sql["seeds"]), list[Hop]()
    there = {term for (term,) in tables.rows("SELECT node FROM seeds")}
    if not there:
        none = f"none of the {len(seeds):,} seeds is in the dump (the first: {seeds[0].value})"
        raise DataError(f"{none}; check the dump, and --profile (now {profile.name!r})")
    tables.make("frontier", "SELECT node FROM seeds")
    tables.make("seen", "SELECT node FROM seeds")
    tables.make("triples", "SELECT s, p, o FROM staged LIMIT 0")
    for number in range(1, spec.hops + 1):
        tell(f"hop {number}: {nodes:,} nodes", 0, None)
        tables.make("touched", sql["touched"])
        hubs = tables.make("hubs", sql["hubs"].format(limit=spec.hub_limit))
        tables.make("taken", sql["taken"])
        new = tables.make("new", "SELECT * FROM taken EXCEPT SELECT * FROM triples")
        hops.append(Hop(number, nodes, new, hubs))
        tables.rows("INSERT INTO triples SELECT * FROM new")
        if not (nodes := tables.make("frontier", sql["reached"])):
            break
        tables.rows("INSERT INTO seen SELECT * FROM frontier")
    tell("labels", 0, None)
    relations = [rdf.safe_iri(p[1:-1]) for (p,) in tables.rows("SELECT DISTINCT p FROM triples")]
    tables.make_column("carriers", "node", {i.n3() for r in relations for i in (r, profile.label_subject(r))})
    tags = ["", *(tag.lower() for tag in spec.languages)]
    languages = " OR ".join(f"{_TAG} = '{tag}' OR {_TAG} LIKE '{tag}-%'" for tag in tags)
    languages = f"({languages})" if tags[1:] else "true"
    tables.make("names", sql["names"].format(languages=languages))
    return {
        "hops": tuple(hops),
        "seeds": len(there),
        "unknown": [profile.short(iri) for iri in seeds if iri.n3() not in there],
        "left_out": sum(counts[relation] for relation in left_out),
    }


def read_seed_ids(path: Path, profile: Profile) -> tuple[tuple[IRI, ...], tuple[str, ...]]:
    """Return the entities in a file (plain, .gz, .zst or .bz2), each once, and what is not an id.

    A line is an id (`Q42`) or an IRI (with or without angle brackets). What follows a tab, or `#` and a
    space, is a comment. Raises `DataError`: no such file, no entity at all.
    """
    with rdf.opened(path) as stream:
        lines = (line.split(" #")[0].split("\t")[0].strip() for _, line in numbered_lines(stream.text, path))
        found = {form: profile.expand(form) for form in lines if form and not form.startswith("#")}
    unreadable = tuple(form for form, iri in found.items() if iri is None)
    if len(unreadable) == len(found):
        remedy = "write one id or IRI a line"
        if unreadable:
            shown = ", ".join(map(repr, unreadable[:3]))
            fix = "name the graph's by --profile, or give IRIs"
            remedy = f"{shown} are not ids of the profile {profile.name!r}; {fix}"
        raise DataError(f"no seeds found: {remedy}", path)
    return tuple(dict.fromkeys(iri for iri in found.values() if iri is not None)), unreadable
