"""SPARQL that a model writes: read, checked, shown as rows, and proven."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.calls import parse_call
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg import open_kg
from triplewise.tools.pyql.raw_sparql import parts_of, read_sparql

Server = Callable[..., OpenAIServer]
TOOLS = TOOLSETS["sparql"]


def ask(text: str, program: str = "", action: str = "query") -> Feedback:
    return TOOLS.execute(ActionContext(open_kg("demo"), program=program), parse_call(f"{action}({text})"))


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("SELECT ?c WHERE { e:Q183 r:P36 ?c }", ("Q64",)),
        ("SELECT ?c WHERE { wd:Q183 wdt:P36 ?c . FILTER(?c != wd:Q1) }", ("Q64",)),
        ("PREFIX x: <http://www.wikidata.org/entity/> SELECT ?c WHERE { x:Q183 r:P36 ?c }", ("Q64",)),
        ("SELECT (COUNT(DISTINCT ?c) AS ?n) WHERE { e:Q183 r:P36 ?c }", ("1",)),
        ("ASK { e:Q183 r:P36 e:Q64 }", ("true",)),
        ("ASK { e:Q183 r:P36 e:Q90 }", ("false",)),
    ],
)
def test_what_a_model_writes_is_run(text: str, answers: tuple[str, ...]) -> None:
    found = ask(text)
    assert (found.error, found.outcome) == ("", "rows")
    assert ask("", found.program, "execute").answers == answers


def test_rows_are_shown_together_with_ids() -> None:
    shown = ask("SELECT ?c ?n WHERE { e:Q183 r:P36 ?c . ?c r:P17 ?n }").observation
    assert shown.splitlines()[0] == "?c | ?n"
    assert "Berlin [Q64] | Germany [Q183]" in shown


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?c WHERE { e:Q183 r:P36 ?c",
        "SELECT ?c WHERE { nope:Q183 r:P36 ?c }",
        "SELECT ?c WHERE { SERVICE <http://example.org/> { ?c ?p ?o } }",
        "SELECT ?c WHERE { e:not an id r:P36 ?c }",
        'SELECT ("Paris" AS ?x) WHERE {}',
        "SELECT (COUNT(*) AS ?n) WHERE {}",
        'SELECT ?x WHERE { VALUES ?x { "Paris" } }',
        "ASK { FILTER(1 = 1) }",
        "ASK { FILTER NOT EXISTS { e:Q183 r:P36 e:Q90 } }",
    ],
)
def test_what_cannot_or_must_not_run_is_refused(text: str) -> None:
    assert ask(text).error == "bad_sparql"


def test_the_pattern_that_nothing_meets_is_named() -> None:
    found = ask("SELECT ?x WHERE { e:Q183 r:P36 ?c . ?c r:P40 ?x }")
    assert (found.outcome, found.detail["missing"]) == ("empty", ["Q183 P36 ?c", "?c P40 ?x"])


def test_strings_are_left_alone_and_patterns_found() -> None:
    profile = open_kg("demo").profile
    text = read_sparql(
        'SELECT ?x WHERE { ?x rdfs:label "e:Q1 r:P2" FILTER NOT EXISTS { ?x r:P36 ?y } }', profile
    )
    assert '"e:Q1 r:P2"' in text
    assert text.startswith("PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n")
    assert [t.relation.value.rpartition("#")[2] for t in parts_of(text).patterns] == ["label"]


def test_a_run_is_answered_with_its_query_and_proof(openai_server: Server) -> None:
    reply = "Thought: so\nAction 1: query(SELECT ?c WHERE { e:Q183 r:P36 ?c })\nAction 2: execute()"
    context = Context(model="openai:scripted", base_url=openai_server([reply]).url, api_key_env="")
    answer = build_graph("agent-sparql").invoke(
        {"question": "What is the capital of Germany?"}, context=context
    )["answer"]
    assert (answer.labels, answer.usage.calls) == (("Berlin",), 1)
    assert answer.sparql.startswith("SELECT ?c")
    assert [p.text for p in answer.proof] == ["(Germany, capital, Berlin)"]


def test_it_needs_a_model() -> None:
    with pytest.raises(ConfigurationError, match="needs a language model"):
        build_graph("agent-sparql").invoke({"question": "What is the capital of Germany?"}, context=Context())


def test_a_variable_called_prefix_declares_none() -> None:
    text = read_sparql("SELECT ?prefix WHERE { ?prefix rdf:type ?t }", open_kg("demo").profile)
    assert text.startswith("PREFIX rdf: <")


def test_queries_are_taken_apart_in_many_threads_at_once() -> None:
    queries = [f"SELECT ?x {{ <a:{n}> <a:p>/<a:q> ?y . ?x <a:r> ?y FILTER(?y > {n}) }}" for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(parts_of, queries))
    assert [len(p.patterns) for p in parts] == [1] * 40
    assert {term.n3() for term in parts[7].terms} >= {"<a:7>", "<a:r>"}
    assert ">" in parts[7].operations
