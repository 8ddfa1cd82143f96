"""The PyQL program: an immutable value that actions extend (QueryAgent 3.2; PyQL, Huang et al. 2023).

A program is read in order: every clause works on the solutions of the clauses before it, which is what the
agent has seen at that step. Every method returns a new program: rolling back a step is keeping the old one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import chain, count
from typing import Literal as OneOf, NoReturn, TypeAlias, get_args

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Triple, Variable, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph

Kind = OneOf["", "number", "date", "text", "name"]
"""How values are compared: "" as the engine does, else as numbers, dates or text whatever their datatype.

`name`: a node by its labels and aliases, in any case; of a superlative, by the number in its label.
"""
KINDS: tuple[Kind, ...] = get_args(Kind)
Function = OneOf["count", "sum", "average"]
_FUNCTIONS: tuple[Function, ...] = get_args(Function)
ORDERED = ("<", ">", "<=", ">=")
COMPARISONS = ("=", "!=", *ORDERED)
MATCHES = {"contains": "CONTAINS", "starts_with": "STRSTARTS", "ends_with": "STRENDS"}
OPERATORS = (*COMPARISONS, *MATCHES)
TEMPORAL = frozenset(XSD + name for name in ("date", "dateTime", "gYear", "gYearMonth"))
_DATED = re.compile(r"(?P<date>-?\d{4,}(?:-\d\d(?:-\d\d)?)?)(?:T\S+)?(?:Z|[+-]\d\d:\d\d)?")


class _Named:
    """What all clauses have in common."""

    __slots__: tuple[str, ...] = ()

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names, each once, in order."""
        return tuple(dict.fromkeys(_variables_in(self)))

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        match self:
            case Fact() | Typed() | AnyOf():
                return self.mentions
            case Aggregate(output=output):
                return (output,)
            case Union(alternatives):
                return tuple(dict.fromkeys(v for a in alternatives for item in a for v in item.binds))
        return ()


def _variables_in(part: object) -> Iterator[Variable]:
    if isinstance(part, Variable):
        yield part
    elif isinstance(part, _Named):
        part = tuple(getattr(part, name) for name in part.__slots__)
    if isinstance(part, tuple):
        for item in part:
            yield from _variables_in(item)


@dataclass(frozen=True, slots=True)
class Fact(_Named):
    """A triple pattern."""

    subject: IRI | Variable
    relation: IRI
    object: Node


@dataclass(frozen=True, slots=True)
class Typed(_Named):
    """The variable is an instance of a type, or of a subclass of it where the profile knows subclasses."""

    variable: Variable
    type: IRI


@dataclass(frozen=True, slots=True)
class AnyOf(_Named):
    """The variable is one of some nodes: a union of equations about a variable that nothing else binds."""

    variable: Variable
    nodes: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Filter(_Named):
    """A comparison of two values, at least one of them a variable."""

    left: Node
    operator: str
    right: Node
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Extreme(_Named):
    """Keep the solutions with the largest (or smallest) value of a variable: all of them, if several tie."""

    variable: Variable
    largest: bool
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Aggregate(_Named):
    """Number, sum or average of the values of a variable, over all solutions connected with it or each `per`.

    A count is of distinct values. A sum takes a value once for each node that has it.
    """

    of: Variable
    output: Variable
    per: Variable | None = None
    function: Function = "count"
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Union(_Named):
    """At least one of several patterns holds. A superlative inside one is that of its own pattern."""

    alternatives: tuple[Pattern, ...]


PatternItem: TypeAlias = Fact | Typed | AnyOf | Filter | Extreme | Aggregate | Union
Pattern: TypeAlias = tuple[PatternItem, ...]


@dataclass(frozen=True, slots=True)
class Not(_Named):
    """A pattern that must not hold. Its new variables live only inside."""

    pattern: Pattern

    @property
    def is_closed(self) -> bool:
        """Whether the pattern is computed by itself: it holds a superlative, a count or alternatives."""
        return any(isinstance(item, Extreme | Aggregate | Union) for item in self.pattern)


Clause: TypeAlias = Fact | Typed | AnyOf | Filter | Extreme | Aggregate | Union | Not


@dataclass(frozen=True, slots=True)
class Order:
    """How the answers are ordered, and how many are kept (0: all)."""

    variable: Variable
    descending: bool = True
    limit: int = 0


def is_text(literal: Literal) -> bool:
    """Whether a literal is plain text, in a language or in none."""
    return bool(literal.language) or literal.datatype == XSD + "string"


def _refuse(code: str, message: str, **detail: object) -> NoReturn:
    raise ActionError(code, message, **detail)


