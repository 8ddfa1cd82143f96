"""Inferring the profile of a graph nobody described: a handful of aggregate queries, not one per node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.terms import IRI, RDF, RDFS, Literal, Term
from triplewise.tools.kg.profile import Profile, load_profile, local_name

if TYPE_CHECKING:
    import pyoxigraph as ox

    from triplewise.tools.kg.protocol import KnowledgeGraph

Rows = list[tuple[Term | None, ...]]
Select = Callable[[str], Rows]

_SAMPLE = 100_000
_SKOS, _FREEBASE = "http://www.w3.org/2004/02/skos/core#", "http://rdf.freebase.com/ns/"
_LABELS = (
    RDFS + "label",
    _SKOS + "prefLabel",
    "http://xmlns.com/foaf/0.1/name",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title",
    _FREEBASE + "type.object.name",
)
_ALIASES = (
    _SKOS + "altLabel",
    "http://schema.org/alternateName",
    "https://schema.org/alternateName",
    _FREEBASE + "common.topic.alias",
)
_DESCRIPTIONS = (
    "http://schema.org/description",
    "https://schema.org/description",
    RDFS + "comment",
    "http://purl.org/dc/terms/description",
)
_TYPES = (RDF + "type", "http://www.wikidata.org/prop/direct/P31", _FREEBASE + "type.object.type")
_SPACE = "REPLACE(STR({0}), '[^/#:]*$', '')"


def infer_profile(
    source: ox.Store | KnowledgeGraph, prefixes: Mapping[str, str] | None = None, name: str = "generic"
) -> Profile:
    """The profile of a graph, from what it holds.

    Finds the label predicate (a known one, else the textual literal predicate that most nodes have once),
    alias, description and type predicates, the namespaces of entities and relations (made short only where
    the short forms stay unambiguous), and whether nodes without a label are mediators.

    Args:
        source: a store or an opened KG. Queries that fail or time out leave the generic default.
        prefixes: prefixes that the graph's files declare.
    """
    from triplewise.tools.kg.protocol import KnowledgeGraph
    from triplewise.tools.kg.rdf import from_ox

    def select(sparql: str) -> Rows:
        if isinstance(source, KnowledgeGraph):
            return list(source.query(sparql).rows)
        solutions: Any = source.query(sparql, use_default_graph_as_union=True)
        return [tuple(from_ox(value) for value in row) for row in solutions]

    facts = select("SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n) LIMIT 5000")
    counts = {p.value: int(_number(n)) for p, n in facts if isinstance(p, IRI)}
    labels = tuple(p for p in _LABELS if p in counts) or _textual(select)
    entity_spaces, relation_spaces, all_prefixes = _namespaces(select, counts, prefixes or {})
    types = tuple(p for p in _TYPES if p in counts) or (RDF + "type",)
    mediators = bool(labels) and _unlabelled_are_mediators(select, labels, types[0])
    shown = " ".join(f"<{p}>" for p in list(counts)[:300])
    label = "|".join(f"<{p}>" for p in labels)
    labelled = f"SELECT (COUNT(DISTINCT ?p) AS ?n) WHERE {{ VALUES ?p {{ {shown} }} ?p {label} ?l }}"
    enough = 0.3 * min(len(counts), 300)
    base = load_profile("generic")
    return replace(
        base,
        name=name,
        label_predicates=labels or base.label_predicates,
        alias_predicates=tuple(p for p in _ALIASES if p in counts),
        description_predicates=tuple(p for p in _DESCRIPTIONS if p in counts),
        type_predicates=types,
        unlabelled_is_mediator=mediators,
        unlabelled_pattern="|".join(f"^{re.escape(s)}" for s in entity_spaces) if mediators else "",
        excluded_relations=tuple(
            dict.fromkeys([*base.excluded_relations, *(f"^{re.escape(label)}$" for label in labels)])
        ),
        relation_text="label" if label and any(_number(n) > enough for (n,) in select(labelled)) else "local",
        entity_namespaces=entity_spaces,
        relation_namespaces=relation_spaces,
        prefixes=all_prefixes,
    )


def _textual(select: Select) -> tuple[str, ...]:
    """The literal predicate that reads like a name: textual, short, about one a node, mostly distinct."""
    rows = select(
        "SELECT ?p (COUNT(DISTINCT ?s) AS ?nodes) (COUNT(?o) AS ?all) (COUNT(DISTINCT ?o) AS ?values)"
        " (AVG(STRLEN(STR(?o))) AS ?length) WHERE { ?s ?p ?o FILTER(isLiteral(?o) && "
        "(LANG(?o) != '' || DATATYPE(?o) = <http://www.w3.org/2001/XMLSchema#string>)) } GROUP BY ?p"
    )
    names = []
    for predicate, *numbers in rows:
        nodes, count, values, length = map(_number, numbers)
        functional = nodes and count / nodes < 1.3 and values / count > 0.5 and 2 <= length <= 80
        if isinstance(predicate, IRI) and functional:
            named = re.search(r"(name|label|title)$", predicate.value, re.IGNORECASE) is not None
            names.append((named, nodes, predicate.value))
    return (max(names)[2],) if names else ()


def _namespaces(
    select: Select, counts: Mapping[str, int], declared: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Namespaces shown bare, for entities and for relations, and prefixes for all others.

    A prefix is the one that the graph's file declares, else made from the namespace's last word.
    """
    nodes = _namespace_counts(select, "?s ?p ?x")
    objects = _namespace_counts(select, "?s ?p ?x FILTER(isIRI(?x))", "?x")
    relations: dict[str, int] = {}
    for predicate, count in counts.items():
        space = re.sub(r"[^/#:]*$", "", predicate)
        relations[space] = relations.get(space, 0) + count
    prefixes = dict(load_profile("generic").prefixes)
    standard = set(prefixes.values())
    entity = tuple(space for space in nodes if space not in standard)[:1]
    theirs = [s for s in sorted(relations, key=lambda s: -relations[s]) if s not in standard]
    # Bare relation ids are safe only where no node's id could be meant by them.
    shared = theirs and (theirs[0] in entity or not (theirs[0] in nodes or theirs[0] in objects))
    by_space = {space: prefix for prefix, space in declared.items() if prefix}
    for space in dict.fromkeys([*nodes, *relations, *objects]):
        if space in standard or space.startswith("urn:triplewise:blank:"):
            continue
        wish = by_space.get(space) or re.sub(r"\W+", "", local_name(space)).lower()[:12] or "ns"
        wish = wish if wish[0].isalpha() else f"ns{wish}"
        name, number = wish, 2
        while name in prefixes or name in ("http", "https", "urn"):
            name, number = f"{wish}{number}", number + 1
        prefixes[name] = space
    return entity, (theirs[0],) if shared else (), prefixes


