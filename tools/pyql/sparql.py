"""PyQL to SPARQL, written as a person would write it.

Clauses become blocks of a group pattern, one after the other. A superlative or count is a subquery over the
blocks before it, joined back to them: ties stay, and values are compared as values (never ORDER BY LIMIT 1).
A count works on the blocks connected with its variable; if nothing later names their other variables, the
subquery replaces them, so that a count of zero is an answer too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Node, Term, Triple, Variable, text
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Result
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import Fact, PyQL, fresh

Lines = tuple[str, ...]
Tag = tuple[str, str]  # Variable and value that mark a branch of a union
TaggedFact = tuple[Fact, Tag | None]  # A fact to instantiate with a row, where that comes from its branch
# No dots: pyoxigraph refuses two of them in a local name, which other engines accept.
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_BARE = {"integer": r"-?(?:0|[1-9]\d*)", "decimal": r"-?\d+\.\d+", "boolean": r"true|false"}
DOUBLE = f"{XSD}double"
STANDARD = {"rdf": RDF, "rdfs": RDFS, "xsd": XSD}
_YEAR = re.compile(r"(?P<year>-?\d+)(?:(?P<day>-01-01|-12-31)(?:T\S+|Z|[+-]\d\d:\d\d)?)?")
_PLAIN_YEAR = re.compile(r"\d{4}")
_EDGES = {"<": "-01-01", ">=": "-01-01", ">": "-12-31", "<=": "-12-31"}
"""Comparisons with a whole year: the day of it that they name."""
_CONDITIONS = pyql.Filter | pyql.Extreme | pyql.Not
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Names:
    """Writes terms, and remembers which prefixes were used; without prefixes it writes full IRIs only."""

    def __init__(self, prefixes: Mapping[str, str] | None) -> None:
        legal = {} if prefixes is None else {**STANDARD, **prefixes}
        spaces = [(space, prefix) for prefix, space in legal.items() if _PREFIX.fullmatch(prefix)]
        self._namespaces = sorted(spaces, key=lambda item: -len(item[0]))
        self.used: dict[str, str] = {}

    def __call__(self, node: Node) -> str:
        """The term in SPARQL."""
        if isinstance(node, IRI):
            for namespace, prefix in self._namespaces:
                local = node.value.removeprefix(namespace)
                if local != node.value and _LOCAL.fullmatch(local):
                    self.used[prefix] = namespace
                    return f"{prefix}:{local}"
        elif isinstance(node, Literal) and node.datatype.startswith(XSD) and node.datatype != XSD + "string":
            # A number or boolean stands bare where that is the same literal.
            pattern = _BARE.get(node.datatype[len(XSD) :])
            if pattern and re.fullmatch(pattern, node.value):
                return node.value
            return node.n3().rpartition("^^")[0] + "^^" + self(IRI(node.datatype))
        return node.n3()

    def header(self) -> str:
        """The PREFIX lines of all prefixes used so far."""
        return "".join(f"PREFIX {prefix}: <{self.used[prefix]}>\n" for prefix in sorted(self.used))


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a group pattern: its lines, the variables that link it to others, and those it binds."""

    lines: Lines
    links: frozenset[Variable]
    binds: frozenset[Variable] = frozenset()
    sure: frozenset[Variable] = frozenset()  # bound in every solution
    alone: tuple[str, Lines] | None = None  # head and group of a count that may stand as the whole query


