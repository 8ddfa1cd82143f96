"""ODA's actions: neighbour exploration, path discovery, answer (section 2.2, table 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, names, page_number, short_ids, triple_lines, with_id
from triplewise.tools.actions.toolset import ActionContext, Feedback, Parameter, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, topics_of, within

VALUES, CHARACTERS = 10, 4_000
"""Values of a relation that are shown, and characters of all relations around one or two entities."""
SHOWN_NEIGHBORS = 50
"""Neighbors under one relation that are shown on a page."""
SHOWN_PATHS = 20

_PAGE = Parameter("page", "text", "2, 3, ... to see what the first page left out", False)


def neighbour_lines(
    kg: KnowledgeGraph,
    triples: Sequence[Triple],
    topics: Sequence[str],
    rank: Callable[[list[str]], list[str]],
) -> list[str]:
    """Return triples by the entity that they are about and by relation, those that fit the question first.

    Args:
        topics: short ids of the entities.
        rank: relation ids -> the same ones, best first; it may leave some out.
    """
    short = kg.profile.short
    ranked = rank(list(dict.fromkeys(short(t.relation) for t in triples)))
    place = {relation: i for i, relation in enumerate(ranked)}
    facts = [NearbyFact(t) for t in sorted(triples, key=lambda t: place.get(short(t.relation), len(place)))]
    return within(kg, grouped_lines(kg, facts, topics_of(kg, facts, topics), VALUES), CHARACTERS)


@action(
    Parameter("entity", "entity", "the id of a task-relevant entity"),
    Parameter(
        "relation", "relation", "one relation only, all of it; ^r for what points to the entity", False
    ),
    _PAGE,
    example="get_neighbors(Q1490)",
    aliases=("GetNeighbor", "GetNeighbors", "get_neighbor", "getNeighbor", "getNeighbors"),
)
def get_neighbors(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the triples around an entity, by relation: -> r leaves the entity, <- r arrives at it."""
    resolver, kg = Resolver(context), context.kg
    entity = resolver.entity(arguments[0])
    if len(arguments) > 1:
        feedback = neighbours_under(context, resolver, entity, arguments[1:], "get_neighbors")
        if feedback.outcome != Outcome.EMPTY:
            return feedback
        return replace(feedback, observation="This entity has no such neighbors.")
    result = kg.neighbours(entity)
    triples, id = result.triples, kg.profile.short(entity)
    lines = neighbour_lines(kg, triples, [id], lambda relations: context.rank(relations, [])[0])
    if lines and lines[-1].startswith("..."):
        lines[-1] += f": get_neighbors({id}, RELATION) shows one relation"
    return Feedback(
        arguments=(id,),
        outcome=result.outcome,
        message=result.message,
        observation="\n".join(lines) or "This entity has no neighbors." if result.outcome.ok else "",
        relations={
            "forward": short_ids(kg, dict.fromkeys(t.relation for t in triples if t.subject == entity)),
            "backward": short_ids(kg, dict.fromkeys(t.relation for t in triples if t.object == entity)),
        },
        ids={"neighbors": entity_ids(kg, triples)},
        triples=triples,
        detail=resolver.detail(),
    )


