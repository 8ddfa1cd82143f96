"""Act: one thought and one action, executed (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

A language model writes Thought/Action text or calls tools natively; without one, `nodes/no_model.py` decides.
What a model is shown is in `nodes/hints.py`, what an action may use in `nodes/reasoning.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import REPLY_CUT, REPLY_EMPTY, Environment, Update, environment
from triplewise.nodes.hints import opening, prompt_values, turns_of
from triplewise.nodes.no_model import GIVE_UP, decide
from triplewise.nodes.plan import is_sure, toolset_of
from triplewise.nodes.reasoning import action_context
from triplewise.nodes.state import State, Step
from triplewise.tools.actions import PYQL, Call, Feedback, Toolset, parse_reply
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.learning.trajectory import conversation
from triplewise.tools.pyql.text import scan_arguments

if TYPE_CHECKING:
    from triplewise.nodes.models import Reply

Read: TypeAlias = tuple[str, Sequence[Call] | ActionError]
"""Of a reply: the thought, and the calls that it means, or what is wrong."""
ANSWERS = ("set_answer", "ask", "take")  # Actions that set what a query returns
EXECUTE = "execute"  # The action that executes the finished query


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model; without one, or while `cascade` is sure of a reading that stands, follow the reading."""
    if runtime.context.embedded:
        return embedded(state, runtime)
    is_standing = not (state.usage.calls or state.corrections) and is_sure(state.readings, runtime.context)
    if is_standing and environment(runtime).toolset.name == PYQL.name:
        with suppress(QueryFailedError):
            return embedded(state, runtime)
    return ask_model(state, runtime)


def ask_model(state: State, runtime: Runtime[Context]) -> Update:
    """One action of a model's (QueryAgent, algorithm 1, lines 6 and 7), or the next of its last reply."""
    env, context, most = environment(runtime), runtime.context, runtime.context.max_actions
    # A note of the inspector on the query so far is shown before it is executed.
    is_noted = state.verdict is not None and bool(state.verdict.note)
    if state.pending and not (is_noted and state.pending[0].name == EXECUTE):
        call, *rest = state.pending
        return {**carry_out(state, env, "", call), "pending": tuple(rest)}
    # Line 6: thought, action <- LLM(prompt)
    values, native = prompt_values(state, env), context.calling == "tools"
    toolset = toolset_of(state, env)
    messages = messages_for(state, env, values, native)
    if native:
        reply = env.ask(messages, schemas=toolset.schemas(), parallel=most > 1)
        thought, calls = read_tool_calls(reply, toolset, most)
    else:
        reply = env.ask(messages, stop=("\nObservation",), parallel=most > 1)
        thought, calls = read_reply(reply.text, toolset, most)
    if isinstance(calls, ActionError):
        return carry_out(state, env, thought, unusable(reply, context) or calls)
    name = calls[0].name
    is_bare = name in toolset and toolset.action(name).name == "answer" and not calls[0].arguments
    if is_bare and "answer" in env.prompt:
        # ODA's answer action names no value: the model gives it in a second call, shown its memory (table 7).
        calls = [Call(name, read_values(env.ask(env.prompt.render("answer", **values)).text))]
    pending = list(calls[1:])
    # Where a reply may hold several actions, `execute` is implied at the end of one that ends with
    # set_answer, ask or take, provided that there is a query to run.
    has_query = len(calls) > 1 or bool(state.program) or name == "take"
    if most > 1 and has_query and calls[-1].name in ANSWERS and EXECUTE in toolset:
        pending.append(Call(EXECUTE))
    # Line 7: KB_fb, Python_fb <- Execute(action)
    return {**carry_out(state, env, thought, calls[0]), "pending": tuple(pending)}


def messages_for(state: State, env: Environment, values: Mapping[str, Any], native: bool) -> list[Any]:
    """Return the prompt with all thoughts, actions and observations so far (algorithm 1, line 20)."""
    if env.context.history == "chat" and not native:
        messages = conversation(opening(env.prompt, values), turns_of(state.steps))
    else:
        parts, form = {"system": "system", "user": "turn"}, "_tools" * native
        messages = [{"role": r, "content": env.prompt.render(p + form, **values)} for r, p in parts.items()]
    if env.context.earlier:  # an attempt to improve on
        messages[1] = {**messages[1], "content": f"{env.context.earlier}\n\n{messages[1]['content']}"}
    return messages


