"""Act: choose the next action and execute it (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

A language model writes Thought/Action text or calls tools natively. Without one, the best reading is followed
by PyQL's actions in every preset; after an error the next best one, with the same feedback and corrections.
The values of a prompt come from `nodes/hints.py`, what an action may use from `nodes/reasoning.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import REPLY_CUT, REPLY_EMPTY, Environment, Update, environment
from triplewise.nodes.hints import opening, prompt_values, turns_of
from triplewise.nodes.models import Reply
from triplewise.nodes.plan import is_sure, toolset_of
from triplewise.nodes.reasoning import action_context
from triplewise.nodes.state import State, Step
from triplewise.tools.actions import PYQL, Call, Feedback, Toolset, parse_reply
from triplewise.tools.actions.pyql import script
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.files import packaged
from triplewise.tools.kg import Outcome, Profile
from triplewise.tools.learning.trajectory import conversation
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import scan_arguments

ParsedReply: TypeAlias = tuple[str, Sequence[Call] | ActionError]
"""The thought of a reply, and its calls or what is wrong with them."""
ANSWERS = ("set_answer", "ask", "take")  # Actions that set what a query returns
EXECUTE = "execute"  # The action that runs the finished query
LONGEST = 4_000  # Most characters of an action, and of a thought
GIVE_UP = Call("give_up")
_THOUGHTS = packaged("triplewise.nodes", "thoughts.yaml")
"""Action -> the thought that explains it without a model; placeholders in braces are its arguments."""


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model; follow the best reading without one, or while `cascade` does and nothing went wrong."""
    if runtime.context.offline:
        return follow_reading(state, runtime)
    is_flawless = not (state.usage.calls or state.corrections) and is_sure(state.readings, runtime.context)
    if is_flawless and environment(runtime).toolset.name == PYQL.name:
        with suppress(QueryFailedError):
            return follow_reading(state, runtime)
    return ask_model(state, runtime)


def ask_model(state: State, runtime: Runtime[Context]) -> Update:
    """Execute the next action of the model's last reply, or of a new one (algorithm 1, lines 6 and 7)."""
    env, context, most = environment(runtime), runtime.context, runtime.context.max_actions
    # If `inspect` has a note on the query, the model sees it before the query is executed.
    is_noted = state.verdict is not None and bool(state.verdict.note)
    if state.pending and not (is_noted and state.pending[0].name == EXECUTE):
        call, *rest = state.pending
        return {**carry_out(state, env, "", call), "pending": tuple(rest)}
    # Line 6: thought, action <- LLM(prompt)
    values, toolset, native = prompt_values(state, env), toolset_of(state, env), context.calling == "tools"
    messages = messages_for(state, env, values, native)
    if native:
        reply = env.ask(messages, schemas=[action.schema() for action in toolset.declared], parallel=most > 1)
        thought, calls = read_tool_calls(reply, toolset, most)
    else:
        reply = env.ask(messages, stop=("\nObservation",), parallel=most > 1)
        thought, calls = read_reply(reply.text, toolset, most)
    if isinstance(calls, ActionError):
        return carry_out(state, env, thought, incomplete(reply, context) or calls)
    name = calls[0].name
    is_bare = name in toolset.by_name and toolset.action(name).name == "answer" and not calls[0].arguments
    if is_bare and "answer" in env.prompt:
        # ODA's `answer` takes no values: a second model call, which shows the memory, gives them (table 7).
        calls = [Call(name, read_values(env.ask(env.prompt.render("answer", **values)).text))]
    pending = list(calls[1:])
    if most > 1 and EXECUTE in toolset.by_name and _implies_execute(calls, state.program):
        pending.append(Call(EXECUTE))
    # Line 7: KB_fb, Python_fb <- Execute(action)
    return {**carry_out(state, env, thought, calls[0]), "pending": tuple(pending)}


def _implies_execute(calls: Sequence[Call], program: str) -> bool:
    """Whether a reply ends by setting the answer of a query, or asks for yes or no and goes on."""
    last, has_query = calls[-1].name, len(calls) > 1 or bool(program) or calls[0].name == "take"
    is_set = last in ANSWERS or (last.startswith("add_") and any(call.name == "ask" for call in calls))
    return has_query and is_set


def messages_for(state: State, env: Environment, values: Mapping[str, Any], native: bool) -> list[Any]:
    """Return the messages to the model, with all steps so far (algorithm 1, line 20)."""
    if env.context.history == "chat" and not native:
        messages = conversation(*opening(env.prompt, values), turns_of(state.steps))
    else:
        form = "_tools" if native else ""
        parts = {"system": f"system{form}", "user": f"turn{form}"}
        messages = [{"role": r, "content": env.prompt.render(p, **values)} for r, p in parts.items()]
    if env.context.earlier:  # an earlier attempt, which the model is to improve on
        messages[1] = {**messages[1], "content": f"{env.context.earlier}\n\n{messages[1]['content']}"}
    return messages


