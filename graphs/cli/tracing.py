"""The page of one run (`triplewise ask --trace`)."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.graphs.cli.console import say
from triplewise.graphs.cli.document import shown_url

if TYPE_CHECKING:
    from triplewise.graphs.cli.running import Run
    from triplewise.graphs.cli.runs import Order
    from triplewise.nodes.state import State

_NAMED = ("kg", "db", "model")
_URLS = ("base_url", "documents", *_NAMED)


def place_of(path: Path | None) -> Path | None:
    """The whole path of the page that was asked for, seen to be one that can be written.

    Raises:
        DataError: its folder is missing or cannot be written.
    """
    if path is None:
        return None
    from triplewise.graphs.page.write import check_place

    check_place(path)
    return path.absolute()


def write_run(path: Path, run: Run, state: State) -> None:
    """Write the page of an ended run, and say where it is. Raises `DataError` if it cannot be written."""
    from triplewise.graphs.page import Page, Question, RunBlock, write_page
    from triplewise.graphs.trace import trace_of

    order = run.order
    trace = trace_of(state, None if order.context.get("db") else run.kg)
    question = Question(
        id=order.thread,
        question=order.question,
        answer=trace["labels"],
        status=trace["status"],
        trace=trace,
    )
    block = RunBlock("run", _provenance(order), [question])
    write_page(path, Page(order.question, runs=[block]))
    say(f"the run as a page: {path}")


def _provenance(order: Order) -> dict[str, Any]:
    """What was asked how: graph or database, model, preset, and settings that are not the usual ones."""
    from triplewise.nodes.context import Context

    usual, given = Context(), order.context
    asked = {"database": shown_url(given["db"])} if given.get("db") else {"graph": shown_url(given["kg"])}
    known = {f.name for f in fields(Context)} - set(_NAMED)
    changed = {name: given[name] for name in given if name in known and given[name] != getattr(usual, name)}
    changed = {name: shown_url(value) if name in _URLS else value for name, value in changed.items()}
    told = {**asked, "model": given["model"], "preset": order.preset, **changed}
    return {**told, "triplewise": version("triplewise")}
