"""What query trees compile to finds what the index computes, and reads well."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pyoxigraph as ox
import pytest
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Triple, text
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.parsing.denotation import Denotation, denotation
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.program import compile_query, slug
from triplewise.tools.parsing.query import (
    Aggregate,
    And,
    Compared,
    Comparison,
    Count,
    Exists,
    Extremal,
    ExtremalAggregate,
    Grouped,
    Having,
    Image,
    Linked,
    Members,
    Minus,
    Nodes,
    Number,
    Or,
    Path,
    Query,
    Set,
)
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import open_encoder

EX = "http://example.org/"
PROFILE = Profile(
    entity_namespaces=(EX,),
    relation_namespaces=(EX,),
    subclass_predicates=(RDFS + "subClassOf",),
    mediator_patterns=(EX + "office",),
)
SIGNS = (1, -1)
COMPARISONS: tuple[Comparison, ...] = ("gt", "lt", "ge", "le", "eq")


def ex(name: str) -> IRI:
    return IRI(EX + name)


def fact(subject: str, relation: str, end: str | int | Literal) -> Triple:
    relation_ = (
        IRI(RDF + "type")
        if relation == "a"
        else IRI(RDFS + relation)
        if relation[:3] == "sub"
        else ex(relation)
    )
    if isinstance(end, int):
        end = Literal(str(end), XSD + "integer")
    return Triple(ex(subject), relation_, end if isinstance(end, Literal) else ex(end))


def index_of(facts: Sequence[Triple]) -> tuple[LocalKG, GraphIndex]:
    store = ox.Store()
    store.load("\n".join(t.n3() for t in facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    kg = LocalKG(store, PROFILE, "memory")
    return kg, index_for(kg, open_encoder(), "", tuple)


def computed(kg: LocalKG, program: PyQL, expected: Denotation, index: GraphIndex) -> object:
    """What a program gives, in the form of a denotation; nodes as their terms."""
    result = kg.query(program.sparql(PROFILE))
    assert result.outcome.ok, result.message
    if program.boolean:
        return result.boolean
    if isinstance(expected, float):
        ((value,),) = result.rows
        return pytest.approx(float(value.value)) if value else 0.0
    if len(program.answer) == 2:
        return {(x, round(float(n.value), 9)) for x, n in result.rows if x and n}
    shown = result.variables.index(program.answer[0].name)
    return {row[shown] for row in result.rows}


def meant(expected: Denotation, index: GraphIndex) -> object:
    if not isinstance(expected, frozenset):
        return expected
    return {(index.terms[x[0]], round(x[1], 9)) if isinstance(x, tuple) else index.terms[x] for x in expected}


# --- any tree over any graph --------------------------------------------------------------------------------


def random_graph(chance: random.Random) -> list[Triple]:
    """Towns in regions, with sizes, days and years, and mayors in offices that only join them."""
    facts = [fact("Town", "subClassOf", "Place"), fact("City", "subClassOf", "Town")]
    towns, regions, people = [f"t{i}" for i in range(7)], ["r0", "r1", "r2"], ["p0", "p1", "p2"]
    facts += [fact(t, "a", chance.choice(("Town", "City", "City"))) for t in towns]
    facts += [fact(r, "a", "Region") for r in regions if chance.random() < 0.8]
    facts += [fact(r, "a", "Place") for r in regions if chance.random() < 0.3]
    facts += [fact(p, "a", "Person") for p in people]
    for town in towns:
        facts += [fact(town, "inRegion", r) for r in regions if chance.random() < 0.4]
        facts += [fact(town, "near", t) for t in towns if t != town and chance.random() < 0.25]
        facts += [fact(town, "size", n) for n in (1, 2, 3, 5) if chance.random() < 0.3]
        facts += [fact(town, "colour", text(c)) for c in ("red", "blue") if chance.random() < 0.3]
        if chance.random() < 0.7:
            facts.append(
                fact(
                    town,
                    "founded",
                    Literal(f"19{chance.choice((50, 60))}-0{chance.choice((1, 6))}-01", XSD + "date"),
                )
            )
    for i, person in enumerate(people):
        for town in chance.sample(towns, 2):
            office = f"office{i}{town}"
            facts += [fact(office, "holder", person), fact(office, "place", town)]
    return facts


class Trees:
    """Random query trees over an index, such as grammar makes them."""

    def __init__(self, index: GraphIndex, chance: random.Random) -> None:
        self.index, self.chance = index, chance
        self.things = [r.i for r in index.rels if r.kind == "entity"]
        self.measures = [r.i for r in index.rels if r.dtype]

    def query(self) -> Query:
        make: Callable[[], Query] = self.chance.choice(
            (self.set, self.set, self.set, self.count, self.exists, self.aggregate, self.grouped)
        )
        return make()

    def count(self) -> Query:
        return Count(self.set())

    def exists(self) -> Query:
        named = Nodes(frozenset([self.node()]))
        return Exists(self.chance.choice((self.set(), And(named, self.set()))))

    def aggregate(self) -> Query:
        return Aggregate(self.chance.choice(("sum", "average")), self.measure("number"), self.set(1))

    def grouped(self) -> Query:
        if self.chance.random() < 0.5:
            return Grouped("count", self.path(), self.set(1), self.chance.choice((None, self.set(1))))
        return Grouped(self.chance.choice(("sum", "average")), self.measure("number"), self.set(1))

    def node(self) -> int:
        return self.chance.choice(sorted(n for r in self.things for n in self.index.rels[r].subjects))

    def path(self) -> Path:
        steps = [
            (self.chance.choice(self.things), self.chance.choice(SIGNS))
            for _ in range(self.chance.choice((1, 1, 2)))
        ]
        return tuple(steps)

    def measure(self, kind: str = "") -> Path:
        some = [r for r in self.measures if not kind or self.index.rels[r].dtype == kind]
        before = self.path() if self.chance.random() < 0.2 else ()
        return (*before, (self.chance.choice(some or self.things), 1))

    def number(self, path: Path) -> Number:
        if self.index.rels[path[-1][0]].dtype == "date":
            year = self.chance.choice(("1950", "1960"))
            day = self.chance.choice(("", "-01-01"))
            return Number(float(year), "date", year + day)
        return Number(float(self.chance.choice((1, 2, 3))))

    def literals(self) -> Nodes:
        some = [
            n
            for n, term in enumerate(self.index.terms)
            if isinstance(term, Literal) and term.datatype == XSD + "string"
        ]
        return Nodes(
            frozenset(self.chance.sample(some, min(len(some), self.chance.choice((1, 2)))) or [self.node()])
        )

    def set(self, depth: int = 2) -> Set:
        chance = self.chance
        leaves: list[Callable[[], Set]] = [
            lambda: Members(chance.randrange(len(self.index.classes))),
            lambda: Image(
                self.path(), Nodes(frozenset(self.node() for _ in range(chance.choice((1, 1, 2)))))
            ),
            lambda: Having(self.path()),
            lambda: (
                Image(((self.colour, -1),), self.literals())
                if self.colour is not None
                else Having(self.path())
            ),
        ]
        if depth == 0 or chance.random() < 0.1:
            return chance.choice(leaves)()

        def part() -> Set:
            return self.set(depth - 1)

        measure = self.measure()[-1:]
        kinds: list[Callable[[], Set]] = [
            *leaves,
            lambda: And(part(), part()),
            lambda: And(part(), Nodes(frozenset([self.node()]))),
            lambda: Or(part(), part()),
            lambda: Minus(part(), part()),
            lambda: Minus(part(), Nodes(frozenset([self.node()]))),
            lambda: Image(self.path(), part()),
            lambda: Image(((measure[0][0], -1),), self.number(measure)),
            lambda: Extremal(
                part(), measure, chance.choice(SIGNS), chance.choice((1, 1, 2)), chance.choice((1, 1, 2))
            ),
            lambda: Extremal(Image(measure, part()), (), chance.choice(SIGNS), chance.choice((1, 1, 2)), 1),
            lambda: ExtremalAggregate(part(), self.measure("number"), "average", chance.choice(SIGNS)),
            lambda: Compared(part(), measure, chance.choice(COMPARISONS), self.number(measure)),
            lambda: Compared(part(), measure, chance.choice(COMPARISONS), Image(measure, part())),
            lambda: ExtremalAggregate(
                part(), self.path(), "count", chance.choice(SIGNS), chance.choice((None, part()))
            ),
            lambda: Linked(
                part(),
                self.path(),
                chance.choice(COMPARISONS),
                chance.choice((1, 2)),
                chance.choice((None, part())),
            ),
        ]
        return chance.choice(kinds)()

    @property
    def colour(self) -> int | None:
        return next((r.i for r in self.index.rels if r.names[0] == "colour"), None)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_a_program_finds_what_the_index_computes(seed: int) -> None:
    chance = random.Random(seed)
    kg, index = index_of(random_graph(chance))
    for _ in range(4):
        query = Trees(index, chance).query()
        try:
            program = compile_query(query, index, PROFILE)
        except ActionError:
            continue
        assert PyQL.parse(program.text(PROFILE), PROFILE) == program
        expected = denotation(query, index)
        assert computed(kg, program, expected, index) == meant(expected, index), (
            f"{query}\n{program.text(PROFILE)}"
        )


# --- how programs read --------------------------------------------------------------------------------------

SMALL = [
    fact("City", "subClassOf", "Place"),
    fact("Region", "subClassOf", "Place"),
    *(fact(city, "a", "City") for city in ("bonn", "trier", "ulm")),
    *(fact(region, "a", "Region") for region in ("rhine", "danube")),
    fact("bonn", "inRegion", "rhine"),
    fact("trier", "inRegion", "rhine"),
    fact("ulm", "inRegion", "danube"),
    *(fact(city, "size", n) for city, n in (("bonn", 300), ("trier", 100), ("ulm", 120))),
    fact("bonn", "founded", Literal("0012-01-01", XSD + "date")),
    fact("ulm", "founded", Literal("1181", XSD + "gYear")),
    fact("office1", "holder", "anna"),
    fact("office1", "place", "ulm"),
]


@pytest.fixture(scope="module")
def small() -> GraphIndex:
    return index_of(SMALL)[1]


def lines(query: Query, index: GraphIndex) -> list[str]:
    return compile_query(query, index, PROFILE).text(PROFILE).splitlines()


class Small:
    """Parts of queries over the small graph, by name."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index

    def step(self, name: str, direction: int = 1) -> Path:
        return (next((r.i, direction) for r in self._index.rels if r.path[-1][0] == ex(name)),)

    def nodes(self, *names: str) -> Nodes:
        return Nodes(frozenset(self._index.terms.index(ex(name)) for name in names))

    def members(self, name: str) -> Members:
        return Members(next(i for i, c in enumerate(self._index.classes) if c.iri == ex(name)))


