"""Triples from documents for a run: a scripted model reads them, and nothing counts that no passage says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from tests.support.cinema import iri, write_cinema
from tests.support.openai_server import OpenAIServer
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.reasoning import CHARACTERS, extract_facts
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg

TEXT = "Red Harbor opened in 1987. Eva Stein helmed Red Harbor. Leo Marsh was glad."
QUESTION = "Who directed Red Harbor?"

Server = Callable[..., OpenAIServer]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cinema(tmp_path_factory.mktemp("extract"))


@pytest.fixture(scope="module")
def kg(graph: Path) -> KnowledgeGraph:
    return open_kg(graph)


@pytest.fixture(scope="module")
def relation(kg: KnowledgeGraph) -> str:
    return kg.profile.short(IRI("http://example.org/directedBy"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "films.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def settings_of(
    graph: Path, server: OpenAIServer, documents: Path | str | BaseRetriever | None
) -> Environment:
    context = Context(kg=str(graph), model="openai:scripted", base_url=server.url, documents=documents)
    return Environment(context)


def test_the_prompt_and_the_facts_of_a_model(
    graph: Path, folder: Path, kg: KnowledgeGraph, relation: str, openai_server: Server
) -> None:
    reply = '[["Red Harbor", "directed by", "Eva Stein"], ["Red Harbor", "directed by", "Nemo"]]'
    server = openai_server([reply])
    done = extract_facts("Red Harbor", relation, QUESTION, settings_of(graph, server, folder))
    (fact,) = done.facts
    assert (fact.triple.object, fact.reader) == (IRI(iri("Eva Stein")), "openai:scripted")
    assert (fact.sentence, fact.source) == ("Eva Stein helmed Red Harbor.", "films.txt")
    assert fact.conflicts == ("(Red Harbor, directed by, Ann Lee)",)
    assert done.passages == (TEXT,)
    assert done.reasons == ("(Red Harbor, directed by, Nemo): no passage has 'Nemo'",)
    prompt = server.requests[0].text
    assert TEXT in prompt
    assert QUESTION in prompt
    assert '[["Red Harbor", "directed by", "object"], ...]' in prompt


class Retriever(BaseRetriever):
    """Any LangChain retriever: it returns one passage about the film, and one about nothing asked for."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        film = Document(TEXT, metadata={"title": "Films", "source": "films.db"})
        return [Document("Leo Marsh was glad."), film]


def test_a_langchain_retriever_gives_the_documents(
    graph: Path, kg: KnowledgeGraph, relation: str, openai_server: Server
) -> None:
    server = openai_server(['[["Red Harbor", "directed by", "Eva Stein"]]'])
    completion = extract_facts("Red Harbor", relation, QUESTION, settings_of(graph, server, Retriever()))
    (fact,) = completion.facts
    assert (fact.document, fact.source) == ("Films", "films.db")
    assert fact.sentence == "Eva Stein helmed Red Harbor."
    assert completion.passages == (TEXT,)


def test_no_more_is_shown_than_fits(
    graph: Path, tmp_path: Path, kg: KnowledgeGraph, relation: str, openai_server: Server
) -> None:
    (tmp_path / "long.txt").write_text("Red Harbor. " * 5_000, encoding="utf-8")
    server = openai_server(["[]"])
    done = extract_facts("Red Harbor", relation, QUESTION, settings_of(graph, server, tmp_path))
    assert "found no triple" in done.reasons[0]
    assert len(server.requests[0].text) < CHARACTERS + 2_000


def test_nonsense_of_a_model_is_no_fact(
    graph: Path, folder: Path, kg: KnowledgeGraph, relation: str, openai_server: Server
) -> None:
    server = openai_server(["As a language model I cannot read."])
    done = extract_facts("Red Harbor", relation, QUESTION, settings_of(graph, server, folder))
    assert done.facts == ()
    assert "holds no triple" in done.reasons[0]


def test_what_is_missing_is_told(
    graph: Path, folder: Path, kg: KnowledgeGraph, relation: str, openai_server: Server
) -> None:
    server = openai_server()
    for entity, relation_id, documents, reason in (
        ("Red Harbor", relation, None, "no documents are configured"),
        ("Blue Lantern", relation, folder, "no document names Blue Lantern"),
        ("Red Harbor", "<no id>", folder, "the graph has no relation <no id>"),
        ("Red Harbor", relation, "wikipedia:http://127.0.0.1:9/w/api.php", "cannot be reached"),
    ):
        done = extract_facts(entity, relation_id, "", settings_of(graph, server, documents))
        assert reason in done.reasons[0]
    assert not server.requests
