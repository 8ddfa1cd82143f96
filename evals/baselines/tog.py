"""Think-on-Graph (Sun et al., ICLR 2024): a model searches a knowledge graph by beam search.

At each depth the relations around the ends of the beam's N paths are found and pruned, then the entities
behind them, then the model judges whether the paths suffice (section 2.1, algorithm 1). ToG-R (section 2.2,
algorithm 2) prunes relations only and draws entities at random. At most 2ND+D+1 calls, ToG-R ND+D+1.

Where we differ from the published code, on purpose: topic entities are those that the `link` phase finds;
everything random is drawn by `seed`, and no call is retried without end; at most `relation_cut` relations a
path and 20 entities a relation are offered; the scores of one reply are scaled to sum to 1, a path's score is
the product along it, and where no score can be read the first options are taken; an answer of the model's own
knowledge is marked as such. As published, a beam of N paths names at most N entities, so that questions with
many answers have a low F1.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from triplewise.evals.baselines import Graph, loop
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment, spent
from triplewise.nodes.result import labels_of
from triplewise.nodes.state import State, Usage, Verdict
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Deadline, Hop, Outcome
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.parsing.statements import decides
from triplewise.tools.planning.paths import with_variables
from triplewise.tools.pyql.text import read_term, write_node
from triplewise.tools.retrieval.observation import Bundle, bundle_sizes, read_bundles
from triplewise.tools.retrieval.ranking import rank_relations

UNNAMED = "an unnamed node"
"""How a mediator reads: a node that only joins others and has no name."""
ENTITIES = 20
"""Entities looked at behind one relation, as many as the published code shows before it samples."""
UNREAD = "the reply had no readable score: the first options were taken"
SUFFICIENT = "the paths suffice"
"""Why the search ended, where the model was content with what it found."""


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of facts from an entity of the question (section 2.1)."""

    start: Term
    hops: tuple[Hop, ...] = ()
    score: float = 1.0

    @property
    def nodes(self) -> tuple[Term, ...]:
        """Its nodes, the start first."""
        return (self.start, *(hop.far for hop in self.hops))

    @property
    def end(self) -> Term:
        """Where it leads so far."""
        return self.nodes[-1]

    def chain(self, kg: KnowledgeGraph) -> Rule:
        """Its relations as a rule from its start (ToG-R's relation chain, section 2.2)."""
        steps = (Atom(kg.profile.short(hop.triple.relation), hop.forward) for hop in self.hops)
        rule = Rule(write_node(self.start, kg.profile), with_variables(kg, steps))
        return replace(rule, score=self.score, provenance="path kept by its scores")


Way = tuple[Path, Bundle, float]
"""A path with a relation to go on over, and the score of both."""


def paths_of(state: State, kg: KnowledgeGraph) -> list[Path]:
    """Return the beam of a state, best first; at the start, a path of no fact for every linked entity."""
    if not state.rules:
        starts = dict.fromkeys(read_term(e.id, kg.profile) for e in state.linked)
        return [Path(start) for start in starts if start is not None]
    paths = []
    for rule, facts in zip(state.rules, state.memory, strict=True):
        start = read_term(rule.anchor, kg.profile)
        assert start is not None, "anchors are written from terms"
        hops = (Hop(triple, atom.forward) for triple, atom in zip(facts, rule.path, strict=True))
        paths.append(Path(start, tuple(hops), rule.score))
    return paths


def beam_update(paths: Sequence[Path], kg: KnowledgeGraph) -> dict[str, object]:
    """Return the part of the state that holds a beam."""
    return {
        "memory": tuple(tuple(hop.triple for hop in path.hops) for path in paths),
        "rules": tuple(path.chain(kg) for path in paths),
        "focus": tuple(dict.fromkeys(kg.profile.short(path.end) for path in paths)),
    }


def node_texts(kg: KnowledgeGraph, nodes: Iterable[Term]) -> dict[Term, str]:
    """Return names of nodes, fetched together; mediators read as what they are."""
    nodes = list(dict.fromkeys(nodes))
    labels, texts = kg.labels(nodes), node_labels(kg, nodes, exact=False)
    return {n: UNNAMED if kg.profile.is_mediator(n, labels.get(n)) else texts[n] for n in nodes}


