"""Think-on-Graph (Sun et al., ICLR 2024): a model searches a knowledge graph by beam search.

```
START → link → relations → entities → judge ─┬─ not yet → relations
                   │           │             └─ enough, or as deep as it goes → answer → END
                   └───────────┴─ no way on → answer
```
At each depth the relations around the ends of the beam's N paths are found and pruned, then the entities
behind them, then the model judges whether the paths suffice (section 2.1, algorithm 1). ToG-R (section 2.2,
algorithm 2) prunes relations only and draws entities at random. At most 2ND+D+1 calls, ToG-R ND+D+1.

Where we differ from the published code, on purpose:

- Topic entities are those that the `link` phase finds, as for every other system here.
- Everything random is drawn by `seed`. No call is retried without end: the model client retries a bounded
  number of times and then the question fails, which counts as wrong.
- Prompts stay bounded: at most `relation_cut` relations a path and 20 entities a relation are offered.
- Scores of one reply are scaled to sum to 1, and a path's score is the product along it.
- Relations, facts and labels come in one query each a depth, whatever the number of entities.
- An answer of the model's own knowledge is said to be so; the paths alone prove nothing that is not on them.

As published, a beam of N paths names at most N entities, so that questions with many answers have a low F1.

Without a model the encoder's likeness prunes (`LikenessPruner`); the walk ends where no relation makes a path
more like the question, and the answer is all that the best path's chain of relations leads to. That is our
stand-in: the paper has none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from triplewise.evals.baselines.asking import Asker
from triplewise.evals.baselines.paths import Path, beam, path_lines, paths_of
from triplewise.evals.baselines.tog_answer import KEPT, PROMPT, SUFFICIENT, answered
from triplewise.evals.baselines.tog_prune import LikenessPruner, ModelPruner, Pruner
from triplewise.evals.baselines.tog_search import facts_ahead, relations_around
from triplewise.evals.baselines.wiring import Graph
from triplewise.graphs.build import RECURSION_LIMIT
from triplewise.graphs.presets import PRESETS, choose_phases
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import Phase, Update, metered_phase, spent
from triplewise.nodes.state import Input, State, Step, Verdict
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import Outcome

NO_ENTITY = "no entity of the question was found in the knowledge graph"
NOTHING = "nothing around the paths leads on"
NO_LIKER = "no relation makes a path more like the question"
GAIN = 0.06
"""Cosine by which a path must become more like the question to grow (chosen on MetaQA dev, WebQSP train)."""


def build(*, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index") -> Graph:
    """Compile Think-on-Graph.

    Args:
        width: paths kept, N. depth: facts of a path at most, D. seed: of samples of many entities.
        link: variant of the linking phase.

    Raises:
        ConfigurationError: a width or depth below 1, or an unknown variant.
    """
    return _compiled("tog", _Search(width, depth, seed), link)


def build_relations(*, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index") -> Graph:
    """Compile ToG-R, which explores chains of relations and draws the entities on them at random.

    Args:
        width: paths kept, N. depth: relations of a chain at most, D. seed: of the draws.
        link: variant of the linking phase.

    Raises:
        ConfigurationError: a width or depth below 1, or an unknown variant.
    """
    return _compiled("tog-r", _Search(width, depth, seed, drawn=True), link)


def after_relations(state: State) -> Literal["entities", "answer"]:
    """On to the entities where there is a relation to follow."""
    return "entities" if _goes_on(state) else "answer"


def after_entities(state: State) -> Literal["judge", "answer"]:
    """Judge the paths where they grew."""
    return "judge" if _goes_on(state) else "answer"


def after_judge(state: State) -> Literal["relations", "answer"]:
    """One depth further where the paths do not suffice."""
    return "relations" if _goes_on(state) else "answer"


def _goes_on(state: State) -> bool:
    """Whether nothing has ended the search."""
    return state.verdict is not None and state.verdict.status == "ok"


def _compiled(name: str, search: _Search, link: str) -> Graph:
    """The graph of a search."""
    linking = choose_phases(PRESETS["agent"], {"link": link})["link"]
    graph: StateGraph[State, Context, Any, Any] = StateGraph(
        State, context_schema=Context, input_schema=Input
    )
    for phase, run in {"link": linking, **search.phases}.items():
        graph.add_node(phase, metered_phase(run, {}))
    graph.add_edge(START, "link")
    graph.add_edge("link", "relations")
    graph.add_conditional_edges("relations", after_relations)
    graph.add_conditional_edges("entities", after_entities)
    graph.add_conditional_edges("judge", after_judge)
    graph.add_edge("answer", END)
    return graph.compile(name=name).with_config(recursion_limit=RECURSION_LIMIT)


@dataclass(frozen=True, slots=True)
class _Search:
    """The phases of a search, with its sizes.

    Attributes:
        width, depth, seed: see `build`. drawn: whether entities are drawn instead of scored (ToG-R).
    """

    width: int
    depth: int
    seed: int
    drawn: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"parameter {name} must be 1 or more, got {getattr(self, name)!r}")

    @property
    def phases(self) -> dict[str, Phase]:
        """Phase -> callable."""
        return {
            "relations": self.relations,
            "entities": self.entities,
            "judge": self.judge,
            "answer": answered,
        }

    def relations(self, state: State, runtime: Runtime[Context]) -> Update:
        """Search the relations around the ends of the paths and keep the best ways on (section 2.1.2)."""
        context, kg = runtime.context, environment(runtime.context).kg
        paths, pruner = paths_of(state, kg), self._pruner(state, context)
        around = relations_around(paths, state.question, context)
        longer = [
            path.toward(way, score)
            for path, ways in zip(paths, around.ways, strict=True)
            for way, score in zip(ways, pruner.relations(path, ways), strict=True)
        ]
        kept = _best(longer, self.width)
        note = NO_ENTITY if not paths else "" if kept else _nothing(around.trouble)
        if context.embedded and kept and not _grows(paths, kept, state, context):
            note = NO_LIKER
        verdict = _verdict(state, context, pruner.over, note)
        step = _step(state, context, "search_relations", paths, kept, pruner.notes, around.trouble or note)
        update = beam(kept, kg, "relations kept by its scores") if verdict.status == "ok" else {}
        return {**update, "steps": (*state.steps, step), "verdict": verdict}

    def entities(self, state: State, runtime: Runtime[Context]) -> Update:
        """Search the entities behind the chosen relations and keep the best paths, or draw some (ToG-R)."""
        context, kg = runtime.context, environment(runtime.context).kg
        paths, pruner = paths_of(state, kg), self._pruner(state, context)
        reached = facts_ahead(paths, self.seed, context)
        score = _alike if self.drawn else pruner.entities
        longer = [
            path.over(hop, value)
            for path, hops in zip(paths, reached.hops, strict=True)
            if hops
            for hop, value in zip(hops, score(path, hops), strict=True)
        ]
        if self.drawn:
            longer = self._draw(longer, state)
        kept = _best(longer, self.width)
        note = "" if kept else _nothing(reached.trouble)
        verdict = _verdict(state, context, pruner.over, note)
        step = _step(state, context, "search_entities", paths, kept, pruner.notes, reached.trouble or note)
        update = beam(kept, kg, KEPT) if verdict.status == "ok" else {}
        return {**update, "steps": (*state.steps, step), "verdict": verdict}

    def judge(self, state: State, runtime: Runtime[Context]) -> Update:
        """Ask whether the paths suffice to answer (section 2.1.3); without a model they are let grow."""
        context, kg = runtime.context, environment(runtime.context).kg
        paths = paths_of(state, kg)
        deep = max(len(p.hops) for p in paths) >= self.depth
        note = f"depth {self.depth} is exhausted" if deep else ""
        if context.embedded:
            return {"verdict": _verdict(state, context, "", note)}
        asker = Asker(state, context, PROMPT)
        reply = asker.ask("judge", paths=path_lines(kg, paths))
        note = SUFFICIENT if reply is not None and says_yes(reply) else note
        step = Step(
            number=len(state.steps) + 1,
            thought=reply or "",
            call="judge()",
            feedback=Feedback(action="judge"),
            observation=note or "not enough yet",
        )
        return {"steps": (*state.steps, step), "verdict": _verdict(state, context, asker.over, note)}

    def _pruner(self, state: State, context: Context) -> Pruner:
        """What scores the ways on."""
        likeness = LikenessPruner(state, context, self.width)
        if context.embedded:
            return likeness
        return ModelPruner(Asker(state, context, PROMPT), likeness, self.width)

    def _draw(self, paths: Sequence[Path], state: State) -> list[Path]:
        """As many paths as are kept, drawn at random; the same for the same seed, question and depth."""
        draw = random.Random(f"{self.seed} {len(state.steps)} {state.question}")
        return [paths[i] for i in sorted(draw.sample(range(len(paths)), min(self.width, len(paths))))]


def _nothing(trouble: str) -> str:
    """Why there is no way on: a graph that did not answer is not one that has nothing."""
    return f"the knowledge graph did not answer ({trouble})" if trouble else NOTHING


def says_yes(reply: str) -> bool:
    """Whether the first yes or no of a reply is a yes; a reply with neither is none."""
    found = re.search(r"\b(yes|no)\b", reply.casefold())
    return found is not None and found[1] == "yes"


def _alike(path: Path, hops: Sequence[Any]) -> list[float]:
    """The path's own score for every entity: ToG-R does not tell them apart."""
    return [path.score] * len(hops)


