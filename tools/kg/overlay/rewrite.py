"""SPARQL over a KG and facts beside it, as SPARQL over the KG alone (SymAgent 4.2.1).

Every triple pattern that such a fact can match becomes a union of itself with the rows of these facts:
`{ ?film <director> ?who } UNION { VALUES (?film ?who) { (<a> <b>) } }`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal as OneOf
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, RDF, Literal, Node, Term, Triple, Variable
from triplewise.tools.kg.engine import ReadQuery, Token, read_query, variable_names
from triplewise.tools.kg.literals import canonical
from triplewise.tools.kg.rdf import parse_term

ROWS = 500  # that a VALUES block, or a way to meet a NOT EXISTS, holds: Virtuoso fails to compile thousands
NEGATED = 3  # patterns that facts may match in one NOT EXISTS
_KEYWORDS = ("FILTER", "OPTIONAL", "MINUS", "BIND", "VALUES", "GRAPH", "SERVICE", "SELECT")
_ESCAPED_NAME = re.compile(r"\\(.)")


class UnreadableQuery(ValueError):  # noqa: N818 - it says what happened to the text
    """A query with a part that cannot be rewritten; the message names the part."""


@dataclass(frozen=True, slots=True)
class Path:
    """A property path (SPARQL 1.1, section 9): a sequence or choice of parts, or a mark on one part."""

    kind: OneOf["/", "|", "^", "*", "+", "?"]
    parts: tuple[Predicate, ...]

    def n3(self) -> str:
        """The path as SPARQL writes it."""
        inner = [f"({p.n3()})" if isinstance(p, Path) else p.n3() for p in self.parts]
        if self.kind == "^":
            return f"^{inner[0]}"
        return self.kind.join(inner) if self.kind in "/|" else inner[0] + self.kind


Predicate: TypeAlias = IRI | Variable | Path
# What a `*` path joins with a node only by way of the facts: (path, node, whether the node is its end).
Reach: TypeAlias = Callable[[Path, Term, bool], Iterable[Term]]
# The values that variables can have at most, where a VALUES block before says so.
Allowed: TypeAlias = Mapping[Variable, frozenset[Term]]
Row: TypeAlias = Mapping[Variable, Term]


def relations_of(predicate: Predicate) -> frozenset[IRI]:
    """The relations that a predicate names; none for a variable."""
    if isinstance(predicate, Path):
        return frozenset().union(*map(relations_of, predicate.parts))
    return frozenset([predicate]) if isinstance(predicate, IRI) else frozenset()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One triple pattern."""

    subject: Node
    predicate: Predicate
    object: Node

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables, in order."""
        parts = (self.subject, self.predicate, self.object)
        return tuple(dict.fromkeys(p for p in parts if isinstance(p, Variable)))

    def n3(self) -> str:
        """The pattern as SPARQL writes it."""
        return f"{self.subject.n3()} {self.predicate.n3()} {self.object.n3()}"


class FactIndex:
    """The triples of an overlay by any of their parts, each once, in the order given."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self.triples: tuple[Triple, ...] = tuple(dict.fromkeys(triples))
        self.relations = frozenset(t.relation for t in self.triples)
        self._by_part: tuple[dict[Term, list[Triple]], ...] = ({}, {}, {})
        for triple in self.triples:
            for index, part in zip(self._by_part, _parts(triple), strict=True):
                index.setdefault(_key(part), []).append(triple)

    def __len__(self) -> int:
        return len(self.triples)

    def of(self, relation: IRI) -> Sequence[Triple]:
        """Return the triples of one relation."""
        return self._by_part[1].get(relation, ())

    def at(self, node: Term) -> list[Triple]:
        """Return the triples that leave or arrive at a node, each once."""
        by_subject, _, by_object = (index.get(_key(node), ()) for index in self._by_part)
        return list(dict.fromkeys([*by_subject, *by_object]))

    def rows(self, pattern: Pattern, allowed: Allowed) -> list[Row]:
        """Return the bindings of a pattern without a path, one for each triple that it matches."""
        nodes = (pattern.subject, pattern.predicate, pattern.object)
        triples: Sequence[Triple] = self.triples
        values: list[frozenset[Term] | None] = []  # what may stand at each place; None for anything
        for index, node in zip(self._by_part, nodes, strict=True):
            assert not isinstance(node, Path), "paths are taken apart before"
            at_place = allowed.get(node) if isinstance(node, Variable) else {node}
            values.append(None if at_place is None else frozenset(map(_key, at_place)))
            if at_place is not None and len(at_place) == 1:
                triples = min(triples, index.get(_key(next(iter(at_place))), []), key=len)
        rows: list[Row] = []
        for triple in triples:
            parts = _parts(triple)
            if all(v is None or _key(part) in v for part, v in zip(parts, values, strict=True)):
                row: dict[Node | Path, Term] = {}
                if all(row.setdefault(node, part) == part for node, part in zip(nodes, parts, strict=True)):
                    rows.append({v: row[v] for v in pattern.variables})
        return rows