class Writer:
    """Turns clauses of a program into blocks; `facts` are those written, to be instantiated with a row."""

    def __init__(self, program: PyQL, profile: Profile, names: Names, proving: bool = False) -> None:
        self.program, self.profile, self.names, self.proving = program, profile, names, proving
        self.facts: list[TaggedFact] = []
        self._taken = {v.name for v in (*program.variables, *program.local_variables)}

    def write(
        self, clauses: Sequence[pyql.Clause], needed: Iterable[Variable] = (), tag: Tag | None = None
    ) -> list[Block]:
        """Blocks of clauses, or of a union's branch (`tag`); `needed`: variables of the query's head."""
        blocks: list[Block] = []
        for i, clause in enumerate(clauses):
            mentions, binds, rest = frozenset(clause.mentions), frozenset(clause.binds), clauses[i + 1 :]
            match clause:
                case Fact(subject, relation, end):
                    self.facts.append((clause, tag))
                    line = self._triple(subject, self.names(relation), end)
                    blocks.append(Block((line,), mentions, binds, binds))
                case pyql.Typed():
                    blocks.append(Block(self._typed(clause, tag), mentions, binds, binds))
                case pyql.Filter():
                    blocks.append(Block((f"FILTER({self._condition(clause)})",), mentions))
                case pyql.AnyOf(variable, nodes):
                    line = f"VALUES {variable.n3()} {{ {' '.join(map(self.names, nodes))} }}"
                    blocks.append(Block((line,), mentions, binds, binds))
                case pyql.Union():
                    blocks.append(self._union(clause))
                case pyql.Not(pattern):
                    outside, self.facts, self.proving = (self.facts, self.proving), [], False
                    # What holds a subquery is computed by itself: engines differ in what it sees of outside.
                    head = "MINUS {" if clause.is_closed else "FILTER NOT EXISTS {"
                    lines = (head, *_indent(_lines(self.write(pattern))), "}")
                    self.facts, self.proving = outside
                    blocks.append(Block(lines, mentions & frozenset(self.program.variables)))
                case pyql.Extreme():
                    blocks += self._extreme(clause, blocks)
                case pyql.Aggregate():
                    later = {v for c in rest for v in c.mentions} | set(needed)
                    blocks = self._aggregate(clause, blocks, later)
            blocks = _closed(blocks, clause, rest)
        return blocks

    def _triple(self, subject: Node, path: str, object: Node) -> str:
        return f"{self.names(subject)} {path} {self.names(object)} ."

    def _typed(self, item: pyql.Typed, tag: Tag | None) -> Lines:
        """The instance-of path, with the closure over subclasses. A proof names the type in between."""
        is_a = self._path(self.profile.type_predicates or Profile().type_predicates)
        narrower = self._path(self.profile.subclass_predicates)
        if not (self.proving and narrower):
            return (self._triple(item.variable, f"{is_a}/{narrower}*" if narrower else is_a, item.type),)
        between = self._new(f"{item.variable.name}_type")
        for relation in self.profile.type_predicates[:1]:
            self.facts.append((Fact(item.variable, IRI(relation), between), tag))
        return (self._triple(item.variable, is_a, between), self._triple(between, f"{narrower}*", item.type))

    def _path(self, predicates: Sequence[str]) -> str:
        written = [self.names(IRI(p)) for p in predicates]
        return f"({'|'.join(written)})" if len(written) > 1 else "".join(written)

    def _condition(self, item: pyql.Filter) -> str:
        sides = (item.left, item.right)
        if item.kind == "name":
            return self._name_condition(item)
        if item.operator in pyql.MATCHES:
            texts = [
                f"LCASE(STR({s.n3()}))" if isinstance(s, Variable) else self.names(text(s.value.lower()))
                for s in sides
            ]
            return f"{pyql.MATCHES[item.operator]}({', '.join(texts)})"
        if item.kind == "date":
            return self._date_condition(item)
        left, right = (self._key(side, item.kind) for side in sides)
        return f"{left} {item.operator} {right}"

    def _date_condition(self, item: pyql.Filter) -> str:
        """Dates of any type as text, to the precision of the one given; compared with a year, their years."""
        left, sign, right = item.left, item.operator, item.right
        if isinstance(left, Literal):
            left, sign, right = right, _TURNED.get(sign, sign), left
        given = right.value if isinstance(right, Literal) else ""
        # What is before the first day of a year is before that year, also where nothing but years is known.
        if (match := _YEAR.fullmatch(given)) and match["day"] in (None, _EDGES.get(sign)):
            if not _PLAIN_YEAR.fullmatch(match["year"]):  # YEAR() would be an error for all but dateTime
                year = f'REPLACE(STR({self.names(left)}), "^(-?[0-9]+).*$", "$1")'
                return f"{self.names(IRI(XSD + 'integer'))}({year}) {sign} {int(match['year'])}"
            given = match["year"]
        length = min(10, len(given) or 10)
        return f"{self._day(left, length)} {sign} {self._day(right, length)}"

    def _name_condition(self, item: pyql.Filter) -> str:
        """Whether a node has a label or an alias that compares like that."""
        sides = (item.left, item.right)
        node = next(s for s in sides if isinstance(s, Variable))
        word = next(s for s in sides if isinstance(s, Literal))
        profile, own = self.profile, self._new("name")
        path = self._path(list(dict.fromkeys((*profile.label_predicates, *profile.alias_predicates))))
        if item.operator in pyql.MATCHES:
            condition = self._condition(pyql.Filter(own, item.operator, word))
        else:
            condition = f"LCASE(STR({own.n3()})) = {self.names(text(word.value.lower()))}"
        exists = "NOT EXISTS" if item.operator == "!=" else "EXISTS"
        return f"{exists} {{ {self._triple(node, path, own)} FILTER({condition}) }}"

    def _day(self, side: Node, length: int) -> str:
        if isinstance(side, Variable):
            return f"SUBSTR(STR({self.names(side)}), 1, {length})"
        return self.names(text(side.value[:length]))

    def _key(self, side: Node, kind: pyql.Kind) -> str:
        """What is compared instead of a value whose datatype says too little."""
        if kind == "date":
            return self._day(side, 10)
        if kind in ("number", "text"):
            name = self.names(side if isinstance(side, Variable) else text(side.value))
            written = f"STR({name})" if isinstance(side, Variable) else name
            return written if kind == "text" else f"{self.names(IRI(DOUBLE))}({written})"
        return self.names(side)

    def _union(self, clause: pyql.Union) -> Block:
        """The alternatives; what they compare of the solutions before them is compared behind them."""
        mentions, outer = frozenset(clause.mentions), _outer_filters(clause)
        conditions = [" && ".join(self._condition(item) for item in items) for items in outer]
        if sum(map(len, outer)) == sum(map(len, clause.alternatives)):
            return Block((f"FILTER({' || '.join(f'({c})' for c in conditions)})",), mentions)
        tag = self._new("alternative") if self.proving or any(outer) else None
        lines, sure = list[str](), list[frozenset[Variable]]()
        for i, pattern in enumerate(clause.alternatives):
            own = [item for item in pattern if item not in outer[i]]
            blocks = self.write(own, tag=(tag.name, str(i)) if tag else None)
            marker = (f"BIND({i} AS {tag.n3()})",) if tag else ()
            lines += ["{" if not i else "} UNION {", *_indent((*_lines(blocks), *marker))]
            sure.append(frozenset().union(*(b.sure for b in blocks)))
        lines.append("}")
        if tag:
            lines += [f"FILTER({tag.n3()} != {i} || ({c}))" for i, c in enumerate(conditions) if c]
        return Block(tuple(lines), mentions, frozenset(clause.binds), sure[0].intersection(*sure))

    def _extreme(self, clause: pyql.Extreme, before: list[Block]) -> list[Block]:
        """The subquery of the best value, and the filter that keeps all solutions that reach it."""
        variable, numbered = clause.variable, list[Block]()
        if clause.kind == "name":
            label, variable = self._new("name"), self._new("number")
            is_called = self._triple(clause.variable, self._path(self.profile.label_predicates), label)
            number = f'{self.names(IRI(DOUBLE))}(REPLACE(STR({label.n3()}), "^[^0-9]*([0-9]+).*$", "$1"))'
            links = frozenset({clause.variable, label, variable})
            numbered = [Block((is_called, f"BIND({number} AS {variable.n3()})"), links)]
        inside, _ = _connected([*before, *numbered], {variable})
        name = "MAX" if clause.largest else "MIN"
        best, key = self._new(f"{name.lower()}_{variable.name}"), self._key(variable, clause.kind)
        # Values that would make the whole MAX an error are kept out.
        guard: Lines = ()
        if clause.kind in ("number", "name"):
            guard = (f"FILTER(BOUND({variable.n3()}) && {key} = {key})",)
        elif not any(variable in b.sure for b in inside):
            guard = (f"FILTER(BOUND({variable.n3()}))",)
        lines = _subquery(f"SELECT ({name}({key}) AS {best.n3()}) WHERE {{", (*_lines(inside), *guard))
        keep = Block((f"FILTER({key} = {best.n3()})",), frozenset({variable, best}))
        return [*numbered, Block(lines, frozenset({best})), keep]

    def _aggregate(self, clause: pyql.Aggregate, blocks: list[Block], later: set[Variable]) -> list[Block]:
        """The blocks with an aggregate, which stands for those it works on where nothing later names them."""
        per, of, output = (clause.per,) if clause.per else (), clause.of, clause.output.n3()
        inside, outside = _connected(blocks, {of, *per})
        outputs, group = frozenset({clause.output, *per}), _lines(inside)
        if clause.function == "count":
            value = f"COUNT(DISTINCT {of.n3()})"
        else:
            key = self._key(of, clause.kind)
            value = f"{'SUM' if clause.function == 'sum' else 'AVG'}({key})"
            # What is not a number would make the whole sum an error.
            guard = f"FILTER({f'{key} = {key}' if clause.kind else f'isNumeric({key})'})"
            columns = dict.fromkeys((*per, *pyql.owners(self.program, of), of))
            head = f"SELECT DISTINCT {' '.join(v.n3() for v in columns)} WHERE {{"
            group = _subquery(head, (*group, guard))
        each = "".join(f"{v.n3()} " for v in per)
        head = f"SELECT {each}({value} AS {output}) WHERE {{"
        lines = _subquery(head, group, f"}} GROUP BY {each.strip()}" if per else "}")
        block = Block(lines, outputs, outputs, outputs, None if per else (head, group))
        hidden = frozenset().union(*(b.binds for b in inside)) - outputs
        return [*(blocks if self.proving or hidden & later else outside), block]

    def _new(self, name: str) -> Variable:
        name = fresh(name, self._taken)
        self._taken.add(name)
        return Variable(name)


