"""Cutting the part of a graph within some hops of given entities out of a dump (ODA, section 3.2).

The result is a folder with `triples.nt.gz`, `labels.nt.gz` and `cut.json` (what was cut, from what, how),
which `triplewise kg load` takes as it is. What is under way stands in a hidden folder in it, step by step.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.load import SUBSET_MANIFEST as CUT
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.rdf import Progress
from triplewise.tools.kg.subset import hops as x
from triplewise.tools.kg.subset.engines import Engine, engine_named
from triplewise.tools.kg.subset.publish import FILES, LABELS, TRIPLES, publish, write_ntriples
from triplewise.tools.kg.subset.report import CutOrder, CutReport, Hop, Hub, manifest_of
from triplewise.tools.kg.subset.seeds import Seeds, read_seed_ids
from triplewise.tools.kg.subset.staging import Source, batches, check_dump, stage, staged_table
from triplewise.tools.kg.subset.tables import column, iri_of, kept, naming_predicates
from triplewise.tools.kg.subset.work import Facts, Work

WORK = ".work"
SHOWN = 1_000
"""Hubs and unknown seeds that the manifest lists; the rest is counted."""


def cut_kg(
    seeds: Path | str,
    dumps: Sequence[Path | str],
    into: Path | str,
    order: CutOrder | None = None,
    *,
    profile: str | Path | Profile = "generic",
    engine: str | Callable[[Path], Engine] = "duckdb",
    memory: str = "4GB",
    threads: int | None = None,
    staged: Path | str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CutReport:
    """Cut all triples within some hops of the seeds out of a dump, with the labels of what they name.

    A cut that was broken off goes on where it was when it is called again with the same arguments.

    Args:
        seeds: file of ids or IRIs, one a line, or of JSON lines (see `read_seed_ids`).
        dumps: N-Triples (.nt, also .gz, .zst, .bz2), and tables of labels (.tsv) as `kg load` takes them.
        into: the folder to make. order: what to cut.
        profile: what ids look like, which relations are followed, which name things. Relations that it leaves
            out are neither followed nor kept; labels, aliases and descriptions are kept, not followed.
        engine: `duckdb`, `spark`, or what makes an engine, given a folder for what does not fit in memory.
        memory, threads: what DuckDB may use. staged: where to keep the staged dump, for further cuts.
        overwrite: replace what the folder holds (a cut, whole or begun). progress: as for `load_kg`.

    Raises:
        DataError: a dump or seeds file that cannot be used. ConfigurationError: the folder is in use or holds
            something else, a package is missing, settings that cannot work.
    """
    order = order or CutOrder()
    paths = [Path(path) for path in dumps]
    if not paths:
        raise ConfigurationError("nothing to cut from: name at least one dump by --from")
    for path in paths:
        check_dump(path)
    shape = profile if isinstance(profile, Profile) else load_profile(profile)
    found = read_seed_ids(Path(seeds), shape)
    target = Path(into).absolute()
    make_ready(target, overwrite)
    work, store = Work(target / WORK), Work(Path(staged).absolute() if staged else target / WORK)
    with work.alone():
        spill = work.path("spill")
        running = engine(spill) if callable(engine) else engine_named(engine, spill, memory, threads)
        try:
            cut = _Cut(running, work, store, order, shape, found, progress)
            if store.folder == work.folder:
                report = cut.run(paths, target)
            else:
                with store.alone():
                    report = cut.run(paths, target)
        finally:
            running.close()
    shutil.rmtree(target / WORK, ignore_errors=True)
    return report


def make_ready(target: Path, overwrite: bool) -> None:
    """Make sure that a cut may be written into a folder.

    Raises:
        ConfigurationError: it is no folder, or holds something that may not be replaced.
    """
    if target.exists() and not target.is_dir():
        raise ConfigurationError(f"{target} is a file; name a folder to make")
    held = {path.name for path in target.iterdir()} if target.exists() else set()
    if strange := held - {*FILES, WORK}:
        raise ConfigurationError(
            f"{target} is not empty ({', '.join(sorted(strange)[:3])}); name one to make, or an empty one"
        )
    if CUT in held and not overwrite:
        raise ConfigurationError(f"{target} holds a cut already; give --overwrite, or name another folder")
    target.mkdir(parents=True, exist_ok=True)


class _Cut:
    """A cut under way."""

    def __init__(
        self,
        engine: Engine,
        work: Work,
        store: Work,
        order: CutOrder,
        profile: Profile,
        seeds: Seeds,
        progress: Progress | None,
    ) -> None:
        self.engine, self.work, self.store = engine, work, store
        self.order, self.profile, self.seeds, self.progress = order, profile, seeds, progress
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def run(self, paths: Sequence[Path], target: Path) -> CutReport:
        sources = stage(self.store, self.engine, paths, self.profile, self.progress)
        self._took("staging")
        self.work.agree("hops", self._identity(sources))
        roles = self._step("relations", "hops/roles", self._roles)
        known = self._step("finding the seeds", "hops/0", self._known_seeds)
        if not known["seeds"]:
            raise DataError(
                f"none of the {len(self.seeds.iris):,} seeds is in the dump (the first: "
                f"{self.seeds.iris[0].value}); check the dump, and --profile (now {self.profile.name!r})"
            )
        hops = []
        for number in range(1, self.order.hops + 1):
            hops.append(self._hop(number))
            if not hops[-1]["reached"]:
                break
        counts = self._step(
            "putting the hops together", "hops/triples", lambda f: self._together(f, len(hops))
        )
        self._step("labels", "hops/labels", self._labels)
        files = self._step("writing", "hops/result", self._written)
        report = self._report(target, sources, roles | known | counts, hops, files)
        publish(self.work.path("hops/result"), target, manifest_of(report, files))
        return report

    def _report(
        self, target: Path, sources: Sequence[Source], facts: Facts, hops: Sequence[Facts], files: Facts
    ) -> CutReport:
        found = tuple(
            Hop(number, hop["nodes"], facts["by_hop"].get(str(number), 0), hop["hubs"])
            for number, hop in enumerate(hops, 1)
        )
        return CutReport(
            path=target,
            order=self.order,
            profile=self.profile.name,
            engine=self.engine.name,
            triples=files[TRIPLES]["triples"],
            labels=files[LABELS]["triples"],
            hops=found,
            hub_count=sum(hop.hubs for hop in found),
            hubs=tuple(self._hubs(len(hops))),
            seeds=facts["seeds"],
            unknown=(*self.seeds.unreadable, *facts["unknown"])[:SHOWN],
            unknown_count=len(self.seeds.unreadable) + facts["unknown_count"],
            left_out=facts["left_out"],
            sources=tuple(sources),
            seconds={name: round(seconds, 3) for name, seconds in self.seconds.items()},
        )

    def _hubs(self, hops: int) -> Iterator[Hub]:
        """The hubs that the manifest lists: hop by hop, the largest first."""
        left = SHOWN
        for number in range(1, hops + 1):
            for batch in batches(self.work.path(f"hops/{number}/hubs")):
                rows = list(zip(*(c.to_pylist() for c in batch.columns), strict=True))[:left]
                yield from (Hub(number, self.profile.short(iri_of(node)), side, n) for node, side, n in rows)
                left -= len(rows)

    def _hop(self, number: int) -> Facts:
        """One hop in two steps: what stands at the frontier, then what of it is taken and where it leads."""
        frontier = self.work.path(f"hops/{number - 1}/frontier")
        nodes = (self.work.facts(f"hops/{number - 1}") or {})["reached"]
        what = f"hop {number}: {nodes:,} nodes"
        if self.work.facts(f"hops/{number}") is None:
            self._step(what, f"hops/{number}-touched", lambda folder: self._touched(folder, frontier))
        facts = self._step(what, f"hops/{number}", lambda folder: self._taken(folder, number))
        self.work.forget(f"hops/{number}-touched")
        return facts | {"nodes": nodes}

    def _touched(self, folder: Path, frontier: Path) -> Facts:
        table = x.touched(
            staged_table(self.store, self.engine),
            self.engine.read(self.work.path("hops/roles/followed")),
            self.engine.read(frontier),
            self.order.direction,
        )
        self.engine.write(table, folder)
        return {}

    def _taken(self, folder: Path, number: int) -> Facts:
        read, order = self.engine.read, self.order
        found = read(self.work.path(f"hops/{number}-touched"))
        over = None
        if order.hub_limit:
            seeds = read(self.work.path("hops/0/frontier"))
            over = self._kept(x.hubs(found, order.hub_limit, seeds), folder / "hubs")
        triples = self._kept(x.taken(found, over, order.hub_sample, order.seed), folder / "triples")
        seen = [read(self.work.path(f"hops/{n}/frontier")) for n in range(number)]
        before = seen[0].union(*seen[1:]) if len(seen) > 1 else seen[0]
        frontier = self._kept(x.reached(triples, before), folder / "frontier")
        return {
            "reached": self.engine.count(frontier),
            "hubs": self.engine.count(over) if over is not None else 0,
        }

    def _roles(self, folder: Path) -> Facts:
        """Sort the relations of the dump: followed, naming, left out."""
        triples = staged_table(self.store, self.engine)
        self._kept(triples.group_by("p").agg(n=lambda t: t.count()), folder / "counts")
        naming = naming_predicates(self.profile)
        roles: dict[str, list[str]] = {"followed": [], "naming": []}
        left_out = 0
        for batch in batches(folder / "counts"):
            for relation, number in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                if relation in naming:
                    roles["naming"].append(relation)
                elif self.profile.excludes(iri_of(relation)):
                    left_out += number
                else:
                    roles["followed"].append(relation)
        for role, relations in roles.items():
            column(self.engine, sorted(relations), "p", folder / role)
        return {"left_out": left_out} | {role: len(relations) for role, relations in roles.items()}

    def _known_seeds(self, folder: Path) -> Facts:
        wanted = column(self.engine, [iri.n3() for iri in self.seeds.iris], "node", folder / "wanted")
        triples = staged_table(self.store, self.engine)
        subjects = triples.semi_join(wanted, triples.s == wanted.node).select(node="s")
        objects = triples.semi_join(wanted, triples.o == wanted.node).select(node="o")
        self._kept(subjects.union(objects).distinct().order_by("node"), folder / "frontier")
        there = {term for batch in batches(folder / "frontier") for term in batch.column(0).to_pylist()}
        unknown = [iri for iri in self.seeds.iris if iri.n3() not in there]
        return {
            "seeds": len(there),
            "reached": len(there),
            "unknown": [self.profile.short(iri) for iri in unknown[:SHOWN]],
            "unknown_count": len(unknown),
        }

    def _together(self, folder: Path, number: int) -> Facts:
        parts = [self.engine.read(self.work.path(f"hops/{n}/triples")) for n in range(1, number + 1)]
        every = self._kept(x.first_hops(parts), folder / "all")
        counts: dict[str, int] = {}
        self._kept(every.group_by("hop").agg(n=lambda t: t.count()), folder / "counts")
        for batch in batches(folder / "counts"):
            counts |= {str(h): n for h, n in zip(*(c.to_pylist() for c in batch.columns), strict=True)}
        return {"triples": sum(counts.values()), "by_hop": counts}

    def _labels(self, folder: Path) -> Facts:
        triples = self.engine.read(self.work.path("hops/triples/all"))
        self._kept(triples.select("p").distinct(), folder / "relations")
        relations = [
            iri_of(term) for batch in batches(folder / "relations") for term in batch.column(0).to_pylist()
        ]
        carriers = {
            iri.n3() for relation in relations for iri in (relation, self.profile.label_subject(relation))
        }
        extra = column(self.engine, sorted(carriers), "node", folder / "carriers")
        named = (
            x.nodes_of(triples).union(extra, self.engine.read(self.work.path("hops/0/frontier"))).distinct()
        )
        naming = self.engine.read(self.work.path("hops/roles/naming"))
        table = x.names_of(staged_table(self.store, self.engine), naming, named, self.order.languages)
        self._kept(table, folder / "names")
        return {}

    def _written(self, folder: Path) -> Facts:
        places = {TRIPLES: "hops/triples/all", LABELS: "hops/labels/names"}
        return {
            name: write_ntriples(batches(self.work.path(place)), folder / name)
            for name, place in places.items()
        }

    def _kept(self, table: Any, folder: Path) -> Any:
        return kept(self.engine, table, folder)

    def _identity(self, sources: Sequence[Source]) -> Facts:
        """What the steps of the hops are made from."""
        order = asdict(self.order) | {"languages": list(self.order.languages)}
        seeds = "\n".join(iri.value for iri in self.seeds.iris)
        return {
            "version": version("triplewise"),
            "order": order,
            "seeds": hashlib.sha256(seeds.encode()).hexdigest(),
            "profile": hashlib.sha256(repr(self.profile).encode()).hexdigest(),
            "engine": self.engine.name,
            "sources": [[s.path.name, s.bytes, s.sha256_of_first_mib] for s in sources],
        }

    def _step(self, stage_name: str, name: str, make: Callable[[Path], Facts]) -> Facts:
        """A step, with its stage told and timed."""
        if self.progress is not None:
            self.progress(stage_name, 0, None)
        facts = self.work.step(name, make)
        self._took(stage_name.partition(":")[0])
        return facts

    def _took(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._begun
        self._begun = now
