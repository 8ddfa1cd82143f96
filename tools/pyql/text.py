"""PyQL as text, as the agent writes it: terms, argument lists, and a program with one action a line.

Names may hold commas, brackets and apostrophes, so arguments are scanned, never split at commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable
from triplewise.tools.core.terms import text as string
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.program import (
    DATED,
    KINDS,
    MATCHES,
    OPERATORS,
    TEMPORAL,
    Clause,
    Count,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    Pattern,
    PatternItem,
    PyQL,
    TimeWindow,
    Typed,
    Union,
    check_date,
)

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
    if isinstance(node, Literal) and DATED.fullmatch(node.value) is None and not _number(node.value):
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


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_OPERATORS = {"==": "=", "≠": "!=", "<>": "!=", "≤": "<=", "≥": ">=", "startswith": "starts_with"}
OPEN_END = "none"


def write_program(program: PyQL, profile: Profile | None) -> str:
    """The program, one action per line."""
    lines: list[str] = []
    for clause in program.clauses:
        lines.append(write_clause(clause, profile))
    if program.order is not None:
        order = program.order
        direction = "desc" if order.descending else "asc"
        lines.append(f"add_order({order.variable.n3()}, {direction}, {order.limit})")
    if program.answer:
        lines.append(f"set_answer({', '.join(v.n3() for v in program.answer)})")
    if program.boolean:
        lines.append("ask()")
    return "\n".join(lines)


def write_clause(clause: Clause, profile: Profile | None) -> str:
    """The action that adds a clause."""
    match clause:
        case Fact():
            return f"add_fact({write_item(clause, profile)})"
        case Typed():
            return f"add_type({clause.variable.n3()}, {write_iri(clause.type, profile)})"
        case Filter():
            return _call("add_filter", write_item(clause, profile), clause.kind)
        case Extreme():
            return _call("add_max" if clause.largest else "add_min", clause.variable.n3(), clause.kind)
        case Count():
            everything = "" if clause.distinct else "all"
            ends = [clause.counted.n3(), *([clause.per.n3()] if clause.per else []), clause.output.n3()]
            return _call("add_group" if clause.per else "add_count", *ends, everything)
        case Union():
            return _call("add_union", *(write_pattern(p, profile) for p in clause.alternatives))
        case Not():
            return f"add_not({write_pattern(clause.pattern, profile)})"
        case TimeWindow():
            relations = (write_iri(r, profile, True) for r in (clause.from_relation, clause.to_relation))
            ends = [clause.start or OPEN_END, clause.end or OPEN_END]
            return _call("add_time_window", clause.mediator.n3(), *relations, *ends)


def _call(name: str, *arguments: str) -> str:
    return f"{name}({', '.join(a for a in arguments if a)})"


def write_item(item: PatternItem, profile: Profile | None) -> str:
    """The parts of a triple, type (`?x, a, Q5`), filter (`?x, >, 5`), superlative (`max, ?x`) or union."""
    match item:
        case Fact():
            relation = write_iri(item.relation, profile, True)
            return f"{write_node(item.subject, profile)}, {relation}, {write_node(item.object, profile)}"
        case Typed():
            return f"{item.variable.n3()}, a, {write_iri(item.type, profile)}"
        case Filter():
            return f"{write_value(item.left, profile)}, {item.operator}, {write_value(item.right, profile)}"
        case Extreme():
            parts = ("max" if item.largest else "min", item.variable.n3(), item.kind)
            return ", ".join(part for part in parts if part)
        case Union():
            return ", ".join(("union", *(write_pattern(p, profile) for p in item.alternatives)))


def write_pattern(pattern: Pattern, profile: Profile | None) -> str:
    """A pattern as `(s, r, o) & (s, r, o)`."""
    written = []
    for item in pattern:
        kind = f", {item.kind}" if isinstance(item, Filter) and item.kind else ""
        written.append(f"({write_item(item, profile)}{kind})")
    return " & ".join(written)


def read_program(text: str, profile: Profile) -> PyQL:
    """The program that a text wrote. Raises `ActionError`."""
    program, boolean = PyQL(), False
    for line in filter(None, map(str.strip, text.split("\n"))):
        match = _CALL.match(line)
        if match is None:
            raise ActionError("no_action", f"{line!r} is no action", given=line)
        arguments, _ = scan_arguments(line, match.end())
        # Facts with both ends fixed may stand before the `ask()` that allows them.
        program = apply(replace(program, boolean=True), match[1], arguments, profile)
        boolean = match[1] == "ask" or (boolean and match[1] != "set_answer")
    return replace(program, boolean=boolean)


def apply(program: PyQL, name: str, arguments: Sequence[str], profile: Profile) -> PyQL:
    """The program after one construct action, given as text.

    Raises:
        ActionError: a code of `CODES`, `unknown_action` or `arity`.
    """
    if name not in BUILDERS:
        legal = sorted(BUILDERS)
        raise ActionError(
            "unknown_action", f"{name} is no construct action: {', '.join(legal)}", name=name, legal=legal
        )
    least, most = BUILDERS[name]
    if not least <= len(arguments) <= most:
        due = str(least) if least == most else f"{least} to {most}" if most < MANY else f"{least} or more"
        raise ActionError(
            "arity",
            f"{name} takes {due} parameters, not {len(arguments)}",
            got=len(arguments),
            due=due,
            name=name,
        )
    forms = list(arguments)
    match name:
        case "add_fact":
            subject = read_node(forms[0], profile, "bad_subject")
            relation = read_relation(forms[1], profile)
            return program.add_fact(subject, relation, read_node(forms[2], profile))
        case "add_type":
            return program.add_type(read_variable(forms[0]), read_node(forms[1], profile, "bad_type"))
        case "add_filter":
            return program.add_filter(*_comparison(forms, profile))
        case "add_max":
            return program.add_max(read_variable(forms[0], "max_not_variable"), _kind(forms[1:]))
        case "add_min":
            return program.add_min(read_variable(forms[0], "max_not_variable"), _kind(forms[1:]))
        case "add_count":
            (counted,), output, distinct = _counting(forms, 1)
            return program.add_count(counted, output, distinct)
        case "add_group":
            (counted, per), output, distinct = _counting(forms, 2)
            return program.add_group(counted, per, output, distinct)
        case "add_most" | "add_least":
            (counted, per), output, _ = _counting(forms, 2)
            add = program.add_most if name == "add_most" else program.add_least
            return add(counted, per, output)
        case "add_union":
            return program.add_union(*[read_pattern(form, profile) for form in forms])
        case "add_not":
            if len(forms) == 2:
                _bad_pattern(", ".join(forms))
            pattern = (_item(forms, profile),) if len(forms) == 3 else read_pattern(forms[0], profile)
            return program.add_not(pattern)
        case "add_time_window":
            first, last = (read_relation(form, profile) for form in forms[1:3])
            start, end = (_date(form) for form in [*forms[3:], OPEN_END][:2])
            return program.add_time_window(read_variable(forms[0]), first, last, start, end)
        case "add_order":
            direction = forms[1].lower() if len(forms) > 1 else "desc"
            limit = forms[2] if len(forms) > 2 else "0"
            if direction not in ("asc", "desc") or not limit.isdecimal():
                raise ActionError("bad_number", "write add_order(?variable, desc or asc, number of answers)")
            return program.add_order(read_variable(forms[0]), direction == "desc", int(limit))
        case "set_answer":
            return program.set_answer(*[read_variable(form, "unknown_variable") for form in forms])
    return program.ask()


def _comparison(arguments: list[str], profile: Profile) -> tuple[Node, str, Node, Kind]:
    """Both sides, the operator and the kind of a filter."""
    operator = read_operator(arguments[1], profile)
    left = read_value(arguments[0], profile)
    if operator in MATCHES and not arguments[2].startswith(("?", '"', "'")):
        return left, operator, string(arguments[2]), _kind(arguments[3:])
    right = read_value(arguments[2], profile)
    return left, operator, right, _kind(arguments[3:])


def read_operator(form: str, profile: Profile) -> str:
    """The operator meant. Raises `bad_operator`, or `relation_as_operator` for what looks like a relation."""
    given = form.strip().strip("'\"`")
    operator = _OPERATORS.get(given.lower(), given.lower())
    if operator in OPERATORS:
        return operator
    iri = read_iri(form, profile, relation=True)
    # Where names are ids, any words are read as an entity: those are no relation.
    entities = tuple(set(profile.entity_namespaces) - set(profile.relation_namespaces))
    is_relation = iri is not None and len(given) > 1 and not iri.value.startswith(entities)
    raise ActionError(
        "relation_as_operator" if is_relation else "bad_operator",
        f"{given!r} is not an operator; use one of {', '.join(OPERATORS)}",
        given=given,
        legal=list(OPERATORS),
    )


def _kind(arguments: list[str]) -> Kind:
    """The kind of comparison written as a last argument."""
    given = arguments[0] if arguments else ""
    for kind in KINDS:
        if kind == given:
            return kind
    raise ActionError(
        "bad_comparison", f"{given!r} is no kind of comparison: {', '.join(KINDS[1:])}", given=given
    )


def _counting(arguments: list[str], inputs: int) -> tuple[list[Variable], Variable | None, bool]:
    """The variables counted, the output, and whether only distinct values count."""
    everything = arguments[-1].lower() == "all"
    rest = arguments[: len(arguments) - everything]
    outputs = [read_variable(a, "count_output_not_variable") for a in rest[inputs:]]
    return [read_variable(a) for a in rest[:inputs]], outputs[0] if outputs else None, not everything


def read_pattern(form: str, profile: Profile) -> Pattern:
    """The pattern written as `(s, r, o) & (s, r, o)`. Raises `ActionError`."""
    return tuple(_item(parts, profile) for parts in pattern_parts(form))


def pattern_parts(form: str) -> Iterator[list[str]]:
    """The parts of each bracketed triple of a pattern. Raises `ActionError` with code `bad_pattern`."""
    rest = form.strip()
    while rest:
        if rest[0] not in "({":
            _bad_pattern(form)
        arguments, end = scan_arguments(rest, 1)
        yield arguments
        rest = rest[end:].lstrip()
        if rest and not (rest := re.sub(r"^(?:&+|;|and\b|AND\b|\.)\s*", "", rest)):
            _bad_pattern(form)


def _bad_pattern(form: str) -> NoReturn:
    raise ActionError(
        "bad_pattern",
        f"{form!r} is no pattern: write (subject, relation, object), joined by & where there are several",
        given=form,
    )


def _item(parts: list[str], profile: Profile) -> PatternItem:
    """A triple, type, filter, superlative or union from its parts."""
    if parts and parts[0] in ("max", "min") and len(parts) in (2, 3):
        return Extreme(read_variable(parts[1]), parts[0] == "max", _kind(parts[2:]))
    if parts and parts[0] == "union" and len(parts) > 2:
        return Union(tuple(read_pattern(p, profile) for p in parts[1:]))
    if len(parts) not in (3, 4):
        _bad_pattern(", ".join(parts))
    middle = parts[1].strip()
    if len(parts) == 4 or middle in OPERATORS or middle in _OPERATORS:
        return Filter(*_comparison(parts, profile))
    if middle == "a":
        type_ = read_node(parts[2], profile, "bad_type")
        if isinstance(type_, IRI):
            return Typed(read_variable(parts[0]), type_)
        _bad_pattern(", ".join(parts))
    subject, object_ = read_node(parts[0], profile, "bad_subject"), read_node(parts[2], profile)
    if isinstance(subject, IRI | Variable):
        return Fact(subject, read_relation(middle, profile), object_)
    raise ActionError("bad_subject", f"the literal {parts[0]} cannot be a subject", given=parts[0])


def _date(form: str) -> str:
    """The date of a time window's end; "" for an open one."""
    bare = re.sub(r"\^\^\S+$", "", form.strip()).strip("\"'")
    return "" if bare.lower() in ("", OPEN_END, "null", "open") else bare


MANY = 1000
BUILDERS = {
    "add_fact": (3, 3),
    "add_type": (2, 2),
    "add_filter": (3, 4),
    "add_max": (1, 2),
    "add_min": (1, 2),
    "add_count": (1, 3),
    "add_group": (2, 4),
    "add_most": (2, 3),
    "add_least": (2, 3),
    "add_union": (2, MANY),
    "add_not": (1, 3),
    "add_time_window": (4, 5),
    "add_order": (1, 3),
    "set_answer": (1, MANY),
    "ask": (0, 0),
}
"""Construct action -> fewest and most parameters."""
