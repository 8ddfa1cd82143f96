"""Act: one thought and one action, executed (QueryAgent 3.2, ODA 2.2, SymAgent 4.2).

Three policies share one executor: a language model writing Thought/Action text (`react`), a language
model calling tools natively (`tools`), and the embedding-and-rules policy that needs no model (`embedded`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.embedded import GIVE_UP, decide, whole_program
from triplewise.nodes.environment import CUT, SILENT, Environment, Update, environment
from triplewise.nodes.extract import extractor
from triplewise.nodes.history import encode
from triplewise.nodes.models import ModelCall
from triplewise.nodes.phase import Phase
from triplewise.nodes.plan import is_sure, rule_service
from triplewise.nodes.sql import require_model, sql_services, table_lines
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_texts, observation_lines
from triplewise.nodes.walk import named_nodes
from triplewise.tools.actions import Toolset, parse_actions, parse_call, parse_react
from triplewise.tools.actions.terms import names, with_id
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Ranker, ReasoningMemory
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.unbatched import UnbatchedLabels
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.learning.trajectory import Opening, Turn, conversation
from triplewise.tools.linking.linker import EntityCandidate, LinkedEntity
from triplewise.tools.linking.search import node_types
from triplewise.tools.parsing.statements import form_of
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_term, scan_arguments
from triplewise.tools.retrieval.ranking import rank_relations
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, within

if TYPE_CHECKING:
    from triplewise.nodes.models import Reply
    from triplewise.nodes.prompting import Prompt

OWN_STEPS = 1
"""Steps of its own that worked, from which a model sees the form without the worked example."""


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
    if context.fast_path and (whole := whole_program(state, action_context(state, env), env.toolset)):
        return _recorded(state, *whole)
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
"""Actions that say what a query returns, and the one that runs it for good."""


def prompt_values(state: State, env: Environment) -> dict[str, Any]:
    """Return what prompt templates may name; functions give what costs a query, once, where it is named."""
    context, toolset, kg = env.context, env.toolset, env.kg
    meanings, plan = cache(lambda: entity_lines(kg, state.linked)), [r.text() for r in state.rules[:RULES]]

    def candidates() -> list[str]:
        focus = [node for i in state.focus if (node := read_term(i, kg.profile)) is not None]
        return [with_id(kg, node, name) for node, name in names(kg, focus).items()]

    return {
        "tools": cache(toolset.document),
        "tools_brief": cache(toolset.brief),
        "begun": sum(not s.rolled_back for s in state.steps) >= OWN_STEPS,
        "question": state.question,
        "most": context.max_actions,
        "entities": {e.label: e.id for e in state.linked},
        "meanings": meanings,
        "plan": plan,
        "around": cache(lambda: around_lines(state, env, [*meanings(), *plan])),
        "rules": [f"{r.text()} ({r.provenance})" for r in state.rules],
        "observation": cache(lambda: observation_lines(kg, state)),
        "memory": cache(lambda: memory_texts(kg, state)),
        "history": cache(lambda: encode(state.steps, "short" if context.history == "short" else "full")),
        "tables": cache(lambda: table_lines(state.question, env)),
        "dialect": lambda: env.database.engine.name if context.db is not None else "",
        "candidates": cache(candidates),
        "step": len(state.steps) + 1,
        "form": form_of(state.question),
    }


def _ask(state: State, runtime: Runtime[Context], native: bool) -> Update:
    """One action of a model's: pending from its last reply, or the first of the next one.

    `fast_path` offers it the best reading as one program, for its yes or no. One that `cascade` is sure of is
    run without asking.
    """
    context, env = runtime.context, environment(runtime)
    if state.readings and not state.steps:
        actions, sure = action_context(state, env), is_sure(state.readings, context)
        if whole := whole_program(state, actions, env.toolset, not sure, no=sure):
            return _recorded(state, *whole)
    # What speaks against the query so far, a note of the inspector, is shown before it is executed.
    is_noted = state.verdict is not None and bool(state.verdict.note)
    if state.pending and not (is_noted and state.pending[0].name == EXECUTE):
        call, *rest = state.pending
        return {**carry_out(state, env, "", call, ""), "pending": tuple(rest)}
    values, schemas = prompt_values(state, env), env.toolset.schemas() if native else ()
    if context.history == "chat" and not native:
        messages = conversation(opening(env.prompt, values), turns_of(state.steps))
    else:
        system, turn = ("system_tools", "turn_tools") if native else ("system", "turn")
        messages = [
            {"role": "system", "content": env.prompt.render(system, **values)},
            {"role": "user", "content": env.prompt.render(turn, **values)},
        ]
    if context.earlier:  # an attempt to improve on
        messages[1] = {**messages[1], "content": f"{context.earlier}\n\n{messages[1]['content']}"}
    most, stop = context.max_actions, () if native else ("\nObservation",)
    reply = env.ask(ModelCall(messages, stop, schemas, parallel=most > 1))
    if native:
        thought, written, calls = read_tool_calls(reply, env.toolset, most)
    else:
        thought, written, calls = read_reply(reply.text, env.toolset, most)
    if isinstance(calls, ActionError):
        return carry_out(state, env, thought, unusable(reply, context) or calls, written)
    name = calls[0].name
    is_bare = name in env.toolset and env.toolset.action(name).name == "answer" and not calls[0].arguments
    if is_bare and "answer" in env.prompt:
        # ODA's answer action names no value: the model is asked for it, shown its memory (table 7).
        reply = env.ask(ModelCall(env.prompt.render("answer", **values)))
        calls = [Call(name, read_values(reply.text))]
    pending, ends = list(calls[1:]), len(calls) > 1 or bool(state.program)
    if most > 1 and ends and calls[-1].name in ANSWERS and EXECUTE in env.toolset:
        # A reply that ends by saying what the query returns need not say that it is to be executed.
        pending.append(Call(EXECUTE))
    return {**carry_out(state, env, thought, calls[0], written), "pending": tuple(pending)}


def react(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for one Thought and one Action as text, the papers' form."""
    return _ask(state, runtime, native=False)


