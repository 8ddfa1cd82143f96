"""Reflect: keep what the last action brought up as a network of paths (ODA, section 2.3)."""

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
from triplewise.nodes.state import State, Step, Usage
from triplewise.tools.actions.explore import neighbour_lines
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels, relation_texts
from triplewise.tools.parsing.statements import form_of
from triplewise.tools.pyql.program import PyQL, all_facts
from triplewise.tools.retrieval.ranking import PairRanker

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_COMMA, _QUOTES = re.compile(r"[ \t]*,[ \t]*"), re.compile(r"[\[\]'\"`*]")
_BRACKETED, _NUMBERED = re.compile(r"\(([^()]*)\)"), re.compile(r"^\s*(?:\d+[.)]|[-•])\s*")
_BEGINS, _ENDS = re.compile(r"(?:^|[^\w\s]|\n)[ \t]*$"), re.compile(r"[ \t]*(?:$|[\n).;,(|])")

PathNetwork = tuple[tuple[Triple, ...], ...]


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model pick the triples that help to answer, at most K (ODA 2.3, table 8).

    Only what the last action brought up is kept. Triples that share the relation and one end are one of the K
    choices: an answer of many values is kept whole. Without a language model, see `guided`.
    """
    context, triples = runtime.context, state.last.feedback.triples
    if context.embedded or not triples:
        return guided(state, runtime)
    env = environment(runtime)
    kg, reply = env.kg, env.ask(_about_triples(state, env, "reflect")).text
    shown = [t for step in reversed(state.steps) for t in step.feedback.triples]
    observed = [s.triple for s in state.observation]
    given = list(dict.fromkeys([*shown, *observed, *(t for path in state.memory for t in path)]))
    if invented := made_up(kg, reply, given):
        env.record(Usage(hallucinated=len(invented)))
    helpful = parse_triples(kg, reply, triples)
    first = {t for alike in hints.like_groups(helpful)[: context.reflect_limit] for t in alike}
    return _remember_and_focus(state, env, tuple(t for t in helpful if t in first))


def guided(state: State, runtime: Runtime[Context]) -> Update:
    """Keep K triples without a model: relations of the followed reading, then observed, then the likest."""
    env, triples = environment(runtime), state.last.feedback.triples
    profile, reading = env.kg.profile, state.followed
    program = PyQL.parse(reading.program, profile) if reading is not None else PyQL()
    walked = {fact.relation for fact in all_facts(program.clauses)}
    planned = tuple(t for t in triples if t.relation in walked)
    offered, limit = set(triples), env.context.reflect_limit
    observed = (s.triple for s in state.observation if s.triple in offered)
    chosen = dict.fromkeys([*_likest(state, env, planned, limit), *observed])
    best = tuple(chosen)[:limit]
    rest = tuple(t for t in triples if t not in set(best)) if len(best) < limit else ()
    return _remember_and_focus(state, env, (*best, *_likest(state, env, rest, limit - len(best))))


def similarity(state: State, runtime: Runtime[Context]) -> Update:
    """Keep the K triples most like the question (ablation, ODA 4.2)."""
    env, triples = environment(runtime), state.last.feedback.triples
    return _remember_and_focus(state, env, _likest(state, env, triples, env.context.reflect_limit))


def chance(state: State, runtime: Runtime[Context]) -> Update:
    """Keep K triples at random (ablation, ODA 4.2); the same for the same seed, question and step."""
    context, triples = runtime.context, state.last.feedback.triples
    draw = random.Random(f"{context.draw_seed} {len(state.steps)} {state.question}")
    chosen = draw.sample(range(len(triples)), min(context.reflect_limit, len(triples)))
    return _remember_and_focus(state, environment(runtime), tuple(triples[i] for i in sorted(chosen)))


def generated(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model write K facts of its own, which prove nothing, instead (ablation, ODA 4.2)."""
    context, triples = runtime.context, state.last.feedback.triples
    if context.embedded or not triples:
        return similarity(state, runtime)
    env = environment(runtime)
    reply = env.ask(_about_triples(state, env, "generate")).text
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
    """Append each triple to the first path whose last tail is its head, otherwise start a path (ODA 2.3)."""
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
    """Return memory with `triples`, and K of their tails as the next task-relevant entities, if any."""
    context, short = env.context, env.kg.profile.short
    tails = dict.fromkeys(short(t.object) for t in triples if isinstance(t.object, IRI))
    # The action walked backwards: its argument is the tail, so go on from the heads.
    if tails and not context.embedded and tails.keys() <= set(state.last.feedback.arguments):
        tails = dict.fromkeys(short(t.subject) for t in triples)
    focus = tuple(tails)[: context.reflect_limit] or state.focus
    return {"memory": remember(state.memory, triples), "focus": focus, "steps": _noted_step(state)}


