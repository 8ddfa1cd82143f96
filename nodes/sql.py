"""The phases that differ where a relational database is asked in place of a KG (QueryAgent 5.4, table 5)."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from triplewise.nodes.answer import sentence
from triplewise.nodes.context import Context
from triplewise.nodes.database import require_model
from triplewise.nodes.environment import environment
from triplewise.nodes.link import given
from triplewise.nodes.phase import Update
from triplewise.nodes.state import Answer, AnswerStatus, State
from triplewise.tools.core.errors import ActionError, ConfigurationError
from triplewise.tools.sql.base import Rows, SqlQuery, Value
from triplewise.tools.sql.program import read

PROOF_ROWS = 20
"""Most rows shown as proof."""
CELL = 60
"""Most characters of a cell shown in a proof."""


def start(state: State, runtime: Runtime[Context]) -> Update:
    """Tables hold no entities to be linked: what a question names is found in their columns.

    Raises `ConfigurationError` for an empty question, and without a database or a language model.
    """
    require_model(runtime.context)
    _ = environment(runtime).database
    if not state.question.strip():
        raise ConfigurationError("the question is empty; ask something, e.g. 'How many films are there?'")
    return given(state.model_copy(update={"entities": {}}), runtime)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """The values, the SQL that gives them, and the rows that prove them."""
    database = environment(runtime.context).database
    query = _query(state, database.schema)
    finished = bool(state.steps) and state.last.feedback.finished and state.last.feedback.action == "execute"
    values = state.last.feedback.answers if finished else ()
    spent = state.verdict is not None and state.verdict.status == "spent"
    if spent and not finished and query.answer is not None:
        found = database.run(query)
        values = tuple(dict.fromkeys(str(r[0]) for r in found.rows if r[0] is not None))
    status, reason = _status(state, values, spent)
    rows = database.rows(query, PROOF_ROWS) if values else None
    made = Answer(
        status=status,
        values=values,
        labels=values,
        text=sentence(values) or f"Not found: {reason}.",
        sql=database.sql(query) if values else "",
        rows=_lines(rows) if rows is not None else (),
        reason=reason,
        corrections=state.corrections,
    )
    return {"answer": made}


def _query(state: State, schema: object) -> SqlQuery:
    """The query that was built."""
    try:
        return read(state.program, schema)  # type: ignore[arg-type]
    except ActionError:
        return SqlQuery()


def _status(state: State, values: Sequence[str], spent: bool) -> tuple[AnswerStatus, str]:
    """How the run ended, and why, in words."""
    if spent:
        so_far = "the answer is what was found so far" if values else "nothing was found so far"
        return "budget_spent", f"{state.verdict.note if state.verdict else ''}; {so_far}"
    if values:
        return "answered", ""
    if not state.steps:
        return "not_found", "no action was taken"
    return "not_found", f"every way tried gave no result ({len(state.steps)} steps)"


def _lines(rows: Rows) -> tuple[str, ...]:
    """Rows as text: `column: value; ...`, values too long cut, empty ones left out."""
    return tuple(
        "; ".join(
            f"{name}: {_cell(cell)}" for name, cell in zip(rows.columns, row, strict=True) if cell is not None
        )
        for row in rows.rows
    )


def _cell(cell: Value) -> str:
    text = str(cell)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"
