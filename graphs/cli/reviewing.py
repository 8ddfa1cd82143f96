"""A person's word on facts read from documents, asked for on the terminal (`triplewise ask --review`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from triplewise.graphs.cli.console import say
from triplewise.tools.core.errors import ConfigurationError

WORDS = "y(es), n(o), all, none"


def check_terminal() -> None:
    """Raises `ConfigurationError` where nobody can be asked."""
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "--review asks about facts on a terminal, and standard input is none; run it on one, or leave "
            "--review out and decide afterwards with `triplewise facts accept|reject`"
        )


def ask_person(shown: Mapping[str, Any]) -> dict[str, bool] | str:
    """The word on each fact that an interrupted run shows: by id, or `all` or `none`.

    Asked on stderr, so that `--json` prints nothing else. Raises `KeyboardInterrupt` at the end of input.
    """
    facts: Sequence[Mapping[str, Any]] = shown["facts"]
    if shown.get("error"):
        say(str(shown["error"]), "notice")
    facts_were, they = ("fact was", "it") if len(facts) == 1 else ("facts were", "they")
    say(f"{len(facts)} {facts_were} read from documents. May {they} be used? {WORDS}")
    said: dict[str, bool] = {}
    for number, fact in enumerate(facts, 1):
        _show(fact, number, len(facts))
        word = _word()
        if word in ("all", "none"):
            left = facts[number - 1 :]
            return said | {f["id"]: word == "all" for f in left}
        said[fact["id"]] = word == "y"
    return said


def _show(fact: Mapping[str, Any], number: int, count: int) -> None:
    """A fact with what speaks for and against it."""
    say(f"\n{number} of {count}: {fact['fact']}  ({fact['confidence']:.0%} sure, id {fact['id'][:8]})")
    say(f'  "{fact["sentence"]}" in {fact["document"]}')
    for conflict in fact["conflicts"]:
        say(f"contradicts {conflict}", "notice")


def _word() -> str:
    """One word of a person: y, n, all or none."""
    while True:
        typer.echo("Use it? ", err=True, nl=False)
        # Not `typer.prompt`: part of its question goes to standard output, where only the answer belongs.
        if not (line := sys.stdin.readline()):
            raise KeyboardInterrupt
        word = line.strip().lower()
        if word in ("all", "none"):
            return word
        if word[:1] in ("y", "n"):
            return word[:1]
        say(f"{word!r} is neither of {WORDS}", "notice")
