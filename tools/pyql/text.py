"""PyQL as text, as the agent writes it: terms, argument lists, and a program with one action a line.

Names may hold commas, brackets and apostrophes, so arguments are scanned, never split at commas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable, text as string
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import OPERATORS, TEMPORAL, PyQL

_IRI = re.compile(r'<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*>')
# What RFC 3987 allows, less brackets: no controls, no private use, nothing that ends an IRI in a query.
_ABSOLUTE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[!#$&-;=?-Z_a-z~\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd]"
    r"|%[0-9A-Fa-f]{2})*"
)
_LITERAL = re.compile(
    r"""(?s)(["'])(?P<body>.*)\1(?:@(?P<lang>[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*)|\^\^(?P<type>\S+))?"""
)
_BARE = {
    "integer": r"[+-]?\d+",
    "decimal": r"[+-]?\d*\.\d+",
    "double": r"[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+",
    "boolean": r"true|false",
    "date": r"-?\d{4,}-\d\d-\d\d",
    "gYearMonth": r"-?\d{4,}-\d\d",
    "dateTime": r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?",
}
_UNESCAPE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_OPEN, _CLOSE = "([{", ")]}"


def scan_arguments(text: str, start: int = 0) -> tuple[list[str], int]:
    """Arguments after an opening bracket at `start`, and the place after the closing one, or the text's end.

    Commas in quotes, brackets and `<IRIs>` do not separate.
    """
    arguments, depth, begin, i = [], 0, start, start
    while i < len(text):
        character = text[i]
        if character == "<" and (iri := _IRI.match(text, i)):
            i = iri.end()
            continue
        # A quote opens a literal only at the start of an argument, else it is an apostrophe.
        if character in "\"'" and text[begin:i].rstrip()[-1:] in ("", *",([{&"):
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
    if not form.startswith("?"):
        raise ActionError(code, f"{form!r} is not a variable: write ?name", given=form)
    try:
        return Variable(form[1:])
    except ValueError:
        message = f"{form!r} is not a variable name: write a question mark, then letters, digits, underscores"
        raise ActionError("bad_variable", message, given=form) from None


def read_literal(form: str) -> Literal | None:
    """The literal written as `"text"`, `"text"@en` or `"5"^^xsd:integer`; else None."""
    if (match := _LITERAL.fullmatch(form.strip())) is None:
        return None
    body = re.sub(r"(?s)\\(.)", lambda m: _UNESCAPE.get(m[1], m[1]), match["body"])
    datatype = match["type"] or ""
    if not datatype:
        return string(body, match["lang"] or "")
    full = datatype[1:-1] if datatype[0] == "<" else re.sub(r"^xsd:", XSD, datatype)
    return _typed(body, full) if _ABSOLUTE.fullmatch(full) else None


def _typed(value: str, datatype: str) -> Literal:
    if datatype in TEMPORAL:
        pyql.check_date(value)
    return Literal(value, datatype)


def bare_datatype(form: str) -> str | None:
    """The datatype of a bare number, date or boolean (`5`, `2014-07-31`, `true`); None for all else."""
    return next((XSD + name for name, pattern in _BARE.items() if re.fullmatch(pattern, form)), None)


def read_bare(form: str) -> Literal | None:
    """A bare number, date or boolean as a literal; None if it is none. Raises `bad_date`."""
    datatype = bare_datatype(form)
    return None if datatype is None else _typed(form, datatype)


def read_iri(form: str, profile: Profile, relation: bool = False) -> IRI | None:
    """The absolute IRI that a form means, or None."""
    iri = profile.expand(form.strip(), relation)
    return iri if iri is not None and _ABSOLUTE.fullmatch(iri.value) else None


def read_term(form: str, profile: Profile) -> Term | None:
    """The entity or literal that a linked id stands for, else None. Names in quotes may be entities."""
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


def is_computable(number: Literal) -> bool:
    """Whether every engine computes with a number as it is; some cannot with long integers and decimals."""
    return number.datatype in (XSD + "double", XSD + "float") or len(number.value) <= 16


def write_node(node: Node, profile: Profile) -> str:
    """The form of a term that `Reader.node` (or `value`) reads back as the same term."""
    if isinstance(node, IRI):
        return write_iri(node, profile)
    if isinstance(node, Literal) and node.datatype.startswith(XSD) and node.datatype != XSD + "string":
        return node.n3().rpartition("^^")[0] + "^^xsd:" + node.datatype[len(XSD) :]
    return node.n3()


def write_value(node: Node, profile: Profile) -> str:
    """Like `write_node`, with numbers and dates bare where that says the same."""
    if isinstance(node, Literal) and not node.language and bare_datatype(node.value) == node.datatype:
        return node.value
    return write_node(node, profile)


def write_iri(iri: IRI, profile: Profile, relation: bool = False) -> str:
    """The short form of an IRI if it is safe among commas and reads back the same, else `<IRI>`."""
    short = profile.short(iri)
    unsafe = re.search(r"[,()\[\]{}<>&\"'?]|[^\S ]|^ | $", short) or short in (*OPERATORS, "a", "none")
    plain = not unsafe and (relation or bare_datatype(short) is None)
    return short if plain and profile.expand(short, relation) == iri else iri.n3()


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_OPERATORS = {"==": "=", "≠": "!=", "<>": "!=", "≤": "<=", "≥": ">=", "startswith": "starts_with"}


def write_program(program: PyQL, profile: Profile) -> str:
    """The program, one action per line."""
    lines = [_write_clause(clause, profile) for clause in program.clauses]
    if order := program.order:
        direction = "desc" if order.descending else "asc"
        lines.append(f"add_order({order.variable.n3()}, {direction}, {order.limit})")
    if program.answer:
        lines.append(f"set_answer({', '.join(v.n3() for v in program.answer)})")
    return "\n".join([*lines, "ask()"] if program.boolean else lines)


def _write_clause(clause: pyql.Clause, profile: Profile) -> str:
    """A clause as the action that adds it: its parts in a pattern, without the word that the name says."""
    if isinstance(clause, pyql.Not):
        return f"add_not({write_pattern(clause.pattern, profile)})"
    parts = list(filter(None, _parts(clause, profile)))
    match clause:
        case pyql.Fact() | pyql.Filter():
            name = "add_fact" if isinstance(clause, pyql.Fact) else "add_filter"
        case pyql.Typed():
            name, parts = "add_type", [parts[0], parts[2]]
        case pyql.Aggregate(function="count"):
            name, parts = "add_group" if clause.per else "add_count", parts[1:]
        case pyql.Aggregate(of, output, per, function, kind):
            given = [function, of.n3(), output.n3(), per.n3() if per else "", kind]
            name, parts = "add_aggregate", list(filter(None, given))
        case pyql.AnyOf(nodes=(_,)):
            name, parts = "add_union", [f"({', '.join(parts)})"]
        case _:
            name, *parts = parts
            name = f"add_{name}"
    return f"{name}({', '.join(parts)})"


def _parts(item: pyql.PatternItem, profile: Profile) -> list[str]:
    """The parts of a triple, type (`?x, a, Q5`), filter (`?x, >, 5`), superlative (`max, ?x`), count
    (`count, ?y, ?x, ?n`: of ?y for each ?x) or union; "" for what is left out."""
    match item:
        case pyql.Fact(subject, relation, end):
            written = write_node(subject, profile), write_iri(relation, profile, True)
            return [*written, write_node(end, profile)]
        case pyql.Typed(variable, type_):
            return [variable.n3(), "a", write_iri(type_, profile)]
        case pyql.AnyOf(variable, (node,)):
            return [variable.n3(), "=", write_node(node, profile)]
        case pyql.AnyOf(variable, nodes):
            return ["union", *(f"({variable.n3()}, =, {write_node(node, profile)})" for node in nodes)]
        case pyql.Filter(left, operator, right, kind):
            return [write_value(left, profile), operator, write_value(right, profile), kind]
        case pyql.Extreme(variable, largest, kind):
            return ["max" if largest else "min", variable.n3(), kind]
        case pyql.Aggregate(of, output, per):
            return ["count", of.n3(), per.n3() if per else "", output.n3()]
        case pyql.Union(alternatives):
            return ["union", *(write_pattern(p, profile) for p in alternatives)]


def write_pattern(pattern: pyql.Pattern, profile: Profile) -> str:
    """A pattern as `(s, r, o) & (s, r, o)`."""
    written = (", ".join(filter(None, _parts(item, profile))) for item in pattern)
    return " & ".join(f"({item})" for item in written)


def read_program(text: str, profile: Profile) -> PyQL:
    """The program that a text wrote. Raises `ActionError`."""
    program, reader = PyQL(), Reader(profile)
    for line in filter(None, map(str.strip, text.split("\n"))):
        if (match := _CALL.match(line)) is None:
            raise ActionError("no_action", f"{line!r} is not an action", given=line)
        program = apply(program, match[1], scan_arguments(line, match.end())[0], reader)
    return program


class Reader:
    """Reads the arguments of construct actions as terms and patterns. All methods raise `ActionError`."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def node(self, form: str, code: str = "bad_object") -> Node:
        """The variable, literal or entity that a form means; raises `code`, or e.g. `bare_number_node`."""
        form = form.strip()
        if form.startswith("?"):
            return read_variable(form)
        if form in ("true", "false"):  # no id is written so: see `write_iri`
            return _typed(form, XSD + "boolean")
        if (term := read_literal(form) or read_iri(form, self.profile)) is not None:
            return term
        if read_bare(form) is not None:
            fix = f'write a typed literal, for example "{form}"^^xsd:integer, or bind a variable with'
            message = f"the bare number {form} is not a node: {fix} add_fact and compare it with add_filter"
            raise ActionError("bare_number_node", message, given=form)
        raise ActionError(code, f"{form!r} is neither an entity id, a literal nor a variable", given=form)

    def relation(self, form: str) -> IRI:
        """The relation that a form means."""
        return read_relation(form, self.profile)

    def value(self, form: str) -> Node:
        """What a filter compares: a node, or a bare number, date or boolean."""
        bare = read_bare(form.strip())
        return bare if bare is not None else self.node(form)

    def parts(self, parts: list[str]) -> list[str]:
        """The parts of one bracketed item of a pattern."""
        return parts

    def fact(self, subject: str, relation: str, end: str) -> tuple[Node, IRI, Node]:
        """The parts of a triple."""
        return self.node(subject, "bad_subject"), self.relation(relation), self.node(end)

    def pattern(self, form: str) -> pyql.Pattern:
        """The pattern written as `(s, r, o) & (s, r, o)`."""
        items, rest = [], form.strip()
        while rest:
            if rest[0] not in "({":
                raise _bad_pattern(form)
            arguments, end = scan_arguments(rest, 1)
            items.append(self.item(self.parts(arguments)))
            rest = rest[end:].lstrip()
            if rest and not (rest := re.sub(r"^(?:&+|;|and\b|AND\b|\.)\s*", "", rest)):
                raise _bad_pattern(form)
        return tuple(items)

    def item(self, parts: list[str]) -> pyql.PatternItem:
        """A triple, type, filter, superlative, count or union from its parts."""
        match parts:
            case ["max" | "min" as best, variable] | ["max" | "min" as best, variable, _]:
                return pyql.Extreme(read_variable(variable), best == "max", _kind(parts[2:]))
            case ["count", of, per, output] if of.startswith("?"):
                return pyql.Aggregate(read_variable(of), _read_output(output), read_variable(per))
            case ["union", first, *others] if others:
                return pyql.Union(tuple(self.pattern(p) for p in (first, *others)))
            case [left, operator, right, *kind] if len(kind) < 2:
                if kind or operator in OPERATORS or operator in _OPERATORS:
                    return pyql.Filter(*self.comparison(left, operator, right, kind))
                if operator == "a":
                    type_ = self.node(right, "bad_type")
                    if isinstance(type_, IRI):
                        return pyql.Typed(read_variable(left), type_)
                else:
                    return pyql.checked_fact(*self.fact(left, operator, right))
        raise _bad_pattern(", ".join(parts))

    def comparison(
        self, left: str, operator: str, right: str, kind: list[str]
    ) -> tuple[Node, str, Node, pyql.Kind]:
        """Both sides, the operator and the kind of a filter; what text is matched with stays text."""
        given = operator.strip().strip("'\"`")
        sign = _OPERATORS.get(given.lower(), given.lower())
        if sign not in OPERATORS:
            iri = read_iri(operator, self.profile, relation=True)
            # Where names are ids, any words are read as an entity, never as a relation.
            entities = tuple(set(self.profile.entity_namespaces) - set(self.profile.relation_namespaces))
            is_relation = iri is not None and len(given) > 1 and not iri.value.startswith(entities)
            code = "relation_as_operator" if is_relation else "bad_operator"
            message = f"{given!r} is not an operator; use one of {', '.join(OPERATORS)}"
            raise ActionError(code, message, given=given, legal=list(OPERATORS))
        is_text = sign in pyql.MATCHES and not right.startswith(("?", '"', "'"))
        return self.value(left), sign, string(right) if is_text else self.value(right), _kind(kind)


def apply(program: PyQL, name: str, arguments: Sequence[str], reader: Reader) -> PyQL:
    """The program after one construct action, given as text. Raises `ActionError`, see `PyQL`."""
    match name, list(arguments):
        case "add_fact", [subject, relation, end]:
            return program.add_fact(*reader.fact(subject, relation, end))
        case "add_type", [variable, type_]:
            return program.add_type(read_variable(variable), reader.node(type_, "bad_type"))
        case "add_filter", [left, operator, right, *kind]:
            return program.add_filter(*reader.comparison(left, operator, right, kind))
        case "add_aggregate", [function, variable, *rest]:
            return program.add_aggregate(function.lower(), read_variable(variable), *_output_and_group(rest))
        case "add_max" | "add_min", [variable, *kind]:
            best = read_variable(variable, "max_not_variable")
            return program.add_extreme(best, name == "add_max", _kind(kind))
        case "add_count", [variable, *output] if len(output) < 2:
            return program.add_count(read_variable(variable), *map(_read_output, output))
        case "add_group", [counted, per, *output] if len(output) < 2:
            return program.add_group(read_variable(counted), read_variable(per), *map(_read_output, output))
        case "add_most" | "add_least", [counted, per]:
            return program.add_most(read_variable(counted), read_variable(per), name == "add_most")
        case "add_union", forms:
            return program.add_union(*map(reader.pattern, forms))
        case "add_not", parts:
            return program.add_not(reader.pattern(parts[0]) if len(parts) == 1 else [reader.item(parts)])
        case "add_order", [variable, *rest] if len(rest) < 3:
            direction, limit = (given or default for given, default in zip_longest(rest, ("desc", "0")))
            if direction.lower() not in ("asc", "desc") or not limit.isdecimal():
                raise ActionError("bad_number", "write add_order(?variable, desc or asc, number of answers)")
            return program.add_order(read_variable(variable), direction.lower() == "desc", int(limit))
        case "set_answer", forms:
            return program.set_answer(*[read_variable(form, "unknown_variable") for form in forms])
        case "ask", []:
            return program.ask()
    message = f"{name} with {len(arguments)} arguments is not a construct action"
    raise ActionError("unknown_action", message, name=name)


def _kind(arguments: list[str]) -> pyql.Kind:
    """The kind of comparison written as a last argument."""
    given = ", ".join(arguments)
    if given not in pyql.KINDS:
        message = f"{given!r} is not a kind of comparison: {', '.join(pyql.KINDS[1:])}"
        raise ActionError("bad_comparison", message, given=given)
    return given


def _read_output(form: str) -> Variable:
    return read_variable(form, "count_output_not_variable")


def _output_and_group(arguments: list[str]) -> tuple[Variable | None, Variable | None, pyql.Kind]:
    """The new variable, the one that values are grouped by ("" or nothing for none), and the kind."""
    kind = [a for a in arguments if a and not a.startswith("?")]
    output, per, *_ = [*(read_variable(a) if a else None for a in arguments if a not in kind), None, None]
    return output, per, _kind(kind)


def _bad_pattern(form: str) -> ActionError:
    rule = "write (subject, relation, object), joined by & where there are several"
    return ActionError("bad_pattern", f"{form!r} is not a pattern: {rule}", given=form)
