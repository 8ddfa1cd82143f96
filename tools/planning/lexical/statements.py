"""Rules for what is no question (ODA section 3.1): claims to be checked, and slots to be filled.

A claim is proved by a fact between two things it names, over a relation that its words speak of, when no word
of it says more than that. It is contradicted where such a relation has one value only and the KG has another
one than the claim. Of everything else a KG that may lack facts says nothing: then there is no rule.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual, is_single_valued, relation_texts, singulars
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import Body, answers, grow, make_atom, node_form, texts_of, types_of
from triplewise.tools.planning.lexical.question import QuestionView, lexicon, stem, view
from triplewise.tools.planning.lexical.score import NEARLY, is_date, is_number, similarities, thresholds_of
from triplewise.tools.pyql.text import write_node
from triplewise.tools.retrieval.encoder import Encoder

CLASS_DEPTH = 3  # Steps up the classes over which a thing is still said to be one
LINKED = "assumed, for the graph links what the claim names, though by another relation than it speaks of"
"""Provenance of a rule that no more than makes a claim likely."""
VALUES = 20  # Values of a relation that are looked at
LITERALS = 300  # Literals of an entity that are looked at
HOMONYMS = 10  # Nodes of one name that are looked at, the best known first
NEAR = 1_000
"""Facts of the topic whose far ends are looked for in the sentence, on a KG without a label index."""

_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_BRACKETS = re.compile(r"\s*\([^()]*\)$")
_WORD = re.compile(r"[a-z]+")
_YEAR = re.compile(r"-?\d{4}")

Span = tuple[int, int]


class _Named(NamedTuple):
    """A node or a literal that a sentence names, and the place of its words."""

    node: Term
    text: str
    span: Span


class _Fact(NamedTuple):
    """A fact between the topic and something the claim names; `forward`: the topic is its subject."""

    relation: str
    forward: bool
    named: _Named


def claim_rules(
    claim: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    closed_world: bool = False,
) -> tuple[Rule, ...]:
    """Return yes-or-no rules that decide a claim, best first: those that hold prove it, others contradict it.

    A claim that denies ("was never married to") is read as what it denies.

    Args:
        closed_world: what is not linked in the KG is not linked at all. Then a claim that nothing decides is
            likely where the KG links all that it names, by whatever relation (provenance `LINKED`).
    """
    rules: list[Rule] = []
    for entity in linked:
        topic = kg.profile.expand(entity.id)
        if topic is not None:
            rules += _Check(claim, entity, topic, linked, kg, encoder).rules(closed_world)
    return tuple(sorted(rules, key=lambda r: -r.score))


class _Check:
    """The check of one claim, seen from one entity of it."""

    def __init__(
        self,
        claim: str,
        entity: LinkedEntity,
        topic: IRI,
        linked: Sequence[LinkedEntity],
        kg: KnowledgeGraph,
        encoder: Encoder,
    ) -> None:
        self._claim, self._kg, self._encoder = claim, kg, encoder
        self._entity, self._topic, self._anchor = entity, topic, node_form(kg, entity.id)
        self._own = [s for e in linked for s in spans_of(claim, e)]
        self._others = [e for e in linked if e.id != entity.id]
        self._thresholds = thresholds_of(encoder)

    def rules(self, closed_world: bool) -> list[Rule]:
        """Return what proves the claim, else contradicts it, else makes it likely in a closed world."""
        named, numbers = self._named_nodes(), self._numbers()
        facts = [*self._facts(named), *self._literals(numbers)]
        decided = [self._rule(f, score) for f in facts if (score := self._fit(f)) > 0]
        decided += self._class_rules(named)
        decided = decided or list(self._contradictions([*named, *numbers], facts))
        if decided or not closed_world:
            return decided
        # Facts between two things that the claim names, where it names no third one.
        linking = (self._rule(f, 0.0) for f in facts if not self._view(f.named).unlinked)
        return [replace(rule, provenance=LINKED) for rule in linking]

    def _rule(self, fact: _Fact, score: float, note: str = "the graph holds this fact") -> Rule:
        """Does the fact hold?"""
        atom = make_atom(self._kg, fact.relation, fact.forward, ())
        value = write_node(fact.named.node, self._kg.profile)
        holds = Constraint("holds", self._anchor, (atom,), value=value)
        return Rule(self._anchor, (), (Constraint("ask"), holds), score=score, provenance=note)

    def _view(self, named: _Named) -> QuestionView:
        """Return the claim with the topic and one named thing as mentions."""
        return view(self._claim, [*self._own, *([named.span] if named.span[1] > 0 else [])])

    def _fit(self, fact: _Fact) -> float:
        """Return how well a fact says all of the claim; 0 where the claim says something else, or more."""
        seen = self._view(fact.named)
        words = [w for w, _ in seen.words]
        if not words:
            # "X is a Y", "X is in Y": no word tells the relation, so any fact of X that has Y says as much.
            places = [start for start, _ in spans_of(self._claim, self._entity)]
            ordered = bool(places) and (places[0] < fact.named.span[0]) == fact.forward
            return self._thresholds.spoken if ordered and len(seen.tokens) > 2 else 0.0
        texts = texts_of(relation_texts(self._kg, [fact.relation])[fact.relation], fact.forward)
        row = similarities(self._kg, self._encoder, [texts], words)[0]
        if row.max() < self._thresholds.spoken:
            return 0.0
        ends = [n for n in (self._topic, fact.named.node) if isinstance(n, IRI)]
        # A word may only say what kind of thing is spoken of ("the city of Turin").
        types = " ".join(types_of(self._kg, ends).values()).lower()
        kinds = {stem(part) for part in _WORD.findall(types)}
        unsaid = [w for w, s in zip(words, row, strict=True) if s < self._thresholds.unrelated]
        return 0.0 if {stem(w) for w in unsaid} - kinds else float(row.max())

    def _facts(self, named: Sequence[_Named]) -> Iterator[_Fact]:
        """Yield all facts between the topic and the nodes that a claim names; two queries."""
        nodes = {n.node: n for n in reversed(named)}
        values, topic = " ".join(n.n3() for n in nodes), self._topic.n3()
        for forward in (True, False) if nodes else ():
            ends = f"{topic} ?r ?x" if forward else f"?x ?r {topic}"
            ask = f"SELECT DISTINCT ?r ?x WHERE {{ VALUES ?x {{ {values} }} {ends} }}"
            for relation, node in self._kg.query(ask).rows:
                name = _of_node(node, nodes)
                if isinstance(relation, IRI) and name is not None and not self._kg.profile.excludes(relation):
                    yield _Fact(self._kg.profile.short(relation), forward, name)

    def _literals(self, numbers: Sequence[_Named]) -> Iterator[_Fact]:
        """Yield facts whose date or number the claim names."""
        profile = self._kg.profile
        query = f"SELECT ?r ?x WHERE {{ {self._topic.n3()} ?r ?x FILTER(isLiteral(?x)) }}"
        for relation, value in self._kg.query(query, limit=LITERALS).rows if numbers else ():
            if value is not None and isinstance(relation, IRI) and not profile.excludes(relation):
                for number in (n for n in numbers if _same_value(value, n.text)):
                    yield _Fact(profile.short(relation), True, number._replace(node=value))

    def _class_rules(self, named: Sequence[_Named]) -> Iterator[Rule]:
        """Yield checks of classes that the claim names and the topic is of over the classes in between."""
        profile, nodes = self._kg.profile, {n.node: n for n in reversed(named)}
        if not profile.type_predicates or not profile.subclass_predicates or not named:
            return
        up, values = IRI(profile.subclass_predicates[0]), " ".join(n.n3() for n in nodes)
        for steps in range(1, CLASS_DEPTH):
            for first in (IRI(profile.type_predicates[0]), up):
                path = [first, *[up] * steps]
                reached = f"{self._topic.n3()} {'/'.join(r.n3() for r in path)} ?x"
                query = f"SELECT DISTINCT ?x WHERE {{ VALUES ?x {{ {values} }} {reached} }}"
                for row in self._kg.query(query).rows:
                    kind = _of_node(row[0], nodes)
                    if kind is None or self._view(kind).words:
                        continue
                    *inner, last = [make_atom(self._kg, profile.short(r), True, ()).relation for r in path]
                    body = tuple(Atom(r, True, f"class_{i}") for i, r in enumerate(inner, 1))
                    back = Atom(last, False, body[-1].variable)
                    end = write_node(kind.node, profile)
                    meets = Constraint("meets", back.variable, (back,), value=end)
                    rule = Rule(self._anchor, body, (Constraint("ask"), meets), score=self._thresholds.spoken)
                    yield replace(rule, provenance="the graph holds the classes in between")

    def _contradictions(self, names: Sequence[_Named], facts: Sequence[_Fact]) -> Iterator[Rule]:
        """Yield facts of single-valued relations that the claim gives another value."""
        settled = {f.named.span for f in facts}
        claimed: dict[Span, list[_Named]] = {}
        for name in names:
            if name.span not in settled:
                claimed.setdefault(name.span, []).append(name)
        for iri in self._kg.relations(self._topic).forward if claimed else ():
            for same in claimed.values():
                fact = _Fact(self._kg.profile.short(iri), True, same[0])
                if not self._view(same[0]).words or not (score := self._fit(fact)):
                    continue
                if self._excludes(iri, same):
                    yield self._rule(fact, score, "the graph has another value for a relation that has one")

    def _excludes(self, relation: IRI, names: Sequence[_Named]) -> bool:
        """Return whether the topic's values rule out what the claim says, whichever node it means.

        It is a value that the relation takes somewhere, and none of the topic's, nor near one of them and so
        perhaps the same, a part or the whole of it: one fact away, or two of the same relation ("is in").
        """
        near = self._kg.neighbours(self._topic, relation, "forward", limit=VALUES)
        values = [t.object for t in near.triples]
        if not values or not is_single_valued(self._kg, relation):
            return False
        if isinstance(names[0].node, Literal):
            written = names[0].text
            is_year = bool(_YEAR.fullmatch(written))  # compared with years, other numbers with numbers
            comparable = (is_date(v) if is_year else is_number(v) and not is_date(v) for v in values)
            return all(comparable) and not any(_same_value(v, written) for v in values)
        ends = " ".join(v.n3() for v in values if isinstance(v, IRI))
        nodes = [n.node.n3() for n in names]
        taken = (f"ASK {{ ?s {relation.n3()} {n} }}" for n in nodes)
        if not ends or not any(self._kg.query(ask).boolean for ask in taken):
            return False
        ways = ("?v ?r {n}", "{n} ?r ?v", "?v ?r ?m . ?m ?r {n}", "{n} ?r ?m . ?m ?r ?v")
        near_ones = (f"ASK {{ VALUES ?v {{ {ends} }} {way.format(n=n)} }}" for n in nodes for way in ways)
        return not any(self._kg.query(ask).boolean for ask in near_ones)

    def _numbers(self) -> list[_Named]:
        """Return the numbers of the claim that are part of no mention."""
        numbers = []
        for match in _NUMBER.finditer(self._claim):
            digits = match[0].replace(",", "")
            if not _overlaps(match.span(), self._own):
                type_ = "integer" if digits.isdigit() else "decimal"
                numbers.append(_Named(Literal(digits, XSD + type_), digits, match.span()))
        return numbers

    def _named_nodes(self) -> list[_Named]:
        """Return nodes that the claim names besides its topic, the longest names first; several may bear one.

        Other linked entities are named by being linked. Without a label index, only the topic's neighbours
        can be named.
        """
        kg, sentence, topic = self._kg, self._claim, self._topic
        named = [
            _Named(node, e.mention, span)
            for e in self._others
            for span in spans_of(sentence, e)
            if (node := kg.profile.expand(e.id)) is not None
        ]
        names: list[_Named] = []
        if kg.index is None:  # neighbours of the topic whose label stands in the sentence
            triples = kg.neighbours(topic, limit=NEAR).triples
            ends = dict.fromkeys(t.object if t.subject == topic else t.subject for t in triples)
            for end, label in kg.labels(ends).items():
                match = re.search(rf"(?<!\w){re.escape(label)}(?!\w)", sentence, re.IGNORECASE)
                if normalise(label) and match is not None:
                    names.append(_Named(end, match[0], match.span()))
        else:  # all names in it that the label index knows, plurals of one word too
            stop = lexicon()["stopwords"]
            entries = {(s.span.start, s.span.end): s.entries for s in kg.index.spans(sentence)}
            for word in re.finditer(r"\w+", sentence):
                forms = singulars(word[0].lower())[1:]
                plural = tuple(e for form in forms for e in kg.index.exact(form))
                entries.setdefault(word.span(), plural)
            for span, of_name in entries.items():
                text = sentence[slice(*span)]
                if not all(word in stop for word in normalise(text).split()):
                    names += [_Named(e.iri, text, span) for e in of_name[:HOMONYMS]]
        occupied = list(self._own)
        for name in sorted(names, key=lambda n: n.span[0] - n.span[1]):
            same = any(n.span == name.span for n in named)
            if name.node != topic and (same or not _overlaps(name.span, occupied)):
                named.append(name)
                occupied.append(name.span)
        return named


def _of_node(node: Term | None, nodes: Mapping[Term, _Named]) -> _Named | None:
    """Return what names a node that a query returned; Virtuoso may return a lone one as a string."""
    if node is None:
        return None
    return nodes.get(node) or next((name for n, name in nodes.items() if n.value == node.value), None)


def _same_value(value: Term, written: str) -> bool:
    """Return whether a date or number of the KG is what a claim says: a year, or the number."""
    if not isinstance(value, Literal):
        return False
    if is_date(value):
        return bool(_YEAR.fullmatch(written)) and value.value.lstrip("+").startswith(written)
    return is_number(value) and float(value.value) == float(written)


def spans_of(sentence: str, entity: LinkedEntity) -> list[Span]:
    """Return where an entity stands in a sentence: its mention, or its name without its brackets."""
    if entity.start >= 0:
        return [(entity.start, entity.end)]
    for name in (entity.mention, entity.label):
        for form in dict.fromkeys((name, _BRACKETS.sub("", name))):
            pattern = rf"(?<!\w){re.escape(form)}(?:s|es)?(?!\w)"
            if form and (match := re.search(pattern, sentence, re.IGNORECASE)):
                return [match.span()]
    return []


def _overlaps(span: Span, others: Iterable[Span]) -> bool:
    """Return whether a span shares characters with others."""
    return any(start < span[1] and span[0] < end for start, end in others)


def slot_rules(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Rule, ...]:
    """Return rules that fill a slot, best first; () where the KG has no such relation of the entity.

    `relation`: its name, as the slot has it. `linked`: the slot's entity.
    """
    rules = []
    for anchor in (node_form(kg, entity.id) for entity in linked):
        for body, name, similarity in _matches(relation, anchor, kg, encoder):
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            ends = answers(kg, Rule(anchor, body), VALUES)
            labels, longer = kg.labels(ends), list[Body]()
            if ends and all(kg.profile.is_mediator(end, labels.get(end)) for end in ends):
                longer = [b for b in grow(kg, anchor, body) if b[-1].forward]
            if longer:  # the relation behind the mediator whose name is most like the slot's
                texts = relation_texts(kg, [b[-1].relation for b in longer])
                names = [[texts[b[-1].relation].label] for b in longer]
                body = longer[int(similarities(kg, encoder, names, [relation])[:, 0].argmax())]
            rules.append(Rule(anchor, body, score=similarity, provenance=note))
    return tuple(sorted(rules, key=lambda r: -r.score))


def _matches(
    relation: str, anchor: str, kg: KnowledgeGraph, encoder: Encoder
) -> list[tuple[Body, str, float]]:
    """Return the relations of that very name, else those with names like it, each once, with similarities.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    grown, key = grow(kg, anchor, ()), normalise(relation)
    texts = relation_texts(kg, [b[0].relation for b in grown])
    # Backward, a relation has a name only if it has one of its own that way.
    names = [
        (body, name)
        for body in grown
        for text in [texts[body[0].relation]]
        for name in ((text.label, *text.aliases) if body[0].forward else (text.inverse,))
        if name
    ]
    same = {body: (body, name, 1.0) for body, name in names if normalise(name) == key}
    if same:
        return list(same.values())
    if not names or _is_known(kg, relation):
        # A relation that arrives at an entity may say as much of the other one, as "spouse" does.
        return [
            (body, f"{texts[body[0].relation].label} (of the other one)", 1.0)
            for body in grown
            if not body[0].forward
            and normalise(texts[body[0].relation].label) == key
            and (iri := kg.profile.expand(body[0].relation, relation=True)) is not None
            and is_mutual(kg, iri)
        ]
    column = similarities(kg, encoder, [[name] for _, name in names], [relation])[:, 0].tolist()
    same_name = thresholds_of(encoder).same
    matches: dict[Body, tuple[Body, str, float]] = {}
    for similarity, (body, name) in sorted(zip(column, names, strict=True), key=lambda pair: -pair[0]):
        if similarity > same_name and similarity >= NEARLY * max(column):
            matches.setdefault(body, (body, name, similarity))
    return list(matches.values())


def _is_known(kg: KnowledgeGraph, name: str) -> bool:
    """Return whether a relation of the KG, of whatever entity, has that very label."""
    labels = "|".join(f"<{p}>" for p in kg.profile.label_predicates)
    if not labels:
        return False
    texts = " ".join(t.n3() for t in (literal(name, kg.profile.language), literal(name)))
    listed = kg.query(f"SELECT DISTINCT ?r WHERE {{ VALUES ?l {{ {texts} }} ?r {labels} ?l }}", limit=VALUES)
    named = [r.value for r in listed.column("r") if isinstance(r, IRI)]
    # A label may stand at a node of another namespace than the relation has in facts.
    others = [
        namespace + iri.removeprefix(home)
        for iri in named
        for namespace, home in kg.profile.label_at.items()
        if iri.startswith(home)
    ]
    relations = " ".join(IRI(r).n3() for r in (*named, *others))
    return bool(named) and bool(kg.query(f"ASK {{ VALUES ?r {{ {relations} }} ?s ?r ?o }}").boolean)
