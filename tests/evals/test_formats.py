"""Published files become records, and a broken entry is named with file, place and field.

`published_forms.yaml` has a file of each benchmark and the records that it becomes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from triplewise.evals import wikisql
from triplewise.evals.published_formats import FORMATS, is_published, read_published
from triplewise.evals.tasks.registry import with_results
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.open import close_all, open_kg

Spoil = Callable[[Any], Any]

FORMS = yaml.safe_load(Path(__file__).with_name("published_forms.yaml").read_text(encoding="utf-8"))
TABLES = FORMS.pop("tables")
FORMS["zeroshot_re"] = {**FORMS["trex"], "file": "structured_zeroshot-dev-kilt.jsonl"}


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


def published(folder: Path, task: str, content: Any = None) -> Path:
    """The published file of a task, with what belongs beside it."""
    if task == "wikisql":
        write(folder, "test.tables.jsonl", TABLES)
    return write(folder, FORMS[task]["file"], FORMS[task]["content"] if content is None else content)


@pytest.mark.parametrize("task", FORMATS)
def test_a_published_file_is_recognised_plain_or_packed_and_becomes_records(
    tmp_path: Path, task: str
) -> None:
    path = published(tmp_path, task)
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert is_published(task, path)
    assert is_published(task, packed)
    records = read_published(task, path)
    assert records == FORMS[task]["records"]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_published(task, path) == records
    assert not is_published(task, write(tmp_path, "own.jsonl", records))


def test_copies_of_cwq_may_have_one_answer_and_a_linking(tmp_path: Path) -> None:
    copy = [{**FORMS["cwq"]["content"][0], "answer": "Alien", "topic_entity": {"m.01": "Ada"}}]
    del copy[0]["answers"]
    (record,) = read_published("cwq", published(tmp_path, "cwq", copy))
    assert (record["answers"], record["topic_entity"]) == (["Alien"], {"m.01": "Ada"})


def test_metaqa_reads_the_question_types_beside_it(tmp_path: Path) -> None:
    path = published(tmp_path, "metaqa")
    types = write(tmp_path, "2-hop/qa_test_qtype.txt", ["movie_to_director", "director_to_movie"])
    assert [r["hops"] for r in read_published("metaqa", path)] == [1, 1]
    types.write_text("movie_to_director\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 2 questions, but its file of question types 1 lines"):
        read_published("metaqa", path)


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
        "entry 0: field 'AnswerArgument' has to be a text, got None; take the file as it is published",
    ),
    ("webqsp", _at("Questions", 0, "Parses", value=[]), "entry 0: "),
    ("cwq", _at(0, "answers", value=...), "entry 0: no field or value 'answer'"),
    ("grailqa", _at(0, "answer", value=...), "no field or value 'answer'; .* a split with answers"),
    ("graphq", _at(0, "answer", value="Alien"), "entry 0: field 'answer' has to be a list of names"),
    ("agentbench_kg", _at(0, "entities", value=["m.01"]), "entry 0: "),
    ("qald10", _at("questions", 0, "question", value=[]), "field 'question' has no text of language 'en'"),
    ("qald10", _at("questions", 0, "answers", 0, "results", "bindings", 1, value={}), "entry 0: "),
    ("wikiwebquestions", _at(1, "results", value=...), "entry 1: no field or value 'results'"),
    ("wikiwebquestions", _at(1, "id", value="WebQTrn-1"), "the id 'WebQTrn-1' stands for two questions"),
    ("simplequestions", _at(1, value="m.01\tx\ty"), "txt:2: a line has to be subject, relation, object"),
    ("creak", _at(0, "label", value=...), r"dev\.json:1: no field or value 'label'"),
    ("trex", _at(0, "output", value=[]), "jsonl:1: needs an 'input' .* answers in 'output'"),
    (
        "metaqa",
        _at(1, value="what did x do\ty"),
        r"qa_test\.txt:2: a line has to be a question with an",
    ),
    ("ck25", _at("questions", 1, "query", value="ASK {}"), "entry 1: "),
    ("wikisql", _at(1, "table_id", value="2-2"), "jsonl:2: no field or value '2-2'"),
    ("wikisql", _at(0, "sql", "sel", value=3), "jsonl:1: no such column: c3"),
]


@pytest.mark.parametrize(("task", "spoil", "message"), BROKEN)
def test_a_broken_entry_is_named(tmp_path: Path, task: str, spoil: Spoil, message: str) -> None:
    path = published(tmp_path, task, spoil(FORMS[task]["content"]))
    with pytest.raises(DataError, match=message) as caught:
        read_published(task, path)
    assert str(caught.value).startswith(str(path))


def test_files_that_are_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="entry 0: no field or value 'qid'"):
        read_published("grailqa", published(tmp_path, "cwq"))
    with pytest.raises(ConfigurationError, match="unknown task 'triviaqa'"):
        read_published("triviaqa", tmp_path / "x.json")
    cut = published(tmp_path, "cwq")
    cut.write_text(cut.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(DataError, match=r"ComplexWebQuestions_test\.json:\d+: not JSON"):
        read_published("cwq", cut)
    published(tmp_path, "wikisql")
    (tmp_path / "test.tables.jsonl").unlink()
    with pytest.raises(DataError, match=r"put test\.tables\.jsonl of the same release beside it"):
        read_published("wikisql", tmp_path / "test.jsonl")
    (tmp_path / "x.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        is_published("cwq", tmp_path / "x.jsonl.gz")


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
