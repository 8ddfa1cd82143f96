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
- The model scores the options of one path a call, as in the paper. Scores of one reply are scaled to sum to
  1, and a path's score is the product along it; where no score can be read the first options are taken.
- Relations, facts and labels come in one query each a depth, whatever the number of entities.
- An answer of the model's own knowledge is marked as such; paths prove nothing that is not on them.

As published, a beam of N paths names at most N entities, so that questions with many answers have a low F1.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment, spent
from triplewise.nodes.state import State, Usage, Verdict
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Deadline, Hop, Outcome
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.parsing.statements import decides
from triplewise.tools.planning.paths import answers, rule_program, with_variables
from triplewise.tools.pyql.text import read_relation, read_term, write_node
from triplewise.tools.retrieval.observation import Bundle, bundle_sizes, read_bundles
from triplewise.tools.retrieval.ranking import rank_relations

UNNAMED = "an unnamed node"
"""How a mediator reads: a node that only joins others and has no name."""
ENTITIES = 20
"""Entities looked at behind one relation, as many as the published code shows before it samples."""
UNREAD = "the reply had no readable score: the first options were taken"
"""The note of a step where a model's reply could not be used."""
SUFFICIENT = "the paths suffice"
"""Why the search ended, where the model was content with what it found."""


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of facts from an entity of the question (Think-on-Graph, section 2.1).

    `ahead` is the relation that was chosen to go on over from its end, and has not been walked yet.
    """

    start: Term
    hops: tuple[Hop, ...] = ()
    ahead: Bundle | None = None
    score: float = 1.0

    @property
    def nodes(self) -> tuple[Term, ...]:
        """Its nodes, the start first."""
        return (self.start, *(hop.far for hop in self.hops))

    @property
    def end(self) -> Term:
        """Where it leads so far."""
        return self.nodes[-1]

    def signature(self, kg: KnowledgeGraph) -> list[tuple[str, bool]]:
        """Its relations as short ids, the one ahead among them, and whether each is walked forward."""
        steps = [(h.triple.relation, h.forward) for h in self.hops]
        steps += [(self.ahead.relation, self.ahead.forward)] if self.ahead else []
        return [(kg.profile.short(relation), forward) for relation, forward in steps]

    def chain(self, kg: KnowledgeGraph) -> Rule:
        """Its relations as a rule from its start (ToG-R's relation chain, section 2.2)."""
        steps = (Atom(relation, forward) for relation, forward in self.signature(kg))
        return Rule(write_node(self.start, kg.profile), with_variables(kg, steps))


def paths_of(state: State, kg: KnowledgeGraph) -> list[Path]:
    """Return the beam of a state, best first; at the start, a path of no fact for every linked entity.

    Memory holds the facts of each path and `rules`, in the same order, its chain: the directions and, where
    it is one longer, the relation ahead.
    """
    if not state.rules:
        starts = dict.fromkeys(read_term(e.id, kg.profile) for e in state.linked)
        return [Path(start) for start in starts if start is not None]
    paths = []
    for rule, facts in zip(state.rules, state.memory, strict=True):
        start = read_term(rule.anchor, kg.profile)
        assert start is not None, "anchors are written from terms"
        path = Path(start, tuple(Hop(t, a.forward) for t, a in zip(facts, rule.path, strict=False)))
        if len(rule.path) > len(facts):
            last = rule.path[-1]
            ahead = Bundle(path.end, read_relation(last.relation, kg.profile), last.forward)
            path = replace(path, ahead=ahead)
        paths.append(replace(path, score=rule.score))
    return paths


def beam_update(paths: Sequence[Path], kg: KnowledgeGraph) -> dict[str, object]:
    """Return the part of the state that holds a beam."""
    why = "path kept by its scores"
    return {
        "memory": tuple(tuple(h.triple for h in p.hops) for p in paths),
        "rules": tuple(replace(p.chain(kg), score=p.score, provenance=why) for p in paths),
        "focus": tuple(dict.fromkeys(kg.profile.short(p.end) for p in paths)),
    }


def step_texts(kg: KnowledgeGraph, steps: Iterable[Bundle]) -> list[str]:
    """Return how relations read in the direction they are walked in."""
    pairs = [(kg.profile.short(s.relation), s.forward) for s in steps]
    texts = relation_texts(kg, [name for name, _ in pairs])
    return [texts[n].label if forward else texts[n].inverse or texts[n].label for n, forward in pairs]


def node_texts(kg: KnowledgeGraph, nodes: Iterable[Term]) -> dict[Term, str]:
    """Return names of nodes, fetched together; mediators read as what they are."""
    nodes = list(dict.fromkeys(nodes))
    labels, texts = kg.labels(nodes), node_labels(kg, nodes, exact=False)
    return {n: UNNAMED if kg.profile.is_mediator(n, labels.get(n)) else texts[n] for n in nodes}


def path_lines(kg: KnowledgeGraph, paths: Sequence[Path]) -> list[str]:
    """Return each path in a line, e.g. `Alien -[directed by]-> Ridley Scott <-[directed by]- Gladiator`."""
    names = node_texts(kg, (n for p in paths for n in p.nodes))
    signatures = [p.signature(kg) for p in paths]
    relations = relation_texts(kg, [name for signature in signatures for name, _ in signature])
    lines = []
    for path, signature in zip(paths, signatures, strict=True):
        line, ends = names[path.start], [*(names[n] for n in path.nodes[1:]), "?"]
        for (relation, forward), end in zip(signature, ends, strict=False):
            label = relations[relation].label
            line += f" -[{label}]-> {end}" if forward else f" <-[{label}]- {end}"
        lines.append(line)
    return lines


def relations_around(
    paths: Sequence[Path], question: str, env: Environment
) -> tuple[list[list[Bundle]], str]:
    """Return the relations by which each path may go on, both directions; and what is missing, in words.

    Paths with one end share its relations: the best of them takes all, the others get none. Where an end has
    more than `relation_cut` relations those most like the question are taken, so that no hub floods a prompt.
    A relation whose only fact the path has just come over is none.
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
        ranked = rank_relations(
            question,
            [(str(i), text) for i, text in enumerate(step_texts(kg, steps))],
            method=context.ranking,
            encoder=env.ranking_encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            kg=kg,
        )
        ways.append([steps[int(i)] for i in ranked])
    return ways, problem


def facts_ahead(paths: Sequence[Path], seed: int, kg: KnowledgeGraph) -> tuple[list[list[Hop]], str]:
    """Return the facts behind the relation ahead of each path; and what is missing, in words.

    Nodes that the path has been at are left out. Where a relation has more than `ENTITIES` facts a sample is
    drawn, the same for the same seed from every engine. All paths are read in one query for each twenty
    relations.
    """
    bundles = [p.ahead for p in paths if p.ahead is not None]
    # One more than is shown, for the way back may be among them; the size is not known, so all are sampled.
    most, sizes = dict.fromkeys(bundles, ENTITIES + 1), dict.fromkeys(bundles, ENTITIES + 2)
    facts, problem = read_bundles(kg, most, sizes, seed, Deadline(kg.timeout))
    behind: dict[Bundle, list[Hop]] = {b: [] for b in bundles}
    for fact in facts:
        behind[Bundle(fact.near, fact.triple.relation, fact.forward)].append(fact)
    return [
        [h for h in behind[bundle] if h.far not in path.nodes][:ENTITIES]
        for path, bundle in zip(paths, bundles, strict=True)
    ], problem


@dataclass(slots=True)
class Search:
    """One run of `act`: the actions of the search with its sizes (see `build`), and the calls of the model.

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

    @property
    def kg(self) -> KnowledgeGraph:
        """The graph that is searched."""
        return self.env.kg

    def ask(self, part: str, **values: Any) -> str | None:
        """Return the reply to a part of the prompt; None where a budget is spent (`over`)."""
        usage = self.state.usage + self.env.usage
        usage += Usage(seconds=time.perf_counter() - self._start)
        self.over = spent(self.state.model_copy(update={"usage": usage}), self.env.context)
        return None if self.over else loop.ask(self.state, self.env, "tog", part, **values).text

    def score_relations(self, path: Path, ways: Sequence[Bundle]) -> list[float]:
        """Return scores of the path with each relation to go on over."""
        return self._score("relations", path, path_lines(self.kg, [Path(path.end, (), way) for way in ways]))

    def score_entities(self, path: Path, hops: Sequence[Hop]) -> list[float]:
        """Return scores of the path longer by each fact; the model is not asked where all look the same."""
        names = node_texts(self.kg, [hop.far for hop in hops])
        if len(hops) == 1 or set(names.values()) == {UNNAMED}:
            return [path.score / len(hops)] * len(hops)
        return self._score("entities", path, [names[hop.far] for hop in hops])

    def _score(self, part: str, path: Path, options: Sequence[str]) -> list[float]:
        """The path's score times those of a reply for all options; 0 leaves one out."""
        line = path_lines(self.kg, [path])[0]
        reply = self.ask(part, path=line, options=options, limit=self.width) if options else None
        if reply is None:
            return [0.0] * len(options)
        if not (scores := read_scores(reply, len(options))):
            self.notes.append(UNREAD)
            scores = dict.fromkeys(range(self.width), 1 / self.width)
        return [path.score * scores.get(i, 0.0) for i in range(len(options))]

    def relations(self, paths: Sequence[Path]) -> Update:
        """Search the relations around the ends of the paths and keep the best ways on (section 2.1.2)."""
        ways, problem = relations_around(paths, self.state.question, self.env)
        further = [
            replace(path, ahead=way, score=score)
            for path, steps in zip(paths, ways, strict=True)
            for way, score in zip(steps, self.score_relations(path, steps), strict=True)
        ]
        end = "" if paths else "no entity of the question was found in the knowledge graph"
        return self._kept("search_relations", paths, further, problem, end)

    def entities(self, paths: Sequence[Path]) -> Update:
        """Search the entities behind the chosen relations and keep the best paths, or draw some (ToG-R).

        ToG-R does not tell entities apart: as many paths as are kept are drawn, the same for the same seed,
        question and depth.
        """
        hops, problem = facts_ahead(paths, self.seed, self.kg)
        longer: list[Path] = []
        for path, ahead in zip(paths, hops, strict=True):
            if ahead:
                scores = [path.score] * len(ahead) if self.drawn else self.score_entities(path, ahead)
                both = zip(ahead, scores, strict=True)
                longer += [Path(path.start, (*path.hops, hop), None, score) for hop, score in both]
        if self.drawn:
            draw = random.Random(f"{self.seed} {len(self.state.steps)} {self.state.question}")
            places = draw.sample(range(len(longer)), min(self.width, len(longer)))
            longer = [longer[i] for i in sorted(places)]
        return self._kept("search_entities", paths, longer, problem)

    def judge(self, paths: Sequence[Path]) -> Update:
        """Ask whether the paths suffice to answer (section 2.1.3)."""
        reply = self.ask("judge", paths=path_lines(self.kg, paths)) or ""
        # The first yes or no of a reply counts; a reply with neither is a no.
        word = re.search(r"\b(yes|no)\b", reply.casefold())
        end = SUFFICIENT if word is not None and word[1] == "yes" else ""
        if not end and not self.over and max((len(p.hops) for p in paths), default=0) >= self.depth:
            end = f"depth {self.depth} is exhausted"
        feedback = Feedback(
            action="judge", message=end, observation=end or "not enough yet", finished=bool(end)
        )
        return loop.add_step(self.state, loop.make_step(self.state, reply, Call("judge"), feedback))

    def _kept(
        self, action: str, paths: Sequence[Path], further: Sequence[Path], problem: str, end: str = ""
    ) -> Update:
        """A step with the best paths of a search, and the beam where there are any.

        `problem`: what the graph did not answer; `end`: why the search goes no further.
        """
        state, kg = self.state, self.kg
        best = sorted((p for p in further if p.score > 0), key=lambda p: -p.score)[: self.width]
        if self.over:  # the run ends with the paths that there were before
            best, end = [], ""
        elif not best and not end:
            nothing = "nothing around the paths leads on"
            end = f"the knowledge graph did not answer ({problem})" if problem else nothing
        ends = tuple(dict.fromkeys(kg.profile.short(p.end) for p in paths))
        lines = [f"{p.score:.3f} {line}" for p, line in zip(best, path_lines(kg, best), strict=True)]
        outcome = problem.partition(":")[0]
        feedback = Feedback(
            action=action,
            arguments=ends,
            message=end,
            outcome=outcome if outcome in set(Outcome) else "rows" if best else "empty",
            observation="\n".join([*lines, *dict.fromkeys(filter(None, (*self.notes, problem or end)))]),
            triples=tuple(p.hops[-1].triple for p in best if p.ahead is None and p.hops),
            finished=bool(end),
        )
        step = loop.make_step(state, "", Call(action, ends), feedback)
        return loop.add_step(state, step, **(beam_update(best, kg) if best else {}))


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
) -> loop.Graph:
    """Compile Think-on-Graph.

    Args:
        width: paths kept, N. depth: facts of a path at most, D. seed: of draws and samples of entities.
        drawn: whether entities are drawn at random instead of scored (ToG-R).
    """
    loop.check_number("parameter width", width)
    loop.check_number("parameter depth", depth)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Search relations, then entities, then judge."""
        search = Search(state, environment(runtime), width, depth, seed, drawn)
        paths = paths_of(state, search.kg)
        match state.last.feedback.action if state.steps else "":
            case "search_relations":
                return search.entities(paths)
            case "search_entities":
                return search.judge(paths)
            case _:
                return search.relations(paths)

    return loop.build_loop("tog-r" if drawn else "tog", act, answer, link=link)


def build_relations(*, width: int = 3, depth: int = 3, seed: int = 1, link: str = "index") -> loop.Graph:
    """Compile ToG-R, which explores chains of relations and draws the entities on them; see `build`."""
    return build(width=width, depth=depth, seed=seed, link=link, drawn=True)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the paths (section 2.1.3), and where these end too early also from what the model knows.

    What the paths prove is the proof; the reason marks as the model's own what it names besides. Where
    the run was broken off, the answer is all that the best path's chain of relations leads to.
    """
    env = environment(runtime)
    context, kg = env.context, env.kg
    # The paths that have a fact, each once, without relations that were not walked.
    walked = {(p.start, p.hops): replace(p, ahead=None) for p in reversed(paths_of(state, kg)) if p.hops}
    paths = list(walked.values())[::-1]
    state = state.model_copy(update=beam_update(paths, kg))
    over = state.verdict.note if state.verdict is not None and state.verdict.status == "spent" else ""
    why, reply = over or state.last.feedback.message, None
    if not over:
        search = Search(state, env)
        reply = search.ask("answer", paths=path_lines(kg, paths), own=why != SUFFICIENT)
        if search.over:
            why = search.over
            state = state.model_copy(update={"verdict": Verdict("spent", note=why)})
    named: tuple[loop.Named, ...] = ()
    why_none = why
    if reply is not None:
        shown = loop.shown_names(kg, [p.end for p in paths] + [n for p in paths for n in p.nodes])
        named, why_none = loop.name_reply(reply, state, env, shown=shown)
        unproven = ", ".join(n.label for n in named if n.value not in {*shown.values(), "true", "false"})
        where = f"on no path: {unproven}" if unproven else "all of it stands on the paths"
        if not named:
            why = f"{why}; {why_none}"
        elif why != SUFFICIENT:
            why = f"{why}: answered from the paths and the model's own knowledge ({where})"
        elif unproven:
            why = f"{why}, says the model, but {where}"
    elif paths and not decides(state.question):
        rule = paths[0].chain(kg)
        named = loop.named_values(kg, [kg.profile.short(t) for t in answers(kg, rule)])
        state = state.model_copy(update={"program": rule_program(kg, rule).text(kg.profile)})
    step = loop.answer_step(state, reply or "The end of the best path is the answer.", named, why_none)
    state = state.model_copy(update={"steps": (*state.steps, step)})
    if named:
        build_answer = answering.program if state.program else answering.memory
        made = build_answer(state, runtime)["answer"]
        made = made if made.status == "budget_spent" else replace(made, reason=why)
    else:
        made = loop.make_answer(state, context, (), why)
    changed = ("program", "memory", "rules", "focus", "verdict", "steps")
    return {**{name: getattr(state, name) for name in changed}, "answer": made}
