"""Questions made from a graph, for its start page: in words of its own, each tried before it is shown."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, zip_longest

from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg import KnowledgeGraph, Result
from triplewise.tools.language.lexicon import word_list
from triplewise.tools.parsing.card import RelationCard, SchemaCard
from triplewise.tools.parsing.confidence import calibration_for
from triplewise.tools.parsing.reading import read_question
from triplewise.tools.retrieval.encoder import Encoder

MOST, RELATIONS, FAR, CLASSES, ROWS = 6, 24, 10, 2, 200
"""Questions; relations (of an endpoint) and classes they are made of at most; facts read of a relation."""
_MANY = re.compile("^(?!.* (in|of) ).*[^s]s$")  # labels that are plurals


def example_questions(kg: KnowledgeGraph, encoder: Encoder) -> list[str]:
    """Return questions of several forms, made from a graph small enough to be read whole, that it answers."""
    if not (schema := SchemaCard.of(kg, encoder)).is_whole:
        return []
    questions, least = list[str](), calibration_for(kg).min_confidence
    made = defaultdict[str, list[tuple[str, set[str]]]](list)
    for form, question, right in _made_questions(kg, schema):
        made[form].append((question, right))
    in_turn = chain.from_iterable(zip_longest(*made.values()))  # the first of each form, then the second ...
    for question, right in filter(None, in_turn):
        readings = read_question(question, kg, encoder)
        if readings and set(readings[0].values) == right and readings[0].confidence >= least:
            questions.append(question)
        if len(questions) == MOST:
            break
    return questions


def _made_questions(kg: KnowledgeGraph, schema: SchemaCard) -> Iterator[tuple[str, str, set[str]]]:
    """Give questions about relations and classes: form, question, and the values that are right."""
    cards = dict[int, RelationCard]()
    queries = list[Callable[[], Result]]()
    for number, card in enumerate(schema.relations[: FAR if kg.is_remote else RELATIONS]):
        iri = kg.profile.expand(card.id, relation=True)
        if card.names and " / " not in card.id and not card.id.startswith("^") and iri is not None:  # no path
            cards[number] = card
            queries.append(partial(kg.query, f"SELECT ?s ?o WHERE {{ ?s {iri.n3()} ?o }}", limit=ROWS))
    for (number, card), result in zip(cards.items(), kg.together(queries), strict=True):
        facts = [(s, o) for s, o in result.rows if isinstance(s, IRI) and o is not None]
        labels = kg.labels(term for fact in facts for term in fact if isinstance(term, IRI))
        if known := [fact for fact in facts if fact[0] in labels]:
            yield from _relation_questions(card, facts, known[number % len(known)], labels, kg.profile.short)
    for of in schema.classes[:CLASSES]:
        several = re.sub("([^aeiou])y$", r"\1ie", of.names[0]).removesuffix("s") + "s"
        yield "count", f"How many {several} are there?", {str(of.members)}


def _relation_questions(
    card: RelationCard,
    facts: Sequence[tuple[IRI, Term]],
    fact: tuple[IRI, Term],
    labels: Mapping[Term, str],
    short: Callable[[Term], str],
) -> Iterator[tuple[str, str, set[str]]]:
    """Give questions about a relation by its label, as a noun or as a verb, and by the degree of numbers."""
    label, (subject, value), kind = card.names[0], fact, card.domains[0].name if card.domains else ""
    first, last = label.partition(" ")[0], label.rpartition(" ")[2]
    be, most = ("are", "most") if _MANY.search(label) else ("is", "greatest")
    prepositions = word_list("phrase_prepositions")
    if card.kind == "boolean" and first != "has":
        yield "whether", f"Is {labels[subject]} {label.removeprefix('is ')}?", {short(value)}
    elif first in ("has", "is") or last in prepositions:
        if kind and value in labels:
            is_ = "" if first.endswith("s") else "is "
            right = {short(s) for s, o in facts if o == value}
            yield "which", f"Which {kind} {is_}{label} {labels[value]}?", right
    elif first not in prepositions and not _is_verb(label, card.kind):
        right = {short(o) for s, o in facts if s == subject}
        yield "what", f"What {be} the {label} of {labels[subject]}?", right
    if card.kind == "number" and len(card.domains) == 1 and len(facts) < ROWS and not _is_verb(label, ""):
        with suppress(ValueError):  # not all are numbers
            yield "most", f"Which {kind} has the {most} {label}?", _with_most(facts, short)


def _with_most(facts: Sequence[tuple[IRI, Term]], short: Callable[[Term], str]) -> set[str]:
    """Return the subjects of the greatest number. ValueError where not all values are numbers."""
    numbers = [(short(s), float(o.value)) for s, o in facts]
    most = max(number for _, number in numbers)
    return {subject for subject, number in numbers if number == most}


def _is_verb(label: str, kind: str) -> bool:
    """Whether a label reads as a verb: sponsored, contains milk; of entities keeps, of dates first lit."""
    last = label.rpartition(" ")[2]
    is_dated = kind == "date" and not re.search("date|year|time|day", last)
    is_finite = kind == "entity" and last == label and _MANY.search(label)
    return bool(re.search(r"(ed|ing)\b|^\S*[^s]s ", label) or is_dated or is_finite)