def _noted_step(state: State) -> tuple[Step, ...]:
    """Return the last step with the inspector's note appended to its observation; () without a note."""
    if state.verdict is None or not state.verdict.note:
        return ()
    return (replace(state.last, observation=f"{state.last.observation}\n{state.verdict.note}".strip()),)


def _likest(state: State, env: Environment, triples: tuple[Triple, ...], limit: int) -> tuple[Triple, ...]:
    """Return the triples whose relation and far end are most like the question, best first."""
    if len(triples) <= limit:
        return triples
    kg, looked = env.kg, set(state.last.feedback.arguments)
    tails = [t.subject if kg.profile.short(t.object) in looked else t.object for t in triples]
    labels = node_labels(kg, tails, exact=False)
    relations = [kg.profile.short(t.relation) for t in triples]
    texts = relation_texts(kg, relations)
    pairs = [(texts[r].label, labels[tail]) for r, tail in zip(relations, tails, strict=True)]
    return tuple(triples[i] for i, _ in PairRanker(kg, state.question, env.encoder).best(pairs, limit))


def _about_triples(state: State, env: Environment, part: str) -> str:
    """Return a part of the prompt about the last action's triples."""
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
    """Return the offered triples that a reply names by ids or labels, `all` for an end too, in its order."""
    text, mentions = _plain(reply), list[tuple[int, int, Triple]]()
    for triple, forms in zip(offered, _forms(kg, offered), strict=True):
        places = [(place, -len(form)) for form in forms if (place := _place(text, form)) >= 0]
        if places:
            mentions.append((*min(places), triple))
    # Of names that begin alike, the longest is meant.
    longest = {place: length for place, length, _ in sorted(mentions, key=lambda m: -m[1])}
    meant = sorted((m for m in mentions if longest[m[0]] == m[1]), key=lambda m: m[0])
    return list(dict.fromkeys(triple for _, _, triple in meant))


def made_up(kg: KnowledgeGraph, reply: str, given: Sequence[Triple]) -> tuple[str, ...]:
    """Return triples that a reply names although the KG gave no such one, as it writes them.

    A triple is three parts in round brackets, three ids on a line of their own, or three parts whose middle
    one is a relation of those `given`.
    """
    text, claims = _plain(reply), list[str]()
    for form in sorted({f for forms in _forms(kg, given) for f in forms}, key=len, reverse=True):
        while (place := _place(text, form)) >= 0:
            text = f"{text[:place]} {text[place + len(form) :]}"
    texts = relation_texts(kg, list({kg.profile.short(t.relation) for t in given}))
    relations = {w.casefold() for short, named in texts.items() for w in (short, named.label)}
    for line in re.split(r"[\n;|]", text):
        if bracketed := [c for c in _BRACKETED.findall(line) if c.count(",") >= 2]:
            claims += [", ".join(p.strip() for p in c.split(",")) for c in bracketed]
            continue
        parts = [p.strip() for p in _NUMBERED.sub("", line).strip(" .").split(",")]
        if len(parts) == 3 and all(parts):
            ids = not any(" " in p for p in parts) and any(c.isdigit() or c in ".:/" for c in "".join(parts))
            claims += [", ".join(parts)] if ids or parts[1] in relations else []
    return tuple(dict.fromkeys(claims))


def _forms(kg: KnowledgeGraph, triples: Sequence[Triple]) -> list[tuple[str, ...]]:
    """Return how a reply may name each triple: by ids, by labels, and both from tail to head."""
    labels = node_labels(kg, [n for t in triples for n in (t.subject, t.object)])
    relations = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    forms = []
    for t in triples:
        s, r, o = (kg.profile.short(n) for n in (t.subject, t.relation, t.object))
        head, tail, text = labels[t.subject], labels[t.object], relations[r].label
        written = [(s, r, o), (head, text, tail), (o, r, s), (tail, text, head)]
        groups = [g for a, named, b in written for g in ((a, named, "all"), ("all", named, b))]
        forms.append(tuple(_plain(", ".join(parts)) for parts in (*written, *groups)))
    return forms


def _plain(text: str) -> str:
    """Return text without quotes and square brackets, one blank after every comma, in one case."""
    return _COMMA.sub(", ", _QUOTES.sub("", text)).casefold()


def _place(text: str, part: str) -> int:
    """Return where a part stands in a text as a whole triple; -1 if nowhere."""
    for match in re.finditer(f"(?={re.escape(part)})", text):
        start = match.start()
        # What stands before is looked at from afar enough to see past blanks.
        if _BEGINS.search(text[max(start - 9, 0) : start]) and _ENDS.match(text, start + len(part)):
            return start
    return -1
