"""Opens what a context names, once per process: KGs, encoders, models, guidelines, prompts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from triplewise.guidelines import Guidelines, load_guidelines
from triplewise.nodes.context import Context
from triplewise.nodes.facts import seen
from triplewise.tools.actions import TOOLSETS, Toolset
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.retrieval.encoder import Encoder, open_encoder
from triplewise.tools.sql.nograph import NoGraph

if TYPE_CHECKING:
    from triplewise.nodes.models import ChatModel
    from triplewise.nodes.prompting import Prompt
    from triplewise.tools.planning.mining import Caps
    from triplewise.tools.planning.seeds import SeedIndex
    from triplewise.tools.retrieval.documents import Documents

NO_SEEDS = "none"
"""What the setting `seeds` says where no seeds are wanted, not even those that are kept for the KG."""


def kg_of(context: Context) -> KnowledgeGraph:
    """The KG, with the facts that the run sees over it; empty beside a database.

    Raises `ConfigurationError` or `DataError` if it cannot be opened.
    """
    if context.db is not None:
        return NoGraph()
    kg = open_kg(context.kg, profile=context.profile, timeout=context.query_timeout, limit=context.row_limit)
    return seen(kg, context)


def encoder_of(context: Context) -> Encoder:
    """The sentence encoder."""
    return open_encoder(context.encoder)


def ranking_encoder_of(context: Context) -> Encoder | None:
    """The encoder that ranks relations: an embedding server for `openai`, none for `none`.

    Raises `ConfigurationError` on a missing key or an address that is none.
    """
    if context.ranking == "none":
        return None
    if context.ranking != "openai":
        return encoder_of(context)
    from triplewise.nodes.embeddings import open_embeddings

    return open_embeddings(
        context.ranking_model, context.base_url, api_key_env=context.api_key_env, prices=context.prices
    )


def model_of(context: Context) -> ChatModel:
    """The language model. Raises `ConfigurationError` on a bad name or a missing key."""
    from triplewise.nodes.models import open_model

    return open_model(
        context.model,
        base_url=context.base_url,
        api_key_env=context.api_key_env,
        temperature=context.temperature,
        max_tokens=context.max_reply_tokens,
        prices=context.prices,
    )


def toolset_of(context: Context) -> Toolset:
    """The actions the agent may take. Raises `ConfigurationError` on an unknown name."""
    name = context.toolset or "pyql"
    if name not in TOOLSETS:
        raise ConfigurationError.unknown("toolset", name, TOOLSETS)
    return TOOLSETS[name]


def prompt_of(context: Context) -> Prompt:
    """The prompt templates."""
    from triplewise.nodes.prompting import load_prompt

    return load_prompt(context.prompt or "agent")


@lru_cache(maxsize=16)
def _guidelines(files: tuple[str, ...]) -> Guidelines:
    """The shipped guidelines, with a user's own before them."""
    return load_guidelines(files)


def guidelines_of(context: Context) -> Guidelines:
    """ERASER's guidelines, those of `context.guidelines` first."""
    return _guidelines(tuple(context.guidelines))


def documents_of(context: Context) -> Documents | None:
    """The user's documents, where the context names a folder. Raises `DataError` if it holds none."""
    if context.documents is None:
        return None
    from triplewise.tools.retrieval.documents import open_documents

    return open_documents(context.documents)


def caps_of(context: Context) -> Caps:
    """How far mining goes."""
    from triplewise.tools.planning.mining import Caps

    return Caps(
        hops=context.plan_hops,
        samples=context.plan_samples,
        answers=context.plan_answers,
        frontier=context.plan_frontier,
        bodies=context.plan_paths,
        seed=context.plan_seed,
    )


def seeds_of(context: Context) -> SeedIndex | None:
    """The index of seed questions: those of a file, or those that are kept for the KG; None without any.

    Raises `DataError` if a file is missing or a line is broken.
    """
    if context.seeds == NO_SEEDS or context.db is not None:
        return None
    from triplewise.tools.planning.seed_index import seeds_for

    return seeds_for(context.kg, kg_of(context), context.seeds, caps_of(context))
