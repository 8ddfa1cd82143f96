"""CWQ, GrailQA, GraphQ, SimpleQuestions, CK25, AgentBench-KG; seeds, files of one's own, provenance."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.util import Store
from typer.testing import CliRunner

from triplewise.evals import provenance, tasks
from triplewise.evals.answerable import Reach, has_fact, judged
from triplewise.evals.command import app
from triplewise.evals.data import benchmark, benchmarks, graph, own_file
from triplewise.evals.kgs import prepared
from triplewise.evals.record import Run
from triplewise.evals.running import run
from triplewise.evals.scorers import compare_rows, rows_of
from triplewise.evals.table import crashes, scores_of
from triplewise.evals.tasks import agentbench_kg, ck25, cwq, grailqa, graphq, metaqa, qald10, simplequestions
from triplewise.evals.tasks.task_list import describe
from triplewise.evals.training import seeds_of
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.open import close_all

NS = "http://rdf.freebase.com/ns/"
FACTS = (
    ("m.01", "film.film.directed_by", "m.02"),
    ("m.02", "people.person.place_of_birth", "m.03"),
    ("m.02", "people.person.spouse_s", "m.09"),
    ("m.09", "people.marriage.spouse", "m.04"),
)
NAMES = {"m.01": "Alien", "m.02": "Ridley Scott", "m.03": "South Shields", "m.04": "Felicity Heywood"}
RECORDS: dict[str, list[dict[str, Any]]] = {
    "cwq/test.jsonl.gz": [
        {
            "id": "c1",
            "question": "Where was the director of Alien born?",
            "compositionality_type": "composition",
            "answers": ["South Shields"],
            "answer_tog": "South Shields",
            "topic_entity": {"m.01": "Alien", "m.77": "Alien"},
            "kg_exact": True,
            "kg_exact_observed_only": False,
        },
        {
            "id": "c2",
            "question": "Which?",
            "answers": ["A"],
            "kg_exact": False,
            "kg_exact_observed_only": False,
        },
    ],
    "cwq/dev_questions.jsonl.gz": [
        {
            "id": "d1",
            "question": "Who directed Alien?",
            "sparql11": f"SELECT ?x {{ <{NS}m.01> <{NS}film.film.directed_by> ?x }}",
        },
        {
            "id": "d2",
            "question": "Who directed Heat?",
            "sparql11": f"SELECT ?x {{ <{NS}m.88> <{NS}film.film.directed_by> ?x }}",
        },
        {"id": "d3", "question": "Who made Alien?", "sparql11": "SELECT nonsense"},
    ],
    "grailqa/dev1000.jsonl.gz": [
        {
            "id": "g1",
            "question": "who directed alien?",
            "answers": [{"answer_type": "Entity", "answer_argument": "m.02", "entity_name": "Ridley Scott"}],
            "topic_entity": {"m.01": "Alien"},
            "level": "zero-shot",
            "function": "none",
            "num_edge": 1,
            "kg_exact": True,
            "kg_exact_observed_only": False,
        }
    ],
    "graphq/test.jsonl.gz": [
        {
            "id": "q1",
            "question": "who is married to ridley scott ?",
            "answer_names": ["felicity heywood"],
            "entity_linking": {"m.02": {"mention": "ridley scott"}},
            "structure": "3,2",
            "function": "none",
        },
        {
            "id": "q2",
            "question": "how many films did ridley scott direct ?",
            "answer_names": ["1"],
            "entity_linking": {"m.02": {"mention": "ridley scott"}},
            "structure": "2,1",
            "function": "count",
        },
        {
            "id": "q3",
            "question": "who is married to ridley scott and m ?",
            "answer_names": ["Felicity Heywood"],
            "entity_linking": {"m.02": {"mention": "ridley scott"}, "m.99": {"mention": "m"}},
            "structure": "3,1",
            "function": "none",
        },
    ],
    "simplequestions/test1000.jsonl.gz": [
        {
            "id": "s1",
            "question": "where was ridley scott born",
            "topic_entity": {"m.02": "Ridley Scott"},
            "relation": "place_of_birth",
            "answer": "South Shields",
        },
        {
            "id": "s2",
            "question": "who directed heat",
            "topic_entity": {"m.88": "Heat"},
            "relation": "directed_by",
            "answer": "Michael Mann",
        },
    ],
    "agentbench_kg/std.jsonl.gz": [
        {
            "id": "a1",
            "question": "where was the director of alien born?",
            "source": "cwq",
            "entities": {"alien": "m.01"},
            "actions": [
                "get_relations(m.01)",
                "get_neighbors(m.01,film.film.directed_by)",
                "get_relations(#0)",
                "get_neighbors(#0,people.person.place_of_birth)",
            ],
            "answer": [{"answer_type": "Entity", "answer_argument": "m.03", "entity_name": "South Shields"}],
        },
        {
            "id": "a2",
            "question": "how many directors has alien?",
            "source": "grailqa",
            "entities": {"alien": "m.01"},
            "actions": ["get_neighbors(m.01,film.film.directed_by)", "count(#0)"],
            "answer": [{"answer_type": "Value", "answer_argument": "1"}],
        },
    ],
    "ck25/questions.jsonl.gz": [
        {
            "id": "k1",
            "sparql": "ASK {}",
            "question": "Who is the manager of Anna Ahorn?",
            "features": ["SELECT"],
            "result_columns": ["result"],
            "result_rows": [["http://ld.company.org/prod-instances/empl-Bo.Birke%40company.org"]],
        },
        {
            "id": "k2",
            "sparql": "ASK {}",
            "question": "Names and phones?",
            "features": ["SELECT", "OPTIONAL"],
            "result_columns": ["name", "phone"],
            "result_rows": [["Anna Ahorn", "12"], ["Bo Birke", None]],
        },
        {
            "id": "k3",
            "sparql": "ASK {}",
            "question": "Do we have staff?",
            "features": ["ASK"],
            "result_columns": None,
            "result_rows": True,
        },
    ],
}
TURTLE = """
@prefix prodi: <http://ld.company.org/prod-instances/> .
@prefix pv: <http://ld.company.org/prod-vocab/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
prodi:empl-Anna.Ahorn%40company.org a pv:Employee ; rdfs:label "Anna Ahorn" ; pv:phone "12" ;
  pv:hasManager prodi:empl-Bo.Birke%40company.org .
