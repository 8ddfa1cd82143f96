"""Baselines that need only a few lines besides the loop they share.

Direct answers, chains of thought (Wei et al. 2022), the majority of several (Wang et al. 2023) and passages
that are read (SymAgent, table 1) take only ids from the graph. ReAct (Yao et al. 2023): thought, action and
observation in turn, with the agent's own actions. RoG (Luo et al. 2024): relation paths are planned, their
instances retrieved, the answer is read off these alone; its planner is trained, here a model is shown
questions with paths.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes import act as acting, answer as answering, plan as planning
from triplewise.nodes.answer import find_paths
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.hints import memory_lines
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.reasoning import fitting_texts
from triplewise.nodes.state import State, Step
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError, ConfigurationError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.overlap import normal_text
from triplewise.tools.core.rules import path_text
from triplewise.tools.core.terms import Triple
from triplewise.tools.kg import KnowledgeGraph, Outcome
from triplewise.tools.planning.mining import Plan
from triplewise.tools.planning.paths import answers, rule_program
from triplewise.tools.planning.proposals import demonstrate, parse_paths, with_proposals
from triplewise.tools.pyql.text import read_term

TOOLSETS = ("pyql", "explore")  # sets of actions that there are worked examples of ReAct for
PASSAGES = 10  # read for a question
INSTANCES = 100  # instances of paths that are retrieved for one plan of RoG


def direct(state: State, runtime: Runtime[Context]) -> Update:
    """The model's answer, at once."""
    return {"steps": (_reply(state, environment(runtime), "direct"),)}


def cot(state: State, runtime: Runtime[Context]) -> Update:
    """One chain of thought with its answer."""
    return {"steps": (_reply(state, environment(runtime), "reasoned"),)}


def sample(state: State, runtime: Runtime[Context]) -> Update:
    """One more chain of thought; `max_steps` are drawn."""
    step = _reply(state, environment(runtime), "reasoned")
    # Independent calls: equal ones are no loop.
    feedback = replace(step.feedback, finished=step.number >= (runtime.context.max_steps or 1))
    return {"steps": (replace(step, call=f"sample({step.number})", feedback=feedback),)}


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """Answer what most samples say, in whatever order; those without an answer have no vote."""
    given = {i: named for i, s in enumerate(state.steps) if (named := loop.answer_of(s)[0])}
    keys = {i: frozenset(normal_text(n.value) for n in named) for i, named in given.items()}
    best, why = loop.majority(state, keys, "samples")
    return {"answer": loop.make_answer(state, runtime.context, () if best is None else given[best], why)}


def _reply(state: State, env: Environment, part: str) -> Step:
    """Return the step of a reply to a part of the prompt."""
    is_reasoned, reply = part == "reasoned", loop.ask(state, env, "knowledge", part)
    named, why = loop.name_reply(reply.text, state, env, reasoned=is_reasoned)
    if is_reasoned and reply.truncated and not named:
        why = f"the chain of thought was cut at {env.context.max_reply_tokens} tokens (max_reply_tokens)"
    return loop.answer_step(state, reply.text if is_reasoned else "", named, why)


def documents(state: State, runtime: Runtime[Context]) -> Update:
    """Retrieve passages for the question (BM25 and vectors), and read the answers in as many as fit."""
    env = environment(runtime)
    if env.documents is None:
        raise ConfigurationError(
            "baseline documents needs documents to read: --set documents=FOLDER of text files, "
            "or documents=wikipedia (online)"
        )
    # Plain words, as the index of the documents has them.
    question = normalise(loop.plain_question(state).replace("[SEP]", " "))
    found = env.documents.find("", question=question, limit=PASSAGES)
    texts = [f"{p.title or p.source}: {p.text} ({p.source})" for p in found]
    seen = "\n".join(texts) or "no passage was found"
    feedback = Feedback(action="retrieve", arguments=(question,), observation=seen)
    step = loop.make_step(state, "Which passages may tell?", Call("retrieve", (question,)), feedback)
    reply = loop.ask(state, env, "documents", "read", passages=fitting_texts(found)).text
    read = loop.answer_step(state, "", *loop.name_reply(reply, state, env))
    return {"steps": (step, replace(read, number=step.number + 1))}