def tools(state: State, runtime: Runtime[Context]) -> Update:
    """Ask the model for native tool calls."""
    return _ask(state, runtime, native=True)


def opening(prompt: Prompt, values: Mapping[str, Any]) -> Opening:
    """The first two messages of a conversation: as before the first step, whatever steps the values hold."""
    first = {**values, "history": [], "step": 1, "begun": False}
    return Opening(prompt.render("system", **first), prompt.render("turn", **first))


def turns_of(steps: Sequence[Step]) -> tuple[Turn, ...]:
    """Return steps as the turns of a trajectory."""
    return tuple(Turn(s.thought, s.call, s.observation) for s in steps)


def read_reply(text: str, toolset: Toolset, most: int = 1) -> tuple[str, str, Sequence[Call] | ActionError]:
    """Return the thought, the action as written, and the calls it means or what is wrong with it.

    most: calls that a reply may hold; what goes beyond is dropped.
    """
    thought, written = "", ""
    try:
        if most > 1:
            thought, calls = parse_actions(toolset.spelled(text), toolset)
            return thought, "; ".join(call.text() for call in calls), calls[:most]
        thought, written = parse_react(toolset.spelled(text))
        return thought, written, [parse_call(written, toolset)]
    except ActionError as error:
        actions = error.detail.get("actions") or [error.detail.get("action", written)]
        return str(error.detail.get("thought", thought)), "; ".join(actions), error


def unusable(reply: Reply, context: Context) -> ActionError | None:
    """Return why a reply without an action could hold none: it was cut, or has no text; None for neither."""
    if reply.truncated:
        limit = context.max_reply_tokens
        return ActionError(
            CUT,
            f"the reply was cut at {limit} tokens before its action was complete: it must be shorter, or the "
            f"limit higher (max_reply_tokens={2 * limit})",
        )
    tokens = 0 if reply.usage.estimated else reply.usage.output_tokens
    if tokens and not (reply.text or reply.tool_calls or reply.invalid_calls):
        return ActionError(
            SILENT,
            f"the reply has no text: the {tokens} tokens that the model wrote went into its reasoning, which "
            "is not read (reasoning_content, or a block <think>)",
        )
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


