"""Every engine gives the same answers: one suite, run on each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term, Triple, Variable, text
from triplewise.tools.kg.path_queries import Paths, find_paths
from triplewise.tools.kg.protocol import KnowledgeGraph, Meter, Outcome

EX = "http://example.org/"
RUNAWAY = (
    "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?q ?y . ?c ?r ?z "
    'FILTER(CONCAT(STR(?x), STR(?y), STR(?z)) = "no") }'
)


def e(name: str) -> IRI:
    return IRI(EX + name)


def names(terms: Iterable[Term]) -> list[str]:
    return [t.value.removeprefix(EX) for t in terms]


def routes(paths: Paths) -> list[list[str]]:
    arrow = {True: ">", False: "<"}
    return [
        [f"{hop.triple.relation.value.removeprefix(EX)}{arrow[hop.forward]}" for hop in path]
        for path in paths.paths
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("plain", text("plain")),
        ("english", text("colour", "en")),
        ("british", Literal("colour", RDF + "langString", "en-gb")),
        ("quotes", text('say "hi" \\ back')),
        ("lines", text("two\nlines\tand a tab")),
        ("unicode", text("Curaçao 日本 😀")),
        ("empty", text("")),
        ("integer", Literal("42", XSD + "integer")),
        ("negative", Literal("-7", XSD + "integer")),
        ("int", Literal("5", XSD + "integer")),
        ("decimal", Literal("1.5", XSD + "decimal")),
        ("double", Literal("2500", XSD + "double")),
        ("true", Literal("true", XSD + "boolean")),
        ("false", Literal("false", XSD + "boolean")),
        ("date", Literal("1903-07-01", XSD + "date")),
        ("caesar", Literal("-0044-03-15", XSD + "date")),
        ("moment", Literal("2001-02-03T04:05:06Z", XSD + "dateTime")),
        ("fraction", Literal("2001-02-03T04:05:06.5", XSD + "dateTime")),
        ("year", Literal("1903", XSD + "gYear")),
        ("month", Literal("1903-07", XSD + "gYearMonth")),
        ("code", Literal("x-1", EX + "code")),
    ],
)
def test_literals_arrive_alike_and_can_be_asked_back(kg: KnowledgeGraph, key: str, expected: Literal) -> None:
    got = kg.query(f"SELECT ?v WHERE {{ {e(key).n3()} {e('value').n3()} ?v }}")
    assert got.column("v") == (expected,)
    back = kg.query(f"SELECT ?s WHERE {{ ?s {e('value').n3()} {expected.n3()} }}")
    assert e(key) in back.column("s")


class TestQuery:
    def test_rows_and_unbound(self, kg: KnowledgeGraph) -> None:
        r = kg.query(
            f"SELECT ?w ?p WHERE {{ ?w {e('author').n3()} {e('london').n3()} "
            f"OPTIONAL {{ ?w {e('setIn').n3()} ?p }} }}"
        )
        assert (r.outcome, r.variables) == (Outcome.ROWS, ("w", "p"))
        assert {tuple(names([x])[0] if x else None for x in row) for row in r.rows} == {
            ("call", "yukon"),
            ("call", "california"),
            ("fang", "yukon"),
            ("eel", None),
        }

    def test_empty_is_an_answer(self, kg: KnowledgeGraph) -> None:
        r = kg.query(f"SELECT ?x WHERE {{ {e('nobody').n3()} ?p ?x }}")
        assert (r.outcome, r.outcome.ok, r.rows, r.variables) == (Outcome.EMPTY, True, (), ("x",))

    @pytest.mark.parametrize(("object_", "expected"), [("yukon", True), ("usa", False)])
    def test_ask(self, kg: KnowledgeGraph, object_: str, expected: bool) -> None:
        r = kg.query(f"ASK {{ {e('fang').n3()} {e('setIn').n3()} {e(object_).n3()} }}")
        assert (r.outcome, r.boolean) == (Outcome.ROWS, expected)

    @pytest.mark.parametrize(("limit", "outcome"), [(59, Outcome.TRUNCATED), (60, Outcome.ROWS)])
    def test_truncated_only_if_something_is_missing(
        self, kg: KnowledgeGraph, limit: int, outcome: Outcome
    ) -> None:
        r = kg.query(f"SELECT ?m {{ ?m {e('memberOf').n3()} ?h }}", limit=limit)
        assert (r.outcome, len(r.rows)) == (outcome, limit)

    def test_cap_goes_before_a_trailing_values_block(self, kg: KnowledgeGraph) -> None:
        r = kg.query(
            f"SELECT ?p {{ ?w {e('setIn').n3()} ?p }} ORDER BY ?p VALUES ?w {{ {e('call').n3()} }}", limit=1
        )
        assert (r.outcome, names(r.column("p"))) == (Outcome.TRUNCATED, ["california"])

    def test_values_grouping_union_and_negation(self, kg: KnowledgeGraph) -> None:
        r = kg.query(
            f"SELECT ?p (COUNT(?w) AS ?n) {{ VALUES ?w {{ {e('call').n3()} {e('fang').n3()} }} "
            f"{{ ?w {e('setIn').n3()} ?p }} UNION {{ ?w {e('genre').n3()} ?p }} "
            f"FILTER NOT EXISTS {{ ?p {e('within').n3()} {e('usa').n3()} }} }} GROUP BY ?p ORDER BY ?p"
        )
        two = Literal("2", XSD + "integer")
        assert r.rows == ((e("novel"), two), (e("yukon"), two))

    @pytest.mark.parametrize("broken", ["SELECT ?x WHERE { ?x ?y", "SELECT WHERE", "SELECT ?x { ?x ?y }"])
    def test_syntax_errors_carry_the_engines_words(self, kg: KnowledgeGraph, broken: str) -> None:
        r = kg.query(broken)
        assert (r.outcome, r.outcome.ok) == (Outcome.SYNTAX, False)
        assert len(r.message) > 20

    @pytest.mark.parametrize(
        "refused",
        [
            "INSERT DATA { <http://example.org/a> <http://example.org/b> 1 }",
            "DELETE WHERE { ?s ?p ?o }",
            "LOAD <http://127.0.0.1/x>",
            "CLEAR ALL",
            "CONSTRUCT WHERE { ?s ?p ?o }",
            "DESCRIBE <http://example.org/call>",
            "SELECT ?s { SERVICE <http://127.0.0.1/x> { ?s ?p ?o } }",
            "",
        ],
    )
    def test_only_reads_reach_a_kg(self, kg: KnowledgeGraph, refused: str) -> None:
        meter = Meter(kg.meter)
        r = kg.query(refused)
        assert r.outcome is Outcome.SYNTAX
        assert "SELECT or ASK" in r.message
        assert meter.queries == 0
        assert kg.query(f"ASK {{ {e('call').n3()} ?p ?o }}").boolean

    def test_time_out_is_told_and_comes_in_time(self, kg: KnowledgeGraph) -> None:
        start = time.monotonic()
        r = kg.query(RUNAWAY, timeout=0.2)
        assert r.outcome is Outcome.TIMEOUT
        for held in ("rows", "boolean"):
            with pytest.raises(QueryFailedError, match="timeout"):
                getattr(r, held)
        assert time.monotonic() - start < 20  # by itself the query would run for many minutes
        assert kg.query("ASK { ?s ?p ?o }").boolean

    def test_queries_are_counted(self, kg: KnowledgeGraph) -> None:
        meter = Meter(kg.meter)
        kg.query("ASK { ?s ?p ?o }")
        kg.query("SELECT ?s { ?s ?p ")
        assert meter.queries == 2

    def test_threads_share_one_kg(self, kg: KnowledgeGraph) -> None:
        def ask(i: int) -> list[str]:
            member = e(f"member{i:03}").n3()
            return names(kg.query(f"SELECT ?h {{ {member} ?p ?h }}").column("h"))

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(40))) == [["hub"]] * 40


class TestRelations:
    def test_of_an_entity_both_ways_without_excluded_ones(self, kg: KnowledgeGraph) -> None:
        r = kg.relations(e("london"))
        assert (r.outcome, names(r.forward), names(r.backward)) == (
            Outcome.ROWS,
            ["bornIn", "spouse"],
            ["author"],
        )

    def test_of_a_variable(self, kg: KnowledgeGraph) -> None:
        where = f"?out {e('author').n3()} {e('london').n3()} . FILTER(?out != {e('eel').n3()})"
        r = kg.relations(Variable("out"), where)
        assert (names(r.forward), names(r.backward)) == (["author", "genre", "published", "setIn"], [])

    def test_of_a_literal(self, kg: KnowledgeGraph) -> None:
        r = kg.relations(Literal("1903", XSD + "gYear"))
        assert (names(r.forward), names(r.backward)) == ([], ["published", "value"])

    @pytest.mark.parametrize("where", [f"SERVICE {e('other').n3()} {{ ?x ?p ?o }}", "?x ?p '\\u0041'"])
    def test_a_group_pattern_may_be_refused(self, kg: KnowledgeGraph, where: str) -> None:
        with pytest.raises(QueryFailedError, match="syntax"):
            kg.relations(Variable("x"), where)


class TestNeighbours:
    def test_both_directions_without_excluded_ones(self, kg: KnowledgeGraph) -> None:
        r = kg.neighbours(e("california"))
        assert r.outcome is Outcome.ROWS
        assert r.triples == (
            Triple(e("california"), e("within"), e("usa")),
            Triple(e("call"), e("setIn"), e("california")),
            Triple(e("sanfrancisco"), e("within"), e("california")),
        )

    def test_of_one_relation(self, kg: KnowledgeGraph) -> None:
        r = kg.neighbours(e("london"), e("author"), "backward")
        assert names(t.subject for t in r.triples) == ["call", "eel", "fang"]
        assert kg.neighbours(e("london"), e("author"), "forward").outcome is Outcome.EMPTY

    def test_of_a_literal(self, kg: KnowledgeGraph) -> None:
        r = kg.neighbours(Literal("1903", XSD + "gYear"), e("published"))
        assert names(t.subject for t in r.triples) == ["call", "eel"]

    def test_cut_leaves_both_sides_their_share(self, kg: KnowledgeGraph) -> None:
        r = kg.neighbours(e("hub"), limit=7)
        assert (r.outcome, len(r.triples)) == (Outcome.TRUNCATED, 7)
        r = kg.neighbours(e("london"), limit=4)
        assert (r.outcome, [t.subject == e("london") for t in r.triples]) == (
            Outcome.TRUNCATED,
            [True, True, False, False],
        )


class TestLabels:
    def test_one_query_and_the_right_choice(self, kg: KnowledgeGraph) -> None:
        nodes: list[Term] = [e("call"), e("fang"), e("yukon"), e("london"), text("not a node")]
        meter = Meter(kg.meter)
        labels = kg.labels(nodes)
        assert meter.queries == 1
        assert labels == {
            e("call"): "The Call of the Wild",
            e("fang"): "White Fang",
            e("yukon"): "Yukon",
            e("london"): "London",
        }

    def test_answers_are_kept(self, kg: KnowledgeGraph) -> None:
        nodes = [e("call"), e("eel"), e("nobody")]
        first = kg.labels(nodes)
        meter = Meter(kg.meter)
        assert kg.labels(nodes) == first
        assert meter.queries == 0

    def test_failures_are_not_kept(self, kg: KnowledgeGraph) -> None:
        kg.timeout = 0.0
        assert kg.labels([e("call")], partial=True) == {}
        with pytest.raises(QueryFailedError):
            kg.labels([e("call")])
        kg.timeout = 30.0
        assert kg.labels([e("call")]) == {e("call"): "The Call of the Wild"}

    def test_many_nodes_in_few_queries(self, kg: KnowledgeGraph) -> None:
        nodes = [e(f"absent{i}") for i in range(1_200)]
        meter = Meter(kg.meter)
        labels = kg.labels([*nodes, e("call")])
        assert labels == {e("call"): "The Call of the Wild"}
        assert meter.queries <= 6


class TestPaths:
    def test_shortest_first_both_directions(self, kg: KnowledgeGraph) -> None:
        r = find_paths(kg, e("call"), e("fang"), 2, 10_000)
        assert r.outcome is Outcome.ROWS
        assert routes(r) == [["author>", "author<"], ["genre>", "genre<"], ["setIn>", "setIn<"]]

    def test_all_simple_paths_and_no_others(self, kg: KnowledgeGraph) -> None:
        r = find_paths(kg, e("london"), e("usa"), 3, 10_000)
        assert routes(r) == [
            ["author<", "setIn>", "within>"],
            ["bornIn>", "within>", "within>"],
        ]
        assert [len(p) for p in find_paths(kg, e("call"), e("eel"), 3, 10_000).paths] == [2, 2]

    def test_through_and_to_a_literal(self, kg: KnowledgeGraph) -> None:
        year = Literal("1903", XSD + "gYear")
        assert routes(find_paths(kg, e("call"), year, 1, 10_000)) == [["published>"]]
        assert ["published>", "published<"] in routes(find_paths(kg, e("call"), e("eel"), 2, 10_000))

    def test_cuts_and_time_outs_are_reported(self, kg: KnowledgeGraph) -> None:
        r = find_paths(kg, e("call"), e("fang"), 2, 1)
        assert (r.outcome, len(r.paths)) == (Outcome.TRUNCATED, 1)
        kg.timeout = 0.0
        with pytest.raises(QueryFailedError, match="timeout"):
            find_paths(kg, e("call"), e("fang"), 3, 9)

    def test_never_a_query_a_node(self, kg: KnowledgeGraph) -> None:
        meter = Meter(kg.meter)
        r = find_paths(kg, e("member000"), e("member001"), 3, 10_000)
        assert routes(r) == [["memberOf>", "memberOf<"]]
        assert meter.queries <= 12


def test_closed_says_unavailable(kg: KnowledgeGraph) -> None:
    kg.close()
    kg.close()
    r = kg.query("ASK { ?s ?p ?o }")
    assert (r.outcome, "open it again" in r.message) == (Outcome.UNAVAILABLE, True)
    with pytest.raises(QueryFailedError, match="unavailable"):
        find_paths(kg, e("call"), e("fang"), 3, 10_000)
