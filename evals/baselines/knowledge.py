"""Baselines that do not look at the knowledge graph: they answer from what a model knows, or from documents.

Direct answers, chains of thought (Wei et al. 2022), the majority of several such chains (Wang et al. 2023),
and passages that are retrieved for the question as a whole and read once (SymAgent, table 1). The graph only
gives the answers their ids, so that they can be scored like all others.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.extract import fitting_texts
from triplewise.nodes.state import State
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.values import normal_text

PASSAGES = 10
"""Passages that are read for a question, by BM25 and by vectors (Faiss)."""
NOTHING = "no passage was found"
SAMPLES, TEMPERATURE = 10, 0.7
"""Chains of thought and their temperature: Wang et al. take up to 40, and 0.7 for their larger models."""


def direct(*, link: str = "index") -> loop.Graph:
    """The model's answer, at once."""
    return _replies("direct", "direct", link)


def cot(*, link: str = "index") -> loop.Graph:
    """One chain of thought with its answer."""
    return _replies("cot", "reasoned", link)


def self_consistency(
    *, samples: int = SAMPLES, temperature: float = TEMPERATURE, link: str = "index"
) -> loop.Graph:
    """The answer that most of `samples` chains of thought give; the context's own temperature goes first."""
    loop.check_number("samples", samples)
    if not isinstance(temperature, int | float) or temperature <= 0:
        raise ConfigurationError(
            f"temperature must be above 0, got {temperature!r}: without it all samples are the same"
        )
    return _replies("self-consistency", "reasoned", link, samples, temperature)


def _replies(name: str, part: str, link: str, samples: int = 0, temperature: float = 0.0) -> loop.Graph:
    """Compile a baseline whose steps are replies to a part of the prompt: one, or `samples` to vote on."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        env, reasoned = environment(runtime), part == "reasoned"
        reply = loop.ask(state, env, "knowledge", part)
        named, why = loop.name_reply(reply.text, state, env, reasoned=reasoned)
        if reasoned and reply.truncated and not named:
            why = f"the chain of thought was cut at {env.context.max_reply_tokens} tokens (max_reply_tokens)"
        step = loop.answer_step(state, reply.text if reasoned else "", named, why)
        finished = len(state.steps) + 1 >= samples
        return loop.add_step(state, replace(step, feedback=replace(step.feedback, finished=finished)))

    settings = {"temperature": float(temperature)} if samples else {}
    return loop.build_loop(name, act, vote if samples else loop.conclude, link=link, settings=settings)


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """Answer what most samples say; of several such answers, the one that was given first.

    Samples without an answer have no vote, as those that cannot be parsed have none in the paper. Answers are
    compared by ids, or texts in normal form, in whatever order.
    """
    given = {i: named for i, step in enumerate(state.steps) if (named := loop.named_in(step))}
    keys = {i: frozenset(normal_text(n.value) for n in named) for i, named in given.items()}
    best, why = loop.majority(state, keys, "samples")
    return {"answer": loop.make_answer(state, runtime.context, () if best is None else given[best], why)}


def documents(*, passages: int = PASSAGES, link: str = "index") -> loop.Graph:
    """Retrieve passages for the question, and read the answers in as many as fit into the prompt."""
    loop.check_number("passages", passages)

    def check_documents(context: Context) -> None:
        if context.documents is None:
            raise ConfigurationError(
                "baseline documents needs documents to read: --set documents=FOLDER of text files, "
                "or documents=wikipedia (online)"
            )

    def act(state: State, runtime: Runtime[Context]) -> Update:
        env = environment(runtime)
        assert env.documents is not None, "checked before the first step"
        # Plain words, as the index of the documents has them.
        question = normalise(loop.plain_question(state).replace("[SEP]", " "))
        found = env.documents.find("", question=question, limit=passages)
        texts = [f"{p.title or p.source}: {p.text} ({p.source})" for p in found]
        seen = Feedback(action="retrieve", arguments=(question,), observation="\n".join(texts) or NOTHING)
        step = loop.make_step(state, "Which passages may tell?", Call("retrieve", (question,)), seen)
        reply = loop.ask(state, env, "documents", "read", passages=fitting_texts(found)).text
        read = loop.answer_step(state, "", *loop.name_reply(reply, state, env))
        return {"steps": (step, replace(read, number=step.number + 1))}

    return loop.build_loop("documents", act, loop.conclude, link=link, check_context=check_documents)
