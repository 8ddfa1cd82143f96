"""AgentBench's actions on a knowledge graph: sets of entities, one made from another (QueryAgent, 5.4).

Relations are followed from subject to object, as published. Where a graph has no inverse relations
(`Profile.reciprocal`), those that arrive at a node are offered too, written `^relation`. A relation or
attribute that was never shown is only refused if it finds nothing: rows prove that it exists.

The state of a run is one successful call a line. Each makes a set, named by the number of its line, whose
members are the answers of a PyQL program; a superlative may end with how its values compare:

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
from dataclasses import replace
from typing import Annotated

from triplewise.tools.actions import terms
from triplewise.tools.actions.comparison import compared, is_measure
from triplewise.tools.actions.search import search
from triplewise.tools.actions.toolset import Action, ActionContext, Call, Feedback, Toolset, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.kg.vocabulary import relation_names
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.text import read_relation, read_term, scan_arguments, write_iri, write_node

BACKWARD = "^"  # Before a relation: it is followed from object to subject, as in SPARQL
_MAKERS = {"get_neighbors": 2, "intersection": 2, "union": 2, "argmax": 2, "argmin": 2, "count": 1}
"""Actions that make a set, and how many arguments they have at least."""
Calls = tuple[Call, ...]  # Those that made the sets of a run, its `answer` last, with terms as in PyQL
_LINE = re.compile(r"\s*([a-z]+(?:_[a-z]+)*)\s*\(")
_SET = re.compile(r"#(\d+)")
_SET_FORM = re.compile(r"(?i)[\[(]?(?:variable|var)?\s*#\s*(\d+)[\])]?\.?")
_FINAL = re.compile(
    r"(?im)^[ \t>*_`-]*Final[ _]Answer[ \t]*\d*[ \t*_`]*[:：][ \t*_`]*(?P<line>\S.*?)[ \t*_`]*$"
    r"|(?<=\s)Final[ _]Answer[ \t]*[:：][ \t]*(?P<inline>#\d+)"
)
Start = Annotated[str, "node", "a variable such as #0, or the id of an entity"]
Set = Annotated[str, "variable", "a variable such as #0"]
Other = Annotated[str, "variable", "another variable"]
Attribute = Annotated[str, "relation", "an attribute that get_attributes has shown"]


def read_calls(text: str) -> Calls:
    """Return the calls of a run's state. Raises `ActionError`."""
    calls: Calls = ()
    for line in filter(None, map(str.strip, text.split("\n"))):
        match = _LINE.match(line)
        arguments = scan_arguments(line, match.end())[0] if match else []
        if match is None or not 0 < ({**_MAKERS, "answer": 1}.get(match[1], 0)) <= len(arguments):
            raise ActionError("no_action", f"{line!r} makes no set", given=line)
        calls = (*calls, Call(match[1], tuple(arguments)))
    return calls


def number_of(calls: Calls, form: str) -> int:
    """Return the number of the set written as `#n`. Raises `set_due` for no set, or `unknown_variable`."""
    match, names = _SET.search(form), [f"#{n}" for n, call in enumerate(calls) if call.name in _MAKERS]
    existing = ", ".join(names) or "none"
    if match is None:
        raise ActionError("set_due", f"{form!r} is not a variable (#n); existing: {existing}", given=form)
    if match[0] not in names:
        message = f"there is no variable {match[0]}; existing: {existing}"
        raise ActionError("unknown_variable", message, given=match[0], existing=names)
    return int(match[1])


