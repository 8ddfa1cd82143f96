"""ODA's actions: neighbour exploration, path discovery, answer (section 2.2, table 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, names, page_number, short_ids, triple_lines, with_id
from triplewise.tools.actions.toolset import ActionContext, Feedback, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.path_queries import find_paths
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, topics_of, within

VALUES, CHARACTERS = 10, 4_000  # Values shown of a relation; characters of all relations around entities
SHOWN_NEIGHBORS, SHOWN_PATHS = 50, 20  # Neighbors under one relation on a page, and paths that are shown
HOPS, PATHS = 3, 100  # Triples of a path, and paths that are looked for
DIRECTIONS: Sequence[Direction] = ("forward", "backward")
ALL_VALUES = "or entity, relation, all: all values of that relation"
OneRelation = Annotated[str, "relation", "one relation only, all of it; ^r for what points to the entity"]
Page = Annotated[str, "text", "2, 3, ... to see what the first page left out"]


def neighbour_lines(
    kg: KnowledgeGraph,
    triples: Sequence[Triple],
    topics: Sequence[str],
    rank: Callable[[list[str]], list[str]],
) -> list[str]:
    """Return triples by the entity that they are about and by relation, those that fit the question first.

    `topics`: short ids of the entities. `rank`: relation ids -> the same, best first; it may leave some out.
    """
    short = kg.profile.short
    ranked = rank(list(dict.fromkeys(short(t.relation) for t in triples)))
    place = {relation: i for i, relation in enumerate(ranked)}
    facts = [NearbyFact(t) for t in sorted(triples, key=lambda t: place.get(short(t.relation), len(place)))]
    return within(kg, grouped_lines(kg, facts, topics_of(kg, facts, topics), VALUES), CHARACTERS)


@action("get_neighbors(Q1490)", "GetNeighbor", "GetNeighbors", "get_neighbor", "getNeighbor", "getNeighbors")
def get_neighbors(
    context: ActionContext,
    entity: Annotated[str, "entity", "the id of a task-relevant entity"],
    relation: OneRelation = "",
    page: Page = "",
) -> Feedback:
    """Get the triples around an entity, by relation: -> r leaves the entity, <- r arrives at it."""
    resolver, kg = Resolver(context), context.kg
    node = resolver.entity(entity)
    if relation:
        feedback = neighbours_under(resolver, node, relation, page, "get_neighbors")
        nothing = "This entity has no such neighbors." if feedback.outcome == Outcome.EMPTY else ""
        return replace(feedback, observation=nothing or feedback.observation)
    result = kg.neighbours(node)
    triples, id = result.triples, kg.profile.short(node)
    lines = neighbour_lines(kg, triples, [id], lambda relations: context.rank(relations, [])[0])
    if lines and lines[-1].startswith("..."):
        lines[-1] += f": get_neighbors({id}, RELATION) shows one relation"
    return Feedback(
        arguments=(id,),
        outcome=result.outcome,
        message=result.message,
        observation="\n".join(lines) or "This entity has no neighbors.",
        relations={
            "forward": short_ids(kg, dict.fromkeys(t.relation for t in triples if t.subject == node)),
            "backward": short_ids(kg, dict.fromkeys(t.relation for t in triples if t.object == node)),
        },
        ids={"neighbors": entity_ids(kg, triples)},
        triples=triples,
        detail=resolver.detail(),
    )


def entity_ids(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[str]:
    """Short ids of all entities in some triples."""
    ends = (end for t in triples for end in (t.subject, t.object) if isinstance(end, IRI))
    return short_ids(kg, dict.fromkeys(ends))


def neighbours_under(resolver: Resolver, entity: Term, form: str, page: str, action: str) -> Feedback:
    """Return the neighbors of an entity under one relation, a page of them; no observation without any.

    `form`: the relation; `^r` takes only facts that arrive at the entity. `action` asks for the next page.
    """
    kg, form = resolver.context.kg, form.strip().strip("'\"")
    direction: Direction = "backward" if form.startswith("^") else "both"
    relation, n = resolver.relation(form.removeprefix("^")), page_number(page)
    result = kg.neighbours(entity, relation, direction)
    ends = list(dict.fromkeys(t.object if t.subject == entity else t.subject for t in result.triples))
    named = names(kg, ends[SHOWN_NEIGHBORS * (n - 1) : SHOWN_NEIGHBORS * n])
    given = (kg.profile.short(entity), ("^" if direction == "backward" else "") + kg.profile.short(relation))
    shown = ", ".join(with_id(kg, term, name) for term, name in named.items())
    if ends and not shown:
        shown = f"There are no more than {len(ends)}"
    elif len(ends) > SHOWN_NEIGHBORS * n:
        shown += f", ... ({len(ends)} in all: {action}({', '.join(given)}, {n + 1}) shows more)"
    return Feedback(
        arguments=(*given, *([str(n)] if n > 1 else [])), outcome=result.outcome, message=result.message,
        observation=f"{shown}." if shown else "", ids={"neighbors": entity_ids(kg, result.triples)},
        triples=result.triples, detail=resolver.detail(),
    )  # fmt: skip


@action("get_path(Q30, Q25231)", "GetPath", "GetPaths", "get_paths", "getPath")
def get_path(
    context: ActionContext,
    entity1: Annotated[str, "entity", "the id of a task-relevant entity"],
    entity2: Annotated[str, "entity", "the id of another one"],
) -> Feedback:
    """Get the paths of a few triples each that link two entities, shortest first."""
    resolver, kg = Resolver(context), context.kg
    source, target = resolver.entity(entity1), resolver.entity(entity2)
    if source == target:
        message = f"{entity1} is both ends: get_path needs two entities"
        raise ActionError("same_entity", message, given=entity1)
    result = find_paths(kg, source, target, HOPS, PATHS)
    triples = tuple(dict.fromkeys(hop.triple for path in result.paths for hop in path))
    ends, hops = short_ids(kg, (source, target)), [[hop.triple for hop in path] for path in result.paths]
    flat = [triple for path in hops[:SHOWN_PATHS] for triple in path]
    written = iter(triple_lines(kg, flat, len(flat)))
    lines = [", ".join(next(written) for _ in path) for path in hops[:SHOWN_PATHS]]
    lines += [f"... and {len(hops) - SHOWN_PATHS} more paths"] if len(hops) > SHOWN_PATHS else []
    # What a search found before its time was over is worth showing, as what a cut answer is.
    outcome = Outcome.TRUNCATED if hops and result.outcome is Outcome.TIMEOUT else result.outcome
    if hops and result.message:
        lines.append(f"There may be more: {result.message}.")
    return Feedback(
        arguments=tuple(ends),
        outcome=outcome,
        message=result.message,
        observation="\n".join(lines) or f"No path of up to {HOPS} hops joins the two.",
        ids={"neighbors": entity_ids(kg, triples)},
        triples=triples,
        detail=resolver.detail(),
    )


@action("answer(Q1490)", "Answer")
def answer(
    context: ActionContext,
    *values: Annotated[str, "value", f"entity ids, names, a number, a date, true or false; {ALL_VALUES}"],
) -> Feedback:
    """Answer the question, once memory or observation holds what is needed."""
    kg, resolver, triples = context.kg, Resolver(context), tuple[Triple, ...]()
    if len(values) == 3 and values[2].strip("'\" ").lower() == "all":
        triples, ends = _all_values(resolver, *values[:2])
        terms: dict[str, Term | None] = {kg.profile.short(end): end for end in ends}
    else:
        terms = {form: resolver.value_or_none(form) for form in values if form}
    if not terms:
        raise ActionError("no_answer", "give the answer in brackets, one value or several")
    named, bare = names(kg, terms.values()), {form: form.strip("'\"") for form in terms}
    answers = tuple(bare[form] if term is None else kg.profile.short(term) for form, term in terms.items())
    shown = [bare[form] if term is None else named[term] for form, term in terms.items()]
    return Feedback(
        arguments=answers,
        observation=f"The answer is {', '.join(shown)}.",
        ids={"answer": short_ids(kg, [t for t in terms.values() if isinstance(t, IRI)])},
        triples=triples,
        answers=answers,
        finished=True,
        detail=resolver.detail(),
    )


def _all_values(resolver: Resolver, entity: str, form: str) -> tuple[tuple[Triple, ...], list[Term]]:
    """Return an entity's facts under a relation, with their other ends: what arrives only if none leave."""
    kg = resolver.context.kg
    node, name = resolver.entity(entity), form.strip("'\" ")
    relation = resolver.relation(name.removeprefix("^"))
    for direction in DIRECTIONS[name.startswith("^") :]:
        result = kg.neighbours(node, relation, direction)
        if result.triples:
            ends = (t.object if direction == "forward" else t.subject for t in result.triples)
            return result.triples, list(dict.fromkeys(ends))
    message = f"{kg.profile.short(node)} has no values of {kg.profile.short(relation)}"
    raise ActionError("no_answer", message, given=entity)


EXPLORE = Toolset("explore", (search, get_neighbors, get_path, answer, unknown))
