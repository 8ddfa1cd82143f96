"""The phases that differ where a relational database is asked in place of a KG (QueryAgent 5.4, table 5)."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from triplewise.nodes import act as acting
from triplewise.nodes.act import _recorded
from triplewise.nodes.answer import sentence
from triplewise.nodes.context import Context
from triplewise.nodes.database import database_of
from triplewise.nodes.link import given
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import encoder_of
from triplewise.nodes.state import Answer, AnswerStatus, PlannedQuery, State
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError, ConfigurationError
from triplewise.tools.sql.base import Rows, SqlQuery, Value
from triplewise.tools.sql.program import column_name, read, write

PROOF_ROWS = 20
"""Most rows shown as proof."""
CELL = 60
"""Most characters of a cell shown in a proof."""
GIVE_UP = Call("give_up")


def start(state: State, runtime: Runtime[Context]) -> Update:
    """Tables hold no entities to be linked: what a question names is found in their columns."""
    if not state.question.strip():
        raise ConfigurationError("the question is empty; ask something, e.g. 'How many films are there?'")
    return given(state.model_copy(update={"entities": {}}), runtime)


def plan(state: State, runtime: Runtime[Context]) -> Update:
    """Queries that may answer the question, for the policy without a language model; none for one with it."""
    context = runtime.context
    if not context.embedded:
        return {"queries": ()}
    from triplewise.tools.sql.planning import plan_queries

    found = plan_queries(database_of(context), state.question, encoder_of(context), context.plan_rules)
    return {"queries": tuple(PlannedQuery(write(q.query), q.score, q.why) for q in found)}


def act(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the planned queries step by step; with a language model, act as it says."""
    context = runtime.context
    if not context.embedded:
        return acting.act(state, runtime)
    attempt, call, before = decide(state, database_of(context).schema)
    state = state.model_copy(update={"program": before})
    thought = _thought(state, attempt, call)
    if call == GIVE_UP:
        feedback = Feedback(action=call.name, observation=thought, program=before, finished=True)
        return {"attempt": attempt, **_recorded(state, thought, call.text(), feedback)}
    return {"attempt": attempt, **acting.carry_out(state, context, thought, call, "")}


def decide(state: State, schema: object) -> tuple[int, Call, str]:
    """The planned query to follow, its next call, and the program it applies to; `give_up` at the end.

    A pure function of the state: a query of which a call failed is left for the next one.
    """
    made = {(s.program_before, s.call): s.feedback.program for s in state.steps if not s.rolled_back}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    for attempt, planned in enumerate(state.queries):
        program = ""
        for call in calls_of(planned.program):
            key = (program, call.text())
            if key in failed:
                break
            if key not in made:
                return attempt, call, program
            program = made[key]
    return len(state.queries), GIVE_UP, state.program


def calls_of(program: str) -> list[Call]:
    """The calls that build a query and run it."""
    import json

    calls = []
    for line in program.splitlines():
        name, _, rest = line.partition("(")
        arguments = json.loads(f"[{rest.removesuffix(')')}]")
        # A condition compared without case and accents is a call of its own kind: its last argument says so.
        texts = [str(a) for a in arguments[:3]] + (["folded"] if len(arguments) > 3 else [])
        calls.append(Call(name, tuple(texts)))
    return [*calls, Call("execute")]


def _thought(state: State, attempt: int, call: Call) -> str:
    """Why this call, in a sentence."""
    if call == GIVE_UP:
        return "No query is left to try." if state.queries else "Nothing in the question fits the tables."
    why = state.queries[attempt].why
    again = bool(state.steps) and state.steps[-1].rolled_back
    start = f"That did not work out. Try query {attempt + 1} ({why}). " if again else ""
    start = start or (f"Follow the best query ({why}). " if not state.steps else "")
    sentences = {
        "add_condition": "Keep the rows with {0} {1} {2}.",
        "set_answer": "{0} is what is asked.",
        "execute": "The query is complete: run it.",
    }
    return start + sentences.get(call.name, "").format(*call.arguments, "", "", "")


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """The values, the SQL that gives them, and the rows that prove them."""
    database = database_of(runtime.context)
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
    if state.last.feedback.action == GIVE_UP.name and not state.queries:
        return "not_found", "nothing in the question fits the tables of the database"
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


__all__ = ["act", "answer", "calls_of", "column_name", "decide", "plan", "start"]
