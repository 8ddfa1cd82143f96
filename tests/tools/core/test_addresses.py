"""URLs without their passwords."""

from __future__ import annotations

import pytest

from triplewise.tools.core.addresses import hide_secrets, whole_url
from triplewise.tools.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:a@b:c@host:80/sparql", "http://me:***@host:80/sparql"),
        ("https://host/sparql?graph=g&api_key=a&x=1", "https://host/sparql?graph=g&api_key=***&x=1"),
        ("postgresql+psycopg://me:a@host/db?password=b", "postgresql+psycopg://me:***@host/db?password=***"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("films.ttl", "films.ttl"),
        (None, None),
    ],
)
def test_secrets_are_hidden_and_found_again(url: str | None, shown: str | None) -> None:
    assert hide_secrets(url) == shown
    if shown is not None:
        assert hide_secrets(shown) == shown
        assert whole_url(shown) == url


def test_a_password_that_another_process_was_given_is_asked_for() -> None:
    with pytest.raises(
        ConfigurationError, match=r"in http://you:\*\*\*@host/ is kept nowhere; give the whole URL"
    ):
        whole_url("http://you:***@host/")
