"""Extracting the part of a graph within some hops of given entities from a dump (ODA, section 3.2).

The result is a folder with `triples.nt.gz`, `labels.nt.gz` and `cut.json` (what was extracted, from what,
how), which `triplewise kg load` takes as it is; what is under way stands in a hidden folder in it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import write_json, writing
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.load import SUBSET_MANIFEST
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.rdf import Progress, Stream, numbered_lines, safe_iri
from triplewise.tools.kg.subset import staging
from triplewise.tools.kg.subset.engines import ENGINES, DuckDB, Engine, Spark
from triplewise.tools.kg.subset.staging import Facts, Source, Steps

Direction = Literal["both", "out"]
DIRECTIONS: tuple[Direction, ...] = ("both", "out")
FORMAT = 1
TRIPLES, LABELS = "triples.nt.gz", "labels.nt.gz"
WORK = ".work"
SHOWN = 1_000  # hubs and unknown seeds that the manifest lists; the rest is counted
SEED_KEYS = ("entities", "topic_entity", "entity", "id")
"""Where a JSON record may name its entities: the first of these that it has."""
_LEVEL = 4

# What a cut computes. Terms are written as N-Triples writes them, and blank nodes have become IRIs: a term is
# a node if it begins with `<`. The tables are named by `_Extraction._write`.
_SEEDS = """
SELECT s AS node FROM staged SEMI JOIN listed ON s = node
UNION SELECT o AS node FROM staged SEMI JOIN listed ON o = node ORDER BY node
"""
_TOUCHED = """
SELECT s, p, o, s AS node, 'out' AS side
FROM staged SEMI JOIN followed USING (p) SEMI JOIN frontier ON s = node
UNION SELECT s, p, o, o AS node, 'in' AS side
FROM staged SEMI JOIN followed USING (p) SEMI JOIN frontier ON o = node WHERE o LIKE '<%' AND {both}
"""
"""The triples at the nodes of a frontier, by the node and the side that it is on."""
_HUBS = """
WITH pairs AS (
    SELECT DISTINCT node, side, CASE side WHEN 'out' THEN o ELSE s END AS neighbour
    FROM touched WHERE o LIKE '<%' AND {limit} > 0
)
SELECT node, side, COUNT(*) AS neighbours FROM pairs ANTI JOIN seeds USING (node)
GROUP BY node, side HAVING COUNT(*) > {limit} ORDER BY neighbours DESC, node, side
"""
"""Nodes with more neighbours on one side than the limit (0 for none), but for seeds; the largest first."""
_TAKEN = """
SELECT s, p, o, {hop} AS hop FROM touched WHERE o NOT LIKE '<%'
UNION SELECT s, p, o, {hop} AS hop FROM touched ANTI JOIN hubs USING (node, side) WHERE o LIKE '<%'
"""
"""The triples that a hop takes: all but those of hubs; their literals all the same."""
_NODES = "SELECT s AS node FROM triples UNION SELECT o AS node FROM triples WHERE o LIKE '<%'"
_NAMES = """
WITH named AS ({nodes} UNION SELECT node FROM carriers UNION SELECT node FROM seeds)
SELECT DISTINCT s, p, o FROM staged SEMI JOIN naming USING (p) SEMI JOIN named ON s = node
WHERE {languages} ORDER BY s, p, o
"""
"""Labels, aliases and descriptions of all nodes and relations that were taken, and of the seeds."""
_TAG = "regexp_extract(o, '\"@([a-z0-9-]+)$', 1)"  # the language tag of a literal, '' for none


@dataclass(frozen=True)
class SubsetSpec:
    """What to extract.

    Attributes:
        hops: how far from the seeds, at least 1.
        direction: `both`, or `out` to follow triples from subject to object only.
        hub_limit: a node with more neighbours than this on one side (as subject, as object) is not expanded
            on that side; 0 for no limit. Seeds always are.
        languages: of labels to keep (all if empty; texts without a tag stay).
    """

    hops: int = 3
    direction: Direction = "both"
    hub_limit: int = 10_000
    languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ConfigurationError.unknown("direction", self.direction, DIRECTIONS)
        for name, least in (("hops", 1), ("hub_limit", 0)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop: nodes expanded, triples found that no hop before had, hubs not expanded."""

    number: int
    nodes: int
    triples: int
    hubs: int


