"""SymAgent's actions: rules, neighbours under a relation, documents, finish (section 4.2.1, figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

from triplewise.tools.actions import explore
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import Resolver, names, short_ids, triple_lines
from triplewise.tools.actions.toolset import ActionContext, Feedback, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import one_line
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.vocabulary import relation_names
from triplewise.tools.overlay.overlay import overlaid

RuleService: TypeAlias = Callable[[str], Sequence[str]]
"""`services["rules"]`: a sub-question -> rules as text, best first."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What documents say about an entity and a relation: passages, best first, and facts read from them."""

    passages: tuple[str, ...]
    facts: tuple[ExtractedFact, ...] = ()
    reasons: tuple[str, ...] = ()  # why there are no more facts, in words


ExtractService: TypeAlias = Callable[[str, str], Extraction]
"""`services["extract"]`: id or name of an entity, id of a relation -> what documents say (extractTriples)."""

PathStep = Annotated[str, "relation", "a relation of a reasoning path; ^r walks it from object to subject"]
SHOWN_RELATIONS = 8  # Relations of either direction that are named where the one that was meant leads nowhere
SHOWN_PASSAGES, SHOWN_CHARACTERS = 5, 3_000  # Passages, and characters of them, in an observation


@action(
    "get_rules(who directed the films of Tom Hanks)", "getReasoningPath", "getRules", "get_reasoning_path"
)
def get_rules(
    context: ActionContext,
    *sub_question: Annotated[str, "text", "the question, or an entity and what is asked of it"],
) -> Feedback:
    """Retrieve relational reasoning paths to answer a sub-question: a plan to follow."""
    question = ", ".join(sub_question).strip("'\"")
    service: RuleService | None = context.services.get("rules")
    rules = list(service(question)) if service else []
    text = "No reasoning path is known for this. Search the neighbors of an entity under a relation."
    if rules:
        text = f"Surrounding relational reasoning paths are: {'; '.join(rules)}."
    if len(rules) > 1:
        text += " There are multiple paths, maybe you should select one most potential path."
    return Feedback(arguments=(question,), outcome=Outcome.ROWS if rules else Outcome.EMPTY, observation=text)


@action("search_neighbor(Q1490, P36)", "searchNeighbor", "searchNeighbors", "search_neighbors")
def search_neighbor(
    context: ActionContext,
    entity: Annotated[str, "entity", "the id or name of an entity"],
    relation: PathStep,
    page: explore.Page = "",
) -> Feedback:
    """Search the neighbors of an entity under a relation in the knowledge graph."""
    resolver, kg = Resolver(context), context.kg
    try:
        node = resolver.entity(entity)
    except ActionError as error:  # documents name entities that no action has shown (figure 7, action 4)
        is_unknown = error.code == "unknown_entity"
        named = [entry.iri for entry in kg.names.exact(entity.strip("'\""))] if is_unknown else []
        if not named:
            raise
        node, resolver.repaired[entity] = named[0], kg.profile.short(named[0])
    feedback = explore.neighbours_under(resolver, node, relation, page, "search_neighbor")
    if feedback.outcome != Outcome.EMPTY:
        return feedback
    around = kg.relations(node)
    sides = context.rank(short_ids(kg, around.forward), short_ids(kg, around.backward))
    forward, backward = (relation_names(kg, side[:SHOWN_RELATIONS]) for side in sides)
    listed = ", ".join([*forward, *(f"^{name}" for name in backward)])
    there = f" Its relations are {listed}." if listed else ""
    # As figure 7 words it (observation 2).
    documents = " or go to invoke wiki_search to retrieve relevant documents"
    documents = documents if "extract" in context.services else ""
    text = "No entity found under this relation in the knowledge graph. You can keep searching on graph"
    return replace(feedback, observation=f"{text}{documents}.{there}")


@action("wiki_search(Q1490, P36)", "wikiSearch", "searchWiki", "search_wiki")
def wiki_search(
    context: ActionContext,
    entity: Annotated[str, "entity", "the id or name of an entity"],
    relation: Annotated[str, "relation", "the relation that is missing"],
) -> Feedback:
    """Search documents about an entity and a relation if the knowledge graph has no relevant result.
    Relevant triples are extracted from them and found by later searches.
    """
    resolver, kg = Resolver(context), context.kg
    node = resolver.value_or_none(entity)
    name = entity.strip("'\"") if node is None else names(kg, [node])[node]
    with suppress(ActionError):  # documents may know a relation that the graph does not
        resolver.relation(relation)
    given = (name if node is None else kg.profile.short(node), resolver.shown(relation).strip("'\""))
    service: ExtractService | None = context.services.get("extract")
    if service is None:
        observation = "No documents are configured: only the knowledge graph can be searched."
        return Feedback(arguments=given, outcome=Outcome.EMPTY, observation=observation)
    extraction = service(*given)
    triples = tuple(f.triple for f in extraction.facts)
    outcome = Outcome.ROWS if extraction.passages else Outcome.EMPTY
    text = _passages_text(context, name, extraction)
    ids = {"neighbors": explore.entity_ids(kg, triples)} if triples else {}
    return Feedback(
        arguments=given, outcome=outcome, observation=text, ids=ids, triples=triples,
        detail=resolver.detail(), facts=extraction.facts,
    )  # fmt: skip


def _passages_text(context: ActionContext, name: str, extraction: Extraction) -> str:
    """Passages and the facts read from them, as figure 7 words it (observation 3)."""
    why = f" ({extraction.reasons[0]})" if extraction.reasons else ""
    if not extraction.passages:
        return f"No document about {name} was found{why}."
    passages = " ; ".join(map(one_line, extraction.passages[:SHOWN_PASSAGES]))[:SHOWN_CHARACTERS]
    text = f"By searching, {name}'s relevant documents are {passages} You should extract relevant factual "
    text += f"triples about {name} to answer the question. "
    if not extraction.facts:
        return f"{text}No triple of this relation could be extracted{why}."
    kg, triples = overlaid(context.kg, extraction.facts), [f.triple for f in extraction.facts]
    lines = triple_lines(kg, triples, explore.SHOWN_NEIGHBORS)
    pairs = zip(extraction.facts, lines, strict=False)  # more facts than lines, where there are very many
    doubts = [f"{line} contradicts {'; '.join(fact.conflicts)}" for fact, line in pairs if fact.conflicts]
    doubted = f" But {'; '.join(doubts)}." if doubts else ""
    return f"{text}The triples extracted are {', '.join(lines)}.{doubted}"


@action("finish(Q1490)", "Finish")
def finish(
    context: ActionContext,
    *entities: Annotated[str, "value", f"ids or names of the answers; {explore.ALL_VALUES}"],
) -> Feedback:
    """Conclude with the final answers."""
    if not any(entities):
        raise ActionError("no_answer", "finish needs the answer: finish(entity1, entity2, ...)")
    return explore.answer.run(context, *entities)


SYMBOLIC = Toolset("symbolic", (search, get_rules, search_neighbor, wiki_search, finish, unknown))
