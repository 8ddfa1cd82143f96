"""Reports of logs in Markdown: systems by task, and grids laid out as the papers' tables next to ours."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from triplewise.evals import statistics
from triplewise.evals.logs import MEASURES, QUALITY, Log
from triplewise.evals.statistics import Scores
from triplewise.guidelines import load_guidelines
from triplewise.tools.core.files import packaged

NOTHING = "–"
TURNED = 3  # tables of so many rows or fewer are turned: their columns become rows
_FIGURE = re.compile(r"\**[-+<]? ?[\d.,]+\**(?: \(|$)")
"""How the cells of columns begin that stand right."""
_MARKS = re.compile(r"[\\|*`\[\]]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for a mark; an underscore within a word it does not."""
INTERVALS = (
    f"Ranges are {statistics.LEVEL:.0%} confidence intervals over questions (bootstrap, "
    f"{statistics.RESAMPLES:,} resamples; exact binomial where all are right or all wrong)."
)
SHOWN, TOP_GUIDELINES = 160, 10
ENVIRONMENTS = {"kb": "KB", "interpreter": "Python", "memory": "RM"}  # ours -> QueryAgent's (table 8)


class Table(NamedTuple):
    """A table whose heads and cells are Markdown; `note` stands under it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def rule(self) -> str:
        """The line under its heads: columns of figures stand right."""
        columns = zip(*self.rows, strict=True)
        return "|".join("---:" if any(map(_FIGURE.match, column)) else "---" for column in columns)


class PublishedRow(NamedTuple):
    """A row as printed, unique in its table, with its model and paper (`origin`)."""

    row: str
    origin: str
    values: Mapping[str, Mapping[str, float]]  # column -> metric -> value, in the table's unit
    group: str = ""
    note: str = ""

    def figure(self, column: str, metric: str) -> str:
        """Return one of its figures as a cell."""
        value = self.values.get(column, {}).get(metric)
        return NOTHING if value is None else _cell(f"{value:g}", mark="*")


class PublishedTable(NamedTuple):
    """A published table; columns have `ours`: published metric -> our measure, and the `task` of ours."""

    title: str
    source: Mapping[str, str]
    place: str
    model: str
    unit: str
    metrics: Sequence[str]
    note: str
    columns: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, PublishedRow]


NO_TABLE = PublishedTable("", {}, "", "", "", (), "", {}, {})  # of a grid that is laid out like none


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    content, tables = packaged("triplewise.evals", "report/published.yaml"), {}
    for key, table in content["tables"].items():
        metrics, rows, source = table["metrics"], {}, content["sources"][table["source"]]
        for row in table["rows"]:
            plain = {c: v if isinstance(v, dict) else {metrics[0]: v} for c, v in row["values"].items()}
            about = f"{row.pop('model', table['model'])}, {source['venue']}, {source['date']}"
            own = {**row, "origin": _cell("published", about, mark="*"), "values": plain}
            rows[row["row"]] = PublishedRow(**own)
        same = {metric: metric for metric in metrics}
        columns = {c["column"]: {**c, "ours": same | c.get("ours", {})} for c in table["columns"]}
        tables[key] = PublishedTable(**{**table, "source": source, "columns": columns, "rows": rows})
    return tables


class Measure(NamedTuple):
    """What is measured: its name in logs, its heading, decimals, and what a value is multiplied with."""

    name: str
    heading: str
    digits: int = 1
    scale: float = 100.0

    def text(self, value: float) -> str:
        """Return a value in the unit of its heading; percent from a share."""
        return NOTHING if math.isnan(value) else f"{self.scale * value:,.{self.digits if value else 0}f}"

    def cell(self, scores: Scores, *details: str) -> str:
        """Return the average of some scores with its interval and `details` behind it."""
        found = statistics.interval(scores)
        ends = f"{self.text(found.low)}–{self.text(found.high)}" if found.known else ""
        return _cell(self.text(found.mean), ends, *details) if found.n else NOTHING


def measure(name: str) -> Measure:
    """Return a measure by its name in logs; one that nobody described is taken for a share."""
    parts = (MEASURES[part] for part in ("cost", "quality", "failures"))
    known: Mapping[str, Any] = next((own[name] for own in parts if name in own), {})
    about = {key: known[key] for key in ("digits", "scale") if key in known}
    return Measure(name, known.get("heading") or name.replace("_", " ").capitalize(), **about)


def markdown(logs: Sequence[Log]) -> str:
    """Return a report as Markdown."""
    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    days, asked = sorted({log.created[:10] for log in logs}), sum(len(log.questions) for log in logs)
    size = f"{asked:,} questions, {len(logs)} runs of {len({log.task for log in logs})} tasks"
    about = f"{size}, {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["escaped"] = _escaped
    template = files("triplewise.evals.report") / "report.md.jinja"
    tables = report_tables(ordered)
    for i, table in enumerate(tables):
        if len(table.rows) <= TURNED:  # columns become rows: a table of few rows is wider than most terminals
            columns, *rows = zip(table.columns, *table.rows, strict=True)
            tables[i] = table._replace(columns=columns, rows=rows)
    written = environment.from_string(template.read_text(encoding="utf-8"))
    return written.render(lead=[about, *notes(ordered)], tables=tables)


def _escaped(text: object) -> str:
    """Return text that Markdown and HTML leave as it is."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _cell(text: object, *details: str, mark: str = "") -> str:
    """Return a cell: a text, set off by `mark` where there is one, and details in brackets."""
    marked, more = f"{mark}{_escaped(text)}{mark}", ", ".join(filter(None, details))
    return f"{marked} ({_escaped(more)})" if more else marked


