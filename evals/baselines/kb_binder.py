"""KB-BINDER (Li et al., ACL 2023): few-shot drafts of logical forms, bound to the graph, executed, voted on.

```
START → link → draft k → draft k+1 ... → vote → END
```
Each draft is one step: a model writes a program after the seed questions most like the one asked (as
KB-BINDER-R does), the binders put entities and relations of the graph in place of its names, and it is run
(section 3). The answer that most drafts come to wins; drafts that find nothing have no vote.

Where we differ from the published code: drafts are PyQL programs and not s-expressions. The exemplars of
KB-BINDER are training questions with annotated s-expressions; our seed questions hold answers and no logical
form, so their programs are rules mined for each seed (SymAgent, section 4.1 and the demonstrations of
equation 3): the one that reproduces its answers best. Each draft is shown the exemplars in an order of its
own, drawn by `seed`, so that drafts differ also on a server that does not sample.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import add_step, ask, make_answer, make_step
from triplewise.evals.baselines.binding import ACTIONS, Binder, Draft, draft_text, read_draft
from triplewise.evals.baselines.loop import Graph, build_loop, check_number
from triplewise.nodes import answer
from triplewise.nodes.answer import find_routes
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.plan import settings_of
from triplewise.nodes.state import State
from triplewise.tools.actions.pyql import script
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.linker import without_brackets
from triplewise.tools.planning.lexical.constraints import Constraints
from triplewise.tools.planning.lexical.question import view
from triplewise.tools.planning.mining import LEAST_F1, Miner
from triplewise.tools.planning.seeds import Match, Seed
from triplewise.tools.pyql.text import read_node, read_relation, read_term

DRAFTS, BEAM, SHOTS, TEMPERATURE = 6, 5, 10, 0.3
"""Drafts as in KB-BINDER(6), and their temperature as in its code; a beam and shots of our own."""


def build(
    *,
    drafts: int = DRAFTS,
    beam: int = BEAM,
    shots: int = SHOTS,
    seed: int = 1,
    temperature: float = TEMPERATURE,
    link: str = "index",
) -> Graph:
    """Compile KB-BINDER.

    Args:
        drafts: programs that are drafted, K. beam: candidates of a name, and bound programs, that go on.
        shots: seed questions shown. seed: of the order they are shown in.
        temperature: that drafts are sampled with, unless the context has one.
        link: variant of the linking phase.

    Raises:
        ConfigurationError: no draft or beam, fewer than no shots, or an unknown variant.
    """
    check_number("drafts", drafts)
    check_number("beam", beam)
    check_number("shots", shots, least=0)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Draft one more program, bind it and run it; the last draft ends the run."""
        context, number = runtime.context, len(state.steps)
        shown = exemplars(state, context, shots)[::-1]
        if number:  # an order of this draft's own, the nearest not always last
            random.Random(f"{seed} {number} {state.question}").shuffle(shown)
        reply = ask(
            state, context, "kb_binder", "draft",
            entities=[e.label for e in state.linked],
            exemplars=[{"question": e.question, "program": draft_text(e.draft)} for e in shown],
        ).text  # fmt: skip
        binder = Binder(environment(context).kg, environment(context).encoder, state.linked, beam)
        feedback = binder.execute(read_draft(reply), last=number + 1 >= drafts)
        return add_step(state, make_step(state, reply, Call("draft", (str(number + 1),)), feedback))

    return build_loop("kb-binder", act, vote, link=link, settings={"temperature": float(temperature)})


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the set that most drafts find; of several such, the one that was found first."""
    context, kg = runtime.context, environment(runtime.context).kg
    voting = [step for step in state.steps if step.feedback.answers]
    if not voting:
        last = state.last.feedback.message if state.steps else ""
        why = f"none of {len(state.steps)} drafts finds anything; the last: {last}"
        return {"answer": make_answer(state, context, (), why)}
    keys = [frozenset(step.feedback.answers) for step in voting]
    ((best, votes),) = Counter(keys).most_common(1)  # of equals the first
    chosen = voting[keys.index(best)]
    finished = replace(chosen, feedback=replace(chosen.feedback, finished=True))
    program = chosen.feedback.program
    done = state.model_copy(update={"steps": (*state.steps, finished), "program": program})
    made = answer.program(done, runtime)["answer"]
    agreed = f"{votes} of {len(state.steps)} drafts agree"
    reason = f"{made.reason}; {agreed}" if made.status == "budget_spent" else agreed
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    proof = [p.triple for p in made.proof]
    routes = find_routes(proof, starts, lambda node: kg.profile.short(node) in best)
    memory = tuple(tuple(triple for triple, _ in route.hops) for route in routes)
    return {"answer": replace(made, reason=reason), "program": program, "memory": memory}


class Exemplar(NamedTuple):
    """A seed question, without marks around its entities, with a program by names that finds its answers."""

    question: str
    draft: Draft


def exemplars(state: State, context: Context, shots: int) -> list[Exemplar]:
    """Return the seed questions most like a question, nearest first (BM25 over masked text), with programs.

    One of each wording comes before a second one of any; `shots` is how many there are at most.
    """
    seeds = environment(context).seeds
    if seeds is None or not state.linked:
        return []
    settings, encoder = settings_of(context), environment(context).encoder
    mined = seeds.mined(settings.mining, encoder.name)
    miner = Miner(environment(context).kg, settings.mining, mined, encoder)
    matches: dict[str, Match] = {}
    for _, of_entities in seeds.matches(state.question, state.linked, settings.seed_count):
        for match in of_entities:
            if match.text not in matches or matches[match.text].score < match.score:
                matches[match.text] = match

    def of_wording(match: Match) -> Iterator[Exemplar]:
        """Seeds of one wording with programs, never the question itself; mined as they are asked for."""
        others = [s for s in match.seeds if without_brackets(s.question) != state.question]
        for seed in miner.choose(others) if others else ():
            if (exemplar := exemplar_of(seed, context, miner)) is not None:
                yield exemplar

    wordings = map(of_wording, sorted(matches.values(), key=lambda match: -match.score))
    return list(islice(filter(None, chain.from_iterable(zip_longest(*wordings))), shots))


def exemplar_of(seed: Seed, context: Context, miner: Miner) -> Exemplar | None:
    """A seed with the program that reproduces its answers best; None where drafts cannot say it."""
    kg = environment(context).kg
    anchors = miner.anchors(seed)
    bodies = miner.of_seed(seed) if anchors else {}
    good = [(body, quality) for body, quality in bodies.items() if quality.f1 >= LEAST_F1]
    if not good:
        return None
    # The one that reproduces the seed's answers best, a short one of equals.
    body, quality = min(good, key=lambda pair: (-round(pair[1].f1, 6), len(pair[0]), pair[0]))
    constraints = Constraints(kg, environment(context).encoder, view(seed.question, seed.spans))
    rule = miner.rule(list(anchors.values()), body, quality, constraints)
    calls = [c for c in script(rule) if c.name not in ("get_relation", "execute")] if rule else []
    if not calls or any(c.name not in ACTIONS for c in calls):
        return None
    topics, profile = {form: name for name, form in anchors.items()}, kg.profile

    def in_words(kind: str, form: str) -> str:
        """An argument with a name, in quotes, in place of an id."""
        name = topics.get(form, "")
        if not name and kind == "r":
            short = profile.short(read_relation(form, profile))
            name = relation_texts(kg, [short])[short].label
        elif not name and kind == "n" and isinstance(node := read_node(form, profile), IRI):
            name = kg.labels([node]).get(node) or profile.short(node)
        return '"' + name.replace('"', "'") + '"' if name else form

    try:
        draft = tuple(
            Call(c.name, tuple(map(in_words, ACTIONS[c.name].ljust(len(c.arguments)), c.arguments)))
            for c in calls
        )
    except ActionError:
        return None
    return Exemplar(without_brackets(seed.question), draft)
