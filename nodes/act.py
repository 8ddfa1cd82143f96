"""Act: one thought and one action, executed (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

Three policies share one executor: a language model writing Thought/Action text (`react`), a language
model calling tools natively (`tools`), and the embedding-and-rules policy that needs no model (`embedded`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from triplewise.nodes.action_context import action_context
from triplewise.nodes.context import Context
from triplewise.nodes.embedded import GIVE_UP, Ways, decide
from triplewise.nodes.environment import Environment, ModelNeeded, environment
from triplewise.nodes.fast import whole_program
from triplewise.nodes.forms import form_of
from triplewise.nodes.history import encode
from triplewise.nodes.models import ModelCall
from triplewise.nodes.phase import ModelPhase, Steps, Update, model_phase
from triplewise.nodes.sql import table_lines
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_texts, observation_lines
from triplewise.tools.actions import Toolset, parse_call, parse_react
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.learning.conversation import Opening, conversation
from triplewise.tools.pyql.text import scan_arguments

if TYPE_CHECKING:
    from triplewise.nodes.models import Reply
    from triplewise.nodes.prompting import Prompt

OWN_STEPS = 1
"""Steps of its own that worked, from which a model sees the form without the worked example."""


def carry_out(state: State, context: Context, thought: str, call: Call | ActionError, written: str) -> Update:
    """Execute one call (or record why there is none) as the next step."""
    if isinstance(call, ActionError):
        feedback = Feedback(
            error=call.code, message=call.message, detail=dict(call.detail), program=state.program
        )
    else:
        feedback = environment(context).toolset.execute(action_context(state, context), call)
        # Outcomes are words of an enum, which strict checkpoints would refuse to read back.
        feedback = replace(feedback, outcome=str(feedback.outcome))
        written = call.text()
    return _recorded(state, thought, written, feedback)


def _carry_out(state: State, context: Context, thought: str, call: Call | ActionError, written: str) -> Steps:
    """`carry_out`, for calls that reach a model themselves: they are made again once it has replied."""
    env = environment(context)
    while True:
        try:
            return carry_out(state, context, thought, call, written)
        except ModelNeeded as needed:
            assert env.replies is not None, "only a run that must not wait in its thread says so"
            env.replies[needed.call.messages] = yield needed.call


def _recorded(state: State, thought: str, written: str, feedback: Feedback) -> Update:
    """One more step of the trajectory."""
    step = Step(
        number=len(state.steps) + 1,
        thought=thought,
        call=written,
        feedback=feedback,
        observation=feedback.observation,
        program_before=state.program,
    )
    update: Update = {"steps": (*state.steps, step), "program": feedback.program}
    if feedback.facts:
        # Each triple once: the first reading stays, and so does its status.
        known = {f.triple for f in state.facts}
        new = {f.triple: f for f in feedback.facts if f.triple not in known}
        update["facts"] = (*state.facts, *new.values())
    return update


def _policy(steps: Callable[[State, Runtime[Context]], Steps]) -> ModelPhase:
    """A policy whose first step is the plan's best rule as a whole, where the context asks for that."""

    @wraps(steps)
    def first(state: State, runtime: Runtime[Context]) -> Steps:
        whole = whole_program(state, runtime.context)
        return (yield from steps(state, runtime)) if whole is None else _recorded(state, *whole)

    return model_phase(first)


@_policy
def embedded(state: State, runtime: Runtime[Context]) -> Steps:
    """Follow the best rule step by step; after a correction, the next one that fits."""
    context, env = runtime.context, environment(runtime)
    choice = decide(state, env.kg, env.toolset.name, Ways(together=context.walk_width))
    state = state.model_copy(update={"program": choice.program, "attempt": choice.attempt})
    if choice.call == GIVE_UP:
        feedback = Feedback(action=GIVE_UP.name, observation=choice.thought, finished=True)
        update = _recorded(state, choice.thought, GIVE_UP.text(), feedback)
    else:
        update = yield from _carry_out(state, context, choice.thought, choice.call, "")
    return {"attempt": choice.attempt, **update}


def prompt_values(state: State, context: Context) -> dict[str, Any]:
    """What prompt templates may name."""
    kg = environment(context).kg
    labels = {e.id: e.label for e in state.linked}
    return {
        "tools": environment(context).toolset.document(),
        "tools_brief": environment(context).toolset.brief(),
        "begun": sum(not s.rolled_back for s in state.steps) >= OWN_STEPS,
        "question": state.question,
        "entities": {e.label: e.id for e in state.linked},
        "rules": [f"{r.text()} ({r.provenance})" for r in state.rules],
        "observation": observation_lines(kg, state.observation, state.observation_cuts),
        "memory": memory_texts(kg, state),
        "history": encode(state.steps, "short" if context.history == "short" else "full"),
        "tables": table_lines(state.question, context),
        "candidates": list(state.focus),
        "labels": {i: labels.get(i, i) for i in state.focus},
        "step": len(state.steps) + 1,
        "form": form_of(state.question),
    }