@dataclass(frozen=True)
class PyQL:
    """A query program. All methods raise `ActionError` for what cannot be carried out."""

    clauses: tuple[Clause, ...] = ()  # restrict and extend solutions in order
    answer: tuple[Variable, ...] = ()  # the variables returned
    boolean: bool = False  # the answer is yes or no
    order: Order | None = None

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """What clauses bind, in order of appearance."""
        return tuple(dict.fromkeys(v for clause in self.clauses for v in clause.binds))

    @property
    def local_variables(self) -> tuple[Variable, ...]:
        """Variables that live only inside an `add_not`."""
        inside = (v for c in self.clauses if isinstance(c, Not) for v in c.mentions)
        return tuple(dict.fromkeys(v for v in inside if v not in self.variables))

    def facts(self) -> tuple[Fact, ...]:
        """Triple patterns that every solution meets."""
        return tuple(clause for clause in self.clauses if isinstance(clause, Fact))

    def add_fact(self, subject: Node, relation: Node, object: Node) -> PyQL:
        """Add a triple pattern. With both ends fixed it asks whether it holds: yes or no."""
        fact = checked_fact(subject, relation, object)
        added = self._with(fact)
        return added if fact.mentions or self.answer else added.ask()

    def add_type(self, variable: Node, type: Node) -> PyQL:
        """Keep instances of a type (of its subclasses too, where the profile knows subclasses)."""
        if not isinstance(variable, Variable):
            _refuse("bad_variable", f"add_type needs a variable, not {variable.n3()}", given=variable.n3())
        if not isinstance(type, IRI):
            _refuse("bad_type", f"{type.n3()} is not the id of a type", given=type.n3())
        return self._with(Typed(variable, type))

    def add_filter(self, left: Node, operator: str, right: Node, kind: Kind = "") -> PyQL:
        """Compare two values, one of them a bound variable, with one of `OPERATORS`; text in any case."""
        self._need_fact("add_filter")
        clause = _checked_filter(left, operator, right, kind)
        for variable in clause.mentions:
            self._bound(variable, "add_filter")
        return self._with(clause)

    def add_extreme(self, variable: Node, largest: bool, kind: Kind = "") -> PyQL:
        """Keep the solutions with the largest or the smallest value; ties are kept."""
        return self._with(Extreme(self._bound(variable, "add_max" if largest else "add_min"), largest, kind))

    def add_count(self, variable: Node, output: Node | None = None) -> PyQL:
        """Bind `output` (default `?count`) to the number of values of a variable, over all its solutions."""
        return self._with(Aggregate(self._bound(variable, "add_count"), self._output(output, "count")))

    def add_group(self, counted: Node, per: Node, output: Node | None = None) -> PyQL:
        """Bind `output` (default `?count_NAME`) to the number of `counted` values for each value of `per`."""
        return self.add_aggregate("count", counted, output, per)

    def add_aggregate(
        self, function: str, variable: Node, output: Node | None, per: Node | None, kind: Kind = ""
    ) -> PyQL:
        """Bind `output` (default `?sum_NAME`) to the sum, average or number of values, of each `per`."""
        of = self._bound(variable, "add_aggregate")
        one = None if per is None else self._bound(per, "add_aggregate")
        if of == one:
            _refuse("bad_comparison", f"{of.n3()} cannot be counted for each of itself", given=of.n3())
        if function not in _FUNCTIONS:
            _refuse("bad_comparison", f"{function!r} is none of count, sum, average", given=function)
        return self._with(Aggregate(of, self._output(output, f"{function}_{of.name}"), one, function, kind))

    def undo(self) -> PyQL:
        """Take back what was added last: the answer or the order, else `ask`, else the last clause."""
        # A fact with both ends fixed makes it a yes/no question by itself.
        fixed = [isinstance(c, Fact) and not c.mentions for c in self.clauses]
        if self.answer:
            return replace(self, answer=(), boolean=any(fixed))
        if self.order:
            return replace(self, order=None)
        if self.boolean and not any(fixed):
            return replace(self, boolean=False)
        if not self.clauses:
            _refuse("nothing_to_undo", "the program is empty: there is nothing to take back")
        return replace(self, clauses=self.clauses[:-1], boolean=any(fixed[:-1]))

    def add_most(self, counted: Node, per: Node, largest: bool = True) -> PyQL:
        """Keep the `per` values with the most `counted` values, or the fewest from one on; ties are kept."""
        grouped = self.add_group(counted, per)
        return grouped.add_extreme(grouped.clauses[-1].binds[0], largest)

    def add_union(self, *alternatives: Iterable[PatternItem]) -> PyQL:
        """Keep the solutions that meet one of several patterns or more; equations may bind a new variable."""
        branches = [tuple(items) for items in alternatives]
        if (named := _named_nodes(branches)) and named.variable not in self.variables:
            return self._with(named)
        twice = _named_twice(branches)
        patterns = dict.fromkeys(_checked_pattern(a, set(), self.variables, twice) for a in branches)
        if len(patterns) < 2:
            _refuse("bad_pattern", "add_union needs two different alternatives or more")
        return self._with(Union(tuple(patterns)))

    def add_not(self, pattern: Iterable[PatternItem]) -> PyQL:
        """Drop the solutions for which a pattern holds."""
        self._need_fact("add_not")
        clause = Not(_checked_pattern(pattern, set(self.variables)))
        if clause.is_closed:
            # Nothing outside is visible where superlatives and alternatives are computed.
            clause = Not(_checked_pattern(clause.pattern, set()))
        if not set(clause.mentions) & set(self.variables):
            self._refuse("bad_pattern", "add_not must name a variable that a fact has bound")
        return self._with(clause)

    def add_order(self, variable: Node, descending: bool = True, limit: int = 0) -> PyQL:
        """Order the answers and keep the first `limit` (0: all). `add_max` finds the best with its ties."""
        ordered = self._bound(variable, "add_order")
        if limit < 0:
            _refuse("bad_number", f"{limit} answers cannot be kept")
        return replace(self, order=Order(ordered, descending, limit))

    def set_answer(self, *variables: Node) -> PyQL:
        """Say which variables the query returns."""
        self._need_fact("set_answer", "answer_before_fact")
        if not variables:
            self._refuse("bad_variable", "set_answer needs a variable")
        answer = dict.fromkeys([self._bound(variable, "set_answer") for variable in variables])
        return replace(self, answer=tuple(answer), boolean=False)

    def ask(self) -> PyQL:
        """Make it a yes/no question: is there any solution?"""
        return replace(self, answer=(), boolean=True)

    def check_complete(self) -> None:
        """Raise `ActionError` if the program cannot be executed as the final query."""
        if not (self.answer or self.boolean):
            self._refuse("execute_before_answer", "no answer is set: use set_answer or ask")
        if not self.clauses:
            _refuse("execute_before_fact", "the program holds no fact yet")

    def sparql(self, profile: Profile, preview: int = 0) -> str:
        """The query: SELECT DISTINCT of the answer, or ASK; with `preview` so many solutions at most."""
        from triplewise.tools.pyql.sparql import write_query

        return write_query(self, profile, preview)

    def where(self, profile: Profile) -> str:
        """The group pattern that binds all variables, without braces and prefixes, for relation look-ups."""
        from triplewise.tools.pyql.sparql import write_where

        return write_where(self, profile)

    def prove(self, kg: KnowledgeGraph, answers: Sequence[Term], limit: int) -> tuple[Triple, ...]:
        """The facts behind answers of the first variable, each once; of up to `limit` solutions."""
        from triplewise.tools.pyql.sparql import instantiate, write_proof

        sparql, facts = write_proof(self, kg.profile, answers)
        return instantiate(facts, kg.query(sparql, limit=limit))

    def text(self, profile: Profile) -> str:
        """One action per line, with short ids."""
        from triplewise.tools.pyql.text import write_program

        return write_program(self, profile)

    @classmethod
    def parse(cls, text: str, profile: Profile) -> PyQL:
        """The program that `text` wrote. Raises `ActionError` with the code of the first mistake."""
        from triplewise.tools.pyql.text import read_program

        return read_program(text, profile)

    def _with(self, clause: Clause) -> PyQL:
        """The program with one more clause; what it holds already is not added twice."""
        if clause in self.clauses and not isinstance(clause, Extreme):
            return self
        entities, values = _roles((*self.clauses, clause))
        if both := entities & values:  # no engine finds anything then
            name = min(v.n3() for v in both)
            if isinstance(clause, Filter):
                _refuse("bad_comparison", f"{name} is an entity: it has no value to compare", given=name)
            _refuse("bad_subject", f"{name} holds values, not entities: it cannot be a subject", given=name)
        clash = set(clause.mentions) & set(self.local_variables)
        if clash and not isinstance(clause, Not):
            name = min(v.n3() for v in clash)
            _refuse("bad_variable", f"{name} lives only inside add_not: choose another name", given=name)
        return replace(self, clauses=(*self.clauses, clause))

    def _refuse(self, code: str, message: str, **detail: object) -> NoReturn:
        """Refuse what another variable would make right: the detail names those there are."""
        _refuse(code, message, **detail, existing=[v.n3() for v in self.variables])

    def _need_fact(self, action: str, code: str = "filter_before_fact") -> None:
        if not self.clauses:
            _refuse(code, f"{action} needs a fact first: nothing is bound yet")

    def _bound(self, node: Node, action: str) -> Variable:
        form = node.n3()
        if not isinstance(node, Variable):
            code = "max_not_variable" if action in ("add_max", "add_min") else "bad_variable"
            self._refuse(code, f"{action} needs a variable, not {form}", given=form)
        self._need_fact(action)
        if node not in self.variables:
            names = ", ".join(v.n3() for v in self.variables)
            self._refuse("unknown_variable", f"{form} is not a variable of the query: {names}", given=form)
        return node

    def _output(self, node: Node | None, default: str) -> Variable:
        """The variable that takes a number: one that nothing binds yet."""
        taken = {v.name for v in (*self.variables, *self.local_variables)}
        if node is None:
            return Variable(fresh(default, taken))
        if not isinstance(node, Variable) or node.name in taken:
            form = node.n3()
            self._refuse("count_output_not_variable", f"{form} is not a new variable", given=form)
        return node


