"""A KG with facts laid over it: one KG to whoever asks, and nothing is written into the KG (SymAgent 4.2.1).

The overlay answers like a KG that held all the facts: queries are rewritten (see
`triplewise.tools.kg.overlay.rewrite`), so aggregates, closures, limits and time-outs are the engine's own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.engine import Engine, batches
from triplewise.tools.kg.labels import LabelIndex, Name
from triplewise.tools.kg.overlay.known import Facts
from triplewise.tools.kg.overlay.patterns import Path, path_n3
from triplewise.tools.kg.overlay.rewrite import Rewritten, rewrite
from triplewise.tools.kg.overlay.terms import NotRead
from triplewise.tools.kg.pathsearch import Edge, other_end
from triplewise.tools.kg.protocol import KnowledgeGraph, Meter, Outcome, Result
from triplewise.tools.kg.readonly import ReadQuery, Refused

if TYPE_CHECKING:
    from triplewise.tools.kg.answer_cache import AnswerCache

KEPT = 16
"""Overlays kept open, the least recently used leave first."""
ASKED = 100
"""Facts that the KG is asked for by one query."""
REACHED = 1_000
"""Classes that a `*` path may reach by way of the facts."""


class OverlaidKG(Engine):
    """A KG and facts beside it.

    A query that cannot be read (see `rewrite`) is answered by the KG alone, with outcome `truncated` and a
    message that says so: its answer may lack what the facts add.

    Attributes:
        origin: the KG itself. facts: triple -> the fact, for all that are laid over it, also for those that
            the KG holds too.
    """

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        self.origin = origin
        self.facts: Mapping[Triple, ExtractedFact] = {f.triple: f for f in facts}
        self._names = {IRI(i): label for f in facts for i, label in f.labels.items()}
        new = _unknown(origin, [t for t in (*self.facts, *self._named()) if _writable(t)])
        self._new = Facts(new)
        super().__init__(
            origin.profile, origin.name, timeout=origin.timeout, limit=origin.limit, index=self._joined()
        )
        self.homes = getattr(origin, "homes", ())
        self._apart = not _in_process(origin)
        self._reached: dict[tuple[str, Term, bool], tuple[Term, ...]] = {}

    def session(
        self,
        *,
        meter: Meter | None = None,
        answers: AnswerCache | None = None,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Self:
        """The same facts over a session of the KG; see `KnowledgeGraph.session`."""
        session = super().session(timeout=timeout, limit=limit)
        session.origin = self.origin.session(meter=meter, answers=answers, timeout=timeout, limit=limit)
        return session

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the KG."""
        return self.origin.meter

    @property
    def closed(self) -> bool:
        """Whether the KG was closed."""
        return bool(getattr(self.origin, "closed", False))

    def close(self) -> None:
        """Nothing of its own is held; the KG stays open for others."""

    @property
    def path_seconds(self) -> float:
        """Seconds that a search for paths may take where none are named."""
        return self.origin.path_seconds if isinstance(self.origin, Engine) else self.timeout

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK over KG and facts; see `KnowledgeGraph.query`."""
        deadline = Deadline(self.timeout if timeout is None else timeout)
        try:
            seen = rewrite(sparql, self._new, self._reach, self._apart)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        result = self.origin.query(seen.text, timeout=deadline.left, limit=limit)
        return _marked(result, seen, len(self._new))

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        """Not used: `query` leaves running, counting and remembering to the KG."""
        return self.origin.query(query.text, timeout=timeout, limit=limit)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes: of the KG, else of the facts."""
        wanted = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        own = self._label_subjects
        mixed = [t for t in wanted if self.profile.label_subject(t) in own]
        found = self.origin.labels([t for t in wanted if t not in set(mixed)])
        if mixed:
            found |= super().labels(mixed)
        names = {t: self._names[t] for t in wanted if t in self._names and t not in found}
        return {t: label for t in wanted if (label := found.get(t) or names.get(t))}

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """All edges at many nodes, those of the facts behind those of the KG."""
        if not isinstance(self.origin, Engine):
            return super().edges(nodes, deadline, ends)
        found, outcome, message = self.origin.edges(nodes, deadline, ends)
        return [*found, *self._own_edges(nodes, ends)], outcome, message

    def edges_between(
        self, left: Sequence[Term], right: Sequence[Term], deadline: Deadline
    ) -> tuple[list[Edge], Outcome, str]:
        """The edges that join two sets of nodes."""
        if not isinstance(self.origin, Engine):
            return super().edges_between(left, right, deadline)
        found, outcome, message = self.origin.edges_between(left, right, deadline)
        return [*found, *self._own_edges(left, set(right))], outcome, message

    def _own_edges(self, nodes: Iterable[Term], ends: Collection[Term] | None) -> Iterator[Edge]:
        """The edges that the facts are."""
        for node in nodes:
            for triple in self._new.at(node):
                if not self._excludes(triple.relation) and (ends is None or other_end(node, triple) in ends):
                    yield node, triple

    @property
    def _label_subjects(self) -> frozenset[IRI]:
        """Nodes with a label among the facts."""
        labels = (t for p in self.profile.label_predicates for t in self._new.of(IRI(p)))
        return frozenset(t.subject for t in labels if t in self.facts)

    def _named(self) -> list[Triple]:
        """The names of minted nodes as facts, so that queries find them as they find others' names."""
        if not self.origin.profile.label_predicates:
            return []
        predicate = IRI(self.origin.profile.label_predicates[0])
        return [Triple(node, predicate, text(label)) for node, label in self._names.items()]

    def _joined(self) -> LabelIndex | None:
        """The KG's label index with the names of minted nodes in it."""
        if self.origin.index is None or not self._names:
            return self.origin.index
        names = [Name(node.value, label) for node, label in self._names.items()]
        return self.origin.index.with_names(names, {n.iri: len(self._new.at(IRI(n.iri))) for n in names})

    def _reach(self, path: Path, node: Term, backward: bool) -> tuple[Term, ...]:
        """Nodes that a `*` path joins with a node by way of the facts alone."""
        key = (path_n3(path), node, backward)
        if key not in self._reached:
            self._reached[key] = self._searched(path, node, backward)
        return self._reached[key]

    def _searched(self, path: Path, node: Term, backward: bool) -> tuple[Term, ...]:
        edges = [t for r in _plain(path) for t in self._new.of(r)]
        steps = [(t.subject, t.object) if backward else (t.object, t.subject) for t in edges]
        written, roots = path_n3(path), [node]
        known = self._closure(written, node, backward)
        reached = known | {node} if self._new.at(node) else set(known)
        for root in roots:
            for start, end in steps:
                if end in reached and start not in reached:
                    roots.append(start)
                    reached |= {start, *self._closure(written, start, backward)}
            if len(reached) - len(known) > REACHED:
                raise NotRead(f"a * path from {root.n3()} that reaches too much over the facts")
        return tuple(sorted(reached - known, key=lambda t: t.n3()))

    def _closure(self, path: str, node: Term, backward: bool) -> set[Term]:
        """What the KG alone reaches over a `*` path: the node itself too, where the KG knows it."""
        if isinstance(node, Literal) and not backward:
            return set()
        ends = f"?m {path} {node.n3()}" if backward else f"{node.n3()} {path} ?m"
        result = self.origin.query(f"SELECT DISTINCT ?m WHERE {{ {ends} }}")
        if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
            raise NotRead(f"what {path} reaches cannot be found out ({result.outcome})")
        return {row[0] for row in result.rows if row[0] is not None}