def _outer_filters(clause: pyql.Union) -> list[list[pyql.Filter]]:
    """Return the filters of each alternative that compare what it does not bind itself."""
    outer = []
    for pattern in clause.alternatives:
        own = {v for item in pattern for v in item.binds}
        outer.append([i for i in pattern if isinstance(i, pyql.Filter) and not own.issuperset(i.mentions)])
    return outer


def _connected(blocks: list[Block], roots: set[Variable]) -> tuple[list[Block], list[Block]]:
    """Blocks that share variables with the roots, directly or through others, and the rest."""
    reached: set[Variable] = set(roots)
    while grown := {v for b in blocks if b.links & reached for v in b.links} - reached:
        reached |= grown
    return [b for b in blocks if b.links & reached], [b for b in blocks if not b.links & reached]


def _closed(blocks: list[Block], clause: pyql.Clause, rest: Sequence[pyql.Clause]) -> list[Block]:
    """The blocks after a condition, in a group of their own where SPARQL would else apply it too late.

    A filter holds for its whole group: a value that some solutions lack, and that a later clause gives
    them, would be compared although the condition has already dropped them.
    """
    compared = set(clause.mentions) if isinstance(clause, _CONDITIONS) else set()
    if isinstance(clause, pyql.Union):
        compared = {v for items in _outer_filters(clause) for item in items for v in item.mentions}
        compared -= set(clause.binds)
    sure = frozenset().union(*(b.sure for b in blocks))
    if not (compared - sure) & {v for c in rest for v in c.binds}:
        return blocks
    inside, outside = _connected(blocks, compared)
    parts = zip(*((b.links, b.binds, b.sure) for b in inside), strict=True)
    links, binds, sure = (frozenset().union(*sets) for sets in parts)
    return [*outside, Block(("{", *_indent(_lines(inside)), "}"), links, binds, sure)]


