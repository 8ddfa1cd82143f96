"""Plan, retrieve, reason: with a model's paths and with mined ones, and with nothing to be found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import find_system
from triplewise.graphs import build_graph

Server = Callable[..., OpenAIServer]
BORN = "Where was the director of Alien born?"


def rog(folder: Path, server: OpenAIServer, question: str, **settings: Any) -> Any:
    context = film_context(folder, model="openai:scripted", base_url=server.url, **settings)
    return build_graph(find_system("rog")).invoke({"question": question}, context=context)


def test_a_model_plans_paths_and_answers_from_their_instances(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["[directed_by, place_of_birth]\n[release_year]", "South Shields"])
    found = rog(tmp_path, server, BORN)
    answer = found["answer"]
    assert (answer.status, answer.values, answer.usage.calls) == ("answered", ("South_Shields",), 2)
    assert len(answer.proof) == 2
    assert "directed_by" in answer.sparql
    assert [rule.relations for rule in found["rules"]] == [
        ("directed_by", "place_of_birth"),
        ("release_year",),
    ]
    planning, reasoning = (request.text for request in server.chats)
    assert "at most 3 rules" in planning
    assert "[directed_by]" in planning  # of a seed question
    path = "(Alien, directed by, Ridley Scott) -> (Ridley Scott, place of birth, South Shields)"
    assert path in reasoning


@pytest.mark.parametrize("plan", ["I cannot say.", "[painted_by]", "[place_of_birth]", ""])
def test_without_a_path_it_answers_from_what_it_knows_and_says_so(
    tmp_path: Path, openai_server: Server, plan: str
) -> None:
    server = openai_server([plan, "Ridley Scott"])
    answer = rog(tmp_path, server, "Who directed Alien?")["answer"]
    assert (answer.status, answer.values, answer.proof) == ("answered", ("Ridley_Scott",), ())
    assert answer.reason == "no retrieved path leads to the answer: it is what the model knows"
    assert "No reasoning path was found" in server.chats[1].text


def test_yes_or_no_is_asked_for_as_such(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["[directed_by]", "No."])
    answer = rog(tmp_path, server, "Did Steven Spielberg direct Alien?")["answer"]
    assert (answer.values, answer.text) == (("false",), "No.")
    assert "true or false" in server.chats[1].text


def test_between_the_steps_budgets_hold(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["[directed_by]", "Ridley Scott"])
    answer = rog(tmp_path, server, "Who directed Alien?", max_model_calls=1)["answer"]
    assert (answer.status, answer.values, len(server.chats)) == ("budget_spent", (), 1)
    assert "1 model calls" in answer.reason
