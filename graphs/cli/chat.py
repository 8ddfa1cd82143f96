"""`triplewise chat`: a conversation, in which a question may lean on what was said before."""

from __future__ import annotations

import sys
import uuid
from contextlib import chdir, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.query import run_by_hand
from triplewise.graphs.console import echo, out, say
from triplewise.tools.core.errors import ConfigurationError, RunError, UserError

if TYPE_CHECKING:
    from triplewise.graphs.runs import Checkpoints, RunRequest

HELP = """\
Ask; then ask on: "And where was she born?", "Only those after 1950", "How many are there?", "And of Italy?"
/why    how the last question was read, and the facts that prove its answer
/query  the last query, and its result (/query SELECT ... runs another one)
/new    begin another conversation      /quit  leave; `triplewise chat --resume` goes on"""

commands = typer.Typer()


@o.command(commands)
def chat(
    context: typer.Context,
    options: o.RunOptions,
    resume: bool = o.flag("Go on with the last conversation.", "--resume"),
    thread: str | None = o.option("ID", "Name the conversation, or the one to resume."),
) -> None:
    """Ask question after question; each may lean on the ones before it.

    Examples:
        triplewise chat
        triplewise chat --kg films.ttl --model openai:gpt-4o-mini
        triplewise chat --resume
    """
    from triplewise.graphs.runs import Checkpoints

    if resume:
        o.check_resume(context)
    store = Checkpoints(lambda message: say(message, "notice"))
    try:
        if resume:
            request = store.unfinished(thread, chat=True)
            options.log_in(request.context.get("kg", "demo"))
        else:
            request = replace(options.request(thread=thread), chat=True)
            if request.context.get("interactive") or request.context.get("review"):
                message = "a conversation stops for no review; leave interactive and review out"
                raise ConfigurationError(message)
        is_new = True
        while is_new:
            with chdir(request.folder), store.running(request):
                is_new = hold(request, store)
            request = replace(request, thread=uuid.uuid4().hex[:12], named=False)
    finally:
        store.close()


def hold(request: RunRequest, store: Checkpoints) -> bool:
    """Read messages and answer them until the end of input; return whether another conversation is begun."""
    from langgraph.checkpoint.memory import InMemorySaver

    from triplewise.graphs.around import ServedGraph
    from triplewise.graphs.chat import build_chat

    is_typed, console = sys.stdin.isatty(), out()
    if is_typed:
        import readline  # noqa: F401 - gives `input` a history and keys to edit with
    served = ServedGraph.open(request.preset, request.context)
    graph: Any = build_chat(request.preset, checkpointer=store.saver or InMemorySaver())
    config: Any = {"configurable": {"thread_id": request.thread}}

    def answer(message: str) -> None:
        """Answer a message, or the one that was being answered when the conversation was cut off, for ""."""
        start = {"messages": [("user", message)]} if message else None
        with console.status("looking it up") if console.is_terminal else nullcontext():
            state = graph.invoke(start, config, context=served.context, durability="sync")
        echo(f"{state['messages'][-1].text}\n")

    state = graph.get_state(config)
    for message in state.values.get("messages", ()):
        echo(f"> {message.text}" if message.type == "human" else f"{message.text}\n")
    say("/help says how; Ctrl-D leaves")
    with suppress(EOFError, KeyboardInterrupt):
        if state.next:
            answer("")
        while True:
            line = input("> " if is_typed else "").strip()
            command, _, query = line.partition(" ")
            try:
                if command in ("/quit", "/new"):
                    return command == "/new"
                if command == "/query":
                    exchanges = graph.get_state(config).values.get("exchanges", ())
                    if not (query := query or (exchanges[-1].answer.sparql if exchanges else "")):
                        raise ConfigurationError("no query yet; ask something, or /query SELECT ...")
                    echo(query)
                    run_by_hand(served.kg, query, served.context.query_timeout)
                elif command == "/help":
                    echo(HELP)
                elif line.startswith("/") and command != "/why":
                    known = ("/why", "/query", "/new", "/help", "/quit")
                    raise ConfigurationError.unknown("command", command, known)
                elif line:
                    answer("Why?" if command == "/why" else line)
            except KeyboardInterrupt:
                say("dropped", "notice")
            except (UserError, RunError) as error:
                say(str(error), "error")
    return False