def path_lines(kg: KnowledgeGraph, paths: Sequence[Path], ahead: Sequence[Bundle | None] = ()) -> list[str]:
    """Return each path in a line, e.g. `Alien -[directed by]-> Ridley Scott <-[directed by]- Gladiator`.

    `ahead` are relations that they go on over, to `?`.
    """
    names = node_texts(kg, (node for path in paths for node in path.nodes))
    walks = [[(hop.triple.relation, hop.forward, names[hop.far]) for hop in path.hops] for path in paths]
    for walk, way in zip(walks, ahead, strict=False):
        walk += [(way.relation, way.forward, "?")] if way else []
    short = kg.profile.short
    texts = relation_texts(kg, [short(relation) for walk in walks for relation, _, _ in walk])
    lines = []
    for path, walk in zip(paths, walks, strict=True):
        line = names[path.start]
        for relation, forward, end in walk:
            label = texts[short(relation)].label
            line += f" -[{label}]-> {end}" if forward else f" <-[{label}]- {end}"
        lines.append(line)
    return lines


def relations_around(
    paths: Sequence[Path], question: str, env: Environment
) -> tuple[list[list[Bundle]], str]:
    """Return the relations by which each path may go on, both directions; and what is missing, in words.

    Of paths with one end the best takes its relations, of more than `relation_cut` those most like the
    question. A relation whose only fact the path has just come over is none.
    """
    context, kg = env.context, env.kg
    sizes, problem = bundle_sizes(kg, list(dict.fromkeys(p.end for p in paths)), "both", Deadline(kg.timeout))
    around: dict[Term, list[Bundle]] = {}
    for bundle in sorted(sizes, key=lambda b: b.place):
        around.setdefault(bundle.node, []).append(bundle)
    ways = []
    for path in paths:
        last = path.hops[-1] if path.hops else None
        back = last and Bundle(path.end, last.triple.relation, not last.forward)
        steps = [step for step in around.pop(path.end, []) if step != back or sizes[step] > 1]
        texts = relation_texts(kg, [kg.profile.short(step.relation) for step in steps])
        read = [(texts[kg.profile.short(step.relation)], step.forward) for step in steps]
        ranked = rank_relations(
            question,
            [(str(i), t.label if forward else t.inverse or t.label) for i, (t, forward) in enumerate(read)],
            method=context.ranking,
            encoder=env.ranking_encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            kg=kg,
        )
        ways.append([steps[int(i)] for i in ranked])
    return ways, problem