def _key(term: Term) -> Term:
    """A literal as engines hold it: by value, whatever kind of integer and however it is written."""
    return canonical(term.value, term.datatype, term.language) if isinstance(term, Literal) else term


def _parts(triple: Triple) -> tuple[Term, Term, Term]:
    return triple.subject, triple.relation, triple.object


def rewrite(sparql: str, facts: FactIndex, reach: Reach, apart: bool) -> str:
    """The query with the facts in it; unchanged where none of them can matter.

    Args:
        sparql: one SELECT or ASK.
        facts: triples that the KG does not hold, so that every solution is found once. reach: asks what `*`
            paths reach by way of them.
        apart: write rows of facts in subselects. Endpoints need that: Virtuoso 7.2.5 loses rows of a union
            otherwise. An engine in the process must not have it: pyoxigraph would read whole relations to
            join a subselect.

    Raises:
        Refused: the text is no SELECT or ASK.
        UnreadableQuery: it holds a `+`, `?` or negated path over a relation of these facts, a `*` path
            between two variables, GRAPH, FROM, BASE, blank nodes or collections.
    """
    query = read_query(sparql)
    if not len(facts):
        return sparql
    try:
        return _Rewriter(query, facts, reach, apart).rewrite()
    except UnreadableQuery:
        raise
    except (IndexError, ValueError) as error:  # a query that ends too early, a term that is none
        raise UnreadableQuery(str(error)) from error


