"""What is no question (ODA, section 3.1): claims to be checked, and slots to be filled; and how to tell them.

A claim is proved by a fact between two things it names, over a relation that its words speak of, when no word
of it says more than that. It is contradicted where such a relation has one value only and the KG has another
one than the claim. Of everything else a KG that may lack facts says nothing: then there is no reading.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal as OneOf
from typing import NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual, is_single_valued, relation_texts, singulars
from triplewise.tools.language.lexicon import lexicon, root, word_list
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.linking.search import node_types
from triplewise.tools.parsing.program import slug
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.similarity import NEARLY, similarities, texts_of, thresholds_of
from triplewise.tools.pyql.program import TEMPORAL, PyQL, all_facts
from triplewise.tools.pyql.text import NUMERIC
from triplewise.tools.pyql.words import describe
from triplewise.tools.retrieval.encoder import Encoder

Form = OneOf["question", "claim", "slot"]
Span = tuple[int, int]

LINKED = "assumed, for the graph links what the claim names, though by another relation than it speaks of"
"""Provenance of a reading that no more than makes a claim likely."""
CLASS_DEPTH = 3
"""Steps up the classes over which a thing is still an instance of one."""
VALUES = 20
"""Values of a relation that are looked at."""
LITERALS = 300
"""Literals of an entity that are looked at."""
HOMONYMS = 10
"""Nodes of one name that are looked at, the best known first."""
NEAR = 1_000
"""Facts of the topic whose far ends are looked for in the sentence, on a KG without a label index."""

_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_BRACKETS = re.compile(r"\s*\([^()]*\)$")
_WORD = re.compile(r"[^\W_]+(?:['’.,-]?[^\W_]+)*")
_PLAIN = re.compile(r"[a-z]+")
_YEAR = re.compile(r"-?\d{4}")
_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")


def form_of(text: str) -> Form:
    """Return what a text is: a slot is `entity [SEP] relation`, a claim ends as a statement does.

    A claim begins neither with a question word, nor with a verb before its subject, nor with an order.
    """
    if slot_of(text) is not None:
        return "slot"
    words = _words_of(text)
    if not text.rstrip(" \"'”").endswith((".", "!")) or len(words) < 3:
        return "question"
    late = words[0] in word_list("phrase_prepositions") or words[0] == "please"
    opening = words[1] if late else words[0]
    if _LATE_ORDER.search(text.casefold()):
        return "question"
    asks = opening in word_list("asking") | word_list("orders") or (
        not late and opening in word_list("verbs")
    )
    return "question" if asks else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Return entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]++)(?! you\b)", text.casefold())
    verbs = word_list("verbs")
    return form_of(text) == "claim" or bool(first and first[1].replace("’", "'") in verbs)


def denies(text: str) -> bool:
    """Whether a text says that something is not so ("was never married", "isn't")."""
    return any(word in word_list("denials") or word.endswith("n't") for word in _words_of(text))


def _words_of(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold().replace("’", "'"))


class _Named(NamedTuple):
    """A node or a literal that a sentence names, and the place of its words."""

    node: Term
    text: str
    span: Span


class _Fact(NamedTuple):
    """A fact between the topic and something the claim names; `forward`: the topic is its subject."""

    relation: IRI
    forward: bool
    named: _Named


class _Rest(NamedTuple):
    """What a claim says besides the topic and one thing it names: content words, and the number of all words.

    `names`: content words that are written like names; () where capitals tell nothing.
    """

    words: tuple[str, ...]
    length: int
    names: tuple[str, ...]


def claim_readings(
    claim: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    closed_world: bool = False,
) -> tuple[Reading, ...]:
    """Return readings of yes or no that decide a claim, best first: one that holds proves it, or contradicts.

    A claim that denies ("was never married to") is read as what it denies. Confidence is not calibrated.

    Args:
        closed_world: what is not linked in the KG is not linked at all. Then a claim that nothing decides is
            likely where the KG links all that it names, by whatever relation (provenance `LINKED`).
    """
    readings: list[Reading] = []
    for entity in linked:
        topic = kg.profile.expand(entity.id)
        if topic is not None:
            readings += _Check(claim, entity, topic, linked, kg, encoder).readings(closed_world)
    return tuple(sorted(readings, key=lambda r: -r.score))


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
        self._entity, self._topic = entity, topic
        self._own = [s for e in linked for s in spans_of(claim, e)]
        self._others = [e for e in linked if e.id != entity.id]
        self._thresholds = thresholds_of(encoder)

    def readings(self, closed_world: bool) -> list[Reading]:
        """Return what proves the claim, else contradicts it, else makes it likely in a closed world."""
        named, numbers = self._named_nodes(), self._numbers()
        facts = [*self._facts(named), *self._literals(numbers)]
        decided = [self._reading(f, score) for f in facts if (score := self._fit(f)) > 0]
        decided += self._class_readings(named)
        decided = decided or list(self._contradictions([*named, *numbers], facts))
        if decided or not closed_world:
            return decided
        # Facts between two things that the claim names, where it names no third one.
        return [self._reading(f, 0.0, LINKED) for f in facts if not self._rest(f.named).names]

    def _reading(self, fact: _Fact, score: float, why: str = "the graph holds this fact") -> Reading:
        """Does the fact hold?"""
        start, end = self._topic, fact.named.node
        if not fact.forward and isinstance(end, IRI):
            start, end = end, self._topic
        return written(PyQL().ask().add_fact(start, fact.relation, end), self._kg, score, why)

    def _rest(self, named: _Named) -> _Rest:
        """Return what the claim says besides the topic and one named thing."""
        spans = [*self._own, *([named.span] if named.span[1] > 0 else [])]
        tokens = [m for m in _WORD.finditer(self._claim) if not _overlaps(m.span(), spans)]
        stop, denials = lexicon().stop, word_list("denials")
        words = [m[0] for m in tokens if m[0].lower() not in stop and m[0][0].isalpha()]
        low = [w.lower().replace("’", "'") for w in words]
        content = tuple(w for w in low if w not in denials and not w.endswith("n't"))
        first = tokens[0][0] if tokens and tokens[0].start() < min((s for s, _ in spans), default=0) else ""
        later = [w for w in words if w != first]
        names = tuple(w for w in later if w[0].isupper())
        return _Rest(content, len(tokens) + len(spans), names if len(names) < len(later) else ())

    def _fit(self, fact: _Fact) -> float:
        """Return how well a fact says all of the claim; 0 where the claim says something else, or more."""
        rest = self._rest(fact.named)
        if not rest.words:
            # "X is a Y", "X is in Y": no word tells the relation, so any fact of X that has Y says as much.
            places = [start for start, _ in spans_of(self._claim, self._entity)]
            ordered = bool(places) and (places[0] < fact.named.span[0]) == fact.forward
            return self._thresholds.spoken if ordered and rest.length > 2 else 0.0
        short = self._kg.profile.short(fact.relation)
        texts = texts_of(relation_texts(self._kg, [short])[short], fact.forward)
        row = similarities(self._kg, self._encoder, [texts], rest.words)[0]
        if row.max() < self._thresholds.spoken:
            return 0.0
        # A word may only say what kind of thing is spoken of ("the city of Turin").
        ends = [n for n in (self._topic, fact.named.node) if isinstance(n, IRI)]
        types = " ".join(t for names in node_types(self._kg, ends).values() for t in names).lower()
        kinds = {root(part) for part in _PLAIN.findall(types)}
        pairs = zip(rest.words, row, strict=True)
        dropped = {root(w) for w, similarity in pairs if similarity < self._thresholds.unrelated}
        return 0.0 if dropped - kinds else float(row.max())

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
                    yield _Fact(relation, forward, name)

    def _literals(self, numbers: Sequence[_Named]) -> Iterator[_Fact]:
        """Yield facts whose date or number the claim names."""
        query = f"SELECT ?r ?x WHERE {{ {self._topic.n3()} ?r ?x FILTER(isLiteral(?x)) }}"
        for relation, value in self._kg.query(query, limit=LITERALS).rows if numbers else ():
            if value is None or not isinstance(relation, IRI) or self._kg.profile.excludes(relation):
                continue
            for number in (n for n in numbers if _same_value(value, n.text)):
                yield _Fact(relation, True, number._replace(node=value))

    def _class_readings(self, named: Sequence[_Named]) -> Iterator[Reading]:
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
                    if kind is None or self._rest(kind).words:
                        continue
                    program, node = PyQL().ask(), self._topic
                    for place, relation in enumerate(path, 1):
                        end = kind.node if place == len(path) else Variable(f"class_{place}")
                        program, node = program.add_fact(node, relation, end), end  # type: ignore[assignment]
                    why = "the graph holds the classes in between"
                    yield written(program, self._kg, self._thresholds.spoken, why)

    def _contradictions(self, names: Sequence[_Named], facts: Sequence[_Fact]) -> Iterator[Reading]:
        """Yield facts of single-valued relations that the claim gives another value."""
        settled = {f.named.span for f in facts}
        claimed: dict[Span, list[_Named]] = {}
        for name in names:
            if name.span not in settled:
                claimed.setdefault(name.span, []).append(name)
        for relation in self._kg.relations(self._topic).forward if claimed else ():
            for same in claimed.values():
                fact = _Fact(relation, True, same[0])
                if not self._rest(same[0]).words or not (score := self._fit(fact)):
                    continue
                if self._excludes(relation, same):
                    yield self._reading(
                        fact, score, "the graph has another value for a relation that has one"
                    )

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
            number = names[0].text
            is_year = bool(_YEAR.fullmatch(number))  # compared with years, other numbers with numbers
            comparable = (_is_date(v) if is_year else _is_number(v) and not _is_date(v) for v in values)
            return all(comparable) and not any(_same_value(v, number) for v in values)
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

        Other linked entities are named by being linked.
        """
        named = [
            _Named(node, e.mention, span)
            for e in self._others
            for span in spans_of(self._claim, e)
            if (node := self._kg.profile.expand(e.id)) is not None
        ]
        names = self._near_names() if self._kg.index is None else self._indexed_names()
        occupied = list(self._own)
        for name in sorted(names, key=lambda n: n.span[0] - n.span[1]):
            same = any(n.span == name.span for n in named)
            if name.node != self._topic and (same or not _overlaps(name.span, occupied)):
                named.append(name)
                occupied.append(name.span)
        return named

    def _near_names(self) -> Iterator[_Named]:
        """Yield neighbours of the topic whose label stands in the claim."""
        triples = self._kg.neighbours(self._topic, limit=NEAR).triples
        ends = dict.fromkeys(t.object if t.subject == self._topic else t.subject for t in triples)
        for end, label in self._kg.labels(ends).items():
            match = re.search(rf"(?<!\w){re.escape(label)}(?!\w)", self._claim, re.IGNORECASE)
            if normalise(label) and match is not None:
                yield _Named(end, match[0], match.span())

    def _indexed_names(self) -> Iterator[_Named]:
        """Yield all nodes of the label index whose name stands in the claim, plurals of one word too."""
        index = self._kg.index
        assert index is not None
        entries = {(s.span.start, s.span.end): s.entries for s in index.spans(self._claim)}
        for word in re.finditer(r"\w+", self._claim):
            plural = tuple(e for form in singulars(word[0].lower())[1:] for e in index.exact(form))
            entries.setdefault(word.span(), plural)
        stop = lexicon().stop
        for span, of_name in entries.items():
            name = self._claim[slice(*span)]
            if not all(word in stop for word in normalise(name).split()):
                yield from (_Named(e.iri, name, span) for e in of_name[:HOMONYMS])


