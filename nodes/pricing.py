"""What model calls cost: list prices, and tokens where a server reports none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from triplewise.tools.core.files import parse_yaml, read_yaml

_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4})$")
_MESSAGE_OVERHEAD = 4
_BYTES_PER_TOKEN = 4

USD = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def estimate_tokens(texts: Iterable[str]) -> int:
    """Return the tokens of some messages where the server reports none: one per 4 UTF-8 bytes, 4 per message.

    An estimate on purpose: exact counting needs the model's own tokenizer, which would be downloaded.
    """
    return sum(_MESSAGE_OVERHEAD + -(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)


class Price(BaseModel):
    """List price of a model, in USD per million tokens."""

    input: USD
    output: USD


class Prices(BaseModel):
    """List prices by model name, as a file has them."""

    models: dict[str, Price]

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Return the USD of a call; None, never 0, for a model that has no price."""
        price = self.models.get(model) or self.models.get(_SNAPSHOT.sub("", model))
        if price is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000


@lru_cache(maxsize=8)
def load_prices(path: str | None = None) -> Prices:
    """Return the shipped price table, with a user's file of the same form laid over it.

    Raises:
        DataError: the file cannot be read or names no prices; it says where.
    """
    text = (files("triplewise.nodes") / "pricing.yaml").read_text(encoding="utf-8")
    shipped = parse_yaml(text, "pricing.yaml").read_as(Prices)
    if path is None:
        return shipped
    return Prices(models={**shipped.models, **read_yaml(Path(path)).read_as(Prices).models})
