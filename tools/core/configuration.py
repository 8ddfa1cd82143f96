"""`triplewise.toml`: what is set once for every run, by the person who runs triplewise or serves it.

```toml
[settings]                     # of every run, as `--set` has them, and `preset`; options go before them
kg = "films"
model = "openai:gpt-4o-mini"

[server.kg]                    # what clients of a server may choose, by name (graphs/studio.py)
films = "/data/films"
```

It is the file that the environment variable TRIPLEWISE_CONFIG names, else `triplewise.toml` in the working
folder, else the one in the user's configuration folder.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import DataError, did_you_mean
from triplewise.tools.core.files import read_text

VARIABLE, NAME = "TRIPLEWISE_CONFIG", "triplewise.toml"
SECTIONS = ("endpoints", "server", "settings")


def configuration_file() -> Path | None:
    """Return the configuration file, None without one. Raises `DataError` if the one named is missing."""
    if named := os.environ.get(VARIABLE):
        if not (path := Path(named)).is_file():
            raise DataError(f"no such configuration file; correct {VARIABLE}, or unset it", path)
        return path
    return next((path for path in places() if path.is_file()), None)


def places() -> tuple[Path, Path]:
    """Return where a configuration file is looked for: the working folder, the user's folder."""
    from platformdirs import user_config_path

    return Path(NAME).absolute(), user_config_path("triplewise") / NAME


def read_section(name: str) -> dict[str, Any]:
    """Return a section of the configuration file, as TOML has it; empty where it is not written.

    Raises `DataError` where the file cannot be read, is not TOML, or has an unknown section.
    """
    if (path := configuration_file()) is None:
        return {}
    try:
        tables = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot be read as TOML: {error}", path) from error
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, dict):
            raise DataError(f"unknown section [{section}]{did_you_mean(section, SECTIONS)}", path)
    section_table: dict[str, Any] = tables.get(name, {})
    return section_table
