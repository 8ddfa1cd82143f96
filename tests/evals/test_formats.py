"""Published files become records, and a broken entry is named with file, place, field and mend."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from triplewise.evals.data import benchmark, locate
from triplewise.evals.formats import FORMATS, read_published, sniff
from triplewise.evals.tasks import wikisql
from triplewise.evals.tasks.registry import with_results
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.open import close_all, open_kg

Spoil = Callable[[Any], Any]

PERSON = {"type": "uri", "value": "http://www.wikidata.org/entity/Q42"}
GRAPH = {
    "nodes": [
        {"nid": 0, "node_type": "class", "id": "film.film", "friendly_name": "Film"},
        {"nid": 1, "node_type": "entity", "id": "m.01", "friendly_name": "Ada"},
    ],
    "edges": [],
}
ENTITY = {"answer_type": "Entity", "answer_argument": "m.02", "entity_name": "Alien"}

WEBQSP = {
    "Version": "1.0",
    "Questions": [
        {
            "QuestionId": "WebQTest-0",
            "RawQuestion": "what did ada make?",
            "ProcessedQuestion": "what did ada make",
            "Parses": [
                {
                    "AnnotatorComment": {"ParseQuality": "Complete", "QuestionQuality": "Good"},
                    "Sparql": "SELECT ?x",
                    "TopicEntityName": "Ada",
                    "TopicEntityMid": "m.01",
                    "Constraints": [{"ArgumentType": "Entity", "Argument": "m.05", "EntityName": "Film"}],
                    "Answers": [
                        {"AnswerType": "Entity", "AnswerArgument": "m.02", "EntityName": "Alien"},
                        {"AnswerType": "Value", "AnswerArgument": "1979", "EntityName": None},
                    ],
                },
                {"TopicEntityMid": None, "Sparql": "", "Answers": []},
            ],
        }
    ],
}
CWQ = [
    {
        "ID": "WebQTest-1_ab",
        "webqsp_ID": "WebQTest-1",
        "webqsp_question": "what",
        "machine_question": "what what",
        "question": "What?",
        "sparql": "SELECT ?x WHERE { ns:m.01 ns:film.film.director ?x }",
        "compositionality_type": "composition",
        "answers": [
            {"answer": "Alien", "answer_id": "m.02", "aliases": ["Alien 1"]},
            {"answer": "1979", "answer_id": None, "aliases": []},
        ],
    }
]
GRAILQA = [
    {
        "qid": 2101,
        "question": "which?",
        "answer": [ENTITY, {"answer_type": "Value", "answer_argument": "3"}],
        "function": "none",
        "num_node": 2,
        "num_edge": 1,
        "graph_query": GRAPH,
        "sparql_query": "SELECT ?x",
        "domains": ["film"],
        "level": "zero-shot",
        "s_expression": "(AND film.film m.01)",
    }
]
GRAPHQ = [
    {
        "qid": 251000000,
        "question": "which?",
        "answer": ["Alien", 3],
        "function": "count",
        "commonness": -19.6,
        "num_node": 2,
        "num_edge": 1,
        "graph_query": GRAPH,
        "sparql_query": "SELECT ?x",
    }
]
AGENTBENCH = [
    {
        "question": "which?",
        "qid": "43_grailqa",
        "source": "grailqa",
        "entities": {"ada": "m.01"},
        "s_expression": "(AND x y)",
        "actions": ["get_relations(m.01)", "count(#0)"],
        "answer": [ENTITY],
    }
]
QALD = {
    "dataset": {"id": "qald-10"},
    "questions": [
        {
            "id": "7",
            "question": [{"language": "de", "string": "Wer?"}, {"language": "en", "string": "Who?"}],
            "query": {"sparql": "SELECT ?r"},
            "answers": [{"head": {"vars": ["r"]}, "results": {"bindings": [{"r": PERSON}, {"r": PERSON}]}}],
        },
        {
            "id": 8,
            "question": [{"language": "en", "string": "Is it?"}, {"language": "zh-cn", "string": "吗"}],
            "query": {"sparql": "ASK {}"},
            "answers": [{"head": {}, "boolean": False}],
        },
        {
            "id": 9,
            "question": [{"language": "en", "string": "How many?"}],
            "query": {"sparql": "SELECT ?n"},
            "answers": [{"results": {"bindings": [{"n": {"type": "literal", "value": "3"}}]}}],
        },
    ],
}
WWQ = [
    {"id": "WebQTrn-1", "utterance": "who?", "sparql": "SELECT ?x", "results": [{"x": PERSON}]},
    {"id": "WebQTrn-2", "utterance": "nobody?", "sparql": "SELECT ?x", "results": []},
]
SIMPLE = [
    "www.freebase.com/m/01\twww.freebase.com/film/film/country\twww.freebase.com/m/02\twhere is it from?",
    "www.freebase.com/m/03\twww.freebase.com/people/person/gender\twww.freebase.com/m/04\twhat is it",
]
CREAK = [
    {"ex_id": "dev_0", "sentence": "Soup is wet.", "label": "true", "entity": "Soup", "en_wiki_pageid": "1"}
]
KILT = [
    {
        "id": "a1",
        "input": "Alien [SEP] director",
        "output": [
            {"answer": "Ridley Scott", "provenance": [{"title": "Alien (film)", "wikipedia_id": "1"}]},
            {"answer": "Sir Ridley Scott"},
            {"provenance": []},
        ],
        "meta": {"template_questions": ["Who directed Alien?"]},
    }
]
METAQA = [
    "[Alien] was directed by who\tRidley Scott",
    "what did [Ridley Scott] direct\tAlien|Blade Runner|Alien",
]
CK25 = {
    "dataset": {"id": "https://text2sparql.aksw.org/2025/corporate/"},
    "questions": [
        {
            "id": 1,
            "question": {"en": "Who works here?", "de": "Wer?"},
            "features": ["SELECT"],
            "classes": [":Employee"],
            "properties": [":memberOf"],
            "query": {"sparql": "SELECT ?x WHERE { ?x <http://c/memberOf> <http://c/d> }"},
        },
        {"id": 2, "question": {"en": "Is it?"}, "query": {"sparql": "ASK { ?x <http://c/memberOf> ?y }"}},
    ],
}
WIKISQL = [
    {
        "phase": 1,
        "table_id": "1-1",
        "question": "how many?",
        "sql": {"sel": 0, "conds": [[1, 1, "1,5"]], "agg": 3},
    },
    {
        "phase": 1,
        "table_id": "1-1",
        "question": "who?",
        "sql": {"sel": 0, "conds": [[2, 0, "OSLO"]], "agg": 0},
    },
    {"phase": 1, "table_id": "1-1", "question": "most?", "sql": {"sel": 1, "conds": [], "agg": 1}},
]
TABLES = [
    {
        "id": "1-1",
        "header": ["Name", "Points", "Town"],
        "types": ["text", "real", "text"],
        "rows": [["Ada", 3, "Oslo"], ["Bob", 20.5, "Rome"], ["Cyd", 16, "Oslo"]],
    }
]


def write(folder: Path, name: str, content: Any) -> Path:
    """A published file: JSON, YAML, JSON lines, or plain lines, by its name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".yml"):
        text = yaml.safe_dump(content, sort_keys=False)
    elif isinstance(content, list) and isinstance(content[0], str):
        text = "\n".join(content) + "\n"
    elif name.endswith(".jsonl") or name == "dev.json":
        text = "".join(json.dumps(line) + "\n" for line in content)
    else:
        text = json.dumps(content, indent=4)
    path.write_text(text, encoding="utf-8")
    return path


