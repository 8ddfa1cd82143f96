"""Entities found by meaning, where a loaded graph has their vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.kg import open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.linking.search import make_entity_vectors, search_kg
from triplewise.tools.retrieval.encoder import open_encoder

LINES = """
<urn:x:1> <http://www.w3.org/2000/01/rdf-schema#label> "automobile" .
<urn:x:1> <urn:x:made> <urn:x:3> .
<urn:x:2> <http://www.w3.org/2000/01/rdf-schema#label> "violin" .
<urn:x:2> <urn:x:made> <urn:x:3> .
<urn:x:3> <http://www.w3.org/2000/01/rdf-schema#label> "Carlo Rossi" .
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "things.nt").write_text(LINES, encoding="utf-8")
    load_kg([tmp_path / "things.nt"], tmp_path / "things")
    return tmp_path / "things"


def test_an_entity_is_found_by_what_it_means(folder: Path) -> None:
    encoder = open_encoder()
    before = open_kg(folder)
    assert "automobile" not in [m.label for m in search_kg(before, "motor vehicle", ["entity"], encoder)]
    assert make_entity_vectors(folder, before, encoder) == 3
    before.close()
    kg = open_kg(folder)
    assert search_kg(kg, "motor vehicle", ["entity"], encoder)[0].label == "automobile"
    assert search_kg(kg, "violin", ["entity"], encoder)[0].label == "violin"
    kg.close()
