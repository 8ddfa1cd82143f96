"""The compiled state machines: `build_graph`, the presets, the command line."""

TYPE_CHECKING = False  # that of `typing`; see `triplewise`
if TYPE_CHECKING:
    from triplewise import PRESETS, Answer, Context, State, build_graph, serializer
else:
    from triplewise import __getattr__

__all__ = ["PRESETS", "Answer", "Context", "State", "__getattr__", "build_graph", "serializer"]
