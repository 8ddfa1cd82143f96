"""What a KG says of its own vocabulary: texts of relations, classes that a noun names, how relations behave.

Everything is queried once per KG, in batches, and cached; a time-out is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from triplewise.tools.core.terms import IRI, RDFS, Literal, Term, Triple, one_line
from triplewise.tools.kg import protocol
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.profile import BLANK, RelationText, local_name, split_words
from triplewise.tools.kg.protocol import KnowledgeGraph, batches, memory_of, terms_n3

T = TypeVar("T")

BATCH = 300  # relations per query
ALIASES = 12  # aliases kept of one relation
SUBJECTS, SAMPLE = 200, 2_000  # subjects, and facts of a relation, that are looked at
LEAST_SUBJECTS, SINGLE_SHARE = 10, 0.95  # seen, and share of them with one value, of a single-valued relation
LEAST_FACTS, MUTUAL_SHARE = 10, 0.5  # seen, and share that holds the other way round too, of a mutual one


def relation_texts(kg: KnowledgeGraph, relations: Iterable[str]) -> dict[str, RelationText]:
    """Short relation id (or `<IRI>`) -> its text. Ids the profile cannot expand read as themselves."""
    memory, names = memory_of(protocol.origin_of(kg), "relation texts"), list(dict.fromkeys(relations))
    if new := [name for name in names if name not in memory]:
        memory.update(_read_texts(kg, new))
    return {name: memory[name] for name in names}


def _read_texts(kg: KnowledgeGraph, names: Sequence[str]) -> dict[str, RelationText]:
    """Ask for the texts of relations."""
    iris = {r: kg.profile.expand(r, relation=True) for r in names}
    subjects = {iri: kg.profile.label_subject(iri) for iri in iris.values() if iri is not None}
    terms = list(subjects.values())
    reads: list[Callable[[], Any]] = [
        partial(kg.labels, terms),
        lambda: list(node_texts(kg, terms, kg.profile.alias_predicates)),
        *([partial(_schema_of, kg, terms)] if kg.profile.relation_schema else []),
    ]
    labels, named, *schemas = kg.together(reads)
    schema: dict[IRI, dict[str, Any]] = schemas[0] if schemas else {}
    texts, known = dict[str, RelationText](), protocol.origin_of(kg).profile.aliases
    for name, iri in iris.items():
        if iri is None:
            texts[name] = RelationText(label=name)
            continue
        subject, label = subjects[iri], labels.get(subjects[iri])
        is_label = label != kg.profile.local_text(subject)
        own = replace(kg.profile.relation_label(iri, label if is_label else None), **schema.get(subject, {}))
        given = known.get(name) or known.get(iri.value, ())
        others = (*given, *(alias for node, alias in named if node == subject))
        more = [a for a in others if a not in own.aliases][:ALIASES]
        texts[name] = replace(own, aliases=(*own.aliases, *more))
    return texts


def add_name(kg: KnowledgeGraph, relation: str, name: str) -> None:
    """Give a relation of an open KG another name; what was worked out from its names is worked out anew."""
    base = protocol.origin_of(kg)
    names = dict.fromkeys((*base.profile.aliases.get(relation, ()), name))
    base.profile = replace(base.profile, aliases={**base.profile.aliases, relation: tuple(names)})
    for topic in ("relation texts", "graph index", "local indexes"):
        memory_of(base, topic).clear()


def _schema_of(kg: KnowledgeGraph, relations: Iterable[IRI]) -> dict[IRI, dict[str, Any]]:
    """What an ontology says of relations: fields of their `RelationText`, each in one place."""
    fields = {IRI(RDFS + "comment"): "description"}
    fields |= {IRI(RDFS + "domain"): "subject_type", IRI(RDFS + "range"): "object_type"}
    links, values = protocol.facts_by(fields, "?s ?p ?o"), terms_n3(dict.fromkeys(relations))
    facts = kg.query(f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {values} }} {links} }}")
    labels, schema = kg.labels(o for *_, o in facts.rows if isinstance(o, IRI)), dict[IRI, dict[str, Any]]()
    for subject, predicate, value in facts.rows:
        if not isinstance(subject, IRI) or not isinstance(predicate, IRI):
            continue
        says = ""
        if isinstance(value, Literal) and value.language in ("", kg.profile.language):
            says = kg.profile.short(value)
        elif isinstance(value, IRI) and not protocol.is_datatype(value) and kg.profile.linkable(value.value):
            says = (labels.get(value) or split_words(local_name(value.value))).lower()
        if says:
            own, field = schema.setdefault(subject, {}), fields[predicate]
            own[field] = says if field not in own else ""
    return schema


def relation_names(kg: KnowledgeGraph, relations: Iterable[str]) -> list[str]:
    """Short ids, with their text in brackets where the id alone says nothing (`P36 (capital)`)."""
    ids = list(relations)
    if kg.profile.relation_text != "label":
        return ids
    texts = relation_texts(kg, ids)
    return [f"{r} ({texts[r].label})" if texts[r].label not in ("", r) else r for r in ids]


def relation_descriptions(kg: KnowledgeGraph, relations: Iterable[str]) -> dict[str, str]:
    """Short relation id -> the KG's own description of it; those without one are left out."""
    expanded = ((r, kg.profile.expand(r, relation=True)) for r in dict.fromkeys(relations))
    subjects = {r: kg.profile.label_subject(iri) for r, iri in expanded if iri is not None}
    descriptions = node_descriptions(kg, subjects.values())
    return {r: descriptions[s] for r, s in subjects.items() if s in descriptions}


