"""The gate before every engine: only one SELECT or ASK passes, and it passes with a row cap.

A SPARQL text is split into tokens (SPARQL 1.1, section 19.8), so that IRIs, strings and comments which
merely contain a forbidden word pass, and no forbidden word hides in an escape or a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple

Form = OneOf["SELECT", "ASK"]

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>\#[^\n]*)
    | (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
    | (?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<variable>[?$]\w+)
    | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (?P<name>[\w.\-]*:(?:[\w.\-:]|%[0-9A-Fa-f]{2}|\\[^\w\s])*)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED_PAIR = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|.)", re.DOTALL)
_REFUSED = {
    "SERVICE": "SERVICE would send the query on to another server",
    **dict.fromkeys(("CONSTRUCT", "DESCRIBE"), "it yields triples, not rows"),
    **dict.fromkeys(
        ["INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD"],
        "it would change the knowledge graph",
    ),
    "DEFINE": "engine pragmas may load remote data",
}
_ENGINE_CALL = re.compile(r"<?(?:bif|sql):(?!contains\b)", re.IGNORECASE)


class Refused(ValueError):  # noqa: N818 - it says what happened to the query
    """The query must not reach an engine; the message says why and how to write it."""


class Token(NamedTuple):
    """One token: its kind, its text, where it starts, and how many brackets are open around it."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def keyword(self) -> str:
        """The word in capitals, or "" for anything that is not a bare word."""
        return self.text.upper() if self.kind == "word" else ""


@dataclass(frozen=True)
class ReadQuery:
    """A query that may reach an engine."""

    text: str
    form: Form
    tokens: tuple[Token, ...]

    def capped(self, rows: int) -> str:
        """The same query with at most `rows` solutions, in its own order.

        The LIMIT goes behind the outermost solution modifiers (before a trailing VALUES block, section
        18.2.4.5), or lowers the one that is there; nothing else of the query changes.
        """
        if self.form == "ASK":
            return self.text
        outer = [t for t in self._modifiers() if t.keyword in ("LIMIT", "VALUES")]
        for token in outer:
            if token.keyword == "LIMIT":
                return self._lower_limit(token, rows)
        at = outer[0].start if outer else len(self.text)
        return f"{self.text[:at]}\nLIMIT {rows}\n{self.text[at:]}".rstrip()

    @property
    def own_limit(self) -> int | None:
        """The LIMIT the query itself has outermost, if any."""
        for token in self._modifiers():
            if token.keyword == "LIMIT" and (number := self._number_after(token)):
                return int(number.text)
        return None

    def _modifiers(self) -> list[Token]:
        """Outermost tokens behind the group pattern, where solution modifiers stand."""
        closing = [i for i, t in enumerate(self.tokens) if t.text == "}" and t.depth == 0]
        start = closing[0] + 1 if closing else len(self.tokens)
        return [t for t in self.tokens[start:] if t.depth == 0]

    def _number_after(self, token: Token) -> Token | None:
        following = self.tokens[self.tokens.index(token) + 1 :]
        return following[0] if following and following[0].text.isdecimal() else None

    def _lower_limit(self, token: Token, rows: int) -> str:
        number = self._number_after(token)
        if number is None or int(number.text) <= rows:
            return self.text
        return f"{self.text[: number.start]}{rows}{self.text[number.start + len(number.text) :]}"


def read_query(sparql: str) -> ReadQuery:
    """Let one SELECT or ASK pass. Raises Refused for everything else."""
    tokens = tokenize(sparql)
    form = _form(tokens)
    for token in tokens:
        if reason := _REFUSED.get(token.keyword):
            raise Refused(f"{token.keyword} is refused: {reason}. Write one SELECT or ASK query.")
        if token.kind in ("iri", "name") and _ENGINE_CALL.match(token.text):
            raise Refused(f"{token.text} is refused: functions of the engine's own may have side effects.")
    return ReadQuery(sparql, form, tokens)


def tokenize(sparql: str) -> tuple[Token, ...]:
    """Tokens of a SPARQL text without spaces and comments. Raises Refused on what could hide others."""
    if "\r" in sparql.replace("\r\n", "\n"):
        raise Refused("a lone carriage return is refused: engines disagree whether it ends a line. Use \\n.")
    _refuse_hidden_characters(sparql)
    tokens: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(sparql):
        kind, word = str(match.lastgroup), match.group()
        if kind in ("space", "comment"):
            continue
        depth -= word in ("}", ")")
        tokens.append(Token(kind, word, match.start(), depth))
        depth += word in ("{", "(")
    return tuple(tokens)


def _refuse_hidden_characters(sparql: str) -> None:
    """Refuse escapes of ASCII characters: an engine that decodes them first would see other tokens."""
    for match in _ESCAPED_PAIR.finditer(sparql):
        code = match.group(1) or match.group(2)
        if code and int(code, 16) < 0x80:
            raise Refused(f"{match.group()} is refused: write the character {chr(int(code, 16))!r} itself.")


def _form(tokens: tuple[Token, ...]) -> Form:
    """The query form: the first word behind the prologue."""
    for token in tokens:
        word = token.keyword
        if word in ("SELECT", "ASK"):
            return "SELECT" if word == "SELECT" else "ASK"
        if word in _REFUSED:
            raise Refused(f"{word} is refused: {_REFUSED[word]}. Write one SELECT or ASK query.")
        if word not in ("PREFIX", "BASE") and token.kind not in ("iri", "name"):
            raise Refused(
                f"a query starts with SELECT or ASK, behind its PREFIX lines, not with {token.text!r}."
            )
    raise Refused("the query is empty: write one SELECT or ASK query.")


def variable_names(sparql: str) -> frozenset[str]:
    """Names of the variables that a SPARQL text mentions, without their marks."""
    return frozenset(t.text[1:] for t in tokenize(sparql) if t.kind == "variable")
