"""What the nodes at either end of a relation are like on a KG, measured from samples of its own facts.

A node is described by its features: the relations it has in each direction, and its classes; one that the KG
does not know, by how its name is written. That says what may be a subject or an object of a relation without
any schema, and on graphs that have no classes at all.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.protocol import KnowledgeGraph, batches

SAMPLE = 40
"""Nodes looked at at each end of a relation."""
SUBJECTS, FEWEST_SUBJECTS = 400, 10
"""Subjects that `functional` looks at, and below how many it says nothing."""
BATCH, ROWS, SECONDS = 200, 60_000, 5.0
"""Nodes described by one query, its rows, and seconds it may take: without it, nothing is known."""
CLOSEST = 4
"""Nodes most similar to another that are compared with it."""
UNKNOWN = 0.25
"""Similarity of a node of which nothing is known to those of a relation all of whose ends are written so."""

Features = frozenset[str]
_NAME_FORMS = frozenset({"number", "digit", "capital", "lower"})


@dataclass(frozen=True)
class End:
    """The nodes at one end of a relation.

    Attributes:
        features: share of nodes that have each. samples: those of each node. datatypes: shares of literals.
        names: share of names written in each form (see `name_form`).
    """

    features: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[Features, ...] = ()
    names: Mapping[str, float] = field(default_factory=dict)
    datatypes: Mapping[str, float] = field(default_factory=dict)

    @property
    def literal(self) -> float:
        """Share of literals."""
        return sum(self.datatypes.values())

    def similarity(self, features: Features) -> float:
        """How similar a node is to these, 0 to 1.

        Half of it is the cosine of its features with their shares, half the mean cosine with the few nodes
        most similar to it: members of a union are countries, and people too. Of a node that has no features
        but how its name is written, little can be said.
        """
        if not features or not self.features:
            return 0.0
        if len(features) == 1 and (form := next(iter(features))) in _NAME_FORMS:
            return UNKNOWN * self.names.get(form, 0.0)
        norm = math.sqrt(sum(v * v for v in self.features.values()) * len(features))
        usual = sum(self.features.get(f, 0.0) for f in features) / norm
        near = (len(features & s) / math.sqrt(len(features) * len(s)) for s in self.samples if s)
        return 0.5 * usual + 0.5 * sum(heapq.nlargest(CLOSEST, near)) / CLOSEST


@dataclass(frozen=True)
class Ends:
    """A relation's subjects and objects."""

    subjects: End = field(default_factory=End)
    objects: End = field(default_factory=End)


class RelationEnds:
    """Ends of one KG's relations and features of its nodes, each measured once by this value."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg, profile = kg, kg.profile
        self._naming = {*profile.type_predicates, *profile.label_predicates, *profile.alias_predicates}
        self._ends: dict[IRI, Ends] = {}
        self._features: dict[IRI, Features] = {}

    def of(self, relation: IRI) -> Ends:
        """The ends of a relation: one query for them, and a few for all their nodes."""
        if relation not in self._ends:
            r = relation.n3()
            result = self._kg.query(
                f"SELECT ?s ?o WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ ?s {r} ?x }} LIMIT {SAMPLE} }} UNION "
                f"{{ SELECT DISTINCT ?o WHERE {{ ?y {r} ?o }} LIMIT {SAMPLE} }} }}",
                timeout=SECONDS,
                limit=2 * SAMPLE,
            )
            subjects = [s for s, _ in result.rows if s is not None]
            objects = [o for _, o in result.rows if o is not None]
            self.features([*subjects, *objects])
            self._ends[relation] = Ends(self._end(subjects), self._end(objects))
        return self._ends[relation]

    def features(self, nodes: Iterable[Term]) -> dict[IRI, Features]:
        """Features of nodes, literals left out."""
        iris = list(dict.fromkeys(n for n in nodes if isinstance(n, IRI)))
        for batch in batches([n for n in iris if n not in self._features], BATCH):
            self._features |= self._query_features(batch)
        return {n: self._features[n] for n in iris}

    def functional(self, relation: IRI) -> float | None:
        """Share of subjects that have one object only; None where too few or unknown."""
        r = relation.n3()
        result = self._kg.query(
            f"SELECT ?s (COUNT(DISTINCT ?o) AS ?n) WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ ?s {r} ?x }} "
            f"LIMIT {SUBJECTS} }} ?s {r} ?o }} GROUP BY ?s",
            timeout=SECONDS,
            limit=SUBJECTS,
        )
        counts = [float(n.value) for _, n in result.rows if isinstance(n, Literal)]
        if len(counts) < FEWEST_SUBJECTS:
            return None
        return sum(c == 1 for c in counts) / len(counts)

    def _end(self, nodes: Sequence[Term]) -> End:
        iris = [n for n in nodes if isinstance(n, IRI)]
        samples = tuple(self._features.get(n, frozenset()) for n in iris)
        features = Counter(f for sample in samples for f in sample)
        names = Counter(name_form(label) for label in self._kg.labels(iris).values())
        datatypes = Counter(n.datatype for n in nodes if isinstance(n, Literal))
        share = 1 / max(len(nodes), 1)
        shares = [{k: n * share for k, n in counts.items()} for counts in (features, names, datatypes)]
        return End(shares[0], samples, *shares[1:])

    def _query_features(self, nodes: Sequence[IRI]) -> dict[IRI, Features]:
        """The features of some nodes, by a query for relations and one for classes."""
        values = " ".join(n.n3() for n in nodes)
        features: dict[IRI, set[str]] = {n: set() for n in nodes}
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
            if self._kg.profile.excludes(relation) or (out is not None and relation.value in self._naming):
                continue
            features[node].add(f"{'>' if out is not None else '<'}{relation.value}")
        if self._kg.profile.type_predicates:
            links = "|".join(IRI(p).n3() for p in self._kg.profile.type_predicates)
            result = self._kg.query(
                f"SELECT DISTINCT ?n ?c WHERE {{ VALUES ?n {{ {values} }} ?n {links} ?c }}",
                timeout=SECONDS,
                limit=ROWS,
            )
            for node, kind in result.rows:
                if isinstance(node, IRI) and isinstance(kind, IRI):
                    features[node].add(f"a {kind.value}")
        return {n: frozenset(fs) for n, fs in features.items()}


def name_form(name: str) -> str:
    """Return the form of a name: as a number, with a digit first, with a capital, or without."""
    first = next((c for c in name if c.isalnum()), "")
    if first.isdigit():
        return "digit" if any(c.isalpha() for c in name) else "number"
    return "capital" if first.isupper() else "lower"
