"""A pyoxigraph store read by a process of its own, for queries that a person or a model wrote."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyoxigraph as ox

from triplewise.tools.core.isolation import IsolatedCalls
from triplewise.tools.kg.protocol import Result

if TYPE_CHECKING:
    from triplewise.tools.kg.engine import ReadQuery


def isolate(store: ox.Store, path: Path | None, graphs: Sequence[str]) -> IsolatedCalls:
    """Return what answers pairs of a query and a limit in rows with a `Result`.

    Args:
        store: the graph. path: where it lies on disk; one in memory is dumped when it is first asked.
        graphs: named graphs that are read as one with the default graph.
    """
    dumps, lock = list[tempfile.TemporaryDirectory[str]](), threading.Lock()

    def arguments() -> tuple[str, ...]:
        source = path
        if source is None:
            with lock:
                if not dumps:
                    dumps.append(tempfile.TemporaryDirectory(prefix="triplewise-"))
                    store.dump(str(Path(dumps[0].name) / "graph.nq"), ox.RdfFormat.N_QUADS)
            source = Path(dumps[0].name) / "graph.nq"
        return str(source), *graphs

    calls = IsolatedCalls(f"{__name__}:answerer", arguments)
    weakref.finalize(calls, _clean, dumps)
    return calls


def _clean(dumps: list[tempfile.TemporaryDirectory[str]]) -> None:
    while dumps:
        dumps.pop().cleanup()


def answerer(source: str, *graphs: str) -> Callable[[tuple[ReadQuery, int]], Result]:
    """Open a store, or the dump of one; runs in the process of its own."""
    from triplewise.tools.kg.embedded import evaluate

    if Path(source).is_dir():
        store = ox.Store.read_only(source)
    else:
        store = ox.Store()
        store.bulk_load(path=source, format=ox.RdfFormat.N_QUADS)
    return lambda asked: evaluate(store, *asked, graphs, threading.Event())
