"""Several sources as one: what each holds, what crosses, what joins them, and what is said of it."""

from __future__ import annotations

import pytest

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.federation.bridges import SAME_AS, SAME_NAME
from triplewise.tools.federation.federated import FederatedKG
from triplewise.tools.federation.sources import open_sources
from triplewise.tools.kg.protocol import Outcome, memory_of
from triplewise.tools.parsing import facts
from triplewise.tools.parsing.card import SchemaCard
from triplewise.tools.parsing.reading import read_question
from triplewise.tools.retrieval.encoder import open_encoder

WD, WDT, MY = (
    "http://www.wikidata.org/entity/",
    "http://www.wikidata.org/prop/direct/",
    "http://example.org/my/",
)
PREFIXES = f"PREFIX wd: <{WD}> PREFIX wdt: <{WDT}> PREFIX my: <{MY}> PREFIX shop: <urn:shop:> "
PREFIXES += "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "


def values(kg: FederatedKG, query: str) -> set[str]:
    result = kg.query(PREFIXES + query)
    assert result.outcome.ok, result.message
    return {kg.profile.short(term) for row in result.rows for term in row if term is not None}


def test_bridges_are_stated_or_names_that_stand_alone_in_one_class(kg: FederatedKG) -> None:
    short = kg.profile.short
    bridges = kg.bridges.values()
    by_link = {link: {short(b.node) for b in bridges if b.link == link} for link in (SAME_AS, SAME_NAME)}
    assert by_link[SAME_AS] == {"mine:kubrick", "mine:cameron"}
    # Not the two films of one name, nor those that the other graph lacks.
    films = {"mine:psycho", "mine:alien", "mine:jaws", "mine:shining"}
    assert by_link[SAME_NAME] == films | {f"shop:country-{n}" for n in (1, 2, 3)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT ?d { my:alien wdt:P57 ?d }", {"wd:Q56005"}),
        ("SELECT ?d { my:alien wdt:P57 ?d # who made it\n }", {"wd:Q56005"}),
        ("SELECT ?f { ?f my:lentTo my:anna . ?f wdt:P57 wd:Q2001 }", {"wd:Q186341"}),
        ("SELECT ?p { ?f my:lentTo ?who . ?f wdt:P57 ?d . ?d wdt:P19 ?p }", {"wd:Q60"}),
        ("SELECT ?k { ?c shop:customer-country_id ?l . ?l wdt:P38 ?k FILTER(?k != wd:Q4916) }", {"wd:Q8146"}),
        ("SELECT ?f { ?f my:rating ?r FILTER NOT EXISTS { ?f wdt:P57 ?d } }", {"mine:garden"}),
        ("SELECT ?f { ?f my:lentTo ?w MINUS { ?f wdt:P57 wd:Q2001 } }", {"wd:Q163038", "wd:Q103569"}),
        (
            "SELECT ?f { ?f my:rating ?r FILTER(?r > ?m) "
            "{ SELECT (MAX(?s) AS ?m) WHERE { ?g my:rating ?s . ?g wdt:P57 wd:Q2001 } } }",
            {"wd:Q163038", "wd:Q103569"},
        ),
        ("SELECT (COUNT(DISTINCT ?f) AS ?n) { ?f my:rating ?r . ?f wdt:P31/wdt:P279* wd:Q11424 }", {"4"}),
        ("SELECT ?f { ?f my:rating 7 { ?f wdt:P57 wd:Q8877 } UNION { ?f wdt:P57 ?f } }", {"wd:Q189505"}),
        (
            "SELECT ?i ?v { { SELECT (1 AS ?i) (?d AS ?v) { my:alien wdt:P57 ?d } LIMIT 1 } UNION "
            "{ SELECT (2 AS ?i) (?w AS ?v) { my:alien my:lentTo ?w } LIMIT 1 } }",
            {"1", "2", "wd:Q56005", "mine:ben"},
        ),
        ("SELECT ?d { ?f a my:Film ; my:rating 10 ; wdt:P57 ?d . }", {"wd:Q56005"}),
        ("SELECT ?f ?d { ?f my:rating 5 OPTIONAL { ?f wdt:P57 ?d } }", {"mine:garden"}),
        (
            "SELECT * { ?c shop:customer-country_id/wdt:P38 ?k FILTER(?k != wd:Q4916) }",
            {"shop:customer-2", "wd:Q8146"},
        ),
        ("SELECT ?f { wd:Q60 ^wdt:P19/^wdt:P57/my:rating ?r . ?f my:rating ?r }", {"wd:Q186341"}),
        (
            "SELECT ?w { ?d wdt:P19 wd:Q60 . ?d ^(my:lentTo/^(my:lentTo)/wdt:P57)/(my:lentTo|my:rating) ?w }",
            {"mine:anna", "8", "9"},
        ),
        ("SELECT ?n { SERVICE <mine> { wd:Q163038 rdfs:label ?n } }", {"Psycho"}),
    ],
)  # fmt: skip
def test_a_query_crosses_sources(kg: FederatedKG, query: str, expected: set[str]) -> None:
    assert values(kg, query) == expected


