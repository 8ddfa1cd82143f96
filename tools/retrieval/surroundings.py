"""Surroundings: the relations around the entities of a question, nearest to it first, each with some values.

What a language model needs to write a query without looking relations up first. Three queries an entity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product, zip_longest
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple, whole_number
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.protocol import Hop, KnowledgeGraph, terms_n3
from triplewise.tools.kg.vocabulary import relation_names, relation_texts
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.ranking import rank_relations

RELATIONS, VALUES, MEDIATORS = 16, 4, 2
"""Relations of an entity that are looked at, and values, or mediators, of each that are shown."""
WITHIN, HELD = 120, 6  # Facts read about the mediators among the values, and facts of one that are shown
LONG = 60  # Characters above which a value is clipped

Way: TypeAlias = tuple[IRI, bool]  # A relation, and whether it is followed from subject to object


class NearbyFact(NamedTuple):
    """A fact one hop from an entity, or one of the node that the hop `through` leads to."""

    triple: Triple
    through: Triple | None = None


def surroundings(kg: KnowledgeGraph, question: str, nodes: list[Term], encoder: Encoder) -> list[NearbyFact]:
    """Return facts of the relations around nodes that fit a question, those that link two nodes first."""
    facts = [NearbyFact(triple) for triple in links_between(kg, nodes)]
    for node in nodes:
        around = kg.relations(node)
        sides = [*((r, True) for r in around.forward), *((r, False) for r in around.backward)]
        chosen = closest_relations(kg, question, sides, encoder, RELATIONS)
        facts += facts_by_relation(kg, node, chosen, VALUES + 1)
    return facts


def links_between(kg: KnowledgeGraph, nodes: Iterable[Term]) -> list[Triple]:
    """Return facts whose subject and object are both among some nodes."""
    iris = [n for n in nodes if isinstance(n, IRI)]
    if len(iris) < 2:
        return []
    values = f"VALUES ?x {{ {terms_n3(iris)} }} VALUES ?y {{ {terms_n3(iris)} }}"
    result = kg.query(f"SELECT DISTINCT ?x ?r ?y WHERE {{ {values} ?x ?r ?y }}", limit=WITHIN)
    rows = sorted(result.rows, key=str) if result.outcome.ok else []
    links = [Triple(x, r, y) for x, r, y in rows if isinstance(x, IRI) and isinstance(r, IRI) and y]
    return [link for link in links if not kg.profile.excludes(link.relation)]


def closest_relations(
    kg: KnowledgeGraph, question: str, sides: Sequence[Way], encoder: Encoder, most: int
) -> list[Way]:
    """Return those relations, each with its direction, that fit a question best, best first."""
    shorts = {kg.profile.short(r): r for r, _ in sides}
    named = [(short, text.label) for short, text in relation_texts(kg, shorts).items()]
    ranked = rank_relations(question, named, encoder, most, kg=kg)
    place = {shorts[short]: i for i, short in enumerate(ranked)}
    return sorted((s for s in sides if s[0] in place), key=lambda s: place[s[0]])[:most]


def facts_by_relation(kg: KnowledgeGraph, node: Term, sides: Sequence[Way], most: int) -> list[NearbyFact]:
    """Return up to `most` facts of each relation (and direction) of a node, and what mediators hold."""
    hops = hops_along(kg, [(node, *side) for side in sides], most) if sides else []
    nodes = [hop.far for hop in hops if isinstance(hop.far, IRI)]
    labels, held = kg.labels(nodes), dict[Term, list[Triple]]()
    if mediators := [n for n in dict.fromkeys(nodes) if kg.profile.is_mediator(n, labels.get(n))]:
        sparql = f"SELECT ?m ?r ?v WHERE {{ VALUES ?m {{ {terms_n3(mediators)} }} ?m ?r ?v }}"
        for m, r, v in kg.query(sparql, limit=WITHIN).rows:
            if isinstance(m, IRI) and isinstance(r, IRI) and v and v != node and not kg.profile.excludes(r):
                held.setdefault(m, []).append(Triple(m, r, v))
    facts = []
    for hop in hops:
        own = [NearbyFact(triple, hop.triple) for triple in held.get(hop.far, ())]
        facts += own or [NearbyFact(hop.triple)]
    return facts


def hops_along(kg: KnowledgeGraph, ways: Sequence[tuple[Term, IRI, bool]], most: int) -> list[Hop]:
    """Return up to `most` facts of each of some relations (and directions) of nodes, by one query."""
    parts = []
    for i, (node, relation, forward) in enumerate(ways):
        pattern = f"{node.n3()} {relation.n3()} ?v" if forward else f"?v {relation.n3()} {node.n3()}"
        parts.append(f"{{ SELECT ({i} AS ?i) ?v WHERE {{ {pattern} }} LIMIT {most} }}")
    rows = kg.query(f"SELECT ?i ?v WHERE {{ {' UNION '.join(parts)} }}", limit=len(parts) * most).rows
    numbered = [(n, v) for number, v in rows if (n := whole_number(number, len(ways))) is not None and v]
    found = ((*ways[i], value) for i, value in sorted(numbered, key=itemgetter(0)))
    return [Hop.between(n, r, v, forward) for n, r, forward, v in found if forward or isinstance(v, IRI)]


class FactTexts:
    """The texts of relations and values of some facts, and of what leads on from them."""

    def __init__(self, kg: KnowledgeGraph, facts: Sequence[NearbyFact]) -> None:
        self._profile = kg.profile
        self._after = defaultdict[Triple, dict[Triple, None]](dict)
        for fact in facts:
            if fact.through is not None:
                self._after[fact.through][fact.triple] = None
        hops = (t for fact in facts for t in (fact.through, fact.triple) if t)
        relations = dict.fromkeys(kg.profile.short(t.relation) for t in hops)
        self._names = dict(zip(relations, relation_names(kg, relations), strict=True))
        ends = (n for f in facts for n in (f.triple.subject, f.triple.object))
        self._labels = kg.labels([n for n in ends if isinstance(n, IRI)])

    def relation(self, triple: Triple) -> str:
        """Return the id of a relation, with its name where that is another."""
        short = self._profile.short(triple.relation)
        return self._names.get(short, short)

    def value(self, term: Term) -> str:
        """Return a node as its label and id, a literal as it is read."""
        if isinstance(term, Literal) and term.datatype == XSD + "boolean":
            return term.value  # as it is written in a query, not yes or no
        text = readable(term) if isinstance(term, Literal) else self._labels.get(term, "")
        text = text if len(text) <= LONG else f"{text[: LONG - 3]}..."
        if isinstance(term, Literal):
            return text
        short = self._profile.short(term)
        return f"{text} [{short}]" if text not in ("", short) else short

    def is_nameless(self, term: Term) -> bool:
        """Whether a term is a mediator."""
        return self._profile.is_mediator(term, self._labels.get(term) if isinstance(term, IRI) else None)

    def further(self, triple: Triple, far: Term, before: frozenset[Triple] = frozenset()) -> str:
        """Return in braces what leads on from the far end of a fact; "" for nothing.

        Two facts may each lead on from the other; those that led here (`before`) are not shown again.
        """
        before |= {triple}
        steps = list[str]()
        for t in [t for t in self._after.get(triple, ()) if t not in before][:HELD]:
            arrow, end = ("", t.object) if t.subject == far else ("<- ", t.subject)
            steps.append(f"{arrow}{self.relation(t)}: {self.value(end)}{self.further(t, end, before)}")
        return f" {{{'; '.join(steps)}}}" if steps else ""

    def listed(self, values: Mapping[Term, str], most: int) -> str:
        """Return values, first what leads on; a mediator by what it holds, other nameless nodes by number."""
        shown = most or (MEDIATORS if any(values.values()) else VALUES)  # what leads on takes more words
        nameless = [v for v in values if not values[v] and self.is_nameless(v)]
        first = sorted((v for v in values if v not in nameless), key=lambda v: not values[v])[:shown]
        named = ("" if values[v] and self.is_nameless(v) else self.value(v) for v in first)
        items = [f"{name}{values[v]}".strip() for name, v in zip(named, first, strict=True)]
        left = len(values) - len(first)
        if len(first) < shown and nameless:
            example = "" if first else f", e.g. {self.value(nameless[0])}"
            items.append(f"{len(nameless)} without a name{example}")
            left -= len(nameless)
        return ", ".join([*items, *([f"... ({len(values)} in all)" if most else "..."] if left else [])])


def grouped_lines(
    kg: KnowledgeGraph, facts: Sequence[NearbyFact], topics: Sequence[str], most: int = 0
) -> dict[str, list[str]]:
    """Return topic (short id) -> its relations in the order of the facts: `-> P36 (capital): Tokyo [Q1490]`.

    `->` leaves the topic, `<-` arrives at it; what leads on from a node stands in braces. A fact is about the
    first topic it touches, or left out. `most`: values shown of a relation, and their number; 0: of a sample.
    """
    short, texts = kg.profile.short, FactTexts(kg, facts)
    groups: dict[str, dict[str, dict[Term, str]]] = {topic: {} for topic in topics}
    for fact in facts:
        hop = fact.through or fact.triple
        ends = {short(hop.object): ("<-", hop.subject), short(hop.subject): ("->", hop.object)}
        if (near := next((topic for topic in groups if topic in ends), None)) is None:
            continue
        arrow, far = ends[near]
        groups[near].setdefault(f"{arrow} {texts.relation(hop)}", {})[far] = texts.further(hop, far)
    held = ((topic, relations.items()) for topic, relations in groups.items() if relations)
    return {topic: [f"{head}: {texts.listed(values, most)}" for head, values in of] for topic, of in held}


def topics_of(kg: KnowledgeGraph, facts: Sequence[NearbyFact], first: Sequence[str]) -> list[str]:
    """Return topics under which all facts can be grouped: the first ones, then ends that many facts share."""
    hops = [fact.through or fact.triple for fact in facts]
    sides = [(kg.profile.short(hop.subject), kg.profile.short(hop.object)) for hop in hops]
    counts, topics = Counter(chain.from_iterable(sides)), dict.fromkeys(first)
    for pair in sides:
        if not topics.keys() & set(pair):
            topics[max(pair, key=counts.__getitem__)] = None
    return list(topics)


def within(
    kg: KnowledgeGraph,
    groups: Mapping[str, Sequence[str]],
    characters: int,
    totals: Mapping[str, int] = {},
    heads: Mapping[str, str] = {},
    calls: Mapping[str, str] = {},
) -> list[str]:
    """Return grouped lines under their topics, a line of each topic in turn until the characters are spent.

    `totals`: relations of a topic in all, where known; if the lines hold them all, those that do not fit are
    named in one line. `heads`: what stands above its lines for "Around ...". `calls`: actions that show more.
    """
    labels = kg.labels([node for topic in groups if (node := kg.profile.expand(topic)) is not None])
    names = {kg.profile.short(node): label for node, label in labels.items()}
    chosen: dict[str, list[str]] = {topic: [] for topic in groups}
    in_turn = zip_longest(*(product([topic], lines) for topic, lines in groups.items()))
    for topic, line in filter(None, chain.from_iterable(in_turn)):
        characters -= len(line)
        if characters >= 0:
            chosen[topic].append(line)
    shown, others = list[str](), 0
    for topic, lines in chosen.items():
        left = max(totals.get(topic, 0), len(groups[topic])) - len(lines)
        label = names.get(topic, topic)
        head = heads.get(topic) or f"Around {topic if label == topic else f'{label} [{topic}]'}"
        if totals.get(topic) == 0:
            shown.append(f"{head}: the graph has no facts about it.")
        elif topic in totals or (lines and topic in calls):
            cut = [line.partition(": ")[0] for line in groups[topic] if line not in lines]
            shown += _with_rest(head, lines, cut, left if topic in totals else None, calls.get(topic))
        else:
            others += left
            shown += [f"{head}:", *lines] if lines else []
    return [*shown, *([f"... and {others} more relations"] if others else [])]


def _with_rest(head: str, lines: list[str], cut: list[str], left: int | None, call: str | None) -> list[str]:
    """Lines under their head, then relations left: the `cut` ones by name if these are all, else how many."""
    if left == len(cut):
        return [f"{head}, all its relations:", *lines, *([f"also {', '.join(cut)}"] if cut else [])]
    rest = "... more relations" if left is None else f"... {left} more relation{'s' * (left > 1)}"
    return [f"{head}:", *lines, f"{rest}: {call}" if call else rest]
