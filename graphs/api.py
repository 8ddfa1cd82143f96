"""The whole of triplewise in some functions over the compiled graph, which does all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack

from triplewise.graphs.build import build_graph
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer
from triplewise.tools.core.errors import ConfigurationError, QuestionError

Entities = Mapping[str, str | None]
"""Entities known already: mention -> id, or None to have it linked."""

Settings = TypedDict("Settings", {  # noqa: UP013 - several on a line
    "profile": str | None, "model": Any, "base_url": str | None, "api_key_env": str,
    "calling": Literal["react", "tools"], "max_actions": int, "temperature": float,
    "reasoning_effort": Literal["low", "medium", "high"] | None, "max_reply_tokens": int,
    "model_timeout": float, "model_retries": int, "prices": str | None, "encoder": str, "toolset": Any,
    "prompt": str | None, "guidelines": list[str], "seeds": str | None, "documents": Any,
    "facts": str | None, "overlay": Literal["none", "accepted", "proposed"], "review": bool,
    "seed_count": int, "plan_hops": int, "plan_rules": int, "observe_depth": int,
    "observe_width": int, "observe_keep": float, "observe_direction": Literal["both", "outgoing"],
    "reflect_limit": int, "closed_world": bool, "guess": bool,
    "min_confidence": float | None, "interactive": bool, "calibration": str | None, "relation_cut": int,
    "ranking": Literal["none", "hybrid", "sentence-transformers", "openai"], "shuffle_seed": int | None,
    "ranking_model": str, "db": str | None, "verify_corrections": bool, "draw_seed": int,
    "history": Literal["short", "full", "chat"], "earlier": str | None,
    "label_batch": bool, "reuse_answers": bool, "cascade": float | None,
    "max_steps": int | None, "max_corrections": int, "max_model_calls": int, "max_tokens": int,
    "max_queries": int, "max_seconds": float, "query_timeout": float, "row_limit": int, "connections": int,
}, total=False)  # fmt: skip
"""The settings of `Context` but for `kg`, as keyword arguments."""


class Asked(Settings, total=False):
    """What a question is asked with besides the graph: settings, a preset, and entities known already."""

    preset: str
    entities: Entities | None


_graph: Any = lru_cache(maxsize=16)(build_graph)


def _run(question: str, kg: Any, asked: Mapping[str, Any]) -> tuple[Any, dict[str, Any], Context]:
    """Return graph, input and context of a run. Raises `ConfigurationError` for values of a wrong type."""
    settings = dict(asked)
    preset, entities = settings.pop("preset", "agent"), settings.pop("entities", None) or {}
    if not isinstance(question, str):
        raise ConfigurationError(f"a question is a text, got {question!r}")
    if not isinstance(entities, Mapping) or not all(
        isinstance(mention, str) and isinstance(id_, str | None) for mention, id_ in entities.items()
    ):
        message = f'entities: a mapping of mention to id, e.g. {{"Alien": "Q103569"}}, got {entities!r}'
        raise ConfigurationError(message)
    run = {"question": question, "entities": dict(entities)}
    return _graph(preset), run, Context(kg=kg, **settings)


def ask(question: str, kg: Any = "demo", **asked: Unpack[Asked]) -> Answer:
    """Answer a question.

    Args:
        question: in plain language.
        kg: `demo`, a loaded folder, an RDF file or folder, an endpoint URL, a `KnowledgeGraph`, or an rdflib
            graph.
        **asked: `preset` (see `triplewise presets`), `entities` known already (mention -> id), and settings
            of `Context`, e.g. `model="openai:gpt-4o-mini"`, `min_confidence=0.8`.

    Returns:
        An `Answer`: its `status` (answered, unsure, not_found, budget_spent) with the `reason`; the answers
        as ids or literals (`values`) and as they read (`labels`, `text`); the `sparql` that gives them, the
        facts that prove them (`proof`), `confidence`, `rivals` with other answers, and the run's `usage`.

    Raises:
        ConfigurationError: a setting that cannot work. DataError: no such graph.
        ModelUnavailableError, KGUnavailableError: a model or an endpoint that does not answer.
    """
    graph, run, context = _run(question, kg, asked)
    answer: Answer = graph.invoke(run, context=context)["answer"]
    return answer


async def aask(question: str, kg: Any = "demo", **asked: Unpack[Asked]) -> Answer:
    """Answer a question in a coroutine, many at a time; as `ask`."""
    graph, run, context = _run(question, kg, asked)
    answer: Answer = (await graph.ainvoke(run, context=context))["answer"]
    return answer


def ask_many(
    questions: Iterable[str], kg: Any = "demo", *, jobs: int = 4, **asked: Unpack[Asked]
) -> Iterator[Answer]:
    """Answer questions, `jobs` at a time; yield the answers in the order of the questions.

    One that is empty or too long has the status `not_found` and the reason. Another error ends
    it; the answers before it have been given. Arguments as of `ask`.
    """
    if isinstance(questions, str):
        raise ConfigurationError("give a list of questions; one alone is for ask()")
    if not isinstance(jobs, int) or jobs < 1:
        raise ConfigurationError(f"jobs: questions at a time, at least 1, got {jobs!r}")

    def one(question: str) -> Answer:
        try:
            return ask(question, kg, **asked)
        except QuestionError as error:
            return Answer("not_found", text=f"Not found: {error}.", reason=str(error))

    pool = ThreadPoolExecutor(jobs, thread_name_prefix="triplewise-ask")
    try:
        yield from pool.map(one, questions)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def stream(
    question: str, kg: Any = "demo", **asked: Unpack[Asked]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each phase with its update of the state as it happens; the last is `answer`. As `ask`."""
    graph, run, context = _run(question, kg, asked)
    for update in graph.stream(run, context=context, stream_mode="updates"):
        yield from update.items()
