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

TITLE, NOTHING = "Evaluation report", "–"
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
    """A row as printed, unique in its table, with its model and paper (`origin`).

    `values`: column -> metric -> value, in the table's unit.
    """

    row: str
    origin: str
    values: Mapping[str, Mapping[str, float]]
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


def markdown(
    logs: Sequence[Log], title: str = TITLE, lead: Sequence[str] = (), *, tasks: bool = False
) -> str:
    """Return a report as Markdown, `lead` before its notes; with `tasks` a list of what was measured."""
    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    days, asked = sorted({log.created[:10] for log in logs}), sum(len(log.questions) for log in logs)
    size = f"{asked:,} questions, {len(logs)} runs of {len({log.task for log in logs})} tasks"
    about = f"{size}, {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["escaped"] = _escaped
    template = files("triplewise.evals.report") / "report.md.jinja"
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title, lead=[about, *lead, *notes(ordered)],
        tables=[table if len(table.rows) > TURNED else _turned(table) for table in report_tables(ordered)],
        tasks={log.name: log for log in reversed(ordered)} if tasks else {},
    )  # fmt: skip


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


def _turned(table: Table) -> Table:
    """Return a table with its columns as rows: one of few rows is wider than most terminals."""
    head, *rows = zip(table.columns, *table.rows, strict=True)
    return table._replace(columns=head, rows=rows)


