"""A KG with facts laid over it: one KG to whoever asks, and nothing is written into the KG (SymAgent 4.2.1).

It answers like a KG that held all the facts: queries are rewritten (see `tools.kg.overlay.rewrite`), so
aggregates, closures, limits and time-outs are the engine's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text, whole_number
from triplewise.tools.kg import protocol
from triplewise.tools.kg.adjacency import Adjacency
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.engine import Refused
from triplewise.tools.kg.labels import Name
from triplewise.tools.kg.overlay.rewrite import FactIndex, Path, UnreadableQuery, rewrite
from triplewise.tools.kg.protocol import KnowledgeGraph, LRUCache, Outcome, Result

OVERLAYS = 16  # kept open; the least recently used leave first
ASKED = 100  # facts that the KG is asked for by one query
REACHED = 1_000  # classes that a `*` path may reach by way of the facts


class OverlaidKG(protocol.Layer):
    """A KG and facts beside it. Closing it leaves the KG open for others.

    A query that cannot be read (see `rewrite`) is answered by the KG alone, with outcome `truncated` and a
    message that says so: its answer may lack what the facts add.

    Attributes:
        origin: the KG itself. facts: triple -> the fact, for all that are laid over it, also for those that
            the KG holds too.
    """

    def __init__(self, origin: KnowledgeGraph, facts: Sequence[ExtractedFact]) -> None:
        self.facts: Mapping[Triple, ExtractedFact] = {f.triple: f for f in facts}
        self._names = {IRI(i): label for f in facts for i, label in f.labels.items()}
        # Names of minted nodes are facts too, so that queries find them as they find others' names.
        labels = [IRI(p) for p in origin.profile.label_predicates[:1]]
        names = (Triple(node, p, text(label)) for p in labels for node, label in self._names.items())
        # Blank nodes are left out: SPARQL has no name for them.
        named = [t for t in (*self.facts, *names) if not any(map(_is_blank, (t.subject, t.object)))]
        self._new = FactIndex(_unknown(origin, named))
        index = origin.index
        if index is not None and self._names:
            popularity = {node.value: len(self._new.at(node)) for node in self._names}
            index = index.with_names([Name(n.value, label) for n, label in self._names.items()], popularity)
        super().__init__(origin, index)
        self._apart = not isinstance(protocol.base_of(origin), EmbeddedKG)
        self._reached: LRUCache[tuple[str, Term, bool], tuple[Term, ...]] = LRUCache(1_000)
        self._adjacency: tuple[Adjacency, Adjacency] | None = None

    def close(self) -> None:
        """Nothing of its own is held."""

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one SELECT or ASK over KG and facts; see `KnowledgeGraph.query`."""
        deadline = protocol.Deadline(self.timeout if timeout is None else timeout)
        try:
            rewritten = rewrite(sparql, self._new, self._reach, self._apart)
            return self.origin.query(rewritten, timeout=deadline.left, limit=limit, foreign=foreign)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        except UnreadableQuery as error:
            result = self.origin.query(sparql, timeout=deadline.left, limit=limit, foreign=foreign)
            message = f"{len(self._new)} facts read from documents are not in this answer (not read: {error})"
        if not result.outcome.ok:
            return result
        message = "; ".join(filter(None, (result.message, message)))
        return replace(result, outcome=Outcome.TRUNCATED, message=message)

    def labels(self, terms: Iterable[Term], *, partial: bool = False) -> dict[Term, str]:
        """Labels of many nodes: of the KG, else of the facts."""
        nodes = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        facts = (t for p in self.profile.label_predicates for t in self._new.of(IRI(p)))
        labelled = {t.subject for t in facts if t in self.facts}
        mixed = {t for t in nodes if self.profile.label_subject(t) in labelled}
        labels = self.origin.labels([t for t in nodes if t not in mixed], partial=partial) | (
            super().labels(mixed, partial=partial) if mixed else {}
        )
        return {t: label for t in nodes if (label := labels.get(t) or self._names.get(t))}

    def adjacency(self) -> Adjacency | None:
        """The edges of KG and facts as whole numbers; None where the KG has none."""
        below = self.origin.adjacency()
        if below is None:
            return None
        if self._adjacency is None or self._adjacency[0] is not below:
            permitted = [t for t in self._new.triples if not self.profile.excludes(t.relation)]
            self._adjacency = below, below.with_triples(permitted)
        return self._adjacency[1]

    def _reach(self, path: Path, node: Term, backward: bool) -> tuple[Term, ...]:
        """Nodes that a `*` path joins with a node by way of the facts alone."""
        key = (path.n3(), node, backward)
        if (reached := self._reached.get(key)) is not None:
            return reached
        inner = path.parts[0]
        relations = inner.parts if isinstance(inner, Path) and inner.kind == "|" else (inner,)
        if not all(isinstance(r, IRI) for r in relations):
            raise UnreadableQuery("a nested * path over facts")
        edges = [t for r in relations if isinstance(r, IRI) for t in self._new.of(r)]
        steps = [(t.subject, t.object) if backward else (t.object, t.subject) for t in edges]

        def reached_in_kg(start: Term) -> set[Term]:
            if isinstance(start, Literal) and not backward:
                return set()
            ends = f"?m {path.n3()} {start.n3()}" if backward else f"{start.n3()} {path.n3()} ?m"
            result = self.origin.query(f"SELECT DISTINCT ?m WHERE {{ {ends} }}")
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                raise UnreadableQuery(f"what {path.n3()} reaches cannot be found out ({result.outcome})")
            return {row[0] for row in result.rows if row[0] is not None}

        alone = reached_in_kg(node)
        every = alone | {node} if self._new.at(node) else set(alone)
        grown = True
        while grown:
            grown = False
            for start, end in steps:
                if end in every and start not in every:
                    every |= {start, *reached_in_kg(start)}
                    grown = True
            if len(every) - len(alone) > REACHED:
                raise UnreadableQuery(f"a * path from {node.n3()} that reaches too much over the facts")
        self._reached[key] = reached = tuple(sorted(every - alone, key=lambda t: t.n3()))
        return reached


def _is_blank(node: Term) -> bool:
    return isinstance(node, IRI) and node.value.startswith("_:")


def _unknown(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[Triple]:
    """Those of the triples that the KG does not hold: what is in both must not count twice.

    Asked once for each KG and triple. A triple that could not be asked for counts as unknown, and is asked
    for again by the next overlay.
    """
    held = protocol.memory_of(kg, "triples held")
    for batch in protocol.batches([t for t in triples if t not in held], ASKED):
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
        overlay = _overlays[key] = OverlaidKG(kg, chosen)
    return overlay
