"""Lines of N-Triples as subject, relation, object: a fast form as one expression, the parser for the rest.

Nearly all lines of a dump are plain. They are recognised by one regular expression, which accepts only what
the parser would accept and write the same way, and taken apart by the engine. Every other line (escapes of
characters, blank nodes, comments, IRIs out of the ordinary, mistakes) goes through the parser. All terms come
out in one spelling, so that equal terms are equal strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyoxigraph as ox

from triplewise.tools.core.terms import XSD
from triplewise.tools.kg.rdf import BLANK

if TYPE_CHECKING:
    import ibis.expr.types as ir

_CHARACTER = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f][0-9A-Fa-f])"
_IRI = (
    rf"<[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?:[/?]{_CHARACTER}*)?|[A-Za-z0-9]{_CHARACTER}*)"
    rf"(?:#{_CHARACTER}*)?>"
)
_TAG = r"@[a-z]{1,8}(?:-[a-z0-9]{1,8})*"
_LITERAL = rf'"(?:[^"\\\x00-\x1f\x7f]|\\["\\nrt])*"(?:{_TAG}|\^\^{_IRI})?'
PLAIN = rf"^{_IRI} {_IRI} (?:{_IRI}|{_LITERAL}) \.$"
"""A plain line, without its end. The same in the dialects of RE2, Java and Python."""
STRING = f"^^<{XSD}string>"


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a line is no triple."""

    message: str


def plain_triples(lines: ir.Table) -> ir.Table:
    """The triples of the plain lines: `s`, `p`, `o`, as N-Triples writes them, from a table with `line`."""
    import ibis

    plain = lines.filter(lines.line.re_search(PLAIN))
    plain = plain.mutate(cut=plain.line.find(" "))
    plain = plain.mutate(s=plain.line.left(plain.cut), rest=plain.line.substr(plain.cut + 1))
    plain = plain.mutate(cut=plain.rest.find(" "))
    size = plain.rest.length() - plain.cut - len("  .")
    plain = plain.select("s", p=plain.rest.left(plain.cut), o=plain.rest.substr(plain.cut + 1, size))
    bare = plain.o.left(plain.o.length() - len(STRING))
    return plain.mutate(o=ibis.ifelse(plain.o.endswith(STRING), bare, plain.o))


def other_lines(lines: ir.Table) -> ir.Table:
    """The lines that are not plain: `n`, `line`. Empty ones are left out."""
    return lines.filter(~lines.line.re_search(PLAIN) & (lines.line != "")).select("n", "line")


def parsed(line: str, source: int) -> tuple[str, str, str] | Bad | None:
    """The triple of any line, in the same spelling; None for a comment.

    Args:
        line: the line. source: number of its file: blank nodes become IRIs that are distinct by file.
    """
    try:
        quads = list(ox.parse(input=line.encode(), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError as error:
        return Bad(str(error.msg or error).split(": ", 1)[-1])
    except UnicodeEncodeError:
        return Bad("not UTF-8")
    if not quads:
        return None
    if isinstance(quads[0].object, ox.Triple):
        return Bad("a triple as the object of a triple (RDF 1.2) is not supported")
    return _written(quads[0].subject, source), str(quads[0].predicate), _written(quads[0].object, source)


def _written(term: object, source: int) -> str:
    return f"<{BLANK}{source}-{term.value}>" if isinstance(term, ox.BlankNode) else str(term)
