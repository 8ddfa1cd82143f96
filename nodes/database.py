"""The relational database of a run, and what actions and prompts need of it besides the database itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.tools.actions.sql import table_line, table_text
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.retrieval.relation_ranking import rank_relations

SHOWN_TABLES = 12
"""Tables offered at once, those most like the question."""


def require_model(context: Context) -> None:
    """Raise `ConfigurationError` where a database is to be asked without a language model."""
    if context.embedded:
        raise ConfigurationError(
            "asking a database needs a language model; name one, e.g. --model openai:gpt-4o-mini"
        )


def rank_names(question: str, named: Sequence[tuple[str, str]], context: Context) -> list[str]:
    """Ids of (id, text) pairs, those most like the question first, cut at `SHOWN_TABLES`."""
    if len(named) < 2:
        return [name for name, _ in named]
    encoder = None if context.ranking in ("none", "openai") else open_encoder(context.encoder)
    method = "none" if encoder is None else context.ranking
    return rank_relations(question, list(named), method=method, encoder=encoder, cut=SHOWN_TABLES)


def sql_services(question: str, context: Context) -> dict[str, Any]:
    """What the actions of the SQL toolset ask for."""
    return {
        "database": environment(context).database,
        "rank_names": lambda named: rank_names(question, named, context),
    }


def table_lines(question: str, context: Context) -> list[str]:
    """Tables with their columns for a prompt, one a line, those that fit the question first."""
    if context.db is None:
        return []
    schema = environment(context).database.schema
    tables = {t.name: t for t in schema.tables}
    kept = rank_names(question, [(t.name, table_text(t)) for t in schema.tables], context)
    more = [f"... and {len(tables) - len(kept)} more: get_tables()"] if len(tables) > len(kept) else []
    return [*(table_line(schema, tables[name]) for name in kept), *more]