def _of_node(node: Term | None, nodes: Mapping[Term, _Named]) -> _Named | None:
    """Return what names a node that a query returned; Virtuoso may return a lone one as a string."""
    if node is None:
        return None
    return nodes.get(node) or next((name for n, name in nodes.items() if n.value == node.value), None)


def _is_number(term: Term) -> bool:
    """Whether a value is a number, by datatype or by its text where the KG keeps plain text."""
    if not isinstance(term, Literal):
        return False
    return term.datatype in NUMERIC or term.value.replace(".", "", 1).isdigit()


def _is_date(term: Term) -> bool:
    """Whether a value is a date or a year."""
    return isinstance(term, Literal) and (term.datatype in TEMPORAL or bool(_YEAR.fullmatch(term.value)))


def _same_value(value: Term, number: str) -> bool:
    """Whether a date or number of the KG is what a claim says: a year, or the number."""
    if not isinstance(value, Literal):
        return False
    if _is_date(value):
        return bool(_YEAR.fullmatch(number)) and value.value.lstrip("+").startswith(number)
    return _is_number(value) and float(value.value) == float(number)


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
    """Whether a span shares characters with others."""
    return any(start < span[1] and span[0] < end for start, end in others)


def written(program: PyQL, kg: KnowledgeGraph, score: float, provenance: str) -> Reading:
    """Return a program as a reading whose confidence nothing calibrates."""
    facts = list(all_facts(program.clauses))
    labels = kg.labels({n for f in facts for n in (f.subject, f.object) if isinstance(n, IRI)})
    texts = relation_texts(kg, [kg.profile.short(f.relation) for f in facts])

    def label(iri: IRI) -> str:
        short = kg.profile.short(iri)
        return labels.get(iri) or (texts[short].label if short in texts else "") or short

    return Reading(program.text(kg.profile), describe(program, label), score, 0.0, provenance)


