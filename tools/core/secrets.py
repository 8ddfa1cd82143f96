"""What must not be shown: keys, tokens and passwords that this process knows, in any text from elsewhere.

A server may repeat what it was sent, a client may log the address: `redact` cleans errors, logs and results.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64encode
from contextlib import suppress
from functools import cache
from html import escape
from urllib.parse import quote, unquote

HIDDEN = "***"  # What stands for a secret
SHORTEST, SHORTEST_IN_DATA = 6, 16  # Characters of a secret; shorter ones would hide ordinary words
REMEMBERED, FORMS = 256, 7  # Secrets that a process knows, forms of each; the least recently given go first
LOGGERS = ("httpx", "httpcore", "openai", "langchain_core", "triplewise")

IN_URLS = (
    # A password may hold what a URL does not allow; what may be a port and a path is none.
    re.compile(r"(\w:/{1,2}[^/?#\s:@]*:)([^/?#\s]*|(?!\d+[/?#])[^@\s]{1,200})(@)"),
    re.compile(
        r"([?&][^=&#?\s]{0,64}(?:key|token|secret|passw|pwd|auth)[^=&#?\s]{0,64}=)([^&#\s]+)()", re.IGNORECASE
    ),
)
"""The password and the keys of a URL, each between what stays."""
_ENVIRONMENT = re.compile(r".*(API_KEY|_TOKEN|_SECRET|PASSWORD)\Z")
_known: dict[str, None] = {}


def remember(*secrets: str) -> None:
    """Hide these from now on: as they are, and as a URL, JSON, HTML and base64 write them."""
    _filter_logs()
    for secret in dict.fromkeys((*secrets, *map(unquote, secrets))):
        if len(secret) < SHORTEST:
            continue
        encoded = b64encode(secret.encode("utf-8", "replace")).decode()
        forms = secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], escape(secret)
        for form in dict.fromkeys((*forms, encoded, encoded.rstrip("="))):
            _known.pop(form, None)
            _known[form] = None
    for form in list(_known)[: max(0, len(_known) - FORMS * REMEMBERED)]:
        _known.pop(form, None)


def remember_environment() -> None:
    """Hide keys and passwords that stand in environment variables named so."""
    remember(*(value for name, value in os.environ.items() if _ENVIRONMENT.match(name.upper())))


def redact(text: str) -> str:
    """Return a text with `***` for every secret that is known, or that stands in a URL."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    for pattern in IN_URLS:
        text = pattern.sub(rf"\1{HIDDEN}\3", text)
    return text


def redact_data(data: bytes) -> bytes:
    """Return an answer of a server with `***` for secrets in it, but for short ones, which may be words."""
    for secret in sorted(_known, key=len, reverse=True):
        if len(secret) >= SHORTEST_IN_DATA and (form := secret.encode("utf-8", "replace")) in data:
            data = data.replace(form, HIDDEN.encode())
    return data


class _Redacting(logging.Filter):
    """Hides secrets in log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without secrets."""
        with suppress(TypeError, ValueError):  # the record itself is wrong: whoever handles it says so
            record.msg, record.args = redact(record.getMessage()), ()
            if record.exc_info and not record.exc_text:  # which formatters take as it is
                record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


@cache
def _filter_logs() -> None:
    """Hide secrets in what clients of servers log."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_Redacting())
