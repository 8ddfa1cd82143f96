"""Names of endpoints: full text where the engine has it, a label index made once, recognition, logins."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest
from rdflib.plugins.sparql import prepareQuery

from tests.support.opened import close_all
from tests.support.sparql_server import Asked, Scripted, SparqlServer, rows
from tests.tools.kg.conftest import EX, LABEL, PROFILE, facts
from triplewise.tools.core.addresses import login_headers, without_login
from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.core.files import kept_json
from triplewise.tools.kg import endpoint_index
from triplewise.tools.kg.dialects import FullText, full_texts
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.endpoint_index import UNFINISHED, index_endpoint
from triplewise.tools.kg.endpoint_names import full_text_of
from triplewise.tools.kg.infer import endpoint_profile
from triplewise.tools.kg.labels import LabelIndex
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Meter, Outcome
from triplewise.tools.linking.linker import link
from triplewise.tools.linking.search import search_kg

PEOPLE = "".join(
    f'<{EX}p{i}> <{LABEL}> "{name}"@en .\n<{EX}p{i}> <{EX}knows> <{EX}p{(i + 1) % 40}> .\n'
    for i, name in enumerate(f"{a} {b}" for a in ("Ada", "Bo", "Cleo", "Dag") for b in "ABCDEFGHIJ")
)


class StoreServer(SparqlServer):
    """An endpoint on loopback that answers from a store.

    `reply`: given a request, another reply than the store's, or None.
    """

    def __init__(self, graph: str, reply: Callable[[Asked], Scripted | None] = lambda asked: None) -> None:
        self.store, self.reply = ox.Store(), reply
        self.store.load(graph.encode(), format=ox.RdfFormat.N_TRIPLES)
        super().__init__([])

    def next_reply(self, asked: Asked) -> Scripted:
        """The results as SPARQL JSON."""
        if (other := self.reply(asked)) is not None:
            return other
        try:
            results = self.store.query(asked.parameters["query"][0])
        except SyntaxError as error:
            return Scripted(str(error), 400, content_type="text/plain")
        assert not isinstance(results, ox.QueryTriples)
        return Scripted((results.serialize(format=ox.QueryResultsFormat.JSON) or b"").decode())


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches and configuration of the test's own: ports come again."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    yield
    close_all()


@pytest.fixture(params=["oxigraph", pytest.param("virtuoso", marks=pytest.mark.virtuoso)])
def endpoint(request: pytest.FixtureRequest) -> Iterator[EndpointKG]:
    """The small KG of `conftest` behind an engine: with full text of its own, and without."""
    if request.param == "virtuoso":
        yield EndpointKG(request.getfixturevalue("virtuoso"), PROFILE)
    else:
        with StoreServer(facts()) as store:
            yield EndpointKG(store.url, PROFILE)


def test_names_are_found_as_people_write_them(endpoint: EndpointKG, tmp_path: Path) -> None:
    way = full_text_of(endpoint)
    assert way is not None
    assert way.name == ("virtuoso" if endpoint.shared._engine else "letters")

    def meant(text: str) -> list[str]:
        return [
            match.id.removeprefix(f"<{EX}").rstrip(">") for match in search_kg(endpoint, text, ["entity"])
        ]

    assert meant("White Fang") == meant("white fang") == meant("White Fangg") == ["fang"]
    assert meant("the call of the wild") == meant("Call of the Wild") == ["call"]
    assert meant("Yukon")[0] == "yukon"
    assert meant("Moby Dick") == []
    assert [e.id for e in link("Who wrote the call of the wild?", endpoint)] == [f"<{EX}call>"]
    endpoint.cache_dirs = (tmp_path / "cache",)
    report = index_endpoint(endpoint, pause=0)
    assert report.names == 10  # those in German and French are aliases
    endpoint.index = LabelIndex.on_disk(report.path)
    meter = Meter(endpoint.meter)
    entries = endpoint.index.search("Wite Fang")
    assert [(c.iri.value, c.kind) for c in entries] == [(f"{EX}fang", "fuzzy")]
    assert entries[0].entry.popularity == 5
    assert meter.queries == 0


@pytest.mark.parametrize("way", full_texts(), ids=lambda way: way.name)
def test_the_dialect_that_finds_a_known_label_is_used(way: FullText) -> None:
    """Engines that no package brings are played: they answer what is asked in their own words only."""
    own = {
        "jena": "jena.apache",
        "qlever": "qlever",
        "blazegraph": "bigdata.com/rdf/search",
    }
    mark = {**own, "virtuoso": "bif:contains", "wikidata": "SERVICE", "letters": "OFFSET"}[way.name]
    queries, asked_for = list[str](), list[str]()

    def reply(asked: Asked) -> Scripted:
        (sparql,) = asked.parameters["query"]
        queries.append(sparql)
        label = '{"type": "literal", "value": "Moby Dick"}'
        if "?by ?label WHERE { {" in sparql:  # the labels that it has
            cells = f'{{"by": {{"type": "uri", "value": "{LABEL}"}}, "label": {label}}}'
            return Scripted(f'{{"head": {{"vars": ["by", "label"]}}, "results": {{"bindings": [{cells}]}}}}')
        if mark not in sparql or mark == "OFFSET":
            return Scripted(rows())
        asked_for.append(sparql)
        return Scripted(
            f'{{"head": {{"vars": ["label"]}}, "results": {{"bindings": [{{"label": {label}}}]}}}}'
        )

    with StoreServer("", reply) as server:
        kg = EndpointKG(server.url.replace("/sparql", "/wikibase"), PROFILE)
        chosen = full_text_of(kg)
        assert chosen is not None
        assert chosen.name == way.name
        assert all("moby" in sparql and "dick" in sparql for sparql in asked_for)
        assert bool(asked_for) == (way.name != "letters")
        for sparql in queries:
            prepareQuery(sparql)
        user = f"SELECT * WHERE {{ SERVICE <{kg.url}> {{ ?s ?p ?o }} }}"
        assert kg.query(user).outcome is Outcome.SYNTAX


def test_an_endpoint_that_ignores_offset_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with StoreServer(PEOPLE) as server:
        kg = open_kg(server.url)
        assert isinstance(kg, EndpointKG)
        monkeypatch.setattr(endpoint_index, "PAGE", 4)
        query = EndpointKG.query
        ignores = lambda self, sparql, **more: query(self, re.sub(r"OFFSET \d+", "", sparql), **more)  # noqa: E731
        monkeypatch.setattr(EndpointKG, "query", ignores)
        with pytest.raises(KGUnavailableError, match="it ignores OFFSET"):
            index_endpoint(kg, pause=0)


def test_an_index_goes_on_where_it_was_broken_off_and_opens_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_index, "PAGE", 4)
    monkeypatch.setattr(endpoint_index, "LEAST_PAGE", 4)
    with StoreServer(PEOPLE) as server:
        kg = open_kg(server.url)
        assert isinstance(kg, EndpointKG)
        assert not kg.indexed
        pages = 0

        def broken(asked: Asked) -> Scripted | None:
            nonlocal pages
            pages += "GROUP BY ?node ?text" in asked.parameters["query"][0]
            return Scripted("out of memory", 400, content_type="text/plain") if pages > 5 else None

        server.reply = broken
        with pytest.raises(
            KGUnavailableError, match="20 names are read and kept: run the same command again"
        ):
            index_endpoint(kg, pause=0)
        server.reply, pages = lambda asked: None, 0
        first = len(server.asked)
        report = index_endpoint(kg, pause=0)
        read = [
            a.parameters["query"][0] for a in server.asked[first:] if "OFFSET" in a.parameters["query"][0]
        ]
        assert "OFFSET 20 " in read[0]
        assert (report.names, report.profile.label_predicates) == (40, (LABEL,))
        again = open_kg(server.url)
        assert isinstance(again, EndpointKG)
        assert again.indexed
        assert again.profile == report.profile
        assert again.names.search("Cloe D")[0].entry.label == "Cleo D"
        assert not (again.cache_dirs[0] / UNFINISHED).exists()
        other = open_kg(server.url, profile=Profile(label_predicates=(EX + "name",)))
        assert other.index is None  # its names are not those of this profile


@pytest.mark.parametrize("name", ["wikidata", "freebase", "dbpedia"])
def test_known_graphs_are_recognised_by_their_facts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = load_profile(name)
    node, relation = shape.entity_namespaces[0] + "Q1", shape.relation_namespaces[0] + "p1"
    engine = "".join(
        f'<http://www.openlinksw.com/x#{i}> <http://x.example/p> "{i}" .\n' for i in range(5_000)
    )
    graph = f'<{node}> <{shape.label_predicates[0]}> "A"@en .\n<{node}> <{relation}> <{node}> .\n'
    with StoreServer(engine + graph) as server:
        kg = open_kg(server.url)
        assert kg.profile.name == name
        assert endpoint_profile(kg) == name
        monkeypatch.setattr("triplewise.tools.kg.endpoint.LOOPBACK", ())  # what is far away is remembered
        close_all()
        assert open_kg(server.url).profile.name == name
        close_all()
        asked = len(server.asked)
        assert open_kg(server.url).profile.name == name
        assert len(server.asked) == asked


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    values = iter([None, "a", "b"])
    assert [kept_json([tmp_path / "new"], "x.json", 1, str, lambda: next(values)) for _ in range(3)] == [
        None,
        "a",
        "a",
    ]
    assert kept_json([tmp_path / "new"], "x.json", 0, str, lambda: next(values)) == "b"


@pytest.mark.parametrize("content", ["5", "[" * 100_000, '{"a": 1}', '["x", 5]', "", "\x00"])
def test_what_is_kept_of_another_kind_is_made_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    assert kept_json([tmp_path], "x.json", 1, list[str], lambda: ["new"]) == ["new"]
    assert json.loads((tmp_path / "x.json").read_text()) == ["new"]


def _basic(pair: str) -> str:
    return "Basic " + b64encode(pair.encode()).decode()


@pytest.mark.parametrize("source", ["url", "environment", "token"])
def test_a_login_comes_from_where_it_is_kept_and_is_shown_nowhere(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "Bearer s3cret" if source == "token" else _basic("me:s3cret")

    def guard(asked: Asked) -> Scripted | None:
        allowed = asked.headers.get("authorization") == wanted
        return None if allowed else Scripted("who are you?", 401, content_type="text/plain")

    with StoreServer(PEOPLE, guard) as server:
        port = server.url.split(":")[2].partition("/")[0]
        assert (
            open_kg(server.url).query("ASK { ?s ?p ?o }").message.startswith("the endpoint answered HTTP 401")
        )
        close_all()
        url = server.url
        match source:
            case "url":
                url = url.replace("//", "//me:s3cret@")
            case "environment":
                monkeypatch.setenv("TRIPLEWISE_127_0_0_1_USER", "me")
                monkeypatch.setenv("TRIPLEWISE_127_0_0_1_PASSWORD", "s3cret")
            case "token":
                monkeypatch.setenv(f"TRIPLEWISE_127_0_0_1_{port}_TOKEN", "s3cret")
        kg = open_kg(url)
        assert kg.query("ASK { ?s ?p ?o }").boolean
        assert kg.name == server.url == without_login(url)
        assert login_headers("http://elsewhere.example/sparql") == {}
        paths = [str(path) for path in tmp_path.rglob("*")]
        assert not any("s3cret" in path for path in paths)


def test_no_login_is_in_the_error_about_a_url() -> None:
    with pytest.raises(ConfigurationError) as raised:
        EndpointKG("ftp://me:s3cret@h.example/sparql", PROFILE)
    assert "s3cret" not in str(raised.value)
