"""Inferring the profile of a graph nobody described: a handful of aggregate queries, not one per node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Term
from triplewise.tools.kg import profile as shapes
from triplewise.tools.kg.profile import BLANK, Profile, load_profile

if TYPE_CHECKING:
    import pyoxigraph as ox

    from triplewise.tools.kg.protocol import KnowledgeGraph

Rows = list[tuple[Term | None, ...]]
Select = Callable[[str], Rows]

_SAMPLE = 100_000
_VALUES = 300  # values of a predicate that are looked at
_OWN, _THEIRS = 0.1, 0.6  # least share of a known graph's own relations; of facts and nodes in its namespaces
_ENOUGH = 0.5  # least share of names that have to be words, and of nodes that a label predicate has to name
ENGINE_SPACES = ("http://www.openlinksw.com/", "http://www.w3.org/ns/ldp#", "http://localuriqaserver/")
"""How the nodes of those graphs begin that engines bring themselves."""
_SPACE = "REPLACE(STR({0}), '[^/#:]*$', '')"
_WORD = re.compile(r"[^\W\d_]{2,}")
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_NO_NAME = re.compile(r"\S*(?:\d|[/:@_])\S*")


def infer_profile(source: ox.Store | KnowledgeGraph, prefixes: Mapping[str, str] | None = None) -> Profile:
    """The profile of a graph, from what it holds, and the `prefixes` that its files declare.

    A graph of a known shape (Wikidata, Freebase, DBpedia) gets the packaged profile. Of any other it is found
    what gives names, aliases, descriptions and types, in which language, what ids can be made short, and
    whether nodes without a label are mediators, or have ids that are names.
    """
    from triplewise.tools.kg.protocol import KnowledgeGraph
    from triplewise.tools.kg.rdf import from_ox

    def select(sparql: str) -> Rows:
        if isinstance(source, KnowledgeGraph):
            return list(source.query(sparql).rows)
        solutions: Any = source.query(sparql, use_default_graph_as_union=True)
        return [tuple(map(from_ox, row)) for row in solutions]

    facts = select("SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n) LIMIT 5000")
    counts = {p.value: int(_number(n)) for p, n in facts if isinstance(p, IRI)}
    nodes = _namespace_counts(select, "?s ?p ?x")
    readable = _ids_are_names(select, "?node ?p ?o")
    labels, aliases = _label_predicates(select, counts)
    language = _language(fact for predicate in labels for fact in _texts_of(select, predicate)[0])
    if (base := known_shape(counts, nodes)) is not None:
        is_named = not labels or not counts.keys().isdisjoint(base.label_predicates)
        return base if is_named else replace(base, label_predicates=labels, language=language)
    entity_spaces, relation_spaces, all_prefixes = _namespaces(select, nodes, counts, prefixes or {})
    types = _known("types", counts) or (RDF + "type",)
    mediators = bool(labels) and _unlabelled_are_mediators(select, labels, types[0])
    base = load_profile("generic")
    hidden = (*base.excluded_relations, *(f"^{re.escape(label)}$" for label in labels))
    return replace(
        base,
        label_predicates=labels or base.label_predicates,
        alias_predicates=aliases,
        description_predicates=_known("descriptions", counts),
        type_predicates=types,
        unlabelled_is_mediator=mediators,
        unlabelled_pattern="|".join(map("^{}".format, map(re.escape, entity_spaces))) if mediators else "",
        entity_text="local" if readable and not mediators else "label",
        excluded_relations=tuple(dict.fromkeys(hidden)),
        language=language,
        relation_text="label" if labels and _are_labelled(select, list(counts)[:300], labels) else "local",
        relation_schema=not {RDFS + "domain", RDFS + "range", RDFS + "comment"}.isdisjoint(counts),
        entity_namespaces=entity_spaces,
        relation_namespaces=relation_spaces,
        prefixes=all_prefixes,
    )


def _are_labelled(select: Select, relations: Sequence[str], labels: Iterable[str]) -> bool:
    """Whether a good part of some relations have labels."""
    by, shown = "|".join(f"<{p}>" for p in labels), " ".join(f"<{p}>" for p in relations)
    counted = select(f"SELECT (COUNT(DISTINCT ?p) AS ?n) WHERE {{ VALUES ?p {{ {shown} }} ?p {by} ?l }}")
    return any(_number(number) > 0.3 * len(relations) for (number,) in counted)


_naming: Callable[[], dict[str, list[str]]] = cache(partial(packaged, "triplewise.tools.kg", "naming.yaml"))


def is_called_name(words: str) -> bool:
    """Whether a relation of these words gives names, as "film title" does."""
    return any(last in _naming()["names"] for last in words.split()[-1:])


def _known(kind: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Those of a graph's predicates that are known for what they are, best first."""
    return tuple(predicate for predicate in _naming()[kind] if predicate in counts)


