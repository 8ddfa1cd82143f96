"""QueryAgent's actions: build a query step by step, and see what it finds after each (3.2, table 10)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from triplewise.tools.actions import terms, toolset
from triplewise.tools.actions.comparison import compared, describe_values
from triplewise.tools.actions.search import search
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.literals import NUMERIC
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Relations, Result, terms_n3
from triplewise.tools.kg.vocabulary import relation_names
from triplewise.tools.parsing.card import LocalCard, local_card
from triplewise.tools.parsing.statements import decides
from triplewise.tools.pyql.program import TEMPORAL, Aggregate, Extreme, Fact, Filter, PyQL, Typed
from triplewise.tools.pyql.sparql import instantiate
from triplewise.tools.pyql.text import apply, read_variable, scan_arguments

VALUED, HAVING = 10, 6  # Relations of a side shown with a value; of values of which a step finds nothing
ROWS = 5  # Solutions shown with the values that belong together
ROWS_A_VALUE = 10  # Rows fetched for each value that a preview shows: every variable gets its share
_NO = "Nothing meets this, so the answer would be no."
_Columns = Mapping[str, Sequence[Term]]


def _program(context: ActionContext) -> PyQL:
    return PyQL.parse(context.program, context.kg.profile)


@action("get_relation(?computer)", "get_relations", "getRelation")
def get_relation(
    context: ActionContext,
    entity_or_variable: Annotated[str, "node", "an entity id or a variable that a fact has bound"],
    page: Annotated[str, "text", "2, 3, ... to see what a list left out"] = "",
) -> Feedback:
    """Get the one-hop relations of an entity or of a variable, in both directions."""
    resolver, program, kg = terms.Resolver(context), _program(context), context.kg
    shown = form = entity_or_variable.strip()
    if form.startswith("?"):
        variable, existing = read_variable(form), [v.n3() for v in program.variables]
        if variable not in program.variables:
            message = f"{form} is not a created variable; existing variables: {', '.join(existing) or 'none'}"
            raise ActionError("unknown_variable", message, given=form, existing=existing)
        result, card = _around(context, variable, program.where(kg.profile))
    else:
        term = resolver.entity(form)
        result, card = _around(context, term)
        shown = form if form.startswith(('"', "'")) else kg.profile.short(term)
        shown = next(iter(resolver.repaired.values()), shown)
    n, pages = terms.page_number(page), list[tuple[list[str], list[str]]]()
    left: Sequence[list[str]] = [terms.short_ids(kg, side) for side in (result.forward, result.backward)]
    for _ in range(min(n, 1 + sum(map(len, left)))):  # pages beyond the last one are empty
        pages.append(context.rank(*left))
        left = [[r for r in side if r not in cut] for side, cut in zip(left, pages[-1], strict=True)]
    named, ends = _with_values(kg, pages[-1], card)
    ended = f"the relations of {shown} end with page {sum(map(any, pages))}"
    listed = str(named) if any(pages[-1]) else ended
    rest = f" ... and {sum(map(len, left))} more: get_relation({shown}, {n + 1})" if any(left) else ""
    return Feedback(
        arguments=(shown, *([str(n)] if n > 1 else [])),
        outcome=result.outcome,
        message=result.message,
        observation=str(named) if context.published else listed + rest,
        # All that was offered so far, the newest first.
        relations={side: [r for on in reversed(pages) for r in on[i]] for i, side in enumerate(named)},
        ids={"get_relation": terms.short_ids(kg, ends)} if ends else {},
        detail=resolver.detail(),
    )


def _around(context: ActionContext, node: Term | Variable, where: str = "") -> tuple[Relations, LocalCard]:
    """The relations of a node or a variable, and what is held by them; by one query where that tells all."""
    kg, card = context.kg, LocalCard()
    if not context.published:
        values = f"VALUES ?_x {{ {node.n3()} }}"
        card = local_card(kg, *((node.n3(), where) if isinstance(node, Variable) else ("?_x", values)))
    if not card.is_whole:
        return kg.relations(node, where), card
    outcome = Outcome.ROWS if card.held else Outcome.EMPTY
    return Relations(outcome, tuple(card.relations(True)), tuple(card.relations(False))), card


def _with_values(
    kg: KnowledgeGraph, ids: Sequence[Sequence[str]], card: LocalCard
) -> tuple[dict[str, list[str]], list[Term]]:
    """Relations of both sides, the first ones with a value, and how many nodes have one where not all do.

    Then the nodes among the values: their names stand for them from now on.
    """
    names = [relation_names(kg, side) for side in ids]
    held = {(kg.profile.short(h.relation), h.forward): h for h in card.held}
    places = [(side, i, (r, side == 0)) for side, of in enumerate(ids) for i, r in enumerate(of[:VALUED])]
    shown = [(side, i, held[key]) for side, i, key in places if key in held]
    values = terms.as_written(kg, [h.value for *_, h in shown], ids=False)
    for (side, i, h), value in zip(shown, values, strict=True):
        names[side][i] += f"{card.share(*h[:2])}: {value}"
    nodes: list[Term] = [h.value for *_, h in shown if isinstance(h.value, IRI)]
    return {"forward": names[0], "backward": names[1]}, nodes


def _construct(name: str, context: ActionContext, *arguments: str) -> Feedback:
    """Carry out a construct action: extend the program, then run it once and say what it finds."""
    resolver, before, profile = terms.Resolver(context), _program(context), context.kg.profile
    after = apply(before, name, arguments, resolver)
    if name not in ("add_fact", "set_answer"):  # which compare nothing
        after = compared(context.kg, before, after)
    feedback = preview(context, after)
    if feedback.outcome == Outcome.EMPTY and name == "add_fact":
        feedback = _replace_earlier_fact(context, before, after) or feedback
    detail: dict[str, Any] = {**resolver.detail(), **feedback.detail}
    if feedback.outcome == Outcome.EMPTY:
        facts = _empty_facts(context, before, after)
        # Nothing is wrong with a comparison that does not hold, where the question is a yes/no question.
        is_claim = decides(context.question) and " or " not in context.question.casefold()
        if is_claim and name in ("add_filter", "add_not", "set_answer"):
            held = "".join(f" {v} holds {values}." for v, values in facts.get("values", {}).items())
            text = f"{_NO}{held} If the question asks this, ask()."
            feedback = replace(feedback, outcome=Outcome.ROWS, observation=text)
        else:
            detail |= facts
    elif not context.published and feedback.program == after.text(profile):
        lost = dropped(context.kg, before, after, context.preview * ROWS_A_VALUE)
        feedback = replace(feedback, observation=f"{feedback.observation} This {lost}.") if lost else feedback
    if after == before:
        detail["unchanged"] = True
    if isinstance(newest := after.clauses[-1] if name == "add_fact" else None, Fact):
        # What it has to do with the hierarchy of classes, and where it finds nothing, what leads to classes.
        subclass, type_ = profile.subclass_predicates, profile.type_predicates
        levels = {**dict.fromkeys(subclass, "subclass"), **dict.fromkeys(type_, "type")}
        if level := levels.get(newest.relation.value):
            detail["hierarchy"] = level
        if feedback.outcome == Outcome.EMPTY:
            detail["class_relations"] = [profile.short(IRI(p)) for p in (*type_, *subclass)]
    return replace(feedback, arguments=tuple(map(resolver.shown, arguments)), detail=detail)


def _replace_earlier_fact(context: ActionContext, before: PyQL, after: PyQL) -> Feedback | None:
    """Return what is found if an empty fact replaces an earlier one (QueryAgent, figure 7, step 7).

    Both join the same known node with the same variable, on which nothing else hangs, and the earlier fact
    leads to mediators only: when advised to choose another relation, models reuse the name. Else None.
    """
    newest = after.clauses[-1]
    if not isinstance(newest, Fact) or len(newest.mentions) != 1:
        return None
    (variable,) = newest.mentions
    match [clause for clause in before.clauses if variable in clause.mentions]:
        case [Fact(newest.subject, relation, newest.object) as earlier]:
            if set(preview(context, before).values.get(variable.name, [])) != {terms.UNNAMED}:
                return None
            kept = tuple(clause for clause in after.clauses if clause != earlier)
            feedback = preview(context, replace(after, clauses=kept))
            short = context.kg.profile.short(relation)
            led = f"{short}, which led {variable.n3()} only to nodes without a name"
            text = f"{feedback.observation} (The fact over {led}, was left out.)"
            is_found = feedback.outcome in (Outcome.ROWS, Outcome.TRUNCATED)
            return replace(feedback, observation=text) if is_found else None
    return None


def preview(context: ActionContext, program: PyQL) -> Feedback:
    """What a program finds so far, with one query for values and one for their labels."""
    kg, text = context.kg, program.text(context.kg.profile)
    if not program.clauses:
        empty = "This is a yes/no question now." if program.boolean else "The query is empty."
        return Feedback(observation=empty, program=text)
    most = context.preview * ROWS_A_VALUE
    result = kg.query(program.sparql(kg.profile, most))
    if result.boolean is not None:
        return replace(_truth(result.boolean), program=text)
    if program.boolean and not result.rows:
        # No is an answer: nothing is wrong with a yes/no question whose pattern does not hold.
        return Feedback(outcome=Outcome.ROWS, observation=_NO, program=text)
    feedback = _values(context, program, result, len(result.rows) >= most)
    return replace(feedback, program=text, triples=instantiate(program.facts(), result))


def dropped(kg: KnowledgeGraph, before: PyQL, after: PyQL, most: int) -> str:
    """Return which values lack a type or the new value that the newest clause asks for: "drops 1 of 5: Emma".

    "" where it drops none, does something else, or a query has `most` rows or more.
    """
    newest = after.clauses[-1] if len(after.clauses) > len(before.clauses) else None
    known = [v for v in newest.mentions if v in before.variables] if isinstance(newest, Fact | Typed) else []
    if len(known) != 1 or (isinstance(newest, Fact) and len(newest.mentions) == 1):
        return ""
    results = [kg.query(program.sparql(kg.profile, most)) for program in (before, after)]
    if any(len(r.rows) >= most or known[0].name not in r.variables for r in results):
        return ""
    held, kept = (result.column(known[0].name) for result in results)
    lost = [term for term in held if term not in set(kept)]
    shown = [name for name in terms.names(kg, lost[:ROWS]).values() if name != terms.UNNAMED]
    listed = ", ".join([*shown, *(["..."] if len(lost) > len(shown) else [])])
    return f"drops {len(lost)} of {len(held)} values of {known[0].n3()}: {listed}" if lost else ""


def _truth(holds: bool) -> Feedback:
    return Feedback(outcome=Outcome.ROWS, observation=f"The answer is {'yes' if holds else 'no'}.")


def _values(context: ActionContext, program: PyQL, result: Result, is_sample: bool = False) -> Feedback:
    """The values of each variable as figure 4 words them; `is_sample`: of the first solutions only."""
    kg, limit = context.kg, context.preview
    if not result.rows:
        nothing: dict[str, list[str]] = {v: [] for v in result.variables}
        found = Feedback(outcome=result.outcome, message=result.message, values=nothing, ids=nothing)
        return replace(found, observation="The query has no result.")
    columns = {v: result.column(v) for v in result.variables}
    shown = {v: column[:limit] for v, column in columns.items()}
    rows = result.rows[:ROWS] if min(len(columns), len(result.rows)) > 1 and not context.published else ()
    named = terms.names(kg, (t for some in (*shown.values(), *rows) for t in some))
    values, ids, sentences = dict[str, list[str]](), dict[str, list[str]](), list[str]()
    for v, column in columns.items():
        values[v], ids[v] = [named[t] for t in shown[v]], terms.short_ids(kg, shown[v])
        count = f"{len(column)} {'or more' if is_sample else 'in all'}"
        more = len(column) > limit and (context.published or count)
        listed = terms.list_values(_unambiguous(values[v], ids[v]), more)
        sentences.append(f"The value of variable ?{v} is {listed}.")
    if is_sample and not context.published:
        sentences.append(f"(Seen in the first {len(result.rows)} solutions only: there are more.)")
    if rows:
        lines = [" | ".join("-" if t is None else named[t] for t in row) for row in rows]
        lines += ["..."] * (len(rows) < len(result.rows))
        sentences.append(f"Solutions (?{' | ?'.join(columns)}): {'; '.join(lines)}.")
    return Feedback(
        outcome=result.outcome,
        message=result.message,
        observation=" ".join(sentences),
        values=values,
        ids=ids,
        detail=_result_facts(context, program, columns, named),
    )


def _unambiguous(names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Return names; one that several nodes share stands with the id of each."""
    shared = {**Counter(names), terms.UNNAMED: 1}
    return [f"{n} [{id}]" if shared[n] > 1 and n != id else n for n, id in zip(names, ids, strict=True)]