def react(state: State, runtime: Runtime[Context]) -> Update:
    """Take one thought and one action; whatever comes of it is what is observed.

    The actions are those of the toolset `pyql` or `explore`; without a model the policy acts, uncorrected.
    """
    context = runtime.context
    if context.prompt is None:
        if context.toolset not in TOOLSETS and not context.offline:
            raise ConfigurationError(
                f"baseline react has worked examples for the toolsets {' and '.join(TOOLSETS)}, not for "
                f"{context.toolset!r}: choose one of them, or give a prompt of your own (--set prompt=FILE)"
            )
        environment(runtime).prompt = load_prompt(loop.prompt_path(f"react_{context.toolset}"))
    update = acting.auto(state, runtime)
    *before, step = update["steps"]
    feedback = step.feedback
    seen = step.observation or feedback.message or f"the query returned: {feedback.outcome or 'nothing'}"
    return {**update, "steps": (*before, replace(step, observation=seen))}


def rog(state: State, runtime: Runtime[Context]) -> Update:
    """Plan relation paths, retrieve their instances, answer from them."""
    env = environment(runtime)
    match len(state.steps):
        case 0:
            return _plan(state, env)
        case 1:
            return _retrieve(state, env.kg)
    return _reason(state, env)


def rog_answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the retrieved paths that lead to the answers as proof."""
    named, why = loop.answer_of(state.last if state.steps else None)
    if named and (made := answering.memory(state, runtime)["answer"]).proof:
        return {"answer": made}
    why = "no retrieved path leads to the answer: it is what the model knows" if named else why
    return {"answer": loop.make_answer(state, runtime.context, named, why)}


def _plan(state: State, env: Environment) -> Update:
    """RoG's planning: paths that the model proposes, where the graph has them."""
    thought, rules, dropped, why, kg = "", [], state.dropped, "", env.kg
    if state.linked:
        shown = demonstrate(state.question, state.linked, kg, env.seeds, env.context.seed_count)
        around = planning.relations_around(kg, env.encoder, state)
        values = {"demonstrations": shown, "rules": [], "relations": around}  # as SymAgent's planner
        thought = loop.ask(state, env, "rog", "plan", limit=env.context.plan_rules, **values).text
        settings = replace(planning.settings_of(env), documents=False)
        found = with_proposals(Plan(), parse_paths(thought), state.linked, kg, env.encoder, settings)
        rules, dropped = list(found.rules), found.dropped
        why = "; ".join(f"{d.text}: {d.reason}" for d in dropped)
    text, why = "; ".join(rule.text() for rule in rules), why or "no relation path fits the question"
    feedback = Feedback(action="plan", observation=text or why, message="" if text else why)
    step = loop.make_step(state, thought, Call("plan"), feedback)
    return {"steps": (step,), "rules": tuple(rules), "dropped": dropped}


def _retrieve(state: State, kg: KnowledgeGraph) -> Update:
    """RoG's retrieval module: the instances of the planned paths in the graph, one to each first end."""
    found: dict[tuple[Triple, ...], None] = {}
    for rule in state.rules:
        ends, start = answers(kg, rule, INSTANCES), read_term(rule.anchor, kg.profile)
        try:
            query = rule_program(kg, rule)
        except ActionError:
            continue
        if ends and start is not None:
            proofs = find_paths(query.prove(kg, ends, 4 * INSTANCES), [start], set(ends).__contains__)
            found |= {tuple(triple for triple, _ in proof.hops): None for proof in proofs}
    paths = tuple(found)
    feedback = Feedback(
        action="retrieve",
        outcome=str(Outcome.ROWS if paths else Outcome.EMPTY),
        observation="\n".join(memory_lines(kg, paths)) or "no path of the plan is in the graph",
        triples=tuple(dict.fromkeys(triple for path in paths for triple in path)),
    )
    call = Call("retrieve", tuple(path_text(rule.path) for rule in state.rules))
    step = loop.make_step(state, "Retrieve what lies on these paths.", call, feedback)
    return {"steps": (step,), "memory": paths}


def _reason(state: State, env: Environment) -> Update:
    """RoG's reasoning module: the model answers from the retrieved paths."""
    reply = loop.ask(state, env, "rog", "reason", paths=memory_lines(env.kg, state.memory)).text
    facts = [path[-1] for path in state.memory if path] + [t for path in state.memory for t in path]
    shown = [node for triple in facts for node in (triple.object, triple.subject)]
    return {"steps": (loop.answer_step(state, "", *loop.name_reply(reply, state, env, shown=shown)),)}
