"""What a question costs: model calls, tokens, money, KG queries and time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from triplewise.tools.core.errors import DataError

PRICES_VARIABLE = "TRIPLEWISE_PRICES"
_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4})$")
_MESSAGE_OVERHEAD = 4
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used so far; usages add up, and `Usage()` is nothing.

    Attributes:
        calls: replies received from a language model.
        input_tokens, output_tokens: as the server reports them.
        cost: USD at list price; None once any model without a known price took part.
        estimated: whether any token count is our estimate (see `estimate_tokens`).
        queries: queries that reached a KG.
        hallucinated: triples that a model claimed to have from the KG although it gave no such one (ODA 2.3).
        seconds: wall-clock time, filled in by whoever measures a phase (a single reply's is 0).
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    estimated: bool = False
    queries: int = 0
    seconds: float = 0.0
    hallucinated: int = 0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost is not None and other.cost is not None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=(self.cost or 0.0) + (other.cost or 0.0) if known else None,
            estimated=self.estimated or other.estimated,
            queries=self.queries + other.queries,
            seconds=self.seconds + other.seconds,
            hallucinated=self.hallucinated + other.hallucinated,
        )

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.input_tokens + self.output_tokens


def estimate_tokens(texts: Iterable[str]) -> int:
    """Tokens of some messages where the server reports none: one per 4 UTF-8 bytes, 4 more per message.

    An estimate on purpose: exact counting needs the model's own tokenizer, which would be downloaded.
    """
    return sum(_MESSAGE_OVERHEAD + -(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)


@dataclass(frozen=True)
class Prices:
    """List prices: model name -> USD per million tokens (in, out)."""

    table: Mapping[str, tuple[float, float]]

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """USD of a call; None, never 0, for a model that has no price."""
        price = self.table.get(model) or self.table.get(_SNAPSHOT.sub("", model))
        if price is None:
            return None
        return (input_tokens * price[0] + output_tokens * price[1]) / 1_000_000


def prices_path(path: str | Path | None = None) -> str | None:
    """The user's price table: `path`, else environment variable TRIPLEWISE_PRICES, else None."""
    return str(path) if path else os.environ.get(PRICES_VARIABLE) or None


def load_prices(path: str | Path | None = None) -> Prices:
    """The shipped price table, with a user's file laid over it.

    Args:
        path: a YAML file of the shipped table's form; None takes environment variable
            TRIPLEWISE_PRICES, or the shipped table alone.

    Raises:
        DataError: the file cannot be read or names no prices; it says where.
    """
    chosen, shipped = prices_path(path), _shipped_prices()
    if chosen is None:
        return Prices(shipped)
    return Prices({**shipped, **_read_prices(Path(chosen))})


@lru_cache(maxsize=1)
def _shipped_prices() -> Mapping[str, tuple[float, float]]:
    """The table of the package."""
    resource = files("triplewise.nodes") / "pricing.yaml"
    return _parse_prices(resource.read_text(encoding="utf-8"), "pricing.yaml")


def _read_prices(path: Path) -> Mapping[str, tuple[float, float]]:
    """The table of a user's file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the price table ({error}); check setting prices or {PRICES_VARIABLE}", path
        ) from error
    return _parse_prices(text, path)


def _parse_prices(text: str, path: Path | str) -> Mapping[str, tuple[float, float]]:
    """Prices out of YAML text. Raises `DataError` naming the line or the model."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        raise DataError(f"not YAML: {problem}", path, mark.line + 1 if mark else None) from error
    models = data.get("models") if isinstance(data, dict) else None
    if not isinstance(models, dict):
        raise DataError("needs a key 'models' that maps names to {input: USD, output: USD}", path)
    return {str(name): _price(name, entry, path) for name, entry in models.items()}


def _price(name: object, entry: Any, path: Path | str) -> tuple[float, float]:
    """One model's two prices. Raises `DataError` naming the model and the key."""
    if not isinstance(entry, dict):
        raise DataError(f"model {name!r} needs {{input: USD, output: USD}}, got {entry!r}", path)
    for key in ("input", "output"):
        value = entry.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise DataError(
                f"model {name!r}: {key} must be USD per million tokens, 0 or more, got {value!r}", path
            )
    return float(entry["input"]), float(entry["output"])
