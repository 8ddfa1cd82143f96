"""The compiled state machines: `build_graph`, the presets, the command line.

>>> from triplewise.graphs import Context, build_graph
>>> graph = build_graph(preset="agent")
>>> state = graph.invoke({"question": "What is the capital of Japan?"}, context=Context(kg="demo"))
>>> state["answer"].text
'Tokyo.'
"""

from triplewise.graphs.build import build_graph
from triplewise.graphs.presets import PRESETS
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer, State

__all__ = ["PRESETS", "Answer", "Context", "State", "build_graph"]
