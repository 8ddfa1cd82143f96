"""Seed questions: read from the forms that datasets use, found by the structure they share."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.seeds import (
    Seed,
    SeedIndex,
    group_seeds,
    masked,
    read_seeds,
    with_names,
)

QUESTION = {"question": "who wrote [Dracula]", "answers": ["Bram Stoker"]}


def write(path: Path, *records: dict[str, Any]) -> Path:
    text = "\n".join(json.dumps(r) for r in records) + "\n\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["seeds.jsonl", "seeds.jsonl.gz"])
def test_plain_and_packed_files_read_the_same(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, {**QUESTION, "topic_entity": "Dracula"})
    assert list(read_seeds(path)) == [Seed("who wrote [Dracula]", ("Dracula",), ("Bram Stoker",))]


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"topic_entity": "Dracula"}, ("Dracula",)),
        ({"topic_entity": ["Dracula", "Emma"]}, ("Dracula", "Emma")),
        ({"entities": {"Dracula": "Q41542"}}, ("Dracula",)),
        ({}, ()),
    ],
)
def test_forms_of_topics(tmp_path: Path, given: dict[str, Any], topics: tuple[str, ...]) -> None:
    (seed,) = read_seeds(write(tmp_path / "seeds.jsonl", {**QUESTION, **given}))
    assert seed.topics == topics
    known = next(iter(given.values()), None)
    assert seed.ids == (tuple(known.values()) if isinstance(known, dict) else ())


def test_topics_are_told_in_the_order_of_the_question() -> None:
    made = Seed("what do Emma and Dracula share?", ("Dracula", "Emma"), ("x",), ("Q1", "Q2"))
    assert made.named == (("Emma", "Q2"), ("Dracula", "Q1"))
    assert Seed("who wrote Emma?", ("Emma",), ("x",)).named == (("Emma", "Emma"),)


@pytest.mark.parametrize(
    ("line", "message"),
    [('{"question": "who"', "not JSON"), ('{"question": "who"}', "a list of answers"), ('["who"]', "object")],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "seeds.jsonl", {**QUESTION, "topic_entity": "Dracula"})
    path.write_text(path.read_text().rstrip() + f"\n\n{line}\n")
    with pytest.raises(DataError, match=rf"seeds\.jsonl:3: .*{message}"):
        list(read_seeds(path))


@pytest.mark.parametrize("name", ["none.jsonl", "foreign.jsonl", "unpacked.jsonl.gz"])
def test_a_missing_or_foreign_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "foreign.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "unpacked.jsonl.gz").write_bytes(b"{}")
    with pytest.raises(DataError, match=name):
        list(read_seeds(tmp_path / name))


@pytest.mark.parametrize(
    "seeds", [[], [Seed("who wrote it", ("Dracula",), ("x",))], [Seed("who wrote Dracula", ("Dracula",), ())]]
)
def test_without_a_usable_seed_it_is_said(seeds: list[Seed]) -> None:
    with pytest.raises(DataError, match=r"empty\.jsonl: no usable seed question"):
        group_seeds(seeds, "empty.jsonl")


def seed(question: str, topic: str) -> Seed:
    return Seed(question, (topic,), ("x",))


INDEX = SeedIndex(
    group_seeds(
        [
            seed("who wrote the book Dracula?", "Dracula"),
            seed("Who wrote the book [Emma] ?", "Emma"),
            seed("who directed the film Alien?", "Alien"),
            seed("which films did Ridley Scott direct?", "ridley scott"),
            seed("what is the capital of France?", "France"),
        ]
    )
)


def search(question: str, mention: str, k: int = 5) -> list[str]:
    start = question.index(mention)
    return [m.text for m in INDEX.search(question, [(start, start + len(mention))], k)]


def test_seeds_of_one_structure_are_one_group() -> None:
    assert len(INDEX.groups) == 4
    question = "who wrote the book Ulysses"
    (best, *_) = INDEX.search(question, [(19, 26)])
    assert best.score == 1.0
    assert [s.topics for s in best.seeds] == [("Dracula",), ("Emma",)]


def test_the_same_masked_text_stands_first_even_where_bm25_prefers_another() -> None:
    pool = [seed("who is A?", "A"), seed("who is A who is A who is B?", "B")]
    (best, *_) = SeedIndex(group_seeds(pool)).search("who is Zeno?", [(7, 11)])
    assert (best.text, best.score) == ("who is entity", 1.0)
    assert INDEX.search("who is Zeno?", [(7, 11)], k=1)


def test_like_structure_ranks_above_unlike() -> None:
    assert search("who was it that wrote the book Ulysses", "Ulysses")[0] == "who wrote the book entity"
    assert search("which films did Jane Campion make?", "Jane Campion")[0] == "which films did entity direct"
    assert search("the capital of Peru is what?", "Peru")[0] == "what is the capital of entity"


FILMS = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:alien rdfs:label "Alien" ; :director :scott ; :released "1979-05-25"^^xsd:date ; :runtime 117 .
:scott rdfs:label "Ridley Scott" .
"""


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("films") / "films.ttl"
    path.write_text(FILMS)
    return open_kg(path)


def test_a_topic_given_by_its_id_is_found_in_the_question(kg: KnowledgeGraph) -> None:
    scott = "<http://films.example/scott>"
    films = Seed("which films did Ridley Scott make?", ("Ridley Scott",), ("Alien",))
    (named,) = with_names([Seed(films.question, (scott,), films.answers)], kg)
    assert (named.topics, named.ids) == (("Ridley Scott",), (scott,))
    other = Seed("who is it?", (scott,), ("Alien",))
    assert list(with_names([other, films], kg)) == [other, films]


def test_values_are_found_in_any_writing(kg: KnowledgeGraph) -> None:
    miner = Miner(kg, SeedIndex({}))
    assert miner.resolve("117")[0] == Literal("117", XSD + "integer")
    assert miner.resolve("1979-05-25")[0] == Literal("1979-05-25", XSD + "date")
    assert miner.resolve("4") == (), "no fact has it"
    (path,) = miner.of_seed(Seed("how long is Alien?", ("Alien",), ("117",)))
    assert [atom.relation for atom in path] == ["runtime"]


def test_masked_questions_of_one_wording_meet() -> None:
    assert masked("Who wrote Emma?", [(10, 14)]) == masked("who wrote [Dracula]", [(10, 19)])
