"""`triplewise.toml`: what is set once for every run, by the person who runs triplewise or serves it.

```toml
[settings]                     # of every run, as `--set` has them, and `preset`; options go before them
kg = "films"
model = "openai:gpt-4o-mini"

[server.kg]                    # what clients of a server may choose, by name (graphs/studio.py)
films = "/data/films"
```
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from triplewise.tools.core.errors import ConfigurationError, DataError, did_you_mean
from triplewise.tools.core.files import read_text

VARIABLE, NAME = "TRIPLEWISE_CONFIG", "triplewise.toml"
SECTIONS = ("server", "settings")


def configuration_file() -> Path | None:
    """Return the file that the environment variable names, which must exist, else the first of `places`."""
    if named := os.environ.get(VARIABLE):
        if not (path := Path(named)).is_file():
            raise DataError(f"no such configuration file; correct {VARIABLE}, or unset it", path)
        return path
    return next((path for path in places() if path.is_file()), None)


def places() -> tuple[Path, Path]:
    """Return where a configuration file is looked for: the working folder, the user's folder."""
    return Path(NAME).absolute(), user_config_path("triplewise") / NAME


def read_section(name: str) -> dict[str, Any]:
    """Return a section of the configuration file; empty where it is not written. Raises `DataError`."""
    if (path := configuration_file()) is None:
        return {}
    try:
        tables = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot be read as TOML: {error}", path) from error
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, dict):
            raise DataError(f"unknown section [{section}]{did_you_mean(section, SECTIONS)}", path)
    return dict(tables.get(name, {}))


def find_part(what: str, given: Any, legal: Mapping[str, Any], kind: Callable[[Any], bool]) -> Any:
    """Return the part that is given: by its name in `legal`, as `module:name` of one's own, or itself.

    Modules in the working folder come after installed ones. Raises `ConfigurationError` on another `kind`.
    """
    part = given
    if isinstance(given, str):
        if given in legal:
            return legal[given]
        module, _, name = given.partition(":")
        if not module or not name:
            unknown = ConfigurationError.unknown(what, given, legal)
            raise ConfigurationError(f"{unknown}; or give module:name of your own")
        if "" not in sys.path and (here := os.getcwd()) not in sys.path:
            sys.path.append(here)
        try:
            part = getattr(import_module(module), name)
        except (Exception, SystemExit) as error:  # whatever code of one's own does
            reason = f"{type(error).__name__}: {error}"
            raise ConfigurationError(f"{what} {given[:200]!r} cannot be imported ({reason})") from error
    if not kind(part):
        raise ConfigurationError(f"{given!r} is not a {what} (its type is {type(part).__name__})")
    return part
