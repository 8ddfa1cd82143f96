"""What logs are called in a report, and the notes that say what they were measured on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from triplewise.evals.logged import Result

PARTIAL = "partial KG"
GOLD = "some facts made from gold answers"
_SHORT = 7


def groups(results: Sequence[Result], key: Callable[[Result], Any]) -> dict[Any, list[Result]]:
    """Results by a key, in order of first appearance."""
    found: dict[Any, list[Result]] = defaultdict(list)
    for result in results:
        found[key(result)].append(result)
    return dict(found)


def system_labels(results: Sequence[Result]) -> dict[str, str]:
    """Path of a log -> its system, with what tells it from others of the same task and system."""
    found: dict[str, str] = {}
    for same in groups(results, lambda r: (r.name, r.system)).values():
        features = [_features(result) for result in same]
        names = dict.fromkeys(name for one in features for name in one)
        apart = [name for name in names if len({repr(one.get(name)) for one in features}) > 1]
        # The commit and the day tell only what nothing else does.
        own = [name for name in apart if name not in ("commit", "on")] or apart[:1]
        for result, one in zip(same, features, strict=True):
            told = ", ".join(f"{name}={_plain(one.get(name))}" for name in own)
            found[result.path] = f"{result.system} ({told})" if told else result.system
    return found


def run_names(results: Sequence[Result]) -> dict[str, str]:
    """Path of a log -> a name that no other log of the report has."""
    systems = system_labels(results)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for result in results:
        cell = result.cell
        place = f"{cell.name}: {cell.row}, {cell.column}, seed {cell.seed}" if cell else ""
        name = place or f"{result.name}, {systems[result.path]}"
        count, unique = 1, name
        while unique in taken:
            count += 1
            unique = f"{name} ({count})"
        taken.add(unique)
        found[result.path] = unique
    return found


def _features(result: Result) -> dict[str, Any]:
    given = {name: result.arguments.get(name) for name in ("n", "sample_seed", "seed")}
    return {
        "model": result.model,
        **result.phases,
        **result.settings,
        **given,
        "commit": result.about.commit[:_SHORT],
        "on": result.created,
    }


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def graph_mark(result: Result) -> str:
    """What a reader of any figure of this log has to know of its graph, in a few words; "" if nothing."""
    about = result.about
    return ", ".join(word for word, holds in ((PARTIAL, about.partial), (GOLD, about.gold_derived)) if holds)


def notes(results: Sequence[Result]) -> list[str]:
    """What a reader has to know before any figure, a sentence a line; the tables say the rest."""
    marked = groups([r for r in results if graph_mark(r)], graph_mark)
    graphs = [
        f"{_names(same)}: {mark}. That such a graph lacks a fact means nothing"
        + ("; questions are easier than on the whole graph." if GOLD in mark else ".")
        for mark, same in marked.items()
    ]
    return [*graphs, _model_note(results), *_file_notes(results)]


def short_note(results: Sequence[Result]) -> str:
    """What no table may be shown without: graphs, limits, model, commit, in one paragraph."""
    graphs = [
        f"{_names(same)}: {kg or 'unknown graph'}{f' ({mark})' if mark else ''}"
        for (kg, mark), same in groups(results, lambda r: (r.about.kg, graph_mark(r))).items()
    ]
    lines = [f"Graphs: {'; '.join(graphs)}.", _limit_note(results), _model_note(results)]
    return " ".join([*lines, *_file_notes(results)])


def model_note(results: Sequence[Result]) -> str:
    """Language model, commit, and what is not as it should be, for tables whose rows tell graph and limit."""
    return " ".join([_model_note(results), *_file_notes(results)])


def graph_note(result: Result) -> str:
    """The graph of a log in a sentence."""
    about = result.about
    size = f", {about.triples:,} triples" if about.triples else ""
    parts = f" (parts: {', '.join(part.replace('_', '-') for part in about.parts)})" if about.partial else ""
    partial = " It is partial: that it lacks a fact means nothing." if about.partial else ""
    gold = (
        " Its part gold-derived was made from gold answers, which makes questions easier than on the whole "
        "graph."
    )
    return f"{about.kg or 'an unknown graph'}{size}{parts}.{partial}{gold * about.gold_derived}"


def _limit_note(results: Sequence[Result]) -> str:
    told = []
    for (name, total, drawn_from), same in groups(
        results, lambda r: (r.name, r.total, r.about.drawn_from)
    ).items():
        seeds = sorted({int(r.arguments.get("sample_seed") or 0) for r in same})
        of = f"{total:,} of {drawn_from:,}" if total < drawn_from else f"all {total:,}"
        drawn = f", seed {', '.join(map(str, seeds))}" if total < drawn_from else ""
        told.append(f"{name} {of}{drawn}")
    return f"Questions, drawn at random where limited: {'; '.join(told)}."


def _model_note(results: Sequence[Result]) -> str:
    models = {"none (embedded)" if r.model == "embedded" else r.model for r in results}
    commits = {f"{r.about.commit[:_SHORT] or 'unknown'}{' with changes' * r.about.dirty}" for r in results}
    return f"Language model: {', '.join(sorted(models))}. Code: commit {', '.join(sorted(commits))}."


def price_note(results: Sequence[Result]) -> str:
    """By which price table costs are."""
    known = sorted({result.about.prices[:12] for result in results if result.about.prices})
    return f"Costs are by the price table with sha256 {', '.join(known)}." if known else ""


def _file_notes(results: Sequence[Result]) -> list[str]:
    lines = []
    if changed := sorted({name for r in results for name in r.about.changed}):
        lines.append(f"Changed files, so no results of the published benchmark: {', '.join(changed)}.")
    for result in results:
        if not result.finished:
            done = f"{len(result.questions):,} of {result.total:,} questions"
            lines.append(f"UNFINISHED: {result.name}, {result.system}: {done} ({result.status}).")
    return lines


def _names(results: Sequence[Result]) -> str:
    return ", ".join(dict.fromkeys(result.name for result in results))


def budget_note(results: Sequence[Result]) -> str:
    """What a question may take, of which tasks."""
    lines = []
    by_budget = groups(results, _budget_words)
    for words, same in by_budget.items():
        whose = "" if len(by_budget) == 1 else f" of {_names(same)}"
        lines += [f"A question{whose} may take at most {words}."] * bool(words)
    return " ".join(lines)


def _budget_words(result: Result) -> str:
    budgets = result.about.budgets
    told = (f"{value:,} {name.removeprefix('max_').replace('_', ' ')}" for name, value in budgets.items())
    return ", ".join(told)
