"""Chains of relations around a named entity: grown, aligned to words, and shown by seed questions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import LinkedEntity, link
from triplewise.tools.parsing.chains import (
    Chain,
    ChainGrower,
    chain_anchors,
    index_paths,
    topics_of,
)
from triplewise.tools.parsing.derivation import Category
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.question import Question
from triplewise.tools.retrieval.encoder import open_encoder

FILMS = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; a :Film ; :director :scott ; :cast :weaver, :hurt .
:rain rdfs:label "Black Rain" ; a :Film ; :director :scott ; :cast :douglas .
:abyss rdfs:label "The Abyss" ; a :Film ; :director :cameron ; :cast :biehn .
:aliens rdfs:label "Aliens" ; a :Film ; :director :cameron ; :cast :weaver, :biehn .
:scott rdfs:label "Ridley Scott" ; a :Person ; :birthPlace :shields .
:cameron rdfs:label "James Cameron" ; a :Person ; :birthPlace :kapuskasing .
:weaver rdfs:label "Sigourney Weaver" ; a :Person . :hurt rdfs:label "John Hurt" ; a :Person .
:douglas rdfs:label "Michael Douglas" ; a :Person . :biehn rdfs:label "Michael Biehn" ; a :Person .
:shields rdfs:label "South Shields" ; a :Town . :kapuskasing rdfs:label "Kapuskasing" ; a :Town .
:Film rdfs:label "film" . :Person rdfs:label "person" . :Town rdfs:label "town" .
:director rdfs:label "director" . :cast rdfs:label "cast member" . :birthPlace rdfs:label "place of birth" .
"""
EX = "http://films.example/"


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("films") / "films.ttl"
    path.write_text(FILMS)
    return open_kg(path)


def grounded(kg: KnowledgeGraph, text: str) -> Question:
    encoder = open_encoder()
    question = ground(text, index_for(kg, encoder, "", tuple), linked=link(text, kg, encoder=encoder))
    for anchor in question.anchors:
        anchor.score = 1.0
    return question


def grown(kg: KnowledgeGraph, text: str) -> tuple[list[Chain], GraphIndex]:
    question = grounded(kg, text)
    topics = topics_of(question)
    grower = ChainGrower(question, topics, kg, open_encoder())
    return grower.chains(topics[0]), question.index


def labels(index: GraphIndex, nodes: frozenset[int]) -> set[str]:
    return {index.label(node) for node in nodes}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("who directed Black Rain?", {"Ridley Scott"}),
        ("where was the director of Aliens born?", {"Kapuskasing"}),
    ],
)
def test_the_best_chain_accounts_for_the_words(kg: KnowledgeGraph, text: str, found: set[str]) -> None:
    (chain, *_), index = grown(kg, text)
    assert labels(index, chain.denotation) == found


def test_a_relation_there_and_back_does_not_come_back_to_the_entity(kg: KnowledgeGraph) -> None:
    chains, index = grown(kg, "which films have the same director as Aliens?")
    there_and_back = [chain for chain in chains if len({relation for relation, _ in chain.path}) == 1]
    shared = next(chain for chain in there_and_back if len(chain.path) == 2)
    assert labels(index, shared.denotation) == {"The Abyss"}


def test_each_relation_has_a_word_of_its_own(kg: KnowledgeGraph) -> None:
    (chain, *_), _ = grown(kg, "where was the director of Aliens born?")
    assert len(chain.path) == len(chain.covered) == 2
    assert dict(chain.features)["chain_hop"] == 1.0


def test_chains_are_sets_over_the_words_that_they_account_for(kg: KnowledgeGraph) -> None:
    question = grounded(kg, "how many actors are in films that Ridley Scott directed?")
    derivations = chain_anchors(question, kg, open_encoder())
    assert derivations
    assert all(d.category is Category.SET and d.kind == "chain" for d in derivations)
    assert all(d.start > 1 for d in derivations), "how many is left to an operator"


def test_chains_of_two_entities_meet(kg: KnowledgeGraph) -> None:
    question = grounded(kg, "which film did Sigourney Weaver and Michael Biehn star in?")
    meeting = [d for d in chain_anchors(question, kg, open_encoder()) if len(d.mentions) > 1]
    assert {"Aliens"} in [labels(question.index, d.denotation) for d in meeting]  # type: ignore[arg-type]


def test_a_chain_that_seeds_show_is_one_of_the_whole_question(kg: KnowledgeGraph) -> None:
    def seeds(question: str, linked: Sequence[LinkedEntity]) -> Sequence[Rule]:
        assert [entity.mention for entity in linked] == ["Ridley Scott"]
        path = Atom(EX + "director", False), Atom(EX + "cast", True)
        return [Rule(EX + "scott", path, evidence=0.9, support=3)]

    question = grounded(kg, "who did Ridley Scott ever shout at?")
    shown = [
        d for d in chain_anchors(question, kg, open_encoder(), seeds) if "seed_evidence" in dict(d.features)
    ]
    assert [(d.start, d.end) for d in shown] == [(0, question.n)]
    assert labels(question.index, shown[0].denotation) == {"Sigourney Weaver", "John Hurt", "Michael Douglas"}  # type: ignore[arg-type]


def test_paths_of_the_graph_are_paths_of_the_index(kg: KnowledgeGraph) -> None:
    index = index_for(kg, open_encoder(), "", tuple)
    (path,) = index_paths(index, [(IRI(EX + "director"), False), (IRI(EX + "cast"), True)])
    assert [direction for _, direction in path] == [-1, 1]
    assert index_paths(index, [(IRI(EX + "none"), True)]) == []
