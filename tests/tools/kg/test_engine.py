"""The gate: what passes, what does not, and the cap; the workers that end in time."""

from __future__ import annotations

import threading

import pyoxigraph as ox
import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.terms import text
from triplewise.tools.kg.engine import Refused, Workers, read_query

WORDS = ["SERVICE", "DROP", "insert", "}", '"', "'", "\\", "#", "\n", "<", ">", " ", "LIMIT 1", "?x", "é"]


@pytest.mark.parametrize(
    "sparql",
    [
        "select * { ?s ?p ?o }",
        "# DROP ALL\nPREFIX a: <http://x/DELETE#> BASE <http://x/> ASK { a:load a:SERVICE ?clear }",
        'SELECT ?s { ?s ?p \'SERVICE <x>\' , """it\'s "quoted"\nLOAD""" , \'d\\\'DROP\' }',
        "SELECT ?s { ?s <http://x/a#INSERT> ?o . FILTER(?o < 3 && ?o > 1) }",
        "PREFIX ns: <http://x/> SELECT ?s { ns:a.b.c ns:p.q ?s }",
        'SELECT ?s { ?s ?p "日本 \\u65E5" ; <bif:contains> "x" }',
    ],
)
def test_reads_pass(sparql: str) -> None:
    assert read_query(sparql).text == sparql


@pytest.mark.parametrize(
    ("sparql", "says"),
    [
        ("INSERT DATA { <a:a> <a:b> 1 }", "INSERT"),
        ("PREFIX a: <http://x/>\nDELETE WHERE { ?s ?p ?o }", "DELETE"),
        ("SELECT ?s { ?s ?p ?o } ; DROP ALL", "DROP"),
        ("SELECT ?s { { SeRvIcE SILENT <http://x/> { ?s ?p ?o } } }", "SERVICE"),
        ("SELECT ?s { ?s ?p 1SERVICE<http://x/>{ ?s ?p ?o } }", "SERVICE"),
        ("SELECT ?s { ?s ?p ?o # hidden\n SERVICE <http://x/> {} }", "SERVICE"),
        ("SELECT ?s { \\u0053ERVICE <http://x/> { ?s ?p ?o } }", "'S'"),
        ('SELECT ?s { ?s ?p "\\u0022 } LOAD <http://x/> #" }', "itself"),
        ("SELECT ?s { ?s ?p ?o # x\r SERVICE <http://x/> {} }", "carriage return"),
        ('DEFINE get:soft "soft" SELECT ?s { ?s ?p ?o }', "DEFINE"),
        ("SELECT (bif:exec('x') AS ?y) { }", "bif:exec"),
        ("SELECT (<sql:exec>('x') AS ?y) { }", "sql:exec"),
        ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "CONSTRUCT"),
        ("DESCRIBE <http://x/>", "DESCRIBE"),
        ("   # nothing", "empty"),
        ("{ ?s ?p ?o }", "starts with SELECT or ASK"),
    ],
)
def test_all_else_is_refused(sparql: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        read_query(sparql)


@given(st.lists(st.sampled_from(WORDS), max_size=8).map("".join))
def test_nothing_in_a_term_is_refused_or_hides_something(value: str) -> None:
    literal = text(value).n3()
    read_query(f"SELECT ?s {{ ?s ?p {literal} }}")
    with pytest.raises(Refused, match="SERVICE"):
        read_query(f"SELECT ?s {{ ?s ?p {literal} . SERVICE <http://x/> {{ ?s ?p ?o }} }}")


@pytest.mark.parametrize(
    ("sparql", "capped"),
    [
        ("ASK { ?s ?p ?o }", "ASK { ?s ?p ?o }"),
        ("SELECT * { ?s ?p ?o } LIMIT 5", "SELECT * { ?s ?p ?o } LIMIT 5"),
        ("SELECT * { ?s ?p ?o } LIMIT 500 OFFSET 2", "SELECT * { ?s ?p ?o } LIMIT 10 OFFSET 2"),
        ("SELECT * { ?s ?p ?o } # LIMIT 5", "SELECT * { ?s ?p ?o } # LIMIT 5\nLIMIT 10"),
        ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"),
        (
            "SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s",
            "SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s\nLIMIT 10",
        ),
        (
            "SELECT ?s { { SELECT ?s { ?s ?p 'LIMIT 3' } LIMIT 99 } } ORDER BY ?s",
            "SELECT ?s { { SELECT ?s { ?s ?p 'LIMIT 3' } LIMIT 99 } } ORDER BY ?s\nLIMIT 10",
        ),
        (
            "SELECT ?s { ?s ?p ?o } ORDER BY ?s VALUES ?o { 1 }",
            "SELECT ?s { { ?s ?p ?o }\nVALUES ?o { 1 }\n} ORDER BY ?s \nLIMIT 10",
        ),
    ],
)
def test_cap(sparql: str, capped: str) -> None:
    assert read_query(sparql).capped(10) == capped
    ox.Store().query(capped)


def _numbers() -> ox.Store:
    store = ox.Store()
    for i in range(30):
        subject, relation = ox.NamedNode(f"http://x/s{i % 7}"), ox.NamedNode(f"http://x/p{i % 3}")
        store.add(ox.Quad(subject, relation, ox.Literal(i)))
    return store


@given(
    modifiers=st.sampled_from(["", " ORDER BY ?o ?s", " ORDER BY DESC(?o)"]),
    limit=st.sampled_from(["", " LIMIT 4", " LIMIT 50", " OFFSET 3", " LIMIT 12 OFFSET 1"]),
    values=st.sampled_from(
        ["", " VALUES ?p { <http://x/p0> <http://x/p1> }", " VALUES (?s ?p) { (UNDEF <http://x/p2>) }"]
    ),
    rows=st.integers(1, 40),
)
def test_a_cap_only_cuts_the_end(modifiers: str, limit: str, values: str, rows: int) -> None:
    store = _numbers()
    sparql = f"SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }}{modifiers}{limit}{values}"
    whole = [str(r) for r in store.query(sparql)]  # type: ignore[union-attr]
    cut = [str(r) for r in store.query(read_query(sparql).capped(rows))]  # type: ignore[union-attr]
    assert len(cut) == min(len(whole), rows)
    if modifiers:
        assert cut == whole[:rows]


class TestWorkers:
    def test_values_and_errors_come_back(self) -> None:
        workers = Workers()
        assert workers.run(lambda _: 42, 1) == 42
        with pytest.raises(ZeroDivisionError):
            workers.run(lambda _: 1 / 0, 1)

    def test_a_job_given_up_is_told_and_its_place_comes_back(self) -> None:
        workers, told = Workers(size=1), threading.Event()

        def job(cancelled: threading.Event) -> None:
            cancelled.wait(5)
            told.set()

        with pytest.raises(TimeoutError, match=r"0\.05 s"):
            workers.run(job, 0.05)
        assert told.wait(5)
        assert workers.run(lambda _: 1, 5) == 1

    def test_jobs_that_never_end_do_not_pile_up(self) -> None:
        workers, release = Workers(size=2), threading.Event()
        for _ in range(2):
            with pytest.raises(TimeoutError, match=r"0\.02 s"):
                workers.run(lambda _: release.wait(60), 0.02)
        with pytest.raises(TimeoutError, match="still occupy"):
            workers.run(lambda _: 1, 0.05)
        release.set()
        assert workers.run(lambda _: 1, 5) == 1
