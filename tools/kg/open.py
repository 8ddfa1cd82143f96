"""Opening a knowledge graph by what a person has: a name, a folder, a file, or an address."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.profile import Profile, load_profile, profile_names
from triplewise.tools.kg.protocol import KnowledgeGraph, LRUCache

if TYPE_CHECKING:
    from triplewise.tools.kg.adjacency import Adjacency

FORMAT = 1
STORE, ADJACENCY, PROFILE, MANIFEST = "store", "adjacency", "profile.yaml", "manifest.json"
"""What a store folder holds, and the version of it."""
DEMO = "demo"
MEMORY_BYTES = 32 * 2**20
"""Files up to this size (as they lie on disk) are opened in memory; larger ones are loaded to disk once."""
OPENED = 8
"""Graphs that a process keeps open; others go once nobody uses them any longer."""
SMALL = "graphs in memory"
"""What small graphs keep in the cache is kept together: it stays good when a file changes or moves."""

_URL = re.compile(r"https?://", re.IGNORECASE)
_opened: LRUCache[tuple[object, ...], Future[KnowledgeGraph]] = LRUCache(OPENED)
_lock = threading.Lock()


def open_kg(
    source: str | Path,
    *,
    profile: str | Path | Profile | None = None,
    timeout: float = 30.0,
    limit: int = 10_000,
) -> KnowledgeGraph:
    """Open a knowledge graph. One process opens the same graph once: it is shared, also between threads.

    Args:
        source: `demo` (the graph that comes with the package), a folder made by `triplewise kg load`, a graph
            file (up to 32 MiB in memory; a larger one is loaded into the user's cache folder the first time),
            or the http(s) URL of a SPARQL 1.1 endpoint.
        profile: name, YAML path, or profile. By default the one stored with a folder, inferred for a file,
            told by the URL for an endpoint (else `generic`).
        timeout: seconds that a query may take. limit: rows that it may return. Graphs opened with other ones
            share all else.

    Raises:
        ConfigurationError: unknown profile, impossible URL.
        DataError: no such path, or a folder or file that holds no graph; says what to do.
    """
    text, path = str(source), Path(source)
    key: tuple[object, ...] = (text, profile if isinstance(profile, Profile) else str(profile))
    if text != DEMO and not _URL.match(text) and path.exists():  # the same path may hold another graph later
        written = path / MANIFEST if is_store(path) else path
        key = (str(path.resolve()), written.stat().st_mtime_ns, *key[1:])
    with _lock:
        future = _opened.get(key)
        if new := future is None or (future.done() and future.result().closed):
            future = _opened[key] = Future()
    if new:  # outside the lock: other graphs can be opened while this one loads
        try:
            future.set_result(_open(source, profile))
        except BaseException as error:
            _opened.pop(key, None)
            future.set_exception(error)
            raise
    kg = future.result()
    same = (timeout, limit) == (kg.timeout, kg.limit)
    return kg if same else kg.session(timeout=timeout, limit=limit)


def close_all() -> None:
    """Close every graph that `open_kg` keeps open in this process."""
    for key in _opened:
        if (future := _opened.pop(key, None)) is not None:
            future.result().close()


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


def _cached(identity: str, kind: str = "homes") -> Path:
    """The folder in the user's cache for what is worked out about a KG."""
    from platformdirs import user_cache_path

    return user_cache_path("triplewise") / kind / hashlib.sha256(identity.encode()).hexdigest()[:20]


def _open(source: str | Path, profile: str | Path | Profile | None) -> KnowledgeGraph:
    given = None if profile is None else load_profile(profile)
    text, path = str(source), Path(source).expanduser()
    if text == DEMO:
        folder = resources.files("triplewise.tools.kg") / DEMO
        with ExitStack() as stack:
            facts, labels, yaml = (
                stack.enter_context(resources.as_file(folder / name))
                for name in ("demo.nt.gz", "labels.tsv.gz", "profile.yaml")
            )
            return _in_memory([facts], [labels], given or load_profile(yaml), DEMO)
    if _URL.match(text):
        from triplewise.tools.kg.endpoint import EndpointKG

        packaged = (load_profile(name) for name in profile_names() if given is None)
        fits = (p for p in packaged if any(re.search(host, text, re.IGNORECASE) for host in p.endpoint_hosts))
        shape = given or next(fits, load_profile("generic"))
        endpoint = EndpointKG(text, shape)
        endpoint.cache_dirs = (_cached(endpoint.name),)  # its URL without any login
        return endpoint
    if path.is_dir():
        return _open_folder(path, given)
    if path.is_file():
        return _open_file(path, given)
    raise DataError(f"no such knowledge graph; give {DEMO!r}, a folder, a file, or an http(s) URL", path)


def _open_folder(path: Path, given: Profile | None) -> KnowledgeGraph:
    import pyoxigraph as ox

    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.labels import LabelIndex

    triples = int(read_manifest(path)["triples"])
    profile = given or load_profile(path / PROFILE)
    try:
        store = ox.Store.read_only(str(path / STORE))
    except OSError as error:
        raise DataError(f"the store is damaged ({error}); load the graph again", path) from error

    def adjacency() -> Adjacency | None:
        from triplewise.tools.kg.adjacency import open_adjacency  # brings numpy

        return open_adjacency(path / ADJACENCY, triples)

    kg = EmbeddedKG(
        store,
        profile,
        path.name,
        index=LabelIndex.on_disk(path),
        adjacency=adjacency,
    )
    kg.cache_dirs = (path.resolve(), _cached(str(path.resolve())))
    return kg


def _open_file(path: Path, given: Profile | None) -> KnowledgeGraph:
    from triplewise.tools.kg import rdf

    rdf.check_format(path)
    if rdf.is_label_table(path):
        raise DataError(
            "a table of labels holds no facts; load it with a graph by `triplewise kg load`", path
        )
    if given is None and rdf.is_text(path):
        given = load_profile("names")
    if (facts := path.stat()).st_size <= MEMORY_BYTES:
        return _in_memory([path], [], given, path.name)
    from triplewise.tools.kg.load import load_kg

    profile = given.name if given else ""
    folder = _cached(f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{profile}", "kg")
    if not is_store(folder):
        try:
            load_kg([path], folder, profile=given)
        except ConfigurationError:  # another process has loaded it while this one waited
            if not is_store(folder):
                raise
    return _open_folder(folder, given)


_copies: LRUCache[tuple[object, ...], tuple[Any, KnowledgeGraph]] = LRUCache(OPENED)
"""Copies of rdflib graphs, by object, size and profile; the graphs are held so that an id stays its own."""


def open_rdflib(graph: Any, profile: str | Path | Profile | None = None) -> KnowledgeGraph:
    """A copy of an rdflib graph in memory, made once for each graph and again when its size has changed.

    Raises `ConfigurationError` for an unknown profile.
    """
    key = (id(graph), len(graph), profile)
    if (earlier := _copies.get(key)) is not None:
        return earlier[1]
    given = None if profile is None else load_profile(profile)
    with TemporaryDirectory() as folder:
        path = Path(folder, "graph.nt")
        graph.serialize(destination=str(path), format="nt", encoding="utf-8")
        copy = _in_memory([path], [], given, "rdflib graph")
    _copies[key] = (graph, copy)
    return copy


def _in_memory(
    facts: Sequence[Path],
    tables: Sequence[Path],
    given: Profile | None,
    name: str,
) -> KnowledgeGraph:
    import pyoxigraph as ox

    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.rdf import GraphReader, describer, node_names

    reader, store = GraphReader(given), ox.Store()
    store.bulk_extend(reader.facts(facts, given))
    if (profile := given) is None:
        from triplewise.tools.kg.infer import infer_profile

        profile = infer_profile(store, reader.prefixes)
    store.bulk_extend(reader.labels(tables, profile))
    index = LabelIndex.in_memory(
        lambda: node_names(store, profile, reader), reader.popularity, describer(store, profile)
    )
    kg = EmbeddedKG(store, profile, name, index=index)
    kg.cache_dirs = (_cached(SMALL),)
    return kg