prodi:empl-Bo.Birke%40company.org a pv:Employee ; rdfs:label "Bo Birke" .
pv:hasManager rdfs:label "has manager" .
pv:phone rdfs:label "phone number" .
"""
ON_FREEBASE: tuple[Callable[..., Task], ...] = (cwq, grailqa, graphq, simplequestions, agentbench_kg)


@pytest.fixture
def sets(data: Path) -> Iterator[Path]:
    """The data folder with two questions a benchmark, and graphs of a few facts."""
    for name, records in RECORDS.items():
        _write(data / name, "".join(json.dumps(record) + "\n" for record in records))
    lines = (f"<{NS}{s}> <{NS}{p}> <{NS}{o}> .\n" for s, p, o in FACTS)
    _write(data / "freebase_kg" / "observed.nt.gz", "".join(lines))
    _write(data / "freebase_kg" / "gold_derived.nt.gz", f"<{NS}m.05> <{NS}a.b.c> <{NS}m.01> .\n")
    _write(data / "freebase_kg" / "labels.tsv.gz", "".join(f"{i}\t{n}\t\n" for i, n in NAMES.items()))
    _write(data / "ck25" / "prod-inst.ttl.gz", TURTLE)
    yield data
    close_all()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def _samples(task: Task) -> dict[str, Sample]:
    return {str(sample.id): sample for sample in task.dataset}


def _about(sample: Sample) -> dict[str, Any]:
    return sample.metadata or {}


def test_cwq_gives_names_the_one_tog_takes_and_what_the_graph_can_answer(sets: Path) -> None:
    task = cwq()
    sample = _samples(task)["c1"]
    assert (list(sample.target), _about(sample)["single_gold"]) == (["South Shields"], "South Shields")
    assert _about(sample)["entities"] == {"Alien": "m.01"}
    assert _about(sample)["tags"] == {"type": "composition"}
    assert _about(_samples(cwq(linking="own"))["c1"])["entities"] == {}
    told = task.metadata or {}
    assert (told["answerable"], told["asked"], told["kg_gold_derived"]) == (1, 2, True)
    assert len(cwq(kg_exact=True).dataset) == 1
    with pytest.raises(ConfigurationError, match="no question of cwq is left"):
        cwq(kg_exact=True, gold_derived=False)


def test_grailqa_gives_mids_with_their_names_and_levels(sets: Path) -> None:
    sample = _samples(grailqa())["g1"]
    assert (list(sample.target), _about(sample)["gold_names"]) == (["m.02"], {"m.02": ["Ridley Scott"]})
    assert _about(sample)["tags"] == {"level": "zero-shot", "function": "none", "relations": "1"}


def test_graphq_counts_as_answerable_what_lies_near_all_that_a_question_names(sets: Path) -> None:
    task = graphq()
    found = {name: _about(sample)["answerable"] for name, sample in _samples(task).items()}
    assert found == {"q1": True, "q2": False, "q3": False}  # a number; an entity that the graph lacks
    told = task.metadata or {}
    assert (told["answerable"], told["asked"]) == (1, 3)
    assert list(_samples(graphq(answerable=True))) == ["q1"]


def test_simplequestions_counts_the_asked_fact(sets: Path) -> None:
    found = {name: _about(sample)["answerable"] for name, sample in _samples(simplequestions()).items()}
    assert found == {"s1": True, "s2": False}


def test_agentbench_has_its_own_preset_and_splits(sets: Path) -> None:
    task = agentbench_kg()
    told = {name: _about(sample) for name, sample in _samples(task).items()}
    assert {name: about["answerable"] for name, about in told.items()} == {"a1": True, "a2": False}
    assert told["a1"]["tags"] == {"source": "cwq", "function": "none", "relations": "2"}
    assert told["a2"]["tags"]["function"] == "count"
    about = task.metadata or {}
    assert (about["preset"], about["phases"]["link"]) == ("agentbench", "known")
    with pytest.raises(ConfigurationError, match="unknown split 'test'; choose one of: dev, rl, std"):
        agentbench_kg(split="test")
    with pytest.raises(DataError, match=r"github\.com/THUDM/AgentBench"):
        agentbench_kg(split="dev")


def test_ck25_rows_are_short_ids_and_values(sets: Path) -> None:
    task = ck25()
    samples = _samples(task)
    assert list(samples["k1"].target) == ["prodi:empl-Bo.Birke%40company.org"]
    assert _about(samples["k2"])["gold_rows"] == [["Anna Ahorn", "12"], ["Bo Birke", ""]]
    assert list(samples["k3"].target) == ["true"]
    kinds = [_about(samples[name])["tags"]["type"] for name in ("k1", "k2", "k3")]
    assert kinds == ["column", "table", "yes/no"]
    about = task.metadata or {}
    assert (about["kg_profile"], about["settings"]["profile"], about["kg_partial"]) == (
        "inferred",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("given", "gold", "f1"),
    [
        ([["a", "1"], ["b", "2"]], [["a", "1"], ["b", "2"]], 1.0),
        ([["1", "a"], ["2", "b"]], [["a", "1"], ["b", "2.0"]], 1.0),  # another order of columns
        ([["a", "2"], ["b", "1"]], [["a", "1"], ["b", "2"]], 0.0),  # right cells in wrong rows
        ([["a"], ["b"]], [["a", "1"], ["b", "2"]], 0.0),  # one column is not the table
        ([["a", "1", "x"]], [["a", "1"]], 0.0),  # nor is a wider one
        ([["a", ""]], [["a", ""]], 1.0),  # nothing bound on both sides
        ([["a", "1"]], [["a", "1"], ["b", "2"]], 2 / 3),
        ([], [["a", "1"]], 0.0),
    ],
)
def test_rows_are_right_as_wholes(given: list[list[str]], gold: list[list[str]], f1: float) -> None:
    assert compare_rows(given, gold).f1 == pytest.approx(f1)


def test_the_rows_of_an_answer_are_those_of_its_query(sets: Path) -> None:
    kg = prepared(graph("ck25"))
    query = (
        "SELECT ?n ?p { ?e <http://www.w3.org/2000/01/rdf-schema#label> ?n ; "
        "a <http://ld.company.org/prod-vocab/Employee> "
        "OPTIONAL { ?e <http://ld.company.org/prod-vocab/phone> ?p } }"
    )

    def rows(**given: Any) -> list[list[str]]:
        return sorted(rows_of(Run(store=Store(), status="answered", **given)))

    assert rows(values=["a"], sparql=query, kg=kg.path) == [["Anna Ahorn", "12"], ["Bo Birke", ""]]
    assert rows(values=[], sparql=query, kg=kg.path) == []  # it answered nothing
    assert rows(values=["a"], kg=kg.path) == rows(values=["a"], sparql=query) == []


def test_seeds_are_training_questions_whose_query_finds_answers(sets: Path) -> None:
    about = cwq(seeds=True).metadata or {}
    (line,) = Path(about["settings"]["seeds"]).read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "id": "d1",
        "question": "Who directed Alien?",
        "entities": {"Alien": "m.01"},
        "answers": ["m.02"],
    }
    assert about["seed_questions"] == "1 of 3 training questions, those whose query finds answers"
    assert "cwq/dev_questions.jsonl.gz" in about["data_files"]
    plain = cwq().metadata or {}
    assert (plain["settings"]["seeds"], plain["seed_questions"]) == (None, "none")
    assert (cwq(seeds="mine.jsonl").metadata or {})["settings"]["seeds"] == "mine.jsonl"


def test_seeds_that_cannot_be_had_are_refused(sets: Path) -> None:
    with pytest.raises(ConfigurationError, match="computed on its own graph"):
        cwq(seeds=True, settings={"kg": "demo"})
    with pytest.raises(ConfigurationError, match="grailqa has no training questions"):
        seeds_of(benchmark("grailqa"), prepared(graph("freebase_kg")), True)


def test_a_file_of_ones_own_takes_the_place_of_the_questions(sets: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text(json.dumps({"id": "m1", "question": "Who?", "answers": ["A"]}) + "\n", encoding="utf-8")
    task = cwq(file=str(own))
    about = task.metadata or {}
    assert list(_samples(task)) == ["m1"]
    assert about["changed_files"][0] == str(own)  # no result of the benchmark
    assert len(about["data_files"][str(own)]) == 64
    assert (about["answerable"], about["asked"]) == (0, 0)  # nobody judged it
    with pytest.raises(
        DataError, match=r"no such file; questions in this form are published at https://allenai"
    ):
        cwq(file=str(tmp_path / "nowhere.jsonl"))


def test_files_are_read_as_their_authors_publish_them(sets: Path, tmp_path: Path) -> None:
    published = {
        "ID": "p1",
        "question": "Where was its director born?",
        "answers": [{"answer_id": "m.03", "answer": "South Shields", "aliases": ["Shields"]}],
        "topic_entity": {"m.01": "Alien"},
        "sparql": "",
    }
    own = tmp_path / "any_name.json"
    own.write_text(json.dumps([published]), encoding="utf-8")
    (sample,) = cwq(file=str(own)).dataset
    assert (list(sample.target), _about(sample)["gold_names"]) == (
        ["m.03"],
        {"m.03": ["South Shields", "Shields"]},
    )
    (sets / "cwq" / "test.jsonl.gz").unlink()
    own.rename(sets / "cwq" / "ComplexWebQuestions_test.json")  # in the data folder by its published name
    task = cwq()
    assert list(_samples(task)) == ["p1"]
    assert "cwq/test.jsonl.gz" in (task.metadata or {})["changed_files"]


def test_a_published_file_without_results_is_asked_for_them(sets: Path, tmp_path: Path) -> None:
    own = tmp_path / "questions.yml"
    own.write_text(
        "questions:\n- id: 1\n  question: {en: Who}\n  query:\n    sparql: SELECT ?e { ?e a "
        "<http://ld.company.org/prod-vocab/Employee> }\n",
        encoding="utf-8",
    )
    (sample,) = ck25(file=str(own)).dataset
    assert len(list(sample.target)) == 2


def test_every_result_says_what_it_takes_to_have_it_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = metaqa(n=2, sample_seed=7, settings={"plan_beam": 3}, phases={"reflect": "none"}).metadata or {}
    assert len(about["commit"]) in (0, 40)
    assert isinstance(about["commit_clean"], bool)
    assert {"langgraph", "inspect-ai", "pyoxigraph", "sentence-transformers"} <= set(about["packages"])
    assert about["triplewise"]
    assert about["python"].startswith("3.")
    assert (about["sample_seed"], about["model"], about["preset"]) == (7, "embedded", "agent")
    assert (about["settings"]["plan_beam"], about["settings"]["row_limit"]) == (3, 20_000)
    assert (about["phases"]["reflect"], about["phases"]["plan"]) == ("none", "mined")
    assert about["seed_questions"] == "the dev questions of all hops"
    assert len(about["prices_sha256"]) == 64
    json.dumps(about)  # plain values only


def test_the_price_table_in_force_is_told_by_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIPLEWISE_PRICES", raising=False)
    shipped, mine = provenance.prices_checksum(), tmp_path / "prices.yaml"
    mine.write_text("models: {m: {input: 1, output: 2}}\n", encoding="utf-8")
    own = provenance.prices_checksum(str(mine))
    assert own != shipped
    monkeypatch.setenv("TRIPLEWISE_PRICES", str(mine))
    assert provenance.prices_checksum() == own
    with pytest.raises(DataError, match="cannot read the price table"):
        provenance.prices_checksum(str(tmp_path / "none.yaml"))


def test_what_was_judged_once_is_kept_until_questions_or_graph_change(sets: Path) -> None:
    asked: list[str] = []
    kg, file = prepared(graph("freebase_kg")), benchmark("graphq").files["graphq/test.jsonl.gz"]

    def judging(_: object) -> Callable[[dict[str, Any]], bool]:
        def judge(record: dict[str, Any]) -> bool:
            asked.append(record["id"])
            return bool(record["id"] == "b")

        return judge

    records = [{"id": "a"}, {"id": "b"}]
    for _ in range(2):
        assert judged("trial", records, file, kg, judging) == {"b"}
    assert asked == ["a", "b"]
    other = prepared(graph("freebase_kg"), ["observed"])
    assert judged("trial", records, file, other, judging) == {"b"}
    assert asked == ["a", "b", "a", "b"]
    assert (simplequestions(settings={"kg": "demo"}).metadata or {})["asked"] == 0  # not judged


def test_reach_takes_every_topic_and_every_answer(sets: Path) -> None:
    kg = prepared(graph("freebase_kg")).open()
    reach = Reach(kg)
    assert reach.holds(["m.02"], ["South Shields", "m.01"], 1)
    assert not reach.holds(["m.02"], ["Felicity Heywood"], 1)
    assert reach.holds(["m.02"], ["Felicity Heywood"], 2)
    assert not reach.holds(["m.02", "m.99"], ["South Shields"], 3)
    assert not reach.holds([], ["South Shields"], 3)
    assert has_fact(kg, "m.02", "place_of_birth", "south shields")
    assert not has_fact(kg, "m.02", "place_of_death", "South Shields")


def test_a_missing_file_of_each_new_task_says_where_it_is_published(sets: Path) -> None:
    for name in RECORDS:
        (sets / name).unlink()
    for make in (*ON_FREEBASE, ck25):
        with pytest.raises(DataError, match=r"missing; get it \(.*https://.*put it at this path"):
            make()


def test_without_the_variable_there_is_one_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPLEWISE_DATA", raising=False)
    result = CliRunner().invoke(app, ["cwq", "--limit", "1"])
    told = str(result.exception) if isinstance(result.exception, DataError) else result.stderr
    assert "set TRIPLEWISE_DATA to the folder that holds the benchmarks" in told
    assert "Traceback" not in told
    assert result.exit_code != 0


def test_the_list_of_tasks_needs_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPLEWISE_DATA", raising=False)
    assert sorted(tasks.__all__) == sorted(benchmarks())
    for name in tasks.__all__:
        info = describe(name)
        assert all(info[key] for key in ("asked", "judged", "licence", "citation", "published"))
        assert all(0 <= asked["answerable"] <= asked["questions"] for asked in info["asked"].values())
    assert (describe("metaqa")["asked"]["hops=2"]["questions"], describe("metaqa")["seeded"]) == (
        13_872,
        True,
    )
    assert (describe("ck25")["profile"], describe("ck25")["partial"]) == ("inferred", False)
    assert (describe("agentbench_kg")["system"], describe("grailqa")["gold_derived"]) == ("agentbench", True)
    assert describe("cwq")["seeds"] == ["cwq/dev_questions.jsonl.gz"]


def test_the_command_lists_tasks_and_tells_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPLEWISE_DATA", raising=False)
    listed = CliRunner().invoke(app, ["tasks", "--json"])
    assert listed.exit_code == 0, listed.output
    assert [info["name"] for info in json.loads(listed.stdout)] == tasks.__all__
    table = CliRunner().invoke(app, ["tasks"]).stdout
    assert "74.6 % (0 %)" in table
    one = " ".join(CliRunner().invoke(app, ["tasks", "cwq"]).stdout.split())
    assert "170, 127 without facts made from gold answers" in one
    wrong = CliRunner().invoke(app, ["tasks", "cqw"])
    assert wrong.exit_code != 0


@pytest.mark.usefixtures("leaks_of_inspect")
def test_two_runs_of_the_embedded_default_give_identical_results(sets: Path, tmp_path: Path) -> None:
    def answers(folder: str) -> list[object]:
        log = run(grailqa(), log_dir=tmp_path / folder)
        assert crashes(log) == []
        runs = [s.store_as(Run) for s in log.samples or []]
        return [(r.values, r.labels, r.sparql, r.status, r.steps) for r in runs]

    first = answers("one")
    assert first == answers("two")
    assert first[0][0] == ["m.02"]  # type: ignore[index]


@pytest.mark.usefixtures("leaks_of_inspect")
def test_ck25_is_answered_over_a_graph_whose_profile_is_inferred(sets: Path, tmp_path: Path) -> None:
    scores = scores_of(run(ck25(), log_dir=tmp_path))
    assert scores["f1.count"] == 3
    assert scores["f1.mean"] >= 1 / 3
    assert scores["accuracy.count"] == 1


def test_own_file_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.jsonl").write_text("{}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert own_file("q.jsonl", "somewhere").name == str(tmp_path / "q.jsonl")


NEEDS_DATA = pytest.mark.skipif(not os.environ.get("TRIPLEWISE_DATA"), reason="TRIPLEWISE_DATA is not set")
MADE: dict[str, Callable[[], list[tuple[str, Task]]]] = {
    "cwq": lambda: [("", cwq(n=1))],
    "grailqa": lambda: [("", grailqa(n=1))],
    "simplequestions": lambda: [("", simplequestions(n=1))],
    "qald10": lambda: [("", qald10(n=1))],
    "ck25": lambda: [("", ck25(n=1))],
    "agentbench_kg": lambda: [(f"split={s}", agentbench_kg(split=s, n=1)) for s in ("std", "dev")],
}


@NEEDS_DATA
@pytest.mark.parametrize("name", MADE)
def test_the_catalog_counts_what_the_published_files_hold(name: str) -> None:
    for which, task in MADE[name]():
        about, counted = task.metadata or {}, benchmark(name).asked[which]
        assert (about["asked"], about["answerable"]) == (counted.questions, counted.answerable)
        assert about["changed_files"] == []
    close_all()