@action("take(1)")
def take(context: ActionContext, number: Annotated[str, "text", "of a reading in the hints"]) -> Feedback:
    """Make a reading of the question the query, to be executed or changed by further actions."""
    readings: Sequence[str] = context.services.get("readings", ())
    if not number.isdecimal() or not 0 < int(number) <= len(readings):
        message = f"{number!r} is not a reading: write a number from 1 to {len(readings)}"
        raise ActionError("bad_number", message, given=number)
    program = PyQL.parse(readings[int(number) - 1], context.kg.profile)
    return preview(context, compared(context.kg, PyQL(), program))


@action("execute()")
def execute(
    context: ActionContext, step: Annotated[str, "text", "N executes the query as it was after Action N"] = ""
) -> Feedback:
    """Execute the query and finish with its answer."""
    if step:
        queries: Mapping[str, str] = context.services.get("queries", {})
        if not (earlier := queries.get(step.strip("'\" "))):
            message = f"actions with a query are: {', '.join(queries) or 'none'}"
            raise ActionError("bad_number", message, given=step)
        context = replace(context, program=earlier)
    program = _program(context)
    # The only variable there is need not be set (figure 7, step 8).
    if not program.answer and not program.boolean and len(program.variables) == 1:
        program = program.set_answer(program.variables[0])
    program.check_complete()
    kg = context.kg
    result = kg.query(program.sparql(kg.profile))
    if result.boolean is not None:
        feedback, answers = _truth(result.boolean), ["true" if result.boolean else "false"]
    else:
        feedback = _values(context, program, result)
        answers = terms.row_texts(kg, result)
    return replace(feedback, program=program.text(kg.profile), answers=tuple(answers), finished=True)