def _roles(clauses: Iterable[Clause]) -> tuple[set[Variable], set[Variable]]:
    """The variables that clauses use as entities, and those they use as numbers, dates or text."""
    entities, values = set[Variable](), set[Variable]()
    for clause in clauses:
        match clause:
            case Fact(subject=Variable() as variable) | Typed(variable=variable) | AnyOf(variable=variable):
                entities.add(variable)
            case Aggregate(output=output):
                values.add(output)
            case Filter(left, operator, right):
                # Text may be the name of an entity.
                measured = any(isinstance(s, Literal) and not is_text(s) for s in (left, right))
                if operator in ORDERED or measured:
                    values.update(clause.mentions)
            case Union() | Not():
                for pattern in _patterns(clause):
                    inner = _roles(pattern)
                    entities, values = entities | inner[0], values | inner[1]
    return entities, values


def _patterns(clause: Clause) -> tuple[Pattern, ...]:
    """The patterns inside a clause."""
    match clause:
        case Not(pattern):
            return (pattern,)
        case Union(alternatives):
            return alternatives
    return ()


def _named_twice(patterns: Sequence[Pattern]) -> set[Variable]:
    """Return the variables that at least two of some patterns name."""
    named = Counter(v for pattern in patterns for v in {v for item in pattern for v in item.mentions})
    return {v for v, n in named.items() if n > 1}