def follow_reading(state: State, runtime: Runtime[Context]) -> Update:
    """Execute the next action of the best reading; after a correction, of the next best one."""
    env = environment(runtime)
    choice = decide(state, env.kg.profile)
    state = state.model_copy(update={"program": choice.program, "attempt": choice.attempt})
    feedback = Feedback(action=GIVE_UP.name, observation=choice.thought, finished=True)
    if choice.call != GIVE_UP:
        feedback = env.toolset.execute(action_context(state, env), choice.call)
    if feedback.outcome and not Outcome(feedback.outcome).ok and not feedback.error:
        # A failed query (e.g. a time-out) is not evidence against the reading: do not try the next one.
        raise QueryFailedError(feedback.outcome, feedback.message)
    return {"attempt": choice.attempt, **_recorded(state, choice.thought, choice.call.text(), feedback)}


VARIANTS = {"auto": auto}


class Choice(NamedTuple):
    """The next step: thought, call, the program it applies to, and the index of the reading followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, profile: Profile) -> Choice:
    """Return the next action of the first reading without a failed action, else `give_up`.

    It depends on the state alone, so that a resumed run continues where it stopped.
    """
    made = {(s.program_before, s.call): s.feedback.program for s in state.standing}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    for attempt, reading in enumerate(state.readings):
        program = ""
        for call in script(PyQL.parse(reading.program, profile), profile):
            if (key := (program, call.text())) in failed:
                break
            if key in made:
                program = made[key]
                continue
            thought = _THOUGHTS.get(call.name, "Follow the reading.").format(*call.arguments, *("", "", ""))
            named = f"{reading.text} ({reading.provenance})"
            if not state.steps:
                thought = f"Follow the best reading, {named}. {thought}"
            elif state.last.rolled_back:
                thought = f"That did not work out. Try reading {attempt + 1}, {named}. {thought}"
            return Choice(thought, call, program, attempt)
    return Choice("No reading is left to try.", GIVE_UP, state.program, len(state.readings))


def carry_out(state: State, env: Environment, thought: str, call: Call | ActionError) -> Update:
    """Return the next step: a call and its feedback, or the error of a reply that holds no valid call."""
    thought = thought[:LONGEST]
    if isinstance(call, Call) and (length := len(call.text())) > LONGEST:
        message = f"the action has {length:,} characters, and at most {LONGEST:,} are read"
        call = ActionError("bad_arguments", message, written=call.text())
    if isinstance(call, ActionError):
        feedback = Feedback(error=call.code, message=call.message[:LONGEST], program=state.program)
        return _recorded(state, thought, call.detail.get("written", "")[:LONGEST], feedback)
    feedback = toolset_of(state, env).execute(action_context(state, env), call)
    return _recorded(state, thought, call.text(), feedback)


def _recorded(state: State, thought: str, written: str, feedback: Feedback) -> Update:
    """Return the update of a step: the step, the program after it, and the facts it read from documents."""
    # A plain string: strict checkpoints would refuse to load the enum.
    feedback = replace(feedback, outcome=str(feedback.outcome))
    step = Step(len(state.steps) + 1, thought, written, feedback, feedback.observation, state.program)
    known = {fact.triple for fact in state.facts}  # these keep their review status
    facts = tuple(fact for fact in feedback.facts if fact.triple not in known)
    return {"steps": (step,), "program": feedback.program, "facts": facts}


def read_reply(text: str, toolset: Toolset, most: int = 1) -> ParsedReply:
    """Parse a text reply of at most `most` actions."""
    try:
        return parse_reply(toolset.spelled(text), toolset.by_name, most)
    except ActionError as error:
        return error.detail["thought"], error


def read_tool_calls(reply: Reply, toolset: Toolset, most: int) -> ParsedReply:
    """Parse a reply of at most `most` native tool calls."""
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


def incomplete(reply: Reply, context: Context) -> ActionError | None:
    """Return the error of a reply that was cut off, or whose tokens all went into reasoning, else None."""
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
    """Parse an answer of one value per line, or a list in square brackets; () for `unknown`."""
    text = re.sub(r"(?i)^\s*answer\s*:", "", text.strip()).strip()
    is_list, lines = text.startswith("[") and text.endswith("]"), text.splitlines()
    values = scan_arguments(text[1:-1])[0] if is_list else [line.strip(" \t-*•") for line in lines]
    values = [v.strip("'\"") for v in values]
    return tuple(v for v in values if v and v.rstrip(".").casefold() != "unknown")
