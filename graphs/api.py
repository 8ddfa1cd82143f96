"""The whole of triplewise in some functions: `ask` a question, many of them, or follow one phase by phase.

Each is a few lines over the compiled graph (`build_graph`, `Context`), which does all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

from triplewise.graphs.build import build_graph
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer

Entities = Mapping[str, str | None]
"""Entities known already: mention -> id, or None to have it linked."""

_graph: Any = lru_cache(maxsize=None)(build_graph)  # a preset each


def ask(
    question: str,
    kg: Any = "demo",
    *,
    preset: str = "agent",
    entities: Entities | None = None,
    **settings: Any,
) -> Answer:
    """Answer a question.

    Args:
        question: in plain language.
        kg: `demo`, a loaded folder, an RDF file or folder, an endpoint URL, a `KnowledgeGraph`, or an rdflib
            graph.
        preset: see `triplewise presets`.
        entities: mention -> id of those that are known already.
        **settings: of `Context`, e.g. `model="openai:gpt-4o-mini"`, `min_confidence=0.8`.

    Raises:
        ConfigurationError: a setting that cannot work. DataError: no such graph.
        ModelUnavailableError, KGUnavailableError: a model or an endpoint that does not answer.
    """
    state = _graph(preset).invoke(_input(question, entities), context=Context(kg=kg, **settings))
    answer: Answer = state["answer"]
    return answer


async def aask(
    question: str,
    kg: Any = "demo",
    *,
    preset: str = "agent",
    entities: Entities | None = None,
    **settings: Any,
) -> Answer:
    """Answer a question without holding a thread while a model writes; as `ask`."""
    context = Context(kg=kg, **settings)
    answer: Answer = (await _graph(preset).ainvoke(_input(question, entities), context=context))["answer"]
    return answer


def ask_many(
    questions: Iterable[str],
    kg: Any = "demo",
    *,
    jobs: int = 4,
    preset: str = "agent",
    **settings: Any,
) -> Iterator[Answer]:
    """Answer questions, `jobs` at a time; yield the answers in the order of the questions.

    A question that raises ends it; the answers before it have been given. Arguments as of `ask`.
    """
    one = partial(ask, kg=kg, preset=preset, **settings)
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="triplewise-ask")
    try:
        yield from pool.map(one, questions)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def stream(
    question: str,
    kg: Any = "demo",
    *,
    preset: str = "agent",
    entities: Entities | None = None,
    **settings: Any,
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each phase with its update of the state as it happens; the last is `answer`. As `ask`."""
    context = Context(kg=kg, **settings)
    for update in _graph(preset).stream(_input(question, entities), context=context, stream_mode="updates"):
        yield from update.items()


def _input(question: str, entities: Entities | None) -> dict[str, Any]:
    return {"question": question, "entities": dict(entities or {})}