@action("undo()", "undo_last", "remove_last")
def undo(
    context: ActionContext, what: Annotated[str, "text", "all takes back the whole query"] = ""
) -> Feedback:
    """Take back the last line of the query, when it was accepted but is not what is meant."""
    before, profile = _program(context), context.kg.profile
    after = PyQL() if what and before.clauses else before.undo()
    left = after.text(profile).splitlines()
    back = [line for line in before.text(profile).splitlines() if line not in left]
    feedback = preview(context, after)
    text = f"Taken back: {'; '.join(back)}. {feedback.observation}"
    return replace(feedback, observation=text, outcome=Outcome.ROWS, detail={"emptied": not after.clauses})


def _declared() -> list[toolset.Action]:
    """The construct actions, as `pyql.yaml` declares them."""
    actions = []
    for key, entry in packaged("triplewise.tools.actions", "pyql.yaml")["actions"].items():
        name, given = key.rstrip("+"), entry["parameters"].items()
        read = (toolset.Parameter(p.rstrip("?"), kind, doc, not p.endswith("?")) for p, (kind, doc) in given)
        about = entry["doc"], tuple(read), partial(_construct, name), entry["example"]
        actions.append(toolset.Action(name, *about, variadic=key != name))
    return actions


PYQL = Toolset("pyql", (get_relation, search, *_declared(), undo, execute, unknown))

