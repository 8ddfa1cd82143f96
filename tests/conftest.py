"""Fixtures that any test may use."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings

from tests.support.openai_server import OpenAIServer
from triplewise.tools.core import secrets

# The same examples each time; `--hypothesis-profile=default` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

# What a script starts in the background ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """Let no test hide a word that another one used as a password."""
    yield
    secrets._known.clear()


@pytest.fixture
def openai_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpenAIServer]]:
    """Starts loopback OpenAI-compatible servers: `openai_server(replies, faults, ...)`, closed afterwards."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:

        def start(*args: Any, **options: Any) -> OpenAIServer:
            return stack.enter_context(OpenAIServer(*args, **options))

        yield start
