"""What a graph holds: around an entity, around a question that found nothing, and as a whole."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal as OneOf, TypeAlias

from pydantic import BaseModel, Field

from triplewise.graphs.presets import find_preset
from triplewise.graphs.trace import whole_trace
from triplewise.nodes.context import Context
from triplewise.nodes.converse import Conversation
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import Answer, State
from triplewise.tools.actions import Toolset
from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError, TriplewiseError
from triplewise.tools.core.taught import keep
from triplewise.tools.core.terms import IRI, Literal, whole_number
from triplewise.tools.kg import KnowledgeGraph, vocabulary
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.language.lexicon import word_list
from triplewise.tools.linking.linker import exists, link
from triplewise.tools.linking.search import Match, class_name, node_types, search_kg
from triplewise.tools.parsing.follow_up import leans
from triplewise.tools.pyql.text import read_iri
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.surroundings import closest_relations, facts_by_relation

DESCRIBED, COUNT_SECONDS, HELD_SECONDS, LONGEST_NAME = 30, 5.0, 10.0, 80
"""Most relations of a description, seconds for counting an entity's facts and for looking what a graph holds
around a question, and characters of a name given."""
ENTITIES, HELD, VALUES, NEAR = 2, 8, 3, 3
"""Entities, relations of each, and values of these that are shown where nothing was found; near names."""

Side: TypeAlias = tuple[IRI, bool]  # A relation of an entity, and whether it leaves it


class Named(BaseModel):
    """An entity, relation or literal. The id of a literal is its value."""

    id: str
    label: str


class LinkedNode(Named):
    """The entity that a name was taken for. `others` are called so too."""

    description: str = ""
    types: tuple[str, ...] = ()
    others: tuple[Named, ...] = ()


class RelationFacts(Named):
    """A relation that leaves the entity (`out`) or arrives at it (`in`), with some of its values."""

    direction: OneOf["out", "in"]
    count: int | None = Field(None, description="Its facts about the entity; null if they are too many.")
    values: tuple[Named, ...] = ()


class EntityFacts(BaseModel):
    """Relations of an entity. `notice` says what was left out."""

    entity: LinkedNode
    relations: tuple[RelationFacts, ...]
    notice: str = ""


class Cure(BaseModel):
    """What may help a question that found nothing, and how it is done."""

    text: str
    command: str

    @classmethod
    def run(cls, text: str, *arguments: str) -> Cure:
        """Return a cure that is a command of `triplewise kg`."""
        return cls(text=text, command=shlex.join(["triplewise", "kg", *arguments]))


class Held(BaseModel):
    """What a graph holds around a question: no relation covers `words`, `near` is called like them."""

    words: str = ""
    entities: tuple[EntityFacts, ...] = ()
    near: tuple[Match, ...] = ()
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class ServedGraph:
    """A graph that is queried, opened; `settings` are those given (`context`) and the preset's."""

    context: Context
    settings: Context
    preset: str
    kg: KnowledgeGraph
    encoder: Encoder
    toolset: Toolset

    @classmethod
    def open(cls, preset: str, settings: Mapping[str, Any]) -> ServedGraph:
        """Open graph and model at once, to fail early: `UserError`, or `KGUnavailableError`."""
        context = Context(**settings)
        env = Environment(context.resolved(find_preset(preset).settings))
        env.deadline.restart(env.context.max_seconds)
        opened = cls(context, env.context, preset, env.kg, env.encoder, env.toolset)
        opened.probe(env.deadline)
        if not context.offline:
            _ = env.model
        return opened

    def probe(self, deadline: Deadline | None = None) -> None:
        """Ask the graph for any triple. Raises `KGUnavailableError` if it does not answer in time."""
        deadline = deadline or Deadline(self.settings.max_seconds)
        probe = self.kg.session(deadline=deadline).query("ASK { ?s ?p ?o }")
        if not probe.outcome.ok:
            raise KGUnavailableError(f"{self.kg.name}: {probe.message}")

    @property
    def source(self) -> str:
        """What the graph was opened by, "" for one that has no name."""
        return self.context.kg if isinstance(self.context.kg, str) else ""

    def held(self, state: State | Conversation) -> Held | None:
        """Return what the graph holds around a question that is not surely answered, and what may help."""
        answer, encoder = state.answer, self.encoder
        if answer is None or answer.status not in ("not_found", "unsure") or answer.sql:
            return None
        kg = self.kg.session(deadline=Deadline(min(HELD_SECONDS, self.settings.max_seconds)))
        content, words = _words_of(state, answer)
        shape, near, held = kg.profile, tuple[Match, ...](), list[EntityFacts]()
        naming = {shape.short(IRI(p)) for p in (*shape.label_predicates, *shape.type_predicates)}
        try:
            before = [value for turn in state.turns[:1] for value in turn.values]
            for entity_id in ([linked.id for linked in state.linked] or before)[:ENTITIES]:
                facts = facts_around(kg, encoder, entity_id, content or state.question, VALUES, HELD)
                shown = tuple(r for r in facts.relations if r.id not in naming)
                held += [facts.model_copy(update={"relations": shown, "notice": ""})] if shown else []
            if words and not held:
                near = tuple({m.id: m for m in search_kg(kg, words, encoder=encoder, limit=NEAR)}.values())
        except TriplewiseError:
            return None
        cures = tuple(self._cures(state, _read(state, answer, held), words))
        return Held(words=words, entities=tuple(held), near=near, cures=cures)

    def _cures(self, state: State | Conversation, facts: RelationFacts | None, words: str) -> Iterator[Cure]:
        """Give what may help: another name of a relation, an index of names, the schema, a seed question."""
        source, kg = self.source, self.kg
        if facts is not None and words and words in state.question:  # words that stand apart are no name
            option = ["--kg", source] if source and source != "demo" else []
            called = f'If "{facts.label}", or another of these, is what you call "{words}", add the name'
            yield Cure.run(called, "name", facts.label, words, *option)
        elif kg.is_remote and kg.index is None:
            yield Cure.run("Names are found in any spelling once they are indexed", "index", source)
        if source and not state.linked:
            yield Cure.run("See what the graph holds", "info", source)
        if state.linked and not (state.turns and leans(state.question)):  # a seed question stands alone
            line = {"question": state.question, "answers": ["..."], "entities": [state.linked[0].mention]}
            text = "Or write two such questions with answers as JSON lines, and ask with --seeds FILE"
            yield Cure(text=text, command=json.dumps(line, ensure_ascii=False))

    def document(self, state: State) -> dict[str, Any]:
        """Return an ended run as JSON, and what the graph holds where it gave no sure answer."""
        held = self.held(state)
        return whole_trace(state, self.kg.profile) | ({"held": held.model_dump()} if held is not None else {})


