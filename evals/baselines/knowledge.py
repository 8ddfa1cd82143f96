"""Baselines that ask a language model for what it knows, without a look at the knowledge graph.

Direct answers, chains of thought (Wei et al. 2022), and the majority of several such chains (Wang et al.
2023). The graph only gives the answers their ids, so that they can be scored like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    Named,
    answer_step,
    asked,
    conclude,
    extended,
    make_answer,
    name_answers,
    named_in,
    read_answers,
    said_nothing,
)
from triplewise.evals.baselines.wiring import Graph, needs_model, own_prompt, wire
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.models import Reply
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.state import State, Step
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.values import normal_text

SAMPLES, TEMPERATURE = 10, 0.7
"""Chains of thought and their temperature: Wang et al. take up to 40, and 0.7 for their larger models."""


def direct(*, link: str = "index") -> Graph:
    """The model's answer, at once. `link`: variant of the linking phase."""
    return wire("direct", _answer_directly, conclude, link=link, need=needs_model("direct"))


def cot(*, link: str = "index") -> Graph:
    """One chain of thought with its answer. `link`: variant of the linking phase."""
    return wire("cot", _think, conclude, link=link, need=needs_model("cot"))


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
    if not isinstance(samples, int) or samples < 1:
        raise ConfigurationError(f"samples must be a whole number above 0, got {samples!r}")
    if not isinstance(temperature, int | float) or temperature <= 0:
        raise ConfigurationError(
            f"temperature must be above 0, got {temperature!r}: without it all samples are the same"
        )
    name = "self-consistency"
    settings = {"temperature": float(temperature)}
    return wire(name, _sampling(samples), _vote, link=link, settings=settings, need=needs_model(name))


def _answer_directly(state: State, runtime: Runtime[Context]) -> Update:
    """Ask for the answer alone."""
    reply = _ask("direct", state, runtime.context)
    named = name_answers(read_answers(reply.text), state, runtime.context)
    return extended(state, answer_step(state, "", named, said_nothing(reply.text)))


def _think(state: State, runtime: Runtime[Context]) -> Update:
    """Ask for a chain of thought that ends with the answer."""
    return extended(state, _thought_of(state, runtime.context))


def _thought_of(state: State, context: Context) -> Step:
    """A chain of thought as a step: its reasoning is the thought."""
    reply = _ask("reasoned", state, context)
    named = name_answers(read_answers(reply.text, reasoned=True), state, context)
    why = said_nothing(reply.text)
    if reply.truncated and not named:
        why = f"the chain of thought was cut at {context.max_reply_tokens} tokens (max_reply_tokens)"
    return answer_step(state, reply.text, named, why)


def _ask(part: str, state: State, context: Context) -> Reply:
    """The model's reply to one of the prompts."""
    written = own_prompt("knowledge", context).render(part, **asked(state))
    return environment(context).model.complete([{"role": "user", "content": written}])


def _sampling(samples: int) -> Phase:
    """The phase that adds one sample to the steps; the last one ends the run."""

    def sample(state: State, runtime: Runtime[Context]) -> Update:
        """Sample one more chain of thought."""
        step = _thought_of(state, runtime.context)
        last = len(state.steps) + 1 >= samples
        return extended(state, replace(step, feedback=replace(step.feedback, finished=last)))

    return sample


def _vote(state: State, runtime: Runtime[Context]) -> Update:
    """The set of answers that most samples give; of several such, the one that was given first.

    Samples without an answer have no vote, as those that cannot be parsed have none in the paper.
    """
    given = [named for step in state.steps if (named := named_in(step))]
    votes = Counter(_key(named) for named in given)
    if not votes:
        return {"answer": make_answer(state, runtime.context, (), _why_none(state))}
    best = max(votes, key=votes.__getitem__)
    chosen = next(named for named in given if _key(named) == best)
    told = f"{votes[best]} of {len(state.steps)} samples agree"
    return {"answer": make_answer(state, runtime.context, chosen, told)}


def _key(named: Sequence[Named]) -> frozenset[str]:
    """Answers as they are compared: ids, or texts in normal form, in whatever order."""
    return frozenset(normal_text(n.value) for n in named)


def _why_none(state: State) -> str:
    """Why no sample has an answer."""
    if not state.steps:
        return "no sample was drawn"
    return f"no sample of {len(state.steps)} holds an answer; the last: {state.last.feedback.message}"