def report_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of a report: of grids, of systems by task, and what corrected."""
    tables: list[Table] = []
    for _, same in _groups([log for log in logs if log.cell], lambda log: log.cell["name"]):
        cell, printed = same[0].cell, published().get(str(same[0].cell.get("table")))
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
    taken, notes_of = list(map(measure, MEASURES["cost"])), MEASURES["notes"]
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
        costs.append([*head, *(of.text(log.mean(of.name)) for of in taken), f"{len(log.crashed):,}"])
    wrong = "Percent, averaged over questions; a question that crashed counts as wrong."
    note = f"{wrong} {INTERVALS} {notes_of['answers']}"
    heads = ["Task", "System", "Model"]
    columns = [*heads, "Questions", *(m.heading for m in scored), "Answerable only", "Answerable %"]
    families = [
        (name, measure(same[0].metric), [(labels[log.path], log.scores(same[0].metric)) for log in same])
        for name, same in _groups(logs, lambda log: log.name)
    ]
    return [
        Table("Answers by task and system", columns, answers, note),
        Table(
            "Cost of a question", [*heads, *(m.heading for m in taken), "Crashes"], costs, notes_of["cost"]
        ),
        comparison_table("Differences between systems", "Task", families),
    ]


Family = tuple[str, Measure, Sequence[tuple[str, Scores]]]  # a task or column, its measure, systems' scores


def comparison_table(title: str, where: str, families: Iterable[Family]) -> Table:
    """Return systems paired with the first one by question."""
    rows = []
    for name, of, systems in families:
        (first, base), *others = systems
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


def cell_tables(title: str, logs: Sequence[Log], table: PublishedTable | None) -> list[Table]:
    """Return figures by row and column, published ones next to ours, and our rows compared by column.

    A row of ours stands there once for each model that it was run with.
    """
    printed, cell = table.columns if table else {}, logs[0].cell
    runs = {((log.cell["row"], log.model), log.cell["column"]): log for log in logs}  # the newest of each
    columns: list[tuple[str, Measure, str]] = []  # name, measure, and that one's name in the published table
    for name in dict.fromkeys([*printed, *(cell.get("columns") or ()), *(column for _, column in runs)]):
        theirs = {ours: metric for metric, ours in printed[name]["ours"].items()} if name in printed else {}
        ours = [metric for log in logs if log.cell["column"] == name for metric in log.cell["metrics"]]
        columns += [(name, measure(m), theirs.get(m, "")) for m in dict.fromkeys([*theirs, *ours])]
    ran = sorted(dict.fromkeys(place for place, _ in runs), key=lambda place: place[1])
    order = [*(table.rows if table else ()), *(cell.get("rows") or ()), *(row for row, _ in ran)]
    rows, remarks = list[list[str]](), dict[str, None]()
    for row in dict.fromkeys(order):
        for place in (place for place in ran if place[0] == row):
            own = {name: log for (at, name), log in runs.items() if at == place}
            one, figures = next(iter(own.values())), list[str]()
            for name, of, _ in columns:
                if name in own:
                    scores = own[name].scores(of.name)
                    figures.append(of.cell(scores, f"n = {len(scores):,}", mark(own[name])))
                else:
                    figures.append(NOTHING)
            head = _cell(row, one.cell.get("group") or "")
            rows.append([head, _cell("ours", f"{one.system}, {one.model}"), *figures])
            remarks |= {f"{row}, ours: {one.cell['note']}.": None} if one.cell.get("note") else {}
        if table and row in table.rows:
            printed_row = table.rows[row]
            figures = [printed_row.figure(name, metric) for name, _, metric in columns]
            head = _cell(row, printed_row.group, mark="*")
            rows.append([head, printed_row.origin, *figures])
            remarks |= {f"{row}, published: {printed_row.note}.": None} if printed_row.note else {}
    families: list[Family] = []
    for name, of in {name: of for name, of, _ in reversed(columns)}.items():  # its first measure
        scored = [(place, runs[place, name].scores(of.name)) for place in ran if (place, name) in runs]
        scored.sort(key=lambda pair: order.index(pair[0][0]))
        several = len({model for (_, model), _ in scored}) > 1
        named = [(f"{row}, {model}" if several else row, own) for (row, model), own in scored if len(own)]
        families[:0] = [(name, of, named)] if named else []
    single = len({of for _, of, _ in columns}) == 1
    heads = _cells(*(name if single else f"{name} {of.heading}" for name, of, _ in columns))
    note = " ".join([_grid_note(logs, table), f"Ours: {INTERVALS}", *remarks])
    compared = comparison_table(f"{title}: differences between rows", "Column", families)
    return [Table(title, ["Method", "Figures", *heads], rows, note), compared]


def guideline_table(title: str, logs: Sequence[Log], table: PublishedTable | None, *, top: bool) -> Table:
    """Return the guidelines that fired most (`top`), or all by source, then the published rows."""
    fired = Counter(name for log in logs for names in log.questions["guidelines"] for name in names)
    parts = {one.id: str(one.source).split("+") for one in load_guidelines()}
    sources = {name: "+".join(ENVIRONMENTS.get(part, part) for part in own) for name, own in parts.items()}
    ours = [(n, sources.get(n, "unknown"), 1, times) for n, times in fired.most_common(TOP_GUIDELINES)]
    if not top:
        of = {source: [name for name in sources if sources[name] == source] for source in sources.values()}
        ours = [(source, source, len(own), sum(fired[name] for name in own)) for source, own in of.items()]
    rows = [_cells(name, "ours", source, f"{number:,}", f"{times:,}") for name, source, number, times in ours]
    for row in table.rows.values() if table is not None else ():
        (column,), (name, source) = row.values, _cells(row.row, row.group or row.row, mark="*")
        figures = (row.figure(column, metric) for metric in ("number", "triggers"))
        rows.append([name, row.origin, source, *figures])
    note = f"{_grid_note(logs, table)} Corrections of {sum(len(log.questions) for log in logs):,} questions."
    return Table(title, ["Guideline", "Whose", "Feedback from", "Guidelines", "Triggered"], rows, note)


def _grid_note(logs: Sequence[Log], table: PublishedTable | None) -> str:
    """Whose figures a grid's table shows, and the grid's own notes."""
    lines = " ".join(dict.fromkeys(" ".join(str(log.cell.get("notes") or "").split()) for log in logs))
    if not table:
        return lines
    about, of = " ".join(table.note.split()).rstrip("."), table.source
    return (
        f"Rows in italics are figures of {of['title']} ({of['venue']}, {of['date']}), {table.place}, "
        f"in {table.unit}: {about}. They are other models, other samples and other graphs than ours: no "
        f"comparison of systems. {lines}"
    )


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


def notes(logs: Sequence[Log]) -> list[str]:
    """Return what no figure may be shown without: graphs, draws, data, model, commit, a line each."""
    graphs = dict[str, dict[str, None]]()
    draws, sums, changed, ends = dict[str, None](), dict[str, None](), set[str](), list[str]()
    for log in logs:
        about, name = log.about, f"{log.name}, {log.system}"
        graph = str(about.get("kg") or "an unknown graph")
        graph += f", {about['kg_triples']:,} triples" if about.get("kg_triples") else ""
        if about.get("kg_partial"):
            parts = ", ".join(part.replace("_", "-") for part in about.get("kg_parts", ()))
            graph += f" (parts: {parts}). It is partial: that it lacks a fact means nothing"
        if about.get("kg_gold_derived"):
            graph += ". Some facts were made from gold answers: questions are easier than on the whole graph"
        graphs.setdefault(graph, dict[str, None]())[log.name] = None
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
    return [
        *(f"{', '.join(asked)}: {graph}." for graph, asked in graphs.items()),
        f"Questions, drawn at random where limited: {'; '.join(draws)}.",
        f"Data (first digits of sha256): {', '.join(sums)}.",
        f"Language model: {', '.join(models)}. Code: commit {', '.join(sorted({x.commit for x in logs}))}.",
        *ends,
    ]
