"""What must not be shown: keys, tokens and passwords that this process knows, in any text from elsewhere.

A server may repeat what it was sent, a client may log the address: `redact` cleans errors, logs and results.
"""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from contextlib import suppress
from functools import cache
from urllib.parse import quote

HIDDEN = "***"  # What stands for a secret
SHORTEST = 6  # Characters of a secret; shorter ones would hide ordinary words
REMEMBERED = 256  # Secrets that a process knows; the least recently given ones are forgotten
LOGGERS = ("httpx", "httpcore", "openai", "langchain_core", "triplewise")

_ENVIRONMENT = re.compile(r".*(API_KEY|_TOKEN|_SECRET|PASSWORD)\Z")
_known: dict[str, None] = {}


def remember(*secrets: str) -> None:
    """Hide these from now on, as they are, as parts of a URL and as base64 writes them."""
    _filter_logs()
    for secret in secrets:
        if len(secret) < SHORTEST:
            continue
        encoded = b64encode(secret.encode("utf-8", "replace")).decode()
        for form in dict.fromkeys((secret, quote(secret, safe=""), encoded, encoded.rstrip("="))):
            _known.pop(form, None)
            _known[form] = None
    for form in list(_known)[: max(0, len(_known) - 4 * REMEMBERED)]:
        _known.pop(form, None)


def remember_environment() -> None:
    """Hide keys and passwords that stand in environment variables named so."""
    remember(*(value for name, value in os.environ.items() if _ENVIRONMENT.match(name.upper())))


def redact(text: str) -> str:
    """Return a text with `***` for every secret that is known."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


class _Redacting(logging.Filter):
    """Hides secrets in log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without secrets."""
        with suppress(TypeError, ValueError):  # the record itself is wrong: whoever handles it says so
            record.msg, record.args = redact(record.getMessage()), ()
        return True


@cache
def _filter_logs() -> None:
    """Hide secrets in what clients of servers log."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_Redacting())
