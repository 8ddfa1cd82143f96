"""Names of sources, what is wrong with them, and databases as graphs."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.core.terms import IRI
from triplewise.tools.federation import direct_mapping
from triplewise.tools.federation.sources import join_sources, open_sources, read_sources
from triplewise.tools.kg.protocol import Outcome


def test_sources_have_names() -> None:
    text = join_sources(["wd=https://query.example.org/sparql?key=a=b", "films.ttl", "demo"])
    assert read_sources(text) == {
        "wd": "https://query.example.org/sparql?key=a=b", "films": "films.ttl", "demo": "demo"
    }  # fmt: skip
    assert Context(kg={"a": "a.ttl", "b": Path("b.ttl")}).kg == "a=a.ttl + b=b.ttl"
    assert Context(kg=["a.ttl", "b.ttl"]).kg == "a.ttl + b.ttl"


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["a=x.ttl", "a=y.ttl"], "two sources are called 'a': x.ttl and y.ttl; give each source a name"),
        (["x/a.ttl", "y/a.ttl"], "two sources are called 'a': x/a.ttl and y/a.ttl"),
        (["a.ttl", 3], "3 is not an address of a source"),
    ],
)
def test_names_that_cannot_be_are_refused(sources: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_sources(join_sources(sources))


def test_a_profile_is_for_one_of_the_sources(sources: dict[str, str]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"unknown source of a profile \(NAME=PROFILE\) 'wikidata'.*mine"
    ):
        open_sources(f"mine={sources['mine']} + shop={sources['shop']}", profile="wikidata")


def test_ids_begin_with_the_name_of_their_source_also_where_another_one_writes_them(tmp_path: Path) -> None:
    world, films = tmp_path / "world.ttl", tmp_path / "films.ttl"
    world.write_text(
        "@prefix : <http://world.example/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        ":Q1 :born :london ; owl:sameAs <http://mine.example/hitchcock> ."
    )
    films.write_text("@prefix : <http://mine.example/> . :psycho :directedBy :hitchcock .")
    kg = open_sources(f"world={world} + mine={films}")
    assert kg.profile.short(IRI("http://mine.example/hitchcock")) == "mine:hitchcock"
    assert kg.profile.short(IRI("http://world.example/Q1")) == "world:Q1"


def test_files_without_names_are_one_graph(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<urn:a:x> <urn:a:in> <urn:a:y> .", encoding="utf-8")
    (tmp_path / "b.ttl").write_text("<urn:a:y> <urn:a:in> <urn:a:z> .", encoding="utf-8")
    kg = open_sources(f"{tmp_path}/a.ttl + {tmp_path}/b.ttl")
    assert kg.query("SELECT ?z { <urn:a:x> <urn:a:in>/<urn:a:in> ?z }").rows == ((IRI("urn:a:z"),),)


def test_a_database_is_a_graph(sources: dict[str, str]) -> None:
    kg = open_sources(f"shop={sources['shop']} + mine={sources['mine']}")
    result = kg.query(
        "PREFIX shop: <urn:shop:> SELECT ?n ?s { ?c shop:customer-country_id shop:country-2 . "
        "?c shop:customer-name ?n . ?c shop:customer-since ?s }"
    )
    assert [[t.n3() for t in row if t] for row in result.rows] == [
        ['"Sakura Trading"', '"2018-07-15"^^<http://www.w3.org/2001/XMLSchema#date>']
    ]
    assert kg.query("ASK { <urn:shop:customer-3> <urn:shop:customer-revenue> ?r }").boolean is False
    assert kg.labels([IRI("urn:shop:customer-1")]) == {IRI("urn:shop:customer-1"): "Adler Optik"}


def test_a_large_database_is_refused(
    sources: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(tmp_path / "large.db") as connection:
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3), (4);")
    connection.close()
    monkeypatch.setattr(direct_mapping, "ROWS", 3)
    with pytest.raises(
        ConfigurationError, match="table t has over 3 rows, too many with graphs: ask the database"
    ):
        open_sources(f"{tmp_path}/large.db + mine={sources['mine']}")


def test_what_is_closed_is_opened_anew(sources: dict[str, str]) -> None:
    text = f"mine={sources['mine']} + shop={sources['shop']}"
    first = open_sources(text)
    assert open_sources(text) is first
    assert first.query("ASK { ?s ?p ?o }").outcome is Outcome.ROWS


TOWNS = "town,country,size\nBerlin,Germany,37\nHamburg,Germany,18\nLyon,France,5\nPorto,Portugal,2\n"


def test_rows_are_named_by_the_first_column_of_names(tmp_path: Path) -> None:
    """A table without a key, or with one of numbers, whose columns are not called "name" or the like."""
    (tmp_path / "towns.csv").write_text(TOWNS)
    (tmp_path / "codes.csv").write_text("code,when,town\na1,2020-01-01,Berlin\na2,2020-01-02,Berlin\n")
    towns, codes = (open_sources(str(tmp_path / f"{name}.csv")) for name in ("towns", "codes"))
    assert [entry.iri for entry in towns.names.exact("Lyon")] == [IRI("urn:towns:towns-Lyon-France-5")]
    assert not codes.names.exact("Berlin")  # it tells no rows apart, and nothing else is a name
    assert not codes.names.exact("a1")


def test_a_database_alone_is_a_graph_by_its_url_too_with_a_profile(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text(TOWNS)
    given = tmp_path / "towns.yaml"
    inferred = open_sources(str(tmp_path / "towns.csv")).profile
    given.write_text(replace(inferred, language="de").yaml())
    for text in (f"{tmp_path}/towns.csv", f"towns=duckdb:///{tmp_path}/towns.csv"):
        kg = open_sources(text, profile=str(given))
        assert (kg.profile.language, kg.name) == ("de", "towns")
    with pytest.raises(ConfigurationError, match="unknown profile"):
        open_sources(str(tmp_path / "towns.csv"), profile="nope")
    with pytest.raises(KGUnavailableError, match="check host, database, user and password"):
        open_sources("postgresql://someone:secret@127.0.0.1:9/shop")
