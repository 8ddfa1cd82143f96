"""A graph about films, and the real encoder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cinema import write_cinema
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@pytest.fixture(scope="session")
def cinema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeGraph]:
    kg = open_kg(write_cinema(tmp_path_factory.mktemp("cinema")))
    yield kg
    kg.close()


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return open_encoder()
