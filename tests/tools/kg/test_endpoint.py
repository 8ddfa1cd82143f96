"""Endpoints that misbehave, each over real HTTP on loopback."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.sparql_server import Scripted, SparqlServer, rows
from tests.support.virtuoso import free_port
from triplewise.tools.core.errors import ConfigurationError, QueryFailedError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import endpoint
from triplewise.tools.kg.dialects import engine_of
from triplewise.tools.kg.endpoint import EndpointKG, spell_out_closures
from triplewise.tools.kg.engine import read_query
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Deadline, Outcome

ALL = "SELECT ?x { ?x ?p ?o }"
Start = Callable[..., tuple[EndpointKG, SparqlServer]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, seconds in (("BACK_OFF", 0.01), ("LONGEST_WAIT", 0.05)):
        monkeypatch.setattr(endpoint, name, seconds)
    with ExitStack() as stack:

        def opened(*replies: Scripted, **options: Any) -> tuple[EndpointKG, SparqlServer]:
            server = stack.enter_context(SparqlServer(replies))
            kg = EndpointKG(server.url, Profile())
            for name, value in options.items():
                setattr(kg, name, value)
            stack.callback(kg.close)
            return kg, server

        yield opened


GOOD = Scripted(rows("http://x/a"))


@pytest.mark.parametrize(
    "first",
    [
        Scripted("slow down", status=429, headers={"Retry-After": "0"}),
        Scripted("<html><body>Oops</body></html>", status=500, content_type="text/html"),
        Scripted(status=502),
        Scripted(status=504),
        Scripted(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Scripted(hang_up=True),
        Scripted(rows("http://x/a", "http://x/b"), cut=70),
        Scripted(rows("http://x/a", "http://x/b")[:70]),
    ],
    ids=["429", "500", "502", "504", "503", "no-reply", "cut-connection", "cut-json"],
)
def test_passing_trouble_is_tried_again(start: Start, first: Scripted) -> None:
    kg, server = start(first, GOOD)
    result = kg.query(ALL)
    assert (result.outcome, result.column("x")) == (Outcome.ROWS, (IRI("http://x/a"),))
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Scripted("busy", status=503), "503"),
        (Scripted("slow down", status=429), "too many requests"),
        (Scripted(hang_up=True), "cut"),
        (Scripted(rows("http://x/a")[:-9]), "cut off"),
    ],
)
def test_lasting_trouble_is_unavailable_after_bounded_attempts(
    start: Start, reply: Scripted, says: str
) -> None:
    kg, server = start(reply)
    result = kg.query(ALL)
    assert result.outcome is Outcome.UNAVAILABLE
    assert says in result.message
    assert len(server.asked) == endpoint.ATTEMPTS


def test_a_gateway_that_waited_for_the_query_is_not_asked_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "EARLY", 0.0)
    kg, server = start(Scripted("upstream", status=504))
    result = kg.query(ALL)
    assert (result.outcome, "upstream" in result.message, len(server.asked)) == (Outcome.TIMEOUT, True, 1)


def test_an_endpoint_that_has_answered_is_waited_for_while_it_starts_anew(start: Start) -> None:
    away = [Scripted("starting", status=503)] * (3 * endpoint.ATTEMPTS)
    kg, server = start(GOOD, *away, GOOD)
    assert [kg.query(ALL + " # again" * n).outcome for n in range(2)] == [Outcome.ROWS] * 2
    assert len(server.asked) == len(away) + 2


def test_retry_after_is_honoured(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Deadline, "sleep", lambda self, seconds: waits.append(seconds))
    kg, _ = start(Scripted(status=429, headers={"Retry-After": "7"}), GOOD, timeout=120.0)
    assert kg.query(ALL).outcome is Outcome.ROWS
    assert waits == [7.0]


@pytest.mark.parametrize(
    ("reply", "outcome", "says"),
    [
        (Scripted("Parse error: line 1", status=400), Outcome.SYNTAX, "line 1"),
        (Scripted("Virtuoso 37000 Error SP030: SPARQL compiler", status=500), Outcome.SYNTAX, "SP030"),
        (Scripted("Virtuoso S0022 Error SQ200: No column w.", status=500), Outcome.SYNTAX, "No column"),
        (Scripted("who are you", status=401), Outcome.UNAVAILABLE, "_TOKEN"),
        (Scripted("no", status=403), Outcome.UNAVAILABLE, "refuses access"),
        (Scripted("no", status=404), Outcome.UNAVAILABLE, "check the path"),
        (Scripted("Virtuoso S1T00 Error SR171: Transaction timed out", status=500), Outcome.TIMEOUT, "SR171"),
        (Scripted("java.util.concurrent.TimeoutException", status=500), Outcome.TIMEOUT, "ran out of time"),
        (Scripted("The estimated execution time 900 (sec) exceeds", status=400), Outcome.TIMEOUT, "900"),
        (
            Scripted("<html><h1>Welcome</h1></html>", content_type="text/html; charset=utf-8"),
            Outcome.UNAVAILABLE,
            "text/html, not SPARQL results",
        ),
        (Scripted('{"answer": 42}', content_type="application/json"), Outcome.UNAVAILABLE, "not SPARQL"),
        (Scripted("", content_type="text/plain"), Outcome.UNAVAILABLE, "not SPARQL results"),
        (Scripted(rows("http://x/a", variable="y")), Outcome.UNAVAILABLE, "lack what was selected: x"),
        (Scripted('{"head": {}, "boolean": true}'), Outcome.UNAVAILABLE, "another form of query than SELECT"),
    ],
)
def test_refusals_are_told_apart_and_not_tried_again(
    start: Start, reply: Scripted, outcome: Outcome, says: str
) -> None:
    kg, server = start(reply)
    result = kg.query(ALL)
    assert (result.outcome, len(server.asked)) == (outcome, 1)
    assert says in result.message


@pytest.mark.parametrize(
    "reply",
    [
        Scripted(rows("http://x/a")[:-3] + " ] SPARQL-QUERY: ... java.util.concurrent.TimeoutException"),
        Scripted(rows("http://x/a")[:-1] + ', "remark": "runtime error: Query timed out in 25 s"}'),
        Scripted("<html><h1>504 Gateway Time-out</h1></html>", content_type="text/html"),
        Scripted("Query timed out", content_type="text/plain"),
        Scripted(rows(), headers={"X-SQL-State": "S1TAT", "X-SQL-Message": "Returning incomplete results"}),
    ],
    ids=["appended", "remark", "page", "text", "anytime"],
)
def test_a_time_out_with_status_200_is_never_rows(start: Start, reply: Scripted) -> None:
    kg, server = start(reply)
    result = kg.query(ALL)
    assert (result.outcome, len(server.asked)) == (Outcome.TIMEOUT, 1)
    with pytest.raises(QueryFailedError, match="timeout"):
        _ = result.rows


def test_time_out_words_in_data_or_in_the_echoed_query_do_not_count(start: Start) -> None:
    kg, _ = start(Scripted(rows("http://x/query-timed-out")))
    assert kg.query(ALL).outcome is Outcome.ROWS
    asked = 'SELECT ?x { ?x ?p "Query timed out"'
    kg, _ = start(Scripted(f"Parse error.\n\nSPARQL query:\n{asked}", status=400))
    assert kg.query(asked).outcome is Outcome.SYNTAX


@pytest.mark.parametrize(
    "slow", [Scripted(rows("http://x/a"), delay=60.0), Scripted(rows("http://x/a"), drip=0.5)]
)
def test_a_slow_endpoint_is_a_time_out_in_time(start: Start, slow: Scripted) -> None:
    kg, _ = start(slow)
    begun = time.monotonic()
    result = kg.query(ALL, timeout=0.3)
    assert result.outcome is Outcome.TIMEOUT
    assert time.monotonic() - begun < 20  # the whole answer would take three times as long


def test_a_dead_endpoint_says_what_to_do(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    kg = EndpointKG(f"http://127.0.0.1:{free_port()}/sparql", Profile())
    kg.timeout = 3.0
    result = kg.query(ALL)
    assert result.outcome is Outcome.UNAVAILABLE
    assert "start the server, or check host and port" in result.message
    assert kg.labels([IRI("http://x/a")], partial=True) == {}
    with pytest.raises(QueryFailedError, match="start the server"):
        kg.labels([IRI("http://x/a")])


def test_the_endpoints_own_cap_is_told(start: Start) -> None:
    kg, _ = start(Scripted(rows("http://x/a", "http://x/b"), headers={"X-SPARQL-MaxRows": "2"}))
    result = kg.query(ALL)
    assert (result.outcome, len(result.rows)) == (Outcome.TRUNCATED, 2)
    assert "endpoint's own limit of 2" in result.message


def test_long_queries_are_posted(start: Start) -> None:
    kg, server = start(GOOD)
    kg.query(ALL)
    kg.query(f"{ALL} # {'x' * endpoint.LONGEST_GET}")
    assert [a.method for a in server.asked] == ["GET", "POST"]
    assert server.asked[1].parameters["query"][0].startswith(ALL)


def test_login_and_parameters_are_sent_but_not_shown(start: Start) -> None:
    _, server = start(GOOD)
    url = server.url.replace("http://", "http://me:s%3Acret@") + "?infer=false&default-graph-uri=http://x/g"
    kg = EndpointKG(url, Profile())
    assert kg.query(ALL).outcome is Outcome.ROWS
    asked = server.asked[0]
    assert asked.headers["authorization"] == "Basic bWU6czpjcmV0"
    assert asked.parameters["default-graph-uri"] == ["http://x/g"]
    assert asked.parameters["infer"] == ["false"]
    assert "cret" not in kg.name


def test_virtuoso_is_told_when_to_stop(start: Start) -> None:
    kg, server = start(Scripted(rows("http://x/a"), headers={"Server": "Virtuoso/07.20"}))
    kg.query(ALL)
    kg._engine = engine_of("Virtuoso/07.20")
    kg.query(ALL, timeout=10)
    assert "timeout" not in server.asked[0].parameters
    assert 8_000 <= int(server.asked[1].parameters["timeout"][0]) <= 9_000


@pytest.mark.parametrize("url", ["localhost:8890/sparql", "ftp://x/sparql", "http://", "sparql"])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http://localhost:8890/sparql"):
        EndpointKG(url, Profile())


def test_a_redirect_does_not_carry_login_and_keys_to_another_server(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    _, other = start(GOOD)
    moved = Scripted(status=302, headers={"Location": other.url})
    kg, server = start(moved)
    kg._headers = {"X-Api-Key": "secret", "Authorization": "Basic bWU6c2VjcmV0"}
    assert kg.query(ALL).outcome is Outcome.ROWS
    sent, passed_on = server.asked[0].headers, other.asked[0].headers
    assert (sent["authorization"], sent["x-api-key"]) == ("Basic bWU6c2VjcmV0", "secret")
    assert "authorization" not in passed_on
    assert "x-api-key" not in passed_on
    assert passed_on["accept"] == sent["accept"]
    kg.query("ASK { ?a ?b ?c }")
    (warning,) = (r.getMessage() for r in caplog.records if r.name.startswith("triplewise"))
    assert "sends queries on to another server" in warning


CLASS_PREFIX = "PREFIX e: <http://e/>\n"
CLASSES = b"""
@prefix e: <http://e/> .
e:lake e:sub e:water . e:crater e:sub e:lake . e:loop e:sub e:crater . e:crater e:sub e:loop .
e:a e:is e:lake . e:b e:is e:crater . e:c e:is e:water . e:d e:is e:hill .
e:a e:in e:x . e:b e:in e:x . e:d e:in e:x .
"""


@pytest.fixture
def classes() -> LocalKG:
    store = ox.Store()
    store.load(CLASSES, format=ox.RdfFormat.TURTLE)
    return LocalKG(store, Profile(), "classes")


@pytest.mark.parametrize(
    "group",
    [
        "?x e:is/e:sub* e:lake .",
        "?x e:in e:x . ?x e:is/e:sub* e:water .",
        "?x e:in e:x . ?x e:is ?t . ?t e:sub* e:lake",
        "?x (e:is)/(e:sub)* e:lake",
        "{ ?x e:is/e:sub* e:lake . } UNION { ?x e:is/e:sub* e:hill . }",
        "?x e:in e:x . FILTER NOT EXISTS { ?x e:is/e:sub* e:lake . }",
        "?x e:is/e:sub* e:nothing .",
    ],
)
def test_same_answers_without_the_closure(classes: LocalKG, group: str) -> None:
    query = read_query(f"{CLASS_PREFIX}SELECT DISTINCT ?x WHERE {{ {group} }}")
    plain = spell_out_closures(query)
    assert "*" not in plain.text
    assert set(classes.query(plain.text).rows) == set(classes.query(query.text).rows)


@pytest.mark.parametrize(
    "group", ["?x e:is/e:sub* ?class .", "?x e:is e:lake .", 'FILTER("?x e:is/e:sub* e:lake ." = ?y)']
)
def test_nothing_else_is_touched(classes: LocalKG, group: str) -> None:
    query = read_query(f"{CLASS_PREFIX}SELECT DISTINCT ?x WHERE {{ ?x e:in ?y . {group} }}")
    assert spell_out_closures(query) is query


def test_columns_come_in_the_order_of_the_query(start: Start) -> None:
    kg, _ = start(Scripted(rows("http://x/a", variable="x").replace('["x"]', '["y", "x"]')))
    result = kg.query("SELECT ?x (STR(?x) AS ?y) { ?x ?p ?z }")
    assert (result.variables, result.rows) == (("x", "y"), ((IRI("http://x/a"), None),))


def test_an_answer_that_unpacks_to_more_than_the_cap_takes_no_memory(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LARGEST_BODY", 8 * 2**20)
    bomb = gzip.compress(b" " * (512 * 2**20))
    kg, server = start(Scripted(bomb, headers={"Content-Encoding": "gzip"}))
    tracemalloc.start()
    result = kg.query(ALL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (result.outcome, "larger than 8 MiB" in result.message) == (Outcome.UNAVAILABLE, True)
    assert peak < 160 * 2**20  # a piece from the network unpacks to 64 MiB at most
    assert server.asked[0].headers["accept-encoding"] == "gzip"
    kg, _ = start(Scripted(gzip.compress(rows("http://x/a").encode()), headers={"Content-Encoding": "gzip"}))
    assert kg.query(ALL).column("x") == (IRI("http://x/a"),)


@pytest.mark.parametrize("boolean", ['"false"', "null", "0", "[]", '"true"', "1"])
def test_only_true_and_false_answer_an_ask(start: Start, boolean: str) -> None:
    kg, _ = start(Scripted(f'{{"head": {{}}, "boolean": {boolean}}}'))
    assert kg.query("ASK { ?x ?p ?o }").outcome is Outcome.UNAVAILABLE


@pytest.mark.parametrize(("count", "is_one"), [("8", True), ("8.0", True), ("eight", False), ("-8", False)])
def test_only_a_whole_number_is_a_count(start: Start, count: str, is_one: bool) -> None:
    cell = {"x": {"type": "literal", "value": count}}
    kg, _ = start(Scripted(json.dumps({"head": {"vars": ["x"]}, "results": {"bindings": [cell]}})))
    result = kg.query("SELECT (COUNT(DISTINCT ?s) AS ?x) { ?s ?p ?o }")
    assert (result.outcome.ok, "a count is" in result.message) == (is_one, not is_one)


@pytest.mark.parametrize(
    "query",
    ["SELECT ?x (COUNT(*) AS ?n) { ?x ?p ?o } GROUP BY ?x", "SELECT ?x { VALUES ?x { <urn:a> } ?x ?p ?o }"],
)
def test_cells_that_always_have_a_value_are_not_read_as_unbound(start: Start, query: str) -> None:
    names = list(read_query(query).variables)
    kg, _ = start(Scripted(json.dumps({"head": {"vars": names}, "results": {"bindings": [{}]}})))
    assert kg.query(query).outcome is Outcome.UNAVAILABLE


@pytest.mark.parametrize(
    "body",
    [
        '{"head": {"vars": ["y"]}, "results": {"bindings": []}}',
        '{"head": {"vars": ["x"]}, "results": {"bindings": [{}, {}]}}',
        '{"head": {"vars": [["x"]]}, "results": {"bindings": []}}',
        '{"head": ' + "[" * 100_000,
    ],
    ids=["foreign-columns", "no-values", "names-no-text", "nested"],
)
def test_what_is_no_result_is_never_taken_for_an_empty_one(start: Start, body: str) -> None:
    kg, _ = start(Scripted(body))
    assert kg.query(ALL).outcome is Outcome.UNAVAILABLE


@pytest.mark.parametrize(
    "between",
    [
        *(
            Scripted(body, content_type="text/html")
            for body in ("", "<html><body>Just a moment</body></html>")
        ),
        *(Scripted("<html><body>Not here</body></html>", status) for status in (204, 403, 404)),
        Scripted("no gzip", headers={"Content-Encoding": "gzip"}),
    ],
)
def test_a_page_in_between_is_tried_again(start: Start, between: Scripted) -> None:
    kg, server = start(GOOD, between, GOOD)
    assert kg.query(ALL).outcome is Outcome.ROWS
    assert kg.query("SELECT ?x { ?x ?p ?o . ?o ?q ?r }").outcome is Outcome.ROWS
    assert len(server.asked) == 3
