"""Baselines that ask a language model for what it knows, without a look at the knowledge graph.

Direct answers, chains of thought (Wei et al. 2022), and the majority of several such chains (Wang et al.
2023). The graph only gives the answers their ids, so that they can be scored like all others.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    add_step,
    answer_step,
    ask,
    conclude,
    majority,
    make_answer,
    name_answers,
    named_in,
    read_answers,
    why_no_answer,
)
from triplewise.evals.baselines.loop import Graph, build_loop, check_number, needs_model
from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.state import State, Step
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.values import normal_text

SAMPLES, TEMPERATURE = 10, 0.7
"""Chains of thought and their temperature: Wang et al. take up to 40, and 0.7 for their larger models."""


def direct(*, link: str = "index") -> Graph:
    """The model's answer, at once. `link`: variant of the linking phase."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Ask for the answer alone."""
        reply = ask(state, runtime.context, "knowledge", "direct").text
        named = name_answers(read_answers(reply), state, runtime.context)
        return add_step(state, answer_step(state, "", named, why_no_answer(reply)))

    return build_loop("direct", act, conclude, link=link, check_context=needs_model("direct"))


def cot(*, link: str = "index") -> Graph:
    """One chain of thought with its answer. `link`: variant of the linking phase."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Ask for a chain of thought that ends with the answer."""
        return add_step(state, _chain_of_thought(state, runtime.context))

    return build_loop("cot", act, conclude, link=link, check_context=needs_model("cot"))


def self_consistency(
    *, samples: int = SAMPLES, temperature: float = TEMPERATURE, link: str = "index"
) -> Graph:
    """The answer that most of several chains of thought give.

    Args:
        samples: chains of thought. temperature: that they are sampled with, unless the context has one.
        link: variant of the linking phase.

    Raises:
        ConfigurationError: no sample, or a temperature at which all samples would be one.
    """
    check_number("samples", samples)
    if not isinstance(temperature, int | float) or temperature <= 0:
        raise ConfigurationError(
            f"temperature must be above 0, got {temperature!r}: without it all samples are the same"
        )

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Sample one more chain of thought; the last one ends the run."""
        step = _chain_of_thought(state, runtime.context)
        last = len(state.steps) + 1 >= samples
        return add_step(state, replace(step, feedback=replace(step.feedback, finished=last)))

    return build_loop(
        "self-consistency",
        act,
        vote,
        link=link,
        settings={"temperature": float(temperature)},
        check_context=needs_model("self-consistency"),
    )


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """Answer what most samples say; of several such answers, the one that was given first.

    Samples without an answer have no vote, as those that cannot be parsed have none in the paper. Answers are
    compared by ids, or texts in normal form, in whatever order.
    """
    given = [named for step in state.steps if (named := named_in(step))]
    if not given:
        why = "no sample was drawn"
        if state.steps:
            last = state.last.feedback.message
            why = f"no sample of {len(state.steps)} holds an answer; the last: {last}"
        return {"answer": make_answer(state, runtime.context, (), why)}
    keys = [frozenset(normal_text(n.value) for n in named) for named in given]
    best, votes = majority(keys)
    agreed = f"{votes} of {len(state.steps)} samples agree"
    return {"answer": make_answer(state, runtime.context, given[keys.index(best)], agreed)}


def _chain_of_thought(state: State, context: Context) -> Step:
    """A chain of thought as a step: its reasoning is the thought."""
    reply = ask(state, context, "knowledge", "reasoned")
    named = name_answers(read_answers(reply.text, reasoned=True), state, context)
    why = why_no_answer(reply.text)
    if reply.truncated and not named:
        why = f"the chain of thought was cut at {context.max_reply_tokens} tokens (max_reply_tokens)"
    return answer_step(state, reply.text, named, why)
