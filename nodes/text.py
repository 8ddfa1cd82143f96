"""Facts as lines of prompts, and replies of a model read back as facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from triplewise.tools.actions.explore import CHARACTERS
from triplewise.tools.actions.terms import names, with_id
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels, relation_texts, triple_text
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, topics_of, within

if TYPE_CHECKING:
    from triplewise.nodes.state import State

ALIKE = 100
"""Nodes of memory that one line names at most."""
_Shared: TypeAlias = tuple[Term | None, Term, Term | None]
"""The relation and one end of triples."""
_COMMA, _QUOTES = re.compile(r"[ \t]*,[ \t]*"), re.compile(r"[\[\]'\"`*]")
_BRACKETED, _NUMBERED = re.compile(r"\(([^()]*)\)"), re.compile(r"^\s*(?:\d+[.)]|[-•])\s*")
_BEGINS, _ENDS = re.compile(r"(?:^|[^\w\s]|\n)[ \t]*$"), re.compile(r"[ \t]*(?:$|[\n).;,(|])")


def contains_name(text: str, name: str) -> bool:
    """Return whether a name stands in a text as whole words, in any case; an empty one never does."""
    pattern = rf"(?<!\w){re.escape(name.casefold())}(?!\w)"
    return bool(name) and re.search(pattern, text.casefold()) is not None


def memory_lines(kg: KnowledgeGraph, memory: Sequence[Sequence[Triple]]) -> list[str]:
    """Return one line a path."""
    return [" -> ".join(triple_text(kg, path)) for path in memory]


def like_groups(triples: Iterable[Triple]) -> list[list[Triple]]:
    """Return triples in groups that share the relation and one end, each in the larger of the two it fits."""
    sharing: dict[Triple, tuple[_Shared, _Shared]] = {
        t: ((t.subject, t.relation, None), (None, t.relation, t.object)) for t in triples
    }
    sizes = Counter(key for keys in sharing.values() for key in keys)
    groups: dict[_Shared, list[Triple]] = {}
    for triple, keys in sharing.items():
        groups.setdefault(max(keys, key=sizes.__getitem__), []).append(triple)
    return list(groups.values())


def memory_texts(kg: KnowledgeGraph, state: State) -> list[str]:
    """Memory as prompts show it: its paths with ids, those that differ in one end as one line.

    Then what the model wrote by itself, marked as such.
    """
    ways: dict[tuple[Triple, ...], list[Triple]] = {}
    for path in state.memory:
        ways.setdefault(path[:-1], []).append(path[-1])
    triples = [t for path in state.memory for t in path]
    terms = list(dict.fromkeys(n for t in triples for n in (t.subject, t.object)))
    shown = {term: with_id(kg, term, name) for term, name in names(kg, terms).items()}
    texts = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])

    def several(ends: Iterable[Term]) -> str:
        forms = list(dict.fromkeys(shown[end] for end in ends))
        more = f"; ... ({len(forms)} in all)" if len(forms) > ALIKE else ""
        return "; ".join(forms[:ALIKE]) + more

    def line(alike: Sequence[Triple]) -> str:
        relation = texts[kg.profile.short(alike[0].relation)].label
        return f"({several(t.subject for t in alike)}, {relation}, {several(t.object for t in alike)})"

    lines = [
        " -> ".join([*(line([t]) for t in before), line(alike)])
        for before, ends in ways.items()
        for alike in like_groups(ends)
    ]
    return [*lines, *(f"{fact} (not from the knowledge graph)" for fact in state.written)]


def observation_lines(kg: KnowledgeGraph, state: State) -> list[str]:
    """The observation by entity and relation, best first and bounded; then what was left out of sight."""
    facts = [NearbyFact(s.triple, s.through) for s in state.observation]
    groups = grouped_lines(kg, facts, topics_of(kg, facts, state.observed))
    return [*within(kg, groups, CHARACTERS), *(f"(not seen: {cut})" for cut in state.observation_cuts)]


def parse_triples(kg: KnowledgeGraph, reply: str, offered: Sequence[Triple]) -> list[Triple]:
    """Return the offered triples that a reply names, by ids or by labels, in the reply's order.

    `all` in place of an end names all the triples of the other end and the relation. What the KG did not
    give is dropped: a triple that is not among `offered` was made up. One written from tail to head is
    taken as the KG has it.
    """
    text = _plain(reply)
    mentions: list[tuple[int, int, Triple]] = []
    for triple, forms in zip(offered, _forms(kg, offered), strict=True):
        places = [(place, -len(form)) for form in forms if (place := _place(text, form)) >= 0]
        if places:
            mentions.append((*min(places), triple))
    # Of names that begin alike, the longest is meant.
    longest = {place: length for place, length, _ in sorted(mentions, key=lambda m: -m[1])}
    meant = sorted((m for m in mentions if longest[m[0]] == m[1]), key=lambda m: m[0])
    return list(dict.fromkeys(triple for _, _, triple in meant))


def made_up(kg: KnowledgeGraph, reply: str, given: Sequence[Triple]) -> tuple[str, ...]:
    """Triples that a reply names although the KG gave no such one, as the reply writes them, each once.

    given: all that the KG has shown so far. A triple is three parts in round brackets, three ids on a line of
    their own, or three parts whose middle one is a relation of those given; other text does not count.
    """
    text, claims = _plain(reply), list[str]()
    for form in sorted({f for forms in _forms(kg, given) for f in forms}, key=len, reverse=True):
        while (place := _place(text, form)) >= 0:
            text = f"{text[:place]} {text[place + len(form) :]}"
    shorts = {kg.profile.short(t.relation) for t in given}
    texts = relation_texts(kg, list(shorts))
    relations = {w.casefold() for short, named in texts.items() for w in (short, named.label)}
    for line in re.split(r"[\n;|]", text):
        if bracketed := [c for c in _BRACKETED.findall(line) if c.count(",") >= 2]:
            claims += [", ".join(p.strip() for p in c.split(",")) for c in bracketed]
            continue
        parts = [p.strip() for p in _NUMBERED.sub("", line).strip(" .").split(",")]
        if len(parts) == 3 and all(parts):
            ids = not any(" " in p for p in parts) and any(c.isdigit() or c in ".:/" for c in "".join(parts))
            claims += [", ".join(parts)] if ids or parts[1] in relations else []
    return tuple(dict.fromkeys(claims))


def _forms(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[tuple[str, ...]]:
    """Return how a reply may name each triple: by ids, by labels, and both from tail to head."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)])
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    forms = []
    for t in triples:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        head, tail, text = labels[t.subject], labels[t.object], relations[r].label
        written = [(s, r, o), (head, text, tail), (o, r, s), (tail, text, head)]
        groups = [g for a, named, b in written for g in ((a, named, "all"), ("all", named, b))]
        forms.append(tuple(_plain(", ".join(parts)) for parts in (*written, *groups)))
    return forms


def _plain(text: str) -> str:
    """Text without quotes and square brackets, one blank after every comma, in one case."""
    return _COMMA.sub(", ", _QUOTES.sub("", text)).casefold()


def _place(text: str, part: str) -> int:
    """Return where a part stands in a text as a whole triple; -1 if nowhere."""
    for match in re.finditer(f"(?={re.escape(part)})", text):
        start = match.start()
        # What stands before is looked at from afar enough to see past blanks.
        if _BEGINS.search(text[max(start - 9, 0) : start]) and _ENDS.match(text, start + len(part)):
            return start
    return -1
