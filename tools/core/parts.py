"""Parts of one's own: wherever a toolset, preset, phase, task or baseline is named, any other may stand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from triplewise.tools.core.errors import ConfigurationError


def find_part(what: str, given: Any, legal: Mapping[str, Any], kind: Callable[[Any], bool]) -> Any:
    """Return the part that is given: by its name, as `module:name` (one's own, imported now), or itself.

    Modules in the working folder are found too, after all that are installed. Raises `ConfigurationError`
    on an unknown name, a module that cannot be imported, or something else altogether.

    Args:
        what: what it is, for messages. legal: the shipped ones by name. kind: whether a value is such a part.
    """
    part = given
    if isinstance(given, str):
        if given in legal:
            return legal[given]
        module, colon, name = given.partition(":")
        if not (colon and module and name):
            unknown = ConfigurationError.unknown(what, given, legal)
            raise ConfigurationError(f"{unknown}; or give module:name of your own")
        if "" not in sys.path and "." not in sys.path:
            sys.path.append(".")
        try:
            part = getattr(import_module(module), name)
        except (ImportError, AttributeError, SyntaxError) as error:
            raise ConfigurationError(f"{what} {given!r} cannot be imported: {error}") from error
    if not kind(part):
        raise ConfigurationError(f"{given!r} is no {what}, but a {type(part).__name__}")
    return part
