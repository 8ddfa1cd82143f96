"""The schema card: classes and relations with their names, where they lead, who has them, and a value.

Of a graph it is what `triplewise kg info`, MCP and REST show (`SchemaCard`), made from the parser's index. Of
some nodes, such as the members of a class, it is what a language model is shown (`LocalCard`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, RDF, XSD, Term, Triple, whole_number
from triplewise.tools.kg.infer import ENGINE_SPACES
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.protocol import Hop, KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes, relation_texts, remembered
from triplewise.tools.language.lexicon import lexicon, word_list
from triplewise.tools.language.text import singular, tokenise, tokens
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.linking.search import classes_of
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.relations import Relation
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import write_iri, write_node
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.surroundings import NearbyFact, closest_relations

SAMPLES, ENDS, NAMES = 3, 3, 5  # values, classes at either end, and names that a line shows of a relation
SAMPLED, SAMPLED_RELATIONS = 2_000, 40  # facts of a large graph that are read, and relations of them
MEMBERS, FEW, SECONDS = 500, 25, 4.0  # members looked at; over a distance; seconds of a look
RARE = 0.05  # share of members below which a relation is rare
CLASSES, SPAN = 3, 3  # classes of a question, and words of a class's name
# Not the IRI of a datatype, which some graphs hold in place of a value.
_IS_VALUE = f"!(isIRI(?_y) && (STRSTARTS(STR(?_y), '{XSD}') || ?_y = <{RDF}langString>))"
COMPARED, ALIKE = 200, 0.58  # classes of a graph up to which nouns are compared by meaning; the least cosine


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the members of a class take part in a relation: `height (1 of 21)`."""

    name: str
    count: int
    of: int

    def __str__(self) -> str:
        return self.name if self.count == self.of else f"{self.name} ({self.count:,} of {self.of:,})"


@dataclass(frozen=True, slots=True)
class ClassCard:
    """A class: its id, names, best first, how many members it has, and one of them as an action takes it."""

    id: str
    names: tuple[str, ...]
    members: int
    sample: str = ""

    def __str__(self) -> str:
        return f"{self.id} {_names(self.names)}: {self.members:,}".strip()


@dataclass(frozen=True, slots=True)
class RelationCard:
    """A relation, or two that a mediator joins.

    Attributes:
        id: as an action takes it; `a / b` for two, with `^` before what is walked backwards.
        names, inverse: from subject to object, and back, best first. facts: how many it has.
        kind: of its values: entity, number, date, boolean or string. unit: of numbers, where a name says it.
        domains, ranges: classes of subjects and of entities at the other end.
        samples: some values in the form that an action takes (`"1999-01-01"^^xsd:date`).
        shown: the same as people read them.
    """

    id: str
    names: tuple[str, ...]
    facts: int
    inverse: tuple[str, ...] = ()
    kind: str = ""
    unit: str = ""
    domains: tuple[Share, ...] = ()
    ranges: tuple[Share, ...] = ()
    samples: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.kind:  # of a sample
            return f"{self.id} {_names(self.names)}: {self.facts:,}"
        leads = ", ".join(share.name for share in self.ranges) if self.kind == "entity" else self.kind
        ends = f"{', '.join(map(str, self.domains)) or 'anything'} -> {leads or 'anything'}"
        unit = f" in {self.unit}" if self.unit else ""
        back = f"; backwards: {', '.join(self.inverse)}" if self.inverse else ""
        values = f"; e.g. {', '.join(self.shown)}" if self.shown else ""
        return f"{self.id} {_names(self.names)}: {ends}{unit}, {self.facts:,}{back}{values}"


@dataclass(frozen=True, slots=True)
class SchemaCard:
    """Classes and relations, those with the most members and facts first; `is_whole`: not of a sample."""

    graph: str
    classes: tuple[ClassCard, ...]
    relations: tuple[RelationCard, ...]
    is_whole: bool = True

    @classmethod
    def of(cls, kg: KnowledgeGraph, encoder: Encoder) -> SchemaCard:
        """The card of a KG; of one too large to be read whole, the relations of a sample of its facts."""
        if (index := GraphIndex.whole(kg, encoder)) is None:
            return cls(kg.name, (), tuple(_sampled(kg)), is_whole=False)
        classes = list[ClassCard]()
        for c, of in enumerate(index.classes):
            if of.real and of.iri is not None:
                members, iri = index.members(c), write_iri(of.iri, index.profile)
                sample = next((write_node(index.terms[i], index.profile) for i in members), "")
                classes.append(ClassCard(iri, of.names, len(members), sample))
        classes.sort(key=lambda card: (-card.members, card.names))
        relations = (_relation_card(index, relation) for relation in index.rels)
        ordered = tuple(sorted(relations, key=lambda card: (-card.facts, card.id)))
        return cls(kg.name, tuple(classes), ordered)

    def text(self, most: int = 100) -> str:
        """The card in lines, at most so many classes and so many relations."""
        titles = {"Classes, with their members": self.classes, "Relations, with their facts": self.relations}
        if not self.is_whole:
            titles = {f"Relations, with their facts among {SAMPLED:,} of the graph": self.relations}
        lines: list[str] = []
        for title, cards in titles.items():
            lines.append(f"{title}:" if cards else f"No {title.partition(',')[0].lower()}.")
            lines += [f"  {card}" for card in cards[:most]]
            lines += [f"  and {len(cards) - most:,} more"] if len(cards) > most else []
        return "\n".join(lines)


