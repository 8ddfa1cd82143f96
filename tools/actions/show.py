"""How terms are shown to the agent: labels, short ids, and a word for mediators, in one batched query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts

UNNAMED = "UnName_Entity"
"""What a mediator (CVT, statement) is shown as (QueryAgent, table 11)."""


def short_ids(kg: KnowledgeGraph, terms: Iterable[Term]) -> list[str]:
    """Short ids and literal texts."""
    return [kg.profile.short(t) for t in terms]


def names(kg: KnowledgeGraph, terms: Sequence[Term]) -> dict[Term, str]:
    """The name of each term: a literal's text, a label, `UnName_Entity`, or the short id. One query."""
    labels = kg.labels([t for t in terms if isinstance(t, IRI)])
    return {t: _name(kg, t, labels) for t in terms}


def _name(kg: KnowledgeGraph, term: Term, labels: Mapping[Term, str]) -> str:
    if isinstance(term, Literal):
        return term.value
    label = labels.get(term)
    return UNNAMED if kg.profile.is_mediator(term, label) else label or kg.profile.short(term)


def relation_names(kg: KnowledgeGraph, relations: Iterable[str]) -> list[str]:
    """Short ids, with their text in brackets where the id alone says nothing (`P36 (capital)`)."""
    ids = list(relations)
    if kg.profile.relation_text != "label":
        return ids
    texts = relation_texts(kg, ids)
    return [f"{r} ({texts[r].label})" if texts[r].label not in ("", r) else r for r in ids]


def triple_lines(kg: KnowledgeGraph, triples: Sequence[Triple], limit: int) -> list[str]:
    """Triples as `(subject, relation, object)` with names, the first `limit` of them."""
    shown = triples[:limit]
    named = names(kg, list(dict.fromkeys(t for triple in shown for t in (triple.subject, triple.object))))
    relations = list(dict.fromkeys(kg.profile.short(t.relation) for t in shown))
    texts = relation_texts(kg, relations)
    lines = [
        f"({_both(kg, t.subject, named)}, {texts[kg.profile.short(t.relation)].label}, "
        f"{_both(kg, t.object, named)})"
        for t in shown
    ]
    return [*lines, f"... and {len(triples) - limit} more"] if len(triples) > limit else lines


def _both(kg: KnowledgeGraph, term: Term, named: Mapping[Term, str]) -> str:
    """A name, with the id that further actions need where it differs."""
    short = kg.profile.short(term)
    return named[term] if named[term] == short or isinstance(term, Literal) else f"{named[term]} [{short}]"