def read_tool_calls(
    reply: Reply, toolset: Toolset, most: int
) -> tuple[str, str, Sequence[Call] | ActionError]:
    """Return the same of a reply with native tool calls."""
    calls = [toolset.from_tool_call(*c) for c in reply.tool_calls]
    thought, written = reply.text.strip(), "; ".join(c.text() for c in calls)
    if reply.invalid_calls:
        name, arguments = reply.invalid_calls[0]
        message = f"the arguments of {name} are no JSON object: {arguments}"
        return thought, written, ActionError("bad_arguments", message)
    if not calls or (len(calls) > 1 and most == 1):
        code = "several_actions" if calls else "no_action"
        message = f"{len(calls)} tool calls in one reply; exactly one is due"
        return thought, written, ActionError(code, message)
    return thought, written, calls[:most]


LOOKUPS = ("get_relation", "get_neighbors", "get_relations", "get_attributes")


def reasoning_memory(state: State, env: Environment) -> ReasoningMemory:
    """Return what was linked, looked up, bound and tried in the steps before (QueryAgent, Algorithm 1).

    Steps that were rolled back stay only as attempts: what they bound or showed is forgotten.
    """
    valid = [s for s in state.steps if not s.rolled_back]
    calls = [_call_text(s) for s in state.steps]
    profile = env.kg.profile
    followed = PyQL.parse(state.followed.program if state.followed else "", profile)
    nodes, relations = named_nodes(followed, profile)
    nodes += [rule.anchor for rule in state.rules]
    relations += [relation for rule in state.rules for relation in rule.relations]
    shown: dict[str, dict[str, list[str]]] = {}
    for feedback in (s.feedback for s in valid):
        if feedback.action in LOOKUPS and feedback.relations and feedback.arguments:
            node = feedback.arguments[0]
            shown[node] = {**shown.get(node, {}), **feedback.relations}
    # A call is doubtful on the program on which it failed; the same words on another program, such as the
    # next rule's, are another call. The last one is doubtful too, if it had failed on its program.
    failed = [(s.program_before, _call_text(s)) for s in state.steps if s.rolled_back]
    last = {(s.program_before, _call_text(s)) for s in state.steps[-1:]}
    bound = dict.fromkeys(n if n.startswith("#") else f"?{n}" for s in valid for n in s.feedback.values)
    if any(s.feedback.action == "undo" for s in valid):
        # It takes back variables that the steps before it have shown.
        bound = {v: None for v in bound if v in re.findall(r"\?\w+", state.program)}
    short = profile.short
    # Hints show nodes and relations around the entities, and what else a mention may mean.
    ends = (n for s in state.observation for n in (s.triple.subject, s.triple.object) if isinstance(n, IRI))
    meanings = (c.id for e in state.linked for c in e.candidates)
    hinted = (t.relation for s in state.observation for t in (s.triple, s.through) if t is not None)
    searched = (i for s in state.steps for i in s.feedback.ids.get("search", ()))
    return ReasoningMemory(
        # Nodes that the plan names besides the linked entities, such as the class a question asks for.
        linked={**{node: node for node in nodes}, **{e.id: e.label for e in state.linked}},
        looked_up=shown,
        bound=tuple(bound),
        seen=frozenset(i for s in valid for ids in s.feedback.ids.values() for i in ids)
        | {*state.focus, *map(short, ends), *meanings},
        # What a plan names is in the graph.
        shown=frozenset((*map(short, hinted), *searched, *relations)),
        tried=dict(Counter(calls)),
        failed=frozenset(call for _, call in failed),
        doubted=frozenset(call for at, call in failed if at == state.program or (at, call) in last),
        last=calls[-1] if calls else "",
        steps=len(state.steps),
        budget=env.context.max_steps or 0,
        calls=tuple(calls),
        planned=tuple(dict.fromkeys(relations)),
    )


def _call_text(step: Step) -> str:
    """Return a call as guidelines see it; "" for a reply that was not carried out at all."""
    return Call(step.feedback.action, step.feedback.arguments).text() if step.feedback.action else ""


