import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.kg import KnowledgeGraph, Outcome, Result, open_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.linking.linker import LinkedEntity, candidate_nodes, link, without_brackets
from triplewise.tools.retrieval.encoder import Encoder

FILMS = """
It|directed_by|Andy Muschietti
It|has_tags|clown
Up|directed_by|Pete Docter
Her|directed_by|Spike Jonze
$|starred_actors|Goldie Hawn
$|has_tags|bd-r
1999|directed_by|Somebody Else
Who's That Girl|starred_actors|Madonna
Some Mother's Son|directed_by|Terry George
Mother|directed_by|Albert Brooks
Changeling|directed_by|Clint Eastwood
The Changeling|directed_by|Peter Medak
Cast Away|starred_actors|Tom Hanks
Big|starred_actors|Tom Hanks
Big|has_tags|tom hanks
Big|has_tags|director
Catch Me If You Can|starred_actors|Tom Hanks
Eaten Alive|has_genre|Horror
Eaten Alive!|has_genre|Horror
Paris, Texas|directed_by|Wim Wenders
"""


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("films") / "kb.txt"
    path.write_text(FILMS)
    return open_kg(path, profile="metaqa")


def ids(found: Sequence[LinkedEntity]) -> list[str]:
    return [entity.id for entity in found]


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        ("who directed It", "It"),
        ("what movies can be described by tom hanks", "tom hanks"),
        ("which films are tagged bd-r", "bd-r"),
        ("who acted in $", "$"),
        ("the director of 1999 also directed which movies", "1999"),
        ("who are the actors in Who's That Girl", "Who's That Girl"),
        ("what are the films that share directors with Some Mother's Son", "Some Mother's Son"),
        ("who are the movies directed by the Changeling director", "Changeling"),
        ("what genre is Eaten Alive!", "Eaten Alive!"),
        ("what genre is Eaten Alive", "Eaten Alive"),
        ("who directed Paris, Texas", "Paris, Texas"),
        ("who starred in catch me if you can", "Catch Me If You Can"),
        ("What movies did Tom Hnaks star in?", "Tom Hanks"),
    ],
)
def test_the_one_entity_of_a_question(films: KnowledgeGraph, question: str, entity: str) -> None:
    assert ids(link(question, films)) == [entity]


def test_brackets_are_linked_whole_and_alone(films: KnowledgeGraph) -> None:
    question = "does Tom Hanks star in [Some Mother's Son]"
    (only,) = link(question, films)
    assert only.id == "Some Mother's Son"
    assert question[only.start : only.end] == only.mention == "Some Mother's Son"
    assert ids(link("who starred in [$]", films)) == ["$"]
    assert without_brackets(question) == "does Tom Hanks star in Some Mother's Son"


def test_quoted_names_win_and_others_are_linked_too(films: KnowledgeGraph) -> None:
    assert ids(link('Did Tom Hanks star in "It"?', films)) == ["It", "Tom Hanks"]
    assert ids(link('who directed "big"', films)) == ["Big"]


def test_given_entities_are_taken_as_they_are(films: KnowledgeGraph) -> None:
    (only,) = link("who directed that clown film", films, {"that clown film": "It"})
    assert (only.id, only.label, only.score, only.candidates[0].kind) == ("It", "It", 1.0, "given")
    assert (only.start, only.end) == (13, 28)
    (linked,) = link("films of T. Hanks", films, {"Tom Hanks": None})
    assert (linked.id, linked.start) == ("Tom Hanks", -1)


def test_given_entities_that_do_not_exist_name_near_ones(films: KnowledgeGraph) -> None:
    with pytest.raises(ConfigurationError, match=r"no entity 'Tom Hank'; near ones: Tom Hanks"):
        link("films of Tom Hank", films, {"Tom Hank": "Tom Hank"})
    with pytest.raises(ConfigurationError, match=r"nothing in .* is called 'Zorba'"):
        link("films of Zorba", films, {"Zorba": None})


PLACES = """
@prefix a: <http://a/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix d: <http://schema.org/> .
a:state rdfs:label "Georgia" ; d:description "state of the United States" ; a:in a:usa ; a:near a:z .
a:land rdfs:label "Georgia" ; d:description "country in the Caucasus" ; a:in a:asia ; a:near a:x, a:y .
a:goethe rdfs:label "Johann Wolfgang von Goethe" ; a:wrote a:faust .
a:unused rdfs:label "Goethe" .
a:lower rdfs:label "polonium" ; a:is a:element .
a:marie rdfs:label "Marie Curie" ; a:found a:lower .
"""


def places(indexed: bool, tmp_path: Path) -> KnowledgeGraph:
    path = tmp_path / "places.ttl"
    path.write_text(PLACES)
    kg = open_kg(path)
    if indexed:
        return kg
    store = ox.Store()
    store.load(PLACES.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, kg.profile, "no index")


