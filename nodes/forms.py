"""In which form something is asked: a question, a claim to check, or a slot to fill (ODA, section 3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["question", "claim", "slot"]

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
_PREPOSITIONS = {
    "in",
    "on",
    "at",
    "of",
    "for",
    "from",
    "to",
    "by",
    "with",
    "under",
    "through",
    "about",
    "since",
}
_DENIALS = {"not", "never", "no", "neither", "nor", "without", "cannot", "none", "nobody"}
_TRUE = {"true", "yes", "correct", "right", "supported"}
_FALSE = {"false", "no", "incorrect", "wrong", "refuted", "not true"}


def form_of(text: str) -> Form:
    """What a text asks for.

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
    asked = _ASKS | _ORDERS | (_INVERTED if opening == words[0] else set())
    return "question" if opening in asked else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Entity and relation of `entity [SEP] relation`; None for any other text."""
    found = _SLOT.fullmatch(text)
    return (found[1], found[2]) if found and "[SEP]" not in found[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]+)", text.casefold())
    return form_of(text) == "claim" or bool(first and first[1].replace("’", "'") in _INVERTED)


def denies(text: str) -> bool:
    """Whether a text says that something is not so ("was never married", "isn't")."""
    words = re.findall(r"[\w']+", text.casefold().replace("’", "'"))
    return any(word in _DENIALS or word.endswith("n't") for word in words)


def normal_values(text: str, values: Sequence[str]) -> tuple[str, ...]:
    """The values of an answer; yes, no and their like are `true` or `false` where a text asks for that."""
    if not decides(text) or len(values) != 1:
        return tuple(values)
    word = values[0].strip(" .!\"'").casefold()
    truth = "true" if word in _TRUE else "false" if word in _FALSE else ""
    return (truth,) if truth else tuple(values)