def _names(names: tuple[str, ...]) -> str:
    return f"{names[0]} ({', '.join(names[1:NAMES])})" if len(names) > 1 else names[0]


def _relation_card(index: GraphIndex, relation: Relation) -> RelationCard:
    subjects, objects = np.unique(relation.starts).tolist(), np.unique(relation.ends).tolist()
    measured = relation.names if relation.kind == "number" else ()
    words = [word for name in measured for word in name.partition(" per ")[0].split()]
    values = objects[:: max(1, len(objects) // SAMPLES)][:SAMPLES]
    steps = ((write_iri(iri, index.profile), forward) for iri, forward in relation.path)
    return RelationCard(
        " / ".join(f"{'' if forward else '^'}{iri}" for iri, forward in steps),
        tuple(relation.names), len(relation.starts), tuple(relation.inverse), relation.kind,
        next((word for word in words if word in lexicon().units), ""),
        _shares(index, subjects), _shares(index, objects) if relation.kind == "entity" else (),
        tuple(write_node(index.terms[i], index.profile) for i in values),
        tuple(index.label(i) if isinstance(t := index.terms[i], IRI) else readable(t) for i in values),
    )  # fmt: skip


def _shares(index: GraphIndex, nodes: Iterable[int]) -> tuple[Share, ...]:
    """The classes of some nodes, the largest first; those that relations imply where the graph names none."""
    counts = Counter(c for i in nodes for c in index.types[i] if index.classes[c].real)
    named = [c for c in counts if index.classes[c].iri is not None] or list(counts)
    best = sorted(named, key=lambda c: (-counts[c], c))[:ENDS]
    return tuple(Share(index.classes[c].names[0], counts[c], index.of_classes.own[c]) for c in best)


def _sampled(kg: KnowledgeGraph) -> Iterator[RelationCard]:
    """Give the most frequent relations of some facts of a graph, names apart."""
    shape, short = kg.profile, kg.profile.short
    naming = (*shape.label_predicates, *shape.alias_predicates, *shape.description_predicates)
    others = f"FILTER(?p NOT IN ({', '.join(f'<{p}>' for p in naming)}))" if naming else ""
    others += "".join(f" FILTER(!STRSTARTS(STR(?s), '{space}'))" for space in ENGINE_SPACES)
    rows = kg.query(f"SELECT ?p WHERE {{ ?s ?p ?o {others} }} LIMIT {SAMPLED}").rows
    counts = Counter(short(p) for (p,) in rows if isinstance(p, IRI) and not shape.excludes(p))
    for id, text in relation_texts(kg, [r for r, _ in counts.most_common(SAMPLED_RELATIONS)]).items():
        yield RelationCard(id, (text.label, *text.aliases), counts[id])


class Held(NamedTuple):
    """A relation of some nodes: whether it leaves them, how many have it, a value, and a node that has it."""

    relation: IRI
    forward: bool
    members: int
    value: Term
    member: Term


class LocalCard(NamedTuple):
    """What some nodes have: `members` of them were looked at, at most; `is_whole` if these were all."""

    members: int = 0
    held: tuple[Held, ...] = ()
    is_whole: bool = False

    def share(self, relation: IRI, forward: bool) -> str:
        """How many have a relation, as it stands behind its name: `, 1 of 21`; "" where all have it."""
        count = next((h.members for h in self.held if h[:2] == (relation, forward)), 0)
        return "" if count in (0, self.members) else f", {count} of {self.members}"

    def relations(self, forward: bool) -> list[IRI]:
        """The relations of one direction."""
        return sorted(h.relation for h in self.held if h.forward == forward)


Side: TypeAlias = tuple[IRI, bool]
"""A relation, and whether it leaves the nodes in question."""


def named_classes(
    kg: KnowledgeGraph, question: str, linked: Sequence[LinkedEntity], encoder: Encoder
) -> dict[IRI, tuple[int, int]]:
    """Return the classes that nouns of a question name, in its order, with the places of the nouns.

    A noun names a class by its whole name; in a graph with few classes also by its last word ("cars": motor
    car) or by meaning ("manufacturers": car maker).
    """
    named = [(e.start, e.end) for e in linked if e.start >= 0]
    nouns = dict[tuple[int, int], list[str]]()
    for place, noun in nouns_of(question):
        is_part = any(a <= place[0] and place[1] <= b and (a, b) != place for a, b in named)
        if not is_part and (place not in named or question[slice(*place)].islower()):
            nouns[place] = noun
    if kg.index is None:
        kg.together([partial(_called, kg, noun, None) for noun in nouns.values()])  # kept for what follows
    found = dict[tuple[int, int], IRI]()
    for (start, end), noun in nouns.items():
        if not any(start < b and a < end for a, b in found):
            is_linked = any(start < b and a < end for a, b in named)
            if nodes := _called(kg, noun, None if is_linked else encoder):
                found[start, end] = nodes[0]
    return {node: place for place, node in sorted(found.items())[:CLASSES]}


def nouns_of(question: str) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Give runs of words that may name a class, the longest first: place and words, the last in singular."""
    words = tokenise(question)
    for size in range(SPAN, 0, -1):
        for run in (words[first : first + size] for first in range(len(words) - size + 1)):
            noun = [token.word for token in run]
            is_noun = word_list("stop").isdisjoint(noun) and all(word[0].isalpha() for word in noun)
            if is_noun and noun[-1] not in word_list("partitives"):
                yield (run[0].start, run[-1].end), [*noun[:-1], singular(noun[-1])]


def classes_called(kg: KnowledgeGraph, noun: Sequence[str]) -> Sequence[IRI]:
    """Return the classes of a name, as far as the graph answers."""
    with suppress(QueryFailedError):
        return find_classes(kg, " ".join(noun))
    return ()


def _called(kg: KnowledgeGraph, noun: Sequence[str], encoder: Encoder | None) -> Sequence[IRI]:
    """Return the classes of a name, the one with the most members first."""
    if kg.index is None:
        return classes_called(kg, noun)

    def read() -> list[tuple[list[str], IRI]]:
        named = ((tokens(entry.names[0]), kg.profile.expand(entry.id)) for entry in classes_of(kg))
        return [([*name[:-1], singular(name[-1])], node) for name, node in named if name and node is not None]

    names = remembered(kg, "vocabulary", "classes by name", read)
    if exact := [node for name, node in names if name == noun]:
        return exact if len(exact) == 1 else sorted(exact, key=lambda c: -class_card(kg, c).members)
    if len(noun) > 1 or encoder is None or not 0 < len(names) <= COMPARED:
        return ()
    if heads := [node for name, node in names if name[-1] == noun[0]]:
        return heads if len(heads) == 1 else ()
    texts, store = [" ".join(name) for name, _ in names], vectors_of(kg, encoder)
    vectors = remembered(kg, "class vectors", encoder.name, lambda: store.vectors(texts, encoder))
    cosines = vectors @ encoder.encode([noun[0]])[0]
    return [names[int(np.argmax(cosines))][1]] if cosines.max() >= ALIKE else ()


def class_card(kg: KnowledgeGraph, node: IRI) -> LocalCard:
    """Return what the members of a class have; nothing, for now, where the graph takes too long to say it."""

    def read() -> LocalCard | None:
        found, links = local_card(kg, "?x", members_of(kg, node)), kg.profile.type_predicates
        held = tuple(h for h in found.held if h.relation.value not in links)
        return found._replace(held=held) if found.members else None

    return remembered(kg, "schemas", node, read) or LocalCard()


def local_card(kg: KnowledgeGraph, variable: str, pattern: str) -> LocalCard:
    """Return what nodes have that a variable of a SPARQL pattern stands for; two queries to an endpoint."""
    most = FEW if kg.is_remote else MEMBERS
    nodes = f"{{ SELECT DISTINCT {variable} WHERE {{ {pattern} }} LIMIT {most} }}"
    sample = f"(SAMPLE(?_y) AS ?_v) (SAMPLE({variable}) AS ?_m)"
    select = f"SELECT ?_d ?_r (COUNT(DISTINCT {variable}) AS ?_n) {sample}"
    leaving = f"{variable} ?_r ?_y FILTER({_IS_VALUE})"
    parts = [f"{{ {nodes} BIND(0 AS ?_d) }}", f"{{ {nodes} {leaving} BIND(1 AS ?_d) }}"]
    arriving = f"{{ {nodes} ?_y ?_r {variable} BIND(2 AS ?_d) }}"
    unions = [parts, [arriving]] if kg.is_remote else [[*parts, arriving]]
    asked = (f"{select} WHERE {{ {' UNION '.join(of)} }} GROUP BY ?_d ?_r" for of in unions)
    seconds = min(kg.timeout, SECONDS)
    results = kg.together([partial(kg.query, sparql, timeout=seconds) for sparql in asked])
    found = [row for result in results if result.outcome.ok for row in result.rows]
    counted = [(whole_number(d), r, whole_number(n) or 0, v, m) for d, r, n, v, m in sorted(found, key=str)]
    members, excludes = max((n for _, _, n, _, _ in counted), default=0), kg.profile.excludes
    held = (Held(r, d == 1, n, v, m) for d, r, n, v, m in counted if isinstance(r, IRI) and v and m)
    is_whole = members < most and all(r.outcome in (Outcome.ROWS, Outcome.EMPTY) for r in results)
    return LocalCard(members, tuple(h for h in held if not excludes(h.relation)), is_whole)


def _rows(kg: KnowledgeGraph, sparql: str) -> Sequence[Sequence[Term | None]]:
    """Return the rows of an answer; none of a query that fails or takes too long."""
    result = kg.query(sparql, timeout=min(kg.timeout, SECONDS))
    return result.rows if result.outcome.ok else ()


def members_of(kg: KnowledgeGraph, node: IRI) -> str:
    """Return the SPARQL pattern of the members ?x of a class: its own, else those of its subclasses."""
    links, below = kg.profile.type_links, "|".join(IRI(p).n3() for p in kg.profile.subclass_predicates)
    own = f"?x {links} {node.n3()}"
    some = f"SELECT ?x WHERE {{ {own} }} LIMIT 1"
    if not below or remembered(kg, "own members", node, lambda: len(_rows(kg, some))):
        return own
    return f"?x ({links})/({below})* {node.n3()}"


def class_facts(kg: KnowledgeGraph, node: IRI, sides: Sequence[Side]) -> Iterator[tuple[Triple, Triple]]:
    """Give a fact of each of some relations of a class's members, behind that which makes it a member's."""
    held = {h[:2]: h for h in class_card(kg, node).held}
    facts = [
        (member, Hop.between(member, relation, value, forward).triple)
        for relation, forward, _, value, member in map(held.__getitem__, sides)
        if isinstance(member, IRI) and (forward or isinstance(value, IRI))
    ]
    if kg.is_remote and facts:  # a server may sample value and member from different rows
        given = " ".join(
            f"({i} {t.subject.n3()} {t.relation.n3()} {t.object.n3()})" for i, (_, t) in enumerate(facts)
        )
        rows = _rows(kg, f"SELECT ?i WHERE {{ VALUES (?i ?s ?p ?o) {{ {given} }} ?s ?p ?o }}")
        facts = [facts[i] for i in sorted({whole_number(row[0]) or 0 for row in rows})]
    for member, fact in facts:
        yield Triple(member, IRI(kg.profile.type_predicates[0]), node), fact


def fitting(kg: KnowledgeGraph, question: str, node: IRI, encoder: Encoder, most: int) -> list[Side]:
    """Return relations of a class's members, what fits a question first; rare ones last, but for two."""
    members, held, _ = class_card(kg, node)
    rare = {h[:2] for h in held if h.members < RARE * members}
    sides = closest_relations(kg, question, [h[:2] for h in held], encoder, len(held))
    return [*sides[:2], *sorted(sides[2:], key=rare.__contains__)][:most]


def leading_on(
    kg: KnowledgeGraph,
    programs: Sequence[PyQL],
    nodes: Iterable[Term],
    cards: Collection[IRI],
    shown: Collection[IRI],
) -> Iterator[NearbyFact]:
    """Give facts by which programs lead from nodes, or members of some classes, to relations not yet `shown`.

    Each stands behind the fact before it, the first of a member behind that which makes it one.
    """
    nodes = list(nodes)
    programs = [p for p in programs if any(fact.relation not in shown for fact in p.facts())]
    links = kg.profile.type_predicates
    for proof in kg.together([partial(program.prove, kg, (), 1) for program in programs]):
        found, before = list[NearbyFact](), dict[Term, Triple | None]()
        before |= {fact.subject: fact for fact in proof if fact.object in cards}
        before |= dict[Term, Triple | None].fromkeys(nodes)
        facts = [fact for fact in proof if fact.relation.value not in links]
        while fact := next((f for f in facts if f.subject in before or f.object in before), None):
            ends: tuple[Term, Term] = (fact.subject, fact.object)
            near, far = ends if fact.subject in before else ends[::-1]
            found.append(NearbyFact(fact, before[near]))
            before.setdefault(far, fact)
            facts.remove(fact)
        needed = set[Triple | None]()
        for f in reversed(found):
            if f.triple.relation not in shown or f.triple in needed:
                needed |= {f.triple, f.through}
        yield from (f for f in found if f.triple in needed)
