"""`triplewise ask`: a question to an answer."""

from __future__ import annotations

from contextlib import chdir, closing, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import EXIT_CODES, Interrupted, Json, echo, echo_json, out, say
from triplewise.tools.core.errors import ConfigurationError

CODES = {"answered": 0, "unsure": 4}  # exit codes by the status of an answer; of any other it is 1

commands = typer.Typer()


@dataclass(frozen=True)
class AskOptions(o.RunOptions):
    """Settings that `ask` has options for, besides those of every run."""

    db: str | None = o.option(
        "[NAME=]URL|FILE",
        "Ask a relational database: SQLite, DuckDB, CSV, PostgreSQL, MySQL. Implies --preset sql; next to "
        "--kg it is queried as a graph.",
    )
    documents: str | None = o.option(
        "FOLDER|wikipedia", "What to read where the graph has a gap. Implies --preset symagent."
    )


@dataclass(frozen=True)
class Output:
    """How a run is shown."""

    as_json: Json = False
    quiet: bool = o.flag("Print the answer alone, a line a value.", "--quiet", "-q")
    verbose: bool = o.flag("Show plan, observation, steps, corrections and cost.", "--verbose", "-v")
    trace: Path | None = o.option("FILE.html", "Write the run as a page to open in a browser, too.")


@o.command(commands, after=EXIT_CODES)
def ask(
    context: typer.Context,
    options: AskOptions,
    output: Output,
    question: str | None = o.argument("QUESTION", "The question, in quotes.", None),
    entity: o.Entities = None,
    file: str | None = o.option("FILE|-", "Ask all questions of a .csv, .jsonl, text or standard input."),
    out_: Path | None = o.option("FILE", "With --file: a .csv or .jsonl.", None, "--out", shown="printed"),
    overwrite: bool = o.flag("With --out: write over a file that is there.", "--overwrite"),
    jobs: int = o.option("N", "With --file: questions asked at a time.", 4, min=1),
    config: Path | None = o.option("FILE", "Settings and preset as YAML; other options go before it."),
    resume: bool = o.flag("Go on with the last run that was cut off.", "--resume"),
) -> None:
    """Answer a question, with the query, the facts that prove it, and what was corrected.

    Examples:
        triplewise ask "Who wrote Dracula?"
        triplewise ask "Who directed Alien?" --kg films.ttl --entity "Alien=Q103569"
        triplewise ask "Which rivers are in Peru?" --kg https://query.wikidata.org/sparql
        triplewise ask "Who wrote Dracula?" --model openai:gpt-4o-mini --set cascade=0.9
        triplewise ask "Which film won most awards?" --db films.sqlite --model openai:gpt-4o-mini
        triplewise ask "Who directed Early Frost?" --kg films.ttl --documents texts
        triplewise ask "Who wrote Dracula?" --trace dracula.html
        triplewise ask --file questions.csv --out answers.csv --jobs 8
        triplewise ask --resume
    """
    from triplewise.graphs.page import check_page
    from triplewise.graphs.runs import Checkpoints

    page = output.trace and output.trace.absolute()  # the run may have begun in another folder
    if page is not None:
        check_page(page)
    if file is not None:
        from triplewise.graphs.cli.batch import ask_all

        if wrong := {"QUESTION", "--entity", "--trace", "--resume"}.intersection(o.given(context)):
            raise ConfigurationError(f"--file goes without {', '.join(sorted(wrong))}; leave them out")
        raise typer.Exit(ask_all(file, out_, jobs, options.request(config=config), overwrite))
    if resume:
        o.check_resume(context, *(f.name for f in fields(Output)))
    request = None if resume else options.request(question, entity, config)
    with closing(Checkpoints(lambda text: say(text, "notice"))) as store:
        try:
            request = request or store.unfinished()
            with chdir(request.folder), store.running(request):
                status = follow(request, store.saver, resume, output, page)
        except KeyboardInterrupt:
            raise Interrupted("`triplewise ask --resume` goes on" if store.saver else "") from None
    raise typer.Exit(CODES.get(status, 1))


def follow(request: Any, saver: Any, resume: bool, output: Output, page: Path | None) -> str:
    """Run a request and show it; return the status of its answer. Raises as `Run`."""
    from triplewise.graphs.cli.run import Report, Run

    run, console = Run(request, saver), out()
    is_still = output.as_json or output.quiet or not console.is_terminal
    with nullcontext() if is_still else console.status("opening the knowledge graph") as status:
        run.follow(resume, status)
    answer, report = run.state.answer, Report(console, run.served, output.verbose)
    assert answer is not None, "a run that ends has an answer"
    if output.as_json:
        echo_json(run.document())
    elif output.quiet:
        echo("\n".join(answer.labels) or answer.text)
    else:
        if output.verbose:
            report.run(run.state)
        report.answer(answer, run.state.followed)
        report.held(run.served.held(run.state))
    if page is not None:
        run.write_page(page)
    return answer.status
