"""A KG with facts laid over it: one KG to whoever asks, and nothing is written into the KG (SymAgent 4.2.1).

A store in this process is copied, which takes no room on disk, and the copy holds the facts as a named graph.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyoxigraph as ox

from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.files import is_writable, writing
from triplewise.tools.core.terms import IRI, Triple, text, whole_number
from triplewise.tools.federation.federated import LOCAL, RELATION, TRIPLE, FederatedKG
from triplewise.tools.kg import protocol
from triplewise.tools.kg.engine import ReadQuery, Refused, tokenize
from triplewise.tools.kg.labels import Name
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, LRUCache, Outcome, Result

OVERLAYS = 16  # kept open; the least recently used leave first
BATCH = 100  # facts per query to an endpoint
THERE = "endpoint"


class OverlaidKG(protocol.Layer):
    """A KG (`origin`) and facts over it, by their triples. Closing it leaves the KG open for others.

    `new`: the triples that the KG does not hold, names of new nodes included.
    """

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        self.facts: Mapping[Triple, ExtractedFact] = {f.triple: f for f in facts}
        minted = {IRI(i): label for f in facts for i, label in f.labels.items()}
        # Names of minted nodes are facts too, so that queries find them as they find others' names.
        labels = [IRI(p) for p in origin.profile.label_predicates[:1]]
        names = [Triple(node, p, text(label)) for p in labels for node, label in minted.items()]
        self.new = tuple(dict.fromkeys(_unknown(origin, [t for t in (*self.facts, *names) if _is_named(t)])))
        index = origin.index
        if index is not None and minted:
            degree = Counter(end.value for t in self.new for end in {t.subject, t.object})
            named = ((node.value, label) for node, label in minted.items())
            index = index.with_names([Name(n, label, popularity=degree[n]) for n, label in named])
        super().__init__(origin, index)
        self.deadline = origin.deadline
        self._answers = None if origin._answers is None else LRUCache(protocol.ANSWERS)

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        below = self.origin._label_rows(subjects, deadline)
        wanted, by = set(subjects), set(self.profile.label_predicates)
        facts = (t for t in self.new if t.subject in wanted and t.relation.value in by)
        own = [(t.subject, t.relation, t.object) for t in facts]
        if not own or below.outcome not in (Outcome.ROWS, Outcome.EMPTY):
            return below
        return replace(below, outcome=Outcome.ROWS, _rows=(*below.rows, *own))


class LocalOverlay(OverlaidKG):
    """Facts over a store in this process: a named graph of a copy of the store."""

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        super().__init__(origin, facts)
        base = protocol.base_of(origin)
        assert isinstance(base, LocalKG)
        below = origin.laid if isinstance(origin, LocalOverlay) else ()
        self.laid: tuple[Triple, ...] = (*below, *self.new)
        graph = ox.NamedNode(f"urn:triplewise:facts:{next(_numbers)}")
        # Where a store has named graphs, all are read: the facts of other overlays must not be among them.
        copies = {} if base.graphs else protocol.memory_of(base, "copy of the store")
        if "" not in copies:
            copies[""] = _copy_of(base.shared)
        store, path = copies[""]
        store.load(_ntriples(self.laid), format=ox.RdfFormat.N_TRIPLES, to_graph=graph)
        store.flush()
        self._copy = LocalKG(store, base.profile, base.name, path=path, graphs=base.graphs or (graph.value,))
        weakref.finalize(self, _forget, store, graph)

    def _run(self, query: ReadQuery, timeout: float, limit: int, foreign: bool) -> Result:
        copy = self._copy.session(deadline=self.deadline)
        return self.closed_result() if self.closed else copy._run(query, timeout, limit, foreign)


_numbers = count(1)


def _forget(store: ox.Store, graph: ox.NamedNode) -> None:
    with suppress(OSError, RuntimeError):  # its folder may be gone already
        store.remove_graph(graph)


def _copy_of(kg: LocalKG) -> tuple[ox.Store, Path | None]:
    """A copy of a store that can be written to: on disk one of links to its files, in memory all facts."""
    if kg.path is None:
        store = ox.Store()
        store.bulk_extend(kg.quads())
        return store, None
    same_disk = kg.path.stat().st_dev == os.stat(tempfile.gettempdir()).st_dev
    parent = kg.path.parent if not same_disk and is_writable(kg.path.parent) else None
    folder = tempfile.mkdtemp(prefix=".triplewise-facts-", dir=parent)
    weakref.finalize(kg, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "store")
    with writing(path):
        kg.store.backup(str(path))  # links, no copies, on the same disk
        return ox.Store(str(path)), path


class RemoteOverlay(OverlaidKG):
    """Facts over an endpoint, as the second source of each query (see `FederatedKG`).

    Where that is not enough (named graphs, paths over relations of the facts), the answer is the endpoint's,
    with outcome `truncated` and a message that says so.
    """

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        super().__init__(origin, facts)
        store = ox.Store()
        store.load(_ntriples(self.new), format=ox.RdfFormat.N_TRIPLES)
        self._laid = LocalKG(store, self.profile, self.name)

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one SELECT or ASK over KG and facts; see `KnowledgeGraph.query`."""
        timeout, limit = self._seconds(timeout), self.limit if limit is None else limit
        both = _WithFacts({LOCAL: self._laid, THERE: self.origin}, (), {})
        result = both.query(sparql, timeout=timeout, limit=limit, foreign=foreign)
        if result.outcome is not Outcome.SYNTAX:
            return result
        result = self.origin.query(sparql, timeout=timeout, limit=limit, foreign=foreign)
        lack = f"{len(self.new)} facts read from documents are not in this answer"
        message = "; ".join(filter(None, (result.message, lack)))
        return replace(result, outcome=Outcome.TRUNCATED, message=message) if result.outcome.ok else result