class _Rewriter:
    """Walks the groups of one query, token by token, and writes the patterns anew that facts can match."""

    def __init__(self, query: ReadQuery, facts: FactIndex, reach: Reach, apart: bool) -> None:
        self.query, self.tokens, self.at = query, query.tokens, 0
        self.facts, self.reach, self.apart = facts, reach, apart
        self.prefixes: dict[str, str] = {}
        self.variables = set(variable_names(query.text))
        self.allowed: dict[Variable, frozenset[Term]] = {}
        self.edits: list[tuple[int, int, str]] = []  # in order: start, end, what stands there instead

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def accept(self, *texts: str) -> bool:
        """Step over a token, if it is one of these."""
        matches = self.token.text in texts
        self.at += matches
        return matches

    def rewrite(self) -> str:
        while self.token.keyword not in ("SELECT", "ASK"):
            if self.token.keyword == "BASE":
                raise UnreadableQuery("BASE")
            if self.token.keyword == "PREFIX":
                self.prefixes[self.tokens[self.at + 1].text] = self.tokens[self.at + 2].text[1:-1]
            self.at += 1
        self.select()
        text = self.query.text
        for start, end, written in reversed(self.edits):
            text = text[:start] + written + text[end:]
        return text

    def select(self) -> None:
        """A SELECT or ASK with its group, up to its modifiers."""
        depth, everything, variables = self.token.depth, False, len(self.variables)
        while self.token.text != "{" or self.token.depth != depth:
            if self.token.keyword == "FROM":
                raise UnreadableQuery("FROM")
            everything |= self.token.text == "*" and self.token.depth == depth
            self.at += 1
        self.group()
        if everything and len(self.variables) > variables:
            raise UnreadableQuery("SELECT * with a path over facts")

    def group(self) -> None:
        depth, outer = self.token.depth, self.allowed
        self.at += 1
        if self.token.keyword == "SELECT":
            self.allowed = {}
            self.select()
            while self.token.text != "}" or self.token.depth != depth:
                self.at += 1  # GROUP BY, ORDER BY, LIMIT
        else:
            self.allowed = dict(outer)
            while self.token.text != "}":
                self.item()
        self.at += 1
        self.allowed = outer

    def item(self) -> None:
        word = self.token.keyword
        if self.token.text == "{":
            self.group()
        elif word in ("UNION", "OPTIONAL", "MINUS"):
            self.at += 1
            self.group()
        elif word == "FILTER" and self.not_exists():
            pass
        elif word in ("FILTER", "BIND"):
            self.at += 1
            self.expression()
        elif word == "VALUES":
            self.at += 1
            self.values()
        elif word in ("GRAPH", "SERVICE"):
            raise UnreadableQuery(word)
        elif not self.accept("."):
            self.triples()

    def expression(self) -> None:
        """An expression in brackets, a function call, or EXISTS with its group."""
        while self.token.text not in ("(", "{"):
            self.at += 1
        if self.token.text == "{":
            self.group()
            return
        depth = self.token.depth
        self.at += 1
        while self.token.depth > depth:
            if self.token.text == "{":
                self.group()
            else:
                self.at += 1
        self.at += 1

    def not_exists(self) -> bool:
        """FILTER NOT EXISTS of triples alone, each way to meet them apart; False where it is anything else.

        Virtuoso 7.2.5 loses rows of a union inside of EXISTS, or refuses the query.
        """
        first = self.at
        if [t.keyword for t in self.tokens[first + 1 : first + 3]] != ["NOT", "EXISTS"]:
            return False
        patterns: list[Pattern] = []
        self.at += 4
        while self.token.text != "}":
            if self.token.text in ("{", "(", "[") or self.token.keyword in _KEYWORDS:
                self.at = first
                return False
            if not self.accept("."):
                patterns += self.read_triples()
        others = (*self.tokens[:first], *self.tokens[self.at :])
        outside = {Variable(t.text[1:]) for t in others if t.kind == "variable"}
        if (filters := _negations(patterns, self.facts, self.allowed, outside)) is None:
            self.at = first
            return False
        if filters:
            own = f"FILTER NOT EXISTS {{ {' . '.join(p.n3() for p in patterns)} }}"
            self.edits.append((self.tokens[first].start, self.token.start + 1, " ".join([own, *filters])))
        self.at += 1
        return True

    def values(self) -> None:
        """A block of values: each of its variables can have only those of its column."""
        names: list[Variable] = []
        while not self.accept("{"):
            if self.token.kind == "variable":
                names.append(Variable(self.token.text[1:]))
            self.at += 1
        cells: list[Node | None] = []
        while not self.accept("}"):
            if self.token.keyword == "UNDEF":
                cells.append(None)
                self.at += 1
            elif not self.accept("(", ")"):
                cells.append(self.read_node())
        for i, name in enumerate(names):
            column = cells[i :: len(names)]
            if None not in column:
                terms = frozenset(t for t in column if t is not None and not isinstance(t, Variable))
                self.allowed[name] = self.allowed.get(name, terms) & terms

    def triples(self) -> None:
        """The triples of one subject."""
        start = self.token.start
        patterns = self.read_triples()
        written = [self.write(p) for p in patterns]
        if written != [f"{p.n3()} ." for p in patterns]:
            # The dot that ended the triples may stay: it may follow a group, but no other dot.
            last = self.tokens[self.at - 1]
            self.edits.append((start, last.start + len(last.text), " ".join(written).removesuffix(" .")))

    def read_triples(self) -> list[Pattern]:
        """The patterns of one subject, whose predicates and objects are parted by semicolons and commas."""
        patterns: list[Pattern] = []
        subject = self.read_node()
        while True:
            node = self.read_node() if self.token.kind == "variable" else None
            predicate = node if isinstance(node, Variable) else self.read_path()
            patterns.append(Pattern(subject, predicate, self.read_node()))
            while self.accept(","):
                patterns.append(Pattern(subject, predicate, self.read_node()))
            if not self.accept(";"):
                return patterns
            while self.accept(";"):
                pass
            if self.token.text in (".", "}"):
                return patterns

    def read_node(self) -> Node:
        """A variable, IRI or literal; blank nodes and collections are not read."""
        token = self.token
        if token.kind == "variable":
            self.at += 1
            return Variable(token.text[1:])
        if token.kind in ("iri", "name") or token.text == "a":
            return self.read_iri()
        written = token.text
        self.at += 1
        if token.kind == "string":
            if self.at < len(self.tokens) and self.token.kind == "language":
                written += self.token.text
                self.at += 1
            elif [t.text for t in self.tokens[self.at : self.at + 2]] == ["^", "^"]:
                self.at += 2
                written += f"^^{self.read_iri().n3()}"
        elif token.text in ("+", "-") and self.token.kind == "number":
            written += self.token.text
            self.at += 1
        elif token.kind != "number" and token.text not in ("true", "false"):
            raise UnreadableQuery(token.text)
        return parse_term(written)  # SPARQL writes literals as Turtle does

    def read_iri(self) -> IRI:
        token = self.token
        self.at += 1
        if token.kind == "iri":
            return IRI(token.text[1:-1])
        if token.text == "a":
            return IRI(RDF + "type")
        prefix, _, local = token.text.partition(":")
        if token.kind != "name" or prefix == "_" or f"{prefix}:" not in self.prefixes:
            raise UnreadableQuery(token.text)
        return IRI(self.prefixes[f"{prefix}:"] + _ESCAPED_NAME.sub(r"\1", local))

    def read_path(self, kind: OneOf["|", "/"] = "|") -> Predicate:
        """A choice of sequences, or a sequence of elements."""
        parts: list[Predicate] = []
        while not parts or self.accept(kind):
            parts.append(self.read_path("/") if kind == "|" else self.read_element())
        return parts[0] if len(parts) == 1 else Path(kind, tuple(parts))

    def read_element(self) -> Predicate:
        """A relation or a path in brackets, perhaps inverted and repeated."""
        if self.accept("^"):
            return Path("^", (self.read_element(),))
        if self.accept("("):
            part = self.read_path()
            self.at += 1
        else:
            part = self.read_iri()
        for mark in ("*", "+", "?"):
            if self.accept(mark):
                return Path(mark, (part,))
        return part

    def write(self, pattern: Pattern) -> str:
        """A pattern with the facts in it; as it is, with a dot, where they cannot match."""
        path, own = pattern.predicate, f"{pattern.n3()} ."
        if not isinstance(path, Path):
            rows = self.facts.rows(pattern, self.allowed)
            return _union(pattern, rows, self.apart) if rows else own
        ends = [end for end in (pattern.subject, pattern.object) if not isinstance(end, Variable)]
        # Engines end a `*` path only at nodes that they know.
        new_end = path.kind == "*" and any(self.facts.at(end) for end in ends)
        if not new_end and relations_of(path).isdisjoint(self.facts.relations):
            return own
        if path.kind == "^":
            return self.write(Pattern(pattern.object, path.parts[0], pattern.subject))
        if path.kind == "|":
            sides = (self.write(Pattern(pattern.subject, part, pattern.object)) for part in path.parts)
            return " UNION ".join(f"{{ {side} }}" for side in sides)
        if path.kind == "/":
            nodes = [pattern.subject, *(self.new_variable() for _ in path.parts[1:]), pattern.object]
            links = zip(nodes, path.parts, nodes[1:], strict=False)
            return " ".join(self.write(Pattern(*link)) for link in links)
        if path.kind != "*" or not ends:
            raise UnreadableQuery(f"a {path.kind} path over facts" + ("" if ends else " between variables"))
        backward = isinstance(pattern.subject, Variable)
        near, far = (pattern.object, pattern.subject) if backward else (pattern.subject, pattern.object)
        assert not isinstance(near, Variable)
        reached = list(self.reach(path, near, backward))
        if not isinstance(far, Variable):
            return "{ }" if far in reached else own
        return _union(pattern, [{far: term} for term in reached], self.apart) if reached else own

    def new_variable(self) -> Variable:
        """A variable that the query does not use."""
        number = len(self.variables)
        while (name := f"via_{number}") in self.variables:
            number += 1
        self.variables.add(name)
        return Variable(name)


