"""`import triplewise`: everything that a program needs under one name."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rdflib

import triplewise
from triplewise.tools.core.errors import ConfigurationError


def test_names_are_all_there_and_known_to_type_checkers() -> None:
    imports = {
        alias.name
        for node in ast.walk(ast.parse(Path(triplewise.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("triplewise.")
        for alias in node.names
    }
    assert set(dir(triplewise)) == set(triplewise.__all__) == imports | {"__version__"}
    assert all(getattr(triplewise, name) for name in triplewise.__all__)
    with pytest.raises(AttributeError, match="it has Answer, Context"):
        _ = triplewise.answer


def test_the_import_loads_nothing_large() -> None:
    code = (
        "import triplewise, sys; dir(triplewise); print('langgraph' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_first_program_over_a_graph_of_ones_own() -> None:
    graph = rdflib.Graph().parse(
        data="""@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        :alien rdfs:label "Alien"@en ; :directed_by :scott . :scott rdfs:label "Ridley Scott"@en .
        :directed_by rdfs:label "directed by"@en ."""
    )
    answer = triplewise.ask("Who directed Alien?", graph, min_confidence=0.0)
    assert answer.labels == ("Ridley Scott",)
    first, second = str(answer).splitlines()
    assert first == "Ridley Scott."
    assert second.startswith("[answered")
    assert "SELECT" in second
    assert answer.to_dict()["proof"][0]["labels"] == ("Alien", "directed by", "Ridley Scott")


def test_many_questions_keep_their_order() -> None:
    questions = ["Who wrote Dracula?", "What is the capital of Japan?", "Who wrote Dracula?"]
    labels = [answer.labels for answer in triplewise.ask_many(questions, jobs=2)]
    assert labels == [("Bram Stoker",), ("Tokyo",), ("Bram Stoker",)]
    assert asyncio.run(triplewise.aask(questions[1])).labels == ("Tokyo",)
    assert [phase for phase, _ in triplewise.stream(questions[0])][-1] == "answer"


@pytest.mark.parametrize("entities", ["x", {"x": 5}, {5: "Q1"}])
def test_entities_are_mentions_with_ids(entities: Any) -> None:
    with pytest.raises(ConfigurationError, match="mention to id"):
        triplewise.ask("Who wrote Dracula?", entities=entities)
