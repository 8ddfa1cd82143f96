"""YAML read so that whatever is wrong with a value can be said with the line it stands in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from triplewise.tools.core.errors import DataError

Place = tuple[Hashable, ...]
"""Keys and indices that lead to a value: `(2, "example", "feedback")`."""


@dataclass
class YamlDocument:
    """A YAML text as plain values, with the line of each.

    Attributes:
        path: what messages call it.
        value: the plain value; None for an empty text.
        lines: place -> line, from 1.
        blocks: places of texts that begin in the line after their key (`|`, `>`).
    """

    path: str
    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    blocks: set[Place] = field(default_factory=set)

    def line(self, *place: Hashable) -> int | None:
        """The line of a value, or of what it would stand in where it is missing."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    def fail(self, message: str, *place: Hashable) -> NoReturn:
        """Raise a `DataError` that names the file and the line of a value."""
        raise DataError(message, self.path, self.line(*place))


def read_yaml(text: str, path: str) -> YamlDocument:
    """The values of a YAML text. Raises `DataError` where it is none, or a key stands twice."""
    document = YamlDocument(path)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            if (root := loader.get_single_node()) is not None:
                _locate(document, root, ())
                document.value = loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DataError(
            f"is not valid YAML: {error.problem or error.context}; check indentation, and quote text "
            "that holds ': ' or ' #' or begins with a bracket, a quote or one of ? % @ & * | >",
            path,
            mark.line + 1 if mark else None,
        ) from error
    except yaml.YAMLError as error:
        raise DataError(f"is not valid YAML: {error}", path) from error
    return document


def _locate(document: YamlDocument, node: yaml.Node, place: Place) -> None:
    """Note the lines of a node and of all below it."""
    document.lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        document.blocks.add(place)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _locate(document, item, (*place, index))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*place, key.value if isinstance(key, yaml.ScalarNode) else id(key))
            if inner in document.lines:
                line = key.start_mark.line + 1
                raise DataError(f"{key.value}: stands twice in one mapping; drop one", document.path, line)
            _locate(document, value, inner)
