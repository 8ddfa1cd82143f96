"""Seed questions help or are silent: what is answered rightly without them stays right."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from triplewise.graphs.build import build_graph
from triplewise.nodes.context import Context
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.overlap import best_overlap
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.learning.exploration import short_answers

DATA = os.environ.get("TRIPLEWISE_DATA", "")
OWN = Path(str(files("triplewise.tools.kg"))) / "demo" / "questions.jsonl"
CAPITALS = [
    {"question": f"What is the capital of {name}?", "topic_entity": name, "answers": [capital]}
    for name, capital in (("Germany", "Q64"), ("France", "Q90"), ("Italy", "Q220"))
]


def right(kg: KnowledgeGraph, records: Iterable[dict[str, Any]], seeds: str = "none") -> set[str]:
    """Return the questions that are answered exactly right, whatever the confidence."""
    graph: Any = build_graph()
    result = set()
    for record in records:
        context = Context(kg=kg, seeds=seeds, min_confidence=0.0)
        given = {"question": record["question"], "entities": record.get("entities") or {}}
        answer = graph.invoke(given, context=context)["answer"]
        golds = [short_answers(kg, gold) for gold in (record["answers"], *(record.get("also") or ()))]
        if best_overlap(answer.values, golds).f1 == 1.0:
            result.add(record["question"])
    return result


def write(path: Path, records: Iterable[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    return str(path)


@pytest.mark.parametrize("seeds", ["capitals", "others of its own"])
def test_what_the_demo_answers_stays_right(seeds: str, tmp_path: Path) -> None:
    records = [record for _, record in json_lines(OWN)]
    asked, kg = records[::5], open_kg("demo")
    given = CAPITALS if seeds == "capitals" else [r for r in records if r not in asked]
    without = right(kg, asked)
    assert len(without) >= 14
    assert without <= right(kg, asked, write(tmp_path / "seeds.jsonl", given))


@pytest.mark.skipif(not DATA, reason="needs the graphs of TRIPLEWISE_DATA")
@pytest.mark.parametrize(
    ("name", "topics"), [("units", {"acre": "AC"}), ("elements", {"antimony": "Antimony"})]
)
def test_one_seed_of_an_unfamiliar_graph_harms_no_other_question(
    name: str, topics: dict[str, str], tmp_path: Path
) -> None:
    folder = Path(DATA) / "strangers"
    asked = [record for _, record in json_lines(folder / f"{name}.jsonl.gz")][::2]
    seed = next(r for r in asked if next(iter(topics)) in r["question"])
    seeds = write(tmp_path / "seeds.jsonl", [{**seed, "entities": topics}])
    kg = open_kg(str(folder / f"{name}.ttl.gz"))
    assert right(kg, asked) <= right(kg, asked, seeds)
