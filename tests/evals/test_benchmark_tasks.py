"""The table of benchmarks: what records become, what the graph can answer, seeds, own files, provenance."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample

from tests.evals.reported import scores_of
from tests.support.opened import close_all
from triplewise.evals import (
    agentbench_kg,
    creak,
    cwq,
    geoquery,
    grailqa,
    graphq,
    metaqa,
    overnight,
    qald10,
    simplequestions,
    tasks,
    trex,
    webqsp,
    wikiwebquestions,
    zeroshot_re,
)
from triplewise.evals.data import catalog
from triplewise.evals.evaluation import crashes, folder_of, run
from triplewise.evals.tasks import TASKS
from triplewise.evals.training import entities_of
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import packaged

DEMO: dict[str, Any] = {"settings": {"kg": "demo"}}
NS = "http://rdf.freebase.com/ns/"
FACTS = (
    ("m.01", "film.film.directed_by", "m.02"),
    ("m.02", "people.person.place_of_birth", "m.03"),
    ("m.02", "people.person.spouse_s", "m.09"),
    ("m.09", "people.marriage.spouse", "m.04"),
)
NAMES = {"m.01": "Alien", "m.02": "Ridley Scott", "m.03": "South Shields", "m.04": "Felicity Heywood"}


def records(keys: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Records with these keys; what is `...` is left out."""
    pairs = (zip(keys.split(), row, strict=True) for row in rows)
    return [{key: value for key, value in record if value is not ...} for record in pairs]


