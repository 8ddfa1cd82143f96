"""The graphs of the data folder, opened where the product opens a knowledge graph by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.trajectory import FILES, open_graph
from triplewise.nodes import environment
from triplewise.tools.federation.sources import open_sources
from triplewise.tools.kg import KnowledgeGraph


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder; `Context(kg="freebase")`, "wikidata" and "metaqa" are its graphs."""
    folder = os.environ.get("TRIPLEWISE_DATA")
    if not folder:
        pytest.skip("set TRIPLEWISE_DATA to the folder of question sets and graphs")

    def opened(source: Any, **settings: Any) -> KnowledgeGraph:
        return open_graph(Path(folder), source) if source in FILES else open_sources(source, **settings)

    monkeypatch.setattr(environment, "open_sources", opened)
    return Path(folder)