def _lines(blocks: Iterable[Block]) -> Lines:
    return tuple(line for block in blocks for line in block.lines)


def _indent(lines: Iterable[str]) -> Lines:
    return tuple("  " + line for line in lines)


def _subquery(head: str, group: Lines, tail: str = "}") -> Lines:
    return ("{", *_indent((head, *_indent(group), tail)), "}")


def write_query(program: PyQL, profile: Profile, preview: int) -> str:
    """See `PyQL.sparql`."""
    names, order = Names(profile.prefixes), program.order
    needed = {*program.answer, *([order.variable] if order else [])}
    blocks = Writer(program, profile, names).write(program.clauses, needed)
    bound = frozenset().union(*(b.binds for b in blocks))
    shown = program.answer or tuple(v for v in program.variables if v in bound)
    group, tail = _lines(blocks), list[str]()
    if order:
        key = order.variable.n3()
        tail.append(f"ORDER BY {f'DESC({key})' if order.descending else key}")
    if limits := [n for n in (order.limit if order else 0, preview) if n]:
        tail.append(f"LIMIT {min(limits)}")
    if program.boolean and not (preview and shown):
        head, tail = "ASK {", []
    elif len(blocks) == 1 and blocks[0].alone and not order:
        head, group = blocks[0].alone
    else:
        columns = " ".join(v.n3() for v in shown) or "*"
        head = f"SELECT DISTINCT {columns} WHERE {{"
    return names.header() + "\n".join((head, *_indent(group), "}", *tail)) + "\n"


