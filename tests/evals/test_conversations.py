"""Thirty conversations of three messages over the demo and a graph of elements.

A message is right where its answer has exactly the values of the gold query and is sure, or where it is the
proof, the query or the question that it calls for.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from triplewise.evals.data import read_records
from triplewise.graphs.build import build_chat
from triplewise.nodes.context import Context
from triplewise.nodes.converse import proof_text

DATA = os.environ.get("TRIPLEWISE_DATA", "")
MOST = 12  # of 90 messages are missed; 8, all right but unsure, were when they were counted


def is_right(turn: dict[str, Any], state: dict[str, Any]) -> bool:
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


@pytest.mark.skipif(not DATA, reason="TRIPLEWISE_DATA names no folder: the elements are there")
def test_messages_and_follow_ups_are_right() -> None:
    graph, asked, misses = build_chat(checkpointer=InMemorySaver()), 0, list[str]()
    sources = {"demo": "demo", "elements": str(Path(DATA) / "strangers" / "elements.ttl.gz")}
    for record in read_records(Path(__file__).with_name("conversations.jsonl")):
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        for turn in record["turns"]:
            message: Any = {"messages": [HumanMessage(turn["message"])]}
            state = graph.invoke(message, config, context=Context(kg=sources[record["kg"]]))
            asked += 1
            if not is_right(turn, state):
                misses.append(f"{turn['message']} -> {state['messages'][-1].text}")
    assert asked == 90
    assert len(misses) <= MOST, misses