SCOTT = {"m.02": {"mention": "ridley scott"}}
BIRTH = ["get_neighbors(m.01,film.film.directed_by)", "get_neighbors(#0,people.person.place_of_birth)"]
TWO = [["m.1", "m.2"], ["m.2"]]
LINKED = {"it": "m.0", "then": '"2010"^^<http://www.w3.org/2001/XMLSchema#gYear>'}
WORLD = "http://overnight.example/recipes/"
KEYS = "id question answers kg_exact kg_exact_observed_only "
RECORDS: dict[str, list[dict[str, Any]]] = {
    "cwq/test.jsonl.gz": records(
        KEYS + "answer_tog topic_entity compositionality_type",
        ("c1", "Where?", ["Shields"], True, False, "S", {"m.01": "Alien", "m.77": "Alien"}, "composition"),
        ("c2", "Which?", ["A"], False, False, ..., ..., ...),
    ),
    "cwq/dev_questions.jsonl.gz": records(
        "id question sparql11",
        ("d1", "Who directed Alien?", f"SELECT ?x {{ <{NS}m.01> <{NS}film.film.directed_by> ?x }}"),
        ("d2", "Who directed Heat?", f"SELECT ?x {{ <{NS}m.88> <{NS}film.film.directed_by> ?x }}"),
        ("d3", "Who made Alien?", "SELECT nonsense"),
    ),
    "grailqa/dev1000.jsonl.gz": records(
        KEYS + "topic_entity level function num_edge",
        (
            "g1",
            "who directed alien?",
            [{"answer_type": "Entity", "answer_argument": "m.02", "entity_name": "Ridley Scott"}],
            *(True, False, {"m.01": "Alien"}, "zero-shot", "none", 1),
        ),
    ),
    "webqsp/test.jsonl.gz": records(
        KEYS + "alt_answer_sets entity_linking",
        ("w0", "what?", TWO[0], True, True, TWO, LINKED),
        ("w1", "what?", TWO[0], False, False, [], LINKED),
    ),
    "graphq/test.jsonl.gz": records(
        "id question answer_names entity_linking structure function",
        ("q1", "who is married to ridley scott ?", ["felicity heywood"], SCOTT, "3,2", "none"),
        ("q2", "how many films did ridley scott direct ?", ["1"], SCOTT, "2,1", "count"),
        ("q3", "and m ?", ["Felicity Heywood"], {**SCOTT, "m.99": {"mention": "m"}}, "3,1", "none"),
    ),
    "simplequestions/test1000.jsonl.gz": records(
        "id question topic_entity relation answer",
        ("s1", "where was he born", {"m.02": "Ridley Scott"}, "place_of_birth", "South Shields"),
        ("s2", "who directed heat", {"m.88": "Heat"}, "directed_by", "Michael Mann"),
    ),
    "agentbench_kg/std.jsonl.gz": records(
        "id question source entities actions answer",
        ("a1", "born?", "cwq", {"alien": "m.01"}, BIRTH, [{"answer_argument": "m.03"}]),
        ("a2", "how many?", "grailqa", {"alien": "m.01"}, ["count(#0)"], [{"answer_argument": "1"}]),
    ),
    "geoquery/train.jsonl.gz": records(
        "id question kind answers answer_labels",
        ("geo-1", "Which city is the capital of Utah?", "fact", ["Salt Lake City"], ["Salt Lake City"]),
        ("geo-2", "How many people live in Ogden?", "fact", ["63909"], ["63909"]),
    ),
    "overnight/recipes_test.jsonl.gz": records(
        "id question kind answers answer_labels",
        ("o1", "which recipe is quick", "superlative", [f"{WORLD}recipe/rice"], ["rice pudding"]),
    ),
    "qald10/test_en.jsonl.gz": records(
        "id question answers kg_exact topic_entity trivial",
        ("q1", "Who?", ["Q42"], True, {"Q1": "Adams"}, ...),
        ("q2", "Is it?", [False], True, ..., True),
        ("q3", "How many?", ["+3"], False, ..., ...),
    ),
    "wikiwebquestions/test.jsonl.gz": records(
        "id question sparql answers kg_exact kg_exact_no_gold",
        ("w0", "what is the capital of peru?", "SELECT ?x { wd:Q419 wdt:P36 ?x }", ["Q2868"], True, False),
        ("w1", "which?", "SELECT ?x { ?x wdt:P31 wd:Q634 ; wdt:P397 wd:Q525 }", ["Q2"], False, False),
    ),
    "creak/dev.jsonl.gz": records(
        "id sentence topic_entity label kg_topic_degree",
        ("c0", "The capital of Peru is Lima.", {"Q419": "Peru"}, "true", 9),
        ("c1", "The capital of Peru is Brasília.", {"Q419": "Peru"}, "false", 9),
        ("c2", "Everything in Peru is good.", {"Q419": "Peru (country)"}, "true", 9),
        ("c3", "Somebody is perfect.", {"Q999999999": "Somebody"}, "true", 0),
    ),
    "trex/test.jsonl.gz": records(
        "id input topic_entity answer alias kg_has_fact kg_topic_degree",
        ("s0", "Peru [SEP] capital", {"Q419": "Peru"}, "Ciudad de los Reyes", ["Lima", "lima"], True, 9),
        ("s1", "Peru [SEP] continent", {"Q419": "Peru"}, "Asia", None, True, 9),
        ("s2", "Peru [SEP] place of birth", {"Q419": "Peru"}, "Lima", [], False, 9),
        ("s3", "Nobody [SEP] occupation", {"Q999999999": "Nobody"}, "writer", [], False, 0),
        ("s4", "Unlinked [SEP] occupation", {"UnknownQID": "Unlinked"}, "writer", [], False, 0),
    ),
}
RECORDS["zeroshot_re/test.jsonl.gz"] = RECORDS["trex/test.jsonl.gz"][:2]
GEOGRAPHY = """
@prefix geo: <http://geoquery.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
geo:utah a geo:State ; rdfs:label "Utah" ; geo:capital geo:slc .
geo:slc a geo:City ; rdfs:label "Salt Lake City" .
geo:ogden a geo:City ; rdfs:label "Ogden" ; geo:population 63909 .
"""
RECIPES = f"""
@prefix : <{WORLD}> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<{WORLD}recipe/rice> a :Recipe ; rdfs:label "rice pudding" ; :preparationTime 10 .
<{WORLD}recipe/quiche> a :Recipe ; rdfs:label "quiche" ; :preparationTime 30 .
"""


JUDGED = {"graphq": ["q1"], "simplequestions": ["s1"], "agentbench_kg": ["a1"]}


