"""Three sources: the demo graph behind HTTP, a small Turtle file, and a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from tests.support.oxigraph_server import OxigraphServer
from triplewise.tools.federation.federated import FederatedKG
from triplewise.tools.federation.sources import open_sources
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.local import LocalKG

PROFILE = str(resources.files("triplewise.tools.kg") / "demo" / "profile.yaml")
FILMS = """@prefix my: <http://example.org/my/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix wd: <http://www.wikidata.org/entity/> .
my:psycho a my:Film ; rdfs:label "Psycho" ; my:rating 9 ; my:lentTo my:anna .
my:alien a my:Film ; rdfs:label "Alien" ; my:rating 10 ; my:lentTo my:ben .
my:jaws a my:Film ; rdfs:label "Jaws" ; my:rating 7 .
my:shining a my:Film ; rdfs:label "The Shining" ; my:rating 8 ; my:lentTo my:anna .
my:garden a my:Film ; rdfs:label "Summer in the Garden" ; my:rating 5 .
my:twin a my:Film ; rdfs:label "Vertigo" . my:other a my:Film ; rdfs:label "Vertigo" .
my:anna a my:Friend ; rdfs:label "Anna Keller" ; my:favouriteDirector my:kubrick .
my:ben a my:Friend ; rdfs:label "Ben Okafor" ; my:favouriteDirector my:cameron .
my:kubrick a my:Maker ; rdfs:label "Kubrick" ; owl:sameAs wd:Q2001 .
my:cameron a my:Maker ; rdfs:label "Cameron" ; owl:sameAs wd:Q42574 .
my:Film rdfs:label "film" . my:lentTo rdfs:label "lent to" .
my:favouriteDirector rdfs:label "favourite director" .
"""
SHOP = """CREATE TABLE country (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, country_id INTEGER REFERENCES country(id),
    since DATE, revenue INTEGER);
INSERT INTO country VALUES (1, 'Germany'), (2, 'Japan'), (3, 'Peru');
INSERT INTO customer VALUES (1, 'Adler Optik', 1, '2015-03-01', 420000),
    (2, 'Sakura Trading', 2, '2018-07-15', 910000), (3, 'Andes Textil', 3, '2021-09-09', NULL);
"""


@pytest.fixture(scope="session")
def server() -> Iterator[OxigraphServer]:
    demo = open_kg("demo")
    assert isinstance(demo, LocalKG)
    with OxigraphServer(demo.store) as running:
        yield running


@pytest.fixture(scope="session")
def sources(server: OxigraphServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("sources")
    (folder / "films.ttl").write_text(FILMS, encoding="utf-8")
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        connection.executescript(SHOP)
    connection.close()
    return {"wd": server.url, "mine": str(folder / "films.ttl"), "shop": f"sqlite:///{folder}/shop.sqlite"}


@pytest.fixture(scope="session")
def shared(sources: dict[str, str]) -> FederatedKG:
    text = " + ".join(f"{name}={address}" for name, address in sources.items())
    kg = open_sources(text, profile=f"wd={PROFILE}")
    assert isinstance(kg, FederatedKG)
    return kg


@pytest.fixture
def kg(shared: FederatedKG) -> FederatedKG:
    return shared.session()
