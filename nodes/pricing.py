"""What model calls cost: list prices, and tokens where a server reports none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.yaml_lines import YamlDocument, parse_yaml

PRICES_VARIABLE = "TRIPLEWISE_PRICES"
_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4})$")
_MESSAGE_OVERHEAD = 4
_BYTES_PER_TOKEN = 4


def estimate_tokens(texts: Iterable[str]) -> int:
    """Return the tokens of some messages where the server reports none: one per 4 UTF-8 bytes, 4 per message.

    An estimate on purpose: exact counting needs the model's own tokenizer, which would be downloaded.
    """
    return sum(_MESSAGE_OVERHEAD + -(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)


@dataclass(frozen=True)
class Prices:
    """List prices: model name -> USD per million tokens (in, out)."""

    table: Mapping[str, tuple[float, float]]

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Return the USD of a call; None, never 0, for a model that has no price."""
        price = self.table.get(model) or self.table.get(_SNAPSHOT.sub("", model))
        if price is None:
            return None
        return (input_tokens * price[0] + output_tokens * price[1]) / 1_000_000


def prices_path(path: str | Path | None = None) -> str | None:
    """Return the path of the user's price table: `path`, else TRIPLEWISE_PRICES, else None."""
    return str(path) if path else os.environ.get(PRICES_VARIABLE) or None


def load_prices(path: str | Path | None = None) -> Prices:
    """Return the shipped price table, with a user's file laid over it.

    Args:
        path: a YAML file of the shipped table's form; None takes environment variable
            TRIPLEWISE_PRICES, or the shipped table alone.

    Raises:
        DataError: the file cannot be read or names no prices; it says where.
    """
    own = prices_path(path)
    if own is None:
        return shipped_prices()
    try:
        text = Path(own).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = f"check setting prices or {PRICES_VARIABLE}"
        raise DataError(f"cannot read the price table ({error}); {hint}", own) from error
    return Prices({**shipped_prices().table, **_price_table(parse_yaml(text, own))})


@lru_cache(maxsize=1)
def shipped_prices() -> Prices:
    """Return the table of the package."""
    text = (files("triplewise.nodes") / "pricing.yaml").read_text(encoding="utf-8")
    return Prices(_price_table(parse_yaml(text, "pricing.yaml")))


def _price_table(document: YamlDocument) -> dict[str, tuple[float, float]]:
    """Return the prices of a document. Raises `DataError` naming the line, the model and the key."""
    models = document.value.get("models") if isinstance(document.value, dict) else None
    if not isinstance(models, dict):
        raise document.error("needs a key 'models' that maps names to {input: USD, output: USD}")
    for name, entry in models.items():
        if not isinstance(entry, dict):
            message = f"model {name!r} needs {{input: USD, output: USD}}, got {entry!r}"
            raise document.error(message, "models", name)
        for key in ("input", "output"):
            price = entry.get(key)
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
                message = f"{key} must be USD per million tokens, 0 or more, got {price!r}"
                raise document.error(f"model {name!r}: {message}", "models", name, key)
    return {str(name): (float(entry["input"]), float(entry["output"])) for name, entry in models.items()}