@pytest.fixture
def sets(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder with a few questions a benchmark, and graphs of a few facts."""
    judged = {name: {"observed": [], "gold_derived": ids} for name, ids in JUDGED.items()}
    monkeypatch.setattr(tasks, "packaged", lambda package, name: {"answerable.yaml": judged}[name])
    for name, content in RECORDS.items():
        _write(data / name, "".join(json.dumps(record) + "\n" for record in content))
    lines = (f"<{NS}{s}> <{NS}{p}> <{NS}{o}> .\n" for s, p, o in FACTS)
    _write(data / "freebase_kg" / "observed.nt.gz", "".join(lines))
    _write(data / "freebase_kg" / "gold_derived.nt.gz", f"<{NS}m.05> <{NS}a.b.c> <{NS}m.01> .\n")
    _write(data / "freebase_kg" / "labels.tsv.gz", "".join(f"{i}\t{n}\t\n" for i, n in NAMES.items()))
    _write(data / "geoquery" / "geoquery.ttl.gz", GEOGRAPHY)
    _write(data / "overnight" / "recipes.ttl.gz", RECIPES)
    yield data
    close_all()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def _samples(task: Task) -> dict[str, Sample]:
    return {str(sample.id): sample for sample in task.dataset}


def _about(task: Task) -> dict[str, Any]:
    return task.metadata or {}


PERU = {"entities": {"Peru": "Q419"}, "answerable": True}
BECOMES: list[tuple[Callable[..., Task], str, list[str], dict[str, Any]]] = [
    (
        *(cwq, "c1", ["Shields"]),
        {"entities": {"Alien": "m.01"}, "type": "composition"},
    ),
    (
        *(grailqa, "g1", ["m.02"]),
        {
            "gold_names": {"m.02": ["Ridley Scott"]},
            "level": "zero-shot",
            "function": "none",
            "relations": 1,
        },
    ),
    (webqsp, "w0", TWO[0], {"gold_sets": TWO, "entities": {"it": "m.0"}}),
    (graphq, "q1", ["felicity heywood"], {"entities": {"ridley scott": "m.02"}, "answerable": True}),
    (graphq, "q2", ["1"], {"answerable": False}),  # a number
    (graphq, "q3", ["Felicity Heywood"], {"answerable": False}),  # an entity that the graph lacks
    (simplequestions, "s1", ["South Shields"], {"answerable": True, "type": "place_of_birth"}),
    (simplequestions, "s2", ["Michael Mann"], {"answerable": False}),
    (
        *(agentbench_kg, "a1", ["m.03"]),
        {"answerable": True, "source": "cwq"},
    ),
    (agentbench_kg, "a2", ["1"], {"answerable": False}),
    (geoquery, "geo-1", ["Salt Lake City"], {"entities": {}, "type": "fact"}),
    (partial(overnight, domain="recipes"), "o1", ["rice"], {"type": "superlative"}),
    (qald10, "q1", ["Q42"], {"entities": {}}),
    (qald10, "q2", ["false"], {"trivial": True}),
    (trex, "s0", ["Ciudad de los Reyes", "Lima", "lima"], PERU),
    (trex, "s4", ["writer"], {"entities": {}, "answerable": False}),
    (zeroshot_re, "s1", ["Asia"], PERU),
    (creak, "c2", ["true"], PERU),  # Peru as the claim writes it
    (wikiwebquestions, "w0", ["Q2868"], PERU),
]
ON_OWN_GRAPH = (cwq, grailqa, graphq, simplequestions, agentbench_kg, geoquery)


@pytest.mark.parametrize(("task", "name", "gold", "about"), BECOMES)
def test_a_record_becomes_a_sample(
    sets: Path, task: Callable[..., Task], name: str, gold: list[str], about: dict[str, Any]
) -> None:
    is_own = task in ON_OWN_GRAPH or isinstance(task, partial)
    sample = _samples(task() if is_own else task(**DEMO))[name]
    assert list(sample.target) == gold
    assert {key: (sample.metadata or {})[key] for key in about} == about


COUNTS: list[tuple[Callable[..., Task], dict[str, Any], tuple[int, int], int]] = [
    (cwq, {}, (1, 2), 2),
    (cwq, {"kg_exact": True}, (1, 2), 1),
    (webqsp, {**DEMO, "kg_exact": False}, (1, 2), 2),
    (webqsp, {**DEMO, "gold_derived": False}, (1, 2), 1),
    (graphq, {"answerable": True}, (1, 3), 1),
    (graphq, {"gold_derived": False}, (0, 3), 3),
    (simplequestions, DEMO, (0, 0), 2),  # a graph of the user's own is not judged
    (qald10, DEMO, (2, 3), 2),
    (qald10, {**DEMO, "linking": "gold"}, (1, 1), 1),
    (trex, DEMO, (2, 5), 5),
    (trex, {**DEMO, "asked": "answerable"}, (2, 5), 2),
    (trex, {**DEMO, "asked": "topic"}, (2, 5), 3),
    (creak, {**DEMO, "answerable": True}, (3, 4), 3),
    (wikiwebquestions, {**DEMO, "kg_exact": True}, (1, 2), 1),
]


@pytest.mark.parametrize(("task", "given", "counts", "asked"), COUNTS)
def test_what_the_graph_can_answer_is_counted_and_may_be_asked_alone(
    sets: Path, task: Callable[..., Task], given: dict[str, Any], counts: tuple[int, int], asked: int
) -> None:
    made = task(**given)
    assert (_about(made)["answerable"], _about(made)["asked"]) == counts
    assert len(made.dataset) == _about(made)["drawn"] == asked


def test_impossible_and_empty_choices_are_refused(sets: Path) -> None:
    with pytest.raises(ConfigurationError, match="no question of cwq is left"):
        cwq(kg_exact=True, gold_derived=False)
    with pytest.raises(ConfigurationError, match="unknown split 'test'; choose one of: dev, rl, std"):
        agentbench_kg(split="test")
    with pytest.raises(ConfigurationError, match="unknown asked 'some'; choose one of: all, answer"):
        trex(asked="some", **DEMO)


def test_own_linking_gives_no_entities_and_gold_linking_only_those_the_graph_has(sets: Path) -> None:
    assert (_samples(cwq(linking="own"))["c1"].metadata or {})["entities"] == {}
    (linked,) = _samples(qald10(linking="gold", **DEMO)).values()
    assert (linked.id, (linked.metadata or {})["entities"]) == ("q1", {"Adams": "Q1"})
    assert _about(agentbench_kg())["phases"]["link"] == "known"
    assert "Q525" in (_samples(wikiwebquestions(**DEMO))["w1"].metadata or {})["entities"].values()


def test_the_classes_of_a_gold_query_are_no_topics() -> None:
    assert entities_of("SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 }") == ("Q30",)
    assert entities_of("SELECT ?x { ?x wdt:P31/wdt:P279* wd:Q515 }") == ("Q515",)
    assert entities_of("SELECT ?x { wd:Q1 wdt:P1 wd:Q2 . wd:Q1 wdt:P2 ?x }") == ("Q1", "Q2")


def test_slots_claims_and_questions_are_scored(sets: Path, tmp_path: Path) -> None:
    def figures(task: Task) -> dict[str, float]:
        log = run(task, log_dir=tmp_path / "logs")
        assert crashes(log) == []
        return scores_of(log)

    quick: dict[str, Any] = {"phases": {"observe": "none"}, **DEMO}
    scores = figures(trex(**quick))
    assert scores["hits_at_1.mean"] == 0.2
    assert scores["hits_at_1.answerable"] == 0.5
    scores = figures(creak(**quick))
    assert (scores["accuracy.mean"], scores["not_found.mean"]) == (0.75, 0.0)
    scores = figures(wikiwebquestions(preset="oda", **quick))
    assert scores["f1.answerable"] == 1.0
    scores = figures(qald10(**quick))
    assert {"accuracy.mean", "f1.mean"} <= set(scores)
    for task in (geoquery(), overnight(domain="recipes"), grailqa()):
        scores = figures(task)
        assert scores["f1.answerable"] == scores["f1.mean"]


def test_seeds_are_training_questions_whose_query_finds_answers(sets: Path) -> None:
    about = _about(cwq(seeds=True))
    (line,) = Path(about["settings"]["seeds"]).read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "id": "d1",
        "question": "Who directed Alien?",
        "entities": {"Alien": "m.01"},
        "answers": ["m.02"],
    }
    assert about["seed_questions"] == "1 of 3 training questions, those whose query finds answers"
    assert "cwq/dev_questions.jsonl.gz" in about["data_files"]
    assert (_about(cwq())["settings"]["seeds"], _about(cwq())["seed_questions"]) == (None, "none")
    assert _about(cwq(seeds="mine.jsonl"))["settings"]["seeds"] == "mine.jsonl"
    with pytest.raises(ConfigurationError, match="computed on its own graph"):
        cwq(seeds=True, **DEMO)


def test_a_file_of_ones_own_takes_the_place_of_the_questions(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "mine.jsonl"
    own.write_text(json.dumps({"id": "m1", "question": "Who?", "answers": ["A"]}) + "\n", encoding="utf-8")
    task = cwq(file="mine.jsonl")
    assert list(_samples(task)) == ["m1"]
    assert _about(task)["changed_files"][0] == str(own)  # no result of the benchmark
    assert (_about(task)["answerable"], _about(task)["asked"]) == (0, 0)  # nobody judged it
    with pytest.raises(DataError, match=r"nowhere.jsonl: missing; get it \(https://allenai"):
        cwq(file="nowhere.jsonl")


def test_every_result_says_what_it_takes_to_have_it_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = _about(metaqa(n=2, sample_seed=7, settings={"plan_rules": 3}, phases={"reflect": "none"}))
    assert len(about["commit"]) in (0, 40)
    assert {"langgraph", "inspect-ai", "pyoxigraph", "sentence-transformers"} <= set(about["packages"])
    assert (about["sample_seed"], about["model"], about["preset"]) == (7, "embedded", "agent")
    assert (about["settings"]["plan_rules"], about["settings"]["row_limit"]) == (3, 20_000)
    assert (about["phases"]["reflect"], about["phases"]["plan"]) == ("none", "auto")
    assert about["seed_questions"] == "the dev questions of all hops"
    json.dumps(about)  # plain values only
    mine, identities = tmp_path / "mine.yaml", set()
    for words in ("one", "two"):  # another prompt is another evaluation
        mine.write_text(f"extends: [agent]\ndescription: {words}\n", encoding="utf-8")
        identities.add(folder_of(tmp_path, metaqa(n=2, settings={"prompt": str(mine)})))
    assert len(identities) == 2


def test_what_was_judged_once_is_what_the_catalog_counts() -> None:
    for name, judged in packaged("triplewise.evals", "answerable.yaml").items():
        counts = catalog().benchmarks[name].counts.values()
        observed, all_ = len(judged["observed"]), len(judged["observed"] + judged["gold_derived"])
        assert (sum(c["observed"] for c in counts), sum(c["answerable"] for c in counts)) == (observed, all_)


def test_tasks_are_made_of_the_catalog_without_data() -> None:
    assert sorted(TASKS) == sorted(catalog().benchmarks)
    for of in catalog().benchmarks.values():
        assert all((of.counts, of.answerable_if, of.licence, of.citation, of.published))
        assert all(0 <= asked["answerable"] <= asked["questions"] for asked in of.counts.values())
    assert catalog().benchmarks["metaqa"].counts["hops=2"]["questions"] == 13_872


@pytest.mark.skipif(not os.environ.get("TRIPLEWISE_DATA"), reason="TRIPLEWISE_DATA is not set")
@pytest.mark.parametrize("name", sorted(set(TASKS) - {"metaqa", "wikisql"}))
def test_the_catalog_counts_what_the_files_hold(name: str) -> None:
    for which, counted in catalog().benchmarks[name].counts.items():
        key, _, value = which.partition("=")
        about = _about(TASKS[name](n=1, **({key: value} if which else {})))
        assert (about["asked"], about["answerable"]) == (counted["questions"], counted["answerable"])
        assert about["changed_files"] == []
    close_all()
