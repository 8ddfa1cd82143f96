"""Names of measures, systems and logs in a report, figures as cells, and notes on what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.statistics import Interval, interval_of_seeds
from triplewise.graphs.page import Cell

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: name in logs, heading, unit."""

    name: str
    heading: str
    unit: Literal["percent", "count", "seconds", "dollars"] = "percent"

    def text(self, value: float) -> str:
        """Return a value in the unit's usual number of digits; percent from a share."""
        if math.isnan(value):
            return NOTHING
        digits = {"percent": 1, "count": 1, "seconds": 2, "dollars": 4}[self.unit]
        return f"{self.scale * value:,.{digits}f}" if value or self.unit != "dollars" else "0"

    @property
    def scale(self) -> float:
        """What a value is multiplied with to be in the unit of its text."""
        return 100.0 if self.unit == "percent" else 1.0


_HEADINGS = {
    "f1": "F1",
    "hits_at_1": "Hits@1",
    "exact_match": "EM",
    "substring_hits_at_1": "Substring (lenient)",
    "substring_hits_at_1_single": "Substring, one gold (lenient)",
    "not_found": "Not found %",
    "budget_spent": "Budget spent %",
    "failed_ia": "IA",
    "failed_ea": "EA",
    "failed_ems": "EMS",
    "failed_re": "RE",
    "failed_crashed": "Crashed",
}
"""Of measures that are not called by their name in logs."""
COST = (
    Measure("queries", "Queries (QPQ)", "count"),
    Measure("model_calls", "Model calls", "count"),
    Measure("tokens", "Tokens", "count"),
    Measure("cost", "US$ (CPQ)", "dollars"),
    Measure("seconds", "Seconds (TPQ)", "seconds"),
)
"""What a question takes on average; the figures of QueryAgent's table 4."""
_COUNTS = {one.name: one for one in (*COST, Measure("corrections", "Corrections", "count"))}


def measure(name: str) -> Measure:
    """Return a measure by its name in logs; one that nobody described is taken for a share."""
    return _COUNTS.get(name) or Measure(name, _HEADINGS.get(name, name.replace("_", " ").capitalize()))


def figure(logs: Sequence[Log], of: Measure, *, answerable: bool = False, trivial: bool = True) -> Interval:
    """Return a measure's average over runs of one system that differ in their seed, with its interval."""
    return interval_of_seeds([log.scores(of.name, answerable=answerable, trivial=trivial) for log in logs])


def figure_cell(value: Interval, of: Measure, *, best: bool = False, n: bool = False) -> Cell:
    """Return a figure with its interval, its spread over seeds, and with `n` how many questions it is of."""
    if not value.n:
        return Cell(NOTHING)
    parts = [f"n = {value.n:,}"] if n else []
    if value.seeds > 1:
        parts.append(f"± {value.spread * of.scale:.1f} over {value.seeds} seeds")
    low, high = (end * of.scale if value.known else None for end in (value.low, value.high))
    number = value.mean * of.scale
    return Cell(of.text(value.mean), ", ".join(parts), low=low, high=high, number=number, best=best)


def number_cell(value: float, digits: int = 0, detail: str = "") -> Cell:
    """Return a plain number."""
    return Cell(NOTHING) if math.isnan(value) else Cell(f"{value:,.{digits}f}", detail, number=value)


def groups(logs: Sequence[Log], key: Callable[[Log], Any]) -> dict[Any, list[Log]]:
    """Group logs by a key, in order of first appearance."""
    grouped: dict[Any, list[Log]] = {}
    for log in logs:
        grouped.setdefault(key(log), []).append(log)
    return grouped