def node_descriptions(kg: KnowledgeGraph, nodes: Iterable[IRI]) -> dict[IRI, str]:
    """Return the KG's own description of each node that has one."""
    # Of several the first counts, which comes last here.
    return dict(reversed(list(node_texts(kg, nodes, kg.profile.description_predicates))))


def node_texts(kg: KnowledgeGraph, nodes: Iterable[IRI], by: Sequence[str]) -> Iterator[tuple[IRI, str]]:
    """Texts of nodes in the profile's language (or all, or none), by some predicates."""
    links, tags = "|".join(f"<{p}>" for p in by), ("", "mul", kg.profile.language)
    for batch in batches(dict.fromkeys(nodes) if links else (), BATCH):
        result = kg.query(f"SELECT ?s ?t WHERE {{ VALUES ?s {{ {terms_n3(batch)} }} ?s {links} ?t }}")
        for subject, value in result.rows:
            if isinstance(subject, IRI) and isinstance(value, Literal) and value.language in tags:
                yield subject, one_line(value.value)


def singulars(noun: str) -> tuple[str, ...]:
    """A noun and its possible singular forms."""
    endings = (("ies", "y"), ("es", ""), ("s", ""))
    forms = (noun.removesuffix(old) + new for old, new in endings if noun.endswith(old))
    return tuple(dict.fromkeys((noun, *(form for form in forms if not noun.endswith("ss")))))


def find_classes(kg: KnowledgeGraph, noun: str) -> tuple[IRI, ...]:
    """Nodes named by a noun that have instances or subclasses, those with the preferred label first."""
    if not noun or not kg.profile.type_predicates:
        return ()

    def find() -> tuple[IRI, ...]:
        nodes = [e.iri for e in kg.names.exact(*singulars(noun))][:10]
        links = "|".join(f"<{p}>" for p in (*kg.profile.type_predicates, *kg.profile.subclass_predicates))
        pattern = f"VALUES ?c {{ {terms_n3(nodes)} }} ?x {links} ?c"
        found = kg.query(f"SELECT DISTINCT ?c WHERE {{ {pattern} }}").column("c") if nodes else ()
        return tuple(node for node in nodes if node in found)

    return remembered(kg, "classes", noun, find)


def is_single_valued(kg: KnowledgeGraph, relation: IRI) -> bool:
    """Whether nearly every subject of a relation has one value; False where few are seen."""

    def ask() -> bool:
        # Subjects are drawn first, then all their values: an index may hold the facts of one value together.
        r = relation.n3()
        some = f"SELECT DISTINCT ?s WHERE {{ ?s {r} ?any }} LIMIT {SUBJECTS}"
        facts = kg.query(f"SELECT DISTINCT ?s ?o WHERE {{ {{ {some} }} ?s {r} ?o }}", limit=SAMPLE)
        values = Counter(row[0] for row in facts.rows)
        single = sum(n == 1 for n in values.values())
        return len(values) >= LEAST_SUBJECTS and single >= SINGLE_SHARE * len(values)

    return remembered(kg, "single-valued", relation, ask)


def is_mutual(kg: KnowledgeGraph, relation: IRI) -> bool:
    """Whether most facts of a relation hold the other way round too ("spouse"); False if few are seen."""

    def ask() -> bool:
        way, back = f"?s {relation.n3()} ?o", f". ?o {relation.n3()} ?s"
        pairs = (f"SELECT DISTINCT ?s ?o WHERE {{ {p} FILTER(?s != ?o) }}" for p in (way, way + back))
        every, both = (len(kg.query(sparql, limit=SAMPLE).rows) for sparql in pairs)
        return every >= LEAST_FACTS and both >= MUTUAL_SHARE * every

    return remembered(kg, "mutual", relation, ask)


def remembered(kg: KnowledgeGraph, topic: str, key: object, ask: Callable[[], T]) -> T:
    """What is remembered under a topic of a KG, or what it answers now; a failed query leaves nothing."""
    memory = memory_of(kg, topic)
    answer: T | None = memory.get(key)
    if answer is None:
        answer = memory[key] = ask()
    return answer


def node_labels(kg: KnowledgeGraph, terms: Iterable[Term], exact: bool = True) -> dict[Term, str]:
    """A readable text for every term: its label, else its short form.

    `exact` keeps literals and ids as the KG writes them; otherwise dates and numbers read as people write
    them, and blank nodes as Turtle does (`_:0-b1`).
    """
    texts: dict[Term, str] = {}
    labels = kg.labels(distinct := list(dict.fromkeys(terms)))
    for term in distinct:
        if not exact and isinstance(term, Literal):
            texts[term] = readable(term)
        elif not exact and term.value.startswith(BLANK):
            texts[term] = labels.get(term) or f"_:{term.value.removeprefix(BLANK)}"
        else:
            texts[term] = labels.get(term) or kg.profile.short(term)
    return texts


def triple_labels(kg: KnowledgeGraph, triples: Sequence[Triple], exact: bool) -> list[tuple[str, str, str]]:
    """Return the labels of subject, relation and object of triples; see `node_labels`."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)], exact)
    short = kg.profile.short
    relations = relation_texts(kg, [short(t.relation) for t in triples])
    return [(labels[t.subject], relations[short(t.relation)].label, labels[t.object]) for t in triples]


def triple_text(kg: KnowledgeGraph, triples: Sequence[Triple], exact: bool = True) -> list[str]:
    """`(subject, relation, object)` with labels."""
    return [f"({', '.join(labels)})" for labels in triple_labels(kg, triples, exact)]
