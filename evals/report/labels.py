"""What logs are called in a report, and the notes that say what they were measured on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from triplewise.evals.logs import Log

PARTIAL = "partial KG"
GOLD = "some facts made from gold answers"
_SHORT = 7


def groups(logs: Sequence[Log], key: Callable[[Log], Any]) -> dict[Any, list[Log]]:
    """Group logs by a key, in order of first appearance."""
    grouped: dict[Any, list[Log]] = {}
    for value, some in groupby(logs, key):
        grouped.setdefault(value, []).extend(some)
    return grouped


def system_labels(logs: Sequence[Log]) -> dict[str, str]:
    """Return path of a log -> its system, with what tells it from others of the same task and system."""
    labels: dict[str, str] = {}
    for (_, system), same in groups(logs, lambda log: (log.name, log.system)).items():
        rows = [
            {
                "model": log.model,
                **log.phases,
                **log.settings,
                **{name: log.arguments.get(name) for name in ("n", "sample_seed", "seed")},
                "commit": log.commit[:_SHORT],
                "on": log.created,
            }
            for log in same
        ]
        features = pd.DataFrame(rows, dtype=object)
        features = features.where(features.notna(), None).map(
            lambda value: str(value).lower() if isinstance(value, bool | None) else str(value)
        )
        apart = [name for name in features if features[name].nunique() > 1]
        # The commit and the day are named only where nothing else differs.
        own = [name for name in apart if name not in ("commit", "on")] or apart[:1]
        for log, (_, values) in zip(same, features[own].iterrows(), strict=True):
            words = ", ".join(f"{name}={value}" for name, value in values.items())
            labels[log.path] = f"{system} ({words})" if words else system
    return labels


def run_names(logs: Sequence[Log]) -> dict[str, str]:
    """Return path of a log -> a name that no other log of the report has."""
    systems = system_labels(logs)
    names: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for log in logs:
        cell = log.cell
        place = f"{cell['name']}: {cell['row']}, {cell['column']}, seed {log.seed}" if cell else ""
        name = place or f"{log.name}, {systems[log.path]}"
        taken[name] += 1
        names[log.path] = name if taken[name] == 1 else f"{name} ({taken[name]})"
    return names


def graph_mark(log: Log) -> str:
    """Return what a reader of any figure has to know of the graph, in a few words; "" if nothing."""
    return ", ".join(words for words, holds in ((PARTIAL, log.partial), (GOLD, log.gold_derived)) if holds)


def graph_note(log: Log) -> str:
    """Return the graph of a log in a sentence or two."""
    about = log.about
    size = f", {about['kg_triples']:,} triples" if about.get("kg_triples") else ""
    note = f"{about.get('kg') or 'an unknown graph'}{size}."
    if log.partial:
        parts = ", ".join(part.replace("_", "-") for part in about.get("kg_parts", ()))
        note = f"{note[:-1]} (parts: {parts}). It is partial: that it lacks a fact means nothing."
    if log.gold_derived:
        note += " Its part gold-derived was made from gold answers: questions are easier than on all of it."
    return note


def notes(logs: Sequence[Log]) -> list[str]:
    """Return what no figure may be shown without: graphs, draws, model, commit, a line each."""
    graphs = []
    for (kg, mark), same in groups(logs, lambda log: (log.about.get("kg"), graph_mark(log))).items():
        names = ", ".join(dict.fromkeys(log.name for log in same))
        partial = " That such a graph lacks a fact means nothing" if mark else ""
        easier = "; questions are easier than on the whole graph" if GOLD in mark else ""
        line = f"{names}: {kg or 'unknown graph'}{f' ({mark})' if mark else ''}."
        graphs.append(f"{line}{partial}{easier}{'.' if mark else ''}")
    draws = []
    for name, same in groups(logs, lambda log: log.name).items():
        seeds = ", ".join(map(str, sorted({int(log.arguments.get("sample_seed") or 0) for log in same})))
        for total, whole in dict.fromkeys((log.total, log.about.get("drawn_from", 0)) for log in same):
            part = f"{total:,} of {whole:,}, seed {seeds}" if total < whole else f"all {total:,}"
            draws.append(f"{name} {part}")
    return [*graphs, f"Questions, drawn at random where limited: {'; '.join(draws)}.", model_note(logs)]


def model_note(logs: Sequence[Log]) -> str:
    """Return language model, commit, changed files and unfinished logs."""
    models = {"none (embedded)" if log.model == "embedded" else log.model for log in logs}
    commits = {f"{log.commit[:_SHORT] or 'unknown'}{' with changes' * log.dirty}" for log in logs}
    lines = [
        f"Language model: {', '.join(sorted(models))}. Code: commit {', '.join(sorted(commits))}.",
    ]
    if changed := sorted({name for log in logs for name in log.about.get("changed_files", ())}):
        lines.append(f"Changed files, so no results of the published benchmark: {', '.join(changed)}.")
    for log in logs:
        if not log.finished:
            done = f"{len(log.questions):,} of {log.total:,} questions"
            lines.append(f"UNFINISHED: {log.name}, {log.system}: {done} ({log.header.status}).")
    return " ".join(lines)


def price_note(logs: Sequence[Log]) -> str:
    """Return by which price table costs are."""
    known = sorted({str(log.about["prices_sha256"])[:12] for log in logs if log.about.get("prices_sha256")})
    return f"Costs are by the price table with sha256 {', '.join(known)}." if known else ""


def budget_note(logs: Sequence[Log]) -> str:
    """Return what a question may take, of which tasks."""

    def words(log: Log) -> str:
        parts = (f"{value:,} {n.removeprefix('max_').replace('_', ' ')}" for n, value in log.budgets.items())
        return ", ".join(parts)

    names = {
        budget: f" of {', '.join(dict.fromkeys(log.name for log in same))}"
        for budget, same in groups(logs, words).items()
    }
    return " ".join(
        f"A question{of if len(names) > 1 else ''} may take at most {budget}."
        for budget, of in names.items()
        if budget
    )