def known_shape(relations: Mapping[str, int], nodes: Mapping[str, int]) -> Profile | None:
    """The packaged profile of a graph by its facts by relation, and its nodes (or their facts) by namespace.

    None for a graph that has not its namespaces.
    """
    standard = tuple(load_profile("generic").prefixes.values())

    def share(counts: Mapping[str, int], spaces: tuple[str, ...]) -> float:
        own = {iri: n for iri, n in counts.items() if not iri.startswith((*standard, BLANK))}
        return sum(n for iri, n in own.items() if iri.startswith(spaces)) / (sum(own.values()) or 1)

    for profile in map(load_profile, shapes.profile_names()):
        spaces = tuple(space for space in profile.prefixes.values() if space not in standard)
        inside = min(share(relations, spaces), share(nodes, spaces)) if spaces else 0.0
        if inside >= _THEIRS and share(relations, profile.relation_namespaces) >= _OWN:
            return profile
    return None


def endpoint_profile(kg: KnowledgeGraph) -> str | None:
    """The name of the profile that an endpoint's facts show in a query or two, or generic; None: it fails."""
    known = [load_profile(name) for name in shapes.profile_names()]
    naming = {p for profile in known for p in (*profile.label_predicates, *profile.type_predicates)}
    values = " ".join(f"<{p}>" for p in sorted(naming))
    own = " && ".join(f"!STRSTARTS(STR(?s), '{space}')" for space in ENGINE_SPACES)
    named = f"VALUES ?by {{ {values} }} ?s ?by ?name FILTER({own})"
    named = f"SELECT DISTINCT ?s WHERE {{ {named} }} LIMIT {_VALUES}"
    for pattern in ("?s ?p ?o", f"{{ {named} }} ?s ?p ?o"):
        result = kg.query(f"SELECT ?s ?p WHERE {{ {pattern} }}", limit=10 * _VALUES)
        if not result.outcome.ok:
            return None
        facts = [(s.value, p.value) for s, p in result.rows if isinstance(s, IRI) and isinstance(p, IRI)]
        facts = [(s, p) for s, p in facts if not s.startswith(ENGINE_SPACES)]
        spaces = Counter(shapes.namespace(s) for s, _ in facts)
        if (profile := known_shape(Counter(p for _, p in facts), spaces)) is not None:
            return profile.name
    return load_profile("generic").name


def _texts_of(select: Select, predicate: str) -> tuple[list[tuple[Term | None, Literal]], int]:
    """Some facts of a predicate whose values are texts, and how many of its facts were looked at."""
    rows = select(f"SELECT ?s ?o WHERE {{ ?s <{predicate}> ?o }} LIMIT {_VALUES}")
    texts = [(s, o) for s, o in rows if isinstance(o, Literal)]
    return [(s, o) for s, o in texts if o.language or o.datatype == XSD + "string"], len(rows)


def _gives_names(select: Select, predicate: str) -> bool:
    """Whether values of a predicate are short texts of words, about one a node and language."""
    facts, looked_at = _texts_of(select, predicate)
    if len(facts) < 0.9 * looked_at or len(facts) > 1.3 * len({(s, text.language) for s, text in facts}):
        return False
    return are_names([text.value for _, text in facts])


def are_names(texts: Sequence[str]) -> bool:
    """Whether most of some texts are short and of words."""
    values = [text for text in texts if len(text) <= 120 and not _NO_NAME.fullmatch(text)]
    return len(list(filter(_WORD.search, values))) >= _ENOUGH * len(texts)


