"""Gold queries as the steps of an ideal agent: look up, add a fact, ..., set the answer, execute."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from rdflib import BNode, URIRef
from rdflib import Literal as RdfLiteral
from rdflib import Variable as RdfVariable
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery

from triplewise.evals.bench import gold_programs
from triplewise.tools.core.terms import IRI, Literal, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.text import write_iri, write_node

OPERATORS = {"=", "!=", "<", ">", "<=", ">="}
TYPE = "http://rdf.freebase.com/ns/type.object.type"
METAQA = {**gold_programs.METAQA, "tag": "has_tags"}


class UnreadError(Exception):
    """A gold query of a form that is not turned into steps here."""


@dataclass
class Gold:
    """One gold query: what it is made of, as PyQL forms."""

    question: str
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    types: list[tuple[str, str]] = field(default_factory=list)
    filters: list[tuple[str, str, str]] = field(default_factory=list)
    counted: str = ""
    answer: tuple[str, ...] = ()
    hidden: set[str] = field(default_factory=set)
    linked: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """Entities and literals that facts and filters name."""
        ends = [end for s, _, o in self.facts for end in (s, o)]
        return list(dict.fromkeys(e for e in ends if not e.startswith("?")))

    def steps(self) -> Iterator[str]:
        """The calls, each after what it builds on. Raises `UnreadError` if a part hangs on nothing known."""
        looked_up: set[str] = set()
        bound: set[str] = set()
        if not (self.counted or self.answer):
            yield "ask()"
        # What get_relation never offers is not where an agent would begin.
        rest = sorted(self.facts, key=lambda fact: fact[1] in self.hidden)
        while rest:
            fact = self._next(rest, bound)
            rest.remove(fact)
            subject, relation, object_ = fact
            if (self.counted or self.answer) and not {subject[0], object_[0]} & {"?"}:
                raise UnreadError("a fact that asks for nothing")
            anchor = next(e for e in (subject, object_) if e in bound or not e.startswith("?"))
            if not bound and relation in self.hidden:
                raise UnreadError("begins with a relation that is never offered")
            if anchor not in looked_up:
                yield f"get_relation({anchor})"
                looked_up.add(anchor)
            yield f"add_fact({subject}, {relation}, {object_})"
            bound |= {e for e in (subject, object_) if e.startswith("?")}
        yield from (f"add_type({v}, {t})" for v, t in self.types if v in bound)
        for left, operator, right in self.filters:
            if not {e for e in (left, right) if e.startswith("?")} <= bound:
                raise UnreadError("a comparison of what no fact binds")
            yield f"add_filter({left}, {operator}, {right})"
        yield from self._end()

    def _next(self, rest: Iterable[tuple[str, str, str]], bound: set[str]) -> tuple[str, str, str]:
        """A fact that hangs on something known: on a variable if there is one, so that the chain goes on."""

        def known(fact: tuple[str, str, str]) -> int:
            ends = (fact[0], fact[2])
            return 2 if bound & set(ends) else 1 if any(not e.startswith("?") for e in ends) else 0

        # The first of the best: those that are hidden stand last.
        best = max(rest, key=known)
        if not known(best):
            raise UnreadError("a fact that hangs on nothing")
        return best

    def _end(self) -> Iterator[str]:
        if self.counted:
            yield f"add_count({self.counted}, ?number)"
            yield "set_answer(?number)"
        elif self.answer:
            yield f"set_answer({', '.join(self.answer)})"
        yield "execute()"


class _Reader:
    """Reads the algebra of one query."""

    def __init__(self, gold: Gold, profile: Profile) -> None:
        self.gold, self.profile = gold, profile
        self.same: dict[str, str] = {}
        self.fresh = 0

    def query(self, sparql: str) -> Gold:
        """Fill the gold with what a query says."""
        try:
            algebra = translateQuery(parseQuery(sparql)).algebra
        except Exception as error:  # rdflib raises what it likes on what it cannot read
            raise UnreadError(str(error)) from error
        self.walk(algebra)
        gold = self.gold
        if algebra.name == "SelectQuery" and not gold.counted:
            gold.answer = tuple(dict.fromkeys(self.term(v) for v in algebra.PV))
        swap = self.same
        gold.facts = [(swap.get(s, s), r, swap.get(o, o)) for s, r, o in gold.facts]
        gold.filters = [(swap.get(a, a), op, swap.get(b, b)) for a, op, b in gold.filters]
        gold.filters = [f for f in gold.filters if f[0].startswith("?") or f[2].startswith("?")]
        gold.answer = tuple(swap.get(v, v) for v in gold.answer)
        return gold

    def walk(self, node: Any) -> None:
        """One node of the algebra and what is below it."""
        match node.name:
            case "SelectQuery" | "AskQuery" | "Distinct" | "Project" | "Group":
                self.walk(node.p)
            case "Join":
                self.walk(node.p1)
                self.walk(node.p2)
            case "BGP":
                for subject, path, object_ in node.triples:
                    self.path(self.term(subject), path, self.term(object_))
            case "Filter":
                self.walk(node.p)
                self.condition(node.expr)
            case "ToMultiSet":
                self.values(node)
            case "Extend":
                self.walk(node.p)
                if not isinstance(node.expr, RdfVariable):
                    raise UnreadError("a computed value")
                self.same[self.term(node.var)] = self.same.get(self.term(node.expr), self.term(node.expr))
            case "AggregateJoin":
                self.count(node)
            case _:
                raise UnreadError(node.name)

    def values(self, node: Any) -> None:
        """VALUES with one constant, or a subquery."""
        if node.p.name != "values":
            self.walk(node.p)
            return
        if len(node.p.res) != 1:
            raise UnreadError("several values")
        for variable, value in node.p.res[0].items():
            self.same[self.term(variable)] = self.term(value)

    def count(self, node: Any) -> None:
        self.walk(node.p)
        counts = [a for a in node.A if a.name == "Aggregate_Count"]
        if len(counts) != 1 or not isinstance(counts[0].vars, RdfVariable):
            raise UnreadError("an aggregate")
        self.gold.counted = self.term(counts[0].vars)

    def path(self, subject: str, path: Any, object_: str) -> None:
        """A relation, or a sequence of relations with new variables between them."""
        if isinstance(path, URIRef):
            self.fact(subject, str(path), object_)
            return
        args = list(getattr(path, "args", ()))
        kinds = self.profile.type_predicates
        if len(args) == 2 and str(args[0]) in kinds and getattr(args[1], "mod", "") == "*":
            self.typed(subject, object_)
            return
        if type(path).__name__ != "SequencePath" or not all(isinstance(a, URIRef) for a in args):
            raise UnreadError("a path")
        ends = [subject]
        for _ in args[1:]:
            self.fresh += 1
            ends.append(f"?between{self.fresh}")
        for start, relation, end in zip(ends, args, [*ends[1:], object_], strict=True):
            self.fact(start, str(relation), end)

    def fact(self, subject: str, relation: str, object_: str) -> None:
        if relation == TYPE:
            self.typed(subject, object_)
        else:
            short = write_iri(IRI(relation), self.profile, True)
            self.gold.facts.append((subject, short, object_))
            if self.profile.excludes(IRI(relation)):
                self.gold.hidden.add(short)

    def typed(self, subject: str, type_: str) -> None:
        if not subject.startswith("?") or type_.startswith("?"):
            raise UnreadError("a type that is not given")
        self.gold.types.append((subject, type_))

    def condition(self, node: Any) -> None:
        """The comparisons of a filter; what only chooses languages of literals says nothing."""
        name = getattr(node, "name", "")
        if name == "ConditionalAndExpression":
            for part in (node.expr, *node.other):
                self.condition(part)
        elif name == "RelationalExpression" and node.op in OPERATORS:
            self.gold.filters.append((self.term(node.expr), node.op, self.term(node.other)))
        elif not re.search("lang(matches)?", str(node), re.IGNORECASE):
            raise UnreadError(name or "a condition")

    def term(self, node: Any) -> str:
        """A term as PyQL writes it."""
        if isinstance(node, RdfVariable):
            return f"?{node}"
        if isinstance(node, BNode):
            return f"?blank_{re.sub(r'[^0-9A-Za-z_]', '_', str(node))[-8:]}"
        if isinstance(node, URIRef):
            return write_iri(IRI(str(node)), self.profile)
        if isinstance(node, RdfLiteral):
            literal = Literal(str(node), str(node.datatype)) if node.datatype else text(str(node))
            return write_node(literal, self.profile)
        raise UnreadError(type(node).__name__)


def read_gold(question: str, sparql: str, profile: Profile) -> Gold:
    """What a gold query is made of. Raises `UnreadError` for forms that are not turned into steps here."""
    return _Reader(Gold(question), profile).query(sparql)


def metaqa_gold(record: Mapping[str, Any]) -> Gold:
    """A question of MetaQA: its type is the gold relation path."""
    kinds = record["qtype"].split("_to_")
    gold = Gold(record["question"], linked={record["topic_entity"]: record["topic_entity"]})
    ends = [_named(record["topic_entity"]), *(f"?{kind}{i}" for i, kind in enumerate(kinds[1:], 1))]
    for i, (start, kind) in enumerate(pairwise(kinds)):
        if start == "movie":
            gold.facts.append((ends[i], METAQA[kind], ends[i + 1]))
        else:
            gold.facts.append((ends[i + 1], METAQA[start], ends[i]))
    middle = [e for i, e in enumerate(ends) if i and (len(kinds) - i) % 2 == 1 and kinds[i] == kinds[0]]
    gold.filters = [(e, "!=", ends[0]) for e in middle]
    gold.answer = (ends[-1],)
    return gold


def _named(name: str) -> str:
    """A name as an argument: quoted where commas or brackets would tear it."""
    return f'"{name}"' if re.search(r"[,()\[\]{}]", name) else name


def records(folder: Path, file: str, seed: int = 0) -> list[dict[str, Any]]:
    """The records of a question file that the graph answers exactly, shuffled."""
    with gzip.open(folder / file, "rt", encoding="utf-8") as stream:
        found = [json.loads(line) for line in stream]
    found = [r for r in found if r.get("kg_exact", True)]
    Random(seed).shuffle(found)
    return found
