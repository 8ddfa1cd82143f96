"""URLs that hold a password or a key: kept and shown without, whole for what connects."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.secrets import HIDDEN, remember

REMEMBERED = 256
"""URLs whose secrets a process remembers; the least recently given ones are forgotten."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no other machine reaches."""

T = TypeVar("T")

_PASSWORD = re.compile(r"(\w://[^/?#\s:@]*:)([^/?#\s]*)@")
_KEY = re.compile(r"([?&][^=&#]*(?:key|token|secret|passw|pwd|auth)[^=&#]*=)([^&#\s]+)", re.IGNORECASE)
_whole: OrderedDict[str, str] = OrderedDict()
_lock = threading.Lock()


def split_url(url: str, what: str = "endpoint", example: str = "http://localhost:8890/sparql") -> SplitResult:
    """Return the parts of a URL of http or https, none of which can be read wrongly.

    Args:
        what: the setting it is given as. example: one that works.

    Raises:
        ConfigurationError: it is not one, or its host or port cannot be; the message shows no password.
    """
    import httpx  # takes its time

    try:
        parts = urlsplit(url)
        reason = "" if parts.scheme in ("http", "https") and parts.hostname else "it needs http:// and a host"
        if re.search(r"\s", parts.netloc):
            reason = "a blank in its host"
        httpx.URL(url)  # checks the host as the client that will connect does
        _ = parts.port
    except (ValueError, httpx.InvalidURL) as error:
        reason = str(error) or "its host cannot be read"
    if reason:
        shown = hide_secrets(url)
        raise ConfigurationError(f"{what}: no URL can be {shown!r} ({reason}); write e.g. {example}")
    return parts


def host_of(url: str) -> str | None:
    """Return the host of a URL, None where it cannot be read."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def hide_secrets(value: T) -> T | str:
    """Return a URL with `***` for the password and the keys in it, which is `whole_url`'s to look up.

    Whatever else it is given comes back as it is.
    """
    if not isinstance(value, str) or "://" not in value:
        return value
    shown = _KEY.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1{HIDDEN}@", value))
    if shown != value:
        remember(*(match[2] for pattern in (_PASSWORD, _KEY) for match in pattern.finditer(value)))
        with _lock:
            _whole[shown] = value
            _whole.move_to_end(shown)
            while len(_whole) > REMEMBERED:
                _whole.popitem(last=False)
    return shown


def whole_url(shown: str) -> str:
    """Return the URL that this process was given for one that `hide_secrets` returned, or the text itself.

    Raises `ConfigurationError` where another process was given it: nothing keeps it.
    """
    if shown not in _whole and re.search(r"://[^/?#\s]*:\*\*\*@|=\*\*\*(&|$)", shown):
        raise ConfigurationError(f"the password or key in {shown} is kept nowhere; give the whole URL again")
    return _whole.get(shown, shown)