def _named_nodes(alternatives: Sequence[Pattern]) -> AnyOf | None:
    """Return alternatives that all bind the same variable to nodes as one `AnyOf`, else None."""
    pairs = list[tuple[Variable, Term]]()
    for pattern in alternatives:
        match pattern:
            case (AnyOf(variable, nodes),):
                pairs += [(variable, node) for node in nodes]
            case (Filter(Variable() as variable, "=", IRI() | Literal() as node, ""),):
                pairs.append((variable, node))
            case _:
                return None
    named = {variable for variable, _ in pairs}
    return AnyOf(named.pop(), tuple(dict.fromkeys(n for _, n in pairs))) if len(named) == 1 else None


def checked_fact(subject: Node, relation: Node, object: Node) -> Fact:
    """A triple pattern. Raises `ActionError` for what cannot be one."""
    if isinstance(subject, Literal):
        _refuse("bad_subject", f"the literal {subject.n3()} cannot be a subject", given=subject.n3())
    if subject == object:
        _refuse("subject_equals_object", f"subject and object are both {subject.n3()}", given=subject.n3())
    if not isinstance(relation, IRI):
        _refuse("bad_relation", f"{relation.n3()} is not the id of a relation", given=relation.n3())
    return Fact(subject, relation, object)


def _checked_filter(left: Node, operator: str, right: Node, kind: Kind) -> Filter:
    if operator not in OPERATORS:
        message = f"{operator!r} is not an operator; use one of {', '.join(OPERATORS)}"
        _refuse("bad_operator", message, given=operator, legal=list(OPERATORS))
    if operator in MATCHES:
        left, right = (text(s.value) if isinstance(s, Literal) else s for s in (left, right))
    is_name = any(isinstance(s, Literal) for s in (left, right)) and operator not in ORDERED
    clause = Filter(left, operator, right, kind if is_name or kind != "name" else "")
    if not clause.mentions or left == right:
        _refuse("bad_comparison", f"{left.n3()} {operator} {right.n3()} compares no variable with anything")
    if operator in MATCHES and isinstance(right, IRI):
        _refuse("bad_comparison", f"{operator} needs text, not the entity {right.n3()}")
    if operator in ORDERED and any(isinstance(side, IRI) for side in (left, right)):
        _refuse("bad_comparison", f"entities can only be compared with = and !=, not {operator}")
    for side in (left, right):
        if isinstance(side, Literal) and side.datatype in TEMPORAL:
            check_date(side.value)
    return clause


