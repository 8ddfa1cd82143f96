"""Think-on-Graph (Sun et al., ICLR 2024): a model searches a knowledge graph by beam search.

At each depth the relations around the ends of the beam's N paths are found and pruned, then the entities
behind them, then the model judges whether the paths suffice (section 2.1, algorithm 1): three steps of the
loop. ToG-R (section 2.2, algorithm 2) prunes relations only and draws entities at random.

Where we differ from the published code, on purpose: topic entities are those of the `link` phase; all draws
are seeded, and no call is retried; at most `relation_cut` relations a path and 20 entities a relation are
offered; a path's score is the product along it, and where no score can be read the first options are taken;
an answer of the model's own knowledge is marked as such.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment, spent_budget
from triplewise.nodes.hints import memory_lines
from triplewise.nodes.state import State, Verdict
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Deadline, Hop, Outcome
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.planning.paths import with_variables
from triplewise.tools.pyql.text import read_relation, read_term, write_node
from triplewise.tools.retrieval.observation import Bundle, read_bundles
from triplewise.tools.retrieval.ranking import rank_relations

UNNAMED = "an unnamed node"  # how a mediator reads
ENTITIES = 20  # looked at behind one relation, as many as the published code shows before it samples
UNREAD = "the reply had no readable score: the first options were taken"
SUFFICIENT = "the paths suffice"  # why the search ended, where the model was content


class Path(NamedTuple):
    """A chain of facts from an entity of the question (section 2.1), and the relation it goes on over."""

    start: Term
    hops: tuple[Hop, ...] = ()
    score: float = 1.0
    ahead: Bundle | None = None

    @property
    def nodes(self) -> tuple[Term, ...]:
        """Its nodes, the start first."""
        return (self.start, *(hop.far for hop in self.hops))


def paths_of(state: State, kg: KnowledgeGraph) -> list[Path]:
    """Return the beam of a state, best first; at the start, a path of no fact for every linked entity."""
    if not state.rules:
        starts = dict.fromkeys(read_term(e.id, kg.profile) for e in state.linked)
        return [Path(start) for start in starts if start is not None]
    paths = []
    for rule, facts in zip(state.rules, state.memory, strict=True):
        start = read_term(rule.anchor, kg.profile)
        assert start is not None, "anchors are written from terms"
        hops = (Hop(triple, atom.forward) for triple, atom in zip(facts, rule.path, strict=False))
        path = Path(start, tuple(hops), rule.score)
        for atom in rule.path[len(facts) :]:
            ahead = Bundle(path.nodes[-1], read_relation(atom.relation, kg.profile), atom.forward)
            path = path._replace(ahead=ahead)
        paths.append(path)
    return paths


def beam_update(paths: Sequence[Path], kg: KnowledgeGraph) -> dict[str, object]:
    """Return the state's part of a beam; a rule has an atom more than facts where a path goes on."""
    rules = []
    for path in paths:
        walk = [(hop.triple.relation, hop.forward) for hop in path.hops]
        walk += [(path.ahead.relation, path.ahead.forward)] if path.ahead else []
        atoms = with_variables(kg, (Atom(kg.profile.short(relation), forward) for relation, forward in walk))
        anchor = write_node(path.start, kg.profile)
        rules.append(Rule(anchor, atoms, score=path.score, provenance="path kept by its scores"))
    return {
        "memory": tuple(tuple(hop.triple for hop in path.hops) for path in paths),
        "rules": tuple(rules),
        "focus": tuple(dict.fromkeys(kg.profile.short(path.nodes[-1]) for path in paths)),
    }


def path_lines(kg: KnowledgeGraph, paths: Sequence[Path]) -> list[str]:
    """Return each path in a line: `(Alien, directed by, Ridley Scott) -> (?, directed by, Ridley Scott)`."""
    facts = memory_lines(kg, [[hop.triple for hop in path.hops] for path in paths])
    ends = node_labels(kg, [path.nodes[-1] for path in paths], exact=False)
    aheads = [kg.profile.short(path.ahead.relation) for path in paths if path.ahead]
    texts, lines = relation_texts(kg, aheads), []
    for path, line in zip(paths, facts, strict=True):
        end, parts = ends[path.nodes[-1]], [line] if path.hops else []
        if path.ahead:
            label = texts[kg.profile.short(path.ahead.relation)].label
            parts.append(f"({end}, {label}, ?)" if path.ahead.forward else f"(?, {label}, {end})")
        lines.append(" -> ".join(parts) or end)
    return lines


