"""A small company, read with the shipped weights: what tests of composition ask about."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.kg.open import open_kg
from triplewise.tools.parsing.chart import Parser
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.learn import shipped_weights
from triplewise.tools.parsing.local import index_for
from triplewise.tools.retrieval.encoder import open_encoder


@pytest.fixture(scope="session")
def company() -> GraphIndex:
    return index_for(open_kg(Path(__file__).with_name("company.ttl")), open_encoder(), "", tuple)


@pytest.fixture(scope="session")
def parser() -> Parser:
    return Parser(shipped_weights())
