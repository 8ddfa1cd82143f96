"""URLs are read as the client that connects reads them, or refused."""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.addresses import login_headers, split_url, usable_proxies
from triplewise.tools.core.errors import ConfigurationError


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1/s", "http://h:abc/s", "http://127.0.0.1:8961x/sparql", "http://☃.invalid/s"),
        *("ftp://x/y", "http:///x", "http://me:pw@/x", "http://a b/x", "http://h:99999/x"),
        *("http://xn--/x", "x", "http://.invalid/x", f"http://{'a' * 64}.invalid/x"),
    ],
)
def test_an_impossible_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        split_url(url)
    assert ":pw@" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["ftp://x", "http://[::1"])
def test_a_proxy_that_no_client_can_use_is_the_users_to_mend(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ConfigurationError, match="HTTP_PROXY"), usable_proxies():
        httpx.Client()


@pytest.mark.parametrize("token", ["t\u00f6k-12345", "tok\nInjected: 12345"])
def test_a_token_that_no_header_can_hold_is_refused_unseen(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPLEWISE_KG_EXAMPLE_TOKEN", token)
    with pytest.raises(ConfigurationError, match="TRIPLEWISE_KG_EXAMPLE_TOKEN") as caught:
        login_headers("http://kg.example/sparql")
    assert "12345" not in str(caught.value)


@given(st.text(alphabet="htps:/[]@.%0129abx☃ é\n", max_size=40).map("http://".__add__))
def test_a_url_has_parts_or_is_refused(url: str) -> None:
    with suppress(ConfigurationError):
        assert split_url(url).hostname