def _read(state: State | Conversation, answer: Answer, held: Iterable[EntityFacts]) -> RelationFacts | None:
    """Return the relation that the followed reading names; where nothing was found, else the first one."""
    followed = "".join(r.text for r in state.readings[state.attempt : state.attempt + 1])
    relations = [r for facts in held for r in facts.relations]
    read = [r for r in relations if f"-[{r.label}]-" in followed]
    return next(iter(read or (relations if answer.status == "not_found" else ())), None)


def _words_of(state: State | Conversation, answer: Answer) -> tuple[str, str]:
    """Return the words of a question that name no entity and are no stop words, and those not covered."""
    rest, named = state.question, " ".join(entity.mention for entity in state.linked).split()
    for entity in state.linked:
        rest = rest.replace(entity.mention, " ")
    empty = word_list("stop") | word_list("function")
    content = [w for w in re.findall(r"\w+", rest) if w.lower() not in empty]
    uncovered = next((r.uncovered for r in state.readings if r.uncovered), ())
    lost = [w for w in answer.unaccounted or uncovered if w.lower() not in empty]
    lost = lost or (content if answer.status == "not_found" else [])
    return " ".join(content), " ".join(w for w in lost if w not in named)


def find_entity(kg: KnowledgeGraph, text: str) -> tuple[IRI, LinkedNode]:
    """Return the entity of an id or a name. Raises `ConfigurationError` if there is none."""
    node, others = read_iri(text, kg.profile), tuple[Named, ...]()
    if node is None or not exists(kg, node):
        (linked,) = link(text, kg, {text: None})
        node = read_iri(linked.id, kg.profile)
        assert node is not None, "what is linked by its name is not a literal"
        others = tuple(Named(id=c.id, label=c.label) for c in linked.candidates if c.id != linked.id)
    id, label = kg.profile.short(node), vocabulary.node_labels(kg, [node])[node]
    about: Any = {"description": vocabulary.node_descriptions(kg, [node]).get(node, ""), "others": others}
    return node, LinkedNode(id=id, label=label, types=node_types(kg, [node]).get(node, ()), **about)