@dataclass(slots=True)
class Search:
    """The search of one depth with its sizes (see `build`), and the calls of the model.

    The budgets are looked at before every call, since what a phase uses is added to the state only when it
    has ended; `over` names the budget that is spent, "" while none is.
    """

    state: State
    env: Environment
    width: int = 0
    depth: int = 0
    seed: int = 0
    drawn: bool = False
    over: str = ""
    notes: list[str] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)

    def ask(self, part: str, **values: Any) -> str | None:
        """Return the reply to a part of the prompt; None where a budget is spent (`over`)."""
        usage = self.state.usage + self.env.usage
        usage += Usage(seconds=time.perf_counter() - self._start)
        self.over = spent(self.state.model_copy(update={"usage": usage}), self.env.context)
        return None if self.over else loop.ask(self.state, self.env, "tog", part, **values).text

    def score(self, part: str, path: Path, options: Sequence[str]) -> list[float]:
        """Return the path's score times those of a reply for all options; 0 leaves one out."""
        line = path_lines(self.env.kg, [path])[0]
        reply = self.ask(part, path=line, options=options, limit=self.width) if options else None
        if reply is None:
            return [0.0] * len(options)
        if not (scores := read_scores(reply, len(options))):
            self.notes.append(UNREAD)
            scores = dict.fromkeys(range(self.width), 1 / self.width)
        return [path.score * scores.get(i, 0.0) for i in range(len(options))]

    def deepen(self) -> Update:
        """Search relations, then entities behind the best of them, then judge (section 2.1.2, 2.1.3).

        ToG-R does not tell entities apart: as many paths as are kept are drawn, the same for the same seed,
        question and depth. The run ends with the paths that there were where a budget is spent.
        """
        kg, before = self.env.kg, len(self.state.steps)
        paths = paths_of(self.state, kg)
        around, problem = relations_around(paths, self.state.question, self.env)
        ways: list[Way] = []
        for path, bundles in zip(paths, around, strict=True):
            lines = path_lines(kg, [Path(path.end)] * len(bundles), bundles)
            ways += zip([path] * len(bundles), bundles, self.score("relations", path, lines), strict=True)
        ways = sorted((way for way in ways if way[2] > 0), key=lambda way: -way[2])[: self.width]
        lines = path_lines(kg, [path for path, _, _ in ways], [bundle for _, bundle, _ in ways])
        shown = [f"{score:.3f} {line}" for (_, _, score), line in zip(ways, lines, strict=True)]
        end = "" if paths else "no entity of the question was found in the knowledge graph"
        if not self._searched("search_relations", paths, shown, problem, end):
            return {"steps": self.state.steps[before:]}
        # Of more facts than are shown a sample is drawn, the same for the same seed from every engine; one
        # more than is shown, for the way back may be among them.
        bundles = [bundle for _, bundle, _ in ways]
        most, sizes = dict.fromkeys(bundles, ENTITIES + 1), dict.fromkeys(bundles, ENTITIES + 2)
        facts, problem = read_bundles(kg, most, sizes, self.seed, Deadline(kg.timeout))
        longer: list[Path] = []
        for path, bundle, score in ways:
            behind = [f for f in facts if Bundle(f.near, f.triple.relation, f.forward) == bundle]
            ahead = [fact for fact in behind if fact.far not in path.nodes][:ENTITIES]
            names = node_texts(kg, [fact.far for fact in ahead])
            if self.drawn:
                scores = [score] * len(ahead)
            elif len(ahead) < 2 or set(names.values()) == {UNNAMED}:  # all look the same
                scores = [score / max(len(ahead), 1)] * len(ahead)
            else:
                scored = replace(path, score=score)
                scores = self.score("entities", scored, [names[fact.far] for fact in ahead])
            longer += [Path(path.start, (*path.hops, f), s) for f, s in zip(ahead, scores, strict=True)]
        if self.drawn:
            draw = random.Random(f"{self.seed} {len(self.state.steps)} {self.state.question}")
            places = draw.sample(range(len(longer)), min(self.width, len(longer)))
            longer = [longer[i] for i in sorted(places)]
        longer = sorted((path for path in longer if path.score > 0), key=lambda p: -p.score)[: self.width]
        lines = path_lines(kg, longer)
        shown = [f"{path.score:.3f} {line}" for path, line in zip(longer, lines, strict=True)]
        found = tuple(path.hops[-1].triple for path in longer)
        if not self._searched("search_entities", [way[0] for way in ways], shown, problem, triples=found):
            return {"steps": self.state.steps[before:]}
        reply = self.ask("judge", paths=lines) or ""
        # The first yes or no of a reply counts; a reply with neither is a no.
        word = re.search(r"\b(yes|no)\b", reply.casefold())
        end = SUFFICIENT if word is not None and word[1] == "yes" else ""
        if not end and not self.over and max(len(path.hops) for path in longer) >= self.depth:
            end = f"depth {self.depth} is exhausted"
        seen = end or "not enough yet"
        self._add(reply, Call("judge"), Feedback("judge", message=end, observation=seen, finished=bool(end)))
        return {"steps": self.state.steps[before:], **beam_update(longer, kg)}

    def _add(self, thought: str, call: Call, feedback: Feedback) -> None:
        step = loop.make_step(self.state, thought, call, feedback)
        self.state = self.state.model_copy(update={"steps": (*self.state.steps, step)})

    def _searched(
        self, action: str, paths: Sequence[Path], found: Sequence[str], problem: str, end: str = "",
        triples: tuple[Triple, ...] = (),
    ) -> bool:  # fmt: skip
        """Add the step of a search; whether anything was found to go on with.

        `problem`: what the graph did not answer; `end`: why the search goes no further.
        """
        if self.over:
            found, triples, end = [], (), ""
        elif not found and not end:
            nothing = "nothing around the paths leads on"
            end = f"the knowledge graph did not answer ({problem})" if problem else nothing
        ends = tuple(dict.fromkeys(self.env.kg.profile.short(path.end) for path in paths))
        outcome = problem.partition(":")[0]
        feedback = Feedback(
            action=action,
            arguments=ends,
            message=end,
            outcome=outcome if outcome in set(Outcome) else "rows" if found else "empty",
            observation="\n".join([*found, *dict.fromkeys(filter(None, (*self.notes, problem or end)))]),
            triples=triples,
            finished=bool(end),
        )
        self.notes.clear()
        self._add("", Call(action, ends), feedback)
        return bool(found)