FILES: dict[str, tuple[str, Any]] = {
    "webqsp": ("WebQSP.test.json", WEBQSP),
    "cwq": ("ComplexWebQuestions_test.json", CWQ),
    "grailqa": ("grailqa_v1.0_dev.json", GRAILQA),
    "graphq": ("graphquestions.testing.json", GRAPHQ),
    "agentbench_kg": ("std.json", AGENTBENCH),
    "qald10": ("qald_10.json", QALD),
    "wikiwebquestions": ("test.json", WWQ),
    "simplequestions": ("annotated_fb_data_test.txt", SIMPLE),
    "creak": ("dev.json", CREAK),
    "trex": ("trex-dev-kilt.jsonl", KILT),
    "zeroshot_re": ("structured_zeroshot-dev-kilt.jsonl", KILT),
    "metaqa": ("2-hop/vanilla/qa_test.txt", METAQA),
    "ck25": ("questions.yml", CK25),
    "wikisql": ("test.jsonl", WIKISQL),
}


def published(folder: Path, task: str, content: Any = None) -> Path:
    """The published file of a task, with what belongs beside it."""
    name, own = FILES[task]
    if task == "wikisql":
        write(folder, "test.tables.jsonl", TABLES)
    return write(folder, name, own if content is None else content)


def test_every_task_has_a_form() -> None:
    assert set(FILES) == set(FORMATS)


