"""PyQL as text: one action per line, as the agent writes them (QueryAgent, table 10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Node, Variable, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.clauses import (
    KINDS,
    MATCHES,
    OPERATORS,
    Clause,
    Count,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    Pattern,
    PatternItem,
    TimeWindow,
    Typed,
    Union,
)
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import (
    read_bare,
    read_iri,
    read_node,
    read_relation,
    read_value,
    read_variable,
    scan_arguments,
    write_iri,
    write_node,
    write_value,
)

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_OPERATORS = {"==": "=", "≠": "!=", "<>": "!=", "≤": "<=", "≥": ">=", "startswith": "starts_with"}
OPEN_END = "none"


def write_program(program: PyQL, profile: Profile | None) -> str:
    """The program, one action per line."""
    lines = [write_clause(clause, profile) for clause in program.clauses]
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
    build = BUILDERS.get(name)
    if build is None:
        legal = sorted(BUILDERS)
        raise ActionError(
            "unknown_action", f"{name} is no construct action: {', '.join(legal)}", name=name, legal=legal
        )
    least, most, run = build
    if not least <= len(arguments) <= most:
        due = str(least) if least == most else f"{least} to {most}" if most < MANY else f"{least} or more"
        raise ActionError(
            "arity",
            f"{name} takes {due} parameters, not {len(arguments)}",
            got=len(arguments),
            due=due,
            name=name,
        )
    return run(program, list(arguments), profile)


def _add_fact(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    subject = _subject(arguments[0], profile)
    relation = read_relation(arguments[1], profile)
    return program.add_fact(subject, relation, read_node(arguments[2], profile))


def _subject(form: str, profile: Profile) -> Node:
    return read_node(form, profile, "bad_subject")


def _add_type(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    return program.add_type(read_variable(arguments[0]), _type(arguments[1], profile))


def _type(form: str, profile: Profile) -> Node:
    return read_node(form, profile, "bad_type")


def _add_filter(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    return program.add_filter(*_comparison(arguments, profile))


def _comparison(arguments: list[str], profile: Profile) -> tuple[Node, str, Node, Kind]:
    """Both sides, the operator and the kind of a filter."""
    operator = read_operator(arguments[1], profile)
    left = read_value(arguments[0], profile)
    if operator in MATCHES and not arguments[2].startswith(("?", '"', "'")):
        return left, operator, text(arguments[2]), _kind(arguments[3:])
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


def _extreme(largest: bool) -> Callable[[PyQL, list[str], Profile], PyQL]:
    def build(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
        variable = read_variable(arguments[0], "max_not_variable")
        add = program.add_max if largest else program.add_min
        return add(variable, _kind(arguments[1:]))

    return build


def _add_count(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    counted, output, distinct = _counting(arguments, 1)
    return program.add_count(counted[0], output, distinct)


def _add_group(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    counted, output, distinct = _counting(arguments, 2)
    return program.add_group(counted[0], counted[1], output, distinct)


def _counting(arguments: list[str], inputs: int) -> tuple[list[Variable], Variable | None, bool]:
    """The variables counted, the output, and whether only distinct values count."""
    everything = arguments[-1].lower() == "all"
    rest = arguments[: len(arguments) - everything]
    outputs = [read_variable(a, "count_output_not_variable") for a in rest[inputs:]]
    return [read_variable(a) for a in rest[:inputs]], outputs[0] if outputs else None, not everything


def _most(name: str) -> Callable[[PyQL, list[str], Profile], PyQL]:
    def build(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
        counted, output, _ = _counting(arguments, 2)
        add = program.add_most if name == "add_most" else program.add_least
        return add(counted[0], counted[1], output)

    return build


def _add_union(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    return program.add_union(*(read_pattern(a, profile) for a in arguments))


def _add_not(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    if len(arguments) == 3:
        return program.add_not((_item(arguments, profile),))
    if len(arguments) == 2:
        _bad_pattern(", ".join(arguments))
    return program.add_not(read_pattern(arguments[0], profile))


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
        type_ = _type(parts[2], profile)
        if isinstance(type_, IRI):
            return Typed(read_variable(parts[0]), type_)
        _bad_pattern(", ".join(parts))
    subject, object_ = _subject(parts[0], profile), read_node(parts[2], profile)
    if isinstance(subject, IRI | Variable):
        return Fact(subject, read_relation(middle, profile), object_)
    raise ActionError("bad_subject", f"the literal {parts[0]} cannot be a subject", given=parts[0])


def _add_time_window(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    first, last = (read_relation(a, profile) for a in arguments[1:3])
    start, end = (_date(a) for a in [*arguments[3:], OPEN_END][:2])
    return program.add_time_window(read_variable(arguments[0]), first, last, start, end)


def _date(form: str) -> str:
    """The date of a time window's end; "" for an open one."""
    bare = re.sub(r"\^\^\S+$", "", form.strip()).strip("\"'")
    return "" if bare.lower() in ("", OPEN_END, "null", "open") else bare


def _add_order(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    direction = arguments[1].lower() if len(arguments) > 1 else "desc"
    limit = read_bare(arguments[2]) if len(arguments) > 2 else None
    if direction not in ("asc", "desc") or (len(arguments) > 2 and not arguments[2].isdecimal()):
        raise ActionError("bad_number", "write add_order(?variable, desc or asc, number of answers)")
    return program.add_order(
        read_variable(arguments[0]), direction == "desc", int(limit.value) if limit else 0
    )


def _set_answer(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    return program.set_answer(*(read_variable(a, "unknown_variable") for a in arguments))


def _ask(program: PyQL, arguments: list[str], profile: Profile) -> PyQL:
    return program.ask()


MANY = 1000
BUILDERS: dict[str, tuple[int, int, Callable[[PyQL, list[str], Profile], PyQL]]] = {
    "add_fact": (3, 3, _add_fact),
    "add_type": (2, 2, _add_type),
    "add_filter": (3, 4, _add_filter),
    "add_max": (1, 2, _extreme(True)),
    "add_min": (1, 2, _extreme(False)),
    "add_count": (1, 3, _add_count),
    "add_group": (2, 4, _add_group),
    "add_most": (2, 3, _most("add_most")),
    "add_least": (2, 3, _most("add_least")),
    "add_union": (2, MANY, _add_union),
    "add_not": (1, 3, _add_not),
    "add_time_window": (4, 5, _add_time_window),
    "add_order": (1, 3, _add_order),
    "set_answer": (1, MANY, _set_answer),
    "ask": (0, 0, _ask),
}
"""Construct action -> fewest and most parameters, and what it does to a program."""
