"""No secret of this process is shown, whoever repeats it."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core import secrets
from triplewise.tools.core.addresses import hide_secrets
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.secrets import redact, remember

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=8, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def _forget() -> Iterator[None]:
    yield
    secrets._known.clear()


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_hidden_in_any_text_and_form(secret: str, before: str, after: str) -> None:
    remember(secret)
    written = secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], escape(secret)
    for form in (*written, b64encode(secret.encode()).decode()):
        assert form not in redact(f"{before}{form}{after}")


def test_a_secret_is_hidden_in_the_traceback_of_a_log_record(caplog: pytest.LogCaptureFixture) -> None:
    remember(secret := "sk-quite-a-long-key")
    with caplog.at_level(logging.DEBUG, "openai"):
        try:
            raise ValueError(f"Incorrect API key provided: {secret}")
        except ValueError:
            logging.getLogger("openai").debug("failed", exc_info=True)
    assert "Incorrect API key provided: ***" in caplog.text
    assert secret not in caplog.text


@given(SECRETS)
def test_a_key_in_an_address_is_hidden_as_the_server_reads_it(secret: str) -> None:
    assert hide_secrets(f"http://host/x?key={quote(secret, safe='')}") == "http://host/x?key=***"
    assert secret not in redact(f"no such key: {secret}")


@given(st.from_regex(r"[A-Za-z0-9+-]{8,20}", fullmatch=True))
def test_a_password_in_an_address_is_hidden_in_errors_though_nobody_named_it(secret: str) -> None:
    for address in (
        f"http://me:{secret}@host/x",
        f"http:/me:{secret}@host/x",
        f"http://host/x?token={secret}",
    ):
        assert f"{secret}@" not in str(DataError("no such file", address))
        assert f"={secret}" not in str(ConfigurationError(f"cannot read {address}"))


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9/?#%+-]{7,20}", fullmatch=True))
def test_a_password_that_should_be_quoted_in_an_address_is_hidden_too(secret: str) -> None:
    assert redact(f"no URL can be 'http://me:{secret}@host/x'") == "no URL can be 'http://me:***@host/x'"
    assert hide_secrets("http://host:8000/path@x") == "http://host:8000/path@x"


def test_what_a_server_answers_keeps_words_but_no_key() -> None:
    remember("oxford", "zq-S3cretKey+/9xYw==")
    answer = b'{"value": "oxford", "echo": "zq-S3cretKey+/9xYw=="}'
    assert secrets.redact_data(answer) == b'{"value": "oxford", "echo": "***"}'


def test_errors_and_log_records_show_none(caplog: pytest.LogCaptureFixture) -> None:
    assert "hunter22" not in str(hide_secrets("http://me:hunter22@host/x?api_key=abc12345"))
    assert "hunter22" not in str(ConfigurationError("the server says: bad password hunter22"))
    assert "abc12345" not in str(DataError("GET /x?api_key=abc12345", "file", 3))
    with caplog.at_level(logging.INFO, "httpx"):
        logging.getLogger("httpx").info('HTTP Request: GET %s "200"', "http://host/x?api_key=abc12345")
    assert "abc12345" not in caplog.text
    assert "HTTP Request" in caplog.text
