"""Loading graph files into a store on disk, with its label index.

The store is built in a hidden folder next to its target and moved there in one step: a load that dies leaves
no half store, and the next load removes its files.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from typing import Any, Literal as OneOf

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive, make_folder, write_json, writing
from triplewise.tools.kg import open as opening, rdf
from triplewise.tools.kg.infer import infer_profile
from triplewise.tools.kg.labels import build_label_index
from triplewise.tools.kg.open import MANIFEST, PROFILE, STORE, is_store
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.rdf import GraphReader, Progress

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did: distinct facts in the store (labels included) and names in its index."""

    path: Path
    profile: Profile  # given or inferred
    triples: int
    names: int
    broken: tuple[DataError, ...]  # the first 100 of `broken_count` broken lines
    broken_count: int
    seconds: float


def load_kg(
    sources: Sequence[Path | str],
    into: Path | str,
    *,
    profile: str | Path | Profile | None = None,
    on_error: OneOf["skip", "stop"] = "stop",
    progress: Progress | None = None,
    replace: bool = False,
) -> LoadReport:
    """Load files into a new store folder: `store/` (pyoxigraph), `names/` (labels), profile and manifest.

    Waits while another process loads into the same folder.

    Args:
        sources: RDF files, `subject|relation|object` text (.txt) and label tables (.tsv: id, label[,
            description[, aliases separated by |]]), which become facts; plain, .gz, .zst or .bz2; or folders.
        profile: name, YAML path, or profile; inferred from the graph if None.
        on_error: whether a broken line stops the load or is reported and left out.
        progress: called with stage, done, total (bytes of the file being read, or names; total may be None).
        replace: whether a store that is already there may be replaced (it stays in use until the end).

    Raises `DataError` (a source that cannot be used, by file and line; a full disk) or `ConfigurationError`
    (`into` exists, or nothing to load).
    """
    paths, tables = _files_of(sources)
    target, started = Path(into).absolute(), time.time()
    described = [{"name": path.name, "bytes": path.stat().st_size} for path in (*paths, *tables)]
    with scratch_folder(target, progress) as folder:
        if is_store(target) and (target / MANIFEST).stat().st_mtime >= started:
            done = opening.read_manifest(target)
            if done.sources == described:  # another process has loaded it while this one waited
                counts = done.triples, done.names, (), done.broken_lines, done.seconds
                return LoadReport(target, load_profile(target / PROFILE), *counts)
        if is_taken(target) and not (replace and is_store(target)):
            remedy = "--replace (in Python replace=True) replaces it"
            remedy = remedy if is_store(target) else "choose another place"
            raise ConfigurationError(f"{target} exists already; {remedy}")
        if profile is None and rdf.TEXT in map(rdf.suffix_of, paths):
            profile = "names"
        shape, start = None if profile is None else load_profile(profile), time.perf_counter()
        reader = GraphReader(shape, on_error, progress)
        store = ox.Store(str(folder / STORE))
        store.bulk_extend(reader.facts(paths, shape))
        reader.tell("finding out the shape of the graph", 0, None)
        used = shape or infer_profile(store, reader.prefixes)
        if tables:
            store.bulk_extend(reader.labels(tables, used))
        reader.tell("optimising", 0, None)
        store.optimize()
        store.flush()
        every = rdf.store_names(store, used, reader)
        names = build_label_index(folder, every, lambda done: reader.tell("indexing labels", done, None))
        triples, seconds = len(store), time.perf_counter() - start
        del store  # its files are whole once it is closed
        kept = opening.kept_files(folder).items()
        sums = {name: {"bytes": file.stat().st_size, "sha256": opening.sha256(file)} for name, file in kept}
        about: dict[str, Any] = {"profile": used.name, "triples": triples, "names": names, "files": sums}
        about |= {"sources": described, "broken_lines": reader.broken_count, "seconds": round(seconds, 2)}
        finish(folder, target, used, about)
    return LoadReport(target, used, triples, names, tuple(reader.broken), reader.broken_count, seconds)


def _files_of(sources: Sequence[Path | str]) -> tuple[list[Path], list[Path]]:
    """The files of sources, those in folders too: with facts, and tables of labels."""
    given = list[Path]()
    for path in map(Path, sources):
        if not (files := rdf.rdf_files(path) if isdir(path) else [path]):
            raise DataError(f"a folder without RDF files ({' '.join(rdf.FORMATS)})", path)
        given += files
    for path in given:
        rdf.check_format(path)
    tables = [path for path in given if rdf.suffix_of(path) == rdf.LABELS]
    if not (paths := [path for path in given if path not in tables]):
        raise ConfigurationError("nothing to load: name at least one file with facts")
    return paths, tables


def finish(folder: Path, target: Path, profile: Profile, about: Mapping[str, Any]) -> None:
    """Add the profile and a manifest, which says more `about` it, to a folder that was built; install it."""
    profile.dump(folder / PROFILE)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # What is in the index: the profile may be edited later.
    manifest = {"format": opening.FORMAT, "created": created, "names_by": profile.naming(), **about}
    write_json(folder / MANIFEST, manifest, indent=2)
    install(folder, target)


def install(folder: Path, target: Path) -> None:
    """Move a folder that was built into place; an old one goes once the new one stands."""
    old = target.parent / f".{target.name}.old-{folder.name.rpartition('-')[2]}"
    if is_taken(target):
        target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def scratch_folder(target: Path, progress: Progress | None) -> Iterator[Path]:
    """A folder next to the target to build in, gone afterwards; other loads of the same target wait."""

    def waiting() -> None:
        _log.warning(message := f"waiting for another process that makes {target.name}")
        if progress is not None:
            progress(message, 0, None)

    with ExitStack() as stack:
        with writing(target):
            make_folder(target.parent)
            stack.enter_context(exclusive(target.parent / f".{target.name}.lock", waiting))
        for old in target.parent.glob(f".{target.name}.old-*"):
            if target.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:  # the load died between its two renames: the old store is still whole
                old.rename(target)
        for leftover in target.parent.glob(f".{target.name}.loading-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.loading-", dir=target.parent))
        folder.chmod(0o755)
        try:
            with writing(target):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def is_taken(path: Path) -> bool:
    """Whether there is something at a path, other than an empty folder."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))
