"""A KG with facts laid over it: one KG to whoever asks, and nothing is written into the KG (SymAgent 4.2.1).

A store in this process holds the facts as a named graph that is read as one with the KG: in a copy of it,
which takes no room on disk. What an endpoint answers is completed by the facts at hand, or the result says
that they are not in it.
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
from typing import Any

import pyoxigraph as ox

from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.files import is_writable, writing
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple, text, whole_number
from triplewise.tools.kg import protocol
from triplewise.tools.kg.embedded import EmbeddedKG, isolate
from triplewise.tools.kg.engine import ReadQuery
from triplewise.tools.kg.labels import Name
from triplewise.tools.kg.overlay.pattern import Pattern, UnreadableQuery, read_pattern
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, LRUCache, Outcome, Result

OVERLAYS = 16  # kept open; the least recently used leave first
BATCH = 100  # facts that an endpoint is asked for by one query
REACHED = 2_000  # facts of an endpoint around a query's facts that are read at most


class OverlaidKG(protocol.Layer):
    """A KG and facts over it. Closing it leaves the KG open for others.

    Attributes:
        origin: the KG itself. facts: triple -> the fact, for all that are laid over it, also for those that
            the KG holds too. new: the triples that it does not hold, names of new nodes included.
    """

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        self.facts: Mapping[Triple, ExtractedFact] = {f.triple: f for f in facts}
        self._names = {IRI(i): label for f in facts for i, label in f.labels.items()}
        # Names of minted nodes are facts too, so that queries find them as they find others' names.
        labels = [IRI(p) for p in origin.profile.label_predicates[:1]]
        names = [Triple(node, p, text(label)) for p in labels for node, label in self._names.items()]
        # Blank nodes are left out: SPARQL has no name for them.
        named = [t for t in (*self.facts, *names) if not any(map(_is_blank, (t.subject, t.object)))]
        self.new = tuple(dict.fromkeys(_unknown(origin, named)))
        index = origin.index
        if index is not None and self._names:
            degree = Counter(end.value for t in self.new for end in {t.subject, t.object})
            index = index.with_names([Name(n.value, label) for n, label in self._names.items()], degree)
        super().__init__(origin, index)
        self.deadline = origin.deadline
        self._answers = None if origin._answers is None else protocol.AnswerCache()

    def session(self, **settings: Any) -> OverlaidKG:
        """The same over a session of the KG below; answers are remembered apart from its own."""
        session = super().session(**settings)
        session._answers = None if session.origin._answers is None else protocol.AnswerCache()
        return session

    def close(self) -> None:
        """The KG stays open."""

    def labels(self, terms: Iterable[Term], *, partial: bool = False) -> dict[Term, str]:
        """Labels of many nodes: of KG and facts, else those that the facts give new nodes."""
        nodes = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        labels = super().labels(nodes, partial=partial)
        return {t: label for t in nodes if (label := labels.get(t) or self._names.get(t))}

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        below = self.origin._label_rows(subjects, deadline)
        wanted, by = set(subjects), set(self.profile.label_predicates)
        own = [(t.subject, t.relation, t.object) for t in self.new if t.relation.value in by]
        own = [row for row in own if row[0] in wanted and Triple(*row) in self.facts]
        if not own or below.outcome not in (Outcome.ROWS, Outcome.EMPTY):
            return below
        return replace(below, outcome=Outcome.ROWS, _rows=(*below.rows, *own))


class LocalOverlay(OverlaidKG):
    """Facts over a store in this process: a named graph of a copy of the store."""

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        super().__init__(origin, facts)
        base = protocol.base_of(origin)
        assert isinstance(base, EmbeddedKG)
        self.laid: tuple[Triple, ...] = (
            *(origin.laid if isinstance(origin, LocalOverlay) else ()),
            *self.new,
        )
        graph = ox.NamedNode(f"urn:triplewise:facts:{next(_numbers)}")
        # Beside named graphs of its own, which are all read, the facts of other overlays must not stand.
        copies = {} if base.graphs else protocol.memory_of(base, "copy of the store")
        if "" not in copies:
            copies[""] = _copy_of(base.shared)
        self._store, path = copies[""]
        self._store.load(_ntriples(self.laid), format=ox.RdfFormat.N_TRIPLES, to_graph=graph)
        self._store.flush()
        self._base, self._graphs = base, base.graphs or (graph.value,)
        self._isolated = isolate(self._store, path, self._graphs)
        weakref.finalize(self, _forget, self._store, graph)

    query = KnowledgeGraph.query

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        return self._base.run_in(self._store, self._graphs, query, timeout, limit, self.deadline)

    def _run_foreign(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        return self._base.run_isolated(self._isolated, query, timeout, limit, self.deadline)


_numbers = count(1)


def _forget(store: ox.Store, graph: ox.NamedNode) -> None:
    with suppress(OSError, RuntimeError):  # its folder may be gone already
        store.remove_graph(graph)


def _copy_of(kg: EmbeddedKG) -> tuple[ox.Store, Path | None]:
    """A copy of a store that can be written to: on disk one of links to its files, in memory all facts."""
    if kg.path is None:
        store = ox.Store()
        store.bulk_extend(kg.quads())
        return store, None
    same_disk = kg.path.stat().st_dev == os.stat(tempfile.gettempdir()).st_dev
    beside = kg.path.parent if not same_disk and is_writable(kg.path.parent) else None
    folder = tempfile.mkdtemp(prefix=".triplewise-facts-", dir=beside)
    weakref.finalize(kg, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "store")
    with writing(path):
        kg.store.backup(str(path))  # links, no copies, on the same disk
        store = ox.Store(str(path))
    return store, path


class RemoteOverlay(OverlaidKG):
    """Facts over an endpoint: what a query finds by way of them is found here and added to its answer.

    For that the endpoint's facts around them are read, by the relations that the query names. What another
    fact can take away (NOT EXISTS, OPTIONAL, aggregates, an order) is the endpoint's answer alone, with
    outcome `truncated` and a message that says so; counts over single triples are added up.
    """

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one SELECT or ASK over KG and facts; see `KnowledgeGraph.query`."""
        deadline = Deadline(self._seconds(timeout))
        result = self.origin.query(sparql, timeout=deadline.left, limit=limit, foreign=foreign)
        if not result.outcome.ok or not self.new:
            return result
        limit = self.limit if limit is None else limit
        try:
            pattern = read_pattern(sparql)
            if not any(map(pattern.may_match, self.new)):
                return result
            if pattern.obstacle:
                raise UnreadableQuery(pattern.obstacle)
            store = ox.Store()
            triples = (*self.new, *self._around(pattern, deadline))
            store.load(_ntriples(triples), format=ox.RdfFormat.N_TRIPLES)
            local = EmbeddedKG(store, self.profile, self.name)
            own = local.query(sparql, timeout=deadline.left, limit=limit, foreign=foreign)
            if own.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                raise UnreadableQuery(own.message)
        except UnreadableQuery as error:
            message = f"{len(self.new)} facts read from documents are not in this answer (not read: {error})"
            message = "; ".join(filter(None, (result.message, message)))
            return replace(result, outcome=Outcome.TRUNCATED, message=message)
        if result.boolean is not None:
            return replace(result, _boolean=result.boolean or own.boolean)
        if pattern.keys is None:
            seen = set(result.rows)
            rows = (*result.rows, *(row for row in own.rows if row not in seen))[: pattern.length]
        else:
            rows = _added(result, own, pattern.keys)
        if result.outcome is Outcome.TRUNCATED:
            return replace(result, _rows=rows[:limit])
        return Result.capped(result.variables or own.variables, rows, limit)

    def _around(self, pattern: Pattern, deadline: Deadline) -> list[Triple]:
        """The endpoint's facts that a solution may join with the new ones, by the query's relations."""
        found = dict.fromkeys(self.new)
        near = list(dict.fromkeys(end for t in self.new for end in (t.subject, t.object)))
        seen = set(near)
        allowed = ""
        if pattern.relations is not None:
            allowed = f"VALUES ?p {{ {' '.join(f'<{r}>' for r in sorted(pattern.relations))} }} "
        for _ in range(pattern.hops):
            values = f"VALUES ?n {{ {protocol.terms_n3(near)} }}"
            sides = (f"{{ {values} {allowed}{side} }}" for side in ("?n ?p ?o", "?s ?p ?n"))
            sparql = f"SELECT DISTINCT ?n ?p ?o ?s WHERE {{ {' UNION '.join(sides)} }}"
            result = self.origin.query(sparql, timeout=deadline.left, limit=REACHED)
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY) or len(found) > REACHED:
                raise UnreadableQuery("what the facts join is too much, or cannot be read")
            near = []
            for node, relation, value, subject in result.rows:
                first, last = (node, value) if value is not None else (subject, node)
                if isinstance(first, IRI) and isinstance(relation, IRI) and last is not None:
                    found[Triple(first, relation, last)] = None
                    near += [end for end in (first, last) if end not in seen]
            seen.update(near)
            if not near:
                break
        return [t for t in found if not any(map(_is_blank, (t.subject, t.object)))]