def test_a_named_node_comes_before_a_class(small: GraphIndex) -> None:
    s = Small(small)
    query = And(s.members("City"), Image(s.step("inRegion", -1), s.nodes("rhine")))
    assert lines(query, small) == [
        "add_fact(?city, inRegion, rhine)",
        "add_type(?city, City)",
        "set_answer(?city)",
    ]


def test_a_superlative_is_taken_before_what_its_set_is_met_with(small: GraphIndex) -> None:
    s = Small(small)
    largest = Extremal(s.members("City"), s.step("size"), 1)
    query = And(Image(s.step("inRegion", -1), s.nodes("danube")), largest)
    assert lines(query, small) == [
        "add_type(?city, City)",
        "add_fact(?city, size, ?size)",
        "add_max(?size)",
        "add_fact(?city, inRegion, danube)",
        "set_answer(?city)",
    ]
    assert denotation(query, small) == frozenset()  # the largest city is elsewhere


def test_two_superlatives_of_one_set_are_taken_apart(small: GraphIndex) -> None:
    s = Small(small)
    query = And(
        Extremal(s.members("City"), s.step("size"), 1), Extremal(s.members("Place"), s.step("size"), 1)
    )
    assert "add_filter(?city, =, ?place)" in lines(query, small)


def test_yes_or_no_binds_what_is_named(small: GraphIndex) -> None:
    s = Small(small)
    in_rhine = Image(s.step("inRegion", -1), s.nodes("rhine"))
    assert lines(Exists(And(s.nodes("bonn"), in_rhine)), small) == [
        "add_fact(bonn, inRegion, rhine)",
        "ask()",
    ]
    assert lines(Exists(And(s.nodes("bonn"), s.members("City"))), small) == [
        "add_union((?city, =, bonn))",
        "add_type(?city, City)",
        "ask()",
    ]


