"""Opening a knowledge graph by what a person has: a name, a folder, a file, or an address."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.profile import Profile, load_profile, profile_names
from triplewise.tools.kg.protocol import KnowledgeGraph

if TYPE_CHECKING:
    import pyoxigraph as ox

    from triplewise.tools.kg.engine import Engine
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.sources import Feed

DEMO = "demo"
MEMORY_BYTES = 32 * 2**20
"""Files up to this size (as they lie on disk) are opened in memory; larger ones are loaded to disk once."""

SMALL = "graphs in memory"
"""What small graphs keep in the cache is kept together: it stays good when a file changes or moves."""

_URL = re.compile(r"https?://", re.IGNORECASE)
_opened: dict[tuple[object, ...], Engine] = {}
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
        timeout: seconds that a query may take. limit: rows that it may return.

    Raises:
        ConfigurationError: unknown profile, impossible URL.
        DataError: no such path, or a folder or file that holds no graph; says what to do.
    """
    key = (*_identity(source), profile if isinstance(profile, Profile) else str(profile), timeout, limit)
    with _lock:
        known = _opened.get(key)
        if known is None or known.closed:  # somebody closed the shared graph
            known = _opened[key] = _open(source, profile, timeout, limit)
        return known


def close_all() -> None:
    """Close every graph that `open_kg` opened in this process."""
    with _lock:
        while _opened:
            _opened.popitem()[1].close()


def _identity(source: str | Path) -> tuple[object, ...]:
    """What makes two sources the same graph: for paths, also when they were last written."""
    text = str(source)
    path = Path(text)
    if text == DEMO or _URL.match(text) or not path.exists():
        return (text,)
    mark = path / "manifest.json" if (path / "manifest.json").exists() else path
    return (str(path.resolve()), mark.stat().st_mtime_ns)


def _cached(mark: str) -> Path:
    """The folder in the user's cache for what is worked out about a KG."""
    from platformdirs import user_cache_path

    return user_cache_path("triplewise") / "homes" / hashlib.sha256(mark.encode()).hexdigest()[:20]


def _open(source: str | Path, profile: str | Path | Profile | None, timeout: float, limit: int) -> Engine:
    given = profile if profile is None or isinstance(profile, Profile) else load_profile(profile)
    text = str(source)
    if text == DEMO:
        return _open_demo(given, timeout, limit)
    if _URL.match(text):
        return _open_endpoint(text, given, timeout, limit)
    path = Path(text).expanduser()
    if path.is_dir():
        return _open_folder(path, given, timeout, limit)
    if path.is_file():
        return _open_file(path, given, timeout, limit)
    raise DataError(f"no such knowledge graph; give {DEMO!r}, a folder, a file, or an http(s) URL", path)


def _open_endpoint(url: str, given: Profile | None, timeout: float, limit: int) -> Engine:
    from triplewise.tools.kg.endpoint import EndpointKG

    kg = EndpointKG(url, given or _profile_of(url), timeout=timeout, limit=limit)
    kg.homes = (_cached(kg.name),)  # its URL without any login
    return kg


def _profile_of(url: str) -> Profile:
    """The packaged profile whose endpoints look like this one, else `generic`."""
    profiles = [load_profile(name) for name in profile_names()]
    fits = (p for p in profiles if any(re.search(host, url, re.IGNORECASE) for host in p.endpoint_hosts))
    return next(fits, load_profile("generic"))


def _open_folder(path: Path, given: Profile | None, timeout: float, limit: int) -> Engine:
    import pyoxigraph as ox

    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.joined import Joined
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.load import ADJACENCY, PROFILE, STORE, read_manifest

    manifest = read_manifest(path)
    profile = given or load_profile(path / PROFILE)
    try:
        store = ox.Store.read_only(str(path / STORE))
    except OSError as error:
        raise DataError(f"the store is damaged ({error}); load the graph again", path) from error
    index = LabelIndex.on_disk(path)
    kg = EmbeddedKG(store, profile, path.name, timeout=timeout, limit=limit, index=index)
    kg.joined = Joined(path / ADJACENCY, int(manifest["triples"]))
    kg.homes = (path.resolve(), _cached(str(path.resolve())))
    return kg


def _open_file(path: Path, given: Profile | None, timeout: float, limit: int) -> Engine:
    from triplewise.tools.kg import sources

    sources.check(path)
    if sources.is_labels(path):
        raise DataError(
            "a table of labels holds no facts; load it with a graph by `triplewise kg load`", path
        )
    if path.stat().st_size > MEMORY_BYTES:
        return _open_folder(_cached_store(path, given), given, timeout, limit)
    if given is None and sources.is_text(path):
        given = load_profile("names")
    return _in_memory([path], [], given, path.name, timeout, limit)


def _cached_store(path: Path, given: Profile | None) -> Path:
    """The folder in the user's cache with this file's store, loaded now if it is new or has changed."""
    from platformdirs import user_cache_path

    from triplewise.tools.kg.load import is_store, load_kg

    facts = path.stat()
    mark = f"{path.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{given.name if given else ''}"
    folder = user_cache_path("triplewise") / "kg" / hashlib.sha256(mark.encode()).hexdigest()[:20]
    if not is_store(folder):
        load_kg([path], folder, profile=given)
    return folder


def _open_demo(given: Profile | None, timeout: float, limit: int) -> Engine:
    folder = resources.files("triplewise.tools.kg.demo")
    with ExitStack() as stack:
        facts, labels, profile = (
            stack.enter_context(resources.as_file(folder / name))
            for name in ("demo.nt.gz", "labels.tsv.gz", "profile.yaml")
        )
        return _in_memory([facts], [labels], given or load_profile(profile), DEMO, timeout, limit)


def _in_memory(
    facts: Sequence[Path],
    tables: Sequence[Path],
    given: Profile | None,
    name: str,
    timeout: float,
    limit: int,
) -> Engine:
    import pyoxigraph as ox

    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.infer import infer_profile
    from triplewise.tools.kg.sources import feed_for

    feed, store = feed_for(given), ox.Store()
    store.bulk_extend(feed.facts(facts, given))
    profile = given or infer_profile(store, feed.prefixes)
    store.bulk_extend(feed.labels(tables, profile))
    index = _memory_index(store, profile, feed)
    kg = EmbeddedKG(store, profile, name, timeout=timeout, limit=limit, index=index)
    kg.homes = (_cached(SMALL),)
    return kg


def _memory_index(store: ox.Store, profile: Profile, feed: Feed) -> LabelIndex:
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.naming import describer, named

    return LabelIndex.in_memory(
        lambda: named(store, profile, feed), feed.popularity, describer(store, profile)
    )