class _WithFacts(FederatedKG):
    """An endpoint, and facts that it does not hold: which of them matter is found out without asking it."""

    def holders(self, triple: str, foreign: bool = False) -> tuple[str, ...]:
        """The endpoint, and the facts where one matches. Raises `Refused` for a path that may repeat one."""
        facts, signs = self.members[LOCAL], {token.text for token in tokenize(triple) if token.kind == "mark"}
        if signs & {"*", "+"}:
            named = RELATION.findall(triple)  # relations of the path, and nodes at its ends
            near = [f"{{ ?s {name} ?o }}" for name in named]
            near += [f"{{ ?s ?p {name} }} UNION {{ {name} ?p ?o }}" for name in named if name != "a"]
            if "!" in signs or facts.query(f"ASK {{ {' UNION '.join(near)} }}").boolean:
                raise Refused("a path may lead from facts of the endpoint to facts read from documents.")
            return (THERE,)
        steps = RELATION.findall(parts[2]) if "/" in signs and (parts := TRIPLE.fullmatch(triple)) else []
        held = " UNION ".join(f"{{ ?s {relation} ?o }}" for relation in steps) or triple
        return (LOCAL, THERE) if facts.query(f"ASK {{ {held} }}").boolean else (THERE,)


def _ntriples(triples: Iterable[Triple]) -> bytes:
    return "\n".join(t.n3() for t in triples).encode()


def _is_named(triple: Triple) -> bool:
    """Whether both ends have a name in SPARQL: blank nodes have none."""
    return not any(isinstance(n, IRI) and n.value.startswith("_:") for n in (triple.subject, triple.object))


def _unknown(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[Triple]:
    """Those of the triples that the KG does not hold: what is in both must not count twice.

    Each is looked up once; after a failed query it counts as unknown until the next overlay.
    """
    held = protocol.memory_of(kg, "triples held")
    for batch in protocol.batches([t for t in triples if t not in held], BATCH):
        sides = (f"{{ {t.n3().removesuffix(' .')} BIND({i} AS ?i) }}" for i, t in enumerate(batch))
        result = kg.query(f"SELECT ?i WHERE {{ {' UNION '.join(sides)} }}", limit=len(batch))
        if result.outcome in (Outcome.ROWS, Outcome.EMPTY):
            numbers = {whole_number(row[0]) for row in result.rows}
            held.update({triple: i in numbers for i, triple in enumerate(batch)})
    return [t for t in triples if not held.get(t, False)]


_overlays: LRUCache[tuple[int, frozenset[object]], OverlaidKG] = LRUCache(OVERLAYS)


def overlaid(kg: KnowledgeGraph, facts: Iterable[ExtractedFact]) -> KnowledgeGraph:
    """A KG with facts laid over it, but for rejected ones; without any, the KG itself.

    The same KG and facts give the same object while it is among those used last. Overlays can be laid over.
    """
    chosen = tuple({f.triple: f for f in facts if f.status != "rejected"}.values())
    if not chosen:
        return kg
    # An overlay holds its KG, so no other object has its id while the overlay is kept.
    key = (id(kg), frozenset((f.triple, f.source, f.sentence, *sorted(f.labels.items())) for f in chosen))
    if (overlay := _overlays.get(key)) is None:
        is_local = isinstance(protocol.base_of(kg), LocalKG)
        overlay = _overlays[key] = (LocalOverlay if is_local else RemoteOverlay)(kg, chosen)
    return overlay