def _union(pattern: Pattern, rows: Sequence[Row], apart: bool) -> str:
    """A pattern or one of some rows; the empty group where no variable is left to bind: then it holds."""
    if not rows[0]:
        return "{ }"
    names = " ".join(v.n3() for v in rows[0])
    branches = [f"{{ {pattern.n3()} }}"]
    for start in range(0, len(rows), ROWS):
        block = " ".join(f"({' '.join(t.n3() for t in r.values())})" for r in rows[start : start + ROWS])
        values = f"VALUES ({names}) {{ {block} }}"
        branches.append(f"{{ SELECT {names} WHERE {{ {values} }} }}" if apart else f"{{ {values} }}")
    return " UNION ".join(branches)


def _negations(
    patterns: Sequence[Pattern], facts: FactIndex, allowed: Allowed, outside: Collection[Variable]
) -> list[str] | None:
    """The filters to add to `FILTER NOT EXISTS { patterns }`; [] if no fact can match one of them.

    `{ A . B }` exists if the KG meets both, or the KG one and a fact the other, or facts both. A way with
    facts is a condition on variables, those `outside` too. None where it cannot be written so.
    """
    if any(isinstance(p.predicate, Path) and relations_of(p.predicate) & facts.relations for p in patterns):
        return None
    rows = [[] if isinstance(p.predicate, Path) else facts.rows(p, allowed) for p in patterns]
    touched = [i for i, matches in enumerate(rows) if matches]
    if len(touched) > NEGATED:
        return None
    filters = []
    for chosen in (c for size in range(1, len(touched) + 1) for c in combinations(touched, size)):
        joined: list[Row] = [{}]  # rows that agree, one of each pattern
        for i in chosen:
            pairs = ((a, b) for a in joined for b in rows[i])
            joined = [{**a, **b} for a, b in pairs if all(a[v] == b[v] for v in a.keys() & b.keys())]
        if len(joined) > ROWS:
            return None
        if not joined:
            continue
        others = [p for i, p in enumerate(patterns) if i not in chosen]
        bound = {v for p in others for v in p.variables}
        needed = (tuple((v, t) for v, t in row.items() if v in bound or v in outside) for row in joined)
        condition = " || ".join(_equal(row, bound) for row in dict.fromkeys(needed))
        left = " . ".join(p.n3() for p in others)  # to the KG
        filters.append(
            f"FILTER NOT EXISTS {{ {left} FILTER({condition}) }}" if others else f"FILTER(!({condition}))"
        )
    return filters


def _equal(row: Iterable[tuple[Variable, Term]], bound: Collection[Variable]) -> str:
    """That the variables have the values of a row; one that is not bound may have any."""
    parts = []
    for variable, term in row:
        name = variable.n3()
        equal = f"{name} = {term.n3()}" if isinstance(term, IRI) else f"sameTerm({name}, {term.n3()})"
        parts.append(equal if variable in bound else f"(!BOUND({name}) || {equal})")
    return f"({' && '.join(parts) or 'true'})"
