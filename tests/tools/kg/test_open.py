import socket
import time
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.opened import close_all
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg import IRI, KnowledgeGraph, open as opening, open_kg, rdf
from triplewise.tools.kg.infer import endpoint_profile, infer_profile
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.kg.vocabulary import node_labels, relation_texts

COMPANY = """
@prefix i: <http://c.example/things/> . @prefix v: <http://c.example/words#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
v:worksIn a rdfs:Property ; rdfs:label "works in"@en .
v:Person a rdfs:Class .
i:e1 a v:Person ; rdfs:label "Ada Stone" ; v:worksIn i:d1 ; v:pay [ v:amount 7 ] .
i:e2 a v:Person ; rdfs:label "Bo Hill" ; v:worksIn i:d1 .
i:d1 a v:Unit ; rdfs:label "Research" .
i:m1 a v:Stay ; v:of i:e1 ; v:at i:d1 . i:m2 a v:Stay ; v:of i:e2 ; v:at i:d1 .
"""


@pytest.fixture
def company(tmp_path: Path) -> Path:
    path = tmp_path / "company.ttl"
    path.write_text(COMPANY)
    return path


def test_the_demo_opens_fast_and_knows_its_labels() -> None:
    close_all()
    start = time.process_time()
    kg = open_kg("demo")
    seconds = time.process_time() - start
    assert isinstance(kg, KnowledgeGraph)
    assert seconds < 2  # a quarter of a second on an idle machine
    assert kg.labels([IRI("http://www.wikidata.org/entity/Q1490")]) == {
        IRI("http://www.wikidata.org/entity/Q1490"): "Tokyo"
    }
    assert kg.index is not None
    assert kg.profile.short(kg.index.exact("Jack London")[0].iri) == "Q45765"


def test_the_same_graph_is_opened_once(company: Path) -> None:
    first = open_kg(company)
    assert open_kg(str(company)) is first
    assert open_kg(company, timeout=5) is not first
    company.write_text(COMPANY + "i:e3 a v:Person .\n")
    time.sleep(0.01)
    company.touch()
    assert open_kg(company) is not first


def test_a_graph_that_was_closed_is_opened_anew(company: Path) -> None:
    first = open_kg(company)
    assert isinstance(first, KnowledgeGraph)
    assert not first.closed
    first.close()
    assert first.closed
    second = open_kg(company)
    assert second is not first
    assert second.query("ASK { ?s ?p ?o }").boolean


def test_a_file_opens_in_memory_with_an_inferred_profile(company: Path) -> None:
    kg = open_kg(company)
    profile = kg.profile
    ada, unit = IRI("http://c.example/things/e1"), IRI("http://c.example/words#Unit")
    assert profile.label_predicates == ("http://www.w3.org/2000/01/rdf-schema#label",)
    assert (profile.short(ada), profile.short(unit)) == ("e1", "v:Unit")
    assert profile.unlabelled_is_mediator
    assert profile.is_mediator(IRI("http://c.example/things/m1"), None)
    assert not profile.is_mediator(ada, "Ada Stone")
    assert kg.index is not None
    assert [e.iri for e in kg.index.exact("ada stone")] == [ada]
    assert kg.index.exact("works in") == ()


def test_a_label_predicate_nobody_knows_is_found() -> None:
    store = ox.Store()
    rows = [
        f'<http://a/{i}> <http://a/displayName> "Person {i}" . <http://a/{i}> <http://a/city> "Rome" .'
        for i in range(20)
    ]
    store.load("\n".join(rows).encode(), format=ox.RdfFormat.TURTLE)
    assert infer_profile(store).label_predicates == ("http://a/displayName",)


def test_a_graph_without_labels_is_found_by_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("<http://a/JackLondon> <http://a/wrote> <http://a/White_Fang> .\n")
    index = open_kg(path).index
    assert index is not None
    assert [e.iri.value for e in index.exact("jack london")] == ["http://a/JackLondon"]
    assert [e.iri.value for e in index.exact("White Fang")] == ["http://a/White_Fang"]


WORDS = "@prefix x: <http://a/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"


def inferred(turtle: str) -> Profile:
    store = ox.Store()
    store.load((WORDS + turtle).encode(), format=ox.RdfFormat.TURTLE)
    return infer_profile(store)


