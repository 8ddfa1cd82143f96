"""AgentBench's actions on a knowledge graph: sets of entities, one made from another (QueryAgent, 5.4).

Relations are followed from subject to object, as published. Where a graph has no inverse relations
(`Profile.reciprocal`), those that arrive at a node are offered too, written `^relation`. A relation or
attribute that was never shown is only refused if it finds nothing: rows prove that it exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from triplewise.tools.actions.agentbench_sets import BACKWARD, Sets, to_pyql
from triplewise.tools.actions.comparison import compared, is_measure
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, list_values, names, relation_names, short_ids
from triplewise.tools.actions.toolset import Action, ActionContext, Feedback, Parameter, Toolset, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Term, Variable
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.pyql.program import Extreme, Fact, PyQL
from triplewise.tools.pyql.text import write_iri, write_node

SHOWN_TYPES = 20
_SET_FORM = re.compile(r"(?i)[\[(]?(?:variable|var)?\s*#\s*(\d+)[\])]?\.?")
_FINAL = re.compile(
    r"(?im)^[ \t>*_`-]*Final[ _]Answer[ \t]*\d*[ \t*_`]*[:：][ \t*_`]*(?P<line>\S.*?)[ \t*_`]*$"
    r"|(?<=\s)Final[ _]Answer[ \t]*[:：][ \t]*(?P<inline>#\d+)"
)


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


def _plain(form: str) -> str:
    """Return `#3` for the ways in which models write it; anything else without marks: it is refused."""
    bare = form.strip().strip("'\"")
    match = _SET_FORM.fullmatch(bare)
    return f"#{match[1]}" if match else bare.replace("#", "")


def _number(sets: Sets, form: str) -> int:
    """Return a set that others can be made from. Raises `set_due`, `unknown_variable` or `set_is_number`."""
    n = sets.number(_plain(form))
    if sets.is_number(n):
        raise ActionError(
            "set_is_number", f"#{n} is a number: nothing can be made from it but the answer", given=f"#{n}"
        )
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
    listed = [
        *relation_names(kg, forward),
        *(f"{BACKWARD}{name}" for name in relation_names(kg, backward)),
    ]
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


def _check_offered(context: ActionContext, start: str, relation: str, way: str) -> None:
    """Say why a relation finds nothing, if that is known from what was looked up. Raises `ActionError`."""
    offered = context.memory.looked_up.get(start, {})
    other = "backward" if way == "forward" else "forward"
    if "forward" not in offered:
        raise ActionError(
            "not_looked_up",
            f"get_neighbors finds nothing, and the relations of {start} were not looked up: "
            f"call get_relations({start}) first",
            given=start,
        )
    if relation in offered.get(way, ()):
        return
    if relation in offered.get(other, ()):
        fix = relation if way == "backward" else BACKWARD + relation
        raise ActionError(
            "relation_reversed",
            f"{relation} is followed the wrong way from {start}: write {fix}",
            given=relation,
            fix=fix,
        )
    raise ActionError(
        "relation_not_offered", f"{relation} is not among the relations of {start}", given=relation
    )


def _make(context: ActionContext, sets: Sets) -> Feedback:
    """Return what the newest set holds, with one query for values and one for labels."""
    kg, n = context.kg, len(sets.calls) - 1
    result = kg.query(sets.program(n, kg.profile).sparql(kg.profile, context.preview + 1))
    return replace(_values(context, n, result), program=sets.text())


def _values(context: ActionContext, n: int, result: Result) -> Feedback:
    """Return the members of a set in a result."""
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


def _combine(name: str) -> Callable[[ActionContext, tuple[str, ...]], Feedback]:
    """Return the run of `intersection` or `union`."""

    def run(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
        sets = Sets.parse(context.program)
        left, right = (_number(sets, a) for a in arguments)
        if left == right:
            raise ActionError("same_set", f"both are #{left}: two different variables are due")
        feedback = _make(context, sets.with_set(name, f"#{left}", f"#{right}"))
        empty = feedback.outcome == Outcome.EMPTY
        types = [_types(context, sets, n) for n in (left, right)] if empty else []
        detail = {"types": types} if all(types) and types else {}
        return replace(feedback, arguments=(f"#{left}", f"#{right}"), detail=detail)

    return run


def _types(context: ActionContext, sets: Sets, n: int) -> list[str]:
    """Return names of the types of a set's members."""
    kg, kind = context.kg, Variable("type")
    program = sets.program(n, kg.profile)
    for predicate in kg.profile.type_predicates:
        fact = Fact(program.answer[0], IRI(predicate), kind)
        typed = PyQL((*program.clauses, fact), (kind,))
        result = kg.query(typed.sparql(kg.profile, SHOWN_TYPES))
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


def _best(name: str) -> Callable[[ActionContext, tuple[str, ...]], Feedback]:
    """Return the run of `argmax` or `argmin`. Values are compared as what they are, and ties are kept."""

    def run(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
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
            _check_attribute(context, f"#{n}", short)
            raise
        kind = [clause.kind] if isinstance(clause, Extreme) and clause.kind else []
        feedback = _make(context, sets.with_set(name, *call, *kind))
        if feedback.outcome == Outcome.EMPTY:
            _check_attribute(context, f"#{n}", short)
        return replace(feedback, arguments=(f"#{n}", short), detail=resolver.detail())

    return run


def _check_attribute(context: ActionContext, name: str, attribute: str) -> None:
    """Say why an attribute finds nothing, if that is known from what was looked up. Raises `ActionError`."""
    offered = context.memory.looked_up.get(name, {}).get("attributes")
    if offered is None:
        raise ActionError(
            "attributes_not_looked_up",
            f"{attribute} finds nothing, and the attributes of {name} were not looked up: "
            f"call get_attributes({name}) first",
            given=attribute,
        )
    if attribute not in offered:
        raise ActionError(
            "attribute_not_offered", f"{attribute} is not among the attributes of {name}", given=attribute
        )


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
    n = sets.number(_plain(arguments[0]))
    result = kg.query(sets.program(n, kg.profile).sparql(kg.profile))
    members = result.column(result.variables[0]) if result.rows else ()
    return replace(
        _values(context, n, result),
        arguments=(f"#{n}",),
        program=replace(sets, answer=n).text(),
        answers=tuple(short_ids(kg, members)),
        finished=result.outcome.ok,
    )


ACTIONS = (
    search,
    get_relations,
    get_neighbors,
    Action(
        "intersection",
        "Make a variable of what is in both of two variables, which must hold the same kind of thing.",
        _PAIR,
        _combine("intersection"),
        "intersection(#0, #1)",
    ),
    Action(
        "union",
        "Make a variable of what is in at least one of two variables.",
        _PAIR,
        _combine("union"),
        "union(#0, #1)",
    ),
    get_attributes,
    Action(
        "argmax",
        "Make a variable of the members of a variable with the largest value of an attribute.",
        _BY,
        _best("argmax"),
        "argmax(#0, P1082)",
    ),
    Action(
        "argmin",
        "Make a variable of the members of a variable with the smallest value of an attribute.",
        _BY,
        _best("argmin"),
        "argmin(#0, P1082)",
    ),
    count,
    answer,
)

AGENTBENCH = Toolset("agentbench", ACTIONS, to_pyql=to_pyql, spelled=spelled)
"""AgentBench's actions. The state of a run is the text of its `Sets`."""
