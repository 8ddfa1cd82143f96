"""SPARQL that is asked of every knowledge graph, built from terms, and how its rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from triplewise.tools.core.terms import IRI, Literal, Term, Variable, one_line
from triplewise.tools.kg.engine import variable_names
from triplewise.tools.kg.results import Result

if TYPE_CHECKING:
    from triplewise.tools.kg.profile import Profile

T = TypeVar("T")

BATCH = 500  # terms a VALUES block holds at most; Virtuoso's compiler fails on some thousand


def best_labels(profile: Profile, result: Result) -> dict[IRI, str]:
    """The best label of each subject in rows of (subject, predicate, label), by language, then predicate."""
    ranks: dict[IRI, tuple[int, int, str, str]] = {}
    order = {p: i for i, p in enumerate(profile.label_predicates)}
    for subject, predicate, label in result.rows:
        if not isinstance(label, Literal) or not label.value.strip():
            continue
        if isinstance(subject, IRI) and isinstance(predicate, IRI):
            preferred = label.language.lower() == profile.language.lower()
            by_language = 0 if preferred else 2 if label.language else 1
            rank = by_language, order.get(predicate.value, len(order)), label.language, label.value
            ranks[subject] = min(rank, ranks.get(subject, rank))
    return {subject: one_line(rank[-1]) for subject, rank in ranks.items()}


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def relations_query(node: Term | Variable, where: str) -> str:
    """Both directions in one query: outgoing relations in the first column, incoming in the second."""
    taken, fresh = variable_names(f"{where} {node.n3()}"), ("out", "in", "other")
    mark = next("_" * n for n in range(len(taken) + 1) if taken.isdisjoint(v + "_" * n for v in fresh))
    out, into, other = (f"?{name}{mark}" for name in fresh)
    n = node.n3()
    bound = f"{{ SELECT DISTINCT {n} WHERE {{ {where} }} }}" if isinstance(node, Variable) else ""
    branches = [] if isinstance(node, Literal) else [f"{{ {bound} {n} {out} {other} }}"]
    branches.append(f"{{ {bound} {other} {into} {n} }}")
    return f"SELECT DISTINCT {out} {into} WHERE {{ {' UNION '.join(branches)} }}"


def facts_by(predicates: Iterable[IRI], pattern: str) -> str:
    """Return the group pattern of a triple whose second part is a variable, one of some predicates."""
    # Some engines multiply a VALUES block with another one, and then join it with all triples.
    subject, relation, value = pattern.split()
    return " UNION ".join(
        f"{{ {subject} {p.n3()} {value} BIND({p.n3()} AS {relation}) }}" for p in predicates
    )


def terms_n3(terms: Iterable[Term]) -> str:
    """Return terms as a VALUES block lists them."""
    return " ".join(t.n3() for t in terms)