def write_where(program: PyQL, profile: Profile) -> str:
    """See `PyQL.where`."""
    return "\n".join(_lines(Writer(program, profile, Names(None)).write(program.clauses, program.variables)))


def write_proof(program: PyQL, profile: Profile, answers: Sequence[Term]) -> tuple[str, list[TaggedFact]]:
    """SELECT of what instantiates the facts behind some answers of the first variable; these facts."""
    names = Names(profile.prefixes)
    writer = Writer(program, profile, names, proving=True)
    group = _lines(writer.write(program.clauses, program.variables))
    columns = dict.fromkeys(v.name for v in (*program.answer[:1], *program.variables))
    for fact, tag in writer.facts:
        columns |= dict.fromkeys(v.name for v in fact.mentions)
        columns |= {tag[0]: None} if tag else {}
    if answers and program.answer:
        variable, forms = program.answer[0].n3(), [names(a) for a in answers]
        # Literals are compared by value, since engines rewrite their text.
        is_node = all(isinstance(a, IRI) for a in answers)
        values = f"VALUES {variable} {{ {' '.join(forms)} }}"
        group = (*group, values if is_node else f"FILTER({variable} IN ({', '.join(forms)}))")
    head = f"SELECT DISTINCT {' '.join(f'?{name}' for name in columns) or '*'} WHERE {{"
    return names.header() + "\n".join((head, *_indent(group), "}")) + "\n", writer.facts


def instantiate(facts: Iterable[Fact | TaggedFact], result: Result) -> tuple[Triple, ...]:
    """The triples that rows of a result make of facts whose ends are bound and whose branch the row is of."""
    triples = dict[Triple, None]()
    tagged = [(fact, None) if isinstance(fact, Fact) else fact for fact in facts]
    for row in result.rows:
        values = {v: term for v, term in zip(result.variables, row, strict=True) if term is not None}
        for fact, tag in tagged:
            if tag and (tag[0] not in values or values[tag[0]].value != tag[1]):
                continue
            ends = (fact.subject, fact.object)
            subject, end = (values.get(n.name) if isinstance(n, Variable) else n for n in ends)
            if isinstance(subject, IRI) and end is not None:
                triples[Triple(subject, fact.relation, end)] = None
    return tuple(triples)