def system_labels(logs: Sequence[Log]) -> dict[str, str]:
    """Return path of a log -> its system, with what tells it from others of the same task and system."""
    labels: dict[str, str] = {}
    for (_, system), same in groups(logs, lambda log: (log.name, log.system)).items():
        own = ("n", "sample_seed", "seed")
        features = [
            {
                "model": log.model,
                **log.phases,
                **log.settings,
                **{name: log.arguments.get(name) for name in own},
            }
            for log in same
        ]
        rows = pd.DataFrame(features, dtype=object).fillna("none").map(str)
        apart = rows.loc[:, rows.nunique() > 1]
        if apart.empty and len(same) > 1:  # the code or the day, only where nothing else differs
            apart = pd.DataFrame({"commit": log.commit, "on": log.created} for log in same)
            apart = apart.loc[:, apart.nunique() > 1].iloc[:, :1]
        for log, values in zip(same, apart.to_dict("records"), strict=True):
            words = ", ".join(f"{name}={value}" for name, value in values.items())
            labels[log.path] = f"{system} ({words})" if words else system
    return labels


def run_names(logs: Sequence[Log]) -> dict[str, str]:
    """Return path of a log -> a name that no other log of the report has."""
    systems = system_labels(logs)
    names: dict[str, str] = {}
    for log in logs:
        cell, name = log.cell, f"{log.name}, {systems[log.path]}"
        if cell:
            name = f"{cell['name']}: {cell['row']}, {cell['column']}, seed {log.seed}"
        names[log.path] = f"{name} ({len(names) + 1})" if name in names.values() else name
    return names


def graph_mark(log: Log) -> str:
    """Return what a reader of any figure has to know of the graph, in a few words; "" if nothing."""
    marks = ["partial KG"] * bool(log.about.get("kg_partial"))
    marks += ["some facts made from gold answers"] * bool(log.about.get("kg_gold_derived"))
    return ", ".join(marks)


def graph_note(log: Log) -> str:
    """Return the graph of a log in a sentence or two."""
    about = log.about
    size = f", {about['kg_triples']:,} triples" if about.get("kg_triples") else ""
    note = f"{about.get('kg') or 'an unknown graph'}{size}"
    if about.get("kg_partial"):
        parts = ", ".join(part.replace("_", "-") for part in about.get("kg_parts", ()))
        note += f" (parts: {parts}). It is partial: that it lacks a fact means nothing"
    if about.get("kg_gold_derived"):
        note += ". Some facts were made from gold answers: questions are easier than on the whole graph"
    return f"{note}."


def notes(logs: Sequence[Log]) -> list[str]:
    """Return what no figure may be shown without: graphs, draws, data, model, commit, a line each."""
    graphs = [
        f"{', '.join(dict.fromkeys(log.name for log in same))}: {note}"
        for note, same in groups(logs, graph_note).items()
    ]
    draws = []
    for name, same in groups(logs, lambda log: log.name).items():
        seeds = ", ".join(map(str, sorted({int(log.arguments.get("sample_seed") or 0) for log in same})))
        for total, whole in dict.fromkeys((log.total, log.about.get("drawn_from", 0)) for log in same):
            part = f"{total:,} of {whole:,}, seed {seeds}" if total < whole else f"all {total:,}"
            draws.append(f"{name} {part}")
    sums = [f"{name} {sha[:8]}" for log in logs for name, sha in (log.about.get("data_files") or {}).items()]
    sums += [f"graph {log.about['kg_checksum'][:8]}" for log in logs if log.about.get("kg_checksum")]
    return [
        *graphs,
        f"Questions, drawn at random where limited: {'; '.join(draws)}.",
        f"Data (first digits of sha256): {', '.join(dict.fromkeys(sums))}.",
        model_note(logs),
    ]


def model_note(logs: Sequence[Log]) -> str:
    """Return language model, commit, changed files and unfinished logs."""
    models = {"none (embedded)" if log.model == "embedded" else log.model for log in logs}
    commits = {log.commit for log in logs}
    lines = [f"Language model: {', '.join(sorted(models))}. Code: commit {', '.join(sorted(commits))}."]
    if changed := sorted({name for log in logs for name in log.about.get("changed_files", ())}):
        lines.append(f"Changed files, so no results of the published benchmark: {', '.join(changed)}.")
    for log in logs:
        if not log.finished:
            done = f"{len(log.questions):,} of {log.total:,} questions"
            lines.append(f"UNFINISHED: {log.name}, {log.system}: {done} ({log.status}).")
    return " ".join(lines)
