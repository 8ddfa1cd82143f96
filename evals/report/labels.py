"""What logs are called in a report, and the notes that say what they were measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from triplewise.evals.logs import Log


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
        features = [
            {
                "model": log.model,
                **log.phases,
                **log.settings,
                **{name: log.arguments.get(name) for name in ("n", "sample_seed", "seed")},
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
    marks = {
        "partial KG": log.about.get("kg_partial"),
        "some facts made from gold answers": log.about.get("kg_gold_derived"),
    }
    return ", ".join(words for words, holds in marks.items() if holds)


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
