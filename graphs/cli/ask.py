"""`triplewise ask`: a question to an answer, each phase shown as it happens."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import EXIT_CODES, examples, out, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.status import Status

    from triplewise.graphs.cli.report import Report
    from triplewise.graphs.cli.run import Reviewer, Run
    from triplewise.graphs.cli.runs import Checkpoints, RunRequest
    from triplewise.nodes.state import Answer

Output = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone, a line a value.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the last run that was cut off.")]
Thread = Annotated[
    str | None,
    typer.Option("--thread", metavar="ID", help="Name the run, to find its checkpoints or resume it."),
]
File = Annotated[
    Path | None,
    typer.Option("--checkpoints", metavar="FILE", help="Checkpoint file instead of the user's own."),
]
Without = Annotated[bool, typer.Option("--no-checkpoints", help="Save nothing; a killed run is lost.")]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE.html", help="Write the run as a page to open in a browser, too."),
]
Asked = Annotated[
    str | None, typer.Argument(metavar="QUESTION", help="The question, in quotes.", show_default=False)
]

EPILOG = examples(
    'triplewise ask "Who wrote Dracula?"',
    'triplewise ask "Who directed Alien?" --kg films.ttl --entity "Alien=Q103569"',
    'triplewise ask "Which rivers are in Peru?" --kg https://query.wikidata.org/sparql',
    'triplewise ask "Who wrote Dracula?" --model openai:qwen3 --base-url http://localhost:8000/v1',
    'triplewise ask "Who wrote Dracula?" --preset oda --set max_steps=12 --json',
    'triplewise ask "Which film won most awards?" --db films.sqlite --model openai:gpt-4o-mini',
    'triplewise ask "Who directed Early Frost?" --kg films.ttl --documents texts --review',
    'triplewise ask "Who wrote Dracula?" --config learned/settings.yaml',
    'triplewise ask "Who wrote Dracula?" --trace dracula.html',
    "triplewise ask --resume",
)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command(epilog=f"{EPILOG}\n\n{EXIT_CODES}")(ask)


def ask(
    question: Asked = None,
    kg: o.Kg = None,
    profile: o.Profile = None,
    db: o.Db = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    preset: o.Preset = None,
    faithful: o.Faithful = False,
    entity: o.Entities = None,
    seeds: o.Seeds = None,
    documents: o.Documents = None,
    overlay: o.Overlay = None,
    facts: o.Facts = None,
    review: o.Review = False,
    settings: o.Settings = None,
    config: o.Config = None,
    as_json: Output = False,
    quiet: Quiet = False,
    resume: Resume = False,
    thread: Thread = None,
    checkpoints: File = None,
    no_checkpoints: Without = False,
    trace: Trace = None,
) -> None:
    """Answer a question, with the query, the facts that prove it, and what was corrected."""
    from triplewise.graphs.cli.run import place_of
    from triplewise.graphs.cli.runs import Checkpoints

    page = place_of(trace)
    named = o.given(kg=kg, profile=profile, db=db, model=model, base_url=base_url, seeds=seeds)
    named |= o.given(documents=documents, overlay=overlay, facts=facts)
    if resume and (
        review or question or named or preset or faithful or entity or settings or config or no_checkpoints
    ):
        raise ConfigurationError(
            "--resume takes question and settings of the run it goes on with; leave them out"
        )
    kept_preset, kept = o.read_config(config)
    request = (
        None
        if resume
        else o.request_of(
            question,
            o.preset_of(preset or kept_preset, faithful, settings or []),
            entity or [],
            o.context_of({**kept, **named, **({"review": True} if review else {})}, settings or []),
            thread,
        )
    )
    store = None if no_checkpoints else Checkpoints(checkpoints, lambda message: say(message, "notice"))
    try:
        request = request or _unfinished(store, thread)
        with chdir(request.folder), store.running(request) if store else nullcontext():
            answer = _run(request, store, resume, as_json, quiet, page)
    except KeyboardInterrupt:
        if store and store.saver:
            say("cut off; `triplewise ask --resume` goes on", "notice")
        raise
    finally:
        if store is not None:
            store.close()
    raise typer.Exit(0 if answer.status == "answered" else 1)


def _unfinished(store: Checkpoints | None, thread: str | None) -> RunRequest:
    """The run to go on with."""
    assert store is not None, "--no-checkpoints was refused beside --resume"
    return store.unfinished(thread)


def _run(
    request: RunRequest,
    store: Checkpoints | None,
    resume: bool,
    as_json: bool,
    quiet: bool,
    page: Path | None,
) -> Answer:
    """Run to the end, printing as asked for, and to a page where one is wanted; the answer."""
    from triplewise.graphs.cli.run import Run, document

    if request.context.get("review"):
        check_terminal()
    run = Run(request, store.saver if store else None, ask_person)
    if as_json or quiet:
        for _ in run.updates(resume, lambda doing: None):
            continue
        state, answer = run.end()
        typer.echo(document(request, state) if as_json else "\n".join(answer.labels) or answer.text)
    else:
        report = _follow(run, resume)
        state, answer = run.end()
        report.answer(answer)
    if page is not None:
        from triplewise.graphs.cli.run import write_run

        write_run(page, run, state)
    return answer


def _follow(run: Run, resume: bool) -> Report:
    """Print each phase as it happens; on a terminal, also what is being done meanwhile."""
    from triplewise.graphs.cli.report import Names, Report

    console = out()
    with console.status("opening the knowledge graph") if console.is_terminal else nullcontext() as status:
        report = Report(console, Names(run.kg, run.toolset))
        report.question(run.request.question)
        tell = status.update if status is not None else lambda doing: None
        if status is not None:
            run.reviewer = _unhidden(status, run.reviewer)
        for phase, update in run.updates(resume, tell):
            report.phase(phase, update)
    return report


def _unhidden(status: Status, reviewer: Reviewer) -> Reviewer:
    """The same questions to a person, with nothing that moves on the terminal meanwhile."""

    def asked(shown: Mapping[str, Any]) -> Any:
        status.stop()
        try:
            return reviewer(shown)
        finally:
            status.start()

    return asked


WORDS = "y(es), n(o), all, none"


def check_terminal() -> None:
    """Raises `ConfigurationError` where nobody can be asked."""
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "--review asks about facts on a terminal, and standard input is none; run it on one, or leave "
            "--review out and decide afterwards with `triplewise facts accept|reject`"
        )


def ask_person(shown: Mapping[str, Any]) -> dict[str, bool] | str:
    """The word on each fact that an interrupted run shows: by id, or `all` or `none`.

    Asked on stderr, so that `--json` prints nothing else. Raises `KeyboardInterrupt` at the end of input.
    """
    facts: Sequence[Mapping[str, Any]] = shown["facts"]
    if shown.get("error"):
        say(str(shown["error"]), "notice")
    facts_were, they = ("fact was", "it") if len(facts) == 1 else ("facts were", "they")
    say(f"{len(facts)} {facts_were} read from documents. May {they} be used? {WORDS}")
    said: dict[str, bool] = {}
    for number, fact in enumerate(facts, 1):
        _show(fact, number, len(facts))
        word = _word()
        if word in ("all", "none"):
            left = facts[number - 1 :]
            return said | {f["id"]: word == "all" for f in left}
        said[fact["id"]] = word == "y"
    return said


def _show(fact: Mapping[str, Any], number: int, count: int) -> None:
    """A fact with what speaks for and against it."""
    say(f"\n{number} of {count}: {fact['fact']}  ({fact['confidence']:.0%} sure, id {fact['id'][:8]})")
    say(f'  "{fact["sentence"]}" in {fact["document"]}')
    for conflict in fact["conflicts"]:
        say(f"contradicts {conflict}", "notice")


def _word() -> str:
    """One word of a person: y, n, all or none."""
    while True:
        typer.echo("Use it? ", err=True, nl=False)
        # Not `typer.prompt`: part of its question goes to standard output, where only the answer belongs.
        if not (line := sys.stdin.readline()):
            raise KeyboardInterrupt
        word = line.strip().lower()
        if word in ("all", "none"):
            return word
        if word[:1] in ("y", "n"):
            return word[:1]
        say(f"{word!r} is neither of {WORDS}", "notice")
