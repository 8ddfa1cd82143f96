"""Every error triplewise raises on purpose, and who has to act on it.

```
TriplewiseError
├── UserError            the person must act: the message says what was wrong, where, and the fix
│   ├── ConfigurationError   unknown preset, variant, profile, model; conflicting settings
│   │   └── QuestionError        this question cannot be answered: empty, too long
│   └── DataError            a file that cannot be read: names file, line or key
├── ActionError          the model must act: becomes interpreter feedback, never ends a run
└── RunError             this run cannot go on: a service failed after retries
    ├── KGUnavailableError
    │   └── QueryFailedError     a query had no answer: what rests on it is not known
    ├── ModelUnavailableError
    │   └── OutOfTimeError       the run's budget of seconds ended while it waited for a model
    └── DocumentsUnavailableError
```
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from triplewise.tools.core.secrets import redact

LONGEST = 8_000  # Characters of a message
LISTED = 20  # Legal names up to which all are listed where an unknown one was given


class TriplewiseError(Exception):
    """Base of all errors raised on purpose; none shows a secret that the process knows."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redact(message[: 2 * LONGEST])[:LONGEST])


class UserError(TriplewiseError):
    """Something the person who runs triplewise can fix."""


class ConfigurationError(UserError):
    """A setting that cannot work."""

    @classmethod
    def unknown(cls, what: str, given: object, legal: Iterable[str]) -> ConfigurationError:
        """An error that names the legal names of `what` that are nearest, or all where there are few."""
        names = sorted(map(str, legal))
        if len(names) > LISTED and (close := difflib.get_close_matches(str(given), names, 3, 0.5)):
            return cls(f"unknown {what} {given!r}; did you mean {' or '.join(map(repr, close))}?")
        return cls(f"unknown {what} {repr(given)[:80]}; choose one of: {', '.join(names)}")


class QuestionError(ConfigurationError):
    """A question that cannot be answered; others can, with the same settings."""


class DataError(UserError):
    """A file that cannot be used: what is wrong and how to fix it, the file, a 1-based line where known."""

    def __init__(self, message: str, path: Path | str | None = None, line: int | None = None) -> None:
        self.path, self.line, self.reason = path, line, message
        shown = str(path)[:4096]  # no path is longer
        where = "" if path is None else f"{shown}:{line}: " if line else f"{shown}: "
        super().__init__(f"{where}{message}")


class ActionError(TriplewiseError):
    """The agent's reply cannot be carried out as written.

    Guidelines match the code (`arity`, ...) and may name the details, plain JSON; `raw` shows the message.
    """

    def __init__(self, code: str, message: str, **detail: Any) -> None:
        self.code, self.message = code, message
        self.detail: Mapping[str, Any] = detail
        super().__init__(message)


class RunError(TriplewiseError):
    """The run cannot go on."""


class KGUnavailableError(RunError):
    """The knowledge graph did not answer after retries."""


class QueryFailedError(KGUnavailableError):
    """What a failed query would hold was needed: the word of `Outcome`, and the engine's message."""

    def __init__(self, outcome: str, message: str) -> None:
        self.outcome, self.message = outcome, message
        super().__init__(f"a query failed ({outcome}): {message or 'no answer'}")


class ModelUnavailableError(RunError):
    """The language model did not answer after retries."""


class OutOfTimeError(ModelUnavailableError):
    """The run's budget of seconds ended during a model call."""


class DocumentsUnavailableError(RunError):
    """The service that has the documents did not answer."""


def did_you_mean(given: str, legal: Iterable[str]) -> str:
    """Return what ends a message about an unknown name: the nearest legal one, or all of them."""
    names = sorted(legal)
    close = difflib.get_close_matches(given, names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from: {', '.join(names)}"