def _checked_pattern(
    items: Iterable[PatternItem],
    bound: set[Variable],
    outside: Collection[Variable] = (),
    named_twice: Collection[Variable] = (),
) -> Pattern:
    """A pattern whose filters compare what it binds, what is `bound` where it stands, or `outside`.

    An equation binds a new variable that another item or alternative names too.
    """
    items, pattern = tuple(items), list[PatternItem]()
    named_twice = {*named_twice, *_named_twice([(item,) for item in items])}
    for item in map(_checked_item, items):
        visible = {*bound, *outside}
        equation = _named_nodes([(item,)]) if isinstance(item, Filter) else None
        if equation and equation.variable in named_twice and equation.variable not in visible:
            item = equation
        elif isinstance(item, AnyOf) and len(item.nodes) == 1 and item.variable in visible:
            item = Filter(item.variable, "=", item.nodes[0])
        _check_bound(item, bound, visible)
        bound |= set(item.binds)
        pattern.append(item)
    if not (any(isinstance(i, Fact | Typed | AnyOf | Union) for i in pattern) or (outside and pattern)):
        _refuse("bad_pattern", "a pattern needs at least one triple (subject, relation, object)")
    return tuple(dict.fromkeys(pattern))


def _checked_item(item: PatternItem) -> PatternItem:
    match item:
        case Fact(subject, relation, object):
            return checked_fact(subject, relation, object)
        case Filter(left, operator, right, kind):
            return _checked_filter(left, operator, right, kind)
        case Aggregate(per=per, function=function) if function != "count" or per is None:
            _refuse("bad_pattern", "a pattern counts for each of something")
        case Union(alternatives):
            twice = _named_twice(alternatives)
            patterns = (_checked_pattern(a, set(), (), twice) for a in alternatives)
            return _named_nodes(alternatives) or Union(tuple(patterns))
    return item


def _check_bound(item: PatternItem, bound: set[Variable], visible: set[Variable]) -> None:
    """Raise `ActionError` if a variable that an item of a pattern compares or counts is not bound there."""
    match item:
        case Filter():
            compared, where = item.mentions, ": put its triple before the filter"
        case Extreme(variable):
            compared, visible, where = (variable,), bound, " before its superlative"
        case Aggregate(of, _, Variable() as per):
            compared, visible, where = (of, per), bound, " before its count"
        case _:
            return
    for name in [v.n3() for v in compared if v not in visible]:
        message, existing = f"{name} is not bound in this pattern{where}", sorted(v.n3() for v in visible)
        _refuse("unknown_variable", message, given=name, existing=existing)


def all_facts(clauses: Iterable[Clause]) -> Iterator[Fact]:
    """Return all triple patterns, those inside unions and negations, too."""
    for clause in clauses:
        if isinstance(clause, Fact):
            yield clause
        for pattern in _patterns(clause):
            yield from all_facts(pattern)


def owners(program: PyQL, variable: Variable) -> list[Variable]:
    """Return the variables whose value or count another variable holds."""
    nearby = [v for f in all_facts(program.clauses) if variable in f.mentions for v in f.mentions]
    nearby += [c.per for c in program.clauses if isinstance(c, Aggregate) and c.output == variable and c.per]
    return [v for v in dict.fromkeys(nearby) if v != variable and v in program.variables]


def fresh(name: str, taken: Iterable[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, ... that is not taken."""
    used, others = set(taken), (f"{name}_{n}" for n in count(2))
    return next(candidate for candidate in chain([name], others) if candidate not in used)


def check_date(value: str) -> None:
    """Raise `ActionError` with code `bad_date` unless a text is a date, of a day that there is."""
    match = _DATED.fullmatch(value)
    try:
        parts = [int(p) for p in match["date"].lstrip("-").split("-")] if match else []
        year, month, day = [*parts, 1, 1][:3]
        # Leap years repeat every 400 years, and `date` knows only the years 1 to 9999.
        date(2000 + year % 400, month, day)
    except ValueError:
        _refuse("bad_date", f"{value!r} is not a date: write YYYY, YYYY-MM or YYYY-MM-DD", given=value)
