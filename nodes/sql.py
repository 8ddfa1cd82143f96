"""The phases `link` and `answer`, and the tables of prompts, for a relational database (QueryAgent 5.4)."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.link import given
from triplewise.nodes.result import YES_NO, ending, sentence
from triplewise.nodes.state import Answer, State
from triplewise.tools.actions.sql import answer_values, table_line, table_text
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.parsing.statements import decides
from triplewise.tools.retrieval.ranking import rank_relations
from triplewise.tools.sql.values import Rows

PROOF_ROWS, CELL = 20, 60  # Most rows shown as proof, and most characters of a cell
SHOWN_TABLES = 12  # Most tables offered at once


def start(state: State, runtime: Runtime[Context]) -> Update:
    """Link nothing: what a question names is searched in the columns of tables."""
    _ = environment(runtime).database
    return given(state.model_copy(update={"entities": {}}), runtime)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the values, the SQL that gives them, and the rows that prove them."""
    env, last = environment(runtime), state.last.feedback if state.steps else Feedback()
    finished = last.finished and last.action == "execute"
    sql, values, rows = "", tuple[str, ...](), Rows(Outcome.EMPTY)
    if state.program and (finished or state.is_spent):
        database = env.database
        query = database.query(state.program) if env.toolset.name == "sql" else None
        select = query or database.read_select(state.program)
        if query is None or query.has_answer:
            sql, values = database.as_stored(select).text, answer_values(database.select(select))
            rows = database.select(query.rows(), PROOF_ROWS) if query else database.select(select)
    if decides(state.question) and values in (("1",), ("0",), ("True",), ("False",)):
        values = ("true" if values[0] in ("1", "True") else "false",)
    status, reason = ending(state, values, over_tables=True)
    labels = tuple(YES_NO.get(value, value) for value in values)
    text = sentence(labels) or f"Not found: {reason}."
    made = Answer(
        status, values, labels, text=text, sql=sql if values else "", rows=row_lines(rows) if values else (),
        reason=reason, corrections=state.corrections, note=state.closing_note,
    )  # fmt: skip
    return {"answer": made}


def row_lines(rows: Rows) -> tuple[str, ...]:
    """Return the first rows as `column: value; ...`, without NULLs."""
    lines = []
    for row in rows.rows[:PROOF_ROWS]:
        cells = [(name, str(cell)) for name, cell in zip(rows.columns, row, strict=True) if cell is not None]
        short = (f"{name}: {cell if len(cell) <= CELL else f'{cell[: CELL - 1]}…'}" for name, cell in cells)
        lines.append("; ".join(short))
    return tuple(lines)


def rank_names(question: str, named: Sequence[tuple[str, str]], env: Environment) -> list[str]:
    """Return the ids of the `SHOWN_TABLES` (id, text) pairs most similar to the question, best first."""
    if len(named) < 2:
        return [name for name, _ in named]
    ranking = env.context.ranking
    encoder = None if ranking in ("none", "openai") else env.encoder
    return rank_relations(question, named, encoder, SHOWN_TABLES, is_hybrid=ranking == "hybrid")


def table_lines(question: str, env: Environment) -> list[str]:
    """Return tables with their columns for a prompt, one per line, best first."""
    if env.context.db is None:
        return []
    schema = env.database.schema
    tables = {t.name: t for t in schema.tables}
    offered = rank_names(question, [(t.name, table_text(t)) for t in schema.tables], env)
    more = [f"... and {len(tables) - len(offered)} more: get_tables()"] if len(tables) > len(offered) else []
    bare = env.toolset.name == "select"
    if len(offered) == len(tables):
        offered = list(tables)  # in the order of the schema, so that servers can cache the prefix
    return [*(table_line(schema, tables[name], bare) for name in offered), *more]