def _added(result: Result, own: Result, keys: frozenset[str]) -> tuple[tuple[Term | None, ...], ...]:
    """The rows of two results of counts, added up where all other columns agree."""
    counted = [name not in keys for name in result.variables]
    sums: dict[tuple[Term | None, ...], list[int]] = {}
    for row in (*result.rows, *own.rows):
        key = tuple(None if is_count else cell for cell, is_count in zip(row, counted, strict=True))
        numbers = [whole_number(cell) or 0 for cell in row]
        sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(row)), numbers, strict=True)]
    return tuple(
        tuple(
            Literal(str(number), XSD + "integer") if is_count else cell
            for cell, number, is_count in zip(key, numbers, counted, strict=True)
        )
        for key, numbers in sums.items()
    )


def _ntriples(triples: Iterable[Triple]) -> bytes:
    return "\n".join(t.n3() for t in triples).encode()


def _is_blank(node: Term) -> bool:
    return isinstance(node, IRI) and node.value.startswith("_:")


def _unknown(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[Triple]:
    """Those of the triples that the KG does not hold: what is in both must not count twice.

    Asked once for each KG and triple. A triple that could not be asked for counts as unknown, and is asked
    for again by the next overlay.
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
    """A KG with facts laid over it; rejected ones are left out. Without any, the KG itself.

    The same KG and facts give the same object, for as long as it is among those used last. Facts can be laid
    over an overlay. Closing an overlay leaves the KG open.
    """
    chosen = tuple({f.triple: f for f in facts if f.status != "rejected"}.values())
    if not chosen:
        return kg
    # An overlay holds its KG, so no other object has its id while the overlay is kept.
    key = (id(kg), frozenset((f.triple, f.source, f.sentence, *sorted(f.labels.items())) for f in chosen))
    if (overlay := _overlays.get(key)) is None:
        is_local = isinstance(protocol.base_of(kg), EmbeddedKG)
        overlay = _overlays[key] = (LocalOverlay if is_local else RemoteOverlay)(kg, chosen)
    return overlay