@pytest.mark.parametrize("task", FILES)
def test_a_published_file_is_known_by_its_form_plain_or_packed(tmp_path: Path, task: str) -> None:
    path = published(tmp_path, task)
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert sniff(path) == sniff(packed) == FORMATS[task].name
    assert [r["question" if "question" in r else "id"] for r in read_published(task, path)]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert sniff(path) == FORMATS[task].name


@pytest.mark.parametrize("task", FILES)
def test_records_of_our_own_are_not_taken_for_published_ones(tmp_path: Path, task: str) -> None:
    records = read_published(task, published(tmp_path, task))
    path = write(tmp_path, "own.jsonl", records)
    assert sniff(path) == ""
    with pytest.raises(DataError, match=r"own\.jsonl: has no published form that is known"):
        read_published(task, path)


def _only(tmp_path: Path, task: str) -> dict[str, Any]:
    return read_published(task, published(tmp_path, task))[0]


def test_webqsp(tmp_path: Path) -> None:
    record = _only(tmp_path, "webqsp")
    assert (record["id"], record["question"]) == ("WebQTest-0", "what did ada make")
    assert record["answers"] == ["m.02", "1979"]
    assert record["alt_answer_sets"] == [["m.02", "1979"], []]
    assert record["gold_names"] == {"m.02": ["Alien"]}
    assert record["entity_linking"] == {"Ada": "m.01", "Film": "m.05"}


def test_cwq(tmp_path: Path) -> None:
    record = _only(tmp_path, "cwq")
    assert (record["answers"], record["answer_tog"]) == (["m.02", "1979"], "Alien")
    assert record["gold_names"] == {"m.02": ["Alien", "Alien 1"]}
    assert record["topic_entity"] == {"m.01": "m.01"}
    copy = [{**CWQ[0], "answer": "Alien", "topic_entity": {"m.01": "Ada"}}]
    del copy[0]["answers"]
    (record,) = read_published("cwq", published(tmp_path, "cwq", copy))
    assert (record["answers"], record["topic_entity"]) == (["Alien"], {"m.01": "Ada"})


def test_grailqa_graphq_and_agentbench(tmp_path: Path) -> None:
    record = _only(tmp_path, "grailqa")
    assert (record["id"], record["topic_entity"], record["level"]) == ("2101", {"m.01": "Ada"}, "zero-shot")
    assert [a["answer_argument"] for a in record["answers"]] == ["m.02", "3"]
    record = _only(tmp_path, "graphq")
    assert (record["answer_names"], record["structure"]) == (["Alien", "3"], "2,1")
    assert record["entity_linking"] == {"m.01": {"mention": "Ada"}}
    record = _only(tmp_path, "agentbench_kg")
    assert (record["id"], record["entities"]) == ("43_grailqa", {"ada": "m.01"})
    assert record["answer"] == [{"answer_argument": "m.02", "entity_name": "Alien"}]


def test_qald10_and_wikiwebquestions(tmp_path: Path) -> None:
    first, second, third = read_published("qald10", published(tmp_path, "qald10"))
    assert (first["id"], first["question"], first["answers"]) == ("qald10-7", "Who?", ["Q42"])
    assert (second["answers"], second["answer_type"]) == ([False], "boolean")
    assert (third["answers"], third["answer_type"]) == (["3"], "literal")
    records = read_published("wikiwebquestions", published(tmp_path, "wikiwebquestions"))
    assert [r["answers"] for r in records] == [["Q42"], []]


