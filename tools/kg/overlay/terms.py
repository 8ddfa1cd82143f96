"""Constants of a SPARQL text as terms of the KG."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term, Triple, Variable, text
from triplewise.tools.kg.readonly import Token, tokenize

TYPE = RDF + "type"

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPED_NAME = re.compile(r"\\(.)")


class NotRead(ValueError):  # noqa: N818 - it says what happened to the text
    """A piece of SPARQL that is beyond this reader; the message names it."""


def read_prefixes(tokens: Sequence[Token]) -> dict[str, str]:
    """The prologue's prefixes, each with its colon: `ex:` -> `http://example.org/`."""
    found = {}
    for at, token in enumerate(tokens):
        if token.keyword in ("SELECT", "ASK"):
            break
        if token.keyword == "BASE":
            raise NotRead("BASE")
        if token.keyword == "PREFIX":
            found[tokens[at + 1].text] = tokens[at + 2].text[1:-1]
    return found


def read_node(
    tokens: Sequence[Token], at: int, prefixes: Mapping[str, str]
) -> tuple[Term | Variable | None, int]:
    """The node that begins at a token, and where the next token is; None for UNDEF.

    Raises NotRead on what is no variable, IRI or literal.
    """
    token = tokens[at]
    match token.kind:
        case "variable":
            return Variable(token.text[1:]), at + 1
        case "iri" | "name":
            return read_iri(token, prefixes), at + 1
        case "string":
            return _string(tokens, at, prefixes)
        case "number":
            return _number(token.text), at + 1
    if token.text in ("+", "-") and tokens[at + 1].kind == "number":
        return _number(token.text + tokens[at + 1].text), at + 2
    if token.text in ("true", "false"):
        return Literal(token.text, XSD + "boolean"), at + 1
    if token.keyword == "UNDEF":
        return None, at + 1
    raise NotRead(token.text)


def read_iri(token: Token, prefixes: Mapping[str, str]) -> IRI:
    """An IRI in brackets or with a prefix. Raises NotRead on a blank node or an unknown prefix."""
    if token.kind == "iri":
        return IRI(token.text[1:-1])
    if token.text == "a":
        return IRI(TYPE)
    prefix, _, local = token.text.partition(":")
    if token.kind != "name" or prefix == "_" or f"{prefix}:" not in prefixes:
        raise NotRead(token.text)
    return IRI(prefixes[f"{prefix}:"] + _ESCAPED_NAME.sub(r"\1", local))


def _string(tokens: Sequence[Token], at: int, prefixes: Mapping[str, str]) -> tuple[Literal, int]:
    """A quoted literal, with its language or datatype."""
    written = tokens[at].text
    quotes = 3 if written[:3] in ('"""', "'''") else 1
    value = _ESCAPE.sub(_unescaped, written[quotes:-quotes])
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    if following is not None and following.kind == "language":
        return text(value, following.text[1:]), at + 2
    if following is not None and following.text == "^" and tokens[at + 2].text == "^":
        return Literal(value, read_iri(tokens[at + 3], prefixes).value), at + 4
    return text(value), at + 1


def _unescaped(escape: re.Match[str]) -> str:
    code = escape.group(1) or escape.group(2)
    return chr(int(code, 16)) if code else _LETTERS.get(escape.group(3), escape.group(3))


def _number(written: str) -> Literal:
    """A bare number, with the datatype that its form has (SPARQL 1.1, section 4.1.2)."""
    kind = "double" if "e" in written.lower() else "decimal" if "." in written else "integer"
    return Literal(written, XSD + kind)


def read_triple(statement: str) -> Triple:
    """The triple of an N-Triples statement. Raises NotRead where it is none."""
    tokens, nodes, at = tokenize(statement), [], 0
    for _ in range(3):
        node, at = read_node(tokens, at, {})
        nodes.append(node)
    subject, relation, value = nodes
    if not (isinstance(subject, IRI) and isinstance(relation, IRI) and isinstance(value, IRI | Literal)):
        raise NotRead(statement)
    return Triple(subject, relation, value)
