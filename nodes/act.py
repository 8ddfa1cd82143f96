"""Act: one thought and one action, executed (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

Three policies share one executor: a language model writing Thought/Action text (`react`), a language
model calling tools natively (`tools`), and the embedding-and-rules policy that needs no model (`embedded`).
"""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.embedded import GIVE_UP, decide
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import kg_of, model_of, prompt_of, toolset_of
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_lines, observation_lines
from triplewise.nodes.workbench import workbench
from triplewise.tools.errors import ActionError
from triplewise.tools.toolsets import parse_call, parse_react
from triplewise.tools.toolsets.base import Call, Feedback


def carry_out(state: State, context: Context, thought: str, call: Call | ActionError, written: str) -> Update:
    """Execute one call (or record why there is none) as the next step."""
    if isinstance(call, ActionError):
        feedback = Feedback(
            error=call.code, message=call.message, detail=dict(call.detail), program=state.program
        )
    else:
        feedback = toolset_of(context).execute(workbench(state, context), call)
        written = call.text()
    return _recorded(state, thought, written, feedback)


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
    return {"steps": (*state.steps, step), "program": feedback.program}


def act(state: State, runtime: Runtime[Context]) -> Update:
    """The policy that the context asks for: no model, Thought/Action text, or native tool calls."""
    if runtime.context.embedded:
        return embedded(state, runtime)
    return tools(state, runtime) if runtime.context.calling == "tools" else react(state, runtime)


def embedded(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the best rule step by step; after a correction, the next one that fits."""
    context = runtime.context
    choice = decide(state, kg_of(context), toolset_of(context).name)
    state = state.model_copy(update={"program": choice.program, "attempt": choice.attempt})
    if choice.call == GIVE_UP:
        feedback = Feedback(action=GIVE_UP.name, observation=choice.thought, finished=True)
        return {"attempt": choice.attempt, **_recorded(state, choice.thought, GIVE_UP.text(), feedback)}
    return {"attempt": choice.attempt, **carry_out(state, context, choice.thought, choice.call, "")}


def prompt_values(state: State, context: Context) -> dict[str, Any]:
    """What prompt templates may name."""
    kg = kg_of(context)
    labels = {e.id: e.label for e in state.linked}
    return {
        "tools": toolset_of(context).document(),
        "question": state.question,
        "entities": {e.label: e.id for e in state.linked},
        "rules": [f"{r.text()} ({r.provenance})" for r in state.rules],
        "observation": observation_lines(kg, state.observation),
        "memory": memory_lines(kg, state.memory),
        "history": [
            {"number": s.number, "thought": s.thought, "action": s.call, "observation": s.observation}
            for s in state.steps
        ],
        "candidates": list(state.focus),
        "labels": {i: labels.get(i, i) for i in state.focus},
        "step": len(state.steps) + 1,
    }


def react(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for one Thought and one Action as text, the papers' form."""
    context = runtime.context
    prompt, values = prompt_of(context), prompt_values(state, context)
    messages = [
        {"role": "system", "content": prompt.render("system", **values)},
        {"role": "user", "content": prompt.render("turn", **values)},
    ]
    reply = model_of(context).complete(messages, stop=["\nObservation"])
    call: Call | ActionError
    thought, written = "", reply.text.strip()
    try:
        thought, written = parse_react(reply.text)
        call = parse_call(written, toolset_of(context))
    except ActionError as error:
        call = error
    return carry_out(state, context, thought, call, written)


def tools(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for one native tool call."""
    context = runtime.context
    prompt, values, toolset = prompt_of(context), prompt_values(state, context), toolset_of(context)
    messages = [
        {"role": "system", "content": prompt.render("system_tools", **values)},
        {"role": "user", "content": prompt.render("turn_tools", **values)},
    ]
    reply = model_of(context).call_tools(messages, toolset.schemas())
    call: Call | ActionError
    if len(reply.tool_calls) == 1:
        call = toolset.from_tool_call(*reply.tool_calls[0])
    elif reply.invalid_calls:
        call = ActionError("bad_arguments", f"the arguments of the tool call are not valid JSON: {reply.invalid_calls[0]}")
    else:
        code = "several_actions" if reply.tool_calls else "no_action"
        call = ActionError(code, f"{len(reply.tool_calls)} tool calls in one reply; exactly one is due")
    return carry_out(state, context, reply.text.strip(), call, reply.text.strip())


VARIANTS = {"auto": act, "react": react, "tools": tools, "embedded": embedded}
