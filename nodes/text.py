"""How facts read: triples, paths and observations as lines for prompts and people, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.kg.terms import Term, Triple

if TYPE_CHECKING:
    from triplewise.nodes.state import ScoredTriple

_ID_TRIPLE = re.compile(r"\(?\s*([^,()\n]+?)\s*,\s*([^,()\n]+?)\s*,\s*([^,\n]+?)\s*\)?\s*(?=[;,.]?\s*(?:\(|$))", re.M)


def node_labels(kg: KnowledgeGraph, terms: Iterable[Term]) -> dict[Term, str]:
    """A readable text for every term: its label, else its short form."""
    wanted = list(dict.fromkeys(terms))
    found = kg.labels(wanted)
    return {t: found.get(t) or kg.profile.short(t) for t in wanted}


def triple_text(kg: KnowledgeGraph, triples: Sequence[Triple], ids: bool = False) -> list[str]:
    """`(subject, relation, object)` with labels; with `ids`, the short ids follow in brackets."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)])
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    lines = []
    for t in triples:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        line = f"({labels[t.subject]}, {relations[r].label}, {labels[t.object]})"
        lines.append(f"{line} [{s}, {r}, {o}]" if ids else line)
    return lines


def memory_lines(kg: KnowledgeGraph, memory: Sequence[Sequence[Triple]]) -> list[str]:
    """One line a path."""
    return [" -> ".join(triple_text(kg, path)) for path in memory]


def observation_lines(kg: KnowledgeGraph, observation: Sequence[ScoredTriple]) -> list[str]:
    """One line a triple, best first."""
    return triple_text(kg, [s.triple for s in observation])


def parse_triples(kg: KnowledgeGraph, reply: str, offered: Sequence[Triple]) -> list[Triple]:
    """The offered triples that a reply names, by ids or by labels, in the reply's order.

    What the KG did not give is dropped: a triple that is not among `offered` was made up.
    """
    by_ids = {tuple(kg.profile.short(n) for n in (t.subject, t.relation, t.object)): t for t in offered}
    by_text = {line.strip("()").casefold(): t for line, t in zip(triple_text(kg, offered), offered, strict=True)}
    kept: list[Triple] = []
    for match in _ID_TRIPLE.finditer(reply):
        parts = tuple(p.strip(" []'\"") for p in match.groups())
        triple = by_ids.get(parts) or by_text.get(", ".join(parts).casefold())  # type: ignore[arg-type]
        if triple is not None and triple not in kept:
            kept.append(triple)
    return kept
