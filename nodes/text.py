"""Facts as lines of prompts, and replies of a model read back as facts."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from triplewise.tools.core.terms import Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels, relation_texts, triple_text

if TYPE_CHECKING:
    from triplewise.nodes.state import ScoredTriple, State

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


def memory_texts(kg: KnowledgeGraph, state: State) -> list[str]:
    """Memory as prompts show it: its paths, then what the model wrote by itself, marked as such."""
    return [*memory_lines(kg, state.memory), *(f"{f} (not from the knowledge graph)" for f in state.written)]


def observation_lines(
    kg: KnowledgeGraph, observation: Sequence[ScoredTriple], cuts: Sequence[str] = ()
) -> list[str]:
    """One line a triple, best first, read through its mediator where it has one; then what was left out."""
    joins = [s.through for s in observation if s.through is not None]
    through = iter(triple_text(kg, joins, exact=False))
    plain = triple_text(kg, [s.triple for s in observation], exact=False)
    lines = []
    for seen, line in zip(observation, plain, strict=True):
        lines.append(line if seen.through is None else f"{next(through)} -> {line}")
    return [*lines, *(f"(not seen: {cut})" for cut in cuts)]


def parse_triples(kg: KnowledgeGraph, reply: str, offered: Sequence[Triple]) -> list[Triple]:
    """Return the offered triples that a reply names, by ids or by labels, in the reply's order.

    What the KG did not give is dropped: a triple that is not among `offered` was made up. One written from
    its tail to its head is taken as the KG has it.
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
    their own, or three parts whose middle one is a relation of those given; the reasoning around is no claim.
    """
    text = _plain(reply)
    for form in sorted({f for forms in _forms(kg, given) for f in forms}, key=len, reverse=True):
        while (place := _place(text, form)) >= 0:
            text = f"{text[:place]} {text[place + len(form) :]}"
    shorts = {kg.profile.short(t.relation) for t in given}
    texts = relation_texts(kg, list(shorts))
    relations = {w.casefold() for short, named in texts.items() for w in (short, named.label)}
    claims = (claim for line in re.split(r"[\n;|]", text) for claim in _claims(line, relations))
    return tuple(dict.fromkeys(claims))


def _claims(line: str, relations: Container[str]) -> list[str]:
    """Return what looks like a triple in a line."""
    bracketed = [c for c in _BRACKETED.findall(line) if c.count(",") >= 2]
    if bracketed:
        return [", ".join(p.strip() for p in c.split(",")) for c in bracketed]
    parts = [p.strip() for p in _NUMBERED.sub("", line).strip(" .").split(",")]
    if len(parts) != 3 or not all(parts):
        return []
    ids = not any(" " in p for p in parts) and any(c.isdigit() or c in ".:/" for c in "".join(parts))
    return [", ".join(parts)] if ids or parts[1] in relations else []


def _forms(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[tuple[str, ...]]:
    """Return how a reply may name each triple: by ids, by labels, and both from tail to head."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)])
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    forms = []
    for t in triples:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        head, tail, text = labels[t.subject], labels[t.object], relations[r].label
        written = [(s, r, o), (head, text, tail), (o, r, s), (tail, text, head)]
        forms.append(tuple(_plain(", ".join(parts)) for parts in written))
    return forms


def _plain(text: str) -> str:
    """Text without quotes and square brackets, one blank after every comma, in one case."""
    return _COMMA.sub(", ", _QUOTES.sub("", text)).casefold()


def _place(text: str, part: str) -> int:
    """Return where a part stands in a text as a whole triple; -1 if nowhere."""
    start = text.find(part)
    while start >= 0:
        # What stands before is looked at from afar enough to see past blanks.
        before = text[max(start - 9, 0) : start]
        if _BEGINS.search(before) and _ENDS.match(text, start + len(part)):
            return start
        start = text.find(part, start + 1)
    return -1
