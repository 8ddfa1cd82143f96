"""Loading graph files into a store on disk, with its label index.

The store is built in a hidden folder beside its place, its manifest is written last, and the folder is moved
into place in one step: a load that dies leaves no half store, and the next load clears away what it left.

A store folder holds `store/` (pyoxigraph), `labels.sqlite` and `fuzzy/` (label index), `adjacency/` (for
paths), `profile.yaml`, and `manifest.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg import labels_disk
from triplewise.tools.kg import sources as files
from triplewise.tools.kg.infer import infer_profile
from triplewise.tools.kg.naming import describer, named
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.sources import Broken, Feed, Progress, feed_for

FORMAT = 1
JOINING = "joining nodes"
"""The stage that makes path searches quick."""
STORE, ADJACENCY, PROFILE, MANIFEST = "store", "adjacency", "profile.yaml", "manifest.json"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did.

    Attributes:
        path: the store's folder. profile: the profile it was given or that was inferred.
        triples: distinct facts in the store, labels included. names: labels and aliases in the index.
        broken: the first 100 broken lines. broken_count: how many there were.
        seconds: how long it took.
    """

    path: Path
    profile: Profile
    triples: int
    names: int
    broken: tuple[Broken, ...]
    broken_count: int
    seconds: float


def load_kg(
    sources: Sequence[Path | str],
    into: Path | str,
    *,
    profile: str | Path | Profile | None = None,
    labels: Sequence[Path | str] = (),
    on_error: OneOf["skip", "stop"] = "stop",
    progress: Progress | None = None,
    replace: bool = False,
) -> LoadReport:
    """Load files into a new store folder.

    Args:
        sources: N-Triples, N-Quads, Turtle, TriG, RDF/XML, `subject|relation|object` text (.txt) and label
            tables (.tsv: id, label[, description[, aliases separated by |]]); plain, .gz, .zst or
            .bz2; or folders made by `triplewise kg cut`.
        into: the folder to make.
        profile: name, YAML path, or profile; inferred from the graph if None.
        labels: further label tables. Labels become facts of the graph, so that any query sees them.
        on_error: whether a broken line stops the load or is reported and left out.
        progress: called with stage, done, total (bytes of the file being read, or names; total may be None).
        replace: whether a store that is already there may be replaced (it stays in use until the end).

    Raises:
        DataError: a source that cannot be used (names file and line), a full disk.
        ConfigurationError: `into` exists, another load is writing it, or nothing to load.
    """
    paths, tables = _sort_out(sources, labels)
    target = Path(into).absolute()
    with _sole_writer(target):
        if target.exists() and not (replace and is_store(target)) and not _is_empty_folder(target):
            mend = "pass replace=True to replace it" if is_store(target) else "choose another place"
            raise ConfigurationError(f"{target} exists already; {mend}")
        with _scratch(target) as folder:
            given = _profile(profile, paths)
            report = _build(folder, target, paths, tables, given, feed_for(given, on_error, progress))
            _move(folder, target)
    return report


def is_store(folder: Path) -> bool:
    """Whether a folder holds a complete store."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store folder.

    Raises:
        DataError: not a store, or one that another version wrote.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            "no store of triplewise (no manifest.json); make one with `triplewise kg load`", folder
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the manifest cannot be read ({error}); load the graph again", path) from error
    if version != FORMAT:
        raise DataError(f"store format {version}, this version reads {FORMAT}; load the graph again", path)
    return dict(manifest)


def _sort_out(sources: Sequence[Path | str], labels: Sequence[Path | str]) -> tuple[list[Path], list[Path]]:
    given = [file for path in sources for file in files.within(Path(path))]
    tables = [Path(path) for path in labels]
    for path in (*given, *tables):
        files.check(path)
    facts = [path for path in given if not files.is_labels(path)]
    tables += [path for path in given if files.is_labels(path)]
    if not facts:
        raise ConfigurationError("nothing to load: name at least one file with facts")
    return facts, tables


def _profile(given: str | Path | Profile | None, paths: Sequence[Path]) -> Profile | None:
    """The profile to load with; None where it is to be inferred from the graph."""
    if given is None and any(files.is_text(path) for path in paths):
        return load_profile("names")
    return given if given is None or isinstance(given, Profile) else load_profile(given)


def _build(
    folder: Path,
    target: Path,
    paths: Sequence[Path],
    tables: Sequence[Path],
    given: Profile | None,
    feed: Feed,
) -> LoadReport:
    start = time.perf_counter()
    store = ox.Store(str(folder / STORE))
    store.bulk_extend(feed.facts(paths, given))
    feed.tell("finding out the shape of the graph")
    profile = given or infer_profile(store, feed.prefixes)
    if tables:
        store.bulk_extend(feed.labels(tables, profile))
    feed.tell("optimising")
    store.optimize()
    store.flush()
    names = labels_disk.build(
        folder,
        named(store, profile, feed),
        feed.popularity,
        describer(store, profile),
        lambda done: feed.tell("indexing labels", done),
    )
    triples = len(store)
    _join(store, profile, folder, triples, feed)
    del store  # closes it: the folder is about to move
    profile.dump(folder / PROFILE)
    seconds = time.perf_counter() - start
    report = LoadReport(target, profile, triples, names, tuple(feed.broken), feed.broken_count, seconds)
    _write_manifest(folder, report, [*paths, *tables])
    return report


def _join(store: ox.Store, profile: Profile, folder: Path, triples: int, feed: Feed) -> None:
    from triplewise.tools.kg.adjacency import build  # brings numpy, which opening a store can do without

    feed.tell(JOINING, 0, triples)
    build(store, profile, folder / ADJACENCY, triples, lambda done: feed.tell(JOINING, done, triples))


def _write_manifest(folder: Path, report: LoadReport, paths: Sequence[Path]) -> None:
    manifest = {
        "format": FORMAT,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "profile": report.profile.name,
        "triples": report.triples,
        "names": report.names,
        "broken_lines": report.broken_count,
        "seconds": round(report.seconds, 2),
        "sources": [{"name": path.name, "bytes": path.stat().st_size} for path in paths],
    }
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())


def _move(folder: Path, target: Path) -> None:
    """Put the finished folder in its place; an old store steps aside and goes once the new one stands."""
    if not target.exists() or _is_empty_folder(target):
        folder.rename(target)
        return
    old = _beside(target, "old", folder.name.rpartition("-")[2])
    target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A folder beside the target to build in, removed if the building fails."""
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.loading-", dir=target.parent))
    folder.chmod(0o755)
    try:
        yield folder
    except OSError as error:
        raise DataError(f"the store cannot be written: {error.strerror or error}", target) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _sole_writer(target: Path) -> Iterator[None]:
    """Keep other loads of the same target out, and clear away what dead ones left.

    The lock goes with the process, however it ends, so whoever holds it knows that leftovers are dead.
    """
    path = target.parent / f".{target.name}.lock"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", target) from error
    with file:
        if not (_lock(file.fileno()) and _is_same_file(file.fileno(), path)):
            raise ConfigurationError(f"another load is writing {target}; wait for it to end")
        try:
            _clear(target)
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def _clear(target: Path) -> None:
    for old in target.parent.glob(f".{target.name}.old-*"):
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:  # the load died between its two renames: the old store is still whole
            old.rename(target)
    for leftover in target.parent.glob(f".{target.name}.loading-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file; False if another process holds it (True where there are no locks)."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Whether a locked file still stands at its path: the load before may have removed it meanwhile."""
    return path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())


def _beside(target: Path, what: str, mark: str) -> Path:
    return target.parent / f".{target.name}.{what}-{mark}"


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