def search_relations(state: State, env: Environment) -> Update:
    """Find the relations around the ends; the model prunes them to those of N paths (`observe_width`).

    Of paths with one end the best goes on, over more than `relation_cut` those most like the question.
    """
    context, kg, paths, short = env.context, env.kg, paths_of(state, env.kg), env.kg.profile.short
    width = context.observe_width
    ways, notes, problem = list[Path](), list[str](), ""
    for end, path in {path.nodes[-1]: path for path in reversed(paths)}.items():
        try:
            around = kg.relations(end)
        except QueryFailedError as failed:
            problem = f"{failed.outcome}: {failed.message}"
            continue
        # As in the published code, the relation just come over is not walked back.
        back = [(hop.triple.relation, not hop.forward) for hop in path.hops[-1:]]
        sides = [(r, True) for r in around.forward] + [(r, False) for r in around.backward]
        steps = [Bundle(end, *side) for side in sides if side not in back]
        texts = relation_texts(kg, [short(step.relation) for step in steps])
        read = [(texts[short(step.relation)], step.forward) for step in steps]
        named = [(str(i), t.label if out else t.inverse or t.label) for i, (t, out) in enumerate(read)]
        ranked = rank_relations(
            state.question, named, env.ranking_encoder, context.relation_cut, context.shuffle_seed, kg,
            context.ranking == "hybrid",
        )  # fmt: skip
        options = [Path(end, ahead=steps[int(i)]) for i in ranked]
        scores = _scores(state, env, "relations", path, path_lines(kg, options), width, notes)
        ways += [path._replace(score=s, ahead=o.ahead) for s, o in zip(scores, options, strict=True)]
    end_note = "" if paths else "no entity of the question was found in the knowledge graph"
    return _searched(state, env, "search_relations", paths, _best(ways, width), [*notes, problem], end_note)


def search_entities(state: State, env: Environment, drawn: bool) -> Update:
    """Find the entities behind the relations; the model prunes them, or they are `drawn` (ToG-R).

    Of more facts than are shown a sample is drawn, the same for the same seed from every engine.
    """
    kg, ways, width, seed = env.kg, paths_of(state, env.kg), env.context.observe_width, env.context.draw_seed
    bundles = [way.ahead for way in ways if way.ahead]
    most, sizes = dict.fromkeys(bundles, ENTITIES + 1), dict.fromkeys(bundles, ENTITIES + 2)
    facts, problem = read_bundles(kg, most, sizes, seed, Deadline(kg.timeout))
    longer, notes = list[Path](), list[str]()
    for way in ways:
        behind = [f for f in facts if Bundle(f.near, f.triple.relation, f.forward) == way.ahead]
        ahead = [fact for fact in behind if fact.far not in way.nodes][:ENTITIES]
        nodes = [fact.far for fact in ahead]
        labels, texts = kg.labels(nodes), node_labels(kg, nodes, exact=False)
        options = [UNNAMED if kg.profile.is_mediator(n, labels.get(n)) else texts[n] for n in nodes]
        if drawn:
            scores = [way.score] * len(ahead)
        elif len(ahead) < 2 or set(options) == {UNNAMED}:  # all look the same
            scores = [way.score / max(len(ahead), 1)] * len(ahead)
        else:
            scores = _scores(state, env, "entities", way._replace(ahead=None), options, width, notes)
        longer += [Path(way.start, (*way.hops, f), s) for f, s in zip(ahead, scores, strict=True)]
    if drawn:
        draw = random.Random(f"{seed} {len(state.steps)} {state.question}")
        longer = [longer[i] for i in sorted(draw.sample(range(len(longer)), min(width, len(longer))))]
    return _searched(state, env, "search_entities", ways, _best(longer, width), [*notes, problem])


def judge(state: State, env: Environment) -> Update:
    """Have the model judge whether the paths suffice; the first yes or no of its reply counts."""
    paths, depth = paths_of(state, env.kg), env.context.observe_depth
    reply = loop.ask(state, env, "tog", "judge", paths=path_lines(env.kg, paths)).text
    word = re.search(r"\b(yes|no)\b", reply.casefold())
    end = SUFFICIENT if word is not None and word[1] == "yes" else ""
    if not end and max(len(path.hops) for path in paths) >= depth:
        end = f"depth {depth} is exhausted"
    feedback = Feedback("judge", message=end, observation=end or "not enough yet", finished=bool(end))
    return {"steps": (loop.make_step(state, reply, Call("judge"), feedback),)}


def _scores(
    state: State,
    env: Environment,
    part: str,
    path: Path,
    options: Sequence[str],
    width: int,
    notes: list[str],
) -> list[float]:
    """The path's score times those of a reply for all options; 0 leaves one out."""
    if not options:
        return []
    line = path_lines(env.kg, [path])[0]
    reply = loop.ask(state, env, "tog", part, path=line, options=options, limit=width).text
    scores = read_scores(reply, len(options))
    notes += [] if scores else [UNREAD]
    scores = scores or dict.fromkeys(range(width), 1 / width)
    return [path.score * scores.get(i, 0.0) for i in range(len(options))]