def slot_readings(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Reading, ...]:
    """Return readings that fill a slot, best first; () where the KG has no such relation of the entity.

    Nothing calibrates their confidence.

    Args:
        relation: its name, as the slot has it. linked: the slot's entity.
    """
    readings = []
    for topic in (iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None):
        for step, name, similarity in _matches(relation, topic, kg, encoder):
            program = _beyond_mediators(_follow(PyQL(), topic, step, kg), relation, kg, encoder)
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            readings.append(written(program, kg, similarity, note))
    return tuple(sorted(readings, key=lambda r: -r.score))


Hop = tuple[IRI, bool]
"""A relation, and whether it is walked from subject to object."""


def _follow(program: PyQL, node: IRI | Variable, step: Hop, kg: KnowledgeGraph) -> PyQL:
    """Return a program with one more fact, whose new variable is the answer."""
    short = kg.profile.short(step[0])
    text = relation_texts(kg, [short])[short]
    name = slug(text.label if step[1] else text.subject_type or text.inverse) or "x"
    end = Variable(name if all(v.name != name for v in program.variables) else f"{name}_2")
    subject, object_ = (node, end) if step[1] else (end, node)
    return replace(program, answer=()).add_fact(subject, step[0], object_).set_answer(end)


def _beyond_mediators(program: PyQL, relation: str, kg: KnowledgeGraph, encoder: Encoder) -> PyQL:
    """Return the program that goes on to what is behind mediators, over the relation most like the slot's."""
    result = kg.query(program.sparql(kg.profile), limit=VALUES)
    ends = result.column(result.variables[0]) if result.rows else ()
    labels = kg.labels([end for end in ends if isinstance(end, IRI)])
    if not ends or not all(
        kg.profile.is_mediator(end, labels.get(end) if isinstance(end, IRI) else None) for end in ends
    ):
        return program
    (variable,) = program.answer
    onward = kg.relations(variable, replace(program, answer=()).where(kg.profile)).forward
    if not onward:
        return program
    texts = relation_texts(kg, [kg.profile.short(r) for r in onward])
    names = [[texts[kg.profile.short(r)].label] for r in onward]
    best = int(similarities(kg, encoder, names, [relation])[:, 0].argmax())
    return _follow(program, variable, (onward[best], True), kg)