_SCORED = re.compile(
    r"\W*(?:option\s*)?#?(\d{1,3})(?!\.?\d).*?[:=(|*–-]\s*(?:score\W*)?(\d*\.?\d+)\s*(%|/\s*\d+)?", re.I
)


def read_scores(reply: str, count: int) -> dict[int, float]:
    """Return the scores that a reply gives numbered options: place -> score, summing to 1.

    Lines of `number: score` are requested; models also add names, percentages and marks out of ten. All are
    0 where the reply gives every option it names 0, that is, none helps; {} where nothing can be read.
    """
    scores: dict[int, float] = {}
    for match in filter(None, map(_SCORED.match, re.split(r"[\n;]", reply))):
        number, value, unit = int(match[1]), float(match[2]), match[3] or "/1"
        if 0 < number <= count:
            scores.setdefault(number - 1, value / (100 if unit == "%" else float(unit[1:]) or 1))
    total = sum(scores.values())
    return {place: score / total if total else 0.0 for place, score in sorted(scores.items())}


def build(
    *, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index", drawn: bool = False
) -> Graph:
    """Compile Think-on-Graph.

    Args:
        width: paths kept, N. depth: facts of a path at most, D. seed: of draws and samples of entities.
        drawn: whether entities are drawn at random instead of scored (ToG-R).
    """
    loop.check_number("parameter width", width)
    loop.check_number("parameter depth", depth)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        return Search(state, environment(runtime), width, depth, seed, drawn).deepen()

    return loop.build_loop("tog-r" if drawn else "tog", act, answer, link=link)


build_relations = partial(build, drawn=True)
"""Compile ToG-R, which explores chains of relations and draws the entities on them."""


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the paths (section 2.1.3), and where these end too early also from what the model knows.

    What the paths prove is the proof; the reason marks as the model's own what it names besides. Where
    the run was broken off, the answer is the ends of the paths.
    """
    env = environment(runtime)
    kg, paths = env.kg, [path for path in paths_of(state, env.kg) if path.hops]
    state = state.model_copy(update=beam_update(paths, kg))
    is_spent = state.verdict is not None and state.verdict.status == "spent"
    why, reply, why_none = state.last.feedback.message if state.steps else "", None, ""
    named: tuple[loop.Named, ...] = ()
    if not is_spent:
        search = Search(state, env)
        reply = search.ask("answer", paths=path_lines(kg, paths), own=why != SUFFICIENT)
        if search.over:
            state = state.model_copy(update={"verdict": Verdict("spent", note=search.over)})
    if reply is not None:
        shown = [path.end for path in paths] + [node for path in paths for node in path.nodes]
        named, why_none = loop.name_reply(reply, state, env, shown=shown)
        known = {*map(kg.profile.short, shown), "true", "false"}
        own = ", ".join(n.label for n in named if n.value not in known)
        added = why_none if not named else f"from the model's own knowledge: {own}" if own else ""
        why = "; ".join(filter(None, (why, added)))
    elif not decides(state.question):
        values = list(dict.fromkeys(kg.profile.short(path.end) for path in paths))
        named = tuple(map(loop.Named, values, labels_of(kg, values)))
    step = loop.answer_step(state, reply or "The ends of the paths are the answer.", named, why_none)
    state = state.model_copy(update={"steps": (*state.steps, step)})
    if named:
        made = answering.memory(state, runtime)["answer"]
        made = made if made.status == "budget_spent" else replace(made, reason=why)
    else:
        made = loop.make_answer(state, env.context, (), why)
    changed = ("memory", "rules", "focus", "verdict", "steps")
    return {**{name: getattr(state, name) for name in changed}, "answer": made}