def _namespace_counts(select: Select, pattern: str, variable: str = "?s") -> dict[str, int]:
    """How many of a sample of nodes each namespace holds, most first."""
    sample = f"SELECT DISTINCT {variable} WHERE {{ {pattern} }} LIMIT {_SAMPLE}"
    space = _SPACE.format(variable)
    rows = select(
        f"SELECT ?space (COUNT(*) AS ?n) WHERE {{ {{ {sample} }} FILTER(isIRI({variable})) "
        f"BIND({space} AS ?space) }} GROUP BY ?space ORDER BY DESC(?n) LIMIT 60"
    )
    return {space.value: int(_number(n)) for space, n in rows if space is not None and ":" in space.value}


def _unlabelled_are_mediators(select: Select, labels: tuple[str, ...], kind: str) -> bool:
    """Whether some classes never have labels while most others nearly always do.

    Without classes: whether nearly all nodes that have facts have a label too.
    """
    label = "|".join(f"<{p}>" for p in labels)
    rows = select(
        f"SELECT ?c (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT ?named) AS ?m) WHERE {{ ?s <{kind}> ?c "
        f"OPTIONAL {{ ?s {label} ?l BIND(?s AS ?named) }} }} GROUP BY ?c LIMIT 2000"
    )
    shares = [(_number(m) / _number(n), _number(n)) for c, n, m in rows if _number(n)]
    if shares:
        total = sum(n for _, n in shares)
        named = sum(n for share, n in shares if share >= 0.9)
        nameless = sum(n for share, n in shares if share == 0)
        return nameless > 0 and named + nameless >= 0.8 * total and named > nameless * 0.2
    rows = select(
        f"SELECT (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT ?named) AS ?m) WHERE {{ {{ SELECT DISTINCT ?s "
        f"WHERE {{ ?s ?p ?o }} LIMIT {_SAMPLE} }} OPTIONAL {{ ?s {label} ?l BIND(?s AS ?named) }} }}"
    )
    return any(0.8 <= _number(m) / (_number(n) or 1) < 1 for n, m in rows)


def _number(term: Term | None) -> float:
    return float(term.value) if isinstance(term, Literal) else 0.0