def _best(paths: Iterable[Path], width: int) -> list[Path]:
    return sorted((path for path in paths if path.score > 0), key=lambda p: -p.score)[:width]


def _searched(
    state: State, env: Environment, action: str, before: Sequence[Path], found: Sequence[Path],
    notes: Sequence[str], end: str = "",
) -> Update:  # fmt: skip
    """The step of a search, with the new beam; the last note is what the graph did not answer."""
    kg, problem = env.kg, notes[-1]
    if not found and not end:
        nothing = "nothing around the paths leads on"
        end = f"the knowledge graph did not answer ({problem})" if problem else nothing
    ends = tuple(dict.fromkeys(kg.profile.short(path.nodes[-1]) for path in before))
    outcome = problem.partition(":")[0]
    lines = [f"{p.score:.3f} {line}" for p, line in zip(found, path_lines(kg, found), strict=True)]
    feedback = Feedback(
        action=action,
        arguments=ends,
        message=end,
        outcome=outcome if outcome in set(Outcome) else "rows" if found else "empty",
        observation="\n".join([*lines, *dict.fromkeys(filter(None, (*notes[:-1], problem or end)))]),
        triples=tuple(path.hops[-1].triple for path in found if path.hops and not path.ahead),
        finished=bool(end),
    )
    step = loop.make_step(state, "", Call(action, ends), feedback)
    return {"steps": (step,), **(beam_update(found, kg) if found else {})}


_SCORED = re.compile(
    r"\W*(?:option\s*)?#?(\d{1,3})(?!\.?\d).*?[:=(|*–-]\s*(?:score\W*)?(\d*\.?\d+)\s*(%|/\s*\d+)?", re.I
)


def read_scores(reply: str, count: int) -> dict[int, float]:
    """Return the scores that a reply gives numbered options, summing to 1; {} where none can be read.

    Lines of `number: score` are requested; models also add names, percentages and marks out of ten.
    """
    scores: dict[int, float] = {}
    for match in filter(None, map(_SCORED.match, re.split(r"[\n;]", reply))):
        number, value, unit = int(match[1]), float(match[2]), match[3] or "/1"
        if 0 < number <= count:
            scores.setdefault(number - 1, value / (100 if unit == "%" else float(unit[1:]) or 1))
    total = sum(scores.values())
    return {place: score / total if total else 0.0 for place, score in sorted(scores.items())}


def search(state: State, runtime: Runtime[Context], drawn: bool = False) -> Update:
    """Take the next of the three steps of a depth (section 2.1.2, 2.1.3)."""
    env = environment(runtime)
    match state.last.feedback.action if state.steps else "":
        case "search_relations":
            return search_entities(state, env, drawn)
        case "search_entities":
            return judge(state, env)
    return search_relations(state, env)


def search_drawn(state: State, runtime: Runtime[Context]) -> Update:
    """Take the next step of ToG-R (section 2.2): entities are drawn, not scored."""
    return search(state, runtime, drawn=True)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the paths (section 2.1.3), and where these end too early also from what the model knows.

    The reason marks as the model's own what no path names. A run that was broken off has no answer.
    """
    env = environment(runtime)
    kg, paths = env.kg, [path._replace(ahead=None) for path in paths_of(state, env.kg) if path.hops]
    state = state.model_copy(update=beam_update(paths, kg))
    if over := spent_budget(state, env.context):
        broken_off = state.model_copy(update={"verdict": Verdict("spent", note=over)})
        return {"answer": loop.make_answer(broken_off, env.context, ()), "verdict": broken_off.verdict}
    why, lines = state.last.feedback.message if state.steps else "", path_lines(kg, paths)
    reply = loop.ask(state, env, "tog", "answer", paths=lines, own=why != SUFFICIENT).text
    shown = [path.nodes[-1] for path in paths] + [node for path in paths for node in path.nodes]
    named, why_none = loop.name_reply(reply, state, env, shown=shown)
    known = {*map(kg.profile.short, shown), "true", "false"}
    own = ", ".join(n.label for n in named if n.value not in known)
    added = why_none if not named else f"from the model's own knowledge: {own}" if own else ""
    why = "; ".join(filter(None, (why, added)))
    step = loop.answer_step(state, reply, named, why_none)
    state = state.model_copy(update={"steps": (*state.steps, step)})
    made = answering.memory(state, runtime)["answer"] if named else None
    if made is not None and made.proof:
        made = replace(made, reason=why)
    else:
        made = loop.make_answer(state, env.context, named, why)
    return {**{name: getattr(state, name) for name in ("memory", "rules", "focus", "steps")}, "answer": made}
