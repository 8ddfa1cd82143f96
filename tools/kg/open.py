"""Opening a knowledge graph by what a person has: a name, a folder, a file, or an address."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import resources
from os.path import exists, isdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ValidationError

from triplewise.tools.core.addresses import whole_url, without_login
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import check_regular, kept_json
from triplewise.tools.core.taught import names_of
from triplewise.tools.kg.profile import Profile, load_profile, profile_names
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, LRUCache

if TYPE_CHECKING:
    import pyoxigraph as ox

    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.rdf import GraphReader

ProfileSource: TypeAlias = str | Path | Profile | None  # name, YAML path, or profile; None to find it
FORMAT = 3  # of a store folder: one of another version is loaded again
STORE, PROFILE, MANIFEST = "store", "profile.yaml", "manifest.json"
UNCHECKED = re.compile(rf"{PROFILE}|{MANIFEST}|.*\.lock|store/(LOCK|LOG.*)")  # edited, or changed by opening
REINDEXED = 300_000  # triples up to which names are indexed anew, in memory, when the profile was changed
DEMO = "demo"
MEMORY_BYTES = 32 * 2**20  # up to which files (as they lie on disk) are opened in memory; more is loaded once
LEAST_MEMORY = 1_280 * 2**20  # bytes of address space that opening a graph and reading its questions takes
OPENED = 8  # graphs that a process keeps open; others go once nobody uses them any longer
FIRST_LOOK = 5.0  # seconds that an endpoint has to show its first facts, by which a known graph is recognised
INDEX = "index"  # where the label index of an endpoint lies in its cache folder
DAYS = 30.0  # for which an endpoint's profile is remembered
SMALL = "graphs in memory"  # they share a cache folder: what it keeps stays good when a file changes
OTHER_NAMES = "the names in %s were indexed by another profile or version; to index them anew: triplewise %s"
_log = logging.getLogger(__name__)
_URL = re.compile(r"https?://", re.IGNORECASE)
_opened: LRUCache[tuple[object, ...], Future[KnowledgeGraph]] = LRUCache(OPENED)
_lock = threading.Lock()


def open_kg(
    source: str | Path,
    *,
    profile: ProfileSource = None,
    timeout: float = 30.0,
    limit: int = 10_000,
    connections: int | None = None,
    deadline: Deadline | None = None,
) -> KnowledgeGraph:
    """Open a knowledge graph. One process opens the same graph once: it is shared, also between threads.

    Args:
        source: `demo`, a folder made by `triplewise kg load`, a graph file or a folder of RDF files (up to 32
            MiB in memory; more is loaded into the user's cache folder the first time), or an endpoint's URL.
        profile: name, YAML path, or profile; by default a loaded folder's own, else found by the facts.
        timeout, limit: seconds that a query may take, and rows that it may return.
        connections: requests that go to an endpoint at a time, from now on (4 at first).
        deadline: of the run that it is opened for: an endpoint is not waited for beyond it.

    Raises `ConfigurationError` (unknown profile, impossible URL) or `DataError` (no graph there).
    """
    text, path = str(source), Path(source)
    written: list[Path] = []  # the same address may have another graph or index later
    if _URL.match(text):
        text = whole_url(text)
        written = [_cached(without_login(text)) / INDEX / MANIFEST]
    elif text != DEMO and exists(path):
        text = str(path.resolve())
        written = [path / MANIFEST, path / PROFILE] if is_store(path) else graph_files(path)
    times = tuple(file.stat().st_mtime_ns for file in written if file.exists())
    key = (text, times, profile if isinstance(profile, Profile) else str(profile))
    with _lock:
        future = _opened.get(key)
        if new := future is None or (future.done() and future.result().closed):
            future = _opened[key] = Future()
    if new:  # outside the lock: other graphs can be opened while this one loads
        try:
            kg = _open(source, profile, deadline)
            if taught := names_of(text):
                kg.profile = replace(kg.profile, aliases={**kg.profile.aliases, **taught})
            future.set_result(kg)
        except BaseException as error:
            _opened.pop(key, None)
            future.set_exception(error)
            raise
    kg = future.result()
    if connections is not None and kg.is_remote:
        kg.connections = connections
    return kg if (timeout, limit) == (kg.timeout, kg.limit) else kg.session(timeout=timeout, limit=limit)


class Manifest(BaseModel):
    """What stands in a store folder about it. That of the index of an endpoint has no `files`."""

    format: int
    created: str = ""
    names_by: dict[str, Any] = {}
    names: int = 0
    triples: int = 0
    files: dict[str, dict[str, int | str]] = {}  # `bytes` and `sha256`, which earlier versions did not keep
    sources: list[dict[str, Any]] = []
    broken_lines: int = 0
    seconds: float = 0.0


def is_store(folder: Path) -> bool:
    """Whether a folder holds a complete store."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path, remedy: str = "") -> Manifest:
    """The manifest of a store folder. Raises `DataError`: no store, another version's, or a damaged one."""
    path = folder / MANIFEST
    remedy = remedy or f"load the graph again: triplewise kg load FILES --into {folder} --replace"
    if not path.is_file():
        missing = f"no RDF files, and no store of triplewise (no {MANIFEST})"
        raise DataError(f"{missing}; make one with `triplewise kg load`", folder)
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise DataError(f"the manifest cannot be read ({reason}); {remedy}", path) from error
    if manifest.format != FORMAT:
        raise DataError(f"store format {manifest.format}, this version reads {FORMAT}; {remedy}", path)
    files = kept_files(folder)

    def check() -> bool:
        for name, facts in manifest.files.items():
            is_same = name in files and files[name].stat().st_size == facts.get("bytes")
            if not is_same or facts.get("sha256") not in (None, sha256(files[name])):
                raise DataError(f"is not as it was loaded: damaged; {remedy}", folder / name)
        return True

    stats = ((name, file.stat()) for name, file in files.items())
    stamp = [(name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in stats]
    kept_json([_cached(repr((folder.resolve(), stamp)), "checked")], "whole.json", math.inf, bool, check)
    return manifest


def kept_files(folder: Path) -> dict[str, Path]:
    """A store's files that stay as they were loaded, by their names."""
    files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: path for name, path in files.items() if not UNCHECKED.fullmatch(name)}


def sha256(path: Path) -> str:
    """The checksum of a file, for pyoxigraph takes all memory where it counts over a damaged table."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cached(identity: str, kind: str = "homes") -> Path:
    """The folder in the user's cache for what is worked out about a KG."""
    from platformdirs import user_cache_path

    digest = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()
    return user_cache_path("triplewise") / kind / digest[:20]


def check_address_space() -> None:
    """Raise `ConfigurationError` where the system allows so little that it would abort the process."""
    with suppress(ImportError):  # no POSIX
        from resource import RLIMIT_AS, getrlimit

        if 0 <= (allowed := getrlimit(RLIMIT_AS)[0]) < LEAST_MEMORY:
            fix = f"allow {LEAST_MEMORY >> 20:,} MiB at least, by `ulimit -v {LEAST_MEMORY >> 10}`"
            raise ConfigurationError(f"this process may take no more than {allowed >> 20:,} MiB; {fix}")


def _open(source: str | Path, profile: ProfileSource, deadline: Deadline | None) -> KnowledgeGraph:
    given = None if profile is None else load_profile(profile)
    check_address_space()
    text, path = str(source), Path(source).expanduser()
    if text == DEMO:
        folder = Path(str(resources.files("triplewise.tools.kg") / DEMO))
        shape = given or load_profile(folder / "profile.yaml")
        return _in_memory([folder / "demo.nt.gz"], [folder / "labels.tsv.gz"], shape, DEMO)
    if _URL.match(text):
        return _open_endpoint(whole_url(text), given, deadline)
    if isdir(path) and (is_store(path) or not graph_files(path)):
        return _open_folder(path, given)
    if exists(path):
        check_regular(path)
        return _open_files(path, given)
    if "://" in text:
        raise DataError(f"no address of an endpoint: {text}; it begins with http:// or https://")
    raise DataError(f"no such knowledge graph; give {DEMO!r}, a folder, a file, or an http(s) URL", path)


def _open_endpoint(url: str, given: Profile | None, deadline: Deadline | None) -> KnowledgeGraph:
    """Open an endpoint with its label index; its profile is the index's, else recognised by URL or facts."""
    from triplewise.tools.kg.endpoint import EndpointKG
    from triplewise.tools.kg.labels import LabelIndex

    kg = EndpointKG(url, given or load_profile("generic"))
    kg.cache_dirs = (_cached(without_login(url)),)
    index = kg.cache_dirs[0] / INDEX
    if is_store(index):
        manifest = read_manifest(index, "make the index again: triplewise kg index URL --force")
        kg.profile = given or load_profile(index / PROFILE)
        if manifest.names_by == kg.profile.naming():
            kg.index, kg.indexed = LabelIndex.on_disk(index), manifest.created
        else:
            _log.warning(OTHER_NAMES, kg.name, "kg index URL --force --profile FILE")
    elif given is None:
        from triplewise.tools.kg.infer import endpoint_profile

        recognise = partial(endpoint_profile, kg.session(timeout=FIRST_LOOK, deadline=deadline))
        packaged = {p.name: p for p in map(load_profile, profile_names())}
        fits = (n for n, p in packaged.items() if any(re.search(h, kg.name, re.I) for h in p.endpoint_hosts))
        if (name := next(fits, None)) is None:
            name = kept_json(() if kg.is_local else kg.cache_dirs, "profile.json", DAYS, str, recognise)
        kg.profile = packaged.get(name or "", kg.profile)
    return kg


def graph_files(path: Path) -> list[Path]:
    """A file itself, or the RDF files of a folder."""
    from triplewise.tools.kg.rdf import rdf_files

    return rdf_files(path) if path.is_dir() else [path]


def _open_folder(path: Path, given: Profile | None) -> KnowledgeGraph:
    import pyoxigraph as ox

    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.local import LocalKG, damaged

    manifest = read_manifest(path)
    profile = given or load_profile(path / PROFILE)
    try:
        store = ox.Store.read_only(str(path / STORE))
    except (OSError, RuntimeError, ValueError) as error:
        raise damaged(path, error) from error
    index = LabelIndex.on_disk(path)
    if manifest.names_by != profile.naming():
        if manifest.triples <= REINDEXED:
            index = index_of(store, profile)
        else:
            _log.warning(OTHER_NAMES, path.name, f"kg load SOURCES --into {path} --replace --profile FILE")
    kg = LocalKG(store, profile, path.name, index=index, path=path / STORE)
    kg.cache_dirs = (path.resolve(), _cached(str(path.resolve())))
    return kg


def index_of(store: ox.Store, profile: Profile, reader: GraphReader | None = None) -> LabelIndex:
    """An index in memory of the names of a store; `reader` has taken account of its facts."""
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.rdf import GraphReader, store_names

    if reader is None:
        reader = GraphReader(profile)
        for quad in store:
            reader.count(quad)
    return LabelIndex.in_memory(lambda: store_names(store, profile, reader))


def _open_files(path: Path, given: Profile | None) -> KnowledgeGraph:
    """Open the files of a graph; `path` is the file, or the folder that holds them."""
    from triplewise.tools.kg import rdf

    files = graph_files(path)
    if files == [path]:
        rdf.check_format(path)
        if rdf.suffix_of(path) == rdf.LABELS:
            fix = "load it with a graph by `triplewise kg load`"
            raise DataError(f"a table of labels holds no facts; {fix}", path)
        given = load_profile("names") if given is None and rdf.suffix_of(path) == rdf.TEXT else given
    stamps = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    if sum(size for size, _ in stamps) <= MEMORY_BYTES:
        return _in_memory(files, [], given, path.name)
    from triplewise.tools.kg.load import load_kg

    folder = _cached(repr((FORMAT, str(path.resolve()), stamps, given and given.name)), "kg")
    if is_store(folder):
        with suppress(DataError):  # damaged: it is made anew
            return _open_folder(folder, given)
    load_kg(files, folder, profile=given, replace=True)  # where another process was quicker
    return _open_folder(folder, given)


# Copies of rdflib graphs, by object, size and profile; the graphs are held so that an id stays its own.
_copies: LRUCache[tuple[object, ...], tuple[Any, KnowledgeGraph]] = LRUCache(OPENED)


def open_rdflib(graph: Any, profile: ProfileSource = None) -> KnowledgeGraph:
    """A copy of an rdflib graph in memory, made anew when its size changes. Raises as `load_profile`."""
    key = (id(graph), len(graph), profile)
    if key not in _copies:
        given = None if profile is None else load_profile(profile)
        with TemporaryDirectory() as folder:
            path = Path(folder, "graph.nt")
            graph.serialize(destination=str(path), format="nt", encoding="utf-8")
            _copies[key] = (graph, _in_memory([path], [], given, "rdflib graph"))
    return _copies[key][1]


def _in_memory(facts: list[Path], tables: list[Path], given: Profile | None, name: str) -> KnowledgeGraph:
    import pyoxigraph as ox

    from triplewise.tools.kg.local import LocalKG
    from triplewise.tools.kg.rdf import GraphReader

    reader, store = GraphReader(given), ox.Store()
    store.bulk_extend(reader.facts(facts, given))
    if (profile := given) is None:
        from triplewise.tools.kg.infer import infer_profile

        profile = infer_profile(store, reader.prefixes)
    store.bulk_extend(reader.labels(tables, profile))
    kg = LocalKG(store, profile, name, index=index_of(store, profile, reader))
    kg.cache_dirs = (_cached(SMALL),)
    return kg
