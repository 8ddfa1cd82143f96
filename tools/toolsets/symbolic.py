"""SymAgent's actions: rules, neighbours under a relation, documents, finish (section 4.2.1, figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from triplewise.tools.errors import ActionError
from triplewise.tools.kg.base import Outcome
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.kg.terms import IRI, Term
from triplewise.tools.pyql.text import read_relation
from triplewise.tools.toolsets.base import Action, Feedback, Parameter, Workbench
from triplewise.tools.toolsets.explore import answer, entity_ids
from triplewise.tools.toolsets.resolve import Resolver
from triplewise.tools.toolsets.show import names
from triplewise.tools.toolsets.toolset import Toolset

RuleService: TypeAlias = Callable[[str], Sequence[str]]
"""`services["rules"]`: a sub-question -> rules as text, best first."""

DocumentService: TypeAlias = Callable[[str, str], Sequence[str]]
"""`services["documents"]`: name of an entity, text of a relation -> passages, best first."""

SHOWN_NEIGHBORS = 50
NOTHING_FOUND = (
    "No entity found under this relation in the knowledge graph. You can keep searching on graph or go to "
    "invoke wiki_search to retrieve relevant documents. You can also just answer if you think you can based "
    "on the information available and your knowledge."
)


def _get_rules(bench: Workbench, arguments: tuple[str, ...]) -> Feedback:
    """Rules that may answer a sub-question (equation 3)."""
    question = ", ".join(arguments).strip("'\"")
    service: RuleService | None = bench.services.get("rules")
    rules = list(service(question)) if service else []
    if not rules:
        said = "No reasoning path is known for this. Search the neighbors of an entity under a relation."
        return Feedback(arguments=(question,), outcome=Outcome.EMPTY, observation=said, program=bench.program)
    listed = "; ".join(rules)
    said = f"Surrounding relational reasoning paths are: {listed}." + (
        " There are multiple paths, maybe you should select one most potential path."
        if len(rules) > 1
        else ""
    )
    return Feedback(arguments=(question,), outcome=Outcome.ROWS, observation=said, program=bench.program)


def _search_neighbor(bench: Workbench, arguments: tuple[str, ...]) -> Feedback:
    """The nodes that a relation joins with an entity, in either direction."""
    resolver, kg = Resolver(bench), bench.kg
    entity = _entity(bench, resolver, arguments[0])
    relation = read_relation(resolver.relation(arguments[1]), kg.profile)
    found = kg.neighbours(entity, relation)
    ends = dict.fromkeys(t.object if t.subject == entity else t.subject for t in found.triples)
    named = names(kg, list(ends)[:SHOWN_NEIGHBORS])
    shown = [_with_id(bench, term, name) for term, name in named.items()]
    more = f", ... and {len(ends) - len(shown)} more" if len(ends) > len(shown) else ""
    text = f"{', '.join(shown)}{more}." if shown else NOTHING_FOUND
    return Feedback(
        arguments=(kg.profile.short(entity), kg.profile.short(relation)),
        outcome=found.outcome,
        message=found.message,
        observation=text if found.outcome.ok else found.message,
        program=bench.program,
        ids={"neighbors": entity_ids(kg, found.triples)},
        triples=found.triples,
        detail=resolver.detail(),
    )


def _entity(bench: Workbench, resolver: Resolver, form: str) -> Term:
    """An entity by id or by name: documents name entities that no action has shown (figure 7, action 4)."""
    try:
        return resolver.entity(form)
    except ActionError as error:
        index = bench.kg.index
        found = index.exact(form.strip("'\"")) if index is not None and error.code == "unknown_entity" else ()
        known = list(dict.fromkeys(e.iri for e in sorted(found, key=lambda e: (e.alias, -e.popularity))))
        if not known:
            raise
        resolver.repaired[form] = bench.kg.profile.short(known[0])
        return known[0]


def _with_id(bench: Workbench, term: object, name: str) -> str:
    """A name, with the id that the next search needs where it differs."""
    short = bench.kg.profile.short(term) if isinstance(term, IRI) else name
    return name if short == name else f"{name} [{short}]"


def _wiki_search(bench: Workbench, arguments: tuple[str, ...]) -> Feedback:
    """Passages about an entity and a relation; triples are read from them by whoever owns the documents."""
    resolver, kg = Resolver(bench), bench.kg
    entity = resolver.value_or_none(arguments[0])
    name = arguments[0].strip("'\"") if entity is None else names(kg, [entity])[entity]
    relation = resolver.relation(arguments[1])
    service: DocumentService | None = bench.services.get("documents")
    if service is None:
        said = "No documents are configured: only the knowledge graph can be searched."
        return Feedback(
            arguments=(arguments[0], relation), outcome=Outcome.EMPTY, observation=said, program=bench.program
        )
    text = relation_texts(kg, [relation])[relation].label
    passages = list(service(name, text))
    found = (
        f"By searching, {name}'s relevant documents are {' ; '.join(passages)} You should extract the facts "
        f"about {name} that help to answer the question."
    )
    return Feedback(
        arguments=(arguments[0] if entity is None else kg.profile.short(entity), relation),
        outcome=Outcome.ROWS if passages else Outcome.EMPTY,
        observation=found if passages else f"No document about {name} was found.",
        program=bench.program,
        detail=resolver.detail(),
    )


def _finish(bench: Workbench, arguments: tuple[str, ...]) -> Feedback:
    """End with the answer entities; `finish()` says that nothing was found."""
    if not any(arguments):
        raise ActionError("no_answer", "finish needs the answer: finish(entity1, entity2, ...)")
    return answer(bench, arguments)


SYMBOLIC = Toolset.of(
    "symbolic",
    (
        Action(
            "get_rules",
            "Retrieve relational reasoning paths to answer a sub-question. Use this first, to plan.",
            (Parameter("sub_question", "text", "the question, or an entity and what is asked of it"),),
            _get_rules,
            "get_rules(who directed the films of Tom Hanks)",
            variadic=True,
            aliases=("getReasoningPath", "getRules", "get_reasoning_path"),
        ),
        Action(
            "search_neighbor",
            "Search the neighbors of an entity under a relation in the knowledge graph.",
            (
                Parameter("entity", "entity", "the id or name of an entity"),
                Parameter("relation", "relation", "a relation of a reasoning path"),
            ),
            _search_neighbor,
            "search_neighbor(Q1490, P36)",
            aliases=("searchNeighbor", "searchNeighbors", "search_neighbors"),
        ),
        Action(
            "wiki_search",
            "Search documents about an entity and a relation if the knowledge graph has no relevant result.",
            (
                Parameter("entity", "entity", "the id or name of an entity"),
                Parameter("relation", "relation", "the relation that is missing"),
            ),
            _wiki_search,
            "wiki_search(Q1490, P36)",
            aliases=("wikiSearch", "searchWiki", "search_wiki"),
        ),
        Action(
            "finish",
            "Conclude with the final answers.",
            (Parameter("entities", "value", "ids or names of the answers"),),
            _finish,
            "finish(Q1490)",
            variadic=True,
            finishes=True,
            aliases=("Finish",),
        ),
    ),
)
