"""QueryAgent's actions: build a query step by step, and see what it finds after each (3.2, table 10)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from triplewise.tools.actions.comparison import compared, describe_values
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import (
    UNNAMED,
    Resolver,
    list_values,
    names,
    page_number,
    relation_names,
    short_ids,
    told_apart,
)
from triplewise.tools.actions.toolset import (
    Action,
    ActionContext,
    Call,
    Feedback,
    Parameter,
    ReasoningMemory,
    Toolset,
    action,
    unknown,
)
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.planning.lexical.question import decides
from triplewise.tools.pyql.program import (
    FUNCTIONS,
    OPERATORS,
    TEMPORAL,
    Extreme,
    Fact,
    Filter,
    PyQL,
    all_facts,
    owners,
)
from triplewise.tools.pyql.sparql import instantiate
from triplewise.tools.pyql.text import NUMERIC, apply, read_variable

ROWS = 5
"""Solutions shown with the values that belong together."""
ROWS_A_VALUE = 10
"""Rows fetched for each value that a preview shows, so that every variable gets its share."""
_NO = "Nothing meets this, so the answer would be no."

_VARIABLE = Parameter("variable", "variable", "a variable that a fact has bound, such as ?capital")
_COUNTED = Parameter("counted", "variable", "the variable whose values are counted")
_PER = Parameter("per", "variable", "the variable for each value of which is counted")
_PATTERN = "(subject, relation, object), joined by & where it takes several; (?x, a, TYPE) and (?x, >, 5) too"


def _program(context: ActionContext) -> PyQL:
    return PyQL.parse(context.program, context.kg.profile)


@action(
    Parameter("entity_or_variable", "node", "an entity id or a variable that a fact has bound"),
    Parameter("page", "text", "2, 3, ... to see what a list left out", False),
    example="get_relation(?computer)",
    aliases=("get_relations", "getRelation"),
)
def get_relation(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the one-hop relations of an entity or of a variable, in both directions."""
    resolver, program, kg = Resolver(context), _program(context), context.kg
    form = arguments[0].strip()
    if form.startswith("?"):
        variable = read_variable(form)
        if variable not in program.variables:
            existing = [v.n3() for v in program.variables]
            raise ActionError(
                "unknown_variable",
                f"{form} is not a created variable; existing variables: {', '.join(existing) or 'none'}",
                given=form,
                existing=existing,
            )
        result = kg.relations(variable, program.where(kg.profile))
        shown = form
    else:
        term = resolver.entity(form)
        result = kg.relations(term)
        shown = form if form.startswith(('"', "'")) else kg.profile.short(term)
        shown = next(iter(resolver.repaired.values()), shown)
    page = page_number(arguments[1]) if len(arguments) > 1 else 1
    left: tuple[list[str], ...] = (short_ids(kg, result.forward), short_ids(kg, result.backward))
    pages = []
    for _ in range(page):
        pages.append(context.rank(*left))
        left = tuple([r for r in side if r not in cut] for side, cut in zip(left, pages[-1], strict=True))
    listed = {"forward": relation_names(kg, pages[-1][0]), "backward": relation_names(kg, pages[-1][1])}
    rest = f" ... and {sum(map(len, left))} more: get_relation({shown}, {page + 1})" if any(left) else ""
    return Feedback(
        arguments=(shown, *([str(page)] if page > 1 else [])),
        outcome=result.outcome,
        message=result.message,
        observation=str(listed) + ("" if context.published else rest) if result.outcome.ok else "",
        # All that was offered so far, the newest first.
        relations={
            side: [r for shown_on in reversed(pages) for r in shown_on[i]]
            for i, side in enumerate(("forward", "backward"))
        },
        detail=resolver.detail(),
    )


