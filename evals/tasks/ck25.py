"""CK25: questions of a company over its own knowledge graph, which is complete (TEXT2SPARQL challenge)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.formats import with_results
from triplewise.evals.rows import GOLD_ROWS, rows
from triplewise.evals.scorers import accuracy
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Questions,
    build_task,
    records_of,
    tags,
    the_graph,
)
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph

VERSION = 1
FILE = "ck25/questions.jsonl.gz"
NOTE = (
    "a gold result of several columns is compared row by row with the whole result of the answer's query: a "
    "row is right if all its cells are, whatever the columns are called and in whichever order they stand; "
    "the order of rows is not compared; the graph's profile is inferred"
)


@task
def ck25(
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """CK25 questions; answers are rows of ids and literals, or true and false. The agent links.

    Args:
        file: a file of questions in the place of its questions, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    own = benchmark("ck25")
    tested = Agent(preset, model, settings or {}, phases or {})
    kg = the_graph(own, tested.settings)
    return build_task(
        own,
        _questions(kg.open(), file),
        tested,
        version=VERSION,
        scorers=[rows(), accuracy()],
        kg=kg,
        n=n,
        sample_seed=sample_seed,
    )


def _questions(kg: KnowledgeGraph, given: str | None) -> Questions:
    records, file = records_of(benchmark("ck25"), FILE, given, "id", "question", "sparql")
    if any("result_rows" not in record for record in records):  # as published: queries without results
        records = with_results(records, kg)
    samples = [_sample(record, kg.profile) for record in records]
    return Questions(samples, len(samples), len(samples), [file], NOTE)


def _sample(record: Record, profile: Profile) -> Sample:
    result, columns = record["result_rows"], record["result_columns"] or []
    gold = [] if isinstance(result, bool) else [_cells(row, profile) for row in result]
    functions = [str(f).lower() for f in record.get("features", ()) if f not in ("SELECT", "ASK")]
    kind = "yes/no" if isinstance(result, bool) else "table" if len(columns) > 1 else "column"
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(result).lower()] if isinstance(result, bool) else [", ".join(row) for row in gold],
        metadata={
            "entities": {},
            GOLD_ROWS: gold,
            "tags": tags(type=kind, function=" ".join(functions) or "none"),
        },
    )


def _cells(row: Sequence[str | None], profile: Profile) -> list[str]:
    """A row of SPARQL results as answers are written: short ids, values, "" for what is unbound."""
    return [_cell(value, profile) if value is not None else "" for value in row]


def _cell(value: str, profile: Profile) -> str:
    return profile.short(IRI(value)) if value.startswith(("http://", "https://")) else value
