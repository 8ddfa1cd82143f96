"""Reflect: keep the helpful triples of the last action in memory, a network of paths (ODA, section 2.3)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes import hints
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.reasoning import ranker
from triplewise.nodes.state import State, Step
from triplewise.tools.actions.explore import neighbour_lines
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.parsing.statements import form_of
from triplewise.tools.retrieval.ranking import PairRanker

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
PathNetwork = tuple[tuple[Triple, ...], ...]


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model pick the triples that help to answer, at most K groups (ODA 2.3, table 8).

    Triples that share the relation and one end are one group, so that an answer of many values stays whole.
    Without a language model, the triples most similar to the question are kept.
    """
    env, context, triples = environment(runtime), runtime.context, state.last.feedback.triples
    if context.offline or not triples:
        return similarity(state, runtime)
    helpful = parse_triples(env.kg, env.ask(_triples_prompt(state, env, "reflect")).text, triples)
    kept = {t for group in hints.like_groups(helpful)[: context.reflect_limit] for t in group}
    return _remember_and_focus(state, env, tuple(t for t in helpful if t in kept))


def similarity(state: State, runtime: Runtime[Context]) -> Update:
    """Keep the K triples whose relation and far end are most similar to the question (ablation, ODA 4.2)."""
    env, feedback = environment(runtime), state.last.feedback
    kg, kept, limit = env.kg, feedback.triples, env.context.reflect_limit
    if len(kept) > limit:
        ends = [t.subject if kg.profile.short(t.object) in feedback.arguments else t.object for t in kept]
        labels, relations = node_labels(kg, ends, exact=False), [kg.profile.short(t.relation) for t in kept]
        texts = relation_texts(kg, relations)
        pairs = [(texts[r].label, labels[end]) for r, end in zip(relations, ends, strict=True)]
        kept = tuple(kept[i] for i, _ in PairRanker(kg, state.question, env.encoder).best(pairs, limit))
    return _remember_and_focus(state, env, kept)


def chance(state: State, runtime: Runtime[Context]) -> Update:
    """Keep K triples drawn at random (ablation, ODA 4.2), reproducibly for a seed, question and step."""
    context, triples = runtime.context, state.last.feedback.triples
    draw = random.Random(f"{context.draw_seed} {len(state.steps)} {state.question}")
    chosen = draw.sample(range(len(triples)), min(context.reflect_limit, len(triples)))
    return _remember_and_focus(state, environment(runtime), tuple(triples[i] for i in sorted(chosen)))


def generated(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model write K facts from its own knowledge; they prove nothing (ablation, ODA 4.2)."""
    context, triples = runtime.context, state.last.feedback.triples
    if context.offline or not triples:
        return similarity(state, runtime)
    env = environment(runtime)
    reply = env.ask(_triples_prompt(state, env, "generate")).text
    lines = (_BULLET.sub("", line).strip() for line in reply.splitlines())
    facts = list(dict.fromkeys(line for line in lines if line))[: context.reflect_limit]
    labels, text = env.kg.labels([t.object for t in triples]), "\n".join(facts)
    named = tuple(t for t in triples if hints.contains_name(text, labels.get(t.object, "")))
    written = tuple(dict.fromkeys([*state.written, *facts]))
    return {**_remember_and_focus(state, env, named), "memory": state.memory, "written": written}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """Keep nothing (ablation)."""
    return {"steps": _noted_step(state)}


VARIANTS = {"oda": oda, "similarity": similarity, "random": chance, "generated": generated, "none": none}


def remember(memory: PathNetwork, triples: Iterable[Triple]) -> PathNetwork:
    """Append each new triple to the first path that ends at its head, else start a path (ODA 2.3)."""
    paths = list(memory)
    for triple in triples:
        if any(triple in path for path in paths):
            continue
        place = next((i for i, path in enumerate(paths) if path[-1].object == triple.subject), None)
        if place is None:
            paths.append((triple,))
        else:
            paths[place] = (*paths[place], triple)
    return tuple(paths)


def _remember_and_focus(state: State, env: Environment, triples: tuple[Triple, ...]) -> Update:
    """Add `triples` to the memory; up to K of their tails become the next task-relevant entities."""
    context, short = env.context, env.kg.profile.short
    tails = dict.fromkeys(short(t.object) for t in triples if isinstance(t.object, IRI))
    # Where the action looked up the tail, its relations were followed backwards: go on from the heads.
    if tails and not context.offline and tails.keys() <= set(state.last.feedback.arguments):
        tails = dict.fromkeys(short(t.subject) for t in triples)
    focus = tuple(tails)[: context.reflect_limit] or state.focus
    return {"memory": remember(state.memory, triples), "focus": focus, "steps": _noted_step(state)}


def _noted_step(state: State) -> tuple[Step, ...]:
    """Return the last step with the note of `inspect` appended to its observation; () without a note."""
    if state.verdict is None or not state.verdict.note:
        return ()
    return (replace(state.last, observation=f"{state.last.observation}\n{state.verdict.note}".strip()),)


def _triples_prompt(state: State, env: Environment, part: str) -> str:
    """Return the prompt `part` with the triples of the last action."""
    feedback, rank = state.last.feedback, ranker(state.question, env)
    lines = neighbour_lines(env.kg, feedback.triples, feedback.arguments, lambda names: rank(names, [])[0])
    return env.prompt.render(
        part,
        question=state.question,
        triples=lines,
        observation=lambda: hints.observation_lines(env.kg, state),
        memory=lambda: hints.memory_texts(env.kg, state),
        limit=env.context.reflect_limit,
        form=form_of(state.question),
    )


def parse_triples(kg: KnowledgeGraph, reply: str, offered: Sequence[Triple]) -> list[Triple]:
    """Return the offered triples that a reply names, in its order; those it makes up are ignored.

    It may write ids or labels, from head to tail or back, and `all` in place of an end.
    """
    text, places = _plain(reply), dict[Triple, int]()
    labels = node_labels(kg, [n for t in offered for n in (t.subject, t.object)])
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in offered])
    for t in offered:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        forms = list[tuple[str, str, str]]()
        for head, relation, tail in ((s, r, o), (labels[t.subject], relations[r].label, labels[t.object])):
            forms += [(head, relation, tail), (head, relation, "all"), ("all", relation, tail)]
        forms += [(tail, relation, head) for head, relation, tail in forms]
        any_form = "|".join(re.escape(_plain(", ".join(form))) for form in forms)
        if found := re.search(rf"(?:^|[^\w\s])[ \t]*(?:{any_form})[ \t]*(?:$|[\n).;,(|])", text, re.M):
            places.setdefault(t, found.start())
    return sorted(places, key=places.__getitem__)


def _plain(text: str) -> str:
    """Return text in lower case, without quotes and square brackets, with one blank after every comma."""
    return re.sub(r"[ \t]*,[ \t]*", ", ", re.sub(r"[\[\]'\"`*]", "", text)).casefold()
