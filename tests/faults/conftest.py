"""The graphs of the data folder, opened where the product opens a knowledge graph by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.agent import SAID
from tests.faults.graphs import FILES, open_graph
from triplewise.nodes import environment
from triplewise.tools.kg import KnowledgeGraph, open_kg


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of question sets and graphs."""
    folder = os.environ.get("TRIPLEWISE_DATA")
    if not folder:
        pytest.skip("set TRIPLEWISE_DATA to the folder of question sets and graphs")
    return Path(folder)


@pytest.fixture
def graphs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Context(kg="freebase")`, "wikidata" and "metaqa" are the graphs; other names open as ever."""

    def opened(source: Any, **settings: Any) -> KnowledgeGraph:
        if source not in FILES:
            return open_kg(source, **settings)
        return open_graph(data, str(source), 30.0, 10_000)

    monkeypatch.setattr(environment, "open_kg", opened)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the figures that tests have noted."""
    for line in config.stash.get(SAID, []):
        terminalreporter.write_line(line)
