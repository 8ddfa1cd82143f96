"""SymAgent's figure 7, replayed with a scripted model over HTTP, a graph with a gap, and documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cases import graph_path, load_case, replay, replies
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.vocabulary import triple_text
from triplewise.tools.overlay.store import FactStore


@pytest.fixture
def facts(tmp_path: Path) -> str:
    return str(tmp_path / "facts.sqlite")


def test_figure7(openai_server: Callable[..., OpenAIServer], facts: str) -> None:
    done = replay("symagent/figure7", openai_server, facts=facts)
    first = done.state.rules[0]
    assert [a.relation for a in first.path] == ["film.film.starring", "film.performance.character"]
    assert first.provenance == "proposed by the model, with a gap in the graph"
    whole = next(r for r in done.state.rules if r.path[0].relation == "people.person.gender")
    assert [a.forward for a in whole.path] == [True, False]
    relations = {a.relation for r in done.state.rules for a in r.path}
    assert not any(r.startswith(("media_common", "book.")) for r in relations), "the graph has none of these"


def test_figure7_keeps_what_it_read_with_its_provenance(
    openai_server: Callable[..., OpenAIServer], facts: str
) -> None:
    done = replay("symagent/figure7", openai_server, facts=facts)
    kept = FactStore(Path(facts)).facts()
    assert [k.fact for k in kept] == list(done.state.facts)
    names = triple_text(done.kg, [k.fact.triple for k in kept])
    assert names == [
        "(Viggo Mortensen, film starring, The Lord of the Rings: The Return of the King)",
        "(Viggo Mortensen, film starring, The Lord of the Rings: The Two Towers)",
        "(Viggo Mortensen, film starring, Captain Fantastic)",
    ], "what the model made up (Eastern Promises) is in no document"
    first = kept[0].fact
    assert (first.status, first.reader, first.source) == (
        "proposed",
        "openai:scripted",
        "Viggo_Mortensen.txt",
    )
    assert "The Return of the King" in first.sentence
    assert (first.question, first.document) == (done.case["question"], "Viggo Mortensen")
    assert {label for k in kept for label in k.fact.labels.values()} == {
        "Captain Fantastic",
        "The Lord of the Rings: The Two Towers",
    }
    answer = done.state.answer
    assert answer is not None
    assert answer.text == "Aragorn. 1 of the 2 facts that prove this was read from documents."
    assert [bool(p.fact) for p in answer.proof] == [True, False]
    assert (answer.proof[0].document, answer.proof[0].sentence) == ("Viggo Mortensen", first.sentence)
    assert (
        len(open_kg(str(graph_path(done.case)), profile="freebase").neighbours(first.triple.subject).triples)
        == 2
    )


def test_documents_are_searched_only_where_there_are_some(openai_server: Callable[..., OpenAIServer]) -> None:
    case = load_case("symagent/figure7")
    server = openai_server([r for r in replies(case) if not r.startswith("[[")])
    context = Context(
        kg=str(graph_path(case)), profile="freebase", model="openai:scripted", base_url=server.url
    )
    given = {"question": case["question"], "entities": case["entities"]}
    state = build_graph("symagent").invoke(given, context=context)
    assert "wiki_search" not in state["steps"][1].observation
    assert "there is no wikiSearch. " in state["steps"][2].observation
    assert not any("wiki_search" in chat.text for chat in server.chats)
