"""Wires a conversation: each message is a question to the machine, read with those before it.

```
START → read ─┬─ a question → ask (the machine) → reply → END
              └─ why, show the query → END
```
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from triplewise.graphs.build import RECURSION_LIMIT, build_graph, with_types
from triplewise.nodes.context import Context
from triplewise.nodes.converse import Conversation, Messages, read, reply
from triplewise.nodes.phase import Phase
from triplewise.nodes.state import Input


def build_chat(
    preset: str = "agent",
    *,
    checkpointer: Any = None,
    context_schema: type[Context] = Context,
    **phases: str | Phase,
) -> CompiledStateGraph[Conversation, Context, Any, Any]:
    """Compile a conversation, with `messages` in its state and a thread for each; as `build_graph`."""
    graph = StateGraph[Conversation, Context, Any, Any](Conversation, context_schema, input_schema=Messages)
    graph.add_node("read", read, destinations={"ask": "a question", END: "why, show the query"})
    graph.add_node("ask", build_graph(preset, context_schema=context_schema, **phases), input_schema=Input)
    graph.add_node("reply", reply, destinations={END: "answered"})
    graph.add_edge(START, "read")
    graph.add_edge("ask", "reply")
    compiled = graph.compile(checkpointer=with_types(checkpointer, Conversation), name="chat")
    return compiled.with_config(recursion_limit=RECURSION_LIMIT)