@_policy
def react(state: State, runtime: Runtime[Context]) -> Steps:
    """Ask the model for one Thought and one Action as text, the papers' form."""
    context, env = runtime.context, environment(runtime)
    values = prompt_values(state, context)
    if context.history == "chat":
        messages = conversation(opening(env.prompt, values), state.steps)
    else:
        messages = [
            {"role": "system", "content": env.prompt.render("system", **values)},
            {"role": "user", "content": env.prompt.render("turn", **values)},
        ]
    reply = yield ModelCall.of(_with_earlier_attempt(messages, context), stop=["\nObservation"])
    thought, written, call = read_reply(reply.text, env.toolset)
    call = yield from _with_values(call, env, values)
    return (yield from _carry_out(state, context, thought, call, written))


def opening(prompt: Prompt, values: Mapping[str, Any]) -> Opening:
    """The first two messages of a conversation: as before the first step, whatever steps the values hold."""
    first = {**values, "history": [], "step": 1, "begun": False}
    return Opening(prompt.render("system", **first), prompt.render("turn", **first))


def _with_earlier_attempt(messages: list[dict[str, str]], context: Context) -> list[dict[str, str]]:
    """The messages, with an earlier attempt before the question where there is one to improve on."""
    if not context.earlier:
        return messages
    system, question, *rest = messages
    return [system, {**question, "content": f"{context.earlier}\n\n{question['content']}"}, *rest]


def read_reply(text: str, toolset: Toolset) -> tuple[str, str, Call | ActionError]:
    """The thought, the action as written, and the call it means or what is wrong with it."""
    thought, written = "", ""
    try:
        thought, written = parse_react(toolset.spelled(text))
        return thought, written, parse_call(written, toolset)
    except ActionError as error:
        actions = error.detail.get("actions") or [error.detail.get("action", written)]
        return str(error.detail.get("thought", thought)), "; ".join(actions), error


def _with_values(
    call: Call | ActionError, env: Environment, values: dict[str, Any]
) -> Generator[ModelCall, Reply, Call | ActionError]:
    """ODA's answer action names no value: the model is asked for it, shown its memory (table 7)."""
    if isinstance(call, ActionError) or call.arguments or "answer" not in env.prompt:
        return call
    if call.name not in env.toolset or env.toolset.action(call.name).name != "answer":
        return call
    reply = yield ModelCall.of(env.prompt.render("answer", **values))
    return Call(call.name, read_values(reply.text))


def read_values(text: str) -> tuple[str, ...]:
    """The values of an answer in words: one a line, or a list in square brackets; () for `unknown`."""
    text = re.sub(r"(?i)^\s*answer\s*:", "", text.strip()).strip()
    if text.startswith("[") and text.endswith("]"):
        values = scan_arguments(text[1:-1])[0]
    else:
        values = [line.strip(" \t-*•") for line in text.splitlines()]
    values = [v.strip("'\"") for v in values]
    return tuple(v for v in values if v and v.rstrip(".").casefold() != "unknown")


@_policy
def tools(state: State, runtime: Runtime[Context]) -> Steps:
    """Ask the model for one native tool call."""
    context, env = runtime.context, environment(runtime)
    values = prompt_values(state, context)
    messages = [
        {"role": "system", "content": env.prompt.render("system_tools", **values)},
        {"role": "user", "content": env.prompt.render("turn_tools", **values)},
    ]
    reply = yield ModelCall.of(_with_earlier_attempt(messages, context), schemas=env.toolset.schemas())
    call = yield from _with_values(_tool_call(reply, env.toolset), env, values)
    written = "; ".join(env.toolset.from_tool_call(*c).text() for c in reply.tool_calls)
    return (yield from _carry_out(state, context, reply.text.strip(), call, written))


def _tool_call(reply: Reply, toolset: Toolset) -> Call | ActionError:
    """The one native tool call of a reply, or what is wrong with it."""
    if reply.invalid_calls:
        name, arguments = reply.invalid_calls[0]
        return ActionError("bad_arguments", f"the arguments of {name} are no JSON object: {arguments}")
    if len(reply.tool_calls) == 1:
        return toolset.from_tool_call(*reply.tool_calls[0])
    code = "several_actions" if reply.tool_calls else "no_action"
    return ActionError(code, f"{len(reply.tool_calls)} tool calls in one reply; exactly one is due")


@model_phase
def act(state: State, runtime: Runtime[Context]) -> Steps:
    """The policy that the context asks for: no model, Thought/Action text, or native tool calls."""
    context = runtime.context
    policy = embedded if context.embedded else tools if context.calling == "tools" else react
    return (yield from policy.steps(state, runtime))


VARIANTS = {"auto": act, "react": react, "tools": tools, "embedded": embedded}
