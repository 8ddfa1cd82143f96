"""Which database is meant: an SQLAlchemy URL, or the path of a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL

from triplewise.tools.core.errors import ConfigurationError

ENDINGS = {
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
    ".db3": "sqlite",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".csv": "duckdb",
    ".tsv": "duckdb",
}
FORMS = "sqlite:///FILE, duckdb:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE, or the path of a file " + (
    f"that ends in {', '.join(ENDINGS)}"
)
_DRIVERS = {"duckdb": "duckdb", "postgresql": "psycopg"}


def read_url(text: str) -> URL:
    """The URL of a database, its driver known to be installed.

    Raises:
        ConfigurationError: no URL or path of a database, a kind of database that cannot be asked, or a driver
            that is missing. No message holds a password.
    """
    url = _parsed(text.strip())
    kind = url.get_backend_name()
    kind = "postgresql" if kind == "postgres" else kind
    if kind not in ("sqlite", "duckdb", "postgresql"):
        raise ConfigurationError(
            f"databases of kind {kind!r} cannot be asked, since it is not proven that they are only read; "
            f"use {FORMS}"
        )
    driver = _DRIVERS.get(kind)
    if driver and find_spec(driver) is None:
        raise ConfigurationError(
            f"{kind} needs the package {driver}, which is not installed: pip install 'triplewise[sql]'"
        )
    if kind != "postgresql" and url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"a {kind} URL needs a file, e.g. {kind}:///folder/data.{kind}")
    return url.set(drivername="postgresql+psycopg" if kind == "postgresql" else kind)


def _parsed(text: str) -> URL:
    if "://" in text:
        try:
            return sa.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise ConfigurationError(f"the database URL cannot be read; use {FORMS}") from None
    ending = Path(text).suffix.lower()
    if ending not in ENDINGS:
        raise ConfigurationError(f"{text!r} names no database; use {FORMS}")
    return URL.create(ENDINGS[ending], database=str(Path(text).expanduser()))