class Reader(Encoder):
    """Compares texts by the words they share."""

    def __init__(self) -> None:
        super().__init__("words", 0)

    def encode(self, texts: Sequence[str]) -> Any:
        bags = [set(re.findall(r"\w+", text.lower())) for text in texts]
        words = sorted(set().union(*bags))
        rows = np.array([[float(word in bag) for word in words] for bag in bags], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_popularity_then_context_choose_among_nodes_of_one_name(tmp_path: Path) -> None:
    kg = places(True, tmp_path)
    assert ids(link("What is the capital of Georgia?", kg)) == ["land"]
    question = "Who governs the state of Georgia of the United States?"
    (found,) = link(question, kg, encoder=Reader())
    assert found.id == "state"
    assert [c.id for c in found.candidates] == ["state", "land"]


def test_part_of_a_name_is_enough_where_no_known_node_has_it_in_full(tmp_path: Path) -> None:
    assert ids(link("Who was Goethe's partner?", places(True, tmp_path))) == ["goethe"]


def test_without_an_index_one_query_finds_exact_labels(tmp_path: Path) -> None:
    kg = places(False, tmp_path)
    assert kg.index is None
    assert ids(link("Did Marie Curie discover polonium?", kg)) == ["marie", "lower"]
    assert ids(link("what is the capital of georgia", kg)) == ["land"]
    assert ids(link("where is [Georgia]", kg)) == ["land"]


def test_a_graph_that_does_not_answer_is_not_taken_for_one_that_knows_no_such_entity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "Did Marie Curie discover polonium?"
    kg = places(False, tmp_path)
    late = Result(Outcome.TIMEOUT, message="no answer within 30 s")
    monkeypatch.setattr(kg, "query", lambda sparql: late)
    with pytest.raises(KGUnavailableError, match=r"\(timeout\): no answer within 30 s; give the question"):
        link(question, kg)
    monkeypatch.undo()
    kg.close()
    with pytest.raises(KGUnavailableError, match="was closed: open it again"):
        link(question, kg)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_question_breaks_the_linker(question: str) -> None:
    names = SimpleNamespace(kg=open_kg("demo"))
    for entity in link(question, names.kg):
        assert entity.candidates
        assert question[entity.start : entity.end] == entity.mention


@pytest.mark.parametrize(
    ("question", "mention"), [("Where was Goethe born?", "Q5879"), ("Who was he?", "Q5879")]
)
def test_a_topic_given_by_its_id_alone_is_that_node(question: str, mention: str) -> None:
    (entity,) = link(question, open_kg("demo"), {mention: None})
    assert (entity.id, entity.label) == ("Q5879", "Johann Wolfgang von Goethe")


def test_a_number_belongs_to_its_name(tmp_path: Path) -> None:
    path = tmp_path / "cars.txt"
    path.write_text("Corolla 1975|weight|2171\nCorolla 1977|weight|2265\n")
    kg = open_kg(str(path))
    assert [e.label for e in link("weight of the Corolla 1975", kg)] == ["Corolla 1975"]
    assert not link("weight of the Corolla 1973", kg)


def test_an_ordinal_and_the_world_are_no_entities() -> None:
    kg = open_kg("demo")
    labels = {e.label for e in link("What is the second largest country in the world?", kg)}
    assert labels <= {"country"}


def test_a_thing_is_found_by_its_name_in_the_language_of_the_question(tmp_path: Path) -> None:
    path = tmp_path / "units.ttl"
    path.write_text(
        "@prefix : <http://u.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':m rdfs:label "metre"@en, "Meter"@de, "metro"@es ; :symbol "m" .\n'
        ':s rdfs:label "second"@en, "Sekunde"@de, "segundo"@es ; :symbol "s" .\n'
    )
    kg = open_kg(str(path))
    for question in ("Was ist das Symbol der Sekunde?", "¿Cuál es el símbolo del segundo?"):
        assert [e.label for e in link(question, kg)] == ["second"]


def test_a_class_is_no_entity_while_there_is_another(tmp_path: Path) -> None:
    path = tmp_path / "places.ttl"
    path.write_text(
        "@prefix : <http://p.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':City rdfs:label "city" . :m rdfs:label "mountain" .\n'
        ':a a :City ; rdfs:label "Ash" ; :near :b, :m .\n'
        ':b a :City ; rdfs:label "Mountain View" ; :near :m, :City .\n'
    )
    kg = open_kg(str(path))
    assert [e.label for e in link("which city is near Ash", kg)] == ["Ash"]
    assert [node.value for node in candidate_nodes("which city is near Ash", kg)] == ["http://p.example/a"]


def test_a_far_better_known_node_of_a_longer_name_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "faiths.ttl"
    path.write_text(
        "@prefix : <http://f.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':region rdfs:label "Morva" ; :near :b . :village rdfs:label "Morva" .\n'
        ':republic rdfs:label "Republic of Morva" . \n'
        ':film rdfs:label "2012" . :fair rdfs:label "Fair of 2012" .\n'
        + "".join(f":p{i} :citizenOf :republic ; :visited :fair .\n" for i in range(40))
    )
    kg = open_kg(str(path))
    (found,) = link("Who lives in Morva?", kg)
    assert [c.id for c in found.candidates] == ["republic", "region"], "the village has no facts"
    assert [e.id for e in link("Who lived in Morva in 2012?", kg)] == ["republic", "film"], "years are none"
