"""ODA's actions: neighbour exploration, path discovery, answer (section 2.2, table 7)."""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.actions.refusal import unknown
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, names, short_ids, triple_lines
from triplewise.tools.actions.toolset import ActionContext, Parameter, Toolset, action
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Triple
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome

SHOWN_TRIPLES = 50
SHOWN_PATHS = 20

_ENTITY = Parameter("entity", "entity", "the id of a task-relevant entity")


@action(
    _ENTITY,
    example="get_neighbors(Q1490)",
    aliases=("GetNeighbor", "GetNeighbors", "get_neighbor", "getNeighbor", "getNeighbors"),
)
def get_neighbors(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the triples that contain an entity, each with the labels and ids of both ends."""
    resolver, kg = Resolver(context), context.kg
    entity = resolver.entity(arguments[0])
    result = kg.neighbours(entity)
    triples = result.triples
    lines = triple_lines(kg, triples, SHOWN_TRIPLES)
    return Feedback(
        arguments=(kg.profile.short(entity),),
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


@action(
    Parameter("entity1", "entity", "the id of a task-relevant entity"),
    Parameter("entity2", "entity", "the id of another one"),
    example="get_path(Q30, Q25231)",
    aliases=("GetPath", "GetPaths", "get_paths", "getPath"),
)
def get_path(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the paths of a few triples each that link two entities, shortest first."""
    resolver, kg = Resolver(context), context.kg
    source, target = (resolver.entity(a) for a in arguments)
    if source == target:
        raise ActionError(
            "same_entity", f"{arguments[0]} is both ends: get_path needs two entities", given=arguments[0]
        )
    result = kg.paths(
        source, target, context.path_hops, timeout=context.path_seconds, limit=context.path_limit
    )
    triples = tuple(dict.fromkeys(hop.triple for path in result.paths for hop in path))
    shown = result.paths[:SHOWN_PATHS]
    hops = [hop.triple for path in shown for hop in path]
    written = iter(triple_lines(kg, hops, len(hops)))
    lines = [", ".join(next(written) for _ in path) for path in shown]
    if len(result.paths) > len(shown):
        lines.append(f"... and {len(result.paths) - len(shown)} more paths")
    # What a search found before its time was over is worth showing, as what a cut answer is.
    outcome = Outcome.TRUNCATED if result.paths and result.outcome is Outcome.TIMEOUT else result.outcome
    if result.paths and result.message:
        lines.append(f"There may be more: {result.message}.")
    nothing = f"No path of up to {context.path_hops} hops joins the two."
    return Feedback(
        arguments=tuple(short_ids(kg, (source, target))),
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
    """Answer the question, once memory holds what is needed."""
    kg, resolver = context.kg, Resolver(context)
    given = dict.fromkeys(a for a in arguments if a)
    if not given:
        raise ActionError("no_answer", "give the answer in brackets, one value or several")
    terms = {form: resolver.value_or_none(form) for form in given}
    named = names(kg, [t for t in terms.values() if t is not None])
    answers = [form.strip("'\"") if term is None else kg.profile.short(term) for form, term in terms.items()]
    shown = [form.strip("'\"") if term is None else named[term] for form, term in terms.items()]
    iris = [t for t in terms.values() if not isinstance(t, Literal) and t is not None]
    return Feedback(
        arguments=tuple(answers),
        observation=f"The answer is {', '.join(shown)}.",
        values={},
        ids={"answer": short_ids(kg, iris)},
        answers=tuple(answers),
        finished=True,
        detail=resolver.detail(),
    )


EXPLORE = Toolset(
    "explore",
    (
        search,
        get_neighbors,
        get_path,
        answer,
        unknown,
    ),
)
