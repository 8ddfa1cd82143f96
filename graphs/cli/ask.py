"""`triplewise ask`: a question to an answer, each phase shown as it happens."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import EXIT_CODES, Interrupted, Json, echo, echo_json, out, say
from triplewise.tools.core.errors import ConfigurationError

NEEDS_TERMINAL = {
    "interactive": "--json has the readings as `rivals`",
    "review": "decide afterwards with `triplewise facts accept|reject`",
}
"""Settings by which a person is asked on a terminal, and what to do without one."""
CODES = {"answered": 0, "unsure": 4}
"""Exit codes by the status of an answer; of any other it is 1."""

commands = typer.Typer()


@dataclass(frozen=True)
class AskOptions(o.RunOptions):
    """Settings that `ask` has options for, besides those of every run."""

    db: str | None = o.option(
        "[NAME=]URL|FILE",
        "Ask a relational database: SQLite, DuckDB, CSV, PostgreSQL, MySQL. Implies --preset sql; next to "
        "--kg it is asked as a graph.",
    )
    documents: str | None = o.option(
        "FOLDER|wikipedia", "What to read where the graph has a gap. Implies --preset symagent."
    )
    review: bool = o.flag("Ask for your yes before a fact read from a document is used.", "--review")
    interactive: bool = o.flag("Pick a reading yourself where the answer is not sure.", "--interactive")


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
    thread: str | None = o.option("ID", "Name the run, to find its checkpoints or resume it."),
    no_checkpoints: bool = o.flag("Save nothing; a killed run is lost.", "--no-checkpoints"),
) -> None:
    """Answer a question, with the query, the facts that prove it, and what was corrected.

    Examples:
        triplewise ask "Who wrote Dracula?"
        triplewise ask "Who directed Alien?" --kg films.ttl --entity "Alien=Q103569"
        triplewise ask "Which rivers are in Peru?" --kg https://query.wikidata.org/sparql
        triplewise ask "Who wrote Dracula?" --model openai:gpt-4o-mini --set cascade=0.9
        triplewise ask "Which film won most awards?" --db films.sqlite --model openai:gpt-4o-mini
        triplewise ask "Who directed Early Frost?" --kg films.ttl --documents texts --review
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

        others = {"QUESTION", "--entity", "--trace", "--interactive", "--review", "--resume"}
        if wrong := others.intersection(o.given(context)):
            raise ConfigurationError(f"--file goes without {', '.join(sorted(wrong))}; leave them out")
        raise typer.Exit(ask_all(file, out_, jobs, options.request(config=config), overwrite))
    if resume:
        o.check_resume(context, *(f.name for f in fields(Output)))
    request = None if resume else options.request(question, entity, thread, config)
    store = None if no_checkpoints else Checkpoints(lambda text: say(text, "notice"))
    try:
        if request is None:
            assert store is not None, "--no-checkpoints is refused beside --resume"
            request = store.unfinished(thread)
            options.log_in(request.context.get("kg", "demo"))
        for name, why in NEEDS_TERMINAL.items():
            if request.context.get(name) and not sys.stdin.isatty():
                message = f"--{name} asks on a terminal, and standard input is none; leave it out: {why}"
                raise ConfigurationError(message)
        with chdir(request.folder), store.running(request) if store else nullcontext():
            status = follow(request, store.saver if store else None, resume, output, page)
    except KeyboardInterrupt:
        raise Interrupted("`triplewise ask --resume` goes on" if store and store.saver else "") from None
    finally:
        if store is not None:
            store.close()
    raise typer.Exit(CODES.get(status, 1))


def follow(request: Any, saver: Any, resume: bool, output: Output, page: Path | None) -> str:
    """Run a request and show it; return the status of its answer. Raises as `Run`."""
    from triplewise.graphs.cli.run import Report, Run

    run, console = Run(request, saver, ask_person), out()
    report, is_plain = Report(console, run.served, output.verbose), output.as_json or output.quiet
    is_followed = output.verbose and not is_plain
    if is_followed:
        report.row("Question", request.question)
    is_still = is_plain or not console.is_terminal
    with nullcontext() if is_still else console.status("opening the knowledge graph") as status:
        for phase, update in run.updates(resume, status):
            if is_followed:
                report.phase(phase, update)
    answer = run.state.answer
    assert answer is not None, "a run that ends has an answer"
    if output.as_json:
        echo_json(run.document())
    elif output.quiet:
        echo("\n".join(answer.labels) or answer.text)
    else:
        report.answer(answer, run.state.followed)
        if answer.status == "not_found" or answer.unaccounted:
            report.held(run.served.held(run.state))
    if page is not None:
        run.write_page(page)
    return answer.status


def ask_person(shown: Mapping[str, Any]) -> Any:
    """Return a person's word on what a run stopped for: the number of a reading, or decisions on facts."""
    if shown.get("error"):
        say(str(shown["error"]), "notice")
    if "facts" in shown:
        return review_facts(shown["facts"])
    say("Not sure what is asked. It could be read as:")
    for option in shown["readings"]:
        answers = ", ".join(option["answers"][:3]) + (", ..." if len(option["answers"]) > 3 else "")
        say(f"{option['number']}: {answers}  ({option['confidence']:.0%}: {option['reading']})")
    for option in shown["meanings"]:
        about = f", {option['description']}" if option["description"] else ""
        say(f"{option['number']}: {option['mention']} is {option['label']} ({option['id']}{about})")
    return typed("Which one? A number; Enter for 1, 0 for none: ") or "1"


def typed(prompt: str) -> str:
    """Return a line that a person types, asked for on stderr. Raises `KeyboardInterrupt` at its end."""
    echo(prompt, err=True, nl=False)  # `typer.prompt` would print part of it on standard output
    if not (line := sys.stdin.readline()):
        raise KeyboardInterrupt
    return line.strip().lower()


def review_facts(facts: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Ask a person about each fact; return the decisions by id."""
    words, verb = "y(es), n(o), all, none", ("fact was", "it") if len(facts) == 1 else ("facts were", "they")
    say(f"{len(facts)} {verb[0]} read from documents. May {verb[1]} be used? {words}")
    decisions: dict[str, bool] = {}
    for number, fact in enumerate(facts, 1):
        certainty = f"({fact['confidence']:.0%} sure, id {fact['id'][:8]})"
        say(f"\n{number} of {len(facts)}: {fact['fact']}  {certainty}")
        say(f'  "{fact["sentence"]}" in {fact["document"]}')
        for conflict in fact["conflicts"]:
            say(f"contradicts {conflict}", "notice")
        while (word := typed("Use it? "))[:1] not in ("y", "n") and word != "all":
            say(f"{word!r} is neither of {words}", "notice")
        if word in ("all", "none"):
            return decisions | {f["id"]: word == "all" for f in facts[number - 1 :]}
        decisions[fact["id"]] = word[0] == "y"
    return decisions