def _best(paths: Sequence[Path], width: int) -> list[Path]:
    """The best paths with a score above 0; equal ones in the order given."""
    return sorted((p for p in paths if p.score > 0), key=lambda p: -p.score)[:width]


def _grows(paths: Sequence[Path], longer: Sequence[Path], state: State, context: Context) -> bool:
    """Whether the best way on is clearly more like the question than the best path that may be an answer.

    Mediators and the question's own entities are none, so what ends there goes on whatever its likeness.
    """
    kg = environment(context).kg
    ends = [p.end for p in paths if p.hops]
    labels = kg.labels(ends)
    final = [p for p in paths if p.hops and not kg.profile.is_mediator(p.end, labels.get(p.end))]
    return not final or longer[0].score > max(p.score for p in final) + GAIN


def _verdict(state: State, context: Context, over: str, note: str) -> Verdict:
    """A spent budget ends the search, and so does a note; otherwise it goes on."""
    if over := over or ("" if note else spent(state, context)):
        return Verdict("spent", note=over)
    return Verdict("finished", note=note) if note else Verdict("ok")


def _step(
    state: State,
    context: Context,
    action: str,
    paths: Sequence[Path],
    kept: Sequence[Path],
    notes: Sequence[str],
    trouble: str,
) -> Step:
    """What a search looked at and kept, for the trajectory. `trouble`: what is missing, or why it ends."""
    kg = environment(context).kg
    ends = tuple(dict.fromkeys(kg.profile.short(p.end) for p in paths))
    lines = [f"{p.score:.3f} {line}" for p, line in zip(kept, path_lines(kg, kept), strict=True)]
    failed = trouble.partition(":")[0]
    feedback = Feedback(
        action=action,
        arguments=ends,
        outcome=failed if failed in set(Outcome) else "rows" if kept else "empty",
        observation="\n".join([*lines, *dict.fromkeys(filter(None, (*notes, trouble)))]),
        triples=tuple(p.hops[-1].triple for p in kept if p.ahead is None and p.hops),
    )
    return Step(
        number=len(state.steps) + 1,
        thought="",
        call=Call(action, ends).text(),
        feedback=feedback,
        observation=feedback.observation,
    )