def _construct(name: str) -> Callable[[ActionContext, tuple[str, ...]], Feedback]:
    """The run of a construct action: extend the program, then run it once and say what it finds."""

    def run(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
        resolver, before = Resolver(context), _program(context)
        after = apply(before, name, arguments, resolver)
        if name not in ("add_fact", "set_answer"):  # which compare nothing
            after = compared(context.kg, before, after)
        feedback = preview(context, after)
        if feedback.outcome == Outcome.EMPTY and name == "add_fact":
            feedback = _replace_earlier_fact(context, before, after) or feedback
        if (
            feedback.outcome == Outcome.EMPTY
            and name in ("add_filter", "add_not", "set_answer")
            and _decides(context.question)
        ):
            # Nothing is wrong with a comparison that does not hold.
            values = empty_facts(context, before, after).get("values", {})
            held = "".join(f" {variable} holds {told}." for variable, told in values.items())
            said = f"{_NO}{held} If the question asks this, ask()."
            feedback = replace(feedback, outcome=Outcome.ROWS, observation=said)
        profile, empty = context.kg.profile, feedback.outcome == Outcome.EMPTY
        detail = {
            **resolver.detail(),
            **feedback.detail,
            **(empty_facts(context, before, after) if empty else {}),
            **program_facts(after, before, profile),
            **(hierarchy_facts(after, profile, empty) if name == "add_fact" else {}),
        }
        return replace(feedback, arguments=tuple(resolver.shown(a) for a in arguments), detail=detail)

    return run


def _decides(question: str) -> bool:
    """Whether a question is answered by yes or no, and not by one of two things it names."""
    return decides(question) and " or " not in question.casefold()


def _replace_earlier_fact(context: ActionContext, before: PyQL, after: PyQL) -> Feedback | None:
    """Return what is found if an empty fact replaces an earlier one (QueryAgent, figure 7, step 7).

    Both must join the same known node with the same variable, on which nothing else hangs, and the earlier
    fact must lead to mediators only: the guideline for empty facts says to choose another relation, and
    agents do so under the old name. None if that is not so.
    """
    newest, profile = after.clauses[-1], context.kg.profile
    if not isinstance(newest, Fact) or len(newest.mentions) != 1:
        return None
    variable = newest.mentions[0]
    hanging = [clause for clause in before.clauses if variable in clause.mentions]
    if len(hanging) != 1 or not isinstance(earlier := hanging[0], Fact):
        return None
    if (earlier.subject, earlier.object) != (newest.subject, newest.object):
        return None
    if set(preview(context, before).values.get(variable.name, [])) != {UNNAMED}:
        return None
    feedback = preview(context, replace(after, clauses=tuple(c for c in after.clauses if c != earlier)))
    if feedback.outcome not in (Outcome.ROWS, Outcome.TRUNCATED):
        return None
    note = (
        f"(The fact over {profile.short(earlier.relation)}, which led {variable.n3()} only to nodes without "
        "a name, was left out.)"
    )
    return replace(feedback, observation=f"{feedback.observation} {note}")


def preview(context: ActionContext, program: PyQL) -> Feedback:
    """What a program finds so far, with one query for values and one for their labels."""
    kg, text = context.kg, program.text(context.kg.profile)
    if not program.clauses:
        said = "This is a yes/no question now." if program.boolean else "The query is empty."
        return Feedback(observation=said, program=text)
    most = context.preview * ROWS_A_VALUE
    result = kg.query(program.sparql(kg.profile, most))
    if result.boolean is not None:
        return Feedback(outcome=Outcome.ROWS, observation=_yes_no(result.boolean), program=text)
    feedback = _values(context, program, result, len(result.rows) >= most)
    if program.boolean and result.outcome is Outcome.EMPTY:
        # No is an answer: nothing is wrong with a yes/no question whose pattern does not hold.
        return Feedback(outcome=Outcome.ROWS, observation=_NO, program=text)
    return replace(feedback, program=text, triples=instantiate(program.facts(), result))


def _yes_no(holds: bool) -> str:
    return f"The answer is {'yes' if holds else 'no'}."


def _values(context: ActionContext, program: PyQL, result: Result, is_sample: bool = False) -> Feedback:
    """The values of each variable in a result, in the words of the paper (figure 4), and what they tell.

    is_sample: whether the result holds only the first solutions that there are.
    """
    kg, limit = context.kg, context.preview
    if not result.outcome.ok:
        return Feedback(outcome=result.outcome, message=result.message, observation=result.message)
    columns = {v: result.column(v) for v in result.variables}
    shown: dict[str, tuple[Term, ...]] = {v: column[:limit] for v, column in columns.items()}
    paired = len(columns) > 1 and len(result.rows) > 1 and not context.published
    rows = result.rows[:ROWS] if paired else ()
    terms = (t for some in (*shown.values(), *rows) for t in some if t is not None)
    named = names(kg, list(dict.fromkeys(terms)))
    values = {v: [named[t] for t in column] for v, column in shown.items()}
    ids = {v: short_ids(kg, column) for v, column in shown.items()}
    sentences = []
    for v, column in columns.items():
        more: bool | str = len(column) > limit
        if more and not context.published:
            more = f"{len(column)} {'or more' if is_sample else 'in all'}"
        listed = list_values(told_apart(values[v], ids[v]), more)
        sentences.append(f"The value of variable ?{v} is {listed}.")
    if is_sample and not context.published:
        sentences.append(f"(Seen in the first {len(result.rows)} solutions only: there are more.)")
    if rows:
        heading = " | ".join(f"?{v}" for v in columns)
        lines = [" | ".join(named[t] if t is not None else "-" for t in row) for row in rows]
        lines += ["..."] if len(rows) < len(result.rows) else []
        sentences.append(f"Solutions ({heading}): {'; '.join(lines)}.")
    return Feedback(
        outcome=result.outcome,
        message=result.message,
        observation=" ".join(sentences) if result.rows else "The query has no result.",
        values=values,
        ids=ids,
        detail=result_facts(kg, program, context.memory, result, named),
    )


@action(example="execute()")
def execute(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Execute the query and finish with its answer."""
    program = _program(context)
    # The only variable there is need not be set (figure 7, step 8).
    if not program.answer and not program.boolean and len(program.variables) == 1:
        program = program.set_answer(program.variables[0])
    return execute_program(context, program)


def execute_program(context: ActionContext, program: PyQL) -> Feedback:
    """Return what `execute` says of a program, whatever the context's own. Raises `ActionError`."""
    kg = context.kg
    program.check_complete()
    result = kg.query(program.sparql(kg.profile))
    if result.boolean is not None:
        feedback = Feedback(outcome=Outcome.ROWS, observation=_yes_no(result.boolean))
        answers: tuple[str, ...] = ("true" if result.boolean else "false",)
    else:
        feedback = _values(context, program, result)
        values = dict.fromkeys(value for row in result.rows for value in row if value is not None)
        answers = tuple(short_ids(kg, values))
    detail = {**feedback.detail, **program_facts(program, None, kg.profile)}
    text, done = program.text(kg.profile), result.outcome.ok
    return replace(feedback, program=text, answers=answers, detail=detail, finished=done)


@action(
    Parameter("what", "text", "all takes back the whole query", False),
    example="undo()",
    aliases=("undo_last", "remove_last"),
)
def undo(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Take back the last line of the query, when it was accepted but is not what is meant."""
    before, profile = _program(context), context.kg.profile
    after = PyQL() if arguments and before.clauses else before.undo()
    left = after.text(profile).splitlines()
    back = [line for line in before.text(profile).splitlines() if line not in left]
    feedback = preview(context, after)
    said = f"Taken back: {'; '.join(back)}. {feedback.observation}"
    return replace(feedback, observation=said, outcome=Outcome.ROWS, detail={"emptied": not after.clauses})


def _action(
    name: str, doc: str, parameters: Sequence[Parameter], example: str, variadic: bool = False
) -> Action:
    """The declaration of a construct action."""
    return Action(name, doc, tuple(parameters), _construct(name), example, variadic)


_ENDS = (
    Parameter("head", "node", "the subject: an entity id or a variable"),
    Parameter("relation", "relation", "a relation that get_relation has shown"),
    Parameter("tail", "node", 'the object: an entity id, a variable, or a literal such as "1.0"^^xsd:float'),
)

ACTIONS = (
    get_relation,
    search,
    _action(
        "add_fact", "Add the triple pattern (head, relation, tail).", _ENDS, "add_fact(Q1490, P36, ?capital)"
    ),
    _action(
        "add_optional",
        "Add a fact that may be missing: solutions without it stay.",
        _ENDS,
        "add_optional(?person, P570, ?died)",
    ),
    _action(
        "add_type",
        "Keep only values of a variable that are of a type.",
        (_VARIABLE, Parameter("type", "entity", "the id of the type")),
        "add_type(?x, Q6256)",
    ),
    _action(
        "add_max",
        "Keep only the solutions with the largest value of a variable.",
        (_VARIABLE,),
        "add_max(?time)",
    ),
    _action(
        "add_min",
        "Keep only the solutions with the smallest value of a variable.",
        (_VARIABLE,),
        "add_min(?time)",
    ),
    _action(
        "add_count",
        "Count the distinct values of a variable.",
        (
            _COUNTED,
            Parameter("count", "variable", "the new variable for the number; ?count if left out", False),
        ),
        "add_count(?film, ?count)",
    ),
    _action(
        "add_group",
        "Count the values of one variable for each value of another, to compare or filter the counts.",
        (_COUNTED, _PER, Parameter("count", "variable", "the new variable for the number", False)),
        "add_group(?film, ?director, ?films)",
    ),
    _action(
        "add_most",
        "Keep the values of `per` that have the most values of `counted`.",
        (_COUNTED, _PER),
        "add_most(?film, ?director)",
    ),
    _action(
        "add_least",
        "Keep the values of `per` that have the fewest values of `counted`.",
        (_COUNTED, _PER),
        "add_least(?film, ?director)",
    ),
    _action(
        "add_aggregate",
        "Bind a new variable to the sum or average of numbers, over all or for each value of `per`.",
        (
            Parameter("function", "text", f"one of {', '.join(FUNCTIONS)}"),
            Parameter("variable", "variable", "the variable that holds the numbers"),
            Parameter("result", "variable", "the new variable for the number", False),
            Parameter("per", "variable", "the variable for each value of which it is made", False),
        ),
        "add_aggregate(average, ?height, ?mean, ?country)",
    ),
    _action(
        "add_value",
        "Bind a new variable to a number computed from values.",
        (
            Parameter("result", "variable", "the new variable for the number"),
            Parameter("expression", "text", "variables, numbers, + - * /, abs(), year(?date) and brackets"),
        ),
        "add_value(?difference, abs(?a - ?b))",
    ),
    _action(
        "add_filter",
        "Add a comparison of two values, one of them a variable. Nodes are compared with text by name.",
        (
            Parameter(
                "left", "value", 'a variable, number, date (2014-07-31), "text", entity id or year(?date)'
            ),
            Parameter("operator", "operator", f"one of {', '.join(OPERATORS)}"),
            Parameter("right", "value", "as left"),
        ),
        "add_filter(?height, >, 8000)",
    ),
    _action(
        "add_union",
        "Keep what meets one of several patterns, or is one of several nodes: (?x, =, Q1), (?x, =, Q2).",
        (
            Parameter("first", "text", f"a pattern: {_PATTERN}"),
            Parameter("others", "text", "one more pattern, or several"),
        ),
        "add_union((?x, P19, Q64), (?x, P20, Q64))",
        variadic=True,
    ),
    _action(
        "add_not",
        "Drop what meets a pattern.",
        (
            Parameter("head", "node", f"a subject; or else a whole pattern: {_PATTERN}"),
            Parameter("relation", "relation", "the relation, if head is a subject", False),
            Parameter("tail", "node", "the object, if head is a subject", False),
        ),
        "add_not(?person, P26, ?spouse)",
    ),
    _action(
        "add_time_window",
        "Keep only mediator nodes whose own period overlaps with the given one; an end may be none.",
        (
            Parameter("mediator", "variable", "the variable of the node that carries both dates"),
            Parameter("from_relation", "relation", "its relation to the first day"),
            Parameter("to_relation", "relation", "its relation to the last day"),
            Parameter("start", "value", "YYYY, YYYY-MM, YYYY-MM-DD or none"),
            Parameter("end", "value", "as start", False),
        ),
        "add_time_window(?term, P580, P582, 2008, 2012)",
    ),
    _action(
        "add_order",
        "Order the answers by a variable and keep the first ones; use add_max for the single best.",
        (
            _VARIABLE,
            Parameter("direction", "text", "desc or asc", False),
            Parameter("number", "value", "how many answers to keep", False),
        ),
        "add_order(?height, desc, 3)",
    ),
    _action(
        "set_answer",
        "Say which variable the query returns.",
        (Parameter("answer", "variable", "a variable that a fact has bound"),),
        "set_answer(?capital)",
        variadic=True,
    ),
    _action("ask", "Make it a yes/no question: does any solution exist?", (), "ask()"),
    undo,
    execute,
    unknown,
)

PYQL = Toolset("pyql", ACTIONS)


_LOOKED_AT, _BESIDE = 20, 1_000
"""Nodes without a name that are looked at, and facts about them that are read."""

_PLAIN_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?%?")
_YEAR = re.compile(r"1\d{3}|20\d\d")
_ISO_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z)?")
_TELLS_TIME = re.compile(
    r"\d|\b(?:jan|febr)uary\b|\b(?:march|april|may|june|july|august)\b|\b(?:septem|octo|novem|decem)ber\b"
    r"|day\b|\b(?:spring|summer|autumn|winter|century|era|period|age|war|easter|christmas)\b",
    re.IGNORECASE,
)


def kind_of_value(term: Term, name: str | None) -> str:
    """Return number, date, year, boolean, text, dated, entity, unnamed or unseen.

    A `year` may be a number too; `dated` is an entity whose name may tell a time, as "2011 Finals"; `unnamed`
    is a mediator, `unseen` an entity whose name was not fetched.

    Args:
        term: the value. name: as it is shown, None where that was not fetched.
    """
    if isinstance(term, Literal):
        if term.datatype in NUMERIC:
            return "number"
        if term.datatype in TEMPORAL:
            return "date"
        return "boolean" if term.datatype == XSD + "boolean" else _kind_of_text(term.value)
    if name is None:
        return "unseen"
    if name == UNNAMED:
        return "unnamed"
    plain = _kind_of_text(name)
    return plain if plain != "text" else "dated" if _TELLS_TIME.search(name) else "entity"


def _kind_of_text(text: str) -> str:
    """Return the kind of a text that may be a number or a date."""
    text = text.strip()
    if _YEAR.fullmatch(text):
        return "year"
    if _ISO_DATE.fullmatch(text):
        return "date"
    return "number" if _PLAIN_NUMBER.fullmatch(text) else "text"


def result_facts(
    kg: KnowledgeGraph,
    program: PyQL,
    memory: ReasoningMemory,
    result: Result,
    named: Mapping[Term, str],
) -> dict[str, Any]:
    """Return facts about a result with rows, all plain JSON.

    Keys:
        solutions: rows fetched. kinds: variable -> kind -> how many of its distinct values.
        answer_kinds: the same for all answer variables together, where they are set.
        topics: linked entities among the answers only because a relation was walked there and back.
        ends: variables of the answer, or else of the newest fact, whose values have no name and nothing else
            beside them: no mediators, though they look like ones.
        tied: `variable`, `owner` and `count`, where the newest clause is a superlative that several share.
    """
    if not result.rows:
        return {}
    columns = {v: result.column(v) for v in result.variables}
    if kg.profile.percent_names:  # the name of such a term is known without a query
        named = {t: kg.profile.short(t) for column in columns.values() for t in column} | dict(named)
    kinds = {v: Counter(kind_of_value(t, named.get(t)) for t in c) for v, c in columns.items()}
    facts: dict[str, Any] = {
        "solutions": len(result.rows),
        "kinds": {v: dict(counts) for v, counts in kinds.items()},
    }
    answers = [v.name for v in program.answer if v.name in columns]
    if answers:
        total = sum((kinds[v] for v in answers), Counter[str]())
        facts["answer_kinds"] = dict(total)
        facts["topics"] = _topics(kg, program, memory, columns)
    newest = program.clauses[-1]
    looked_at = answers or [v.name for v in newest.mentions if isinstance(newest, Fact) and v.name in columns]
    hidden = [v for v in looked_at if "unnamed" in kinds[v] and not set(kinds[v]) - {"unnamed", "unseen"}]
    facts["ends"] = [v for v in hidden if _are_ends(kg, columns[v])]
    if tied := _tied(program, columns, kinds):
        facts["tied"] = tied
    return {key: value for key, value in facts.items() if value}


def _are_ends(kg: KnowledgeGraph, nodes: Sequence[Term]) -> bool:
    """Whether most of the first nodes have but one other beside them: what joins nothing is no mediator."""
    shown = [node for node in nodes if isinstance(node, IRI)][:_LOOKED_AT]
    values = " ".join(node.n3() for node in shown)
    result = kg.query(
        f"SELECT DISTINCT ?node ?relation ?other WHERE {{ VALUES ?node {{ {values} }} "
        "{ ?node ?relation ?other } UNION { ?other ?relation ?node } }",
        limit=_BESIDE,
    )
    if result.outcome != Outcome.ROWS:
        return False
    types = set(kg.profile.type_predicates)
    beside: dict[Term, set[Term]] = {}
    for node, relation, other in result.rows:
        if not isinstance(relation, IRI) or relation.value in types or kg.profile.excludes(relation):
            continue
        if node is not None and other is not None:
            beside.setdefault(node, set()).add(other)
    return 2 * sum(len(others) < 2 for others in beside.values()) > len(beside)


def _topics(
    kg: KnowledgeGraph, program: PyQL, memory: ReasoningMemory, columns: Mapping[str, Sequence[Term]]
) -> list[str]:
    """Return linked entities that a relation leads away from and straight back to, as answers.

    A topic may well answer its own question over two different relations: the writer of a director's films.
    """
    back = []
    for out, home in permutations(program.facts(), 2):
        for start, end, turn in (
            (out.subject, home.subject, out.object == home.object),
            (out.object, home.object, out.subject == home.subject),
        ):
            if not (turn and out.relation == home.relation and isinstance(start, IRI)):
                continue
            answers = columns.get(end.name, ()) if end in program.answer else ()
            if start in answers and len(answers) > 1:  # where it is all there is, nothing is to be left out
                back.append(kg.profile.short(start))
    return [id for id in dict.fromkeys(back) if id in memory.linked]


def _tied(
    program: PyQL, columns: Mapping[str, Sequence[Term]], kinds: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return what a superlative, the newest clause, left several of; {} if one solution stands out."""
    clause = program.clauses[-1] if program.clauses else None
    if not isinstance(clause, Extreme) or clause.variable.name not in columns:
        return {}
    holding = owners(program, clause.variable)
    if len(holding) == 1 and set(kinds.get(holding[0].name, ())) == {"unnamed"}:
        # Several statements about one thing are no tie: what matters is whose they are.
        holding = [v for v in owners(program, holding[0]) if v != clause.variable] or holding
    sizes = {v: len(columns[v.name]) for v in holding if v.name in columns}
    if not sizes or min(sizes.values()) < 2:
        return {}
    owner = min(sizes, key=lambda v: sizes[v])
    return {"variable": clause.variable.n3(), "owner": owner.n3(), "count": sizes[owner]}


def program_facts(program: PyQL, before: PyQL | None, profile: Profile) -> dict[str, Any]:
    """Return facts about a program: `relations` (short ids), and whether it is `unchanged` since `before`."""
    relations = dict.fromkeys(profile.short(fact.relation) for fact in all_facts(program.clauses))
    facts: dict[str, Any] = {"relations": list(relations)} if relations else {}
    return {**facts, "unchanged": True} if program == before else facts


def empty_facts(context: ActionContext, before: PyQL, after: PyQL) -> dict[str, Any]:
    """Return what explains that the newest clause finds nothing.

    Keys:
        values: for a comparison, `?variable` -> what it holds.
        lacking: for a fact of a known node, `node` and `other`, where that other one has the same relation.
    """
    match after.clauses[-1:]:
        case (Filter() as comparison,):
            return {"values": describe_values(context.kg, after.clauses[:-1], comparison)}
        case (Fact(IRI() as node, relation, Variable()),):
            others = [
                f.subject for f in before.facts() if f.relation == relation and isinstance(f.subject, IRI)
            ]
            if others and node not in others:
                short = context.kg.profile.short
                return {"lacking": {"node": short(node), "other": short(others[0])}}
    return {}


def hierarchy_facts(program: PyQL, profile: Profile, empty: bool) -> dict[str, Any]:
    """Return what the newest fact has to do with the hierarchy of classes.

    Keys:
        hierarchy: `type` or `subclass`, if its relation is an instance-of or a subclass-of relation.
        class_relations: for a fact that finds nothing, short ids of the relations that lead to classes.
    """
    newest = program.clauses[-1] if program.clauses else None
    if not isinstance(newest, Fact):
        return {}
    facts: dict[str, Any] = {}
    if newest.relation.value in profile.type_predicates:
        facts["hierarchy"] = "type"
    elif newest.relation.value in profile.subclass_predicates:
        facts["hierarchy"] = "subclass"
    if empty:
        leading = (*profile.type_predicates, *profile.subclass_predicates)
        facts["class_relations"] = [profile.short(IRI(p)) for p in leading]
    return facts


def _fact_call(previous: str, atom: Atom) -> Call:
    """The `add_fact` that extends a chain by one atom; `previous` is an id or `?variable`."""
    here = f"?{atom.variable}"
    ends = (previous, atom.relation, here) if atom.forward else (here, atom.relation, previous)
    return Call("add_fact", ends)


def _chain_calls(start: str, atoms: tuple[Atom, ...]) -> list[Call]:
    """Look up and add each relation of a chain."""
    calls, previous = [], start
    for atom in atoms:
        calls += [Call("get_relation", (previous,)), _fact_call(previous, atom)]
        previous = f"?{atom.variable}"
    return calls


def _constraint_calls(constraint: Constraint) -> list[Call]:
    """The actions that carry out one constraint."""
    variable = f"?{constraint.variable}"
    target = f"?{constraint.atoms[-1].variable}" if constraint.atoms else variable
    if constraint.kind == "meets":
        return _chain_calls(constraint.value, constraint.atoms)
    calls = _chain_calls(variable, constraint.atoms)
    match constraint.kind:
        case "type":
            calls.append(Call("add_type", (variable, constraint.value)))
        case "filter":
            calls.append(Call("add_filter", (target, constraint.operator, constraint.value)))
        case "distinct":
            calls.append(Call("add_filter", (variable, "!=", constraint.value)))
        case "max" | "min":
            calls.append(Call(f"add_{constraint.kind}", (target,)))
        case "most" | "least":
            calls.append(Call(f"add_{constraint.kind}", (target, variable)))
        case "count":
            calls.append(Call("add_count", (constraint.value, variable)))
        case "ask":
            calls.append(Call("ask"))
        case "not":
            return [
                Call("get_relation", (constraint.value,)),
                Call("add_not", _fact_call(constraint.value, constraint.atoms[0]).arguments),
            ]
        case "either":
            sides = (constraint.operator, constraint.value)
            facts = [f"({', '.join(_fact_call(side, constraint.atoms[0]).arguments)})" for side in sides]
            return [*(Call("get_relation", (side,)) for side in sides), Call("add_union", tuple(facts))]
        case "holds":
            atom, subject = constraint.atoms[0], constraint.variable
            ends = (subject, constraint.value) if atom.forward else (constraint.value, subject)
            return [Call("get_relation", (subject,)), Call("add_fact", (ends[0], atom.relation, ends[1]))]
    return calls


def script(rule: Rule) -> tuple[Call, ...]:
    """The PyQL actions that follow a rule from its anchor to `execute()`, each once, in order."""
    calls = _chain_calls(rule.anchor, rule.body)
    for constraint in rule.constraints:
        calls += _constraint_calls(constraint)
    if not any(c.kind == "ask" for c in rule.constraints):
        calls.append(Call("set_answer", (f"?{rule.answer}",)))
    return tuple(dict.fromkeys([*calls, Call("execute")]))
