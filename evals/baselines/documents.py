"""Baseline of document retrieval only (SymAgent, table 1): passages for the question, read once.

Passages are found for the question as a whole, by BM25 and by vectors (Faiss), and a language model reads the
answers in them. None of the facts about the question's entities are used.
"""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    add_step,
    answer_step,
    ask,
    conclude,
    make_step,
    name_answers,
    plain_question,
    read_answers,
    why_no_answer,
)
from triplewise.evals.baselines.loop import Graph, build_loop, check_number
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.extract import fitting_texts
from triplewise.nodes.phase import Update
from triplewise.nodes.state import State
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
    check_number("passages", passages)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Retrieve, then read."""
        return read(state, runtime.context) if state.steps else retrieve(state, runtime.context, passages)

    return build_loop("documents", act, conclude, link=link, check_context=_check)


def _check(context: Context) -> None:
    """Raise `ConfigurationError` where the context names no documents."""
    if context.documents is None:
        raise ConfigurationError(
            "baseline documents needs documents to read: --set documents=FOLDER of text files, "
            "or documents=wikipedia (online)"
        )


def retrieve(state: State, context: Context, limit: int) -> Update:
    """Find passages for the question, best first."""
    documents = environment(context).documents
    # Plain words, as the index of the documents has them.
    question = normalise(plain_question(state).replace("[SEP]", " "))
    passages = documents.find("", question=question, limit=limit) if documents is not None else ()
    feedback = Feedback(
        action="retrieve",
        arguments=(question,),
        observation="\n".join(f"{p.title}: {p.text}" if p.title else p.text for p in passages)
        or "no passage was found",
        detail={"passages": [{"text": p.text, "title": p.title, "source": p.source} for p in passages]},
    )
    return add_step(
        state, make_step(state, "Which passages may tell?", Call("retrieve", (question,)), feedback)
    )


def read(state: State, context: Context) -> Update:
    """Have the model read the answers in as many passages as fit into the prompt."""
    passages = [Passage(**fields) for fields in state.steps[0].feedback.detail["passages"]]
    reply = ask(state, context, "documents", "read", passages=fitting_texts(passages)).text
    named = name_answers(read_answers(reply), state, context)
    return add_step(state, answer_step(state, "", named, why_no_answer(reply)))