def facts_around(
    kg: KnowledgeGraph, encoder: Encoder, entity: str, about: str, values: int, most: int
) -> EntityFacts:
    """Return relations of an entity, nearest to the words `about` first. Raises as `find_entity`."""
    node, linked = find_entity(kg, entity)
    counts, is_a = _relation_counts(kg, node), list(map(IRI, kg.profile.type_predicates))
    if linked.label == linked.id and any((kind, False) in counts for kind in is_a):
        linked = linked.model_copy(update={"label": class_name(node)})
    sides = closest_relations(kg, about, list(counts), encoder, most) if about else list(counts)[:most]
    facts = facts_by_relation(kg, node, sides, values)
    # What an entity is called; a mediator, by what it holds.
    names: dict[Side, dict[str, list[str]]] = {side: {} for side in sides}
    labels = vocabulary.triple_labels(kg, [fact.triple for fact in facts], exact=False)
    for fact, (subject, relation, obj) in zip(facts, labels, strict=True):
        hop = fact.through or fact.triple
        out = hop.subject == node
        end, name = (hop.object, obj) if out else (hop.subject, subject)
        id = end.value if isinstance(end, Literal) else kg.profile.short(end)
        name = class_name(hop.object) if name == id and out and hop.relation in is_a else name
        name = f"{relation}: {obj}" if fact.through else name
        names[hop.relation, out].setdefault(id, []).append(name)
    texts = vocabulary.relation_texts(kg, [kg.profile.short(relation) for relation, _ in sides])
    relations = []
    for (iri, out), ends in names.items():
        shown = tuple(Named(id=end, label="; ".join(parts)) for end, parts in ends.items())
        id, direction = kg.profile.short(iri), "out" if out else "in"
        about_it: Any = {"direction": direction, "count": counts[iri, out], "values": shown}
        relations.append(RelationFacts(id=id, label=texts[id].label, **about_it))
    left = len(counts) - len(sides)
    notice = f"{left} more relations: say what it is `about`" if left else ""
    notice = "; ".join(filter(None, (notice, kg.silence)))
    return EntityFacts(entity=linked, relations=tuple(relations), notice=notice)


def _relation_counts(kg: KnowledgeGraph, node: IRI) -> dict[Side, int | None]:
    """Return how many facts an entity has by each relation, outgoing ones first; None if unknown."""
    n = node.n3()
    result = kg.query(
        f"SELECT ?p ?out (COUNT(*) AS ?n) WHERE {{ {{ {n} ?p ?x BIND(1 AS ?out) }} UNION "
        f"{{ ?x ?p {n} BIND(0 AS ?out) }} }} GROUP BY ?p ?out ORDER BY DESC(?out) ?p",
        timeout=min(COUNT_SECONDS, kg.timeout),
    )
    if not result.outcome.ok:
        around = kg.relations(node)
        return dict.fromkeys([*((r, True) for r in around.forward), *((r, False) for r in around.backward)])
    return {
        (relation, whole_number(out) == 1): whole_number(number)
        for relation, out, number in result.rows
        if isinstance(relation, IRI) and not kg.profile.excludes(relation)
    }


def name_relation(kg: KnowledgeGraph, source: str, relation: str, name: str) -> tuple[str, Path]:
    """Give a relation (by id or only name) another name; return id and file. Raises `ConfigurationError`."""
    named, name = search_kg(kg, relation, {"relation"}), " ".join(name.split())
    called = [match.id for match in named if match.label == relation]
    iri = kg.profile.expand(called[0] if len(called) == 1 else relation, relation=True)
    if not name or len(name) > LONGEST_NAME:
        raise ConfigurationError(f"a name needs 1 to {LONGEST_NAME} characters, got {len(name):,}")
    if iri is None or not kg.query(f"ASK {{ ?s {iri.n3()} ?o }}").boolean:
        raise ConfigurationError(f"the graph has no relation {relation!r}; see `triplewise kg info`")
    place = keep("names", source, relation=kg.profile.short(iri), name=name)
    vocabulary.add_name(kg, kg.profile.short(iri), name)
    return kg.profile.short(iri), place