def _matches(relation: str, topic: IRI, kg: KnowledgeGraph, encoder: Encoder) -> list[tuple[Hop, str, float]]:
    """Return the relations of that very name, else those with names like it, each once, with similarities.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    around, key, short = kg.relations(topic), normalise(relation), kg.profile.short
    steps = [*((r, True) for r in around.forward), *((r, False) for r in around.backward)]
    texts = relation_texts(kg, [short(r) for r, _ in steps])
    # Backward, a relation has a name only if it has one of its own that way.
    names = [
        (step, name)
        for step in steps
        for text in [texts[short(step[0])]]
        for name in ((text.label, *text.aliases) if step[1] else (text.inverse,))
        if name
    ]
    same = {step: (step, name, 1.0) for step, name in names if normalise(name) == key}
    if same:
        return list(same.values())
    if not names or _is_known(kg, relation):
        # A relation that arrives at an entity may say as much of the other one, as "spouse" does.
        return [
            ((iri, False), f"{texts[short(iri)].label} (of the other one)", 1.0)
            for iri in around.backward
            if normalise(texts[short(iri)].label) == key and is_mutual(kg, iri)
        ]
    column = similarities(kg, encoder, [[name] for _, name in names], [relation])[:, 0].tolist()
    same_name = thresholds_of(encoder).same
    matches: dict[Hop, tuple[Hop, str, float]] = {}
    for similarity, (step, name) in sorted(zip(column, names, strict=True), key=lambda pair: -pair[0]):
        if similarity > same_name and similarity >= NEARLY * max(column):
            matches.setdefault(step, (step, name, similarity))
    return list(matches.values())


def _is_known(kg: KnowledgeGraph, name: str) -> bool:
    """Whether a relation of the KG, of whatever entity, has that very label."""
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
