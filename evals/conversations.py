"""Follow-up questions: thirty conversations of three messages over the demo and a graph of elements.

A message is met where its answer has exactly the values of the gold query and is sure, or where it is the
proof, the query or the question that it calls for. Needs TRIPLEWISE_DATA for the elements.
"""

from __future__ import annotations

import uuid
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from triplewise.evals.data import data_folder, read_records
from triplewise.graphs.chat import build_chat
from triplewise.nodes.context import Context
from triplewise.nodes.converse import proof_text
from triplewise.tools.core.files import Record


def is_right(turn: Record, state: Record) -> bool:
    """Return whether the newest message is met by what it calls for."""
    message, exchanges = state["messages"][-1], state.get("exchanges", ())
    match turn["expects"]:
        case "question":
            return bool(state["unclear"])
        case "query":
            return f"```sparql\n{exchanges[-1].answer.sparql}" in message.text
        case "proof":
            return bool(message.text == proof_text(exchanges[-1]))
    answer = message.additional_kwargs.get("answer") or {"values": (), "status": ""}
    return set(answer["values"]) == set(turn["answers"]) and answer["status"] in ("answered", "not_found")


def main(
    model: str = "embedded",
    base_url: str | None = None,
    limit: Annotated[int, typer.Option(help="Conversations, from the first on.")] = 30,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what was said.")] = False,
) -> None:
    """Hold the conversations; print the share of messages that were met, and of follow-ups."""
    graph = build_chat(checkpointer=InMemorySaver())
    records = read_records(Path(str(files("triplewise.evals") / "conversations.jsonl")))
    sources = {"demo": "demo", "elements": str(data_folder() / "strangers" / "elements.ttl.gz")}
    first, follow_ups = list[bool](), list[bool]()
    for record in records[:limit]:
        context = Context(kg=sources[record["kg"]], model=model, base_url=base_url)
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        for number, turn in enumerate(record["turns"]):
            message = {"messages": [HumanMessage(turn["message"])]}
            state = graph.invoke(message, config, context=context)
            (follow_ups if number else first).append(met := is_right(turn, state))
            if verbose:
                reply = state["messages"][-1].text
                typer.echo(f"{turn['message']}\n{'right' if met else 'WRONG'}  {reply}")
    for name, right in (("first questions", first), ("follow-ups", follow_ups), ("all", first + follow_ups)):
        typer.echo(f"{name}: {sum(right)} of {len(right)} right ({sum(right) / len(right):.0%})")


if __name__ == "__main__":
    typer.run(main)
