"""Query trees as PyQL programs.

A program is carried out clause by clause: what names an entity comes before what names a class. A superlative
is that of all solutions before it, so its set is built on variables of its own, and met with the rest later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.parsing import query as q
from triplewise.tools.parsing.denotation import backwards, members
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.pyql.program import Fact, Filter, Kind, Pattern, PatternItem, PyQL, fresh
from triplewise.tools.pyql.text import is_computable, read_bare

OPERATORS: dict[q.Comparison, str] = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "="}
RANKS = 5  # the largest rank ("the third longest": 3) that is written, as nested superlatives
_NUMERIC = frozenset(XSD + t for t in ("integer", "decimal", "double", "float", "int", "long"))
_DAYS = (frozenset({XSD + "date"}), frozenset({XSD + "dateTime"}))
_NAME = re.compile(r"[^a-z0-9]+")
_RESERVED = frozenset({"a", "entity", "union", "max", "min"})


def compile_query(query: q.Query, index: GraphIndex, profile: Profile) -> PyQL:
    """Return the program that computes a query tree on the graph. Raises `ActionError`: PyQL has none."""
    writer = _Writer(index, profile)
    match query:
        case q.Exists(of):
            writer.exists(of)
            return writer.program.ask()
        case q.Count(of):
            counted = writer.variable(of)
            output = writer.fresh("count")
            writer.program = writer.program.add_count(counted, output)
        case q.Aggregate(function, path, of):
            end = writer.walk_from(of, path)
            output = writer.fresh(f"{function}_{end.name}" if isinstance(end, Variable) else function)
            writer.program = writer.program.add_aggregate(function, end, output, None, writer.kind(path))
        case q.Grouped(function, path, of, to):
            member = writer.fresh(writer.name(of))
            output = writer.group(function, of, path, to, member)
            return writer.program.set_answer(member, output)
        case q.Extremal(of, path, sign, 1, count) if count > 1:
            output = writer.fresh(writer.name(of))
            value = writer.measured(of, path, output)
            limit = max(count, len(members(query, index)))  # more than requested where some tie
            writer.program = writer.program.add_order(value, sign > 0, limit)
        case _:
            output = writer.variable(query)
    return writer.program.set_answer(output)


def slug(name: str) -> str:
    """Return a variable's name made of a text: `place of birth` -> `place_of_birth`; "" for none."""
    words = _NAME.sub("_", name.lower().split("(")[0]).strip("_").split("_")
    short = "_".join(words[:4])
    return short if short and not short[0].isdigit() and short not in _RESERVED else ""


def conjuncts(query: q.Set) -> Iterator[q.Set]:
    """Return the sets whose intersection a set is."""
    if isinstance(query, q.And):
        yield from conjuncts(query.left)
        yield from conjuncts(query.right)
    else:
        yield query


def disjuncts(query: q.Set) -> list[q.Set]:
    """Return the sets whose union a set is; the nodes named in it are one of them."""
    if not isinstance(query, q.Or):
        return [query]
    sides = list(dict.fromkeys((*disjuncts(query.left), *disjuncts(query.right))))
    named = [side.nodes for side in sides if isinstance(side, q.Nodes)]
    rest = [side for side in sides if not isinstance(side, q.Nodes)]
    return [*([q.Nodes(frozenset().union(*named))] if named else []), *rest]


def base(query: q.Set) -> q.Set | None:
    """Return the set of which a condition or a superlative keeps some members; None for other sets."""
    conditions = q.Minus | q.Compared | q.Linked | q.Extremal | q.ExtremalAggregate
    return query.of if isinstance(query, conditions) else None


def is_ranked(query: q.Set) -> bool:
    """Whether a superlative is taken over the set itself: its program then has to begin with it."""
    if isinstance(query, q.And):
        return is_ranked(query.left) or is_ranked(query.right)
    is_best, of = isinstance(query, q.Extremal | q.ExtremalAggregate), base(query)
    return is_best or (of is not None and is_ranked(of))