@dataclass(frozen=True, slots=True)
class Hub:
    """A node that was not expanded on one side (`out`: as subject, `in`: as object), and in which hop."""

    hop: int
    id: str
    side: str
    neighbours: int


@dataclass(frozen=True)
class SubsetReport:
    """What an extraction did.

    Attributes:
        path: the folder. spec: what was asked for. profile, engine: their names.
        triples, labels: facts in each of the two files. hops: one by one.
        hub_count: nodes and sides that were not expanded. hubs: the first 1,000 of them.
        seeds: how many are in the dump. unknown, unknown_count: those that are not, or that are no ids.
        left_out: triples of relations that the profile leaves out. sources: the dumps.
        seconds: how long this run took: a step done before takes none.
    """

    path: Path
    spec: SubsetSpec
    profile: str
    engine: str
    triples: int
    labels: int
    hops: tuple[Hop, ...]
    hub_count: int
    hubs: tuple[Hub, ...]
    seeds: int
    unknown: tuple[str, ...]
    unknown_count: int
    left_out: int
    sources: tuple[Source, ...]
    seconds: float = 0.0


def extract_subset(
    seeds: Path | str,
    dumps: Sequence[Path | str],
    into: Path | str,
    spec: SubsetSpec | None = None,
    *,
    profile: str | Path | Profile = "generic",
    engine: str | Engine = "duckdb",
    memory: str = "4GB",
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> SubsetReport:
    """Cut all triples within some hops of the seeds out of a dump, with the labels of what they name.

    A cut that was broken off goes on where it was when it is called again with the same arguments.

    Args:
        seeds: file of ids or IRIs, one a line, or of JSON lines (see `read_seed_ids`).
        dumps: N-Triples (.nt, also .gz, .zst, .bz2), and tables of labels (.tsv) as `kg load` takes them.
        into: the folder to make. spec: what to extract.
        profile: what ids look like, which relations are followed, which name things. Relations that it leaves
            out are neither followed nor kept; labels, aliases and descriptions are kept, not followed.
        engine: `duckdb`, `spark`, or one that was made before; DuckDB takes the dumps apart in any case.
        memory, threads: what DuckDB may use.
        overwrite: replace what the folder holds (a cut, whole or begun). progress: as for `load_kg`.

    Raises:
        DataError: a dump or seeds file that cannot be used. ConfigurationError: the folder is in use or holds
            something else, a package is missing, settings that cannot work.
    """
    paths = [Path(path) for path in dumps]
    if not paths:
        raise ConfigurationError("nothing to cut from: name at least one dump by --from")
    for path in paths:
        staging.check_dump(path)
    shape = load_profile(profile)
    entities, unreadable = read_seed_ids(Path(seeds), shape)
    target = Path(into).absolute()
    _check_target(target, overwrite)
    steps = Steps(target / WORK)
    with ExitStack() as stack:
        stack.enter_context(steps.alone())
        duckdb = DuckDB(steps.folder / "spill", memory, threads)
        stack.callback(duckdb.close)
        if isinstance(engine, str):
            if engine not in ENGINES:
                raise ConfigurationError.unknown("engine", engine, ENGINES)
            if engine == "spark":
                stack.callback((spark := Spark()).close)
            engine = spark if engine == "spark" else duckdb
        tell = progress or (lambda stage, done, total: None)
        made = _Extraction(engine, steps, spec or SubsetSpec(), shape, entities, unreadable, tell)
        report = made.run(paths, target, duckdb)
    shutil.rmtree(target / WORK, ignore_errors=True)
    return report


def _check_target(target: Path, overwrite: bool) -> None:
    """Raise `ConfigurationError` unless a cut can be made in a folder; make the folder."""
    if target.is_file():
        raise ConfigurationError(f"{target} is a file; name a folder to make")
    names = {path.name for path in target.iterdir()} if target.exists() else set()
    if others := names - {TRIPLES, LABELS, SUBSET_MANIFEST, WORK}:
        shown = ", ".join(sorted(others)[:3])
        raise ConfigurationError(f"{target} is not empty ({shown}); name one to make, or an empty one")
    if SUBSET_MANIFEST in names and not overwrite:
        raise ConfigurationError(f"{target} holds a cut already; give --overwrite, or name another folder")
    target.mkdir(parents=True, exist_ok=True)


@dataclass
class _Extraction:
    """An extraction under way: its steps stand in `hops/` of the work folder."""

    engine: Engine
    steps: Steps
    spec: SubsetSpec
    profile: Profile
    seeds: Sequence[IRI]
    unreadable: Sequence[str]
    progress: Progress

    def run(self, paths: Sequence[Path], target: Path, duckdb: DuckDB) -> SubsetReport:
        begun = time.perf_counter()
        self._forget_others(paths)
        sources = staging.stage(self.steps, duckdb, paths, self.profile, self.progress)
        roles = self._step("relations", "roles", self._roles)
        seeds = self._step("finding the seeds", "0", self._known_seeds)
        if not seeds["reached"]:
            raise DataError(
                f"none of the {len(self.seeds):,} seeds is in the dump (the first: "
                f"{self.seeds[0].value}); check the dump, and --profile (now {self.profile.name!r})"
            )
        hops = [seeds]
        for number in range(1, self.spec.hops + 1):
            what = f"hop {number}: {hops[-1]['reached']:,} nodes"
            hops.append(self._step(what, str(number), partial(self._hop, number=number)))
            if not hops[-1]["reached"]:
                break
        last = len(hops) - 1
        by_hop = self._step("putting the hops together", "triples", partial(self._together, hops=last))
        self._step("labels", "labels", self._labels)
        files = self._step("writing", "result", self._files)
        hubs = (  # hop by hop, the largest first
            Hub(number, self.profile.short(_iri(node)), side, neighbours)
            for number in range(1, len(hops))
            for node, side, neighbours in staging.rows(self._folder(f"{number}/hubs"))
        )
        report = SubsetReport(
            path=target,
            spec=self.spec,
            profile=self.profile.name,
            engine=self.engine.name,
            triples=files[TRIPLES]["triples"],
            labels=files[LABELS]["triples"],
            hops=tuple(
                Hop(number, before["reached"], by_hop.get(str(number), 0), hop["hubs"])
                for number, (before, hop) in enumerate(pairwise(hops), 1)
            ),
            hub_count=sum(hop["hubs"] for hop in hops[1:]),
            hubs=tuple(islice(hubs, SHOWN)),
            seeds=seeds["reached"],
            unknown=(*self.unreadable, *seeds["unknown"])[:SHOWN],
            unknown_count=len(self.unreadable) + seeds["unknown_count"],
            left_out=roles["left_out"],
            sources=tuple(sources),
            seconds=round(time.perf_counter() - begun, 3),
        )
        self._publish(report, files)
        return report

    def _forget_others(self, dumps: Sequence[Path]) -> None:
        """Clear steps that were made for another extraction."""
        seeds = "\n".join(iri.value for iri in self.seeds)
        identity = {
            "version": version("triplewise"),
            "spec": asdict(self.spec) | {"languages": list(self.spec.languages)},
            "seeds": hashlib.sha256(seeds.encode()).hexdigest(),
            "profile": hashlib.sha256(repr(self.profile).encode()).hexdigest(),
            "engine": self.engine.name,
            "sources": [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in dumps],
        }
        if self.steps.facts("identity") != identity:
            for step in ("identity", staging.STAGED, "hops"):
                shutil.rmtree(self.steps.folder / step, ignore_errors=True)
            self.steps.step("identity", lambda folder: identity)

    def _hop(self, folder: Path, number: int) -> Facts:
        """What stands at the frontier of a hop, what of it is taken, and where that leads."""
        touched, hubs, triples = folder / "touched", folder / "hubs", folder / "triples"
        both = str(self.spec.direction == "both").lower()
        frontier = f"{number - 1}/frontier"
        self._write(touched, _TOUCHED.format(both=both), followed="roles/followed", frontier=frontier)
        self._write(hubs, _HUBS.format(limit=self.spec.hub_limit), touched=touched, seeds="0/frontier")
        self._write(triples, _TAKEN.format(hop=number), touched=touched, hubs=hubs)
        self.engine.name_table("before", *(self._folder(f"{n}/frontier") for n in range(number)))
        reached = f"SELECT node FROM ({_NODES}) AS nodes ANTI JOIN before USING (node)"
        self._write(folder / "frontier", reached, triples=triples)
        shutil.rmtree(touched)
        return {"reached": staging.row_count(folder / "frontier"), "hubs": staging.row_count(hubs)}

    def _roles(self, folder: Path) -> Facts:
        """Sort the relations of the dump: followed, naming, left out."""
        self._write(folder / "counts", "SELECT p, COUNT(*) AS n FROM staged GROUP BY p")
        profile = self.profile
        texts = (*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates)
        followed, naming, left_out = [], [], 0
        for relation, number in staging.rows(folder / "counts"):
            if relation[1:-1] in texts:
                naming.append(relation)
            elif profile.excludes(_iri(relation)):
                left_out += number
            else:
                followed.append(relation)
        staging.write_column(sorted(followed), "p", folder / "followed")
        staging.write_column(sorted(naming), "p", folder / "naming")
        return {"left_out": left_out}

    def _known_seeds(self, folder: Path) -> Facts:
        staging.write_column([iri.n3() for iri in self.seeds], "node", folder / "listed")
        self._write(folder / "frontier", _SEEDS, listed=folder / "listed")
        there = {term for (term,) in staging.rows(folder / "frontier")}
        unknown = [self.profile.short(iri) for iri in self.seeds if iri.n3() not in there]
        return {"reached": len(there), "unknown": unknown[:SHOWN], "unknown_count": len(unknown)}

    def _together(self, folder: Path, hops: int) -> Facts:
        """Put the triples of all hops into one table; how many each hop was the first to take."""
        self.engine.name_table("by_hop", *(self._folder(f"{n}/triples") for n in range(1, hops + 1)))
        every = "SELECT s, p, o, MIN(hop) AS hop FROM by_hop GROUP BY s, p, o ORDER BY s, p, o"
        self._write(folder / "all", every)
        counts = "SELECT hop, COUNT(*) AS n FROM triples GROUP BY hop"
        self._write(folder / "counts", counts, triples=folder / "all")
        return {str(hop): n for hop, n in staging.rows(folder / "counts")}

    def _labels(self, folder: Path) -> Facts:
        self._write(folder / "relations", "SELECT DISTINCT p FROM triples", triples="triples/all")
        relations = [_iri(term) for (term,) in staging.rows(folder / "relations")]
        carriers = {iri.n3() for r in relations for iri in (r, self.profile.label_subject(r))}
        staging.write_column(sorted(carriers), "node", folder / "carriers")
        tags = ["", *(tag.lower() for tag in self.spec.languages)]
        languages = " OR ".join(f"{_TAG} = '{tag}' OR {_TAG} LIKE '{tag}-%'" for tag in tags)
        self._write(
            folder / "names",
            _NAMES.format(nodes=_NODES, languages=f"({languages})" if tags[1:] else "true"),
            triples="triples/all",
            carriers=folder / "carriers",
            naming="roles/naming",
            seeds="0/frontier",
        )
        return {}

    def _files(self, folder: Path) -> Facts:
        places = {TRIPLES: self._folder("triples/all"), LABELS: self._folder("labels/names")}
        return {name: _write_ntriples(place, folder / name) for name, place in places.items()}

    def _publish(self, report: SubsetReport, files: Facts) -> None:
        """Move the files into place: the old manifest goes first, the new one comes last."""
        target, result = report.path, self._folder("result")
        facts = {k: v for k, v in asdict(report).items() if k not in ("path", "seconds")}
        # No times and no folders: the same extraction has the same manifest.
        facts["sources"] = [asdict(source) | {"path": source.path.name} for source in report.sources]
        manifest = {"format": FORMAT, "version": version("triplewise"), **facts, "files": files}
        with writing(target):
            (target / SUBSET_MANIFEST).unlink(missing_ok=True)
            for name in (TRIPLES, LABELS):  # what was moved before stays moved
                if (result / name).exists() or not (target / name).exists():
                    (result / name).replace(target / name)
            write_json(target / SUBSET_MANIFEST, manifest, indent=2)

    def _folder(self, step: str) -> Path:
        return self.steps.folder / "hops" / step

    def _write(self, folder: Path, query: str, **tables: str | Path) -> None:
        """Write what a query yields, over `staged` (all triples) and tables by step or folder."""
        self.engine.name_table("staged", self.steps.folder / staging.STAGED)
        for name, place in tables.items():
            self.engine.name_table(name, self._folder(place) if isinstance(place, str) else place)
        folder.mkdir(parents=True, exist_ok=True)
        self.engine.write(query, folder)

    def _step(self, stage_name: str, name: str, make: Callable[[Path], Facts]) -> Facts:
        self.progress(stage_name, 0, None)
        return self.steps.step(f"hops/{name}", make)


def _write_ntriples(table: Path, path: Path) -> Facts:
    """Write triples (`s`, `p`, `o`) as N-Triples, compressed: the same bytes for the same triples."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total, kind = 0, pa.large_string()
    with path.open("wb") as raw:
        with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
            for batch in staging.batches(table):
                columns = [batch.column(name).cast(kind) for name in ("s", "p", "o")]
                lines = pc.binary_join_element_wise(*columns, pa.scalar(".\n", kind), pa.scalar(" ", kind))
                file.write("".join(lines.to_pylist()).encode())
                total += batch.num_rows
        raw.flush()
        os.fsync(raw.fileno())
    with path.open("rb") as done:
        digest = hashlib.file_digest(done, "sha256").hexdigest()
    return {"triples": total, "bytes": path.stat().st_size, "sha256": digest}


def read_seed_ids(path: Path, profile: Profile) -> tuple[tuple[IRI, ...], tuple[str, ...]]:
    """The entities that a file names (plain, .gz, .zst or .bz2), each once, and what is no id of this graph.

    A line is an id (`Q42`), an IRI (with or without angle brackets), or a JSON object with `entities`,
    `topic_entity`, `entity` or `id`: an id, a list of ids, or a mapping with ids on either side. What follows
    `#` and a space is a comment.

    Raises:
        DataError: no such file; a line that is no JSON, with its number; no entity at all.
    """
    iris, unreadable = dict[IRI, None](), dict[str, None]()
    for forms in _entries(path):
        iri = next(filter(None, (profile.expand(form) for form in forms)), None)
        if iri is None:
            unreadable[forms[-1]] = None
        else:
            iris[iri] = None
    if not iris:
        shown = ", ".join(repr(form) for form in list(unreadable)[:3])
        remedy = (
            f"{shown} are no ids in the profile {profile.name!r}; name the graph's by --profile, or give IRIs"
            if unreadable
            else "write one id or IRI a line, or JSON lines with `entities` or `id`"
        )
        raise DataError(f"no seeds found: {remedy}", path)
    return tuple(iris), tuple(unreadable)


def _entries(path: Path) -> Iterator[tuple[str, ...]]:
    """Each entity of a file, as the forms to try in order."""
    with Stream(path) as stream:
        for number, raw in numbered_lines(stream):
            line = raw.strip()
            if not line.startswith("{"):
                if line and not line.startswith("#"):
                    yield (line.split(" #")[0].split("\t")[0].strip(),)
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"no JSON ({error})", path, number) from error
            key = next((key for key in SEED_KEYS if record.get(key) is not None), None)
            if key is None:
                raise DataError(f"a record without any of: {', '.join(SEED_KEYS)}", path, number)
            if isinstance(value := record[key], dict):
                for left, right in value.items():
                    yield (str(right), str(left)) if isinstance(right, str) else (str(left),)
            else:
                yield from ((str(form),) for form in (value if isinstance(value, list) else [value]))


def _iri(term: str) -> IRI:
    return safe_iri(term[1:-1])