_LOOKED_AT, _FACTS = 20, 1_000  # Nodes without a name that are looked at, and facts read about them
_WRITTEN = {
    "year": re.compile(r"1\d{3}|20\d\d"),
    "date": re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z)?"),
    "number": re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?%?"),
}
_TELLS_TIME = re.compile(
    r"\d|\b(?:jan|febr)uary\b|\b(?:march|april|may|june|july|august)\b|\b(?:septem|octo|novem|decem)ber\b"
    r"|day\b|\b(?:spring|summer|autumn|winter|century|era|period|age|war|easter|christmas)\b",
    re.IGNORECASE,
)


def kind_of_value(term: Term, name: str | None) -> str:
    """Return number, date, year, boolean, text, dated, entity, unnamed or unseen.

    A `year` may be a number too; `dated` is an entity whose name may tell a time, as "2011 Finals"; `unnamed`
    is a mediator, `unseen` an entity whose `name` was not fetched (None).
    """
    if isinstance(term, Literal):
        kinds = {**dict.fromkeys(NUMERIC, "number"), **dict.fromkeys(TEMPORAL, "date")}
        if kind := (kinds | {XSD + "boolean": "boolean"}).get(term.datatype):
            return kind
        name = term.value
    elif name is None or name == terms.UNNAMED:
        return "unnamed" if name else "unseen"
    written = (kind for kind, pattern in _WRITTEN.items() if pattern.fullmatch(name.strip()))
    other = "text" if isinstance(term, Literal) else "dated" if _TELLS_TIME.search(name) else "entity"
    return next(written, other)


