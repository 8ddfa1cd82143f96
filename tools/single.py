"""Whether a relation has one value for each subject, as far as the KG shows."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.terms import IRI

SAMPLE = 2_000
"""Facts of a relation that are looked at."""
LEAST = 20
"""Subjects that have to be seen before anything is said."""
SHARE = 0.95
"""Share of the subjects that have one value only."""

_known: WeakKeyDictionary[KnowledgeGraph, dict[IRI, bool]] = WeakKeyDictionary()
_lock = Lock()


def is_single_valued(kg: KnowledgeGraph, relation: IRI) -> bool:
    """Whether nearly every subject of a relation has one value; False where too little is seen.

    What a KG answered is remembered; a time-out is not.
    """
    with _lock:
        known = _known.setdefault(kg, {})
    if relation in known:
        return known[relation]
    found = kg.query(f"SELECT DISTINCT ?s ?o WHERE {{ ?s {relation.n3()} ?o }}", limit=SAMPLE)
    values = Counter(row[0] for row in found.rows)
    single = sum(n == 1 for n in values.values())
    answer = len(values) >= LEAST and single >= SHARE * len(values)
    if found.outcome.ok:
        known[relation] = answer
    return answer
