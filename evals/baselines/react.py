"""Baseline ReAct (Yao et al. 2023): thought, action and observation in turn, and nothing else.

The actions, their interpreter and the knowledge graph are those of the agent. What is left out is what the
papers add to it: no plan, no observed subgraph, no inspection or correction, no reflection. What an action
returns, an error too, is the observation; the trajectory is concatenated and nothing of it is taken back. A
query that went wrong stays so, for PyQL has no action that takes a fact out; exploring builds no query.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.loop import Graph, build_loop, prompt_path
from triplewise.nodes import act as acting
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.plan import for_policy
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import State
from triplewise.tools.core.errors import ConfigurationError

TOOLSETS = ("pyql", "explore")
"""Sets of actions that there are worked examples for."""
SETTINGS = {"toolset": "pyql", "history": "full", "max_steps": 30, "verify_corrections": False}
"""As many actions a question as QueryAgent has."""


def build(*, link: str = "index") -> Graph:
    """ReAct over the actions of the context's toolset, `pyql` or `explore`.

    Without a language model, the policy that follows rules acts in its place, uncorrected too.
    """

    def check_examples(context: Context) -> None:
        if context.toolset not in TOOLSETS and context.prompt is None and not context.embedded:
            raise ConfigurationError(
                f"baseline react has worked examples for the toolsets {' and '.join(TOOLSETS)}, not for "
                f"{context.toolset!r}: choose one of them, or give a prompt of your own (--set prompt=FILE)"
            )

    return build_loop(
        "react", act, answering.program,
        link=link, plan=for_policy, settings=SETTINGS, check_context=check_examples,
    )  # fmt: skip


def act(state: State, runtime: Runtime[Context]) -> Update:
    """Take one thought and one action; whatever comes of it is what is observed."""
    if runtime.context.prompt is None:
        environment(runtime).prompt = load_prompt(prompt_path(f"react_{runtime.context.toolset}"))
    update = acting.auto(state, runtime)
    *before, step = update["steps"]
    feedback = step.feedback
    seen = step.observation or feedback.message or f"the query returned: {feedback.outcome or 'nothing'}"
    return {**update, "steps": (*before, replace(step, observation=seen))}