def test_a_folder_of_files_opens_as_one_graph(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.ttl").write_text(WORDS + "x:oliveGreen1979 x:madeBy x:greatMotors .")
    (tmp_path / "more" / "b.nt").write_text(
        '<http://b/1> <http://www.w3.org/2000/01/rdf-schema#label> "Metre" .\n'
        "<http://b/1> <http://b/of> <http://b/2> .\n"
    )
    (tmp_path / "README.txt").write_text("no graph\n")
    kg = open_kg(tmp_path)
    assert kg.index is not None
    green, metre = IRI("http://a/oliveGreen1979"), IRI("http://b/1")
    assert [e.iri for e in kg.index.exact("Olive Green 1979")] == [green]
    assert [e.iri for e in kg.index.exact("metre")] == [metre]
    assert kg.labels([green, metre]) == {green: "Olive Green 1979", metre: "Metre"}
    assert load_kg([tmp_path], tmp_path / "kg").triples == 3
    (tmp_path / "c.ttl").write_text(WORDS + "x:blueBird x:madeBy x:greatMotors .")
    assert open_kg(tmp_path) is not kg


def test_a_whole_disk_or_too_little_memory_is_refused(company: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf, "MOST_PATHS", 5)
    for number in range(6):
        (company.parent / f"{number}.dat").touch()
    with pytest.raises(DataError, match="more than 5 files and folders"):
        open_kg(company.parent)
    monkeypatch.setattr("resource.getrlimit", lambda _: (700 * 2**20, -1))
    with pytest.raises(ConfigurationError, match=r"no more than 700 MiB.*ulimit -v 1310720"):
        open_kg(company)


@pytest.mark.parametrize(
    ("node", "relation", "profile"),
    [
        ("http://www.wikidata.org/entity/Q{}", "http://www.wikidata.org/prop/direct/P31", "wikidata"),
        ("http://rdf.freebase.com/ns/m.0{}", "http://rdf.freebase.com/ns/film.film.genre", "freebase"),
        ("http://dbpedia.org/resource/Film_{}", "http://dbpedia.org/ontology/genre", "dbpedia"),
        ("http://a/film{}", "http://dbpedia.org/ontology/genre", "generic"),
    ],
)
def test_a_graph_of_a_known_shape_is_recognised_by_its_data(node: str, relation: str, profile: str) -> None:
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    facts = "".join(
        f'<{node.format(i)}> <{relation}> <{node.format(0)}> ; <{label}> "Film {i}"@en .\n' for i in range(9)
    )
    assert inferred(facts).name == profile
    store = ox.Store()
    store.load(facts.encode(), format=ox.RdfFormat.TURTLE)
    assert endpoint_profile(LocalKG(store, load_profile("generic"), "endpoint")) == profile


def test_label_predicates_are_called_a_name_and_hold_words() -> None:
    tools = "".join(
        f'x:p{i} x:projectName "Tool number {i}" ; x:commonsCategory "Tools {i}" ; x:fileName "tool{i}.c" ; '
        f'x:trackerName "T-{i}" ; x:nickName "the {i}th one" ; x:by x:m .\n'
        for i in range(9)
    )
    foaf = 'x:m <http://xmlns.com/foaf/0.1/name> "Ada Stone" ; x:familyName "Stone" .'
    profile = inferred(tools + foaf)
    assert profile.label_predicates == ("http://xmlns.com/foaf/0.1/name", "http://a/projectName")
    assert profile.alias_predicates == ("http://a/nickName",)
    assert profile.entity_text == "label"


def test_labels_in_one_other_language_are_read_in_it() -> None:
    german = "".join(f'x:{i} rdfs:label "Einheit {i}"@de ; x:p x:0 .\n' for i in range(9))
    both = german.replace("@de", '@de , "a unit"@en')
    assert (inferred(german).language, inferred(both).language) == ("de", "en")


def test_comments_domains_and_ranges_help_relations_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ttl"
    path.write_text(
        WORDS + "x:p rdfs:domain x:MotorCar ; rdfs:range x:Maker ; rdfs:comment 'who built the car' ."
        "x:q rdfs:domain x:A , x:B . x:Maker rdfs:label 'manufacturer' . x:fiatPanda x:p x:fiat ; x:q 1 ."
    )
    texts = relation_texts(open_kg(path), ["p", "q"])
    text = texts["p"]
    assert (text.label, text.subject_type, text.object_type) == ("p", "motor car", "manufacturer")
    assert text.description == "who built the car"
    assert texts["q"].subject_type == ""  # a domain of two classes says neither


def test_a_changed_profile_names_the_nodes_of_a_loaded_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.ttl").write_text(WORDS + 'x:1 rdfs:label "Rot" ; x:code "R 1" ; x:next x:2 .')
    folder = load_kg([tmp_path / "a.ttl"], tmp_path / "kg").path

    def named(name: str, profile: Path | None = None) -> int:
        index = open_kg(folder, profile=profile).index
        assert index is not None
        return len(index.exact(name))

    assert (named("Rot"), named("R 1")) == (1, 0)
    by_label, by_code = "- http://www.w3.org/2000/01/rdf-schema#label", "- http://a/code"
    changed = load_profile(folder / "profile.yaml").yaml().replace(by_label, by_code)
    (tmp_path / "mine.yaml").write_text(changed)
    assert (named("Rot", tmp_path / "mine.yaml"), named("R 1", tmp_path / "mine.yaml")) == (0, 1)
    (folder / "profile.yaml").write_text(changed)
    assert (named("Rot"), named("R 1")) == (0, 1)
    monkeypatch.setattr(opening, "REINDEXED", 0)
    close_all()
    assert (named("Rot"), named("R 1")) == (1, 0)
    assert "triplewise kg load" in caplog.text


def test_what_is_no_graph_is_told(tmp_path: Path, company: Path) -> None:
    with pytest.raises(DataError, match="no such knowledge graph; give 'demo'"):
        open_kg(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"htp://foo; it begins with http"):
        open_kg("htp://foo")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no store of triplewise .*triplewise kg load"):
        open_kg(tmp_path / "empty")
    with pytest.raises(ConfigurationError, match="unknown profile"):
        open_kg(company, profile="wiki")
    (tmp_path / "bad.nt").write_text("<http://a/b> oops\n")
    with pytest.raises(DataError, match=r"bad\.nt:1: "):
        open_kg(tmp_path / "bad.nt")
    load_kg([company], tmp_path / "kg")
    (tmp_path / "kg" / "manifest.json").unlink()
    with pytest.raises(DataError, match="no store of triplewise"):
        open_kg(tmp_path / "kg")


def test_a_large_file_is_loaded_once_into_the_cache(
    company: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(opening, "MEMORY_BYTES", 10)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    kg = open_kg(company, limit=77)
    (folder,) = (p for p in (tmp_path / "cache" / "triplewise" / "kg").iterdir() if p.name[0] != ".")
    made = (folder / "manifest.json").stat().st_mtime_ns
    close_all()
    again = open_kg(company, limit=77)
    assert again is not kg
    assert (folder / "manifest.json").stat().st_mtime_ns == made
    close_all()
    for table in (folder / "store").glob("*.sst"):
        table.write_bytes(b"")
    assert open_kg(company, limit=77).query("SELECT * { ?s ?p ?o }").rows
    assert (folder / "manifest.json").stat().st_mtime_ns != made
    close_all()


def test_an_endpoint_gets_the_profile_its_address_tells() -> None:
    assert open_kg("https://query.wikidata.org/sparql").profile.name == "wikidata"
    assert open_kg("http://127.0.0.1:9/sparql").profile.name == "generic"
    assert open_kg("http://127.0.0.1:9/sparql", profile="freebase").profile.name == "freebase"


def test_a_blank_node_reads_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("@prefix e: <http://e/> . e:a e:at [ e:town e:b ] .")
    kg = open_kg(tmp_path / "a.ttl")
    (node,) = kg.query("SELECT ?o { <http://e/a> <http://e/at> ?o }").column("o")
    assert node_labels(kg, [node], exact=False)[node].startswith("_:")
    assert node_labels(kg, [node])[node] == kg.profile.short(node)


def test_opening_an_endpoint_that_hangs_ends_with_the_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        kg = open_kg(f"http://127.0.0.1:{silent.getsockname()[1]}/sparql", deadline=Deadline(0.5))
        assert time.monotonic() - start < opening.FIRST_LOOK / 2
        kg.close()
