"""Several graphs and databases as one: what they are called, how they are opened, and how they are shaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, count
from os.path import exists, isfile
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from triplewise.tools.core.addresses import hide_secrets, host_of, split_url, whole_url
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.federation.bridges import BRIDGE, find_bridges
from triplewise.tools.federation.federated import LOCAL, SOURCE, FederatedKG
from triplewise.tools.kg import KnowledgeGraph, load_profile, open_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import index_of
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import LRUCache
from triplewise.tools.kg.rdf import DATABASES, suffix_of

BETWEEN = " + "  # sources in one text
FORM = "give each source a name of its own, e.g. --kg wd=https://... --kg mine=films.ttl"
_DATABASE_URL = re.compile(r"(sqlite|duckdb|postgres|mysql|mariadb)[\w+]*://")
_NAMED = re.compile(r"(?:(?P<name>[A-Za-z][\w-]*)=)?(?P<address>.+)", re.DOTALL)
_opened: LRUCache[tuple[object, ...], FederatedKG] = LRUCache(4)


def join_sources(sources: Mapping[str, Any] | Iterable[Any] | str) -> str:
    """Sources as one text: `NAME=ADDRESS + ADDRESS`. Raises `ConfigurationError` on what has no address."""
    if isinstance(sources, str):
        return sources
    every: Iterable[Any] = sources if isinstance(sources, Iterable) else [sources]
    named = sources.items() if isinstance(sources, Mapping) else (("", source) for source in every)
    parts = [(f"{name}=" if name else "", source) for name, source in named]
    if wrong := [source for _, source in parts if not isinstance(source, str | Path) or not str(source)]:
        raise ConfigurationError(f"setting kg: {wrong[0]!r} is not an address of a source; {FORM}")
    return BETWEEN.join(f"{name}{source}" for name, source in parts)


def read_sources(text: str) -> dict[str, str]:
    """Name -> address of the sources in a text; those without a name are called as their file or host.

    Raises `ConfigurationError` where two have the same name.
    """
    sources = dict[str, str]()
    for part in [text] if exists(text) else text.split(BETWEEN):
        match = _NAMED.fullmatch(part.strip())
        name, address = match.groups() if match and not exists(part) else (None, part.strip())
        stem = re.sub(r"\W+", "_", host_of(address) or Path(address).name.partition(".")[0])
        name = name or (stem if stem[:1].isalpha() else f"kg{stem}")
        if name in sources:
            both = f"{hide_secrets(sources[name])} and {hide_secrets(address)}"
            raise ConfigurationError(f"two sources are called {name!r}: {both}; {FORM}")
        sources[name] = address
    return sources


def open_sources(text: str, *, profile: Any = None, **settings: Any) -> KnowledgeGraph:
    """Open a graph as `open_kg` does with these settings, a file of a database as a graph, or several as one.

    `text` is as `read_sources` has it; `profile` of several says `NAME=PROFILE`.
    """
    sources = read_sources(whole_url(text))
    address, *others = sources.values()
    is_file = suffix_of(Path(address)) in DATABASES and isfile(address)
    if not others and not is_file and not _DATABASE_URL.match(address):
        return open_kg(address, profile=profile, **settings)
    from triplewise.tools.federation.direct_mapping import is_database, open_database_graph

    if not others:
        return open_database_graph(address, next(iter(sources)), profile)
    profiles = {} if profile is None else read_sources(profile)
    if unknown := profiles.keys() - sources.keys():
        raise ConfigurationError.unknown("source of a profile (NAME=PROFILE)", min(unknown), sources)

    for name, address in sources.items():  # before any is asked
        if re.match("https?:", address, re.IGNORECASE):
            split_url(address, f"source {name}")

    def open_one(name: str) -> KnowledgeGraph:
        if is_database(sources[name]):
            return open_database_graph(sources[name], name, profiles.get(name))
        return open_kg(sources[name], profile=profiles.get(name), **settings)

    limits = {key: settings.pop(key) for key in ("timeout", "limit") if key in settings}
    with ThreadPoolExecutor(8, "triplewise-open") as pool:
        opened = dict(zip(sources, pool.map(open_one, sources), strict=True))
    key = (text, *opened.values())
    if (kg := _opened.get(key)) is None:
        kg = _opened[key] = _as_one(opened)
    return kg.session(**limits) if limits else kg


def _prefixes(profiles: Mapping[str, Profile], generic: Profile) -> dict[str, str]:
    """The prefixes of all ids: that of a packaged profile, else the source's name."""
    prefixes = generic.prefixes | {"bridge": BRIDGE}
    own = {n: dict.fromkeys((*p.entity_namespaces, *p.relation_namespaces)) for n, p in profiles.items()}
    declared = {n: {space: prefix for prefix, space in p.prefixes.items()} for n, p in profiles.items()}
    # Own namespaces first: a source may also write IRIs of another one.
    for name, space in [(n, space) for of in (own, declared) for n, spaces in of.items() for space in spaces]:
        if space not in prefixes.values():
            is_bare = space in own[name] and profiles[name].name == generic.name
            wish = name if is_bare else declared[name].get(space, name)
            numbered = (f"{wish}{n or ''}" for n in chain([0], count(2)))
            prefixes[next(prefix for prefix in numbered if prefix not in prefixes)] = space
    return prefixes