def names_node(query: q.Set) -> bool:
    """Whether a set starts from nodes that are named."""
    if isinstance(query, q.And | q.Or):
        sides = names_node(query.left), names_node(query.right)
        return any(sides) if isinstance(query, q.And) else all(sides)
    of = query.of if isinstance(query, q.Image) else base(query)
    return isinstance(query, q.Nodes) or (of is not None and names_node(of))


def _names_number(query: q.Set) -> bool:
    """Whether a set is a number, or one of several: something to compare with, that binds nothing."""
    return all(isinstance(side, q.Number) for side in disjuncts(query))


def _order(query: q.Set) -> int:
    """Return the place of a set among those it is intersected with: the smaller, the more selective."""
    if is_ranked(query):
        return 0
    if names_node(query):
        return 1
    return 4 if _names_number(query) else 2 if isinstance(query, q.Members) else 3


@dataclass
class _Writer:
    """Writes the clauses of one program, or of one pattern inside it."""

    index: GraphIndex
    profile: Profile
    taken: set[str] = field(default_factory=set)  # names of all variables of the whole program
    relations: dict[Node, int] = field(default_factory=dict)  # whose values each of them holds
    program: PyQL = field(default_factory=PyQL)

    def fresh(self, name: str) -> Variable:
        """Return a new variable."""
        variable = Variable(fresh(name or "x", self.taken))
        self.taken.add(variable.name)
        return variable

    def node(self, query: q.Set) -> Node:
        """Return a node for a set: itself where it is a single node, else a new variable."""
        return self._single(query) or self.variable(query)

    def _single(self, query: q.Set) -> Term | None:
        match self._parts(query):
            case [q.Nodes(nodes)] if len(nodes) == 1:
                return self.index.terms[min(nodes)]
        return None

    def variable(self, query: q.Set) -> Variable:
        """Return a new variable that is bound to the members of a set."""
        variable = self.fresh(self.name(query))
        self.restrict(query, variable)
        return variable

    def restrict(self, query: q.Set, target: Node) -> None:
        """Keep what `target` may be within a set: a variable, bound or new, or one node."""
        if isinstance(target, Variable) and is_ranked(query) and target in self.program.variables:
            other = self.variable(query)
            self.program = self.program.add_filter(target, "=", other)
            return
        match query:
            case q.Nodes(nodes):
                self._one_of([self.index.terms[n] for n in sorted(nodes)], target)
            case q.Number():
                self._compare(target, "eq", query)
            case q.Members(cls) if isinstance(target, Variable):
                self._members(cls, target)
            case q.Having(path):
                self.walk(path, target)
            case q.Image(path, of) if _names_number(of):
                self.restrict(of, self.walk(backwards(path), target))
            case q.Image(path, of):
                self.walk_from(of, path, target)
            case q.And():
                for part in self._parts(query):
                    self.restrict(part, target)
            case q.Or():
                if len(sides := disjuncts(query)) == 1:
                    self.restrict(sides[0], target)
                else:
                    self.program = self.program.add_union(*(self._pattern(side, target) for side in sides))
            case q.Minus(of, without):
                self.restrict(of, target)
                if isinstance(without, q.Linked | q.Compared) and without.of == of:
                    without = replace(without, of=q.Having(without.path))
                self._exclude(without, target)
            case q.Extremal(of, path, sign, rank, 1):
                self._extreme(of, path, sign, rank, target)
            case q.Extremal():
                raise ActionError("bad_number", "the best few of a set are written as a whole query only")
            case q.ExtremalAggregate(of, path, function, sign, to):
                self._best(self.group(function, of, path, to, target), sign)
            case q.Compared():
                self._compared(query, target)
            case q.Linked(of, path, comparison, number, to):
                self._compare(self.group("count", of, path, to, target), comparison, q.Number(number))

    def exists(self, of: q.Set) -> None:
        """Ask whether a set has members; of a single named node without a variable."""
        parts = self._parts(of)
        named = [p for p in parts if isinstance(p, q.Nodes) and len(p.nodes) == 1]
        rest = [p for p in parts if p not in named]
        if len(named) == 1 and rest and all(isinstance(p, q.Image | q.Having) for p in rest):
            for part in rest:
                self.restrict(part, self.node(named[0]))
        elif isinstance(of, q.Compared) and isinstance(of.of, q.Nodes) and len(of.of.nodes) == 1:
            self._compared(replace(of, of=q.Having(of.path)), self.node(of.of))
        elif rest:
            self.variable(of)
        else:  # whether it is of a class
            variable = self.fresh(self.name(of))
            for part in conjuncts(of):
                self.restrict(part, variable)

    def walk(self, path: q.Path, start: Node, end: Node | None = None) -> Node:
        """Add the facts of a path, and return its end; None: a new variable."""
        node = start
        for place, (number, direction) in enumerate(path, 1):
            relation_of, edges = self.index.rels[number], self.index.rels[number].edges(direction)
            mediator = slug(re.split(r"[/#:.]", relation_of.path[0][0].value.rstrip("/#"))[-1])
            for middle, (relation, forward) in enumerate(edges, 1):
                following = end if place == len(path) and middle == len(edges) else None
                if following is None:
                    is_end = middle == len(edges)
                    following = self.fresh(self._step_name(number, direction) if is_end else mediator)
                subject, object_ = (node, following) if forward else (following, node)
                self.program = self.program.add_fact(subject, relation, object_)
                node = following
            if direction > 0:
                self.relations[node] = number
        return node

    def walk_from(self, of: q.Set, path: q.Path, end: Node | None = None) -> Node:
        """Add a set and the facts of a path from it; return the end. A path from a path's end is one path."""
        while isinstance(of, q.Image) and not _names_number(of.of):
            path, of = of.path + path, of.of
        if (single := self._single(of)) is not None:
            return self.walk(path, single, end)
        return self.measured(of, path, self.fresh(self.name(of)), end)

    def measured(self, of: q.Set, path: q.Path, target: Node, end: Node | None = None) -> Node:
        """Keep members of a set from which a path can be walked, and return its end."""
        for part in self._parts(of):
            if not self._is_start(part, path):
                self.restrict(part, target)
        return self.walk(path, target, end)

    def kind(self, path: q.Path) -> Kind:
        """Return how the values at the end of a path are compared: as the engine does where it can."""
        relation, direction = path[-1]
        quantity, key = self.index.rels[relation].dtype, ("kind", relation)
        if quantity in ("", "time") or direction < 0:
            return "text" if quantity and direction > 0 else ""
        if key not in self.index.cache:
            terms = [self.index.terms[n] for n in self.index.rels[relation].inv]
            literals = [t for t in terms if isinstance(t, Literal)]
            datatypes = {t.datatype for t in literals}
            exact = all(map(is_computable, literals))
            is_plain = datatypes in _DAYS if quantity == "date" else datatypes <= _NUMERIC and exact
            self.index.cache[key] = "" if is_plain else quantity
        kind: Kind = self.index.cache[key]
        return kind

    def name(self, query: q.Set) -> str:
        """Return the name of a variable for a set: of its class, else of the relation that leads to it."""
        match query:
            case q.Members(cls):
                return slug(next(iter(self.index.classes[cls].names), ""))
            case q.Nodes(nodes):
                return self._kind_name(nodes)
            case q.Image(path, _):
                return self._step_name(*path[-1])
            case q.Having(((relation, direction), *_)):
                return self._step_name(relation, -direction)
            case q.And():
                names = [self.name(p) for p in conjuncts(query) if isinstance(p, q.Members)]
                return next(filter(None, names), "") or self.name(next(conjuncts(query)))
            case q.Or(left, _):
                return self.name(left)
        return "value" if (of := base(query)) is None else self.name(of)

    def _step_name(self, relation: int, direction: int) -> str:
        found = self.index.rels[relation]
        return slug(found.names[0]) if direction > 0 else self._kind_name(found.subjects)

    def _kind_name(self, nodes: frozenset[int]) -> str:
        """Return the shortest name of the classes that most of some nodes are of; "" for none."""
        names = {slug(name) for c in self.index.sig(nodes) for name in list(self.index.classes[c].names)[:1]}
        return min(filter(None, names), key=lambda name: (len(name), name), default="")

    def _parts(self, query: q.Set) -> list[q.Set]:
        """Return the sets whose intersection a set is, the most selective first.

        A class word with a name ("the river Mississippi") says which node is named.
        """
        parts = list(dict.fromkeys(conjuncts(query)))
        classes = [p for p in parts if isinstance(p, q.Members)]
        for named in [p for p in parts if isinstance(p, q.Nodes)] if classes else ():
            if nodes := named.nodes.intersection(*(members(c, self.index) for c in classes)):
                parts = [q.Nodes(nodes) if p == named else p for p in parts if p not in classes]
        for part in list(parts):
            rest = [p for p in parts if p != part]
            if rest and self._adds_nothing(part, rest):
                parts = rest
        return sorted(parts, key=_order)

    def _adds_nothing(self, part: q.Set, rest: list[q.Set]) -> bool:
        """Whether a condition is in the others: a class without an IRI, a value that they compare."""
        match part:
            case q.Members(cls) if self.index.classes[cls].iri is None:
                nodes = [members(p, self.index) for p in rest]
                return frozenset.intersection(*nodes) <= members(part, self.index)
            case q.Having(path):
                compared = (p for p in rest if isinstance(p, q.Compared | q.Extremal))
                return any(p.path[: len(path)] == path for p in compared)
        return False

    def _is_start(self, of: q.Set, path: q.Path) -> bool:
        """Whether everything that a path can be walked from is in a set, which no IRI names."""
        if isinstance(of, q.Members) and self.index.classes[of.cls].iri is None:
            relation, direction = path[0]
            first = self.index.rels[relation]
            return (first.subjects if direction > 0 else first.objects) <= members(of, self.index)
        return isinstance(of, q.Having) and path[: len(of.path)] == of.path

    def _one_of(self, nodes: list[Term], target: Node) -> None:
        if len(nodes) == 1 and target in self.program.variables:
            self.program = self.program.add_filter(target, "=", nodes[0])
        else:
            self.program = self.program.add_union(*([Filter(target, "=", node)] for node in nodes))

    def _members(self, number: int, target: Variable) -> None:
        """Keep members of a class; of one without an IRI: what its steps lead to that has no class."""
        cls = self.index.classes[number]
        if cls.iri is not None:
            self.program = self.program.add_type(target, cls.iri)
            return
        if not cls.steps:
            raise ActionError("bad_type", f"no relation leads to the class {number}")
        if len(cls.steps) == 1:
            self.walk(cls.steps, self.fresh("x"), target)
        else:
            ways = [self._inside(lambda w, s=s: w.walk((s,), w.fresh("x"), target)) for s in cls.steps]  # type: ignore[misc]
            self.program = self.program.add_union(*ways)
        relations = [(self.index.rels[r], direction) for r, direction in cls.steps]
        ends = [r.objects if direction > 0 else r.subjects for r, direction in relations]
        if len(self.index.members(number)) < len(frozenset().union(*ends)):
            for predicate in self.profile.type_predicates:
                self.program = self.program.add_not([Fact(target, IRI(predicate), self.fresh("type"))])

    def _compare(self, value: Node, comparison: q.Comparison, number: q.Number) -> None:
        """Compare a variable with a number, or with a date to the precision it is given in."""
        literal, kind = self._literal(value, number)
        self.program = self.program.add_filter(value, OPERATORS[comparison], literal, kind)

    def _literal(self, value: Node, number: q.Number) -> tuple[Literal, Kind]:
        """Return the literal of a number, date or time, and how values of a variable are compared with it."""
        relation = self.relations.get(value)
        quantity = "" if relation is None else self.index.rels[relation].dtype
        if (number.kind == "time" and quantity != "time") or (number.kind == "date" and quantity == "time"):
            given = number.text or number.value
            raise ActionError("bad_comparison", f"{given} is not compared with a {quantity or 'node'}")
        if quantity == "time":
            hours, minutes = divmod(round(number.value * 60), 60)
            return text(f"{hours:02d}:{minutes:02d}:00"), "text"
        if quantity == "date" and number.text and (date := read_bare(number.text)):
            return date, "date"
        amount = float(number.value)
        datatype = "integer" if amount.is_integer() else "decimal"
        written = str(int(amount)) if amount.is_integer() else repr(amount)
        own: Kind = "" if relation is None else self.kind(((relation, 1),))
        return Literal(written, XSD + datatype), "date" if quantity == "date" else own

    def _compared(self, query: q.Compared, target: Node) -> None:
        of, path, comparison, value = query.of, query.path, query.comparison, query.value
        if isinstance(value, q.Number):
            self._compare(self.measured(of, path, target), comparison, value)
            return
        kind = self.kind(path)
        image = value.of if isinstance(value, q.Extremal) and not value.path else value
        relation, direction = image.path[-1] if isinstance(image, q.Image) else (-1, -1)
        if direction < 0 or self.index.rels[relation].dtype != self.index.rels[path[-1][0]].dtype:
            raise ActionError("bad_comparison", "values of different kinds are not compared")
        named_first = names_node(value) and not names_node(of)
        limit = self._limit(value, comparison, kind) if named_first else None
        own = self.measured(of, path, target)
        limit = limit or self._limit(value, comparison, kind)
        self.program = self.program.add_filter(own, OPERATORS[comparison], limit, kind)

    def _limit(self, value: q.Set, comparison: q.Comparison, kind: Kind) -> Node:
        """Return the one of several literals that counts in a comparison."""
        limit = self.node(value)
        if comparison != "eq" and isinstance(limit, Variable) and len(members(value, self.index)) != 1:
            self._best(limit, 1 if comparison in ("gt", "ge") else -1, kind)
        return limit

    def _extreme(self, of: q.Set, path: q.Path, sign: int, rank: int, target: Node) -> Node:
        """Keep those with the best value, or the best behind the ranks before; return the value."""
        if rank > RANKS:
            raise ActionError("bad_number", f"rank {rank} is not written as superlatives")
        above = self._extreme(of, path, sign, rank - 1, self.fresh(self.name(of))) if rank > 1 else None
        value = self.measured(of, path, target)
        kind = self.kind(path or ((self.relations[value], 1),))
        if above is not None:
            self.program = self.program.add_filter(value, "<" if sign > 0 else ">", above, kind)
        self._best(value, sign, kind)
        return value

    def _best(self, value: Node, sign: int, kind: Kind = "") -> None:
        self.program = self.program.add_extreme(value, sign > 0, kind)

    def group(self, function: str, of: q.Set, path: q.Path, to: q.Set | None, target: Node) -> Variable:
        """Return the count, sum or average of the ends of a path, in `to`, for each member of a set."""
        is_first = to is not None and names_node(to) and not names_node(of)
        end = self.measured(of, path, target, self.variable(to) if to is not None and is_first else None)
        if to is not None and not is_first:
            self.restrict(to, end)
        output = self.fresh(f"{function}_{end.name}" if isinstance(end, Variable) else function)
        if function == "count":
            self.program = self.program.add_group(end, target, output)
        else:
            self.program = self.program.add_aggregate(function, end, output, target, self.kind(path))
        return output

    def _exclude(self, query: q.Set, target: Node) -> None:
        """Drop the members of a set."""
        parts = self._parts(query)
        match parts[0] if len(parts) == 1 else query:
            case q.Or():
                for part in disjuncts(query):
                    self._exclude(part, target)
            case q.Nodes(nodes):
                for node in sorted(nodes):
                    self.program = self.program.add_filter(target, "!=", self.index.terms[node])
            case _:
                self.program = self.program.add_not(self._pattern(query, target))

    def _pattern(self, query: q.Set, target: Node) -> Pattern:
        """Return the clauses of a set as a pattern about a variable."""
        if isinstance(query, q.Number):
            return (Filter(target, "=", *self._literal(target, query)),)
        return self._inside(lambda writer: writer.restrict(query, target))

    def _inside(self, write: Callable[[_Writer], object]) -> Pattern:
        """Return what is written as a pattern. Raises `ActionError`: it negates, or sums."""
        inside = _Writer(self.index, self.profile, self.taken, self.relations)
        write(inside)
        items = tuple(c for c in inside.program.clauses if isinstance(c, PatternItem))
        if len(items) < len(inside.program.clauses):
            raise ActionError("bad_pattern", "a pattern takes no negations")
        return items
