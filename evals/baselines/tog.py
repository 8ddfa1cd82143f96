"""Think-on-Graph (Sun et al., ICLR 2024): a model searches a knowledge graph by beam search.

```
START → link → relations → entities → judge ─┬─ not yet → relations
                   │           │             └─ enough, or as deep as it goes → answer → END
                   └───────────┴─ no way on → answer
```
Each is one step of the loop that baselines share. At each depth the relations around the ends of the beam's N
paths are found and pruned, then the entities behind them, then the model judges whether the paths suffice
(section 2.1, algorithm 1). ToG-R (section 2.2, algorithm 2) prunes relations only and draws entities at
random. At most 2ND+D+1 calls, ToG-R ND+D+1.

Where we differ from the published code, on purpose:

- Topic entities are those that the `link` phase finds, as for every other system here.
- Everything random is drawn by `seed`. No call is retried without end: the model client retries a bounded
  number of times and then the question fails, which counts as wrong.
- Prompts stay bounded: at most `relation_cut` relations a path and 20 entities a relation are offered.
- Scores of one reply are scaled to sum to 1, and a path's score is the product along it.
- Relations, facts and labels come in one query each a depth, whatever the number of entities.
- An answer of the model's own knowledge is said to be so; the paths alone prove nothing that is not on them.

As published, a beam of N paths names at most N entities, so that questions with many answers have a low F1.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    Named,
    add_step,
    answer_step,
    make_answer,
    make_step,
    name_reply,
    named_values,
    shown_names,
)
from triplewise.evals.baselines.loop import Graph, build_loop, check_number
from triplewise.evals.baselines.tog_beam import (
    Asker,
    Path,
    beam_update,
    chain_of,
    facts_ahead,
    path_lines,
    paths_of,
    relations_around,
)
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.state import State, Verdict
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.bodies import answers, ground, rule_program, without_topic
from triplewise.tools.planning.lexical.question import decides

SUFFICIENT = "the paths suffice"
"""Why the search ended, where the model was content with what it found."""


def build(
    *, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index", drawn: bool = False
) -> Graph:
    """Compile Think-on-Graph.

    Args:
        width: paths kept, N. depth: facts of a path at most, D. seed: of draws and samples of entities.
        link: variant of the linking phase.
        drawn: whether entities are drawn at random instead of scored (ToG-R).

    Raises:
        ConfigurationError: a width or depth below 1, or an unknown variant.
    """
    check_number("parameter width", width)
    check_number("parameter depth", depth)
    search = Search(width, depth, seed, drawn)
    return build_loop("tog-r" if drawn else "tog", search.act, answer, link=link)


def build_relations(*, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index") -> Graph:
    """Compile ToG-R, which explores chains of relations and draws the entities on them; see `build`."""
    return build(width=width, depth=depth, seed=seed, link=link, drawn=True)


@dataclass(frozen=True, slots=True)
class Search:
    """The actions of a search, with its sizes: see `build`."""

    width: int
    depth: int
    seed: int
    drawn: bool

    def act(self, state: State, runtime: Runtime[Context]) -> Update:
        """Search relations, then entities, then judge."""
        context = runtime.context
        match state.last.feedback.action if state.steps else "":
            case "search_relations":
                return self.entities(state, context)
            case "search_entities":
                return self.judge(state, context)
            case _:
                return self.relations(state, context)

    def relations(self, state: State, context: Context) -> Update:
        """Search the relations around the ends of the paths and keep the best ways on (section 2.1.2)."""
        kg = environment(context).kg
        paths, asker = paths_of(state, kg), Asker(state, context, self.width)
        ways, trouble = relations_around(paths, state.question, context)
        best = self._best(
            replace(path, ahead=way, score=score)
            for path, steps in zip(paths, ways, strict=True)
            for way, score in zip(steps, asker.score_relations(path, steps), strict=True)
        )
        end = "" if paths else "no entity of the question was found in the knowledge graph"
        return _searched(state, asker, "search_relations", paths, best, trouble, end)

    def entities(self, state: State, context: Context) -> Update:
        """Search the entities behind the chosen relations and keep the best paths, or draw some (ToG-R).

        ToG-R does not tell entities apart: as many paths as are kept are drawn, the same for the same seed,
        question and depth.
        """
        paths, asker = paths_of(state, environment(context).kg), Asker(state, context, self.width)
        hops, trouble = facts_ahead(paths, self.seed, context)
        longer: list[Path] = []
        for path, ahead in zip(paths, hops, strict=True):
            if ahead:
                scores = [path.score] * len(ahead) if self.drawn else asker.score_entities(path, ahead)
                both = zip(ahead, scores, strict=True)
                longer += [Path(path.start, (*path.hops, hop), None, score) for hop, score in both]
        if self.drawn:
            draw = random.Random(f"{self.seed} {len(state.steps)} {state.question}")
            places = draw.sample(range(len(longer)), min(self.width, len(longer)))
            longer = [longer[i] for i in sorted(places)]
        best = self._best(longer)
        return _searched(state, asker, "search_entities", paths, best, trouble, "")

    def judge(self, state: State, context: Context) -> Update:
        """Ask whether the paths suffice to answer (section 2.1.3)."""
        kg = environment(context).kg
        paths, asker = paths_of(state, kg), Asker(state, context)
        reply = asker.ask("judge", paths=path_lines(kg, paths)) or ""
        # The first yes or no of a reply counts; a reply with neither is a no.
        word = re.search(r"\b(yes|no)\b", reply.casefold())
        end = SUFFICIENT if word is not None and word[1] == "yes" else ""
        if not end and not asker.over and max((len(p.hops) for p in paths), default=0) >= self.depth:
            end = f"depth {self.depth} is exhausted"
        feedback = Feedback(
            action="judge", message=end, observation=end or "not enough yet", finished=bool(end)
        )
        return add_step(state, make_step(state, reply, Call("judge"), feedback))

    def _best(self, paths: Iterable[Path]) -> list[Path]:
        """The best paths with a score above 0; equal ones in the order given."""
        return sorted((p for p in paths if p.score > 0), key=lambda p: -p.score)[: self.width]


def _searched(
    state: State,
    asker: Asker,
    action: str,
    paths: Sequence[Path],
    best: Sequence[Path],
    trouble: str,
    end: str,
) -> Update:
    """The update of a search: a step of what it looked at and kept, and where it kept something the beam.

    `trouble` says what the graph did not answer, `end` why the search goes no further.
    """
    kg = environment(asker.context).kg
    if asker.over:  # the run ends with the paths that there were before
        best, end = [], ""
    elif not best and not end:
        nothing = "nothing around the paths leads on"
        end = f"the knowledge graph did not answer ({trouble})" if trouble else nothing
    ends = tuple(dict.fromkeys(kg.profile.short(p.end) for p in paths))
    lines = [f"{p.score:.3f} {line}" for p, line in zip(best, path_lines(kg, best), strict=True)]
    outcome = trouble.partition(":")[0]
    feedback = Feedback(
        action=action,
        arguments=ends,
        message=end,
        outcome=outcome if outcome in set(Outcome) else "rows" if best else "empty",
        observation="\n".join([*lines, *dict.fromkeys(filter(None, (*asker.notes, trouble or end)))]),
        triples=tuple(p.hops[-1].triple for p in best if p.ahead is None and p.hops),
        finished=bool(end),
    )
    beam = beam_update(best, kg) if best else {}
    return add_step(state, make_step(state, "", Call(action, ends), feedback), **beam)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the paths (section 2.1.3), and where these end too early also from what the model knows.

    What the paths prove is the proof; what the model names besides is said to be its own in the reason. Where
    the run was broken off, the answer is all that the best path's chain of relations leads to.
    """
    context, kg = runtime.context, environment(runtime.context).kg
    # The paths that have a fact, each once, without relations that were not walked.
    walked = {(p.start, p.hops): replace(p, ahead=None) for p in reversed(paths_of(state, kg)) if p.hops}
    paths = list(walked.values())[::-1]
    state = state.model_copy(update=beam_update(paths, kg))
    over = state.verdict.note if state.verdict is not None and state.verdict.status == "spent" else ""
    why, reply = over or state.last.feedback.message, None
    if not over:
        asker = Asker(state, context)
        reply = asker.ask("answer", paths=path_lines(kg, paths), own=why != SUFFICIENT)
        if asker.over:
            why = asker.over
            state = state.model_copy(update={"verdict": Verdict("spent", note=why)})
    named: tuple[Named, ...] = ()
    why_none = why
    if reply is not None:
        shown = shown_names(kg, [p.end for p in paths] + [n for p in paths for n in p.nodes])
        named, why_none = name_reply(reply, state, context, shown=shown)
        unproven = ", ".join(n.label for n in named if n.value not in {*shown.values(), "true", "false"})
        where = f"on no path: {unproven}" if unproven else "all of it stands on the paths"
        if not named:
            why = f"{why}; {why_none}"
        elif why != SUFFICIENT:
            why = f"{why}: answered from the paths and the model's own knowledge ({where})"
        elif unproven:
            why = f"{why}, says the model, but {where}"
    elif paths and not decides(state.question):
        chain = chain_of(paths[0], kg)
        rule = without_topic(kg, ground(chain.anchor, chain.body))
        named = named_values(kg, [kg.profile.short(t) for t in answers(kg, rule)])
        state = state.model_copy(update={"program": rule_program(kg, rule).text(kg.profile)})
    step = answer_step(state, reply or "The end of the best path is the answer.", named, why_none)
    state = state.model_copy(update={"steps": (*state.steps, step)})
    if named:
        build_answer = answering.program if state.program else answering.memory
        made = build_answer(state, runtime)["answer"]
        made = made if made.status == "budget_spent" else replace(made, reason=why)
    else:
        made = make_answer(state, context, (), why)
    changed = ("program", "memory", "rules", "focus", "verdict", "steps")
    return {**{name: getattr(state, name) for name in changed}, "answer": made}
