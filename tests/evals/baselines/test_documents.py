"""Documents alone: passages for the question, read by a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import find_system, variants
from triplewise.graphs import build_graph
from triplewise.nodes.reasoning import CHARACTERS
from triplewise.tools.core.errors import ConfigurationError

Server = Callable[..., OpenAIServer]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(folder: Path, server: OpenAIServer | None, question: str, **settings: Any) -> Any:
    model = {} if server is None else {"model": "openai:scripted", "base_url": server.url}
    context = film_context(folder, **model, **{"documents": str(folder / "texts"), **settings})
    return build_graph(find_system("documents")).invoke({"question": question}, context=context)


def test_a_model_reads_the_passages_of_the_question(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["Ridley Scott"])
    found = read(tmp_path, server, "Who directed [Alien]?")
    answer = found["answer"]
    assert (answer.values, answer.labels, answer.usage.calls) == (("Ridley_Scott",), ("Ridley Scott",), 1)
    seen = found["steps"][0].observation
    assert seen.index("(Alien.txt)") == seen.index(".txt") - len("(Alien")
    assert seen.count(".txt)") == variants.PASSAGES == 10
    assert "[1] Alien: Alien" in server.chats[0].text
    assert "[11]" not in server.chats[0].text
    assert "Question: Who directed Alien?" in server.chats[0].text


def test_claims_and_slots_are_searched_in_plain_words(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["false", "Ridley Scott"])
    assert read(tmp_path, server, "Steven Spielberg directed Alien.")["answer"].values == ("false",)
    found = read(tmp_path, server, "Alien [SEP] directed by")
    assert found["answer"].values == ("Ridley_Scott",)
    assert found["steps"][0].feedback.arguments == ("alien directed by",)
    assert "Alien [SEP] directed by" in server.chats[1].text


def test_no_more_is_shown_than_fits(tmp_path: Path, openai_server: Server) -> None:
    context = film_context(tmp_path)
    assert context.kg
    (tmp_path / "texts" / "long.txt").write_text("Alien. " + "word " * 10_000, encoding="utf-8")
    server = openai_server(["Ridley Scott"])
    read(tmp_path, server, "Alien word")
    assert len(server.chats[0].text) < CHARACTERS + 2_000


def test_documents_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="baseline documents needs documents to read: --set"):
        read(tmp_path, None, "who?", documents=None)
