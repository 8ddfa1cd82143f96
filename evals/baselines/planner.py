"""All that baselines take of the planner: the form of a question, rules as queries, and what seeds teach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import Any

from triplewise.nodes.environment import Environment
from triplewise.nodes.plan import demonstrations_for, readings_of, relations_around, rules_of, settings_of
from triplewise.nodes.state import State
from triplewise.tools.actions.pyql import script
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.linking.linker import without_brackets
from triplewise.tools.parsing.statements import decides, denies, form_of, slot_of
from triplewise.tools.planning.mining import LEAST_F1, Miner, Plan, PlanSettings, seed_rules
from triplewise.tools.planning.paths import answers, rule_program, with_variables
from triplewise.tools.planning.proposals import parse_paths, with_proposals
from triplewise.tools.planning.seeds import Match, Seed

__all__ = [
    "answers", "decides", "denies", "exemplars", "form_of", "mined_rules", "prompt_values",
    "proposed_rules", "rule_program", "slot_of", "with_variables",
]  # fmt: skip


def mined_rules(state: State, env: Environment) -> list[Rule]:
    """Return rules of the seed questions most like this one; without seeds, those of its readings."""
    kg, seeds = env.kg, env.seeds
    if seeds is None:
        return list(rules_of(readings_of(state, env), kg.profile))
    caps, count = PlanSettings().caps, PlanSettings().seed_count
    mined = seed_rules(state.question, state.linked, kg, seeds, caps, count)
    return sorted(mined, key=lambda rule: -rule.score)


def prompt_values(state: State, env: Environment) -> dict[str, Any]:
    """Return what SymAgent's planning prompt shows: seed questions with their paths, relations nearby."""
    around = relations_around(env.kg, env.encoder, state)
    return {"demonstrations": demonstrations_for(state, env), "rules": [], "relations": around}


def proposed_rules(reply: str, state: State, env: Environment, limit: int) -> Plan:
    """Return the relation paths that a model wrote, aligned to relations of the graph."""
    settings = replace(settings_of(env), documents=False, rules=limit)
    return with_proposals(Plan(), parse_paths(reply), state.linked, env.kg, env.encoder, settings)


def exemplars(
    state: State, env: Environment, limit: int, write: Callable[[Sequence[Call], Mapping[str, str]], str]
) -> list[dict[str, str]]:
    """Return the seed questions most like a question, nearest first (BM25 over masked text), with programs.

    One of each wording comes before a second one of any, never the question itself; at most `limit`. `write`
    makes a program's text of its actions and form -> name of the topic entities, "" where it cannot.
    """
    seeds = env.seeds
    if seeds is None or not state.linked:
        return []
    settings = settings_of(env)
    miner = Miner(env.kg, settings.caps, seeds.mined(settings.caps))

    def of_wording(match: Match) -> Iterator[dict[str, str]]:
        """Seeds of one wording, mined as they are needed."""
        others = [s for s in match.seeds if without_brackets(s.question) != state.question]
        for seed in miner.choose(others) if others else ():
            calls, topics = _best_program(seed, env.kg, miner)
            if calls and (program := write(calls, topics)):
                yield {"question": without_brackets(seed.question), "program": program}

    wordings = map(of_wording, seeds.groups_like(state.question, state.linked, settings.seed_count))
    return list(islice(filter(None, chain.from_iterable(zip_longest(*wordings))), limit))


def _best_program(seed: Seed, kg: KnowledgeGraph, miner: Miner) -> tuple[list[Call], dict[str, str]]:
    """The actions of the rule that reproduces a seed's answers best, and form -> name of its entities."""
    anchors = miner.anchors(seed)
    mined = miner.of_seed(seed) if anchors else {}
    good = [(path, quality) for path, quality in mined.items() if quality.f1 >= LEAST_F1]
    if not good:
        return [], {}
    # A short one of equals.
    path, _ = min(good, key=lambda pair: (-round(pair[1].f1, 6), len(pair[0]), pair[0]))
    rule = Rule(next(iter(anchors.values())), with_variables(kg, path))
    made = script(rule_program(kg, rule), kg.profile)
    calls = [c for c in made if c.name not in ("get_relation", "execute")]
    return calls, {form: name for name, form in anchors.items()}
