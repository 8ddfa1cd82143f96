"""AgentBench's actions on a knowledge graph: sets of entities, one made from another (QueryAgent, 5.4).

Relations are followed from subject to object, as published. Where a graph has no inverse relations
(`Profile.reciprocal`), those that arrive at a node are offered too, written `^relation`. A relation or
attribute that was never shown is only refused if it finds nothing: rows prove that it exists.

The state of a run is the text of its `Sets`, one successful call a line; those of `_MAKERS` make a set:

```
get_neighbors(m.02r8js, digicams.camera_color_filter_array_type.cameras)
get_neighbors(#0, ^P31)
intersection(#0, #1)
argmax(#2, P1082, number)
answer(#3)
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from triplewise.tools.actions.comparison import compared, is_measure
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, list_values, names, relation_names, short_ids
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Parameter, Toolset, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Node, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.pyql.program import (
    KINDS,
    Aggregate,
    AnyOf,
    Clause,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    PatternItem,
    PyQL,
    TimeWindow,
    Typed,
    Union,
    Value,
    fresh,
)
from triplewise.tools.pyql.text import read_relation, read_term, scan_arguments, write_iri, write_node

SHOWN_TYPES = 20
BACKWARD = "^"
"""Before a relation: it is followed from object to subject, as in SPARQL."""
_MAKERS = {"get_neighbors": 2, "intersection": 2, "union": 2, "argmax": 2, "argmin": 2, "count": 1}
"""Actions that make a set, and how many arguments they have at least."""
_LINE = re.compile(r"\s*([a-z]+(?:_[a-z]+)*)\s*\(")
_SET = re.compile(r"#(\d+)")
_SET_FORM = re.compile(r"(?i)[\[(]?(?:variable|var)?\s*#\s*(\d+)[\])]?\.?")
_FINAL = re.compile(
    r"(?im)^[ \t>*_`-]*Final[ _]Answer[ \t]*\d*[ \t*_`]*[:：][ \t*_`]*(?P<line>\S.*?)[ \t*_`]*$"
    r"|(?<=\s)Final[ _]Answer[ \t]*[:：][ \t]*(?P<inline>#\d+)"
)


@dataclass(frozen=True)
class Sets:
    """All sets made so far, each from entities or from sets before it.

    Attributes:
        calls: the call that made each; its place is its number. Entities and relations stand in them as PyQL
            writes them, sets as `#n`; a superlative may end with how its values compare.
        answer: number of the final answer; None until it was given.
    """

    calls: tuple[Call, ...] = ()
    answer: int | None = None

    def with_set(self, name: str, *arguments: str) -> Sets:
        """Return the sets with one more."""
        return Sets((*self.calls, Call(name, arguments)))

    def program(self, n: int, profile: Profile) -> PyQL:
        """Return the PyQL program whose answers are the members of a set. Raises `ActionError`.

        A set that is used twice is written twice, under other names.
        """
        taken = set[str]()

        def name(n: int, prefix: str = "x") -> Variable:
            taken.add(new := fresh(f"{prefix}{n}", taken))
            return Variable(new)

        def clauses(n: int, variable: Variable) -> list[PatternItem | Aggregate]:
            """Clauses that bind a variable to the members of a set, made from those before it."""
            call, before = self.calls[n], Sets(self.calls[:n])
            first, *rest = call.arguments
            match call.name:
                case "get_neighbors":
                    start: Node | None
                    if _SET.fullmatch(first):
                        start = name(source := before.number(first))
                        bound = clauses(source, start)
                    elif (start := read_term(first, profile)) is not None:
                        bound = []
                    else:
                        raise ActionError("unknown_entity", f"{first!r} is no entity id", given=first)
                    relation = read_relation(rest[0].lstrip(BACKWARD), profile)
                    subject, end = (variable, start) if rest[0].startswith(BACKWARD) else (start, variable)
                    if not isinstance(subject, IRI | Variable):
                        raise ActionError("bad_subject", f"{subject.n3()} has no relations of its own")
                    return [*bound, Fact(subject, relation, end)]
                case "intersection":
                    # A superlative must see its own set only, so it goes first. Where both sides have one,
                    # each gets a variable of its own, and the two are compared at the end.
                    left, right = before.number(first), before.number(rest[0])
                    one, two = clauses(left, variable), clauses(right, variable)
                    if not any(isinstance(clause, Extreme) for clause in two):
                        return [*one, *two]
                    if not any(isinstance(clause, Extreme) for clause in one):
                        return [*two, *one]
                    other = name(right)
                    return [*one, *clauses(right, other), Filter(variable, "=", other)]
                case "union":
                    patterns = dict[tuple[PatternItem, ...], None]()
                    for side in call.arguments[:2]:
                        items = dict.fromkeys(clauses(before.number(side), variable))
                        patterns[tuple(c for c in items if not isinstance(c, Aggregate))] = None
                    return [Union(tuple(patterns))] if len(patterns) > 1 else [*next(iter(patterns))]
                case "count":
                    counted = name(source := before.number(first))
                    return [*clauses(source, counted), Aggregate(counted, variable)]
                case superlative:
                    value = name(n, "value")
                    fact = Fact(variable, read_relation(rest[0], profile), value)
                    kind: Kind = next((kind for kind in KINDS if kind in rest[1:]), "")
                    best = Extreme(value, superlative == "argmax", kind)
                    return [*clauses(before.number(first), variable), fact, best]

        variable = name(n)
        return PyQL(tuple(dict.fromkeys(clauses(n, variable))), (variable,))

    def text(self) -> str:
        """Return one call a line. `parse` reads it back as the same value."""
        lines = [call.text() for call in self.calls]
        return "\n".join(lines if self.answer is None else [*lines, f"answer(#{self.answer})"])

    @classmethod
    def parse(cls, text: str) -> Sets:
        """Return the sets that a text made. Raises `ActionError`."""
        sets = cls()
        for line in filter(None, map(str.strip, text.split("\n"))):
            match = _LINE.match(line)
            name = match[1] if match else ""
            arguments, _ = scan_arguments(line, match.end()) if match else ([], 0)
            if name == "answer" and arguments:
                sets = replace(sets, answer=sets.number(arguments[0]))
            elif name in _MAKERS and len(arguments) >= _MAKERS[name]:
                sets = sets.with_set(name, *arguments)
            else:
                raise ActionError("no_action", f"{line!r} makes no set", given=line)
        return sets

    def number(self, form: str) -> int:
        """Return the number of the set written as `#n`.

        Raises:
            ActionError: `set_due` if it names no set at all, `unknown_variable` if no call has made it.
        """
        match = _SET.search(form)
        names = [f"#{n}" for n in range(len(self.calls))]
        existing = ", ".join(names) or "none"
        if match is None:
            message = f"{form!r} is no variable: write #n; existing: {existing}"
            raise ActionError("set_due", message, given=form)
        if int(match[1]) >= len(self.calls):
            message = f"there is no variable {match[0]}; existing: {existing}"
            raise ActionError("unknown_variable", message, given=match[0], existing=names)
        return int(match[1])


def to_pyql(text: str, profile: Profile) -> PyQL:
    """Return the program of a run's answer, or of its newest set; an empty program if there is none.

    Raises `ActionError` if the text is no state of a run.
    """
    sets = Sets.parse(text)
    n = len(sets.calls) - 1 if sets.answer is None else sets.answer
    return sets.program(n, profile) if n >= 0 else PyQL()


_EITHER = Parameter("variable", "node", "a variable such as #0, or the id of an entity")
_VARIABLE = Parameter("variable", "variable", "a variable such as #0")
_PAIR = (
    Parameter("variable1", "variable", "a variable such as #0"),
    Parameter("variable2", "variable", "another variable"),
)
_BY = (_VARIABLE, Parameter("attribute", "relation", "an attribute that get_attributes has shown"))


def spelled(reply: str) -> str:
    """Return a reply with AgentBench's `Final Answer: #3` as the action that it is."""
    return _FINAL.sub(lambda m: f"\nAction: answer({(m['line'] or m['inline']).rstrip('.')})", reply)