def test_simplequestions(tmp_path: Path) -> None:
    record = _only(tmp_path, "simplequestions")
    assert record == {
        "id": "simplequestions-00000",
        "question": "where is it from?",
        "topic_entity": {"m.01": "m.01"},
        "relation": "country",
        "answer": "m.02",
    }


def test_creak_and_slots(tmp_path: Path) -> None:
    record = _only(tmp_path, "creak")
    assert (record["id"], record["label"], record["topic_entity"]) == ("dev_0", "true", {})
    record = _only(tmp_path, "trex")
    assert (record["answer"], record["alias"]) == ("Ridley Scott", ["Ridley Scott", "Sir Ridley Scott"])
    assert record["relation"] == "director"


def test_metaqa_with_its_question_types(tmp_path: Path) -> None:
    path = published(tmp_path, "metaqa")
    first, second = read_published("metaqa", path)
    assert (first["id"], first["hops"], first["qtype"]) == ("metaqa-2hop-test-00000", 2, "")
    assert (second["topic_entity"], second["answers"]) == ("Ridley Scott", ["Alien", "Blade Runner"])
    kinds = write(tmp_path, "2-hop/qa_test_qtype.txt", ["movie_to_director", "director_to_movie"])
    assert [r["hops"] for r in read_published("metaqa", path)] == [1, 1]
    kinds.write_text("movie_to_director\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 2 questions, but its file of question types 1 lines"):
        read_published("metaqa", path)


def test_wikisql_asks_the_gold_queries(tmp_path: Path) -> None:
    records = read_published("wikisql", published(tmp_path, "wikisql"))
    assert [r["answers"] for r in records] == [[2], ["ada", "cyd"], [20.5]]
    assert records[0]["sql"] == {"sel": 0, "agg": "COUNT", "conds": [[1, ">", "1,5"]]}
    (tmp_path / "test.tables.jsonl").unlink()
    with pytest.raises(DataError, match=r"put test\.tables\.jsonl of the same release beside it"):
        read_published("wikisql", tmp_path / "test.jsonl")


def test_ck25_asks_the_gold_queries(tmp_path: Path) -> None:
    graph = tmp_path / "c.nt"
    graph.write_text("<http://c/e> <http://c/memberOf> <http://c/d> .\n", encoding="utf-8")
    records = read_published("ck25", published(tmp_path, "ck25"))
    try:
        first, second = with_results(records, open_kg(graph))
        assert (first["result_columns"], first["result_rows"]) == (["x"], [["http://c/e"]])
        assert (second["result_columns"], second["result_rows"]) == (None, True)
        broken = [{**records[0], "sparql": "SELECT nonsense"}]
        with pytest.raises(DataError, match="the gold query of ck25-1 gives no result"):
            with_results(broken, open_kg(graph))
    finally:
        close_all()


def _at(*keys: Any, value: Any) -> Spoil:
    """Puts a value somewhere in a file's content; removes what is there if it is `...`."""

    def spoil(content: Any) -> Any:
        whole = deepcopy(content)
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = value
        return whole

    return spoil


