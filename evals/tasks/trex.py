"""T-REx: slots of Wikipedia abstracts over Wikidata (KILT's form); here over a partial extract of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task

from triplewise.evals.tasks.common import DEFAULT_N, Agent, Linking, with_known
from triplewise.evals.tasks.slots import slot_task

VERSION = 2


@task
def trex(
    linking: Linking = "gold",
    asked: str = "all",
    gold_derived: bool = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "oda",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """T-REx slots (subject [SEP] relation); values are compared by name with the answer and its aliases.

    Args:
        linking: `gold` gives the subject's id, as ToG and ODA do; with `own` the agent links its name.
        asked: `all` slots, those with the asked fact in the graph (`answerable`), or with any fact of the
            subject (`topic`).
        gold_derived: whether the graph holds the facts made from gold answers of other benchmarks.
        file: a file of slots in the place of its slots, in our form or as KILT publishes it.
        n, sample_seed: how many slots are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    return slot_task(
        "trex",
        Agent(preset, model, settings or {}, with_known(phases, linking)),
        version=VERSION,
        linking=linking,
        asked=asked,
        gold_derived=gold_derived,
        file=file,
        n=n,
        sample_seed=sample_seed,
    )