def embedded(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the best reading step by step; after a correction, the next one that fits."""
    env = environment(runtime)
    choice = decide(state, env.kg.profile)
    state = state.model_copy(update={"program": choice.program, "attempt": choice.attempt})
    feedback = Feedback(action=GIVE_UP.name, observation=choice.thought, finished=True)
    if choice.call != GIVE_UP:
        feedback = env.toolset.execute(action_context(state, env), choice.call)
    if feedback.outcome and not Outcome(feedback.outcome).ok and not feedback.error:
        # A query that failed (a time-out, say) tells nothing: the next reading would be another question.
        raise QueryFailedError(feedback.outcome, feedback.message)
    return {"attempt": choice.attempt, **_recorded(state, choice.thought, choice.call.text(), feedback)}


VARIANTS = {"auto": auto}


def carry_out(state: State, env: Environment, thought: str, call: Call | ActionError) -> Update:
    """Execute one call (or record why there is none) as the next step."""
    if isinstance(call, ActionError):
        feedback = Feedback(error=call.code, message=call.message, program=state.program)
        return _recorded(state, thought, call.detail.get("written", ""), feedback)
    feedback = toolset_of(state, env).execute(action_context(state, env), call)
    return _recorded(state, thought, call.text(), feedback)


def _recorded(state: State, thought: str, written: str, feedback: Feedback) -> Update:
    """Return one more step, the program after it, and the facts that it read."""
    # Outcomes are words of an enum, which strict checkpoints would refuse to read back.
    feedback = replace(feedback, outcome=str(feedback.outcome))
    step = Step(len(state.steps) + 1, thought, written, feedback, feedback.observation, state.program)
    known = {fact.triple for fact in state.facts}  # what was read first stays, and so does its status
    facts = tuple(fact for fact in feedback.facts if fact.triple not in known)
    return {"steps": (step,), "program": feedback.program, "facts": facts}


def read_reply(text: str, toolset: Toolset, most: int = 1) -> Read:
    """Read a reply with at most `most` actions as text."""
    try:
        return parse_reply(toolset.spelled(text), toolset, most)
    except ActionError as error:
        return error.detail["thought"], error


def read_tool_calls(reply: Reply, toolset: Toolset, most: int) -> Read:
    """Read a reply with native tool calls."""
    calls = [toolset.from_tool_call(*c) for c in reply.tool_calls]
    thought, written = reply.text.strip(), "; ".join(c.text() for c in calls)
    if reply.invalid_calls:
        name, arguments = reply.invalid_calls[0]
        message = f"the arguments of {name} are not a JSON object: {arguments}"
        return thought, ActionError("bad_arguments", message, written=written)
    if not calls or (len(calls) > 1 and most == 1):
        code, message = "several_actions" if calls else "no_action", f"{len(calls)} tool calls in one reply"
        return thought, ActionError(code, f"{message}; exactly one is due", written=written)
    return thought, calls[:most]


def unusable(reply: Reply, context: Context) -> ActionError | None:
    """Return why a reply without an action could hold none: it was cut, or has no text; None for neither."""
    if reply.truncated:
        limit = context.max_reply_tokens
        message = f"the reply was cut at {limit} tokens before its action was complete: it must be shorter, "
        return ActionError(REPLY_CUT, f"{message}or the limit higher (max_reply_tokens={2 * limit})")
    tokens = 0 if reply.usage.estimated else reply.usage.output_tokens
    if tokens and not (reply.text or reply.tool_calls or reply.invalid_calls):
        message = f"the reply has no text: the {tokens} tokens that the model wrote went into its reasoning, "
        return ActionError(REPLY_EMPTY, f"{message}which is not read (reasoning_content, or a block <think>)")
    return None


def read_values(text: str) -> tuple[str, ...]:
    """Return the values of an answer in words: one a line, or a list in square brackets; () for `unknown`."""
    text = re.sub(r"(?i)^\s*answer\s*:", "", text.strip()).strip()
    if text.startswith("[") and text.endswith("]"):
        values = scan_arguments(text[1:-1])[0]
    else:
        values = [line.strip(" \t-*•") for line in text.splitlines()]
    values = [v.strip("'\"") for v in values]
    return tuple(v for v in values if v and v.rstrip(".").casefold() != "unknown")
