"""Ways to find the paths between two nodes, and the process that runs one of them.

Each way runs in a process of its own: its memory is that of nothing else, and what it still does once its
time is over, since no query of the store can be interrupted, ends with it.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pyoxigraph as ox

from triplewise.evals.bench.skewed import Skewed
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.adjacency import open_adjacency
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Deadline, Hop, Outcome, Paths, Result

Search: TypeAlias = Callable[["Counted", Term, Term, int, Deadline, int], Paths]
Walk: TypeAlias = tuple[Hop, ...]
Tell: TypeAlias = Callable[[str, int, "int | None"], None]

QUIET = 2.0
"""Seconds that what a search leaves running may go on; then its process has to end."""
STORE, ADJACENCY, MADE = "store", "adjacency", "made.json"


class Counted(EmbeddedKG):
    """A KG that counts the rows which a search takes from its store."""

    rows = 0

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK."""
        found = super().query(sparql, timeout=timeout, limit=limit)
        self.rows += len(found.rows)
        return found


def loaded(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """Triplewise on a graph that it loaded: by whole numbers."""
    return kg.paths(source, target, hops, timeout=deadline.left, limit=limit)


def unloaded(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """Triplewise on an endpoint: one query of joins a length, here by the same store."""
    return kg._paths_by_queries(source, target, hops, deadline, limit)


SEARCHES: dict[str, Search] = {
    "triplewise, loaded": loaded,
    "triplewise, queries": unloaded,
}


def make(graph: Skewed, folder: Path, tell: Tell) -> dict[str, Any]:
    """The graph as a store on disk with its adjacency, made where the folder does not hold them yet.

    Returns the seconds and the megabytes of both, and how many triples the store holds.
    """
    from triplewise.tools.kg.adjacency import build_adjacency, save_adjacency

    if (folder / MADE).is_file():
        known: dict[str, Any] = json.loads((folder / MADE).read_text(encoding="utf-8"))
        return known
    text, writing = folder / "graph.nt", "writing the graph"
    graph.write(text, lambda done: tell(writing, done, graph.triples))
    tell("loading the store", 0, None)
    start = time.perf_counter()
    store = ox.Store(str(folder / STORE))
    store.bulk_load(path=str(text), format=ox.RdfFormat.N_TRIPLES)
    store.optimize()
    store.flush()
    seconds = {STORE: time.perf_counter() - start}
    text.unlink()
    triples, start = len(store), time.perf_counter()
    adjacency = build_adjacency(store, Profile(), lambda done: tell("joining nodes", done, triples))
    if adjacency is not None:
        save_adjacency(adjacency, folder / ADJACENCY, triples)
    seconds[ADJACENCY] = time.perf_counter() - start
    sizes = {part: _megabytes((folder / part).iterdir()) for part in (STORE, ADJACENCY)}
    made = {"triples": triples, "seconds": seconds, "megabytes": sizes}
    (folder / MADE).write_text(json.dumps(made), encoding="utf-8")
    return made


def _megabytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files) >> 20


def open_made(folder: Path) -> Counted:
    """What `make` made."""
    triples = json.loads((folder / MADE).read_text(encoding="utf-8"))["triples"]
    store = ox.Store.read_only(str(folder / STORE))
    return Counted(store, Profile(), "skewed", adjacency=lambda: open_adjacency(folder / ADJACENCY, triples))


def answers(folder: Path, search: str, hops: int, seconds: float, limit: int) -> Iterator[dict[str, Any]]:
    """Answer the pairs of stdin, one JSON list a line; the first answer says that the graph is open."""
    kg, run = open_made(folder), SEARCHES[search]
    run(kg, IRI("urn:nobody"), IRI("urn:nowhere"), hops, Deadline(30), limit)  # brings what is opened late
    yield {}
    for line in sys.stdin:
        source, target = map(IRI, json.loads(line))
        kg.rows, start, worked = 0, time.perf_counter(), time.process_time()
        found = run(kg, source, target, hops, Deadline(seconds), limit)
        yield {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - worked,
            "outcome": found.outcome.value,
            "paths": len(found.paths),
            "rows": kg.rows,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "busy": found.outcome is Outcome.TIMEOUT and not _quiet(),
        }


def _quiet() -> bool:
    """Whether this process has soon ended what a search left running in it."""
    within = Deadline(QUIET)
    while not within.passed:
        before = time.process_time()
        time.sleep(0.05)
        if time.process_time() - before < 0.01:
            return True
    return False


def main(order: str) -> None:
    """Make a graph or answer pairs, as an order in JSON says, with one line of JSON for each step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    given = json.loads(order)
    folder = Path(given.pop("folder"))
    if "triples" in given:
        made = make(Skewed(**given), folder, lambda *step: _say({"step": step}))
        _say({"made": made})
        return
    with suppress(BrokenPipeError):  # the process that started this one has ended
        for answer in answers(folder, **given):
            _say(answer)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
