"""`triplewise eval results`: every shipped task with the embedded default, and RESULTS.md from its logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli.console import examples, say
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from triplewise.evals.report.shipped import Done

LIMIT = 200
RUN_ERROR = 3


def register(app: typer.Typer) -> None:
    """Add `results`."""
    app.command(
        "results",
        epilog=examples(
            "triplewise eval results",
            "triplewise eval results --limit 1000 --log-dir runs/results --out RESULTS.md",
        ),
    )(results)


def results(
    limit: Annotated[int, typer.Option(min=0, help="Questions of each task, 0 for all.")] = LIMIT,
    log_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the logs. [dim](the user's state folder)[/dim]"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the tables are written.")] = Path(
        "RESULTS.md"
    ),
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task. Repeatable.")
    ] = None,
) -> None:
    """Run every shipped task with the embedded default, no key needed, and write the tables of the runs.

    A task whose log is finished and was made by the same code from the same files is not run again, so that
    what was interrupted goes on where it was.
    """
    from triplewise.evals.report.results_page import write_results
    from triplewise.evals.report.shipped import all_shipped, run_shipped

    if not out.resolve().parent.is_dir():
        raise DataError("no folder to write it in; make it first", out.resolve().parent)
    chosen = [one for one in all_shipped() if not tasks or one.task in tasks]
    _check(tasks or [], [one.task for one in chosen])
    done: list[Done] = []
    for one in run_shipped(chosen, limit, log_dir or _folder(), tell=lambda one: say(f"{one.name} ...")):
        done.append(one)
        _tell(one, len(done), len(chosen))
    write_results(done, limit, out)
    say(f"written: {out}")
    if any(one.why for one in done):
        raise typer.Exit(RUN_ERROR)


def _folder() -> Path:
    from platformdirs import user_state_path

    return user_state_path("triplewise") / "evals" / "results"


def _check(wanted: Sequence[str], known: Sequence[str]) -> None:
    from triplewise.evals.running import TASKS
    from triplewise.tools.core.errors import ConfigurationError

    if unknown := set(wanted) - set(known):
        raise ConfigurationError.unknown("task", unknown.pop(), TASKS)


def _tell(done: Done, number: int, whole: int) -> None:
    """A line on how far it is."""
    if done.why:
        say(f"{done.shipped.name}: {done.why}", "error")
    else:
        say(f"[{number}/{whole}] {done.shipped.name}: {'kept, it was finished' if done.kept else 'done'}")