def _result_facts(
    context: ActionContext, program: PyQL, columns: _Columns, named: Mapping[Term, str]
) -> dict[str, Any]:
    """Return facts about a result with rows, for guidelines.

    `answer_kinds`: kind -> how many distinct values of the answer variables. `ends`: variables of the answer,
    or else of the newest fact, whose values have no name and lead nowhere, as mediators would.
    """
    kg, newest = context.kg, program.clauses[-1]
    if kg.profile.percent_names:  # the name of such a term is known without a query
        named = {t: kg.profile.short(t) for column in columns.values() for t in column} | dict(named)
    kinds = {v: Counter(kind_of_value(t, named.get(t)) for t in c) for v, c in columns.items()}
    answers = [v.name for v in program.answer if v.name in columns]
    latest = [v.name for v in newest.mentions if v.name in columns] if isinstance(newest, Fact) else []
    nameless = (v for v in answers or latest if {"unnamed"} <= set(kinds[v]) <= {"unnamed", "unseen"})
    facts = {
        "answer_kinds": dict(sum((kinds[v] for v in answers), Counter[str]())),
        "ends": [v for v in nameless if _are_ends(kg, columns[v])],
    }
    return {key: value for key, value in facts.items() if value}


def _are_ends(kg: KnowledgeGraph, nodes: Sequence[Term]) -> bool:
    """Return whether most of the first nodes have only one neighbour: a mediator joins several."""
    shown = terms_n3([node for node in nodes if isinstance(node, IRI)][:_LOOKED_AT])
    around = "{ ?node ?relation ?other } UNION { ?other ?relation ?node }"
    sparql = f"SELECT DISTINCT ?node ?relation ?other WHERE {{ VALUES ?node {{ {shown} }} {around} }}"
    result = kg.query(sparql, limit=_FACTS)
    if result.outcome != Outcome.ROWS:
        return False
    joined = dict[Term | None, set[Term | None]]()
    for node, relation, other in result.rows:
        is_type = isinstance(relation, IRI) and relation.value in kg.profile.type_predicates
        if isinstance(relation, IRI) and not (is_type or kg.profile.excludes(relation)):
            joined.setdefault(node, set()).add(other)
    return 2 * sum(len(others) < 2 for others in joined.values()) > len(joined)


def _empty_facts(context: ActionContext, before: PyQL, after: PyQL) -> dict[str, Any]:
    """Return what explains that the newest clause finds nothing.

    `values`: of a comparison, what each variable holds. `lacking`: of a fact of a known node, that node and
    one that has the relation. `has`: of a fact or type, the relations, with values, that the variable has.
    """
    kg, short, facts = context.kg, context.kg.profile.short, dict[str, Any]()
    match after.clauses[-1:]:
        case (Filter() as comparison,):
            return {"values": describe_values(kg, after.clauses[:-1], comparison)}
        case (Fact(IRI() as node, relation, Variable()),):
            known = [f.subject for f in before.facts() if f.relation == relation]
            others = [subject for subject in known if isinstance(subject, IRI)]
            if others and node not in others:
                facts["lacking"] = {"node": short(node), "other": short(others[0])}
        case (Fact() | Typed() as newest,) if not context.published:
            for variable in [v for v in newest.mentions if v in before.variables][:1]:
                card = local_card(kg, variable.n3(), before.where(kg.profile))
                sides = (list(map(short, card.relations(way))) for way in (True, False))
                forward, backward = context.rank(*sides)
                named, _ = _with_values(kg, (forward[:HAVING], backward[: HAVING // 2]), card)
                listed = [*named["forward"], *(f"^{name}" for name in named["backward"])]
                facts["has"] = {variable.n3(): "; ".join(listed)} if listed else {}
    return facts


def script(program: PyQL, profile: Profile) -> tuple[Call, ...]:
    """Return the actions that make a program and execute it, in order.

    A question of yes or no begins with `ask()`: a fact that does not hold is then an answer, and no mistake.
    How values compare is found out by each action itself.
    """
    kinds = Filter | Extreme | Aggregate
    bare = tuple(replace(c, kind="") if isinstance(c, kinds) else c for c in program.clauses)
    parts = (line.partition("(") for line in replace(program, clauses=bare).text(profile).splitlines())
    calls = [Call(name, tuple(scan_arguments(rest)[0])) for name, _, rest in parts if name != "ask"]
    return (*([Call("ask")] if program.boolean else []), *calls, Call("execute"))
