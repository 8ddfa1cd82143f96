"""The whole of triplewise in some functions over the compiled graph, which does all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from triplewise.graphs.build import build_graph
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer
from triplewise.tools.core.errors import ConfigurationError, QuestionError

Entities = Mapping[str, str | None]  # Entities known already: mention -> id, or None to have it linked

_INPUT = TypeAdapter(tuple[str, dict[str, str | None]], config=ConfigDict(strict=True))

_graph: Any = lru_cache(maxsize=16)(build_graph)


def _run(
    question: str, kg: Any, preset: str = "agent", entities: Entities | None = None, **settings: Any
) -> tuple[Any, dict[str, Any], Context]:
    """Return graph, input and context of a run. Raises `ConfigurationError` for values of a wrong type."""
    try:
        named = _INPUT.validate_python((question, dict(entities or {})))[1]
    except (TypeError, ValueError) as error:
        form = 'a question is a text, entities a mapping of mention to id, e.g. {"Alien": "Q103569"}'
        raise ConfigurationError(f"{form}; got {question!r}, {entities!r}") from error
    graph = (_graph if isinstance(preset, str) else build_graph)(preset)
    return graph, {"question": question, "entities": named}, Context(kg=kg, **settings)


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
        kg: `demo`, a folder, an RDF file, an endpoint URL, a `KnowledgeGraph`, or an rdflib graph.
        preset: see `triplewise presets`.
        entities: mention -> id of those that are known already.
        **settings: of `Context`, e.g. `model="openai:gpt-4o-mini"`, `min_confidence=0.8`.

    Returns:
        An `Answer`: its `status` (answered, unsure, not_found, budget_spent) with the `reason`; the answers
        as ids or literals (`values`) and as they read (`labels`, `text`); the `sparql` that gives them, the
        facts that prove them (`proof`), `confidence`, `rivals` with other answers, and the run's `usage`.

    Raises `ConfigurationError` for settings that cannot work, `DataError` for no such graph, and
    `ModelUnavailableError` or `KGUnavailableError` for a model or an endpoint that does not answer.
    """
    graph, run, context = _run(question, kg, preset, entities, **settings)
    answer: Answer = graph.invoke(run, context=context)["answer"]
    return answer


async def aask(question: str, kg: Any = "demo", **given: Any) -> Answer:
    """Answer a question in a coroutine, many at a time; as `ask`."""
    graph, run, context = _run(question, kg, **given)
    answer: Answer = (await graph.ainvoke(run, context=context))["answer"]
    return answer


def ask_many(questions: Iterable[str], kg: Any = "demo", *, jobs: int = 4, **given: Any) -> Iterator[Answer]:
    """Answer questions, `jobs` at a time; yield the answers in the order of the questions.

    One that is empty or too long has the status `not_found`. Another error ends it. Arguments as of `ask`.
    """
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise ConfigurationError("give a list of questions; one alone is for ask()")
    if not isinstance(jobs, int) or jobs < 1:
        raise ConfigurationError(f"jobs: questions at a time, at least 1, got {jobs!r}")

    def one(question: str) -> Answer:
        try:
            return ask(question, kg, **given)
        except QuestionError as error:
            return Answer("not_found", text=f"Not found: {error}.", reason=str(error))

    pool = ThreadPoolExecutor(jobs, thread_name_prefix="triplewise-ask")
    try:
        yield from pool.map(one, questions)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def stream(question: str, kg: Any = "demo", **given: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each phase with its update of the state as it happens; the last is `answer`. As `ask`."""
    graph, run, context = _run(question, kg, **given)
    for update in graph.stream(run, context=context, stream_mode="updates"):
        yield from update.items()