BROKEN: list[tuple[str, Spoil, str]] = [
    (
        "webqsp",
        _at("Questions", 0, "Parses", 0, "Answers", 1, "AnswerArgument", value=None),
        "entry 0: field 'AnswerArgument' has to be a text, found None",
    ),
    ("webqsp", _at("Questions", 0, "Parses", value=[]), "field 'Parses' has to be a list with at least one"),
    ("cwq", _at(0, "answers", value=...), "field 'answers' has to be a list of answers .* found nothing"),
    (
        "cwq",
        _at(0, "answers", 0, "aliases", value=[{}]),
        "entry 0: field 'aliases' has to be a list of",
    ),
    ("grailqa", _at(0, "answer", value=...), "the public test file has none: take the dev file"),
    ("grailqa", _at(0, "answer", 0, "answer_type", value="Thing"), '"Entity" or "Value", found \'Thing\''),
    ("graphq", _at(0, "answer", value="Alien"), "entry 0: field 'answer' has to be a list of names"),
    (
        "agentbench_kg",
        _at(0, "entities", value=["m.01"]),
        "entry 0: field 'entities' has to be a JSON object",
    ),
    ("qald10", _at("questions", 0, "question", value=[]), "field 'question' has to be a list with a text of"),
    ("qald10", _at("questions", 1, "answers", 0, "boolean", value="no"), "'boolean' has to be true or false"),
    (
        "qald10",
        _at("questions", 0, "answers", 0, "results", "bindings", 1, value={}),
        "entry 0: field 'result' has to be a term",
    ),
    ("wikiwebquestions", _at(1, "results", value=...), "entry 1: field 'results' has to be a list of JSON"),
    ("wikiwebquestions", _at(1, "id", value="WebQTrn-1"), "the id 'WebQTrn-1' stands for two questions"),
    ("simplequestions", _at(1, value="m.01\tx\ty"), "txt:2: a line has to be subject, relation, object"),
    ("creak", _at(0, "label", value=...), 'dev.json:1: field \'label\' has to be "true" or "false"'),
    ("trex", _at(0, "output", value=[]), "jsonl:1: field 'output' has to be a list of answers"),
    ("zeroshot_re", _at(0, "input", value="Alien director"), "field 'input' has to be \"subject"),
    ("metaqa", _at(1, value="what did [x] do"), r"qa_test\.txt:2: a line has to be a question, a tab"),
    ("metaqa", _at(1, value="what did x do\ty"), r"qa_test\.txt:2: the question has no \[entity\]"),
    ("ck25", _at("questions", 1, "query", value="ASK {}"), "entry 1: field 'query' has to be a JSON object"),
    ("wikisql", _at(1, "table_id", value="2-2"), "jsonl:2: field 'table_id' has to be the id of a table"),
    ("wikisql", _at(0, "sql", "sel", value=3), "field 'sel' has to be the index of a column, 0 to 2"),
    ("wikisql", _at(0, "sql", "conds", value=[[0, 9, "x"]]), "field 'conds' has to be a list of"),
]


@pytest.mark.parametrize(("task", "spoil", "message"), BROKEN)
def test_a_broken_entry_is_named(tmp_path: Path, task: str, spoil: Spoil, message: str) -> None:
    path = published(tmp_path, task, spoil(FILES[task][1]))
    with pytest.raises(DataError, match=message) as caught:
        read_published(task, path)
    assert str(caught.value).startswith(str(path))


def test_every_reader_has_a_broken_entry_here() -> None:
    assert {task for task, _, _ in BROKEN} == set(FORMATS)


def test_files_that_are_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has the published form of cwq, not that of grailqa"):
        read_published("grailqa", published(tmp_path, "cwq"))
    with pytest.raises(ConfigurationError, match="unknown task 'triviaqa'"):
        read_published("triviaqa", tmp_path / "x.json")
    cut = published(tmp_path, "cwq")
    cut.write_text(cut.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(DataError, match=r"ComplexWebQuestions_test\.json:\d+: not JSON"):
        read_published("cwq", cut)
    (tmp_path / "x.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        sniff(tmp_path / "x.jsonl.gz")
    (tmp_path / "empty.json").write_text("", encoding="utf-8")
    assert sniff(tmp_path / "empty.json") == ""


def test_published_files_are_found_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    files = benchmark("metaqa").files
    path = published(tmp_path / "metaqa", "metaqa")
    assert locate(files["metaqa/test_2hop.jsonl.gz"]) == path
    with pytest.raises(DataError, match="missing; get it"):
        locate(files["metaqa/test_3hop.jsonl.gz"])


def test_wikisql_as_published_is_asked_of_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    published(tmp_path / "wikisql", "wikisql")
    task = wikisql(n=0, model="openai:any")
    assert sorted(tuple(sample.target) for sample in task.dataset) == [("2",), ("20.5",), ("ada", "cyd")]
    about = task.metadata or {}
    assert len(about["changed_files"]) == 2
    with pytest.raises(ConfigurationError, match="is all test questions, as published"):
        wikisql(split="dev", model="openai:any")
