"""What the nodes at either end of a relation are like on a KG, measured from samples of its own facts.

A node is described by its features: the relations it has in each direction, and its classes; one that the KG
does not know, by how its name is written. A relation's range is how often each is found among its objects.
That says what may be an object of it without any schema, and on graphs that have no classes at all.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from weakref import WeakKeyDictionary

from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.protocol import KnowledgeGraph, origin_of

SAMPLE = 40
"""Nodes looked at on each side of a relation."""
BATCH = 200
"""Nodes described by one query."""
ROWS = 60_000
SECONDS = 5.0
"""Seconds a query of measurements may take: without it, nothing is known, which is no error."""
CLOSEST = 4
"""Nodes most like another that are looked at."""
SUBJECTS = 400
"""Subjects that `functional` looks at."""
FEWEST = 10
"""Subjects below which nothing is said of a relation being functional."""

UNKNOWN = 0.25
"""Likeness of a node of which nothing is known to those of a relation all of whose ends are written so."""

Features = frozenset[str]
_WAYS = frozenset({"number", "digit", "capital", "lower"})


@dataclass(frozen=True)
class Side:
    """The nodes at one end of a relation.

    Attributes:
        features: share of nodes that have each. samples: those of each node. datatypes: shares of literals.
        names: share of names written in each way (see `written`).
    """

    features: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[Features, ...] = ()
    names: Mapping[str, float] = field(default_factory=dict)
    datatypes: Mapping[str, float] = field(default_factory=dict)

    @property
    def literal(self) -> float:
        """Share of literals."""
        return sum(self.datatypes.values())

    def like(self, features: Features) -> float:
        """How alike a node is to these, 0 to 1.

        Half of it is the cosine of its features with their shares, half the mean cosine with the few nodes
        most like it: members of a union are countries, and people too. Of a node that has no features but how
        its name is written, little can be said.
        """
        if not features or not self.features:
            return 0.0
        if len(features) == 1 and (name := next(iter(features))) in _WAYS:
            return UNKNOWN * self.names.get(name, 0.0)
        norm = math.sqrt(sum(v * v for v in self.features.values()) * len(features))
        usual = sum(self.features.get(f, 0.0) for f in features) / norm
        near = (len(features & s) / math.sqrt(len(features) * len(s)) for s in self.samples if s)
        closest = heapq.nlargest(CLOSEST, near)
        return 0.5 * usual + 0.5 * sum(closest) / CLOSEST


@dataclass(frozen=True)
class Shape:
    """A relation's domain and range."""

    subjects: Side = field(default_factory=Side)
    objects: Side = field(default_factory=Side)