def _number(sets: Sets, form: str, is_answer: bool = False) -> int:
    """Return the set that is meant, however a model writes `#3`; a number serves as the answer only."""
    bare = form.strip().strip("'\"")
    match = _SET_FORM.fullmatch(bare)
    n = sets.number(f"#{match[1]}" if match else bare.replace("#", ""))
    if sets.calls[n].name == "count" and not is_answer:
        message = f"#{n} is a number: nothing can be made from it but the answer"
        raise ActionError("set_is_number", message, given=f"#{n}")
    return n


def _source(resolver: Resolver, sets: Sets, form: str) -> tuple[int | Term, str, dict[str, object]]:
    """Return the set or entity that an action starts from, how it is shown, and the detail for guidelines.

    The detail tells whether an entity belongs to the schema, such as a class: no question names those.
    """
    if _SET_FORM.fullmatch(form.strip().strip("'\"")):
        n = _number(sets, form)
        return n, f"#{n}", resolver.detail()
    term, profile = resolver.entity(form), resolver.context.kg.profile
    schema = isinstance(term, IRI) and not profile.linkable(term.value)
    return term, profile.short(term), {**resolver.detail(), **({"schema": True} if schema else {})}


@action(_EITHER, example="get_relations(#0)", aliases=("get_relation", "getRelations"))
def get_relations(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """List the relations of an entity or of the members of a variable."""
    sets, kg = Sets.parse(context.program), context.kg
    source, shown, detail = _source(Resolver(context), sets, arguments[0])
    if isinstance(source, int):
        program = sets.program(source, kg.profile)
        result = kg.relations(program.answer[0], program.where(kg.profile))
    else:
        result = kg.relations(source)
    both = not kg.profile.reciprocal or isinstance(source, Literal)
    forward, backward = context.rank(
        short_ids(kg, result.forward), short_ids(kg, result.backward) if both else []
    )
    listed = [*relation_names(kg, forward), *(f"{BACKWARD}{name}" for name in relation_names(kg, backward))]
    nothing = result.outcome.ok and not listed
    return Feedback(
        arguments=(shown,),
        outcome=Outcome.EMPTY if nothing else result.outcome,
        message=result.message,
        observation=f"[{', '.join(listed)}]" if result.outcome.ok else "",
        relations={"forward": forward, "backward": backward},
        detail=detail,
    )


@action(
    _EITHER,
    Parameter("relation", "relation", "a relation that get_relations has shown for it"),
    example="get_neighbors(Q1490, P36)",
    aliases=("get_neighbours", "getNeighbors"),
)
def get_neighbors(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable of everything that a relation leads to. A relation written ^relation leads back."""
    resolver, sets, profile = Resolver(context), Sets.parse(context.program), context.kg.profile
    source, start, detail = _source(resolver, sets, arguments[0])
    bare = arguments[1].strip().strip("'\"")
    mark = BACKWARD if bare.startswith(BACKWARD) else ""
    relation = resolver.relation(bare.lstrip(BACKWARD).strip())
    form = start if isinstance(source, int) else write_node(source, profile)
    feedback = _make(
        context, sets.with_set("get_neighbors", form, mark + write_iri(relation, profile, relation=True))
    )
    short = profile.short(relation)
    if feedback.outcome == Outcome.EMPTY:
        _check_offered(context, start, short, "backward" if mark else "forward")
    detail = {**detail, **resolver.detail()}
    return replace(feedback, arguments=(start, mark + short), detail=detail)


def _check_offered(context: ActionContext, start: str, relation: str, side: str) -> None:
    """Say why a relation or attribute finds nothing, if look-ups tell. Raises `ActionError`."""
    offered = context.memory.looked_up.get(start, {})
    kind = "attribute" if side == "attributes" else "relation"
    if side not in offered:
        code = "not_looked_up" if kind == "relation" else "attributes_not_looked_up"
        message = f"{relation} finds nothing: call get_{kind}s({start}) first, to see those there are"
        raise ActionError(code, message, given=relation)
    other = {"forward": "backward", "backward": "forward"}.get(side, "")
    if relation not in offered[side] and relation in offered.get(other, ()):
        fix = relation if side == "backward" else BACKWARD + relation
        message = f"{relation} is followed the wrong way from {start}: write {fix}"
        raise ActionError("relation_reversed", message, given=relation, fix=fix)
    if relation not in offered[side]:
        message = f"{relation} is not among the {kind}s of {start}"
        raise ActionError(f"{kind}_not_offered", message, given=relation)


def _make(context: ActionContext, sets: Sets) -> Feedback:
    """Return what the newest set holds, with one query for values and one for labels."""
    kg, n = context.kg, len(sets.calls) - 1
    result = kg.query(sets.program(n, kg.profile).sparql(kg.profile, context.preview + 1))
    return replace(_values(context, n, result), program=sets.text())


def _values(context: ActionContext, n: int, result: Result) -> Feedback:
    if not result.outcome.ok:
        return Feedback(outcome=result.outcome, message=result.message, observation=result.message)
    members = result.column(result.variables[0]) if result.rows else ()
    shown = members[: context.preview]
    named = names(context.kg, shown)
    values = [named[t] for t in shown]
    listed = list_values(values, len(members) > len(shown))
    return Feedback(
        outcome=result.outcome,
        message=result.message,
        observation=f"Variable #{n}: {listed}" if values else f"Variable #{n} is empty.",
        values={f"#{n}": values},
        ids={f"#{n}": short_ids(context.kg, shown)},
    )


def _combine(name: str, context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Carry out `intersection` or `union`."""
    sets = Sets.parse(context.program)
    left, right = (_number(sets, a) for a in arguments)
    if left == right:
        raise ActionError("same_set", f"both are #{left}: two different variables are due")
    feedback = _make(context, sets.with_set(name, f"#{left}", f"#{right}"))
    types = []
    if feedback.outcome == Outcome.EMPTY:
        types = [_types(context, sets, n) for n in (left, right)]
    detail = {"types": types} if types and all(types) else {}
    return replace(feedback, arguments=(f"#{left}", f"#{right}"), detail=detail)


def _types(context: ActionContext, sets: Sets, n: int) -> list[str]:
    kg, kind = context.kg, Variable("type")
    program = sets.program(n, kg.profile)
    for predicate in kg.profile.type_predicates:
        fact = Fact(program.answer[0], IRI(predicate), kind)
        result = kg.query(PyQL((*program.clauses, fact), (kind,)).sparql(kg.profile, SHOWN_TYPES))
        if result.outcome.ok and result.rows:
            return list(names(kg, result.column(kind.name)).values())
    return []


@action(_VARIABLE, example="get_attributes(#0)", aliases=("get_attribute", "getAttributes"))
def get_attributes(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """List the attributes of a variable that are numbers or dates. Use it for superlatives only."""
    sets, kg, profile = Sets.parse(context.program), context.kg, context.kg.profile
    n = _number(sets, arguments[0])
    program = sets.program(n, profile)
    result = kg.query(
        f"SELECT ?attribute (SAMPLE(?held) AS ?example) WHERE {{\n{program.where(profile)}\n"
        f"{program.answer[0].n3()} ?attribute ?held .\nFILTER(isLiteral(?held))\n}} GROUP BY ?attribute"
    )
    measures = [
        relation
        for relation, example in result.rows
        if isinstance(relation, IRI) and example is not None and is_measure(example)
        if not profile.excludes(relation)
    ]
    attributes, _ = context.rank(short_ids(kg, measures), [])
    listed = f"[{', '.join(relation_names(kg, attributes))}]"
    nothing = result.outcome.ok and not attributes
    return Feedback(
        arguments=(f"#{n}",),
        outcome=Outcome.EMPTY if nothing else result.outcome,
        message=result.message,
        observation=listed if result.outcome.ok else "",
        relations={"attributes": attributes},
    )


def _best(name: str, context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Carry out `argmax` or `argmin`. Values are compared as what they are, and ties are kept."""
    resolver, sets, profile = Resolver(context), Sets.parse(context.program), context.kg.profile
    n = _number(sets, arguments[0])
    attribute = resolver.relation(arguments[1])
    call, short = (f"#{n}", write_iri(attribute, profile, relation=True)), profile.short(attribute)
    try:
        # How the values compare; an error if they are entities.
        best = sets.with_set(name, *call).program(len(sets.calls), profile)
        without = replace(best, answer=(), clauses=best.clauses[:-1])
        clause = compared(context.kg, without, replace(best, answer=())).clauses[-1]
    except ActionError:
        _check_offered(context, f"#{n}", short, "attributes")
        raise
    kind = [clause.kind] if isinstance(clause, Extreme) and clause.kind else []
    feedback = _make(context, sets.with_set(name, *call, *kind))
    if feedback.outcome == Outcome.EMPTY:
        _check_offered(context, f"#{n}", short, "attributes")
    return replace(feedback, arguments=(f"#{n}", short), detail=resolver.detail())


@action(_VARIABLE, example="count(#0)")
def count(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable that holds how many members a variable has."""
    sets = Sets.parse(context.program)
    form = f"#{_number(sets, arguments[0])}"
    return replace(_make(context, sets.with_set("count", form)), arguments=(form,))


@action(_VARIABLE, example="answer(#0)", aliases=("final_answer", "Final_Answer"))
def answer(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Finish: the members of this variable are the answer. May also be written Final Answer: #0."""
    sets, kg = Sets.parse(context.program), context.kg
    n = _number(sets, arguments[0], is_answer=True)
    result = kg.query(sets.program(n, kg.profile).sparql(kg.profile))
    members = result.column(result.variables[0]) if result.rows else ()
    return replace(
        _values(context, n, result),
        arguments=(f"#{n}",),
        program=replace(sets, answer=n).text(),
        answers=tuple(short_ids(kg, members)),
        finished=result.outcome.ok,
    )


@action(*_PAIR, example="intersection(#0, #1)")
def intersection(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable of what is in both of two variables, which must hold the same kind of thing."""
    return _combine("intersection", context, arguments)


@action(*_PAIR, example="union(#0, #1)")
def union(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable of what is in at least one of two variables."""
    return _combine("union", context, arguments)


@action(*_BY, example="argmax(#0, P1082)")
def argmax(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable of the members of a variable with the largest value of an attribute."""
    return _best("argmax", context, arguments)


@action(*_BY, example="argmin(#0, P1082)")
def argmin(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Make a variable of the members of a variable with the smallest value of an attribute."""
    return _best("argmin", context, arguments)


_MAKING = (get_neighbors, intersection, union)
_ACTIONS = (search, get_relations, *_MAKING, get_attributes, argmax, argmin, count, answer)
AGENTBENCH = Toolset("agentbench", _ACTIONS, to_pyql=to_pyql, spelled=spelled)
"""AgentBench's actions. The state of a run is the text of its `Sets`."""


UNSAYABLE = "unsayable"
"""Code of the error for a program that no sets stand for."""
_NO_ATTRIBUTE = "to compare members by what is no attribute of theirs"
_NEEDS: dict[type[Clause], str] = {
    Typed: "to keep members of a kind",
    AnyOf: "to take nodes as they are",
    Filter: "to compare members",
    Not: "to leave members out",
    TimeWindow: "to compare periods",
    Aggregate: "to compute with each member",
    Value: "to compute with each member",
}


def set_script(program: PyQL, profile: Profile) -> tuple[Call, ...]:
    """Return the actions on sets that a program stands for, up to `answer(#n)`.

    Its facts must be a tree around the answer: each makes a set, branches intersect.

    Raises:
        ActionError: `unsayable`; the message says what the program needs and sets cannot do.
    """
    calls, used = list[Call](), set[object]()

    def make(name: str, *arguments: str) -> str:
        calls.append(Call(name, arguments))
        return f"#{len(calls) - 1}"

    def members(variable: Variable, clauses: Sequence[Clause]) -> str:
        """Return the set of a variable's values, made from the clauses about it that are not used yet."""
        made = ""
        for clause in clauses:
            if variable not in clause.mentions or clause in used:
                continue
            used.add(clause)
            match clause:
                case Fact(subject, relation, end):
                    named = write_iri(relation, profile, relation=True)
                    about_end = [c for c in clauses if isinstance(end, Variable) and end in c.mentions]
                    match about_end:
                        case [Fact(), Extreme() as best] if made:
                            if subject != variable:
                                _refuse(_NO_ATTRIBUTE)
                            used.add(best)
                            made = make("argmax" if best.largest else "argmin", made, named)
                            continue
                    other, mark = (subject, "") if end == variable else (end, BACKWARD)
                    if isinstance(other, Variable):
                        start = members(other, clauses)
                    else:
                        start = write_node(other, profile)
                    found = make("get_neighbors", start, mark + named)
                case Union(alternatives):
                    found, *others = (members(variable, pattern) for pattern in alternatives)
                    for other_set in others:
                        found = make("union", found, other_set)
                case _:
                    _refuse(_NEEDS.get(type(clause), _NO_ATTRIBUTE))
            made = make("intersection", made, found) if made else found
        if not made:
            _refuse("to keep members by a relation, whatever it leads to")
        return made

    if program.boolean or program.order is not None or len(program.answer) != 1:
        _refuse("to answer yes or no" if program.boolean else "to order members")
    (answer,), clauses, is_count = program.answer, program.clauses, False
    match clauses[-1]:
        case Aggregate(of, output, per=None, function="count") if output == answer:
            clauses, answer, is_count = clauses[:-1], of, True
    result = members(answer, clauses)
    if left := [c for c in clauses if c not in used]:
        _refuse(_NEEDS.get(type(left[0]), "to join members in a way that sets cannot"))
    final = make("count", result) if is_count else result
    return (*calls, Call("answer", (final,)))


def _refuse(need: str) -> NoReturn:
    raise ActionError(UNSAYABLE, need)
