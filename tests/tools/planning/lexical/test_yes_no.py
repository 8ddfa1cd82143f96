"""Yes, no, and not known: what a graph says of a fact, and what it says nothing of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from triplewise.graphs import Context, build_graph
from triplewise.tools.kg import KnowledgeGraph, open_kg

METALS = """
@prefix e: <http://e.example/> .
e:Iron a e:ChemicalElement ; e:symbol "Fe" ; e:radioactive false ; e:atomicNumber 26 ; e:density 7.9 ;
    e:group e:group8 ; e:discoveredIn e:France ; e:discoveredBy e:MarieLamort .
e:Radium a e:ChemicalElement ; e:symbol "Ra" ; e:radioactive true ; e:atomicNumber 88 ; e:density 5.5 ;
    e:group e:group2 ; e:discoveredIn e:France ; e:discoveredBy e:AdaStone .
e:Copper a e:ChemicalElement ; e:symbol "Cu" ; e:atomicNumber 29 ; e:group e:group11 .
e:France a e:Country . e:Norway a e:Country . e:Zinc e:discoveredIn e:Norway .
"""


@pytest.fixture(scope="module")
def metals(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("metals") / "metals.ttl"
    path.write_text(METALS)
    return open_kg(path)


@pytest.fixture(scope="module")
def ask(metals: KnowledgeGraph) -> Callable[[str], str]:
    graph: Any = build_graph()

    def answer(question: str) -> str:
        of_demo = ("mountain", "Mount", "Goethe", "Bras", "Gauss", "Kubrick", "Avatar")
        on = "demo" if any(word in question for word in of_demo) else metals
        context = Context(kg=on, seeds="none", min_confidence=0.0)
        values = graph.invoke({"question": question}, context=context)["answer"].values
        return {("true",): "yes", ("false",): "no", (): "not known"}[values]

    return answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is Radium radioactive?", "yes"),
        ("Is Iron radioactive?", "no"),  # the graph denies it
        ("Is Copper radioactive?", "not known"),
        ("Is Iron poisonous?", "not known"),
        ("Is the atomic number of Iron 26?", "yes"),
        ("Is the atomic number of Iron 27?", "no"),
        ("Does Copper have an atomic number?", "yes"),
        ("Was Radium discovered in France?", "yes"),
        ("Was Zinc discovered in France?", "no"),  # but in Norway
        ("was zinc discovered in france?", "no"),
        ("Was Copper discovered in France?", "not known"),
        ("Is Iron in Group 8?", "yes"),
        ("Is Iron in Group 2?", "no"),
        ("Is Iron denser than Radium?", "yes"),
        ("Is Iron denser than Copper?", "not known"),
        ("Is Iron a chemical element?", "yes"),
        ("Is France a chemical element?", "no"),
        ("Is France an element?", "not known"),  # a last word alone names no class
        ("Is there a chemical element denser than Radium?", "yes"),
        ("Is there a chemical element denser than Iron?", "no"),
        ("Is there a mountain higher than the highest mountain?", "no"),
        ("Is there a mountain higher than K2?", "yes"),
        ("Was Mount Everest born in Berlin?", "not known"),
        ("Was Goethe born in Tokyo?", "no"),
        ("Is Brasília the capital of Brazil?", "yes"),
        ("Is Brazil the capital of Brasília?", "no"),  # the words fix who is subject
        ("Was Bernhard Riemann a doctoral student of Carl Friedrich Gauss?", "yes"),
        ("Was Carl Friedrich Gauss a doctoral student of Bernhard Riemann?", "no"),
        ("Did Stanley Kubrick direct Lolita?", "yes"),
        ("Was Avatar directed by James Cameron?", "yes"),
    ],
)
def test_yes_is_a_fact_and_no_another_in_its_place(
    ask: Callable[[str], str], question: str, answer: str
) -> None:
    assert ask(question) == answer