def _cells(*texts: object, mark: str = "") -> list[str]:
    return [_cell(text, mark=mark) for text in texts]


def report_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of a report: of grids, of systems by task, and what corrected."""
    tables: list[Table] = []
    for _, same in _groups([log for log in logs if log.cell], lambda log: log.cell["name"]):
        cell, printed = same[0].cell, published().get(str(same[0].cell.get("table")), NO_TABLE)
        title, layout = str(cell.get("title") or cell["name"]), str(cell.get("layout"))
        if layout == "tasks":
            tables += task_tables(same)
        elif layout == "cells":
            tables += cell_tables(title, same, printed)
        else:
            tables.append(guideline_table(title, same, printed, top=layout == "guidelines"))
    tables += task_tables([log for log in logs if not log.cell])
    return [table for table in tables if table.rows]


def task_tables(logs: Sequence[Log]) -> list[Table]:
    """Return the tables of logs by task: answers, cost, and systems compared with the first."""
    logs = sorted(logs, key=lambda log: (log.name, log.system, log.created))
    labels, answers, costs = system_labels(logs), [], []
    scored = [measure(name) for name in QUALITY if any(name in log.questions for log in logs)]
    used, notes_of = list(map(measure, MEASURES["cost"])), MEASURES["notes"]
    for log in logs:
        main, count, whole = measure(log.metric), len(log.questions), log.about.get("drawn_from") or 0
        head = [_cell(log.name, mark(log)), *_cells(labels[log.path], log.model)]
        judged, part = log.about.get("asked") or 0, log.scores(main.name, answerable=True)
        answers.append([
            *head,
            _cell(f"{count:,}", f"of {whole:,}" if count < whole else "all"),
            *(m.cell(log.scores(m.name)) for m in scored),
            main.cell(part, f"{main.heading}, n = {len(part):,}"),
            _cell(f"{100 * log.about['answerable'] / judged:.1f}", f"of {judged:,}") if judged else NOTHING,
        ])  # fmt: skip
        costs.append([*head, *(of.text(log.mean(of.name)) for of in used), f"{len(log.crashed):,}"])
    wrong = "Percent, averaged over questions; a question that crashed counts as wrong."
    note = f"{wrong} {INTERVALS} {notes_of['answers']}"
    heads = ["Task", "System", "Model"]
    columns = [*heads, "Questions", *(m.heading for m in scored), "Answerable only", "Answerable %"]
    by_task = [(name, same[0].metric, same) for name, same in _groups(logs, lambda log: log.name)]
    return [
        Table("Answers by task and system", columns, answers, note),
        Table("Cost of a question", [*heads, *(m.heading for m in used), "Crashes"], costs, notes_of["cost"]),
        comparison_table("Differences between systems", "Task", by_task, labels),
    ]


def comparison_table(
    title: str, where: str, groups: Iterable[tuple[str, str, Sequence[Log]]], labels: Mapping[str, str]
) -> Table:
    """Return the logs of a task or column (name, measure, logs) paired with the first one by question."""
    rows = []
    for name, metric, logs in groups:
        of, scored = measure(metric), [(labels[log.path], log.scores(metric)) for log in logs]
        (first, base), *others = [pair for pair in scored if len(pair[1])] or [("", scored[0][1])]
        for label, own in others:
            if not len(base.index.intersection(own.index)):
                continue
            found = statistics.difference(base, own)
            mean, low, high = (end * of.scale for end in found[:3])
            unpaired = len(set(base.index) ^ set(own.index))
            rows.append([
                *_cells(name, first, label, of.heading),
                _cell(f"{found.n:,}", f"{unpaired} asked of one only" if unpaired else ""),
                _cell(f"{mean:+.1f}", mark="**" * (found.known and low * high > 0)),
                f"{low:+.1f} to {high:+.1f}" if found.known else NOTHING,
            ])  # fmt: skip
    columns = [where, "First", "Second", "Measure", "Pairs", "First minus second", "95% interval"]
    note = "Only questions that both were asked; percentage points, bold where 0 is outside of the interval."
    return Table(title, columns, rows, note)


def cell_tables(title: str, logs: Sequence[Log], table: PublishedTable) -> list[Table]:
    """Return figures by row (and model) and column, published ones next to ours, and our rows compared."""
    cell, rows, remarks = logs[0].cell, list[list[str]](), list[str]()
    newest = {(log.cell["row"], log.model, log.cell["column"]): log for log in logs}
    order = [*table.rows, *(cell.get("rows") or ()), *(row for row, _, _ in newest)]
    ours = sorted(newest.values(), key=lambda log: (order.index(log.cell["row"]), log.model))
    columns, by_column = grid_columns(ours, table)
    lines = _groups(ours, lambda log: (log.cell["row"], log.model))
    for row in dict.fromkeys(order):
        for line in (same for (own, _), same in lines if own == row):
            rows.append(_our_row(line, columns))
            remarks += [f"{row}, ours: {note}."] if (note := line[0].cell.get("note")) else []
        if of_paper := table.rows.get(row):
            figures = [of_paper.figure(name, metric) for name, _, metric in columns]
            rows.append([_cell(row, of_paper.group, mark="*"), of_paper.origin, *figures])
            remarks += [f"{row}, published: {of_paper.note}."] if of_paper.note else []
    several = len({log.model for log in ours}) > 1
    labels = {log.path: f"{log.cell['row']}{f', {log.model}' * several}" for log in ours}
    single = len({of for _, of, _ in columns}) == 1
    heads = _cells(*(name if single else f"{name} {of.heading}" for name, of, _ in columns))
    note = " ".join([_grid_note(table), f"Ours: {INTERVALS}", *dict.fromkeys(remarks)])
    compared = comparison_table(f"{title}: differences between rows", "Column", by_column, labels)
    return [Table(title, ["Method", "Figures", *heads], rows, note), compared]


def grid_columns(
    ours: Sequence[Log], table: PublishedTable
) -> tuple[list[tuple[str, Measure, str]], list[tuple[str, str, Sequence[Log]]]]:
    """Return columns (name, measure, the published name of it), and those with logs (main measure, logs)."""
    columns, by_column = list[tuple[str, Measure, str]](), list[tuple[str, str, Sequence[Log]]]()
    given = (*(ours[0].cell.get("columns") or ()), *(log.cell["column"] for log in ours))
    for name in dict.fromkeys([*table.columns, *given]):
        theirs = {ours: metric for metric, ours in table.columns.get(name, {"ours": {}})["ours"].items()}
        own = [log for log in ours if log.cell["column"] == name]
        metrics = list(dict.fromkeys([*theirs, *(metric for log in own for metric in log.cell["metrics"])]))
        columns += [(name, measure(metric), theirs.get(metric, "")) for metric in metrics]
        by_column += [(name, metrics[0], own)] if own else []
    return columns, by_column


def _our_row(line: Sequence[Log], columns: Iterable[tuple[str, Measure, str]]) -> list[str]:
    """Return the cells of a row of ours that was run with one model."""
    at, first = {log.cell["column"]: log for log in line}, line[0]
    head = _cell(first.cell["row"], first.cell.get("group") or "")
    cells = [head, _cell("ours", f"{first.system}, {first.model}")]
    for name, of, _ in columns:
        scores = at[name].scores(of.name) if name in at else []
        cells.append(of.cell(scores, f"n = {len(scores):,}", mark(at[name])) if name in at else NOTHING)
    return cells


def guideline_table(title: str, logs: Sequence[Log], table: PublishedTable, *, top: bool) -> Table:
    """Return the guidelines that fired most (`top`), or all by source, then the published rows."""
    fired = Counter(name for log in logs for names in log.questions["guidelines"] for name in names)
    parts = {one.id: str(one.source).split("+") for one in load_guidelines()}
    sources = {name: "+".join(ENVIRONMENTS.get(part, part) for part in own) for name, own in parts.items()}
    ours = [(n, sources.get(n, "unknown"), 1, times) for n, times in fired.most_common(TOP_GUIDELINES)]
    if not top:
        of = {source: [name for name in sources if sources[name] == source] for source in sources.values()}
        ours = [(source, source, len(own), sum(fired[name] for name in own)) for source, own in of.items()]
    rows = [_cells(name, "ours", source, f"{number:,}", f"{times:,}") for name, source, number, times in ours]
    for row in table.rows.values():
        (column,), (name, source) = row.values, _cells(row.row, row.group or row.row, mark="*")
        figures = (row.figure(column, metric) for metric in ("number", "triggers"))
        rows.append([name, row.origin, source, *figures])
    note = f"{_grid_note(table)} Corrections of {sum(len(log.questions) for log in logs):,} questions."
    return Table(title, ["Guideline", "Whose", "Feedback from", "Guidelines", "Triggered"], rows, note)


def _grid_note(table: PublishedTable) -> str:
    """Whose figures a grid's table shows."""
    if table is NO_TABLE:
        return ""
    about = {"place": table.place, "unit": table.unit, "note": " ".join(table.note.split()).rstrip(".")}
    return str(MEASURES["notes"]["published"].format(**table.source, **about))


