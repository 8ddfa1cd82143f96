"""Act: one thought and one action, executed (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

Three policies share one executor: a language model that writes Thought/Action text (`react`) or calls tools
natively (`tools`), and the policy without a model, which follows readings of the question (`embedded`). What
a model is shown is in `nodes/hints.py`, how its replies are read in `nodes/replies.py`, and what an action
may use in `nodes/reasoning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.embedded import GIVE_UP, decide, whole_program
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.hints import opening, prompt_values, turns_of
from triplewise.nodes.phase import Phase
from triplewise.nodes.plan import is_sure
from triplewise.nodes.reasoning import action_context
from triplewise.nodes.replies import read_reply, read_tool_calls, read_values, unusable
from triplewise.nodes.sql import require_model
from triplewise.nodes.state import State, Step
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.learning.trajectory import conversation


def carry_out(state: State, env: Environment, thought: str, call: Call | ActionError, written: str) -> Update:
    """Execute one call (or record why there is none) as the next step."""
    if isinstance(call, ActionError):
        feedback = Feedback(
            error=call.code, message=call.message, detail=dict(call.detail), program=state.program
        )
    else:
        feedback = env.toolset.execute(action_context(state, env), call)
        written = call.text()
    return _recorded(state, thought, written, feedback)


def _recorded(state: State, thought: str, written: str, feedback: Feedback) -> Update:
    """Return one more step, the program after it, and the facts that it read."""
    step = Step(
        number=len(state.steps) + 1,
        thought=thought,
        call=written,
        # Outcomes are words of an enum, which strict checkpoints would refuse to read back.
        feedback=replace(feedback, outcome=str(feedback.outcome)),
        observation=feedback.observation,
        program_before=state.program,
    )
    update: Update = {"steps": (step,), "program": feedback.program}
    if feedback.facts:
        # Each triple once: the first reading stays, and so does its status.
        known = {fact.triple for fact in state.facts}
        update["facts"] = tuple(fact for fact in feedback.facts if fact.triple not in known)
    return update


def embedded(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the best reading step by step; after a correction, the next one that fits."""
    context, env = runtime.context, environment(runtime)
    if env.toolset.name == "sparql":
        require_model(context, "writing SPARQL")
    choice = decide(state, env.kg, env.toolset.name)
    state = state.model_copy(update={"program": choice.program, "attempt": choice.attempt})
    if choice.call == GIVE_UP:
        feedback = Feedback(action=GIVE_UP.name, observation=choice.thought, finished=True)
    else:
        feedback = env.toolset.execute(action_context(state, env), choice.call)
        if feedback.outcome and not Outcome(feedback.outcome).ok and not feedback.error:
            # Another reading would answer another question.
            raise QueryFailedError(feedback.outcome, feedback.message)
    return {"attempt": choice.attempt, **_recorded(state, choice.thought, choice.call.text(), feedback)}


ANSWERS, EXECUTE = ("set_answer", "ask"), "execute"
"""Actions that set what a query returns, and the one that executes the finished query."""


def _ask(state: State, runtime: Runtime[Context], native: bool) -> Update:
    """One action of a model's: pending from its last reply, or the first of the next one."""
    env, most = environment(runtime), runtime.context.max_actions
    if (update := _without_asking(state, env)) is not None:
        return update
    values, schemas = prompt_values(state, env), env.toolset.schemas() if native else ()
    stop = () if native else ("\nObservation",)
    reply = env.ask(_messages(state, env, values, native), stop=stop, schemas=schemas, parallel=most > 1)
    if native:
        thought, written, calls = read_tool_calls(reply, env.toolset, most)
    else:
        thought, written, calls = read_reply(reply.text, env.toolset, most)
    if isinstance(calls, ActionError):
        return carry_out(state, env, thought, unusable(reply, env.context) or calls, written)
    name = calls[0].name
    is_bare = name in env.toolset and env.toolset.action(name).name == "answer" and not calls[0].arguments
    if is_bare and "answer" in env.prompt:
        # ODA's answer action names no value: the model gives it in a second call, shown its memory (table 7).
        reply = env.ask(env.prompt.render("answer", **values))
        calls = [Call(name, read_values(reply.text))]
    pending, ends = list(calls[1:]), len(calls) > 1 or bool(state.program)
    if most > 1 and ends and calls[-1].name in ANSWERS and EXECUTE in env.toolset:
        # A reply that ends with what the query returns need not say that it is to be executed.
        pending.append(Call(EXECUTE))
    return {**carry_out(state, env, thought, calls[0], written), "pending": tuple(pending)}


def _without_asking(state: State, env: Environment) -> Update | None:
    """The next action where it is known: a reading that `cascade` is sure of, or more of the last reply."""
    is_first = not state.steps and is_sure(state.readings, env.context)
    if is_first and (whole := whole_program(state, action_context(state, env), env.toolset)):
        return _recorded(state, *whole)
    # A note of the inspector on the query so far is shown before it is executed.
    is_noted = state.verdict is not None and bool(state.verdict.note)
    if not state.pending or (is_noted and state.pending[0].name == EXECUTE):
        return None
    call, *rest = state.pending
    return {**carry_out(state, env, "", call, ""), "pending": tuple(rest)}


def _messages(
    state: State, env: Environment, values: Mapping[str, Any], native: bool
) -> list[dict[str, str]]:
    """The messages of the next call: a conversation of all turns, or a system and a user message."""
    if env.context.history == "chat" and not native:
        messages = conversation(opening(env.prompt, values), turns_of(state.steps))
    else:
        parts = ("system_tools", "turn_tools") if native else ("system", "turn")
        texts = [env.prompt.render(part, **values) for part in parts]
        messages = [{"role": r, "content": t} for r, t in zip(("system", "user"), texts, strict=True)]
    if earlier := env.context.earlier:  # an attempt to improve on
        messages[1] = {**messages[1], "content": f"{earlier}\n\n{messages[1]['content']}"}
    return messages


def react(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for one Thought and one Action as text, the papers' form."""
    return _ask(state, runtime, native=False)


def tools(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for native tool calls."""
    return _ask(state, runtime, native=True)


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the policy that the context asks for: Thought/Action text, native tool calls, or no model."""
    if runtime.context.embedded:
        return embedded(state, runtime)
    return _ask(state, runtime, native=runtime.context.calling == "tools")


VARIANTS: dict[str, Phase] = {"auto": auto, "react": react, "tools": tools, "embedded": embedded}
