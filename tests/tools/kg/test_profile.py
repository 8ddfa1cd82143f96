from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.terms import IRI, text
from triplewise.tools.kg.profile import RelationText, load_profile, profile_names, split_words

WD = "http://www.wikidata.org/"
FB = "http://rdf.freebase.com/ns/"

SPACES = [
    *(
        f"{WD}{part}"
        for part in ("entity/", "entity/statement/", "prop/", "prop/direct/", "prop/qualifier/value/")
    ),
    FB,
    "http://dbpedia.org/resource/",
    "http://dbpedia.org/resource/Category:",
    "http://dbpedia.org/ontology/",
    "urn:metaqa:entity:",
    "urn:metaqa:relation:",
    "http://www.w3.org/2000/01/rdf-schema#",
    "https://elsewhere.example/a#",
]
LOCALS = st.one_of(
    st.sampled_from(
        ["Q42", "P19", "L1-S1", "m.0f8l9c", "people.person.age", "directed_by", "Jack_London", "rdf:x"]
    ),
    st.text(st.characters(exclude_characters='<>"{}|^`\\', exclude_categories=["C", "Z"]), max_size=12),
)


@given(st.sampled_from(profile_names()), st.sampled_from(SPACES), LOCALS, st.booleans())
def test_short_forms_round_trip_for_any_iri(name: str, space: str, local: str, relation: bool) -> None:
    profile = load_profile(name)
    iri = IRI(space + local)
    form = profile.short(iri)
    own = space in profile.relation_namespaces and space not in profile.entity_namespaces
    assert profile.expand(form, relation=own) == iri
    # The packaged profiles are unambiguous even where the caller does not know the position.
    if name != "names":
        assert profile.expand(form, relation) == iri


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool))
def test_names_round_trip_through_ids(name: str) -> None:
    profile = load_profile("metaqa")
    iri = profile.name_iri(name)
    assert profile.expand(profile.short(iri)) == iri
    assert unquote(iri.value.removeprefix(profile.entity_namespaces[0])) == name


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("entity/Q42", "Q42"),
        ("prop/direct/P19", "P19"),
        ("entity/P19", "wd:P19"),
        ("prop/P19", "p:P19"),
        ("prop/statement/P19", "ps:P19"),
        ("prop/qualifier/P19", "pq:P19"),
        ("entity/statement/Q1-ab", "wds:Q1-ab"),
    ],
)
def test_wikidata_forms_are_distinct(path: str, form: str) -> None:
    assert load_profile("wikidata").short(IRI(WD + path)) == form


def test_names_that_look_like_something_else_get_a_prefix() -> None:
    profile = load_profile("metaqa")
    assert profile.short(profile.name_iri("directed_by")) == "e:directed_by"
    assert profile.short(profile.name_iri("?who")) == "e:?who"
    assert profile.short(profile.name_iri("directed_by", relation=True)) == "directed_by"


def test_relations_read_as_words() -> None:
    freebase, wikidata, metaqa = map(load_profile, ("freebase", "wikidata", "metaqa"))
    assert freebase.relation_label(IRI(FB + "people.person.place_of_birth")).label == "person place of birth"
    assert freebase.relation_label(IRI(FB + "film.film.film_genre")).label == "film genre"
    assert wikidata.relation_label(IRI(WD + "prop/direct/P19"), "place of birth").label == "place of birth"
    assert wikidata.relation_label(IRI(WD + "prop/qualifier/P585"), "point in time").label == (
        "point in time (qualifier)"
    )
    directed = metaqa.relation_label(metaqa.name_iri("directed_by", relation=True))
    assert (directed.inverse, directed.object_type) == ("films the person directed", "director")
    assert split_words("placeOfBirth") == "place of birth"
    assert split_words("hasIMDBRating") == "has IMDB rating"


def test_mediators_and_exclusions() -> None:
    wikidata, freebase = load_profile("wikidata"), load_profile("freebase")
    assert wikidata.is_mediator(IRI(WD + "entity/statement/Q1-a"), None)
    assert not wikidata.is_mediator(IRI(WD + "entity/Q1"), None)
    assert freebase.is_mediator(IRI(FB + "m.0abc"), None)
    assert not freebase.is_mediator(IRI(FB + "m.0abc"), "Somebody")
    assert not freebase.is_mediator(IRI(FB + "people.person"), None)
    assert not freebase.is_mediator(text("1999"), None)
    assert freebase.excludes(IRI(FB + "type.object.name"))
    assert not freebase.excludes(IRI(FB + "people.person.age"))


def test_unknown_profile_lists_the_legal_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'wikdata'.*dbpedia.*wikidata"):
        load_profile("wikdata")
    with pytest.raises(ConfigurationError, match="unknown profile"):
        load_profile("x" * 5_000)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (
            "name: x\nlable_predicates: []\n",
            2,
            "lable_predicates: unknown key; did you mean 'label_pre",
        ),
        ("name: x\n\nlabel_predicates: rdfs\n", 3, "label_predicates: .* valid tuple"),
        ("mediator_patterns: ['(']\n", 1, "key 'mediator_patterns': .* not a regular expression"),
        ("relation_text: dots\n", 1, "relation_text: .*'label', 'dotted' or 'local'"),
        ("unlabelled_is_mediator: maybe\n", 1, "valid boolean"),
        ("relations:\n  p: {lable: x}\n", 2, "relations.p.lable: unknown key"),
        ("name: [\n", 2, "not YAML"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, content: str, line: int, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        load_profile(path)
    assert caught.value.path == path
    assert caught.value.line == line


def test_a_profile_is_written_out_edited_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for name in profile_names():
        profile = load_profile(name)
        profile.dump(path)
        assert load_profile(path) == profile
    path.write_text("extends: wikidata\nname: ours\nrelations:\n  P19: born in\n")
    ours = load_profile(path)
    assert (ours.name, ours.short(IRI(WD + "entity/Q1"))) == ("ours", "Q1")
    assert ours.relation_label(IRI(WD + "prop/direct/P19")) == RelationText("born in")
