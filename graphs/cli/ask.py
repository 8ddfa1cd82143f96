"""`triplewise ask`: a question to an answer, each phase shown as it happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import echo, echo_json, examples, out, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.graphs.cli.run import Run

EXAMPLES = examples(
    'triplewise ask "Who wrote Dracula?"',
    'triplewise ask "Who directed Alien?" --kg films.ttl --entity "Alien=Q103569"',
    'triplewise ask "Which rivers are in Peru?" --kg https://query.wikidata.org/sparql',
    'triplewise ask "Who wrote Dracula?" --model openai:qwen3 --base-url http://localhost:8000/v1',
    'triplewise ask "Who wrote Dracula?" --model openai:gpt-4o-mini --set cascade=0.9',
    'triplewise ask "Who wrote Dracula?" --preset oda --set max_steps=12 --json',
    'triplewise ask "Which film won most awards?" --db films.sqlite --model openai:gpt-4o-mini',
    'triplewise ask "Who directed Early Frost?" --kg films.ttl --documents texts --review',
    'triplewise ask "Who wrote Dracula?" --config learned/settings.yaml',
    'triplewise ask "Who wrote Dracula?" --trace dracula.html',
    'triplewise ask "What currency is used in Mexico?" --interactive',
    "triplewise ask --file questions.csv --out answers.csv --jobs 8",
    "triplewise ask --resume",
)

UNSURE = 4
"""Exit code of a run that has an answer but is not sure of it."""


@o.unfold
def ask(
    options: o.RunOptions,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="The question, in quotes.", show_default=False)
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="Ask a relational database: SQLite, DuckDB, CSV, PostgreSQL, MySQL. Implies --preset sql.",
        ),
    ] = None,
    preset: o.Preset = None,
    entity: o.Entities = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Ask all questions of a file: one a line, or the column `question` of a .csv or .jsonl; "
            "- reads standard input.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="With --file: a .csv, .jsonl or .parquet. [dim](JSON lines)[/dim]"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="With --file: questions asked at a time.")] = 4,
    documents: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|wikipedia",
            help="What to read where the graph has a gap: text and HTML files, or Wikipedia online. "
            "Implies --preset symagent.",
        ),
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="See kept facts besides the graph: accepted ones, or proposed ones too. [dim](none)[/dim]",
        ),
    ] = None,
    facts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep facts read from documents there. See `triplewise facts`."),
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Ask for your yes before a fact read from a document is used.")
    ] = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Pick a reading yourself where the answer is not sure.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings and preset as YAML, e.g. what `triplewise learn` leaves; other options go "
            "before it.",
        ),
    ] = None,
    as_json: o.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the answer alone, a line a value.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show plan, observation, steps, corrections, cost, and what a model writes.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last run that was cut off.")
    ] = False,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="Name the run, to find its checkpoints or resume it.")
    ] = None,
    checkpoints: o.Checkpoints = None,
    no_checkpoints: Annotated[
        bool, typer.Option("--no-checkpoints", help="Save nothing; a killed run is lost.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the run as a page to open in a browser, too."),
    ] = None,
) -> None:
    """Answer a question, with the query, the facts that prove it, and what was corrected."""
    from triplewise.graphs.cli.runs import open_checkpoints

    if trace is not None:
        from triplewise.graphs.page import check_page

        check_page(trace)
        trace = trace.absolute()
    named = {"db": db, "documents": documents, "overlay": overlay, "facts": facts, "review": review or None}
    named["interactive"] = interactive or None
    request = None
    if not resume:
        file_preset, settings = o.read_config(config)
        settings = options.context_settings(**settings | {k: v for k, v in named.items() if v is not None})
        if file is not None:
            from triplewise.graphs.cli.batch import ask_all

            if question or entity or trace or interactive or review:
                raise ConfigurationError(
                    "--file goes without QUESTION, --entity, --trace, --interactive, --review"
                )
            request = o.run_request("?", preset or file_preset, [], settings, thread)
            raise typer.Exit(ask_all(file, answers, jobs, request.preset, request.context))
        request = o.run_request(question, preset or file_preset, entity or [], settings, thread)
    elif options != o.RunOptions() or any((question, preset, entity, config, *named.values())):
        raise ConfigurationError(
            "--resume takes question and settings of the run it goes on with; leave them out"
        )
    store = None if no_checkpoints else open_checkpoints(checkpoints, lambda message: say(message, "notice"))
    try:
        if request is None:
            if store is None:
                raise ConfigurationError("--resume needs checkpoints; leave out --no-checkpoints")
            request = store.unfinished(thread)
        if request.context.get("interactive") and not sys.stdin.isatty():
            raise ConfigurationError(
                "--interactive asks on a terminal, and standard input is none; leave it out, --json has the "
                "readings as `rivals`"
            )
        if request.context.get("review") and not sys.stdin.isatty():
            raise ConfigurationError(
                "--review asks about facts on a terminal, and standard input is none; run it on one, or "
                "leave --review out and decide afterwards with `triplewise facts accept|reject`"
            )
        with chdir(request.folder), store.running(request) if store else nullcontext():
            from triplewise.graphs.cli.report import Report
            from triplewise.graphs.cli.run import Run, write_run

            run: Run = Run(request, store.saver if store else None, lambda shown: ask_person(shown, run))
            if as_json or quiet:
                for _ in run.updates(resume):
                    continue
            else:
                console = out()
                report = Report(console, run.kg, run.toolset, verbose=verbose)
                if verbose:
                    report.row("Question", request.question)
                waiting = "opening the knowledge graph"
                on_token = report.token if verbose and console.is_terminal else None
                # What a model writes leaves no line for the status.
                is_still = on_token is not None or not console.is_terminal
                with nullcontext() if is_still else console.status(waiting) as status:
                    for phase, update in run.updates(resume, status, on_token):
                        if verbose:
                            report.phase(phase, update)
                report.answer(run.answer, run.state.followed)
            answer = run.answer
            if as_json:
                echo_json(run.document())
            elif quiet:
                echo("\n".join(answer.labels) or answer.text)
            if trace is not None:
                write_run(trace, run)
    except KeyboardInterrupt:
        if store and store.saver:
            say("cut off; `triplewise ask --resume` goes on", "notice")
        raise
    finally:
        if store is not None:
            store.close()
    raise typer.Exit({"answered": 0, "unsure": UNSURE}.get(answer.status, 1))


def ask_person(shown: Mapping[str, Any], run: Run) -> Any:
    """Ask a person what an interrupted run asks for; return what `Command(resume=...)` takes."""
    from triplewise.graphs.cli.report import Labels

    if shown.get("error"):
        say(str(shown["error"]), "notice")
    if "facts" in shown:
        return review_facts(shown)
    labels = Labels(run.kg)
    labels.fetch_rules(run.state.rules)
    return pick_reading(shown, lambda rule: labels.replace(rule).plain)


def typed(prompt: str) -> str:
    """Return a line that a person types, asked for on stderr. Raises `KeyboardInterrupt` at its end.

    Not `typer.prompt`: part of its question goes to standard output, where only the answer belongs.
    """
    echo(prompt, err=True, nl=False)
    if not (line := sys.stdin.readline()):
        raise KeyboardInterrupt
    return line.strip().lower()


def pick_reading(shown: Mapping[str, Any], readable: Callable[[str], str]) -> str:
    """Ask a person which reading is meant, or which other meaning of a mention; return its number."""
    say("Not sure what is asked. It could be read as:")
    for option in shown["readings"]:
        answers = ", ".join(option["answers"][:3]) + (", ..." if len(option["answers"]) > 3 else "")
        say(f"{option['number']}: {answers}  ({option['confidence']:.0%}: {readable(option['rule'])})")
    for option in shown["meanings"]:
        about = f", {option['description']}" if option["description"] else ""
        say(f"{option['number']}: {option['mention']} is {option['label']} ({option['id']}{about})")
    return typed("Which one? A number; Enter for 1, 0 for none: ") or "1"


def review_facts(shown: Mapping[str, Any]) -> dict[str, bool] | str:
    """Ask a person about each fact that an interrupted run shows; return the decisions by id.

    Asks on stderr, so that `--json` prints nothing else. Raises `KeyboardInterrupt` at the end of input.
    """
    facts: Sequence[Mapping[str, Any]] = shown["facts"]
    words, verb = "y(es), n(o), all, none", ("fact was", "it") if len(facts) == 1 else ("facts were", "they")
    say(f"{len(facts)} {verb[0]} read from documents. May {verb[1]} be used? {words}")
    decisions: dict[str, bool] = {}
    for number, fact in enumerate(facts, 1):
        certainty = f"({fact['confidence']:.0%} sure, id {fact['id'][:8]})"
        say(f"\n{number} of {len(facts)}: {fact['fact']}  {certainty}")
        say(f'  "{fact["sentence"]}" in {fact["document"]}')
        for conflict in fact["conflicts"]:
            say(f"contradicts {conflict}", "notice")
        word = ""
        while not word:
            word = typed("Use it? ")
            if word in ("all", "none"):
                return decisions | {f["id"]: word == "all" for f in facts[number - 1 :]}
            if word[:1] not in ("y", "n"):
                say(f"{word!r} is neither of {words}", "notice")
                word = ""
        decisions[fact["id"]] = word[0] == "y"
    return decisions
