"""What its facts show of a relation: whether a subject has one value only, whether it goes both ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph, shared_of

SUBJECTS, SAMPLE = 200, 2_000
"""Subjects, and facts of a relation, that are looked at."""
LEAST = 20
"""Subjects that have to be seen before anything is said."""
SHARE = 0.95
"""Share of the subjects that have one value only."""

MUTUAL = 0.5
"""Share of the facts that hold the other way round too, from which on a relation goes both ways."""
FEW = 10
"""Facts that have to be seen before a relation is said to go both ways."""

_known: WeakKeyDictionary[KnowledgeGraph, dict[tuple[str, IRI], bool]] = WeakKeyDictionary()
_lock = Lock()


def is_single_valued(kg: KnowledgeGraph, relation: IRI) -> bool:
    """Whether nearly every subject of a relation has one value; False where too little is seen.

    What a KG answered is remembered; a time-out is not.
    """
    return _remembered(kg, "single", relation, _single)


def is_mutual(kg: KnowledgeGraph, relation: IRI) -> bool:
    """Whether most facts of a relation hold the other way round too ("spouse"); False where too few are seen.

    Remembered as `is_single_valued` is.
    """
    return _remembered(kg, "mutual", relation, _mutual)


def _remembered(
    kg: KnowledgeGraph, what: str, relation: IRI, ask: Callable[[KnowledgeGraph, IRI], bool | None]
) -> bool:
    with _lock:
        known = _known.setdefault(shared_of(kg), {})
    if (what, relation) not in known and (answer := ask(kg, relation)) is not None:
        known[what, relation] = answer
    return known.get((what, relation), False)


def _single(kg: KnowledgeGraph, relation: IRI) -> bool | None:
    """None where the KG did not answer.

    Subjects are drawn first, then all their values: an index may hold the facts of one value together.
    """
    r = relation.n3()
    some = f"SELECT DISTINCT ?s WHERE {{ ?s {r} ?any }} LIMIT {SUBJECTS}"
    found = kg.query(f"SELECT DISTINCT ?s ?o WHERE {{ {{ {some} }} ?s {r} ?o }}", limit=SAMPLE)
    values = Counter(row[0] for row in found.rows)
    single = sum(n == 1 for n in values.values())
    return len(values) >= LEAST and single >= SHARE * len(values) if found.outcome.ok else None


def _mutual(kg: KnowledgeGraph, relation: IRI) -> bool | None:
    """None where the KG did not answer."""
    r = relation.n3()
    every = kg.query(f"SELECT DISTINCT ?s ?o WHERE {{ ?s {r} ?o FILTER(?s != ?o) }}", limit=SAMPLE)
    both = kg.query(f"SELECT DISTINCT ?s ?o WHERE {{ ?s {r} ?o . ?o {r} ?s FILTER(?s != ?o) }}", limit=SAMPLE)
    if not every.outcome.ok or not both.outcome.ok:
        return None
    return len(every.rows) >= FEW and len(both.rows) >= MUTUAL * len(every.rows)
