"""KB-BINDER (Li et al., ACL 2023): few-shot drafts of logical forms, bound to the graph, executed, voted on.

```
START → link → draft k → draft k+1 ... → vote → END
```
Each draft is one step: a model writes a program after the seed questions most like the one asked (as
KB-BINDER-R does), the binders put entities and relations of the graph in place of its names, and it is run
(section 3). The answer that most drafts come to wins; drafts that find nothing have no vote.

Where we differ from the published code: drafts are PyQL programs and not s-expressions, and the programs of
the exemplars are mined (see `drafts`). Each draft is shown the exemplars in an order of its own, drawn by
`seed`, so that drafts differ also on a server that does not sample.

Without a model the programs of the nearest seeds, told about the question's entities, are the drafts; binding
and vote are the same. That is our stand-in: without seed questions it has no draft.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import asked, extended, make_answer, make_step
from triplewise.evals.baselines.binding import Binder, Executed
from triplewise.evals.baselines.drafts import Draft, Exemplar, exemplars, read_draft, retold, text_of
from triplewise.evals.baselines.wiring import Graph, own_prompt, wire
from triplewise.nodes import answer
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.routes import find_routes
from triplewise.nodes.state import Answer, State, Step
from triplewise.nodes.text import node_labels
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.terms import Triple
from triplewise.tools.pyql.text import read_term

DRAFTS, BEAM, SHOTS, TEMPERATURE = 6, 5, 10, 0.3
"""Drafts as in KB-BINDER(6), and their temperature as in its code; a beam and shots of our own."""
NO_SEEDS = "no seed question is like this one: without a model there is nothing to draft from"
SHOWN = 5
"""Answers of a draft that its step shows."""


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
        ConfigurationError: no draft, beam or shot, or an unknown variant.
    """
    for name, value in (("drafts", drafts), ("beam", beam)):
        if not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{name} must be a whole number above 0, got {value!r}")
    if not isinstance(shots, int) or shots < 0:
        raise ConfigurationError(f"shots must be a whole number, 0 or more, got {shots!r}")
    act = _drafting(_Sizes(drafts, beam, shots, seed))
    return wire("kb-binder", act, vote, link=link, settings={"temperature": float(temperature)})


@dataclass(frozen=True, slots=True)
class _Sizes:
    """See `build`."""

    drafts: int
    beam: int
    shots: int
    seed: int


def _drafting(sizes: _Sizes) -> Phase:
    """The phase that adds one draft to the steps; the last one ends the run."""

    def draft(state: State, runtime: Runtime[Context]) -> Update:
        """Draft one more program, bind it and run it."""
        context, number = runtime.context, len(state.steps)
        if context.embedded:
            told = _told(state, context, sizes)
            written, last = (told[number] if told else ()), number + 1 >= len(told)
            reply = text_of(written)
            missing = "" if told else NO_SEEDS
        else:
            reply = _asked(state, context, sizes)
            written, last, missing = read_draft(reply), number + 1 >= sizes.drafts, ""
        binder = Binder(environment(context).kg, environment(context).encoder, state.linked, sizes.beam)
        found = Executed(error=missing) if missing else binder.execute(written)
        return extended(state, _step(state, context, written, reply, found, last))

    return draft


def _told(state: State, context: Context, sizes: _Sizes) -> list[Draft]:
    """The drafts without a model: programs of the nearest seeds, several of one wording."""
    found = (retold(e) for e in exemplars(state, context, sizes.drafts, spread=False))
    return [draft for draft in found if draft is not None]


def _asked(state: State, context: Context, sizes: _Sizes) -> str:
    """The model's draft, with the exemplars in an order of this draft's own, the nearest not always last."""
    shown: list[Exemplar] = exemplars(state, context, sizes.shots)[::-1]
    if state.steps:
        random.Random(f"{sizes.seed} {len(state.steps)} {state.question}").shuffle(shown)
    values: dict[str, Any] = {
        **asked(state),
        "entities": [e.label for e in state.linked],
        "exemplars": [{"question": e.question, "program": text_of(e.draft)} for e in shown],
    }
    text = own_prompt("kb_binder", context).render("draft", **values)
    return environment(context).model.complete([{"role": "user", "content": text}]).text


def _step(state: State, context: Context, draft: Draft, reply: str, found: Executed, last: bool) -> Step:
    """A draft as a step: what was written, what it was bound to, and what that finds."""
    kg = environment(context).kg
    bound = found.program.program.text(kg.profile) if found.program is not None else ""
    notes = [f"{name!r} read as {taken!r}" for name, taken in found.program.taken] if found.program else []
    terms = {v: read_term(v, kg.profile) for v in found.answers[:SHOWN]}
    names = node_labels(kg, [t for t in terms.values() if t is not None])
    shown = ", ".join(v if t is None else names[t] for v, t in terms.items())
    more = f" and {len(found.answers) - SHOWN} more" if len(found.answers) > SHOWN else ""
    told = f"finds {shown}{more}" if found.answers else found.error
    feedback = Feedback(
        action="draft",
        arguments=tuple(call.text() for call in draft),
        error="" if found.program is not None else "unbound",
        message=found.error,
        outcome=found.outcome,
        observation="\n".join(filter(None, (bound, *notes, told))),
        program=bound,
        answers=found.answers,
        finished=last,
    )
    return make_step(state, reply, Call("draft", (str(len(state.steps) + 1),)), feedback)


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """The set of answers that most drafts find; of several such, the one that was found first."""
    context, kg = runtime.context, environment(runtime.context).kg
    voting = [step for step in state.steps if step.feedback.answers]
    votes = Counter(frozenset(step.feedback.answers) for step in voting)
    if not votes:
        return {"answer": make_answer(state, context, (), _why_none(state.steps))}
    best = max(votes, key=votes.__getitem__)
    chosen = next(step for step in voting if frozenset(step.feedback.answers) == best)
    finished = replace(chosen, feedback=replace(chosen.feedback, finished=True))
    told = state.model_copy(update={"steps": (*state.steps, finished), "program": chosen.feedback.program})
    built: Answer = answer.program(told, runtime)["answer"]
    agreed = f"{votes[best]} of {len(state.steps)} drafts agree"
    reason = f"{built.reason}; {agreed}" if built.status == "budget_spent" else agreed
    proven = [p.triple for p in built.proof]
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    routes = find_routes(proven, starts, lambda node: kg.profile.short(node) in best)
    memory: tuple[tuple[Triple, ...], ...] = tuple(tuple(t for t, _ in r.hops) for r in routes)
    return {
        "answer": replace(built, reason=reason),
        "program": chosen.feedback.program,
        "memory": memory,
    }


def _why_none(steps: Sequence[Step]) -> str:
    """Why no draft has an answer."""
    if not steps:
        return "no program was drafted"
    return f"none of {len(steps)} drafts finds anything; the last: {steps[-1].feedback.message}"
