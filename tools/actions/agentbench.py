"""AgentBench's actions on a knowledge graph: sets of entities, one made from another (QueryAgent, 5.4).

Relations are followed from subject to object, as published. Where a graph has no inverse relations
(`Profile.reciprocal`), those that arrive at a node are offered too, written `^relation`. A relation or
attribute that was never shown is only refused if it finds nothing: rows prove that it exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from triplewise.tools.actions.action import Action, ActionContext, Parameter
from triplewise.tools.actions.agentbench_sets import (
    BACKWARD,
    Best,
    Intersection,
    Joined,
    Made,
    Neighbors,
    Number,
    Sets,
    to_pyql,
)
from triplewise.tools.actions.results import compared, is_measure
from triplewise.tools.actions.terms import Resolver, names, relation_names, short_ids
from triplewise.tools.actions.toolset import Toolset
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Term, Variable
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.pyql import Extreme, Fact, Kind, PyQL
from triplewise.tools.pyql.text import read_relation

SHOWN_TYPES = 20
_SET_FORM = re.compile(r"(?i)[\[(]?(?:variable|var)?\s*#\s*(\d+)[\])]?\.?")
_FINAL = re.compile(
    r"(?im)^[ \t>*_`-]*Final[ _]Answer[ \t]*\d*[ \t*_`]*[:：][ \t*_`]*(?P<line>\S.*?)[ \t*_`]*$"
    r"|(?<=\s)Final[ _]Answer[ \t]*[:：][ \t]*(?P<inline>#\d+)"
)


def spelled(reply: str) -> str:
    """A reply with AgentBench's `Final Answer: #3` as the action that it is."""
    return _FINAL.sub(lambda m: f"\nAction: answer({(m['line'] or m['inline']).rstrip('.')})", reply)


def _sets(bench: ActionContext) -> Sets:
    return Sets.parse(bench.program, bench.kg.profile)


def _number(sets: Sets, form: str) -> int:
    """A set that others can be made from. Raises `set_due`, `unknown_variable` or `set_is_number`."""
    n = sets.number(_plain(form))
    if sets.is_number(n):
        raise ActionError(
            "set_is_number", f"#{n} is a number: nothing can be made from it but the answer", given=f"#{n}"
        )
    return n


def _plain(form: str) -> str:
    """`#3` for the ways in which models write it; anything else without its marks, so that it is refused."""
    bare = form.strip().strip("'\"")
    match = _SET_FORM.fullmatch(bare)
    return f"#{match[1]}" if match else bare.replace("#", "")


def _source(resolver: Resolver, sets: Sets, form: str) -> int | Term:
    """The set or entity that an action starts from."""
    if _SET_FORM.fullmatch(form.strip().strip("'\"")):
        return _number(sets, form)
    return resolver.entity(form)


def _shown(bench: ActionContext, source: int | Term) -> str:
    """A source as it stands in observations and memory."""
    return f"#{source}" if isinstance(source, int) else bench.kg.profile.short(source)


def _schema(bench: ActionContext, source: int | Term) -> dict[str, object]:
    """For guidelines: whether an entity belongs to the schema, such as a class. No question names those."""
    return {"schema": True} if isinstance(source, IRI) and not bench.kg.profile.linkable(source.value) else {}


def _relation(resolver: Resolver, form: str) -> tuple[IRI, bool]:
    """A relation, and whether it is followed forwards."""
    bare = form.strip().strip("'\"")
    name = resolver.relation(bare.lstrip(BACKWARD).strip())
    return read_relation(name, resolver.bench.kg.profile), not bare.startswith(BACKWARD)


