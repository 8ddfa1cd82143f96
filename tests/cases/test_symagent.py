"""SymAgent's figure 7, replayed with a scripted model over HTTP, a graph with a gap, and documents."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.cases import graph_path, load_case, replay, replies
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph


def test_figure7(openai_server: Callable[..., OpenAIServer]) -> None:
    done = replay("symagent/figure7", openai_server)
    first = done.state.rules[0]
    assert [a.relation for a in first.body] == ["film.film.starring", "film.performance.character"]
    assert first.provenance == "proposed by the model, with a gap in the graph"
    whole = next(r for r in done.state.rules if r.body[0].relation == "people.person.gender")
    assert [a.forward for a in whole.body] == [True, False]
    relations = {a.relation for r in done.state.rules for a in r.body}
    assert not any(r.startswith(("media_common", "book.")) for r in relations), "the graph has none of these"


def test_without_documents_the_agent_is_told_so(openai_server: Callable[..., OpenAIServer]) -> None:

    case = load_case("symagent/figure7")
    server = openai_server(replies(case))
    context = Context(
        kg=str(graph_path(case)), profile="freebase", model="openai:scripted", base_url=server.url
    )
    given = {"question": case["question"], "entities": case["entities"]}
    state = build_graph("symagent").invoke(given, context=context)
    assert "No documents are configured" in state["steps"][2].observation
