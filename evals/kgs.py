"""The KG of a benchmark as a store in the user's cache folder, loaded once for each set of source files."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from platformdirs import user_cache_path

from triplewise.evals.data import Graph, checksum, locate
from triplewise.graphs.cli.console import progress_bars
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import FORMAT, is_store, open_kg, read_manifest
from triplewise.tools.kg.protocol import KnowledgeGraph


@dataclass(frozen=True, slots=True)
class LoadedKG:
    """A graph that is ready to be asked.

    Attributes:
        path: the store's folder, or the URL or path that the user gave instead.
        profile: name of its profile ("" where it was inferred). title: what it is, for people.
        partial: whether facts are missing.
        parts: which parts of the graph are in it. triples: distinct facts, labels included (0: not known).
        checksum: sha256 over the checksums of its source files ("" for a graph of the user's own).
    """

    path: str
    profile: str
    title: str
    partial: bool
    parts: tuple[str, ...] = ()
    triples: int = 0
    checksum: str = ""

    @property
    def gold_derived(self) -> bool:
        """Whether some of its facts were made from gold answers."""
        return "gold_derived" in self.parts

    @property
    def own(self) -> bool:
        """Whether it is a graph of the user's, not the benchmark's."""
        return not self.checksum

    def open(self) -> KnowledgeGraph:
        """The graph, opened. Raises what `open_kg` raises."""
        return open_kg(self.path, profile=None if self.own else self.profile or None)


def prepared(graph: Graph, parts: Sequence[str] | None = None) -> LoadedKG:
    """The store of a graph, loaded now if it is not in the cache yet or its source files have changed.

    Args:
        graph: its files. parts: the parts of its facts to take (all by default).

    Raises:
        ConfigurationError: a part the graph does not have, or another process is loading it right now.
        DataError: a missing or broken source file, a full disk.
    """
    chosen = tuple(parts if parts is not None else graph.facts)
    if unknown := set(chosen) - set(graph.facts):
        raise ConfigurationError.unknown(f"part of {graph.name}", unknown.pop(), graph.facts)
    facts = [locate(file) for part in chosen for file in graph.facts[part]]
    labels = [locate(file) for file in graph.labels]
    digest = hashlib.sha256(f"{FORMAT}\0{graph.profile}".encode())
    for path in (*facts, *labels):
        digest.update(f"\0{path.name}\0{checksum(path)}".encode())
    made_from = digest.hexdigest()
    folder = user_cache_path("triplewise") / "evals" / f"{graph.name}-{made_from[:16]}"
    if not is_store(folder):
        with progress_bars() if sys.stderr.isatty() else nullcontext() as progress:
            load_kg(facts, folder, profile=graph.profile or None, labels=labels, progress=progress)
    triples = int(read_manifest(folder)["triples"])
    return LoadedKG(str(folder), graph.profile, graph.title, graph.partial, chosen, triples, made_from)
