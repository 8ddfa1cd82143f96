"""Addresses of servers: the logins that belong to them, and how they are shown without a password or key.

A login belongs to one host, and is sent to no other: it stands in the URL or in environment variables.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
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

    `what` is the setting it is given as, `example` one that works. Raises `ConfigurationError`.
    """
    import httpx  # takes its time

    shown = hide_secrets(url)  # from now on what it holds is hidden in all that is shown
    try:
        parts = urlsplit(url)
        reason = "" if parts.scheme in ("http", "https") and parts.hostname else "it needs http:// and a host"
        reason = "a blank in its host" if re.search(r"\s", parts.netloc) else reason
        # Checks the host as the client that will connect does, and as the system then looks it up.
        _ = httpx.URL(url).host, httpx.URL(url).raw_host.decode().encode("idna"), parts.port
    except (ValueError, httpx.InvalidURL) as error:
        reason = str(error) or "its host cannot be read"
    if reason:
        raise ConfigurationError(f"{what}: no URL can be {shown[:200]!r} ({reason}); write e.g. {example}")
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


@contextmanager
def usable_proxies() -> Iterator[None]:
    """Make proxies of the environment that no client can use a `ConfigurationError`."""
    import httpx

    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        names = ", ".join(name for name in os.environ if name.lower().endswith("_proxy"))
        raise ConfigurationError(f"no proxy can be what {names} say ({error}); unset or mend them") from error


def without_login(url: str) -> str:
    """Return a URL without the user and the password in it. Raises as `split_url` does."""
    parts = split_url(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def login_headers(url: str) -> dict[str, str]:
    """Return the headers that log in to the server of a URL; {} where no login is known.

    Environment variables are TRIPLEWISE_HOST_TOKEN, or _USER and _PASSWORD, and _HEADERS (`Name: value`, one
    a line, sent too), the host in capitals with `_` for dots and the colon of its port, `__` for hyphens.
    """
    headers, lines = _login(url), next((value.splitlines() for _, value in _variables(url, "HEADERS")), [])
    for line in filter(None, lines):
        match = re.fullmatch(r"([\w!#$%&'*+.^`|~-]+):[ \t]*([\x20-\x7e]+)", line, re.ASCII)
        if match is None:
            raise ConfigurationError("a header needs the form 'Name: value', e.g. 'X-Api-Key: a1b2'")
        headers[match[1]] = match[2]
    remember(*headers.values(), *(value.partition(" ")[2] for value in headers.values()))
    return headers


def _login(url: str) -> dict[str, str]:
    parts = split_url(url)
    if parts.username is not None and parts.password != HIDDEN:
        return _basic(unquote(parts.username), unquote(parts.password or ""))
    for name, value in _variables(url, "TOKEN", "USER"):
        if name.endswith("_USER"):
            return _basic(value, next((password for _, password in _variables(url, "PASSWORD")), ""))
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(f"{name} has characters that no token has; copy it again")
        return {"Authorization": f"Bearer {value}"}
    return {}


def _variables(url: str, *endings: str) -> Iterator[tuple[str, str]]:
    """Environment variables that are set for the host and port of a URL, then those for the host alone."""
    parts = split_url(url)
    for place in (parts.netloc.rpartition("@")[2], parts.hostname or ""):
        host = re.sub(r"[.:]", "_", place.replace("-", "__")).upper()
        for name in (f"TRIPLEWISE_{host}_{ending}" for ending in endings):
            if value := os.environ.get(name):
                yield name, value


def _basic(user: str, password: str) -> dict[str, str]:
    remember(password)
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