def _get_relations(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Relations that leave an entity or the members of a set, or arrive where there are no inverses."""
    resolver, sets, kg = Resolver(bench), _sets(bench), bench.kg
    source = _source(resolver, sets, arguments[0])
    if isinstance(source, int):
        program = sets.program(source)
        found = kg.relations(program.answer[0], program.where(kg.profile))
    else:
        found = kg.relations(source)
    both = not kg.profile.reciprocal or isinstance(source, Literal)
    forward, backward = bench.rank(
        short_ids(kg, found.forward), short_ids(kg, found.backward) if both else []
    )
    listed = [
        *relation_names(kg, forward),
        *(f"{BACKWARD}{name}" for name in relation_names(kg, backward)),
    ]
    nothing = found.outcome.ok and not listed
    return Feedback(
        arguments=(_shown(bench, source),),
        outcome=Outcome.EMPTY if nothing else found.outcome,
        message=found.message,
        observation=f"[{', '.join(listed)}]" if found.outcome.ok else found.message,
        program=bench.program,
        relations={"forward": forward, "backward": backward},
        detail={**resolver.detail(), **_schema(bench, source)},
    )


def _get_neighbors(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """The set that a relation leads to."""
    resolver, sets = Resolver(bench), _sets(bench)
    source = _source(resolver, sets, arguments[0])
    relation, forward = _relation(resolver, arguments[1])
    feedback = _made(bench, sets, Neighbors(source, relation, forward))
    short, start = bench.kg.profile.short(relation), _shown(bench, source)
    written = short if forward else f"{BACKWARD}{short}"
    if feedback.outcome == Outcome.EMPTY:
        _check_offered(bench, start, short, "forward" if forward else "backward")
    return replace(
        feedback, arguments=(start, written), detail={**resolver.detail(), **_schema(bench, source)}
    )


def _check_offered(bench: ActionContext, start: str, relation: str, way: str) -> None:
    """Say why a relation finds nothing, if that is known from what was looked up. Raises `ActionError`."""
    offered = bench.memory.looked_up.get(start, {})
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


def _made(bench: ActionContext, sets: Sets, made: Made) -> Feedback:
    """One more set: what it holds, with one query for values and one for labels."""
    after, kg = sets.with_set(made), bench.kg
    n = len(sets.made)
    result = kg.query(after.program(n).preview_sparql(kg.profile, bench.preview + 1))
    return replace(_values(bench, n, result), program=after.text(kg.profile))


def _values(bench: ActionContext, n: int, result: Result) -> Feedback:
    """The members of a set in a result."""
    if not result.outcome.ok:
        return Feedback(outcome=result.outcome, message=result.message, observation=result.message)
    members = result.column(result.variables[0]) if result.rows else ()
    shown = members[: bench.preview]
    named = names(bench.kg, shown)
    values = [named[t] for t in shown]
    more = ["..."] if len(members) > len(shown) else []
    listed = ", ".join([*map(repr, values), *more])
    return Feedback(
        outcome=result.outcome,
        message=result.message,
        observation=f"Variable #{n}: [{listed}]" if values else f"Variable #{n} is empty.",
        values={f"#{n}": values},
        ids={f"#{n}": short_ids(bench.kg, shown)},
    )


def _combined(make: Callable[[int, int], Made]) -> Callable[[ActionContext, tuple[str, ...]], Feedback]:
    """The run of `intersection` and `union`."""

    def run(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
        sets = _sets(bench)
        left, right = (_number(sets, a) for a in arguments)
        if left == right:
            raise ActionError("same_set", f"both are #{left}: two different variables are due")
        feedback = _made(bench, sets, make(left, right))
        types = [_types(bench, sets, n) for n in (left, right)] if feedback.outcome == Outcome.EMPTY else []
        detail = {"types": types} if all(types) and types else {}
        return replace(feedback, arguments=(f"#{left}", f"#{right}"), detail=detail)

    return run


def _types(bench: ActionContext, sets: Sets, n: int) -> list[str]:
    """Names of the types of a set's members."""
    kg, program, kind = bench.kg, sets.program(n), Variable("type")
    for predicate in kg.profile.type_predicates:
        fact = Fact(_variable(program), IRI(predicate), kind)
        asked = PyQL((*program.clauses, fact), (kind,))
        result = kg.query(asked.preview_sparql(kg.profile, SHOWN_TYPES))
        if result.outcome.ok and result.rows:
            return list(names(kg, result.column(kind.name)).values())
    return []


def _variable(program: PyQL) -> Variable:
    """The variable of a set's members."""
    return program.answer[0]


def _get_attributes(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Relations of a set's members to numbers and dates, told from one value of each."""
    sets, kg = _sets(bench), bench.kg
    n = _number(sets, arguments[0])
    program = sets.program(n)
    found = kg.query(
        f"SELECT ?attribute (SAMPLE(?held) AS ?example) WHERE {{\n{program.where(kg.profile)}\n"
        f"{_variable(program).n3()} ?attribute ?held .\nFILTER(isLiteral(?held))\n}} GROUP BY ?attribute"
    )
    attributes, _ = bench.rank(short_ids(kg, _measures(bench, found)), [])
    listed = f"[{', '.join(relation_names(kg, attributes))}]"
    nothing = found.outcome.ok and not attributes
    return Feedback(
        arguments=(f"#{n}",),
        outcome=Outcome.EMPTY if nothing else found.outcome,
        message=found.message,
        observation=listed if found.outcome.ok else found.message,
        program=bench.program,
        relations={"attributes": attributes},
    )


def _measures(bench: ActionContext, found: Result) -> Iterable[IRI]:
    """The relations in a result whose example is a number or a date."""
    profile = bench.kg.profile
    for relation, example in found.rows:
        known = isinstance(relation, IRI) and example is not None and is_measure(example)
        if known and isinstance(relation, IRI) and not profile.excludes(relation):
            yield relation


def _best(largest: bool) -> Callable[[ActionContext, tuple[str, ...]], Feedback]:
    """The run of `argmax` and `argmin`. Values are compared as what they are, and ties are kept."""

    def run(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
        resolver, sets, kg = Resolver(bench), _sets(bench), bench.kg
        n = _number(sets, arguments[0])
        attribute = read_relation(resolver.relation(arguments[1]), kg.profile)
        made = Best(n, attribute, largest)
        short = kg.profile.short(attribute)
        feedback = _made(bench, sets, replace(made, kind=_kind(bench, sets, made, short)))
        if feedback.outcome == Outcome.EMPTY:
            _check_attribute(bench, f"#{n}", short)
        return replace(feedback, arguments=(f"#{n}", short), detail=resolver.detail())

    return run


def _kind(bench: ActionContext, sets: Sets, made: Best, attribute: str) -> Kind:
    """How the values of an attribute are compared. Raises `ActionError` if they are entities."""
    program = sets.with_set(made).program(len(sets.made))
    plain = replace(program, answer=())
    try:
        fitted = compared(bench.kg, PyQL(plain.clauses[:-1]), plain).clauses[-1]
    except ActionError:
        _check_attribute(bench, f"#{made.source}", attribute)
        raise
    return fitted.kind if isinstance(fitted, Extreme) else ""


def _check_attribute(bench: ActionContext, name: str, attribute: str) -> None:
    """Say why an attribute finds nothing, if that is known from what was looked up. Raises `ActionError`."""
    offered = bench.memory.looked_up.get(name, {}).get("attributes")
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


def _count(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """How many members a set has, as one more variable."""
    sets = _sets(bench)
    n = _number(sets, arguments[0])
    return replace(_made(bench, sets, Number(n)), arguments=(f"#{n}",))


def _answer(bench: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Finish with all members of a set."""
    sets, kg = _sets(bench), bench.kg
    n = sets.number(_plain(arguments[0]))
    result = kg.query(sets.program(n).sparql(kg.profile))
    members: Sequence[Term] = result.column(result.variables[0]) if result.rows else ()
    return replace(
        _values(bench, n, result),
        arguments=(f"#{n}",),
        program=replace(sets, answer=n).text(kg.profile),
        answers=tuple(short_ids(kg, members)),
        finished=result.outcome.ok,
    )


_EITHER = Parameter("variable", "node", "a variable such as #0, or the id of an entity")
_VARIABLE = Parameter("variable", "variable", "a variable such as #0")
_PAIR = (
    Parameter("variable1", "variable", "a variable such as #0"),
    Parameter("variable2", "variable", "another variable"),
)
_BY = (_VARIABLE, Parameter("attribute", "relation", "an attribute that get_attributes has shown"))

ACTIONS = (
    Action(
        "get_relations",
        "List the relations of an entity or of the members of a variable.",
        (_EITHER,),
        _get_relations,
        "get_relations(#0)",
        aliases=("get_relation", "getRelations"),
    ),
    Action(
        "get_neighbors",
        "Make a variable of everything that a relation leads to. A relation written ^relation leads back.",
        (_EITHER, Parameter("relation", "relation", "a relation that get_relations has shown for it")),
        _get_neighbors,
        "get_neighbors(Q1490, P36)",
        aliases=("get_neighbours", "getNeighbors"),
    ),
    Action(
        "intersection",
        "Make a variable of what is in both of two variables, which must hold the same kind of thing.",
        _PAIR,
        _combined(Intersection),
        "intersection(#0, #1)",
    ),
    Action(
        "union",
        "Make a variable of what is in at least one of two variables.",
        _PAIR,
        _combined(Joined),
        "union(#0, #1)",
    ),
    Action(
        "get_attributes",
        "List the attributes of a variable that are numbers or dates. Use it for superlatives only.",
        (_VARIABLE,),
        _get_attributes,
        "get_attributes(#0)",
        aliases=("get_attribute", "getAttributes"),
    ),
    Action(
        "argmax",
        "Make a variable of the members of a variable with the largest value of an attribute.",
        _BY,
        _best(True),
        "argmax(#0, P1082)",
    ),
    Action(
        "argmin",
        "Make a variable of the members of a variable with the smallest value of an attribute.",
        _BY,
        _best(False),
        "argmin(#0, P1082)",
    ),
    Action(
        "count",
        "Make a variable that holds how many members a variable has.",
        (_VARIABLE,),
        _count,
        "count(#0)",
    ),
    Action(
        "answer",
        "Finish: the members of this variable are the answer. May also be written Final Answer: #0.",
        (_VARIABLE,),
        _answer,
        "answer(#0)",
        finishes=True,
        aliases=("final_answer", "Final_Answer"),
    ),
)

AGENTBENCH = Toolset.of("agentbench", ACTIONS, to_pyql=to_pyql, spelled=spelled)
"""AgentBench's actions. The state of a run is the text of its `Sets`."""
