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
/query  edit the last query and run it (/query SELECT ... runs another one)
/new    begin another conversation      /quit  leave; `triplewise chat --resume` goes on"""

commands = typer.Typer()


@o.command(commands)
def chat(
    context: typer.Context,
    options: o.RunOptions,
    resume: bool = o.flag("Go on with the last conversation.", "--resume"),
    thread: str | None = o.option("ID", "Name the conversation, or the one to resume."),
    checkpoints: o.Checkpoints = None,
) -> None:
    """Ask question after question; each may lean on the ones before it.

    Examples:
        triplewise chat
        triplewise chat --kg films.ttl --model openai:gpt-4o-mini
        triplewise chat --resume
    """
    from triplewise.graphs.runs import open_checkpoints

    if resume and (extra := o.given(context, "resume", "thread", "checkpoints", *o.LOGIN_OPTIONS)):
        raise ConfigurationError(
            f"--resume takes the settings of its conversation: not {', '.join(extra)}; leave them out"
        )
    store = open_checkpoints(checkpoints, lambda message: say(message, "notice"))
    try:
        if resume:
            request = store.unfinished(thread, chat=True)
            options.log_in(request.context.get("kg", "demo"))
        else:
            request = replace(options.request(thread=thread), chat=True)
            if request.context.get("interactive") or request.context.get("review"):
                raise ConfigurationError(
                    "a conversation stops for no review; leave interactive and review out"
                )
        is_new = True
        while is_new:
            with chdir(request.folder), store.running(request):
                is_new = Chat(request, store).hold()
            request = replace(request, thread=uuid.uuid4().hex[:12], named=False)
    finally:
        store.close()


class Chat:
    """A conversation on the terminal. Raises as `ServedGraph.open`, before the first question."""

    def __init__(self, request: RunRequest, store: Checkpoints) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        from triplewise.graphs.around import ServedGraph
        from triplewise.graphs.chat import build_chat

        self.served = ServedGraph.open(request.preset, request.context)
        self.graph: Any = build_chat(request.preset, checkpointer=store.saver or InMemorySaver())
        self.config: Any = {"configurable": {"thread_id": request.thread}}

    def hold(self) -> bool:
        """Read messages and answer them until the end of input; return whether another one is begun."""
        is_typed = sys.stdin.isatty()
        if is_typed:
            import readline  # noqa: F401 - gives `input` a history and keys to edit with
        state = self.graph.get_state(self.config)
        for message in state.values.get("messages", ()):
            echo(f"> {message.text}" if message.type == "human" else f"{message.text}\n")
        say("/help says how; Ctrl-D leaves")
        with suppress(EOFError, KeyboardInterrupt):
            if state.next:
                self.answer(None)
            while True:
                line = input("> " if is_typed else "").strip()
                if line in ("/quit", "/new"):
                    return line == "/new"
                try:
                    self.carry_out(line)
                except KeyboardInterrupt:
                    say("dropped", "notice")
                except (UserError, RunError) as error:
                    say(str(error), "error")
        return False

    def carry_out(self, line: str) -> None:
        """Carry out a command, or answer a message."""
        command, _, text = line.partition(" ")
        match command:
            case "":
                return
            case "/help":
                echo(HELP)
            case "/why":
                self.answer("Why?")
            case "/query":
                self.query(text)
            case _ if line.startswith("/"):
                known = ("/why", "/query", "/new", "/help", "/quit")
                raise ConfigurationError.unknown("command", command, known)
            case _:
                self.answer(line)

    def answer(self, message: str | None) -> None:
        """Answer a message, or the one that was being answered when the conversation was cut off."""
        start = None if message is None else {"messages": [("user", message)]}
        console = out()
        with console.status("looking it up") if console.is_terminal else nullcontext():
            state = self.graph.invoke(start, self.config, context=self.served.context, durability="sync")
        echo(f"{state['messages'][-1].text}\n")

    def query(self, sparql: str) -> None:
        """Run a query; with none given the last one, which a terminal lets the person edit first."""
        exchanges = self.graph.get_state(self.config).values.get("exchanges", ())
        if not sparql and not exchanges:
            raise ConfigurationError("there is no query yet; ask something, or give one: /query SELECT ...")
        if not sparql:
            sparql = " ".join(exchanges[-1].answer.sparql.split())
            if sys.stdin.isatty():
                import readline

                readline.set_startup_hook(lambda: readline.insert_text(sparql))
                try:
                    sparql = input("query> ")
                finally:
                    readline.set_startup_hook(None)
        run_by_hand(self.served.kg, sparql, self.served.context.query_timeout)
