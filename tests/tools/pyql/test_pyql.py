"""What a program means, refuses, and reads and writes."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Triple, Variable, text
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.pyql.program import PyQL

EX = "http://example.org/"
PROFILE = Profile(
    entity_namespaces=(EX,),
    relation_namespaces=(EX,),
    subclass_predicates=("http://www.w3.org/2000/01/rdf-schema#subClassOf",),
    prefixes={"ex": EX},
)
TURTLE = """
@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:iselle :category :storm ; :formed "2014-07-31-08:00"^^xsd:date ; :wind 140 ; a :Hurricane .
:arlene :category :storm ; :formed "2005"^^xsd:gYear ; :wind 70.0 ; a :Storm .
:lee :category :storm ; :formed "2014-07-31T00:00:00Z"^^xsd:dateTime ; :wind 140.0 .
:bret :category :storm ; :formed "1981-11-08:00"^^xsd:gYearMonth ; :wind "9"^^xsd:int ; :name "Bret"@en .
:Hurricane rdfs:subClassOf :Storm .
:ann :child :c1, :c2 ; :code "5" . :bob :child :c3 ; :code "7", "none" .
:bret rdfs:label "Bret"@en . :lee rdfs:label "Hurricane Lee"@en .
"""


@pytest.fixture
def kg() -> LocalKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, PROFILE, "storms")


def program(script: str) -> PyQL:
    return PyQL.parse(script.replace("; ", "\n"), PROFILE)


def answers(kg: LocalKG, script: str) -> set[str]:
    result = kg.query(program(script).sparql(PROFILE))
    assert result.outcome.ok, result.message
    if result.boolean is not None:
        return {str(result.boolean)}
    return {PROFILE.short(value) for row in result.rows for value in row if value is not None}


STORM = "add_fact(?s, category, storm); "
WIND = STORM + "add_fact(?s, wind, ?w); "
FORMED = STORM + "add_fact(?s, formed, ?d); "


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        # Ties are kept, whatever the datatypes of the equal values.
        (WIND + "add_max(?w); set_answer(?s)", {"iselle", "lee"}),
        # Dates of four datatypes and precisions are compared as dates.
        (FORMED + "add_max(?d, date); set_answer(?s)", {"iselle", "lee"}),
        (FORMED + "add_filter(?d, >, 2005, date); set_answer(?s)", {"iselle", "lee"}),
        (FORMED + "add_filter(?d, =, 2014-07, date); set_answer(?s)", {"iselle", "lee"}),
        (FORMED + "add_filter(?d, <=, 2005, date); set_answer(?s)", {"arlene", "bret"}),
        (STORM + "add_fact(?s, name, ?n); add_filter(?n, starts_with, bret); set_answer(?s)", {"bret"}),
        (STORM + 'add_fact(?s, name, ?n); add_filter(?n, =, "Bret", text); set_answer(?s)', {"bret"}),
        (STORM + "add_type(?s, Storm); set_answer(?s)", {"iselle", "arlene"}),
        (STORM + "add_not(?s, a, Storm); set_answer(?s)", {"lee", "bret"}),
        (STORM + "add_filter(?s, !=, lee); add_count(?s); set_answer(?count)", {"3"}),
        (STORM + "add_filter(?s, =, storm); add_count(?s); set_answer(?count)", {"0"}),
        (WIND + "add_order(?w, desc, 2); set_answer(?s)", {"iselle", "lee"}),
        ("add_fact(?p, child, ?c); add_most(?c, ?p); set_answer(?p)", {"ann"}),
        ("add_fact(?p, child, ?c); add_least(?c, ?p); set_answer(?p)", {"bob"}),
        ("add_fact(?p, child, ?c); add_group(?c, ?p, ?n); add_filter(?n, <, 2); set_answer(?p)", {"bob"}),
        (
            "add_union((?x, child, c3), (?x, name, ?n) & (?x, wind, ?w) & (?w, <, 10)); set_answer(?x)",
            {"bob", "bret"},
        ),
        ("ask(); add_fact(bob, child, c3)", {"True"}),
        ("add_fact(bob, child, c1)", {"False"}),
        # A branch may compare what is bound before the union.
        (STORM + "add_union((?s, =, lee), (?s, =, bret)); set_answer(?s)", {"lee", "bret"}),
        (WIND + "add_union((?s, =, lee), (?s, name, ?n) & (?w, <, 10)); set_answer(?s)", {"lee", "bret"}),
        (STORM + "add_union((?s, =, lee), (bob, child, c3)); set_answer(?s)",
         {"iselle", "arlene", "lee", "bret"}),
        # An alternative may only name a node, alone or before what follows from it.
        ("add_union((?s, =, lee)); add_fact(?s, category, ?c); set_answer(?c)", {"storm"}),
        ("add_union((?x, =, lee), (?x, child, c3)); set_answer(?x)", {"lee", "bob"}),
        ("add_union((?s, =, lee) & (?s, category, ?x), (?x, child, c3)); set_answer(?x)", {"storm", "bob"}),
        ('add_union((?n, =, "5"), (?n, =, "7")); add_fact(?p, code, ?n); set_answer(?p)', {"ann", "bob"}),
        # A superlative, a count or alternatives inside a negation are computed by themselves.
        (STORM + "add_not((?s, wind, ?w) & (max, ?w)); set_answer(?s)", {"arlene", "bret"}),
        (STORM + "add_not((?s, a, Storm) & (union, (?s, =, iselle), (?s, name, ?n))); set_answer(?s)",
         {"arlene", "lee", "bret"}),
        ("add_fact(?p, code, ?k); add_not((?p, child, ?c) & (count, ?c, ?p, ?n) & (?n, >, 1)); "
         "set_answer(?p)", {"bob"}),
        # Nodes are compared with text by their names.
        ('add_fact(?s, wind, ?w); add_filter(?s, =, "BRET", name); set_answer(?s)', {"bret"}),
        ('add_fact(?s, wind, ?w); add_filter(?s, !=, "bret", name); set_answer(?s)',
         {"iselle", "arlene", "lee"}),
        ('add_fact(?s, wind, ?w); add_filter(?s, starts_with, "Hurricane l", name); set_answer(?s)', {"lee"}),
        ('add_fact(?s, wind, ?w); add_not((?s, wind, ?v) & (?s, contains, "e", name)); set_answer(?s)',
         {"iselle", "arlene"}),
        # Two storms have the same wind, and both count.
        (WIND + "add_aggregate(sum, ?w, ?n); set_answer(?n)", {"359"}),
        (WIND + "add_aggregate(average, ?w, ?n); add_filter(?w, >, ?n); set_answer(?s)", {"iselle", "lee"}),
        ("add_fact(?p, code, ?c); add_aggregate(sum, ?c, ?n, number); set_answer(?n)", {"12"}),
        (
            "add_fact(ann, child, ?a); add_count(?a, ?n); add_fact(bret, child, ?b); add_count(?b, ?m); "
            "add_filter(?n, >, ?m); ask()",
            {"True"},
        ),
    ],
)  # fmt: skip
def test_answers(kg: LocalKG, script: str, expected: set[str]) -> None:
    assert answers(kg, script) == expected


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("answer_before_fact", "set_answer(?x)"),
        ("bad_comparison", WIND + "add_aggregate(median, ?w, ?n)"),
        ("bad_comparison", STORM + "add_filter(?s, <, 5)"),
        ("bad_comparison", STORM + "add_filter(lee, =, arlene)"),
        ("bad_date", FORMED + "add_filter(?d, >, 2014-02-30)"),
        ("bad_number", STORM + "add_order(?s, desc, many)"),
        ("bad_object", "add_fact(?s, category, <no iri>)"),
        ("bad_operator", STORM + "add_filter(?s, ~, lee)"),
        ("bad_pattern", STORM + "add_not(?s, category)"),
        ("bad_relation", "add_fact(?s, ?r, storm)"),
        ("bad_subject", 'add_fact("x", category, ?y)'),
        ("bad_subject", STORM + "add_count(?s); add_fact(?count, category, ?y)"),
        ("bad_type", STORM + 'add_type(?s, "Storm")'),
        ("bad_variable", "add_fact(?release year, category, ?x)"),
        ("bad_variable", STORM + "add_not(?s, name, ?n); add_fact(?s, name, ?n)"),
        ("count_output_not_variable", STORM + "add_count(?s, ?s)"),
        ("count_output_not_variable", STORM + "add_count(?s, n)"),
        ("filter_before_fact", "add_filter(?s, =, lee)"),
        ("filter_before_fact", "add_count(?s)"),
        ("max_not_variable", STORM + "add_max(wind)"),
        ("relation_as_operator", STORM + "add_filter(?s, category, lee)"),
        ("subject_equals_object", "add_fact(?s, category, ?s)"),
        ("unknown_variable", STORM + "add_max(?w)"),
        ("unknown_variable", STORM + 'set_answer("yes")'),
        ("unknown_variable", STORM + "add_union((?s, name, ?n) & (?w, >, 5), (?s, name, ?n))"),
        ("unknown_variable", STORM + "add_union((?s, name, ?n) & (?w, =, lee), (?s, name, ?n))"),
    ],
)  # fmt: skip
def test_mistakes_are_named(code: str, script: str) -> None:
    with pytest.raises(ActionError) as caught:
        program(script)
    assert caught.value.code == code
    assert caught.value.message


def test_a_bare_number_is_no_node_unless_ids_are_numbers() -> None:
    with pytest.raises(ActionError, match="add_filter") as caught:
        PyQL.parse("add_fact(?x, P1, 1.0)", load_profile("wikidata"))
    assert caught.value.code == "bare_number_node"
    typed = PyQL.parse('add_fact(?x, P1, "1.0"^^xsd:float)', load_profile("wikidata"))
    assert typed.facts()[0].object == Literal("1.0", XSD + "float")


def test_undo_takes_back_one_line_after_the_other() -> None:
    built = program(WIND + "add_fact(bob, child, c3); add_order(?w, asc, 2); set_answer(?s)")
    texts = []
    while built.clauses:
        built = built.undo()
        texts.append(built.text(PROFILE).replace("\n", "; "))
    facts = WIND + "add_fact(bob, child, c3); "
    assert texts == [
        f"{facts}add_order(?w, asc, 2); ask()",
        f"{facts}ask()",
        WIND.removesuffix("; "),
        STORM.removesuffix("; "),
        "",
    ]
    with pytest.raises(ActionError, match="nothing to take back"):
        built.undo()


def test_execute_needs_an_answer() -> None:
    with pytest.raises(ActionError) as caught:
        program(STORM).check_complete()
    assert caught.value.code == "execute_before_answer"
    with pytest.raises(ActionError) as caught:
        PyQL().ask().check_complete()
    assert caught.value.code == "execute_before_fact"


def test_sparql_is_what_a_person_would_write() -> None:
    wikidata = load_profile("wikidata")
    script = "add_fact(Q1490, P36, ?capital)\nadd_type(?capital, Q515)\nset_answer(?capital)"
    assert PyQL.parse(script, wikidata).sparql(wikidata) == (
        "PREFIX wd: <http://www.wikidata.org/entity/>\n"
        "PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
        "SELECT DISTINCT ?capital WHERE {\n"
        "  wd:Q1490 wdt:P36 ?capital .\n"
        "  ?capital wdt:P31/wdt:P279* wd:Q515 .\n"
        "}\n"
    )


def test_names_with_commas_and_brackets_survive_text() -> None:
    metaqa = load_profile("metaqa")
    film = metaqa.name_iri("The Good, the Bad (Vol. 1)")
    relation = metaqa.expand("directed_by", relation=True)
    assert relation is not None
    built = PyQL().add_fact(film, relation, Variable("x")).add_filter(Variable("x"), "!=", text('a "b", c)'))
    assert PyQL.parse(built.text(metaqa), metaqa) == built


def test_the_proof_names_the_branch_and_the_type_that_hold(kg: LocalKG) -> None:
    script = "add_union((?x, child, c3), (?x, category, storm)); add_type(?x, Storm); set_answer(?x)"
    built = program(script)
    proof = built.prove(kg, [IRI(EX + "iselle")], 10)
    kind = IRI("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    assert set(proof) == {
        Triple(IRI(EX + "iselle"), IRI(EX + "category"), IRI(EX + "storm")),
        Triple(IRI(EX + "iselle"), kind, IRI(EX + "Hurricane")),
    }


YEARS = """
@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:year44 :at "1944"^^xsd:gYear . :year45 :at "1945"^^xsd:gYear . :year46 :at "1946Z"^^xsd:gYear .
:month45 :at "1945-05"^^xsd:gYearMonth . :first45 :at "1945-01-01"^^xsd:date .
:last45 :at "1945-12-31Z"^^xsd:date . :last44 :at "1944-12-31"^^xsd:date .
:first46 :at "1946-01-01"^^xsd:date .
:noon45 :at "1945-12-31T12:00:00Z"^^xsd:dateTime . :noon46 :at "1946-01-01T12:00:00Z"^^xsd:dateTime .
:bc44 :at "-0044"^^xsd:gYear . :ides44 :at "-0044-03-15"^^xsd:date . :bc500 :at "-0500"^^xsd:gYear .
"""
BEFORE_CHRIST = {"bc44", "ides44", "bc500"}
BEFORE = BEFORE_CHRIST | {"year44", "last44"}
IN_1945 = {"year45", "month45", "first45", "last45", "noon45"}
AFTER = {"year46", "first46", "noon46"}


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        ("<, 1945", BEFORE),
        (">, 1945", AFTER),
        ("=, 1945", IN_1945),
        (">=, 1945", IN_1945 | AFTER),
        ("<=, 1945", BEFORE | IN_1945),
        ("!=, 1945", BEFORE | AFTER),
        # What a question's "before 1945" becomes: the first or last day of the year that is meant.
        ("<, 1945-01-01", BEFORE),
        (">, 1945-12-31", AFTER),
        (">=, 1945-01-01", IN_1945 | AFTER),
        ("<=, 1945-12-31", BEFORE | IN_1945),
        ('<, "-0044"^^xsd:gYear', {"bc500"}),
        ("<=, -44", BEFORE_CHRIST),
        ('>, "-0500-12-31"^^xsd:date', BEFORE - {"bc500"} | IN_1945 | AFTER),
        ("=, -44", {"bc44", "ides44"}),
    ],
)
def test_dates_of_every_type_compare_with_a_year_by_their_years(comparison: str, expected: set[str]) -> None:
    store = ox.Store()
    store.load(YEARS.encode(), format=ox.RdfFormat.TURTLE)
    found = answers(
        LocalKG(store, PROFILE, "years"),
        f"add_fact(?x, at, ?d); add_filter(?d, {comparison}, date); set_answer(?x)",
    )
    assert found == expected