def _label_predicates(select: Select, counts: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Label and alias predicates, best first: known ones, then, for nodes without, names that hold words."""
    naming = _naming()
    labels, aliases = (list(_known(kind, counts)) for kind in ("labels", "aliases"))
    for predicate in counts:
        *before, last = shapes.split_words(shapes.local_name(predicate)).split()
        is_known = predicate in (*labels, *aliases)
        if is_known or last not in naming["names"] or not _gives_names(select, predicate):
            continue
        if not set(before).isdisjoint(naming["others"]):
            aliases.append(predicate)
        elif set(before).isdisjoint(naming["parts"]):
            unnamed = " ".join(f"FILTER NOT EXISTS {{ ?s <{label}> ?any }}" for label in labels)
            sparql = f"SELECT DISTINCT ?s WHERE {{ ?s <{predicate}> ?o {unnamed} }} LIMIT {_VALUES}"
            if len(select(sparql)) >= min(_ENOUGH * counts[predicate], _VALUES):
                labels.append(predicate)
    return tuple(labels), tuple(aliases)


def _language(facts: Iterable[tuple[Term | None, Literal]]) -> str:
    """The language of most labels: English where half of the nodes have it, or no language."""
    nodes: dict[str, set[Term | None]] = {}
    for node, text in facts:
        nodes.setdefault(text.language.partition("-")[0].lower(), set()).add(node)
    english = set().union(*(nodes.get(tag, set()) for tag in ("en", "mul", "")))
    if len(english) >= _ENOUGH * len(set().union(*nodes.values())):
        return load_profile("generic").language
    return max(nodes, key=lambda tag: len(nodes[tag]))


def _ids_are_names(select: Select, pattern: str) -> bool:
    """Whether most local names of some nodes are words of their own: no numbers, codes or "item 17"."""
    named = f"{pattern} FILTER(isIRI(?node) && !STRSTARTS(STR(?node), '{BLANK}'))"
    rows = select(f"SELECT DISTINCT ?node WHERE {{ {named} }} LIMIT {_VALUES}")
    names = [shapes.node_name(node.value) for (node,) in rows if isinstance(node, IRI)]
    words = [frozenset(_LETTERS.findall(name)) for name in names]
    in_words = [w for w, name in zip(words, names, strict=True) if 2 * sum(map(len, w)) >= len(name) > 0]
    return bool(names) and min(len(in_words), 2 * len(set(in_words))) >= _ENOUGH * len(names)


def _namespaces(
    select: Select, nodes: Mapping[str, int], counts: Mapping[str, int], declared: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Namespaces shown bare, for entities and for relations, and prefixes for all others.

    A prefix is the one that the graph's file declares, else made from the namespace's last word.
    """
    objects = _namespace_counts(select, "?s ?p ?x FILTER(isIRI(?x))", "?x")
    relations = Counter[str]()
    for predicate, count in counts.items():
        relations[shapes.namespace(predicate)] += count
    prefixes = dict(load_profile("generic").prefixes)
    standard = set(prefixes.values())
    entity = tuple(space for space in nodes if space not in standard)[:1]
    theirs = [s for s in sorted(relations, key=lambda s: -relations[s]) if s not in standard]
    # Bare relation ids are safe only where no node's id could be meant by them.
    shared = theirs and (theirs[0] in entity or not (theirs[0] in nodes or theirs[0] in objects))
    by_space = {space: prefix for prefix, space in declared.items() if prefix}
    for space in dict.fromkeys([*nodes, *relations, *objects]):
        if space in standard or space.startswith(BLANK):
            continue
        wish = by_space.get(space) or re.sub(r"\W+", "", shapes.local_name(space)).lower()[:12] or "ns"
        wish = wish if wish[0].isalpha() else f"ns{wish}"
        name, number = wish, 2
        while name in prefixes or name in ("http", "https", "urn"):
            name, number = f"{wish}{number}", number + 1
        prefixes[name] = space
    return entity, (theirs[0],) if shared else (), prefixes


def _namespace_counts(select: Select, pattern: str, variable: str = "?s") -> dict[str, int]:
    """How many of a sample of nodes each namespace holds, most first."""
    sample = f"SELECT DISTINCT {variable} WHERE {{ {pattern} }} LIMIT {_SAMPLE}"
    group = f"{{ {sample} }} FILTER(isIRI({variable})) BIND({_SPACE.format(variable)} AS ?space)"
    counted = f"SELECT ?space (COUNT(*) AS ?n) WHERE {{ {group} }} GROUP BY ?space"
    rows = select(f"{counted} ORDER BY DESC(?n) LIMIT 60")
    return {space.value: int(_number(n)) for space, n in rows if space is not None and ":" in space.value}


def _unlabelled_are_mediators(select: Select, labels: tuple[str, ...], kind: str) -> bool:
    """Whether some classes never have labels, nor ids that are names, while most others nearly always do."""
    label = "|".join(f"<{p}>" for p in labels)
    nodes = f"?s <{kind}> ?c FILTER(!STRSTARTS(STR(?s), '{BLANK}'))"
    group = f"{nodes} OPTIONAL {{ ?s {label} ?l BIND(?s AS ?named) }}"
    counts = "?c (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT ?named) AS ?m)"
    rows = select(f"SELECT {counts} WHERE {{ {group} }} GROUP BY ?c LIMIT 2000")
    shares = [(_number(m) / _number(n), _number(n)) for c, n, m in rows if _number(n)]
    total = sum(n for _, n in shares)
    named = sum(n for share, n in shares if share >= 0.9)
    nameless = sum(n for share, n in shares if share == 0)
    if not (nameless > 0 and named + nameless >= 0.8 * total and named > nameless * 0.2):
        return False
    return not _ids_are_names(select, f"?node <{kind}> ?c FILTER NOT EXISTS {{ ?node {label} ?l }}")


def _number(term: Term | None) -> float:
    return float(term.value) if isinstance(term, Literal) else 0.0
