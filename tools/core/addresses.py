"""Addresses of servers: the logins that belong to them, and how they are shown without a password or key.

A login belongs to one host, and is sent to no other: it stands in the URL or in environment variables.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.secrets import HIDDEN, IN_URLS, remember

REMEMBERED = 256  # URLs whose secrets a process remembers; the earliest given ones are forgotten
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # Names of this machine that no other machine reaches
T = TypeVar("T")

_whole: dict[str, str] = {}


def split_url(url: str, what: str = "endpoint", example: str = "http://localhost:8890/sparql") -> SplitResult:
    """Return the parts of a URL of http or https, none of which can be read wrongly.

    `what` is the setting it is given as, `example` one that works. Raises `ConfigurationError`, without
    password.
    """
    import httpx  # takes its time

    shown = hide_secrets(url)  # from now on what it holds is hidden in all that is shown
    try:
        parts = urlsplit(url)
        reason = "" if parts.scheme in ("http", "https") and parts.hostname else "it needs http:// and a host"
        reason = "a blank in its host" if re.search(r"\s", parts.netloc) else reason
        _ = httpx.URL(url).host, parts.port  # checks the host as the client that will connect does
    except (ValueError, httpx.InvalidURL) as error:
        reason = str(error) or "its host cannot be read"
    if reason:
        raise ConfigurationError(f"{what}: no URL can be {shown!r} ({reason}); write e.g. {example}")
    return parts


def host_of(url: str) -> str | None:
    """Return the host of a URL, None where it cannot be read."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def hide_secrets(value: T) -> T | str:
    """Return a URL with `***` for the password and the keys in it; whatever else, as it is."""
    if not isinstance(value, str) or "://" not in value:
        return value
    remember(*(match[2] for pattern in IN_URLS for match in pattern.finditer(value)))
    shown: str = value
    for pattern in IN_URLS:
        shown = pattern.sub(rf"\1{HIDDEN}\3", shown)
    if shown != value:
        _whole.pop(shown, None)
        _whole[shown] = value
        for earliest in list(_whole)[:-REMEMBERED]:
            _whole.pop(earliest, None)
    return shown


def whole_url(shown: str) -> str:
    """Return the URL that this process was given for one that `hide_secrets` returned, or the text itself.

    Raises `ConfigurationError` where another process was given it: nothing keeps it.
    """
    if shown not in _whole and re.search(r"://[^/?#\s]*:\*\*\*@|=\*\*\*(&|$)", shown):
        raise ConfigurationError(f"the password or key in {shown} is kept nowhere; give the whole URL again")
    return _whole.get(shown, shown)


def without_login(url: str) -> str:
    """Return a URL without the user and the password in it. Raises as `split_url` does."""
    parts = split_url(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def login_headers(url: str) -> dict[str, str]:
    """Return the headers that log in to the server of a URL; {} where no login is known.

    Environment variables are TRIPLEWISE_HOST_TOKEN, or _USER and _PASSWORD, and _HEADERS (`Name: value`, one
    a line, sent too), with the host in capitals, `_` for its dots and the colon of its port, `__` for its
    hyphens.
    """
    headers = _login(url) | read_headers(_variable_of(url, "HEADERS").splitlines())
    remember(*headers.values(), *(value.partition(" ")[2] for value in headers.values()))
    return headers


def _login(url: str) -> dict[str, str]:
    parts = split_url(url)
    if parts.username is not None and parts.password != HIDDEN:
        return _basic(unquote(parts.username), unquote(parts.password or ""))
    for place in _places(url):  # what was given for the port comes first, whichever it is
        if token := os.environ.get(name := _variable_name(place, "TOKEN")):
            if not (token.isascii() and token.isprintable()):
                raise ConfigurationError(f"{name} has characters that no token has; copy it again")
            return {"Authorization": f"Bearer {token}"}
        if user := os.environ.get(_variable_name(place, "USER")):
            return _basic(user, _variable_of(url, "PASSWORD"))
    return {}


def read_headers(lines: Iterable[str]) -> dict[str, str]:
    """Return headers from lines `Name: value`. Raises `ConfigurationError`, which shows none, on others."""
    headers = {}
    for line in filter(None, lines):
        match = re.fullmatch(r"([\w!#$%&'*+.^`|~-]+):[ \t]*([\x20-\x7e]+)", line, re.ASCII)
        if match is None:
            raise ConfigurationError("a header needs the form 'Name: value', e.g. 'X-Api-Key: a1b2'")
        headers[match[1]] = match[2]
    return headers


def _places(url: str) -> list[str]:
    """Return host and port of a URL, then the host alone."""
    parts = split_url(url)
    return [parts.netloc.rpartition("@")[2].lower(), (parts.hostname or "").lower()]


def _variable_name(place: str, part: str) -> str:
    return f"TRIPLEWISE_{re.sub(r'[.:]', '_', place.replace('-', '__')).upper()}_{part}"


def _variable_of(url: str, part: str) -> str:
    """Return what the environment has for a host and its port, or for the host."""
    names = (_variable_name(place, part) for place in _places(url))
    return next((value for name in names if (value := os.environ.get(name))), "")


def _basic(user: str, password: str) -> dict[str, str]:
    remember(password)
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
