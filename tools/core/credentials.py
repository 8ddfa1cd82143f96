"""Logins of servers: where they come from, and URLs without them.

A login belongs to one host and is sent to no other. It stands, in this order of preference, in the URL itself
(`https://me:secret@host/sparql`), in environment variables named by the host, in `triplewise.toml`, or in the
.netrc file:

```toml
[endpoints."sparql.example.org"]      # or host:port
user = "me"
password_env = "EXAMPLE_PASSWORD"     # the environment variable that holds it
token_env = "EXAMPLE_TOKEN"           # sent as a bearer token, in place of user and password
headers = { X-Api-Key = "$EXAMPLE_KEY" }
```
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from netrc import NetrcParseError, netrc
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict

from triplewise.tools.core.addresses import HIDDEN
from triplewise.tools.core.configuration import configuration_file, read_section
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import YamlDocument


class EndpointLogin(BaseModel):
    """A section `[endpoints."HOST"]` of `triplewise.toml`."""

    model_config = ConfigDict(extra="forbid")

    user: str = ""
    password_env: str = ""
    token_env: str = ""
    headers: dict[str, str] = {}


def without_login(url: str) -> str:
    """Return a URL without the user and the password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def login_headers(url: str) -> dict[str, str]:
    """Return the headers that log in to the server of a URL; {} where no login is known.

    Environment variables are called TRIPLEWISE_HOST_TOKEN, or TRIPLEWISE_HOST_USER and _PASSWORD, with the
    host in capitals, `_` for its dots and the colon of its port, `__` for its hyphens.

    Raises:
        ConfigurationError: an environment variable that the configuration names is not set.
        DataError: the configuration or .netrc cannot be read.
    """
    parts = urlsplit(url)
    places = [parts.netloc.rpartition("@")[2].lower(), (parts.hostname or "").lower()]
    if parts.username is not None and parts.password != HIDDEN:
        return {"Authorization": _basic(unquote(parts.username), unquote(parts.password or ""))}
    for place in places:
        name = "TRIPLEWISE_" + re.sub(r"[.:]", "_", place.replace("-", "__")).upper()
        if token := os.environ.get(f"{name}_TOKEN"):
            return {"Authorization": f"Bearer {token}"}
        if user := os.environ.get(f"{name}_USER"):
            return {"Authorization": _basic(user, os.environ.get(f"{name}_PASSWORD", ""))}
    sections = read_section("endpoints")
    if place := next((place for place in places if place in sections), ""):
        path = configuration_file() or ""
        login = YamlDocument(sections[place], path, None).read_as(EndpointLogin)
        headers = {k: _variable(v[1:], path) if v[:1] == "$" else v for k, v in login.headers.items()}
        if login.token_env:
            headers["Authorization"] = f"Bearer {_variable(login.token_env, path)}"
        elif login.user:
            password = _variable(login.password_env, path) if login.password_env else ""
            headers["Authorization"] = _basic(login.user, password)
        return headers
    file = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        entry = netrc(file).hosts.get(places[-1]) if file.is_file() else None
    except (OSError, NetrcParseError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {getattr(error, 'msg', error)}", file) from error
    return {"Authorization": _basic(entry[0], entry[2])} if entry else {}


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _variable(name: str, path: Path | str) -> str:
    if not (value := os.environ.get(name)):
        raise ConfigurationError(f"{path} names the environment variable {name}, which is not set; set it")
    return value