def program_of(calls: Calls, n: int, profile: Profile) -> pyql.PyQL:
    """Return the program of a set's members; a set used twice is written twice. Raises `ActionError`."""
    taken = set[str]()

    def name(n: int, prefix: str = "x") -> Variable:
        taken.add(new := pyql.fresh(f"{prefix}{n}", taken))
        return Variable(new)

    def clauses(n: int, variable: Variable) -> list[pyql.PatternItem]:
        """Clauses that bind a variable to the members of a set, made from those before it."""
        maker, (first, *rest) = calls[n].name, calls[n].arguments
        if maker == "get_neighbors" and not _SET.fullmatch(first):
            if (start := read_term(first, profile)) is None:
                raise ActionError("unknown_entity", f"{first!r} is not an entity id", given=first)
            return [_walked(start, rest[0], variable, profile)]
        source = number_of(calls[:n], first)
        if maker in ("get_neighbors", "count"):
            members = clauses(source, own := name(source))
            if maker == "count":
                return [*members, pyql.Aggregate(own, variable)]
            return [*members, _walked(own, rest[0], variable, profile)]
        one = clauses(source, variable)
        if maker in ("argmax", "argmin"):
            value = name(n, "value")
            kind: pyql.Kind = next((kind for kind in pyql.KINDS if kind in rest[1:]), "")
            best = pyql.Extreme(value, maker == "argmax", kind)
            return [*one, pyql.Fact(variable, read_relation(rest[0], profile), value), best]
        other = number_of(calls[:n], rest[0])
        two = clauses(other, variable)
        if maker == "union":
            sides = [tuple(dict.fromkeys(side)) for side in (one, two)]
            return [pyql.Union(tuple(sides))] if sides[0] != sides[1] else one
        # A superlative must see its own set only, so it goes first. Where both sides have one,
        # each gets a variable of its own, and the two are compared at the end.
        two_best, one_best = (any(isinstance(c, pyql.Extreme) for c in side) for side in (two, one))
        if not (two_best and one_best):
            return [*two, *one] if two_best else [*one, *two]
        own = name(other)
        return [*one, *clauses(other, own), pyql.Filter(variable, "=", own)]

    variable = name(n)
    return pyql.PyQL(tuple(dict.fromkeys(clauses(n, variable))), (variable,))


def _walked(start: Term | Variable, relation: str, end: Variable, profile: Profile) -> pyql.Fact:
    """The fact that leads from a node to the members of a set."""
    subject, object_ = (end, start) if relation.startswith(BACKWARD) else (start, end)
    if isinstance(subject, Literal):
        raise ActionError("bad_subject", f"{subject.n3()} has no relations of its own")
    return pyql.Fact(subject, read_relation(relation.lstrip(BACKWARD), profile), object_)


def to_pyql(text: str, profile: Profile) -> pyql.PyQL:
    """Return the program of a run's answer, or of its newest set; an empty one if there is none."""
    if not (calls := read_calls(text)):
        return pyql.PyQL()
    n = number_of(calls, calls[-1].arguments[0]) if calls[-1].name == "answer" else len(calls) - 1
    return program_of(calls, n, profile)


def spelled(reply: str) -> str:
    """Return a reply with AgentBench's `Final Answer: #3` as the action that it is."""
    return _FINAL.sub(lambda m: f"\nAction: answer({(m['line'] or m['inline']).rstrip('.')})", reply)