class Shapes:
    """Shapes of one KG's relations and features of its nodes, each measured once. Safe for many threads."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg, profile = kg, kg.profile
        self._plain = {*profile.type_predicates, *profile.label_predicates, *profile.alias_predicates}
        self._shapes: dict[IRI, Shape] = {}
        self._features: dict[IRI, Features] = {}
        self._functional: dict[IRI, float | None] = {}
        self._lock = RLock()

    def of(self, relations: Iterable[IRI]) -> dict[IRI, Shape]:
        """Shapes of relations: a query for each new one, and a few for all their nodes."""
        wanted = list(dict.fromkeys(relations))
        with self._lock:
            new = [r for r in wanted if r not in self._shapes]
            ends = {r: self._ends(r) for r in new}
            self.features(n for subjects, objects in ends.values() for n in (*subjects, *objects))
            for relation, (subjects, objects) in ends.items():
                self._shapes[relation] = Shape(self._side(subjects), self._side(objects))
            return {r: self._shapes[r] for r in wanted}

    def features(self, nodes: Iterable[Term]) -> dict[IRI, Features]:
        """Features of nodes, literals left out; what the KG could not say of one is missing from it."""
        wanted = list(dict.fromkeys(n for n in nodes if isinstance(n, IRI)))
        with self._lock:
            new = [n for n in wanted if n not in self._features]
            for at in range(0, len(new), BATCH):
                self._features.update(self._described(new[at : at + BATCH]))
            found = {n: self._features[n] for n in wanted}
            if len(self._features) > 200_000:
                self._features.clear()
            return found

    def functional(self, relation: IRI) -> float | None:
        """Share of subjects that have one object only, measured once; None where too few or unknown."""
        with self._lock:
            if relation not in self._functional:
                self._functional[relation] = self._measured(relation)
            return self._functional[relation]

    def _ends(self, relation: IRI) -> tuple[list[Term], list[Term]]:
        """Some subjects and some objects."""
        r = relation.n3()
        result = self._kg.query(
            f"SELECT ?s ?o WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ ?s {r} ?x }} LIMIT {SAMPLE} }} UNION "
            f"{{ SELECT DISTINCT ?o WHERE {{ ?y {r} ?o }} LIMIT {SAMPLE} }} }}",
            timeout=SECONDS,
            limit=2 * SAMPLE,
        )
        subjects = [s for s, _ in result.rows if s is not None]
        return subjects, [o for _, o in result.rows if o is not None]

    def _side(self, nodes: Sequence[Term]) -> Side:
        share = 1 / max(len(nodes), 1)
        features: Counter[str] = Counter(
            f for n in nodes if isinstance(n, IRI) for f in self._features.get(n, ())
        )
        samples = tuple(self._features.get(n, frozenset()) for n in nodes if isinstance(n, IRI))
        labels = self._kg.labels(n for n in nodes if isinstance(n, IRI))
        names = Counter(written(label) for label in labels.values())
        datatypes = Counter(n.datatype for n in nodes if isinstance(n, Literal))
        shares = [{k: c * share for k, c in counted.items()} for counted in (features, names, datatypes)]
        return Side(shares[0], samples, *shares[1:])

    def _described(self, nodes: Sequence[IRI]) -> dict[IRI, Features]:
        values = " ".join(n.n3() for n in nodes)
        found: dict[IRI, set[str]] = {n: set() for n in nodes}
        result = self._kg.query(
            f"SELECT DISTINCT ?n ?out ?in WHERE {{ VALUES ?n {{ {values} }} "
            "{ ?n ?out ?x } UNION { ?y ?in ?n } }",
            timeout=SECONDS,
            limit=ROWS,
        )
        for node, out, into in result.rows:
            relation = out or into
            if not isinstance(node, IRI) or not isinstance(relation, IRI):
                continue
            # That a node has a class or a name at all tells nothing.
            if self._kg.profile.excludes(relation) or (out is not None and relation.value in self._plain):
                continue
            found[node].add(f"{'>' if out is not None else '<'}{relation.value}")
        for node, kind in self._classes(values):
            found[node].add(f"a {kind.value}")
        return {n: frozenset(fs) for n, fs in found.items()}

    def _classes(self, values: str) -> Iterable[tuple[IRI, IRI]]:
        if not self._kg.profile.type_predicates:
            return ()
        links = "|".join(IRI(p).n3() for p in self._kg.profile.type_predicates)
        result = self._kg.query(
            f"SELECT DISTINCT ?n ?c WHERE {{ VALUES ?n {{ {values} }} ?n {links} ?c }}",
            timeout=SECONDS,
            limit=ROWS,
        )
        return [(n, c) for n, c in result.rows if isinstance(n, IRI) and isinstance(c, IRI)]

    def _measured(self, relation: IRI) -> float | None:
        r = relation.n3()
        result = self._kg.query(
            f"SELECT ?s (COUNT(DISTINCT ?o) AS ?n) WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ ?s {r} ?x }} "
            f"LIMIT {SUBJECTS} }} ?s {r} ?o }} GROUP BY ?s",
            timeout=SECONDS,
            limit=SUBJECTS,
        )
        counts = [float(n.value) for _, n in result.rows if isinstance(n, Literal)]
        if not result.outcome.ok or len(counts) < FEWEST:
            return None
        return sum(c == 1 for c in counts) / len(counts)


def written(name: str) -> str:
    """How a name is written: as a number, with a digit first, with a capital, or without."""
    first = next((c for c in name if c.isalnum()), "")
    if first.isdigit():
        return "digit" if any(c.isalpha() for c in name) else "number"
    return "capital" if first.isupper() else "lower"


_known: WeakKeyDictionary[KnowledgeGraph, Shapes] = WeakKeyDictionary()
_lock = RLock()


def shapes_of(kg: KnowledgeGraph) -> Shapes:
    """The shapes of a KG, measured once per process."""
    with _lock:
        return _known.setdefault(origin_of(kg), Shapes(origin_of(kg)))