def _groups(logs: Sequence[Log], key: Callable[[Log], Any]) -> list[tuple[Any, list[Log]]]:
    """Logs by a key, in order of first appearance."""
    return [(k, [log for log in logs if key(log) == k]) for k in dict.fromkeys(map(key, logs))]


def system_labels(logs: Sequence[Log]) -> dict[str, str]:
    """Return path of a log -> its system, with what distinguishes it from others of its task and system."""
    labels: dict[str, str] = {}
    for (_, system), same in _groups(logs, lambda log: (log.name, log.system)):
        features = []
        for log in same:
            draw = {name: log.arguments.get(name) for name in ("n", "sample_seed", "seed")}
            features.append({"model": log.model, **log.swapped, **draw, "commit": log.commit})
        keys = dict.fromkeys(key for one in features for key in one)
        differing = [key for key in keys if len({str(one.get(key)) for one in features}) > 1]
        for log, one in zip(same, features, strict=True):
            words = ", ".join(f"{n}={'none' if one.get(n) is None else one[n]}" for n in differing)
            labels[log.path] = f"{system} ({words})" if words else system
    return labels


def mark(log: Log) -> str:
    """Return what a reader of any figure has to know of its graph and run, in a few words; "" if nothing."""
    marks = ["partial KG"] * bool(log.about.get("kg_partial"))
    marks += ["some facts made from gold answers"] * bool(log.about.get("kg_gold_derived"))
    return ", ".join([*marks, *["UNFINISHED"] * (not log.finished)])


