"""Baseline of document retrieval only (SymAgent, table 1): passages for the question, read once.

Passages are found for the question as a whole, by BM25 and by vectors (Faiss), and a language model reads the
answers from them.
"""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    answer_step,
    asked,
    conclude,
    extended,
    make_step,
    name_answers,
    plain_question,
    read_answers,
    said_nothing,
)
from triplewise.evals.baselines.wiring import Graph, own_prompt, wire
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.extract import fitting_texts
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.state import State, Step
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise

PASSAGES = 10
"""Passages that are read for a question."""


def build(*, passages: int = PASSAGES, link: str = "index") -> Graph:
    """Retrieve passages for the question and read the answers in them.

    Args:
        passages: to be read for a question. link: variant of the linking phase.

    Raises:
        ConfigurationError: fewer than one passage.
    """
    if not isinstance(passages, int) or passages < 1:
        raise ConfigurationError(f"passages must be a whole number above 0, got {passages!r}")
    return wire("documents", _acting(passages), conclude, link=link, need=_has_documents)


def _has_documents(context: Context) -> None:
    """Raise `ConfigurationError` where the context names no documents."""
    if context.documents is None:
        raise ConfigurationError(
            "baseline documents needs documents to read: --set documents=FOLDER of text files, "
            "or documents=wikipedia (online)"
        )


def _acting(limit: int) -> Phase:
    """The next of the two steps."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Retrieve, read."""
        if not state.steps:
            return extended(state, _retrieve(state, runtime.context, limit))
        return extended(state, _read(state, runtime.context))

    return act


def _retrieve(state: State, context: Context, limit: int) -> Step:
    """Passages for the question, best first."""
    documents, question = environment(context).documents, _question(state)
    found = documents.find("", question=question, limit=limit) if documents is not None else ()
    feedback = Feedback(
        action="retrieve",
        arguments=(question,),
        observation="\n".join(map(_shown, found)) or "no passage was found",
        detail={"passages": [{"text": p.text, "title": p.title, "source": p.source} for p in found]},
    )
    return make_step(state, "Which passages may tell?", Call("retrieve", (question,)), feedback)


def _question(state: State) -> str:
    """The question as documents are searched for it: plain words, as their index has them."""
    return normalise(plain_question(state).replace("[SEP]", " "))


def _shown(passage: Passage) -> str:
    """A passage with the title of its document."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text


def _passages(state: State) -> tuple[Passage, ...]:
    """What was retrieved."""
    return tuple(Passage(**found) for found in state.steps[0].feedback.detail.get("passages", ()))


def _read(state: State, context: Context) -> Step:
    """Answers that the passages give."""
    passages = _passages(state)
    written = own_prompt("documents", context).render(
        "read", **asked(state), passages=fitting_texts(passages)
    )
    reply = environment(context).model.complete([{"role": "user", "content": written}]).text
    named = name_answers(read_answers(reply), state, context)
    return answer_step(state, "", named, said_nothing(reply))
