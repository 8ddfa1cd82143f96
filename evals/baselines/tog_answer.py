"""How Think-on-Graph answers: from the paths of its beam, and where these end too early also from knowledge.

What the paths prove is the proof; what the model names besides is said to be its own in the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    Named,
    answer_step,
    make_answer,
    name_answers,
    read_answers,
    said_nothing,
)
from triplewise.evals.baselines.asking import Asker
from triplewise.evals.baselines.paths import Path, beam, chain, path_lines, paths_of, settled, simple
from triplewise.nodes import answer
from triplewise.nodes.answer import labels_of
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.forms import decides
from triplewise.nodes.phase import Update
from triplewise.nodes.state import State, Step, Verdict
from triplewise.nodes.text import node_labels
from triplewise.tools.core.names import normalise
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.planning.bodies import answers, rule_program, without_topic

PROMPT = "tog"
SUFFICIENT = "the paths suffice"
"""Why the search ended, where the model was content with what it found."""
KEPT = "path kept by its scores"
_TRUTHS = ("true", "false")


def answered(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the paths (section 2.1.3)."""
    context, kg = runtime.context, environment(runtime.context).kg
    paths = settled(paths_of(state, kg))
    state = state.model_copy(update=beam(paths, kg, KEPT))
    asker = Asker(state, context, PROMPT)
    over = state.verdict is not None and state.verdict.status == "spent"
    reply = None if context.embedded or over else _asked(asker, paths)
    if reply is not None:
        return _by_model(state, runtime, paths, reply)
    if asker.over:
        state = state.model_copy(update={"verdict": Verdict("spent", note=asker.over)})
    return _by_chain(state, runtime, paths)


def _asked(asker: Asker, paths: Sequence[Path]) -> str | None:
    """The model's answer; it may add what it knows where it was not content with the paths."""
    lines = path_lines(environment(asker.context).kg, paths)
    return asker.ask("answer", paths=lines, own=_why(asker.state) != SUFFICIENT)


def _why(state: State) -> str:
    """Why the search ended."""
    return state.verdict.note if state.verdict is not None else ""


def _by_model(state: State, runtime: Runtime[Context], paths: Sequence[Path], reply: str) -> Update:
    """The answers of a reply; the reason says how it came to them."""
    known, why = _names(environment(runtime.context).kg, paths), _why(state)
    named = name_answers(read_answers(reply), state, runtime.context, known)
    step = answer_step(state, reply, named, said_nothing(reply))
    if not named:
        return _finished(state, runtime, step, f"{why}; {step.feedback.message}")
    unproven = [n.label for n in named if n.value not in {*known.values(), *_TRUTHS}]
    told = f"on no path: {', '.join(unproven)}" if unproven else "all of it stands on the paths"
    if why != SUFFICIENT:
        why = f"{why}: answered from the paths and the model's own knowledge ({told})"
    elif unproven:
        why = f"{why}, says the model, but {told}"
    return _finished(state, runtime, step, why)


def _names(kg: KnowledgeGraph, paths: Sequence[Path]) -> dict[str, str]:
    """Normalised name -> short id of the nodes on paths; ends go before what is on the way."""
    nodes = [p.end for p in paths] + [n for p in paths for n in p.nodes]
    names: dict[str, str] = {}
    for exact in (False, True):
        for node, text in node_labels(kg, nodes, exact).items():
            names.setdefault(normalise(text), kg.profile.short(node))
    return names


def _by_chain(state: State, runtime: Runtime[Context], paths: Sequence[Path]) -> Update:
    """Answer without the model: all that the best path's chain leads to; a claim by whether a path proves it.

    Where the run was broken off this is what there was, whether or not it suffices.
    """
    kg, why = environment(runtime.context).kg, _why(state)
    values: tuple[str, ...] = ()
    if paths and decides(state.question):
        asked = {e.id for e in state.linked}
        joined = any(kg.profile.short(p.end) in asked - {kg.profile.short(p.start)} for p in paths)
        values, why = (("true",), "a path joins its entities") if joined else ((), why)
    elif paths:
        rule = without_topic(kg, simple(chain(paths[0], kg)))
        values = tuple(kg.profile.short(t) for t in answers(kg, rule))
        state = state.model_copy(update={"program": rule_program(kg, rule).text(kg.profile)})
        why = f"{why}: all that {rule.text()} leads to"
    named = [Named(*pair) for pair in zip(values, labels_of(kg, values), strict=True)]
    step = answer_step(state, "The end of the best path is the answer.", named, why)
    return _finished(state, runtime, step, why)


def _finished(state: State, runtime: Runtime[Context], step: Step, reason: str) -> Update:
    """The answer as presets build it: from the query, or from the paths that lead to the values."""
    done = state.model_copy(update={"steps": (*state.steps, step)})
    if step.feedback.answers:
        build = answer.program if state.program else answer.memory
        built = build(done, runtime)["answer"]
        reason = built.reason if built.status == "budget_spent" else reason
        built = replace(built, reason=reason)
    else:
        built = make_answer(done, runtime.context, (), reason)
    kept = {name: getattr(done, name) for name in ("program", "memory", "rules", "focus", "verdict", "steps")}
    return {**kept, "answer": built}