def test_a_class_word_with_a_name_says_which_node_is_named(small: GraphIndex) -> None:
    s = Small(small)
    river_city = And(s.nodes("bonn", "rhine"), s.members("City"))
    assert lines(Image(s.step("size"), river_city), small)[0] == "add_fact(bonn, size, ?size)"


@pytest.mark.parametrize(
    ("number", "condition"),
    [
        (Number(1181.0, "date", "1181"), "add_filter(?founded, >=, 1181, date)"),
        (Number(1181.0, "date", "1181-02-03"), "add_filter(?founded, >=, 1181-02-03, date)"),
    ],
)
def test_dates_compare_to_their_precision(small: GraphIndex, number: Number, condition: str) -> None:
    s = Small(small)
    assert condition in lines(Compared(s.members("City"), s.step("founded"), "ge", number), small)


def test_values_of_different_kinds_are_not_compared(small: GraphIndex) -> None:
    s = Small(small)
    with pytest.raises(ActionError):
        compile_query(
            Compared(s.members("City"), s.step("size"), "gt", Number(10.5, "time", "10:30")), small, PROFILE
        )


def test_a_relation_through_a_mediator_binds_it(small: GraphIndex) -> None:
    s = Small(small)
    path = next((r.i, 1) for r in small.rels if len(r.path) == 2 and r.path[-1][0] == ex("place"))
    anna = Image((path,), s.nodes("anna"))
    assert lines(anna, small) == [
        "add_fact(?holder, holder, anna)",
        "add_fact(?holder, place, ?place)",
        "set_answer(?place)",
    ]


def test_the_largest_few_are_ordered_where_none_tie(small: GraphIndex) -> None:
    s = Small(small)
    query = Extremal(s.members("City"), s.step("size"), 1, 1, 2)
    assert lines(query, small)[-2:] == ["add_order(?size, desc, 2)", "set_answer(?city)"]


def test_names_of_variables() -> None:
    assert slug("place of birth (of a person)") == "place_of_birth"
    assert slug("3rd member") == slug("entity") == ""