def _united(profiles: Mapping[str, Profile]) -> Profile:
    """What all graphs have."""
    generic, every = load_profile("generic"), list(profiles.values())
    linkable, nameless = list[str](), list[str]()
    for profile in every:
        bare = dict.fromkeys((*profile.entity_namespaces, *profile.relation_namespaces))
        spaces = f"^(?:{'|'.join(map(re.escape, bare))})"
        if profile.linkable_pattern:  # of nodes elsewhere it says nothing
            linkable += [profile.linkable_pattern, f"^(?!{spaces[1:]})"]
        if profile.unlabelled_is_mediator:
            nameless.append(profile.unlabelled_pattern or spaces)
    united: dict[str, Any] = {}  # what lists and mappings hold
    for key, value in vars(generic).items():
        of_each = [getattr(p, key) for p in every]
        if isinstance(value, tuple):
            united[key] = tuple(dict.fromkeys(chain(*of_each)))
        elif isinstance(value, dict):
            united[key] = dict(chain(*(values.items() for values in of_each)))
    united |= {
        "name": "several",
        "entity_namespaces": (),
        "relation_namespaces": (),
        "entity_text": "local" if any(p.entity_text == "local" for p in every) else "label",
        "relation_text": "label",
        "relation_schema": any(p.relation_schema for p in every),
        "linkable_pattern": "|".join(linkable),
        "unlabelled_is_mediator": bool(nameless),
        "unlabelled_pattern": "|".join(nameless),
        "prefixes": _prefixes(profiles, generic),
    }
    return replace(generic, language=every[0].language, **united)


def _as_one(opened: Mapping[str, KnowledgeGraph]) -> FederatedKG:
    """Several graphs as one. One store has those in memory: all facts, and those of each in a named graph."""
    here = {n: kg for n, kg in opened.items() if isinstance(kg, LocalKG) and kg.path is None}
    there = {n: kg for n, kg in opened.items() if n not in here}
    bridges = find_bridges({**there, **here}, here)
    store, ids = ox.Store(), {b.node.value: ox.NamedNode(b.one.value) for b in bridges.values()}
    for name, kg in here.items():
        for graph in (ox.NamedNode(SOURCE + name), ox.DefaultGraph()):
            for quad in kg.quads():
                ends: list[Any] = [ids.get(getattr(e, "value", ""), e) for e in (quad.subject, quad.object)]
                store.add(ox.Quad(ends[0], quad.predicate, ends[1], graph))
    profile = _united({name: kg.profile for name, kg in opened.items()})
    local = LocalKG(store, profile, " + ".join(here) or "none", index=index_of(store, profile), graphs=())
    return FederatedKG({LOCAL: local, **there}, tuple(opened), bridges)