def _graph_note(about: Mapping[str, Any]) -> str:
    """Return what has to be known of the graph of a log, from the metadata of its task."""
    graph = str(about.get("kg") or "an unknown graph")
    graph += f", {about['kg_triples']:,} triples" if about.get("kg_triples") else ""
    if about.get("kg_partial"):
        parts = ", ".join(part.replace("_", "-") for part in about.get("kg_parts", ()))
        graph += f" (parts: {parts}). It is partial: that it lacks a fact means nothing"
    if about.get("kg_gold_derived"):
        graph += ". Some facts were made from gold answers: questions are easier than on the whole graph"
    return graph


def notes(logs: Sequence[Log]) -> list[str]:
    """Return what no figure may be shown without: graphs, draws, data, model, commit, a line each."""
    graphs = dict[str, dict[str, None]]()
    draws, sums, changed, ends = dict[str, None](), dict[str, None](), set[str](), list[str]()
    for log in logs:
        about, name = log.about, f"{log.name}, {log.system}"
        graphs.setdefault(_graph_note(about), dict[str, None]())[log.name] = None
        whole, seed = about.get("drawn_from", 0), log.arguments.get("sample_seed") or 0
        part = f"{log.total:,} of {whole:,}, seed {seed}" if log.total < whole else f"all {log.total:,}"
        draws[f"{log.name} {part}"] = None
        named = {**(about.get("data_files") or {}), "graph": about.get("kg_checksum")}
        sums |= {f"{file} {sum_[:8]}": None for file, sum_ in named.items() if sum_}
        changed |= set(about.get("changed_files", ()))
        if len(log.crashed):
            first = [f"{id_}: {' '.join(why.split())[:SHOWN]}" for id_, why in log.crashed["error"].items()]
            ends.append(f"CRASHED, and counted as wrong: {name}: {'; '.join(first)}.")
        if not log.finished:
            ends.append(f"UNFINISHED: {name}: {len(log.questions):,} of {log.total:,} ({log.status}).")
    models = sorted({"none (embedded)" if log.model == "embedded" else log.model for log in logs})
    if changed:
        altered = ", ".join(sorted(changed))
        ends.insert(0, f"Changed files, so no results of the published benchmark: {altered}.")
    own = dict.fromkeys(line for log in logs for line in str(log.cell.get("notes") or "").splitlines())
    return [
        *own,
        *(f"{', '.join(asked)}: {graph}." for graph, asked in graphs.items()),
        f"Questions, drawn at random where limited: {'; '.join(draws)}.",
        f"Data (first digits of sha256): {', '.join(sums)}.",
        f"Language model: {', '.join(models)}. Code: commit {', '.join(sorted({x.commit for x in logs}))}.",
        *ends,
    ]
