"""`triplewise chat`: a conversation, in which a question may refer to earlier ones."""

from __future__ import annotations

import sys
from contextlib import chdir, closing, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import echo, out, say
from triplewise.tools.core.errors import RunError, UserError

if TYPE_CHECKING:
    from triplewise.graphs.runs import Checkpoints, RunRequest

HELP = """\
Ask; then ask on: "And where was she born?", "Only those after 1950", "How many are there?", "And of Italy?",
"Why?", "Show the query". "quit" or Ctrl-D leaves; `triplewise chat --resume` goes on."""

commands = typer.Typer()


@o.command(commands)
def chat(
    context: typer.Context,
    options: o.RunOptions,
    resume: bool = o.flag("Go on with the last conversation.", "--resume"),
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
    with closing(Checkpoints(lambda message: say(message, "notice"))) as store:
        request = store.unfinished(chat=True) if resume else replace(options.request(), chat=True)
        with chdir(request.folder), store.running(request):
            hold(request, store)


def hold(request: RunRequest, store: Checkpoints) -> None:
    """Read messages and answer them until the end of input."""
    from langgraph.checkpoint.memory import InMemorySaver

    from triplewise.graphs.around import ServedGraph
    from triplewise.graphs.build import build_chat
    from triplewise.graphs.cli.run import Report
    from triplewise.nodes.converse import Conversation

    is_typed, console = sys.stdin.isatty(), out()
    if is_typed:
        import readline  # noqa: F401 - gives `input` a history and keys to edit with
    served = ServedGraph.open(request.preset, request.context)
    graph: Any = build_chat(request.preset, checkpointer=store.saver or InMemorySaver())
    config: Any = {"configurable": {"thread_id": request.thread}}
    state = graph.get_state(config)
    for message in state.values.get("messages", ()):
        echo(f"> {message.text}" if message.type == "human" else f"{message.text}\n")
    say(HELP)
    start, is_cut_off = None, bool(state.next)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            try:
                if start or is_cut_off:
                    with console.status("looking it up") if console.is_terminal else nullcontext():
                        ended = graph.invoke(start, config, context=served.context, durability="sync")
                    echo(ended["messages"][-1].text)
                    if "answer" in ended["messages"][-1].additional_kwargs:
                        Report(console, served).held(served.held(Conversation.model_validate(ended)))
                    echo("")
            except KeyboardInterrupt:
                say("dropped", "notice")
            except (UserError, RunError) as error:
                say(str(error), "error")
            if (line := input("> " if is_typed else "").strip()).lower() in ("exit", "quit"):
                break
            start, is_cut_off = {"messages": [("user", line)]} if line else None, False