def entity_ids(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[str]:
    """Short ids of all entities in some triples."""
    ends = (end for t in triples for end in (t.subject, t.object) if isinstance(end, IRI))
    return short_ids(kg, dict.fromkeys(ends))


def neighbours_under(
    context: ActionContext, resolver: Resolver, entity: Term, arguments: Sequence[str], action: str
) -> Feedback:
    """Return the neighbors of an entity under one relation, a page of them; no observation without any.

    Args:
        arguments: the relation (`^r`: only facts that arrive at the entity), and the page, 1 if left out.
        action: how the next page is asked for.
    """
    kg, form = context.kg, arguments[0].strip().strip("'\"")
    direction: Direction = "backward" if form.startswith("^") else "both"
    relation = resolver.relation(form.removeprefix("^"))
    page = page_number(arguments[1]) if len(arguments) > 1 else 1
    result = kg.neighbours(entity, relation, direction)
    ends = list(dict.fromkeys(t.object if t.subject == entity else t.subject for t in result.triples))
    named = names(kg, ends[SHOWN_NEIGHBORS * (page - 1) : SHOWN_NEIGHBORS * page])
    given = (kg.profile.short(entity), ("^" if direction == "backward" else "") + kg.profile.short(relation))
    shown = ", ".join(with_id(kg, term, name) for term, name in named.items())
    if ends and not shown:
        shown = f"There are no more than {len(ends)}"
    elif len(ends) > SHOWN_NEIGHBORS * page:
        shown += f", ... ({len(ends)} in all: {action}({', '.join(given)}, {page + 1}) shows more)"
    return Feedback(
        arguments=(*given, *([str(page)] if page > 1 else [])),
        outcome=result.outcome,
        message=result.message,
        observation=f"{shown}." if shown and result.outcome.ok else "",
        ids={"neighbors": entity_ids(kg, result.triples)},
        triples=result.triples,
        detail=resolver.detail(),
    )


@action(
    Parameter("entity1", "entity", "the id of a task-relevant entity"),
    Parameter("entity2", "entity", "the id of another one"),
    _PAGE,
    example="get_path(Q30, Q25231)",
    aliases=("GetPath", "GetPaths", "get_paths", "getPath"),
)
def get_path(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the paths of a few triples each that link two entities, shortest first."""
    resolver, kg = Resolver(context), context.kg
    source, target = (resolver.entity(a) for a in arguments[:2])
    page = page_number(arguments[2]) if len(arguments) > 2 else 1
    if source == target:
        message = f"{arguments[0]} is both ends: get_path needs two entities"
        raise ActionError("same_entity", message, given=arguments[0])
    result = kg.paths(
        source, target, context.path_hops, timeout=context.path_seconds, limit=context.path_limit
    )
    triples = tuple(dict.fromkeys(hop.triple for path in result.paths for hop in path))
    shown = result.paths[SHOWN_PATHS * (page - 1) : SHOWN_PATHS * page]
    ends = short_ids(kg, (source, target))
    hops = [hop.triple for path in shown for hop in path]
    written = iter(triple_lines(kg, hops, len(hops)))
    lines = [", ".join(next(written) for _ in path) for path in shown]
    if left := len(result.paths[SHOWN_PATHS * page :]):
        lines.append(f"... and {left} more paths: get_path({', '.join(ends)}, {page + 1})")
    # What a search found before its time was over is worth showing, as what a cut answer is.
    outcome = Outcome.TRUNCATED if result.paths and result.outcome is Outcome.TIMEOUT else result.outcome
    if result.paths and result.message:
        lines.append(f"There may be more: {result.message}.")
    nothing = f"No path of up to {context.path_hops} hops joins the two."
    return Feedback(
        arguments=(*ends, *([str(page)] if page > 1 else [])),
        outcome=outcome,
        message=result.message,
        observation="\n".join(lines) or nothing if outcome.ok else "",
        ids={"neighbors": entity_ids(kg, triples)},
        triples=triples,
        detail=resolver.detail(),
    )


@action(
    Parameter("values", "value", "entity ids, names, a number, a date, true or false"),
    example="answer(Q1490)",
    variadic=True,
    aliases=("Answer",),
)
def answer(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Answer the question, once memory or observation holds what is needed."""
    kg, resolver = context.kg, Resolver(context)
    terms = {form: resolver.value_or_none(form) for form in arguments if form}
    if not terms:
        raise ActionError("no_answer", "give the answer in brackets, one value or several")
    named = names(kg, [t for t in terms.values() if t is not None])
    answers = [form.strip("'\"") if term is None else kg.profile.short(term) for form, term in terms.items()]
    shown = [form.strip("'\"") if term is None else named[term] for form, term in terms.items()]
    return Feedback(
        arguments=tuple(answers),
        observation=f"The answer is {', '.join(shown)}.",
        ids={"answer": short_ids(kg, [t for t in terms.values() if isinstance(t, IRI)])},
        answers=tuple(answers),
        finished=True,
        detail=resolver.detail(),
    )


EXPLORE = Toolset("explore", (search, get_neighbors, get_path, answer, unknown))
