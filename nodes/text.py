"""How questions and facts read.

A text is a question, a claim to check, or a slot to fill (ODA, section 3.1). Triples, paths and observations
become lines for prompts and people, and replies of a model become triples.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from triplewise.tools.core.terms import Literal, Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.vocabulary import relation_texts

if TYPE_CHECKING:
    from triplewise.nodes.state import ScoredTriple, State

Form: TypeAlias = typing.Literal["question", "claim", "slot"]

_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_ASKS = {"who", "whom", "whose", "what", "which", "where", "when", "why", "how"}
_ORDERS = set(
    re.findall(r"\w+", "name list give tell show find count state say describe identify return get")
)
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")
_INVERTED = set(
    re.findall(
        r"[\w']+",
        """is are was were am be been do does did has have had can could will would shall should may might
        must isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't can't couldn't won't""",
    )
)
_PREPOSITIONS = set(re.findall(r"\w+", "in on at of for from to by with under through about since"))
_DENIALS = {"not", "never", "no", "neither", "nor", "without", "cannot", "none", "nobody"}
_TRUE = {"true", "yes", "correct", "right", "supported"}
_FALSE = {"false", "no", "incorrect", "wrong", "refuted", "not true"}

_COMMA, _QUOTES = re.compile(r"[ \t]*,[ \t]*"), re.compile(r"[\[\]'\"`*]")
_BRACKETED, _NUMBERED = re.compile(r"\(([^()]*)\)"), re.compile(r"^\s*(?:\d+[.)]|[-•])\s*")
_BEGINS, _ENDS = re.compile(r"(?:^|[^\w\s]|\n)[ \t]*$"), re.compile(r"[ \t]*(?:$|[\n).;,(|])")


def form_of(text: str) -> Form:
    """Return what a text asks for.

    A slot is `entity [SEP] relation`. A claim is a sentence that ends as a statement does and begins neither
    with a question word, nor with a verb before its subject, nor with an order.
    """
    if slot_of(text) is not None:
        return "slot"
    words = re.findall(r"[\w'’]+", text.casefold().replace("’", "'"))
    if not text.rstrip(" \"'”").endswith((".", "!")) or len(words) < 3:
        return "question"
    opening = words[1] if words[0] in _PREPOSITIONS or words[0] == "please" else words[0]
    if _LATE_ORDER.search(text.casefold()):
        return "question"
    openings = _ASKS | _ORDERS | (_INVERTED if opening == words[0] else set())
    return "question" if opening in openings else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]+)", text.casefold())
    return form_of(text) == "claim" or bool(first and first[1].replace("’", "'") in _INVERTED)


def denies(text: str) -> bool:
    """Return whether a text says that something is not so ("was never married", "isn't")."""
    words = re.findall(r"[\w']+", text.casefold().replace("’", "'"))
    return any(word in _DENIALS or word.endswith("n't") for word in words)


def normal_values(text: str, values: Sequence[str]) -> tuple[str, ...]:
    """The values of an answer; yes, no and their like are `true` or `false` where a text asks for that."""
    if not decides(text) or len(values) != 1:
        return tuple(values)
    word = values[0].strip(" .!\"'").casefold()
    truth = "true" if word in _TRUE else "false" if word in _FALSE else ""
    return (truth,) if truth else tuple(values)


def node_labels(kg: KnowledgeGraph, terms: Iterable[Term], exact: bool = True) -> dict[Term, str]:
    """Return a readable text for every term: its label, else its short form.

    `exact` keeps literals as the KG writes them; otherwise dates and numbers read as people write them.
    """
    distinct = list(dict.fromkeys(terms))
    labels = kg.labels(distinct)
    literal = kg.profile.short if exact else readable
    return {
        t: labels.get(t) or (literal(t) if isinstance(t, Literal) else kg.profile.short(t)) for t in distinct
    }


def contains_name(text: str, name: str) -> bool:
    """Return whether a name stands in a text as whole words, in any case; an empty one never does."""
    pattern = rf"(?<!\w){re.escape(name.casefold())}(?!\w)"
    return bool(name) and re.search(pattern, text.casefold()) is not None


def triple_text(
    kg: KnowledgeGraph, triples: Sequence[Triple], ids: bool = False, exact: bool = True
) -> list[str]:
    """`(subject, relation, object)` with labels; with `ids`, the short ids follow in brackets."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)], exact)
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    lines = []
    for t in triples:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        line = f"({labels[t.subject]}, {relations[r].label}, {labels[t.object]})"
        lines.append(f"{line} [{s}, {r}, {o}]" if ids else line)
    return lines


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
