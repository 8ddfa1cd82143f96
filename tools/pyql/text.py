"""Terms and argument lists as the agent writes them.

Names may hold commas, brackets and apostrophes, so arguments are scanned, never split at commas.
"""

from __future__ import annotations

import re
from datetime import date

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable
from triplewise.tools.core.terms import text as string
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.clauses import OPERATORS

_IRI = re.compile(r'<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*>')
# What RFC 3987 allows, less brackets: no controls, no private use, nothing that ends an IRI in a query.
_ABSOLUTE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[!#$&-;=?-Z_a-z~\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd]"
    r"|%[0-9A-Fa-f]{2})*"
)
_LITERAL = re.compile(
    r"""(?s)(["'])(?P<body>.*)\1(?:@(?P<lang>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^(?P<type>\S+))?"""
)
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_DOUBLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_DATE = re.compile(r"(-?\d{4,})(?:-(\d\d)(?:-(\d\d))?)?")
_DATE_TIME = re.compile(r"(-?\d{4,}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?")
_DATED = re.compile(r"(?P<date>-?\d{4,}(?:-\d\d(?:-\d\d)?)?)(?:T\S+)?(?:Z|[+-]\d\d:\d\d)?")
_UNESCAPE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_OPEN, _CLOSE = "([{", ")]}"
NUMERIC = frozenset(
    XSD + name
    for name in (
        *("integer", "decimal", "double", "float", "int", "long", "short", "byte"),
        *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
        *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
)
TEMPORAL = frozenset(XSD + name for name in ("date", "dateTime", "gYear", "gYearMonth"))


def scan_arguments(text: str, start: int = 0) -> tuple[list[str], int]:
    """Arguments from `start` (just after the opening bracket) and the place after the closing one.

    Commas in quotes, brackets and `<IRIs>` do not separate. Without a closing bracket the text's end counts.
    """
    arguments, depth, begin, i = [], 0, start, start
    while i < len(text):
        character = text[i]
        if character == "<" and (iri := _IRI.match(text, i)):
            i = iri.end()
            continue
        if character in "\"'" and _opens(text, begin, i):
            i = _closing_quote(text, i) + 1
            continue
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE and depth:
            depth -= 1
        elif character in _CLOSE:
            break
        elif character == "," and not depth:
            arguments.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    last = text[begin:i].strip()
    return ([*arguments, last] if arguments or last else []), min(i + 1, len(text))


def _opens(text: str, begin: int, i: int) -> bool:
    """Whether a quote opens a literal: only at the start of an argument, else it is an apostrophe."""
    before = text[begin:i].rstrip()
    return not before or before[-1] in ",([{&"


def _closing_quote(text: str, i: int) -> int:
    """Place of the quote that ends a literal: one before a separator, else the next, else the same."""
    quote, fallback, j = text[i], 0, i + 1
    while j < len(text):
        if text[j] == "\\":
            j += 1
        elif text[j] == quote:
            if re.match(r"\s*(?:[,)\]}&@]|\^\^|$)", text[j + 1 :]):
                return j
            fallback = fallback or j
        j += 1
    return fallback or i


def read_variable(form: str, code: str = "bad_variable") -> Variable:
    """The variable written as `?name`. Raises `ActionError` with the code given."""
    form = form.strip()
    try:
        if form.startswith("?"):
            return Variable(form[1:])
    except ValueError:
        raise ActionError(
            "bad_variable",
            f"{form!r} is no variable name: use a question mark, then letters, digits and underscores",
            given=form,
        ) from None
    raise ActionError(code, f"{form!r} is not a variable: write ?name", given=form)


def read_literal(form: str) -> Literal | None:
    """The literal written as `"text"`, `"text"@en` or `"5"^^xsd:integer`; None if it is no quoted literal.

    Raises:
        ActionError: `bad_date` if its datatype is a date and its text is none.
    """
    match = _LITERAL.fullmatch(form.strip())
    if match is None:
        return None
    body = re.sub(r"(?s)\\(.)", lambda m: _UNESCAPE.get(m[1], m[1]), match["body"])
    datatype = match["type"] or ""
    if match["lang"]:
        return string(body, match["lang"])
    if not datatype:
        return string(body)
    full = datatype[1:-1] if datatype[0] == "<" else re.sub(r"^xsd:", XSD, datatype)
    return _typed(body, full) if _ABSOLUTE.fullmatch(full) else None


def _typed(value: str, datatype: str) -> Literal:
    """A literal with a datatype, checked if it is a date."""
    if datatype in TEMPORAL:
        check_date(value)
    return Literal(value, datatype)


def check_date(value: str) -> str:
    """The date part of a date. Raises `ActionError` with code `bad_date` if there is no such day."""
    match = _DATED.fullmatch(value)
    try:
        parts = [int(p) for p in match["date"].lstrip("-").split("-")] if match else []
        year, month, day = [*parts, 1, 1][:3]
        # Leap years repeat every 400 years, and `date` knows only the years 1 to 9999.
        date(2000 + year % 400, month, day)
    except ValueError:
        raise ActionError(
            "bad_date", f"{value!r} is no date: write YYYY, YYYY-MM or YYYY-MM-DD", given=value
        ) from None
    return match["date"] if match else ""


def read_bare(form: str) -> Literal | None:
    """A bare number, date or boolean as a literal: `5`, `1.5`, `2014-07-31`, `true`; None if it is none."""
    for pattern, name in ((_INTEGER, "integer"), (_DECIMAL, "decimal"), (_DOUBLE, "double")):
        if pattern.fullmatch(form):
            return Literal(form, XSD + name)
    if form in ("true", "false"):
        return Literal(form, XSD + "boolean")
    if match := _DATE.fullmatch(form):
        check_date(form)
        return Literal(form, XSD + ("date" if match[3] else "gYearMonth"))
    if _DATE_TIME.fullmatch(form):
        check_date(form)
        return Literal(form, XSD + "dateTime")
    return None


def read_node(form: str, profile: Profile, code: str = "bad_object") -> Node:
    """The variable, literal or entity that a form means; bare numbers and dates are not nodes.

    Raises:
        ActionError: `code`, `bad_variable`, `bad_date` or `bare_number_node`.
    """
    form = form.strip()
    if form.startswith("?"):
        return read_variable(form)
    if (literal := read_literal(form)) is not None:
        return literal
    if (iri := read_iri(form, profile)) is not None:
        return iri
    if read_bare(form) is not None:
        raise ActionError(
            "bare_number_node",
            f"the bare number {form} is no node: write a typed literal, for example "
            f'"{form}"^^xsd:integer, or bind a variable with add_fact and compare it with add_filter',
            given=form,
        )
    raise ActionError(code, f"{form!r} is neither an entity id, a literal nor a variable", given=form)


def read_value(form: str, profile: Profile) -> Node:
    """A node or a bare number, date or boolean: what a filter compares.

    Raises:
        ActionError: as `read_node`, with code `bad_object`.
    """
    form = form.strip()
    bare = None if form.startswith("?") else read_bare(form)
    return bare if bare is not None else read_node(form, profile)


def read_iri(form: str, profile: Profile, relation: bool = False) -> IRI | None:
    """The absolute IRI that a form means, or None."""
    iri = profile.expand(form.strip(), relation)
    return iri if iri is not None and _ABSOLUTE.fullmatch(iri.value) else None


def read_term(form: str, profile: Profile) -> Term | None:
    """The entity or literal that a linked id stands for: an id, `"1.0"^^xsd:float`, `"text"`; else None.

    Quotes alone do not make a literal where the profile knows names in quotes.
    """
    try:
        literal = read_literal(form)
    except ActionError:
        return None
    if literal is not None and not form.strip().endswith(form.strip()[0]):
        return literal
    return read_iri(form, profile) or literal


def read_relation(form: str, profile: Profile) -> IRI:
    """The relation that a form means. Raises `ActionError` with code `bad_relation`."""
    iri = None if form.strip().startswith(("?", '"')) else read_iri(form, profile, relation=True)
    if iri is None:
        raise ActionError("bad_relation", f"{form!r} is not the id of a relation", given=form)
    return iri


def write_node(node: Node, profile: Profile | None) -> str:
    """The form of a term that `read_node` (or `read_value`) reads back as the same term."""
    if isinstance(node, IRI):
        return write_iri(node, profile)
    if isinstance(node, Literal) and node.datatype.startswith(XSD) and node.datatype != XSD + "string":
        return node.n3().rpartition("^^")[0] + "^^xsd:" + node.datatype[len(XSD) :]
    return node.n3()


def write_value(node: Node, profile: Profile | None) -> str:
    """Like `write_node`, with numbers and dates bare where that says the same."""
    if isinstance(node, Literal) and _DATED.fullmatch(node.value) is None and not _number(node.value):
        return write_node(node, profile)
    if isinstance(node, Literal) and not node.language and _same_bare(node):
        return node.value
    return write_node(node, profile)


def _number(value: str) -> bool:
    """Whether a text is a bare number or boolean."""
    return any(p.fullmatch(value) for p in (_INTEGER, _DECIMAL, _DOUBLE)) or value in ("true", "false")


def _same_bare(literal: Literal) -> bool:
    """Whether a literal's text alone is read as the same literal."""
    try:
        return read_bare(literal.value) == literal
    except ActionError:
        return False


def write_iri(iri: IRI, profile: Profile | None, relation: bool = False) -> str:
    """The short form of an IRI if it is safe among commas and reads back the same, else `<IRI>`."""
    if profile is None:
        return iri.n3()
    short = profile.short(iri)
    unsafe = (
        re.search(r"[,()\[\]{}<>&\"'?]|[^\S ]", short)
        or short in (*OPERATORS, "a", "none")
        or short != short.strip()
    )
    plain = not unsafe and (relation or not _looks_bare(short))
    return short if plain and profile.expand(short, relation) == iri else iri.n3()


def _looks_bare(short: str) -> bool:
    """Whether a short id would be read as a number or date."""
    try:
        return read_bare(short) is not None
    except ActionError:
        return True
