"""Tables of what happened inside runs: why questions failed, which guidelines fired, and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from triplewise.evals.logged import Result
from triplewise.evals.report.labels import short_note
from triplewise.evals.report.measures import NOTHING
from triplewise.evals.report.published import PublishedTable
from triplewise.graphs.page.model import Cell, Table

TOP = 10
"""Guidelines that a table shows, those that fired most."""
FAILURES = {
    "IA": ("invalid_action",),
    "EA": ("argument_error",),
    "EMS": ("exceeded_steps",),
    "RE": ("reasoning_error", "not_found"),
}
"""SymAgent's classes of failed questions (table 5) -> ours; nothing found is a reasoning error there."""
SOURCES = {
    "KB": "kb",
    "Python": "interpreter",
    "RM": "memory",
    "KB+RM": "kb+memory",
    "Python+RM": "interpreter+memory",
}
"""QueryAgent's environments of guidelines (table 8) -> ours."""
UNKNOWN = "unknown"


def inside_tables(
    layout: str, title: str, results: Sequence[Result], table: PublishedTable | None
) -> list[Table]:
    """The table of a grid whose layout is not rows by columns of figures.

    Args:
        layout: `error-classes`, `guideline-sources` or `guidelines`. title: of the table.
        results: the grid's logs. table: the published table that it mirrors, if any.
    """
    makers = {
        "error-classes": error_table,
        "guideline-sources": source_table,
        "guidelines": guideline_table,
    }
    maker = makers.get(layout)
    return [maker(title, results, table)] if maker else []


def error_table(title: str, results: Sequence[Result], table: PublishedTable | None = None) -> Table:
    """Of the questions that were not answered right, how many percent fell into each class."""
    rows = [
        _error_row(result.cell.row if result.cell else _name(result), _place(result), result)
        for result in results
    ]
    if table:
        for printed in table.rows:
            values = [table.value(printed.row, name) for name in FAILURES]
            cells = [_figure(value) for value in values]
            rows.append([_printed(printed.row, table), *cells, *[Cell(NOTHING, published=True)] * 3])
    columns = ["Questions of", *FAILURES, "Not found (of RE)", "Crashed", "Failed questions"]
    return Table(
        title,
        columns,
        rows,
        "Percent of the questions that were not answered right. IA: no action of the tool set; EA: arguments "
        "that the interpreter refused; EMS: a budget was spent; RE: a wrong answer, or nothing found, after "
        f"valid actions. {_printed_note(table)}{short_note(results)}",
    )


def source_table(title: str, results: Sequence[Result], table: PublishedTable | None = None) -> Table:
    """How many guidelines there are by where their feedback comes from, and how often they fired."""
    known = _sources()
    written = Counter(known.values())
    fired: Counter[str] = Counter()
    for id, count in _fired(results).items():
        fired[known.get(id, UNKNOWN)] += count
    names = {**SOURCES, **{name: name for name in {*written, *fired} - set(SOURCES.values())}}
    rows = []
    for printed, source in names.items():
        theirs = (
            [table.value(printed, table.columns[0].column, m) for m in ("number", "triggers")]
            if table
            else []
        )
        own = [_count(written[source]), _count(fired[source])]
        rows.append([Cell(printed, source if source != printed else ""), *own, *map(_figure, theirs)])
    heads = ["Published: guidelines", "Published: triggered"] if table else []
    columns = ["Feedback from", "Guidelines", "Triggered", *heads]
    return Table(title, columns, rows, f"{_asked(results)} {_printed_note(table)}{short_note(results)}")


def guideline_table(title: str, results: Sequence[Result], table: PublishedTable | None = None) -> Table:
    """The guidelines that fired most, and the published ones that did."""
    known, fired = _sources(), _fired(results)
    whole = sum(fired.values())
    rows = [
        [Cell(id), Cell("ours"), Cell(known.get(id, UNKNOWN)), _count(count), _percent(count, whole)]
        for id, count in fired.most_common(TOP)
    ]
    if table:
        rows += [
            [
                Cell(row.row, published=True),
                _whose(table),
                Cell(row.group, published=True),
                _figure(table.value(row.row, table.columns[0].column)),
                Cell(NOTHING, published=True),
            ]
            for row in table.rows
        ]
    columns = ["Guideline", "Whose", "Feedback from", "Triggered", "Percent of all"]
    return Table(title, columns, rows, f"{_asked(results)} {_printed_note(table)}{short_note(results)}")


def failures(result: Result) -> Counter[str]:
    """Error class -> questions, of those that were not answered right."""
    return Counter(asked.error_class for asked in result.questions if asked.error_class)


def _error_row(name: str, detail: str, result: Result) -> list[Cell]:
    found = failures(result)
    whole = sum(found.values())
    cells = [_percent(sum(found[own] for own in classes), whole) for classes in FAILURES.values()]
    more = [_percent(found["not_found"], whole), _percent(found["crashed"], whole)]
    share = f"of {len(result.questions):,}"
    return [Cell(name, detail), *cells, *more, Cell(f"{whole:,}", share, number=whole)]


def _fired(results: Sequence[Result]) -> Counter[str]:
    """Guideline -> how often it corrected a run."""
    return Counter(id for r in results for asked in r.questions for id in asked.run.corrections)


def _sources() -> Mapping[str, str]:
    """Guideline -> the environment that its feedback comes from."""
    from triplewise.guidelines import load_guidelines

    return {guideline.id: str(guideline.source) for guideline in load_guidelines()}


def _asked(results: Sequence[Result]) -> str:
    questions = sum(len(result.questions) for result in results)
    return f"Corrections of {questions:,} questions ({', '.join(dict.fromkeys(map(_name, results)))})."


def _name(result: Result) -> str:
    return result.cell.column if result.cell else result.name


def _place(result: Result) -> str:
    row = f"{result.cell.row}, seed {result.cell.seed}; " if result.cell else ""
    return f"ours: {row}{result.system}, {result.model}"


def _printed(name: str, table: PublishedTable) -> Cell:
    return Cell(name, _told(table), published=True)


def _whose(table: PublishedTable) -> Cell:
    return Cell("published", _told(table), published=True)


def _told(table: PublishedTable) -> str:
    return f"{table.model}, {table.source.venue}, {table.date}"


def _printed_note(table: PublishedTable | None) -> str:
    if table is None:
        return ""
    note = " ".join(table.note.split())
    return f"Published: {table.source.title} ({_told(table)}), {table.place}: {note}. "


def _figure(value: float | None) -> Cell:
    return Cell(NOTHING if value is None else f"{value:,g}", published=True, number=value)


def _count(value: int) -> Cell:
    return Cell(f"{value:,}", number=value)


def _percent(part: int, whole: int) -> Cell:
    return Cell(f"{100 * part / whole:.1f}", number=100 * part / whole) if whole else Cell(NOTHING)
