"""The bench of verified corrections: gold steps are read, broken, and found again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triplewise.evals.bench.__main__ import app
from triplewise.evals.bench.gold import gold_questions
from triplewise.evals.bench.repairs import BREAKS, Settings, measure
from triplewise.tools.kg.profile import load_profile

Q, PREFIXES = (
    "which query?",
    ("PREFIX wdt: <http://www.wikidata.org/prop/direct/> PREFIX wd: <http://www.wikidata.org/entity/> "),
)


@pytest.fixture
def paths(data: Path) -> Path:
    """The tiny MetaQA, its questions with their gold paths."""
    kinds = {
        "who directed [Alien]": "movie_to_director",
        "what films did [Ridley Scott] direct": "director_to_movie",
    }
    for hops in (1, 2, 3):
        file = data / "metaqa" / f"dev_{hops}hop.jsonl.gz"
        records = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        with gzip.open(file, "wt", encoding="utf-8") as out:
            for r in records:
                out.write(json.dumps({**r, "qtype": kinds.get(r["question"], "")}) + "\n")
    return data


def test_broken_gold_steps_are_found_again(paths: Path) -> None:
    tallies = measure(["metaqa"], 6, 0, Settings())["metaqa"]
    assert set(tallies) == set(BREAKS)
    turned = tallies["direction"].figures()
    assert (turned["broken"], turned["failed"], turned["first"]) == (6, 6, 1.0)
    assert 0 < turned["most_queries"] <= Settings().budget
    assert tallies["misspelt"].figures()["first"] == 1.0


def test_the_command_prints_a_table_or_json(paths: Path) -> None:
    run = CliRunner().invoke(app, ["repairs", "--graphs", "metaqa", "--questions", "2", "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["metaqa"]["direction"]["first"] == 1.0
    assert CliRunner().invoke(app, ["repairs", "--graphs", "moon"]).exit_code == 3
    assert CliRunner().invoke(app, ["repairs", "--kg", "metaqa"]).exit_code == 3


@pytest.mark.parametrize(
    ("sparql", "facts"),
    [
        ("SELECT ?x WHERE { wd:Q17 wdt:P36 ?x . }", (("Q17", "P36", "?x"),)),
        (
            "SELECT ?x WHERE { ?y wdt:P17 ?x ; wdt:P31 wd:Q5 . FILTER ( ?x != ?y ) }",
            (("?y", "P31", "Q5"), ("?y", "P17", "?x")),
        ),
        ("SELECT ?x WHERE { wd:Q17 wdt:P36/wdt:P17 ?x . }", ()),
        ("SELECT ?x WHERE { wd:Q17 wdt:P36 ?x . OPTIONAL { ?x wdt:P17 ?y } }", ()),
        ("SELECT ?x WHERE { ?x ?p ?y . }", ()),
    ],
)
def test_gold_facts_are_read_from_flat_queries(
    sparql: str, facts: tuple[tuple[str, str, str], ...], data: Path
) -> None:
    for name, records in (
        ("qald10/test_en", [{"question": Q, "sparql": PREFIXES + sparql}]),
        ("wikiwebquestions/test", []),
    ):
        path = data / f"{name}.jsonl.gz"
        path.parent.mkdir()
        with gzip.open(path, "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in records)
    found = [q.facts for q in gold_questions("wikidata_kg", load_profile("wikidata"))]
    assert found == ([facts] if facts else [])
