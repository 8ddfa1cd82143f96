"""SPARQL as a model or a person writes it: ids in short forms, prefixes supplied; and what it is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ActionError, ConfigurationError, KGUnavailableError
from triplewise.tools.core.terms import IRI, Literal, Node, Term, Variable, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import node_labels
from triplewise.tools.pyql.program import Fact
from triplewise.tools.pyql.sparql import STANDARD

_PARSER = Lock()  # rdflib's parser is one for all threads, and two that parse at once fail
_SHORT = re.compile(r"(?<![\w<:/\"'])(?P<kind>[er]):(?P<id>[^\s;,(){}|/^*+?\"'<>]*[^\s;,(){}|/^*+?\"'<>.])")
_PREFIXED = re.compile(r"(?<![\w<:/\"'?])(?P<prefix>[A-Za-z][\w-]*):(?=[A-Za-z_\d])")
_DECLARED = re.compile(r"(?i)(?<![\w?$:])PREFIX\s+([\w-]*)\s*:")
_STRINGS = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|<[^<>\s]*>)")


def read_sparql(written: str, profile: Profile) -> str:
    """Return SPARQL that any engine reads: `e:ID` and `r:ID` stand for the IRIs of short ids.

    Prefixes of the profile and the usual ones need no declaration. Raises `bad_sparql` for an unknown id.
    """

    def iri(match: re.Match[str]) -> str:
        found = profile.expand(match["id"], relation=match["kind"] == "r")
        if found is None:
            raise ActionError("bad_sparql", f"{match[0]} is not an id of this graph", given=match[0])
        return found.n3()

    # Every other part is a string or an IRI, in which nothing is replaced.
    parts = _STRINGS.split(written)
    whole = "".join(part if i % 2 else _SHORT.sub(iri, part) for i, part in enumerate(parts))
    bare, legal = "".join(_STRINGS.split(whole)[::2]), {**STANDARD, **profile.prefixes}
    declared = {name.lower() for name in _DECLARED.findall(bare)}
    used = dict.fromkeys(_PREFIXED.findall(bare))
    header = [f"PREFIX {p}: <{legal[p]}>\n" for p in used if p in legal and p.lower() not in declared]
    return "".join(header) + whole.strip()


def run_query(
    kg: KnowledgeGraph, written: str, *, timeout: float, limit: int, exact: bool = False
) -> dict[str, Any]:
    """Run a query by hand; return `boolean`, or `variables` and `rows` of (variable -> term).

    A term has `value`, `id` and `label`; `exact` gives literals as the graph has them. `notice` says what is
    missing. Raises `ConfigurationError` (not valid) or `KGUnavailableError` (no answer in time).
    """
    try:
        query = read_sparql(written, kg.profile)
    except ActionError as error:
        raise ConfigurationError(str(error)) from error
    result = kg.query(query, timeout=timeout, limit=limit, foreign=True)
    if not result.outcome.ok:
        kind = ConfigurationError if result.outcome is Outcome.SYNTAX else KGUnavailableError
        raise kind(f"{kg.name}: {result.message}")
    cut = result.message if result.outcome is Outcome.TRUNCATED else ""
    about = {"notice": notice} if (notice := "; ".join(filter(None, (cut, kg.silence)))) else {}
    if result.boolean is not None:
        return {"boolean": result.boolean, **about}
    terms = {term for row in result.rows for term in row if term is not None}
    labels, short = node_labels(kg, terms, exact=exact), kg.profile.short
    ids = {t: short(t) if isinstance(t, IRI) else t.value for t in terms}
    values = {t: {"value": t.value, "id": ids[t], "label": labels[t]} for t in terms}
    named = [zip(result.variables, row, strict=True) for row in result.rows]
    rows = [{v: values[t] for v, t in row if t is not None} for row in named]
    return {"variables": list(result.variables), "rows": rows, **about}


class QueryParts(NamedTuple):
    """What a query is made of: the triple patterns outside of negations, as facts to instantiate (none for a
    path), all IRIs and literals, and the names of its operations in the algebra, comparisons by their sign.
    """

    patterns: list[Fact]
    terms: list[Term]
    operations: set[str]
    factless: bool  # no pattern asks the graph for anything


def parts_of(sparql: str) -> QueryParts:
    """Return what a query is made of; nothing of one that rdflib cannot parse."""
    import rdflib
    from rdflib.plugins.sparql.algebra import translateQuery, traverse
    from rdflib.plugins.sparql.parser import parseQuery

    found, terms, operations, rest = list[Fact](), dict[Term, None](), set[str](), list[object]()

    def term_of(part: object) -> Node | None:
        match part:
            case rdflib.Variable() | rdflib.BNode():
                return Variable(re.sub(r"\W", "_", str(part)))
            case rdflib.URIRef():
                return IRI(str(part))
            case rdflib.Literal(datatype=None):
                return text(str(part), part.language or "")
            case rdflib.Literal():
                return Literal(str(part), str(part.datatype))
        return None  # a path

    def visit(node: object) -> None:
        name = getattr(node, "name", "")
        operations.add(node.op if name == "RelationalExpression" else name)  # type: ignore[attr-defined]
        if isinstance(term := term_of(node), IRI | Literal):
            terms[term] = None
        elif name == "BGP":
            rest.extend(node.triples)  # type: ignore[attr-defined]
            for triple in node.triples:  # type: ignore[attr-defined]
                subject, relation, end = map(term_of, triple)
                if isinstance(subject, IRI | Variable) and isinstance(relation, IRI) and end is not None:
                    found.append(Fact(subject, relation, end))

    try:
        with _PARSER:
            algebra = translateQuery(parseQuery(sparql)).algebra
        traverse(algebra, visitPost=visit)
    except Exception:  # noqa: BLE001 - rdflib raises what it likes; without patterns there is no proof
        return QueryParts([], [], set(), False)
    return QueryParts(list(dict.fromkeys(found)), list(terms), operations, not rest)


def proof_sparql(patterns: Sequence[Fact]) -> str:
    """Return the query whose rows instantiate patterns (`sparql.instantiate`)."""
    lines = " . ".join(f"{t.subject.n3()} {t.relation.n3()} {t.object.n3()}" for t in patterns)
    return f"SELECT * WHERE {{ {lines} }}"
