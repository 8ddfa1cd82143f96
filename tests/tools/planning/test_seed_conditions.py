"""Rules of seeds beyond chains: what their words ask for and their answers show."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.bodies import answers
from triplewise.tools.planning.lexical.planner import make_plan
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.seeds import Seed, SeedIndex, SeedTerms, group_seeds, same_as, with_names
from triplewise.tools.retrieval.encoder import open_encoder

TURTLE = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:alien rdfs:label "Alien" ; a :Film ; :director :scott ; :cast :weaver, :hurt ;
  :released "1979-05-25"^^xsd:date ; :runtime 117 .
:rain rdfs:label "Black Rain" ; a :Film ; :director :scott ; :cast :douglas, :garcia ;
  :released "1989-09-22"^^xsd:date ; :runtime 125 .
:duel rdfs:label "The Duellists" ; a :Film ; :director :scott ; :cast :keitel ;
  :released "1977-08-31"^^xsd:date ; :runtime 100 .
:aliens rdfs:label "Aliens" ; a :Film ; :director :cameron ; :cast :weaver, :biehn ;
  :released "1986-07-18"^^xsd:date ; :runtime 137 .
:abyss rdfs:label "The Abyss" ; a :Film ; :director :cameron ; :cast :biehn, :harris ;
  :released "1989-08-09"^^xsd:date ; :runtime 140 .
:raised rdfs:label "Raised by Wolves" ; a :Series ; :director :scott ; :cast :collin .
:angel rdfs:label "Dark Angel" ; a :Series ; :director :cameron ; :cast :alba .
:Film rdfs:label "film" . :Series rdfs:label "series" .
:scott rdfs:label "Ridley Scott" . :cameron rdfs:label "James Cameron" .
:weaver rdfs:label "Sigourney Weaver" . :hurt rdfs:label "John Hurt" . :douglas rdfs:label "Michael Douglas" .
:garcia rdfs:label "Andy Garcia" . :keitel rdfs:label "Harvey Keitel" . :biehn rdfs:label "Michael Biehn" .
:harris rdfs:label "Ed Harris" . :collin rdfs:label "Amanda Collin" . :alba rdfs:label "Jessica Alba" .
:director rdfs:label "director" . :cast rdfs:label "cast member" . :released rdfs:label "publication date" .
:runtime rdfs:label "duration" .
"""


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path: Path = tmp_path_factory.mktemp("films") / "films.ttl"
    path.write_text(TURTLE)
    return open_kg(path)


def best(kg: KnowledgeGraph, question: str, *seeds: Seed) -> Rule:
    encoder = open_encoder()
    linked = link(question, kg, encoder=encoder)
    return make_plan(question, linked, kg, encoder, SeedIndex(group_seeds(seeds))).rules[0]


def found(kg: KnowledgeGraph, rule: Rule) -> set[str]:
    return {kg.labels([t]).get(t) or kg.profile.short(t) for t in answers(kg, rule)}


SCOTT = "<http://films.example/scott>"
COUNT = Seed("how many works did Ridley Scott make?", ("Ridley Scott",), ("4",))
LONGEST = Seed("what is the longest film that Ridley Scott directed?", ("Ridley Scott",), ("Black Rain",))
LATE = Seed("what did James Cameron direct after 1988?", ("James Cameron",), ("The Abyss",))
FILMS = Seed(
    "which films did Ridley Scott make?", ("Ridley Scott",), ("Alien", "Black Rain", "The Duellists")
)
BOTH = Seed(
    "what do James Cameron and Sigourney Weaver share?", ("James Cameron", "Sigourney Weaver"), ("Aliens",)
)
DATE = Seed("when did Alien come out?", ("Alien",), ("1979-05-25",))
NUMBER = Seed("of what length is Alien?", ("Alien",), ("117",))


@pytest.mark.parametrize(
    ("seed", "question", "kinds", "answer"),
    [
        (COUNT, "how many works did James Cameron make?", {"count"}, {"3"}),
        (LONGEST, "what is the longest film that James Cameron directed?", {"max"}, {"The Abyss"}),
        (LATE, "what did Ridley Scott direct after 1988?", {"filter"}, {"Black Rain"}),
        (FILMS, "which films did James Cameron make?", {"type"}, {"Aliens", "The Abyss"}),
        (BOTH, "what do Ridley Scott and Sigourney Weaver share?", {"meets"}, {"Alien"}),
        (DATE, "when did Aliens come out?", set(), {"1986-07-18"}),
        (NUMBER, "of what length is The Abyss?", set(), {"140"}),
    ],
)
def test_what_a_seed_shows_holds_for_the_question(
    kg: KnowledgeGraph, seed: Seed, question: str, kinds: set[str], answer: set[str]
) -> None:
    rule = best(kg, question, seed)
    assert rule.support == 1, "the rule comes from the seed"
    assert {c.kind for c in rule.constraints} - {"distinct"} == kinds
    assert found(kg, rule) == answer


def test_a_topic_given_by_its_id_is_found_in_the_question(kg: KnowledgeGraph) -> None:
    by_id = Seed("which films did Ridley Scott make?", (SCOTT,), FILMS.answers)
    (named,) = with_names([by_id], kg)
    assert (named.topics, named.ids) == (("Ridley Scott",), (SCOTT,))
    assert Miner(kg).of_seed(named) == Miner(kg).of_seed(FILMS)
    other = Seed("who is it?", (SCOTT,), ("Alien",))
    assert list(with_names([other, FILMS], kg)) == [other, FILMS]


def test_values_are_the_same_in_any_writing(kg: KnowledgeGraph) -> None:
    terms = SeedTerms(kg)
    assert terms.resolve("117")[0] == Literal("117", XSD + "integer")
    assert terms.resolve("1979-05-25")[0] == Literal("1979-05-25", XSD + "date")
    assert terms.resolve("4") == (), "no fact has it"
    gold = terms.gold(COUNT)
    assert same_as(gold, [Literal("4.0", XSD + "decimal")]) == gold
    assert same_as(gold, [Literal("5", XSD + "integer")]) != gold
    dated = {Literal("1979-05-25", XSD + "date")}
    assert same_as(dated, [Literal("1979-05-25T00:00:00Z", XSD + "dateTime")]) == dated