class _Step(terms.Resolver):
    """One action: the sets made so far, and how its arguments are read."""

    def __init__(self, context: ActionContext) -> None:
        super().__init__(context)
        self.kg, calls = context.kg, read_calls(context.program)
        self.calls = tuple(call for call in calls if call.name in _MAKERS)

    def number(self, form: str, is_answer: bool = False) -> int:
        """The set that is meant, however a model writes `#3`; a number serves as the answer only."""
        bare = form.strip().strip("'\"")
        match = _SET_FORM.fullmatch(bare)
        n = number_of(self.calls, f"#{match[1]}" if match else bare.replace("#", ""))
        if self.calls[n].name == "count" and not is_answer:
            message = f"#{n} is a number: nothing can be made from it but the answer"
            raise ActionError("set_is_number", message, given=f"#{n}")
        return n

    def make(self, name: str, *arguments: str) -> Feedback:
        """Make a set, and see what it holds, with one query for values and one for labels."""
        calls, n = (*self.calls, Call(name, arguments)), len(self.calls)
        query = program_of(calls, n, self.profile).sparql(self.profile, self.context.preview + 1)
        shown = self.shown_set(n, self.kg.query(query))
        return replace(shown, program="\n".join(call.text() for call in calls), arguments=arguments)

    def shown_set(self, n: int, result: Result) -> Feedback:
        """The first members of a set."""
        members = result.column(result.variables[0]) if result.rows else ()
        shown = members[: self.context.preview]
        values = list(terms.names(self.kg, shown).values())
        listed = terms.list_values(values, len(members) > len(shown))
        return Feedback(
            outcome=result.outcome,
            message=result.message,
            observation=f"Variable #{n}: {listed}" if values else f"Variable #{n} is empty.",
            values={f"#{n}": values},
            ids={f"#{n}": terms.short_ids(self.kg, shown)},
            detail=self.detail(),
        )

    def source(self, form: str) -> tuple[str, pyql.PyQL | Term, dict[str, object]]:
        """How it is written what an action starts from, a set's program or an entity, and the detail."""
        if _SET_FORM.fullmatch(form.strip().strip("'\"")):
            return f"#{(n := self.number(form))}", program_of(self.calls, n, self.profile), {}
        term = self.entity(form)
        schema = isinstance(term, IRI) and not self.profile.linkable(term.value)  # no question names those
        return self.profile.short(term), term, {"schema": True} if schema else {}

    def check_offered(self, start: str, relation: str, side: str) -> None:
        """Say why a relation or attribute finds nothing, if look-ups tell. Raises `ActionError`."""
        offered = self.memory.looked_up.get(start, {})
        kind = "attribute" if side == "attributes" else "relation"
        if side not in offered:
            code = "not_looked_up" if kind == "relation" else "attributes_not_looked_up"
            message = f"{relation} finds nothing: call get_{kind}s({start}) first, to see those there are"
            raise ActionError(code, message, given=relation)
        if relation in offered[side]:
            return
        if relation in offered.get({"forward": "backward", "backward": "forward"}.get(side, ""), ()):
            fix = relation if side == "backward" else BACKWARD + relation
            message = f"{relation} is followed the wrong way from {start}: write {fix}"
            raise ActionError("relation_reversed", message, given=relation, fix=fix)
        message = f"{relation} is not among the {kind}s of {start}"
        raise ActionError(f"{kind}_not_offered", message, given=relation)


@action("get_relations(#0)", "get_relation", "getRelations")
def get_relations(context: ActionContext, variable: Start) -> Feedback:
    """List the relations of an entity or of the members of a variable."""
    step, kg, profile = _Step(context), context.kg, context.kg.profile
    start, source, facts = step.source(variable)
    if isinstance(source, pyql.PyQL):
        result = kg.relations(source.answer[0], source.where(profile))
    else:
        result = kg.relations(source)
    both = not profile.reciprocal or isinstance(source, Literal)
    sides = terms.short_ids(kg, result.forward), terms.short_ids(kg, result.backward) if both else []
    forward, backward = context.rank(*sides)
    arriving = [f"{BACKWARD}{name}" for name in relation_names(kg, backward)]
    listed = [*relation_names(kg, forward), *arriving]
    return Feedback(
        arguments=(start,),
        outcome=result.outcome if listed else Outcome.EMPTY,
        message=result.message,
        observation=f"[{', '.join(listed)}]",
        relations={"forward": forward, "backward": backward},
        detail={**step.detail(), **facts},
    )


@action("get_neighbors(Q1490, P36)", "get_neighbours", "getNeighbors")
def get_neighbors(
    context: ActionContext,
    variable: Start,
    relation: Annotated[str, "relation", "a relation that get_relations has shown for it"],
) -> Feedback:
    """Make a variable of everything that a relation leads to. A relation written ^relation leads back."""
    step, bare = _Step(context), relation.strip().strip("'\"")
    start, source, facts = step.source(variable)
    mark, walked = BACKWARD * bare.startswith(BACKWARD), step.relation(bare.lstrip(BACKWARD).strip())
    short = step.profile.short(walked)
    form = start if isinstance(source, pyql.PyQL) else write_node(source, step.profile)
    feedback = step.make("get_neighbors", form, mark + write_iri(walked, step.profile, relation=True))
    if feedback.outcome == Outcome.EMPTY:
        step.check_offered(start, short, "backward" if mark else "forward")
    return replace(feedback, arguments=(start, mark + short), detail={**feedback.detail, **facts})