def ranker(question: str, env: Environment) -> Ranker:
    """Return what ranks and cuts the relations around a node for a question (QueryAgent, appendix B.3).

    Vectors of relation texts come from the store beside the KG, so that no text is embedded twice.
    """

    kg, context = env.kg, env.context

    def rank(forward: list[str], backward: list[str]) -> tuple[list[str], list[str]]:
        names = list(dict.fromkeys([*forward, *backward]))
        texts = relation_texts(kg, names)
        ranked = rank_relations(
            question,
            [(n, texts[n].label) for n in names],
            method=context.ranking,
            encoder=env.ranking_encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            kg=kg,
        )
        return [n for n in ranked if n in forward], [n for n in ranked if n in backward]

    return rank


def action_context(state: State, env: Environment) -> ActionContext:
    """Everything an action may use in this step: the KG, the program, the memory, the plan, documents."""
    context = env.context
    services: dict[str, Any] = {"rules": rule_service(state, env)}
    if context.db is not None:
        services |= sql_services(state.question, env)
    if context.documents is not None:
        services["extract"] = extractor(state, env)
    return ActionContext(
        # One by one where the published loop is compared with.
        kg=env.kg if context.label_batch else UnbatchedLabels(env.kg),
        question=state.question,
        program=state.program,
        memory=reasoning_memory(state, env),
        rank=ranker(state.question, env),
        preview=5 if context.history == "full" else 10,
        published=context.history == "full",
        services=services,
        path_seconds=context.path_seconds,
        encoder=env.encoder,
    )


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Follow the policy that the context asks for: Thought/Action text, native tool calls, or no model."""
    if runtime.context.embedded:
        return embedded(state, runtime)
    return _ask(state, runtime, native=runtime.context.calling == "tools")


VARIANTS: dict[str, Phase] = {"auto": auto, "react": react, "tools": tools, "embedded": embedded}


# -- hints: what a model is told before it acts, best first, within a budget of tokens. Every node and
# relation comes with its id, so that it can be used without being looked up.

HINTS = 2_400
"""Letters that the hints of the agent's prompt may take together: about 600 tokens."""
RIVALS, BEHIND = 3, 0.25
"""Other meanings of a mention that are told at most, and how far behind the best one's score they may be."""
LONG = 80
"""Characters above which a description is clipped."""
RULES = 3
"""Rules of the plan that are told at most."""
LATER = 3
"""The share of the budget, as 1/n, that is left once the run has steps of its own to show."""


def entity_lines(kg: KnowledgeGraph, linked: Sequence[LinkedEntity]) -> list[str]:
    """Return one line for what a mention may mean: its node, and others where the linker is not sure.

    Each with its description or, where it has none, its classes: a film is told from a mountain of its name.
    """
    meanings = [[c for c in e.candidates if c.score >= e.score - BEHIND][: 1 + RIVALS] for e in linked]
    nodes = {c.id: kg.profile.expand(c.id) for near in meanings for c in near if not c.description}
    types = node_types(kg, [iri for iri in nodes.values() if iri is not None])

    def text(candidate: EntityCandidate) -> str:
        iri = nodes.get(candidate.id)
        about = candidate.description or ", ".join(types.get(iri, ()) if iri is not None else ())
        about = about if len(about) <= LONG else f"{about[: LONG - 3]}..."
        return f"{candidate.label}: {candidate.id}{f' ({about})' if about else ''}"

    lines = []
    for entity, near in zip(linked, meanings, strict=True):
        best, *others = map(text, near) if near else (f"{entity.label}: {entity.id}",)
        lines.append(f"{best}; or {', '.join(others)}" if others else best)
    return list(dict.fromkeys(lines))


def around_lines(state: State, env: Environment, spent: Sequence[str]) -> list[str]:
    """Return the relations around the task-relevant entities within the budget.

    Args:
        spent: hints that are told besides, within the same budget.
    """
    kg = env.kg
    budget = HINTS
    if any(not step.rolled_back for step in state.steps):
        budget //= LATER
    budget -= sum(map(len, spent))
    facts = [NearbyFact(s.triple, s.through) for s in state.observation]
    totals = {}
    for topic in state.observed:  # asked before, by the observation
        if (node := kg.profile.expand(topic)) is not None and (around := kg.relations(node)).outcome.ok:
            totals[topic] = len(around.forward) + len(around.backward)
    groups = {topic: list[str]() for topic in totals} | grouped_lines(kg, facts, state.observed)
    return within(kg, groups, budget, totals)
