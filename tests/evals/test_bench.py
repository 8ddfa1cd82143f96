"""Benches at a small size: what they read, what they compare, and what their commands print."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from tests.support.words import Words
from triplewise.evals.bench import observe, ranking
from triplewise.evals.bench.__main__ import app
from triplewise.evals.bench.gold_programs import Fact, facts_of_sparql, in_order
from triplewise.evals.bench.savings import LOOPS, MISTAKES, savings, script_of
from triplewise.evals.data import DATA_VARIABLE
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.retrieval import ranking as kg_ranking
from triplewise.tools.retrieval.ranking import DEFAULT

EX, NS = "http://example.org/", "http://rdf.freebase.com/ns/"
RELATIONS = ["born", "died", "made", "wrote", "wed", "met"]
PREFIXES = "PREFIX wdt: <http://www.wikidata.org/prop/direct/> PREFIX wd: <http://www.wikidata.org/entity/> "


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["--json", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def write_records(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("sparql", "facts"),
    [
        ("SELECT ?x WHERE { wd:Q17 wdt:P36 ?x . }", (("Q17", "P36", "?x"),)),
        (
            "SELECT ?x WHERE { ?y wdt:P17 ?x ; wdt:P31 wd:Q5 . FILTER ( ?x != ?y ) }",
            (("?y", "P31", "Q5"), ("?y", "P17", "?x")),
        ),
        ("SELECT ?x WHERE { wd:Q17 wdt:P36/wdt:P17 ?x . }", ()),
        ("SELECT ?x WHERE { wd:Q17 wdt:P36 ?x . OPTIONAL { ?x wdt:P17 ?y } }", ()),
        ("SELECT ?x WHERE { ?x ?p ?y . }", ()),
    ],
)
def test_gold_facts_are_read_from_flat_queries(sparql: str, facts: tuple[Fact, ...]) -> None:
    assert in_order(facts_of_sparql({"sparql": PREFIXES + sparql}, load_profile("wikidata"))) == facts


def test_broken_gold_steps_are_found_again(data: Path) -> None:
    kinds = {
        "who directed [Alien]": "movie_to_director",
        "what films did [Ridley Scott] direct": "director_to_movie",
    }
    for hops in (1, 2, 3):
        file = data / "metaqa" / f"dev_{hops}hop.jsonl.gz"
        records = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        write_records(file, [{**r, "qtype": kinds.get(r["question"], "")} for r in records])
    rows = {row["broken"]: row for row in run("corrections", "--graphs", "metaqa", "--questions", "6")}
    turned = rows["direction"]
    assert (turned["steps"], turned["failed"], turned["gold first"]) == (6, 6, 1.0)
    assert 0 < turned["most"] <= 12
    assert rows["misspelt"]["gold first"] == 1.0


def test_relations_are_ranked_by_every_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "facts.nt"
    file.write_text("".join(f"<{NS}m.1> <{NS}a.person.{r}> <{NS}m.{r}> .\n" for r in RELATIONS))
    where = f"<{NS}m.1> <{NS}a.person.wed> ?x . FILTER (?x != <{NS}m.1>) ?x <{NS}a.person.age> ?y ."
    asked = {"question": "whom did she wed", "sparql11": f"SELECT DISTINCT ?x WHERE {{ {where} }}"}
    write_records(tmp_path / "webqsp" / "test.jsonl.gz", [{**asked, "kg_exact": True}, asked])
    write_records(tmp_path / "grailqa" / "dev1000.jsonl.gz", [asked])
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kg = open_kg(file, profile="freebase")
    monkeypatch.setattr(ranking, "open_kg", lambda path: kg)
    monkeypatch.setattr(ranking, "prepared", lambda _: SimpleNamespace(path=file))
    (case,) = ranking.cases("freebase_kg", kg)
    assert (case.question, case.entity, case.gold) == ("whom did she wed", "m.1", "a.person.wed")
    assert set(case.relations) == {f"a.person.{r}" for r in RELATIONS}
    rows = run("ranking", "--graph", "freebase_kg")
    assert [row["method"] for row in rows[:4]] == ["none", "hybrid", DEFAULT, "shuffled"]
    assert rows[2]["@1"] == rows[2]["mean place"] == 1.0


def test_paths_are_searched_in_processes_of_their_own() -> None:
    rows = run("paths", "--size", "2000", "--count", "1", "--seconds", "5")
    assert {row["pairs"] for row in rows} == {"low-low", "low-hub", "hub-hub"}
    by_search = {row["search"]: row for row in rows if row["pairs"] == "hub-hub"}
    assert by_search["whole numbers"]["paths"] == by_search["SPARQL joins"]["paths"] > 0


def test_a_program_becomes_the_replies_of_an_agent() -> None:
    facts = (("Q1", "P1", "?a"), ("?b", "P2", "?a"))
    assert [reply.splitlines()[1] for reply in script_of(facts)] == [
        "Action: get_relation(Q1)",
        "Action: add_fact(Q1, P1, ?a)",
        "Action: get_relation(?a)",
        "Action: add_fact(?b, P2, ?a)",
        "Action: set_answer(?b)",
        "Action: execute()",
    ]
    for mistake in MISTAKES.values():
        replies = list(script_of(facts, [mistake]))
        assert len(replies) == 7
        assert replies[1] != replies[2]
        assert replies[2].endswith("Action: add_fact(Q1, P1, ?a)")


def test_every_saving_saves_on_the_same_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for name in [*LOOPS][5:]:
        monkeypatch.delitem(LOOPS, name)
    rows = {row["loop"]: row for row in savings(4)}
    faithful, ours = rows["faithful (QueryAgent's paper)"], rows["ours"]
    assert faithful["questions"] == ours["same answers"] == 4
    assert ours["queries"] < rows["ours, a query for each label"]["queries"]
    assert ours["queries of faithful"] <= 0.6
    assert ours["prompt tokens"] < rows["ours, history full"]["prompt tokens"] < faithful["prompt tokens"]
    assert ours["calls"] == faithful["calls"]


def small_graph() -> EmbeddedKG:
    """Two hubs with 1,000 facts, whose ends have names or not."""
    facts = [
        f"<{EX}m{i}> <{EX}{r}> <{EX}{h}> ." for i in range(500) for r, h in (("partOf", "a"), ("near", "b"))
    ]
    facts += [f'<{EX}m{i}> <{RDFS}label> "name {i} of {i % 7}" .' for i in range(450)]
    store = ox.Store()
    store.load("\n".join(facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    profile = Profile(name="t", excluded_relations=("label$",), linkable_pattern=EX)
    return EmbeddedKG(store, profile, "small", limit=100_000)


def test_observation_is_measured_in_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PROMISING", 1),
        ("FEWEST", 40),
        ("FEWEST_COLD", 60),
        ("DRAWN", 30),
        ("LEAST_PAIRS", 100),
    ):
        monkeypatch.setattr(kg_ranking, name, value)
    monkeypatch.setattr(observe, "WIDTH", 10)
    pairs = observe.real_pairs(small_graph(), 650)
    assert len(set(pairs)) == 650
    with pytest.raises(DataError, match="distinct texts around its hubs, 5,250 are needed"):
        observe.real_pairs(small_graph(), 5_250)
    encoder: Any = Words()
    rows = observe.of_size(
        pairs[:400], pairs[400:], encoder, encoder, ["name 12 of 5", "near name 7"], tmp_path
    )
    ways = ["every text encoded", "nothing cached", "the KG's vectors present", "seen before"]
    assert [row["way"] for row in rows] == ways
    assert rows[-1]["same top 10"] > 0.95
    assert all(row["times as fast"] > 0 for row in rows)