def _combination(name: str, doc: str) -> Action:
    """Declare `intersection` or `union`."""

    def combine(context: ActionContext, variable1: Set, variable2: Other) -> Feedback:
        step = _Step(context)
        left, right = step.number(variable1), step.number(variable2)
        if left == right:
            raise ActionError("same_set", f"both are #{left}: two different variables are due")
        return step.make(name, f"#{left}", f"#{right}")

    combine.__name__, combine.__doc__ = name, doc
    return action(f"{name}(#0, #1)")(combine)


@action("get_attributes(#0)", "get_attribute", "getAttributes")
def get_attributes(context: ActionContext, variable: Set) -> Feedback:
    """List the attributes of a variable that are numbers or dates. Use it for superlatives only."""
    step, kg, profile = _Step(context), context.kg, context.kg.profile
    program = program_of(step.calls, n := step.number(variable), profile)
    held = f"{program.answer[0].n3()} ?attribute ?held .\nFILTER(isLiteral(?held))\n"
    where = f"WHERE {{\n{program.where(profile)}\n{held}}} GROUP BY ?attribute"
    result = kg.query(f"SELECT ?attribute (SAMPLE(?held) AS ?example) {where}")
    found = [r for r, example in result.rows if isinstance(r, IRI) and example and is_measure(example)]
    attributes, _ = context.rank([profile.short(r) for r in found if not profile.excludes(r)], [])
    return Feedback(
        arguments=(f"#{n}",),
        outcome=result.outcome if attributes else Outcome.EMPTY,
        message=result.message,
        observation=f"[{', '.join(relation_names(kg, attributes))}]",
        relations={"attributes": attributes},
    )


def _superlative(name: str, which: str) -> Action:
    """Declare `argmax` or `argmin`. Values are compared as what they are, and ties are kept."""

    def best(context: ActionContext, variable: Set, attribute: Attribute) -> Feedback:
        step = _Step(context)
        start, relation = f"#{step.number(variable)}", step.relation(attribute)
        short, written = step.profile.short(relation), write_iri(relation, step.profile, relation=True)
        try:  # how the values compare; an error if they are entities
            calls = (*step.calls, Call(name, (start, written)))
            program = replace(program_of(calls, len(step.calls), step.profile), answer=())
            clause = compared(context.kg, replace(program, clauses=program.clauses[:-1]), program).clauses[-1]
        except ActionError:
            step.check_offered(start, short, "attributes")
            raise
        kind = [clause.kind] if isinstance(clause, pyql.Extreme) and clause.kind else []
        feedback = step.make(name, start, written, *kind)
        if feedback.outcome == Outcome.EMPTY:
            step.check_offered(start, short, "attributes")
        return replace(feedback, arguments=(start, short))

    best.__name__ = name
    best.__doc__ = f"Make a variable of the members of a variable with the {which} value of an attribute."
    return action(f"{name}(#0, P1082)")(best)


@action("count(#0)")
def count(context: ActionContext, variable: Set) -> Feedback:
    """Make a variable that holds how many members a variable has."""
    step = _Step(context)
    return step.make("count", f"#{step.number(variable)}")


@action("answer(#0)", "final_answer", "Final_Answer")
def answer(context: ActionContext, variable: Set) -> Feedback:
    """Finish: the members of this variable are the answer. May also be written Final Answer: #0."""
    step, kg = _Step(context), context.kg
    n = step.number(variable, is_answer=True)
    result = kg.query(program_of(step.calls, n, kg.profile).sparql(kg.profile))
    members = result.column(result.variables[0]) if result.rows else ()
    calls = (*step.calls, Call("answer", (f"#{n}",)))
    return replace(
        step.shown_set(n, result),
        arguments=calls[-1].arguments,
        program="\n".join(call.text() for call in calls),
        answers=tuple(terms.short_ids(kg, members)),
        finished=True,
    )


_BOTH = "Make a variable of what is in both of two variables, which must hold the same kind of thing."
_EITHER = "Make a variable of what is in at least one of two variables."
_MAKING = (get_neighbors, _combination("intersection", _BOTH), _combination("union", _EITHER))
_BEST = (_superlative("argmax", "largest"), _superlative("argmin", "smallest"))
_ACTIONS = (search, get_relations, *_MAKING, get_attributes, *_BEST, count, answer)
AGENTBENCH = Toolset("agentbench", _ACTIONS, to_pyql=to_pyql, spelled=spelled)