def test_a_path_that_repeats_steps_of_several_sources_is_refused(kg: FederatedKG) -> None:
    result = kg.query(PREFIXES + "SELECT ?x { my:anna (^my:lentTo/wdt:P57)+ ?x }")
    assert result.outcome is Outcome.SYNTAX
    assert "may lead through several sources: write a triple for each of its steps" in result.message
    assert kg.query(PREFIXES + "SELECT ?x { my:anna (^my:lentTo/my:lentTo)+ ?x }").rows


def test_a_query_that_is_too_deep_is_refused(kg: FederatedKG) -> None:
    for depth, outcome in ((40, Outcome.ROWS), (300, Outcome.SYNTAX), (5_000, Outcome.SYNTAX)):
        query = f"{PREFIXES} SELECT ?d {'{' * depth} my:alien wdt:P57 ?d {'}' * depth}"
        assert kg.query(query).outcome is outcome


def test_who_holds_what_is_asked_once_and_values_carry_over(kg: FederatedKG) -> None:
    query = "SELECT ?p { ?f my:lentTo my:anna . ?f wdt:P57 ?d . ?d wdt:P19 ?p }"
    values(kg, query)
    before = kg.meter.queries
    assert values(kg, query) == {"wd:Q60"}
    assert kg.meter.queries - before == 3  # what is known here, the endpoint's part bound by it, the whole


def test_a_query_is_shown_by_its_sources_and_runs_so(kg: FederatedKG) -> None:
    query = (
        f"PREFIX wdt: <{WDT}>\nSELECT DISTINCT ?d WHERE {{\n  ?f <{MY}rating> 10 .\n  ?f wdt:P57 ?d .\n}}\n"
    )
    written = kg.written(query)
    assert "  SERVICE <mine> {\n    ?f" in written
    assert "  SERVICE <wd> {\n    ?f wdt:P57 ?d .\n  }\n" in written
    assert kg.query(written).rows == kg.query(query).rows != ()
    unknown = kg.query("SELECT ?s { SERVICE <nope> { ?s ?p ?o } }")
    assert unknown.outcome is Outcome.SYNTAX
    assert "the sources are wd, mine, shop" in unknown.message
    assert kg.query("SELECT * { SERVICE <http://127.0.0.1:1/sparql> { ?s ?p ?o } }").outcome is Outcome.SYNTAX


def test_what_is_around_a_node_is_of_all_sources(kg: FederatedKG) -> None:
    psycho: Term = IRI(WD + "Q163038")
    relations = {kg.profile.short(r) for r in kg.relations(psycho).forward}
    assert {"mine:rating", "mine:lentTo", "wdt:P57"} <= relations
    facts = kg.neighbours(psycho, IRI(WDT + "P57")).triples
    assert [kg.holders(t.n3().removesuffix(" .")) for t in facts] == [("wd",)]
    assert kg.labels([psycho, IRI(MY + "psycho"), IRI(MY + "ben")]) == {
        psycho: "Psycho", IRI(MY + "psycho"): "Psycho", IRI(MY + "ben"): "Ben Okafor"
    }  # fmt: skip
    assert [e.iri for e in kg.names.exact("Psycho")] == [psycho]
    card = SchemaCard.of(kg, open_encoder())
    assert {"wdt:P57", "mine:lentTo", "shop:customer-country_id"} <= {r.id for r in card.relations}


def test_the_proof_names_the_bridge(kg: FederatedKG) -> None:
    lent = Triple(IRI(WD + "Q163038"), IRI(MY + "lentTo"), IRI(MY + "anna"))
    directed = Triple(IRI(WD + "Q163038"), IRI(WDT + "P57"), IRI(WD + "Q7374"))
    bridge = Triple(IRI(MY + "psycho"), SAME_NAME, IRI(WD + "Q163038"))
    assert kg.remarks([lent, directed]) == ([bridge], "joined by equal names only: mine:psycho = wd:Q163038")
    assert kg.remarks([directed]) == ([], "")


def test_the_others_answer_where_one_is_silent(sources: dict[str, str]) -> None:
    kg = open_sources(
        f"gone=http://127.0.0.1:9/sparql + mine={sources['mine']}", profile="gone=wikidata"
    ).session()
    assert isinstance(kg, FederatedKG)
    assert values(kg, "SELECT ?f { ?f my:lentTo my:ben }") == {"mine:alien"}
    assert [e.iri for e in kg.names.exact("Alien")] == [IRI(MY + "alien")]
    assert "gone did not answer: " in kg.remarks([])[1]
    assert kg.query("SELECT ?x { SERVICE <gone> { ?x ?p ?o } }").outcome is Outcome.UNAVAILABLE


def test_an_address_that_no_server_can_have_is_refused_before_any_is_asked(sources: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="source gone: no URL can be"):
        open_sources(f"mine={sources['mine']}.not-there + gone=http://h:abc/s")


def test_a_question_crosses_sources_of_which_one_is_large(
    kg: FederatedKG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "SMALL", 1_000)
    for one in (kg, *kg.members.values()):
        for topic in ("facts", "graph index", "local indexes"):
            memory_of(one, topic).clear()
    readings = read_question("Who directed the films lent to Anna Keller?", kg, open_encoder())
    assert set(readings[0].values) == {"wd:Q7374", "wd:Q2001"}