def _plain(path: Path) -> list[IRI]:
    """The relations of a `*` path. Raises NotRead where it is more than one of some relations each time."""
    inner = path.parts[0]
    parts = inner.parts if isinstance(inner, Path) and inner.kind == "choice" else (inner,)
    relations = [p for p in parts if isinstance(p, IRI)]
    if len(relations) < len(parts):
        raise NotRead("a nested * path over facts")
    return relations


def _marked(result: Result, seen: Rewritten, facts: int) -> Result:
    """A result, marked as incomplete where the facts are not in it."""
    if not seen.missed or not result.outcome.ok:
        return result
    message = f"{facts} facts read from documents are not in this answer ({seen.missed})"
    return replace(
        result, outcome=Outcome.TRUNCATED, message="; ".join(filter(None, (result.message, message)))
    )


def _in_process(kg: KnowledgeGraph) -> bool:
    """Whether queries are evaluated by the engine in this process."""
    from triplewise.tools.kg.embedded import EmbeddedKG

    while isinstance(kg, OverlaidKG):
        kg = kg.origin
    return isinstance(kg, EmbeddedKG)


def _writable(triple: Triple) -> bool:
    """Whether SPARQL can name all of a triple: blank nodes have no name there."""
    return not any(isinstance(t, IRI) and t.value.startswith("_:") for t in (triple.subject, triple.object))


_held: WeakKeyDictionary[KnowledgeGraph, dict[Triple, bool]] = WeakKeyDictionary()
_opened: OrderedDict[tuple[int, frozenset[object]], OverlaidKG] = OrderedDict()
_lock = threading.Lock()


def _unknown(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[Triple]:
    """Those of the triples that the KG does not hold: what is in both must not count twice.

    Asked once for each KG and triple. A triple that could not be asked for counts as unknown, and is asked
    for again by the next overlay.
    """
    held = _held.setdefault(kg, {})
    for batch in batches([t for t in triples if t not in held], ASKED):
        sides = (f"{{ {t.n3().removesuffix(' .')} BIND({i} AS ?i) }}" for i, t in enumerate(batch))
        result = kg.query(f"SELECT ?i WHERE {{ {' UNION '.join(sides)} }}", limit=len(batch))
        if result.outcome in (Outcome.ROWS, Outcome.EMPTY):
            found = {int(row[0].value) for row in result.rows if row[0] is not None}
            held.update({t: i in found for i, t in enumerate(batch)})
    return [t for t in triples if not held.get(t, False)]


def overlaid(kg: KnowledgeGraph, facts: Iterable[ExtractedFact]) -> KnowledgeGraph:
    """A KG with facts laid over it; rejected ones are left out. Without any, the KG itself.

    The same KG and facts give the same object, for as long as it is among those used last. Facts can be laid
    over an overlay. Closing an overlay leaves the KG open.
    """
    kept = tuple({f.triple: f for f in facts if f.status != "rejected"}.values())
    if not kept:
        return kg
    key = (id(kg), frozenset((f.triple, f.source, f.sentence, *sorted(f.labels.items())) for f in kept))
    with _lock:
        if key in _opened:
            _opened.move_to_end(key)
            return _opened[key]
    made = OverlaidKG(kg, kept)
    with _lock:
        # The overlay holds its KG, so no other object has its id while the overlay is kept.
        known = _opened.setdefault(key, made)
        while len(_opened) > KEPT:
            _opened.popitem(last=False)
        return known


def facts_of(kg: KnowledgeGraph) -> dict[Triple, ExtractedFact]:
    """The facts laid over a KG, in all its layers; {} for a KG without any."""
    inner: KnowledgeGraph | None = getattr(kg, "origin", None)
    own: Mapping[Triple, ExtractedFact] = getattr(kg, "facts", {})
    return {**(facts_of(inner) if inner is not None else {}), **own}
