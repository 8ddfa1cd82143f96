"""The hints a model sees before it acts: values of the prompt templates, within a budget of characters.

The best hints come first. Every node and relation has its id, so that it can be used without a look-up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from triplewise.nodes.environment import Environment
from triplewise.nodes.history import encode
from triplewise.nodes.plan import shown_readings, toolset_of
from triplewise.nodes.prompting import Prompt
from triplewise.nodes.sql import table_lines
from triplewise.nodes.state import ScoredTriple, State, Step
from triplewise.tools.actions.explore import CHARACTERS
from triplewise.tools.actions.pyql import dropped
from triplewise.tools.actions.terms import as_written, names, with_id
from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import relation_names, relation_texts, triple_text
from triplewise.tools.learning.trajectory import Turn
from triplewise.tools.linking.linker import EntityCandidate, LinkedEntity
from triplewise.tools.linking.search import classes_of, labels_language, node_types
from triplewise.tools.parsing.card import FEW, MEMBERS, class_card
from triplewise.tools.parsing.question import unnamed_words
from triplewise.tools.parsing.reading import VALUES, Reading
from triplewise.tools.parsing.statements import form_of
from triplewise.tools.planning.examples import usable
from triplewise.tools.planning.seeds import Seed
from triplewise.tools.pyql.program import Fact, PyQL, Typed, all_facts
from triplewise.tools.pyql.text import bare_datatype, read_term
from triplewise.tools.pyql.words import describe
from triplewise.tools.retrieval.surroundings import FactTexts, NearbyFact, grouped_lines, topics_of, within

HINTS, LATER = 2_400, 3  # Most characters of hints in a prompt; divided by `LATER` after the first step
RIVALS, BEHIND = 3, 0.25  # Most other meanings of a mention, and how far below the best score they may be
LONG = 80  # Most characters of a description
RULES, EXAMPLES, SEARCHED = 3, 3, 10  # Rules and solved questions shown; wordings that are looked at
ALIKE, MOST = 100, 20  # Most nodes of memory in one line, and classes where the question names none


def prompt_values(state: State, env: Environment) -> dict[str, Any]:
    """Return the variables of prompt templates; those that cost queries are functions, called on use."""
    context, toolset, kg = env.context, toolset_of(state, env), env.kg
    asked = state.question, state.linked, kg, env.encoder
    meanings, plan = cache(lambda: meaning_lines(state, kg)), cache(lambda: rule_lines(state, kg))
    language = labels_language(state.question, kg.profile)

    def classes() -> list[str]:
        return [f"{c.names[0]} [{c.id}]" for c in (() if kg.is_remote else classes_of(kg))[:MOST]]

    def candidates() -> list[str]:
        focus = [node for i in state.focus if (node := read_term(i, kg.profile)) is not None]
        return [with_id(kg, node, name) for node, name in names(kg, focus).items()]

    return {
        "tools": cache(toolset.document),
        "tools_brief": cache(toolset.brief),
        "begun": bool(state.standing),  # the model's own steps show the form: no worked example is needed
        "question": state.question,
        "most": context.max_actions,
        "entities": {e.label: e.id for e in state.linked},
        "meanings": meanings,
        "classes": cache(classes),
        "unnamed": cache(lambda: [] if language else unnamed_words(*asked, capitals_only=bool(meanings()))),
        "plan": plan,
        "readings": cache(lambda: reading_lines(kg, shown_readings(state, env))),
        "around": cache(lambda: around_lines(state, env, [*meanings(), *plan()])),
        "rules": [f"{r.text()} ({r.provenance})" for r in state.rules],
        "observation": cache(lambda: observation_lines(kg, state)),
        "memory": cache(lambda: memory_texts(kg, state)),
        "history": cache(lambda: encode(state.steps, "short" if context.history == "short" else "full")),
        "tables": cache(lambda: table_lines(state.question, env)),
        "dialect": lambda: env.database.engine.name if context.db is not None else "",
        "candidates": cache(candidates),
        "examples": cache(lambda: nearest_examples(state, env)),
        "language": language,
        "step": len(state.steps) + 1,
        "form": form_of(state.question),
    }


def reading_lines(kg: KnowledgeGraph, readings: Sequence[Reading]) -> list[str]:
    """Return each reading as one line: query in words and ids, confidence, words not covered, answers."""
    short, nodes, lines = kg.profile.short, dict[IRI, str](), list[str]()
    programs = [PyQL.parse(reading.program, kg.profile) for reading in readings]
    for program in programs:
        describe(program, lambda iri: nodes.setdefault(iri, ""))  # collects the nodes
    shown = {v for reading in readings for v in reading.values[:RULES] if bare_datatype(v) is None}
    values = {v: node for v in shown if (node := kg.profile.expand(v)) is not None}
    named = {node: with_id(kg, node, label) for node, label in kg.labels([*nodes, *values.values()]).items()}
    relations = [fact.relation for program in programs for fact in all_facts(program.clauses)]
    named |= zip(relations, relation_names(kg, map(short, relations)), strict=True)
    for reading, program in zip(readings, programs, strict=True):
        text = describe(program, lambda iri: named.get(iri) or short(iri), lambda literal: literal.value)
        found = [named.get(values[v], v) if v in values else v for v in reading.values[:RULES]]
        found += ["..."] if len(reading.values) > RULES else []
        sure = f"{reading.confidence:.0%} sure{_omitted(kg, reading, program)}"
        lines.append(f"{text} ({sure}): {', '.join(found) or 'nothing'}")
    return lines


def _omitted(kg: KnowledgeGraph, reading: Reading, program: PyQL) -> str:
    """Return what a reading leaves out: words of the question, and the values that its types drop."""
    facts = PyQL(tuple(clause for clause in program.clauses if isinstance(clause, Fact)))
    types = (clause for clause in program.clauses if isinstance(clause, Typed))
    lost = (dropped(kg, facts, replace(facts, clauses=(*facts.clauses, t)), VALUES) for t in types)
    words = f"; leaves out: {', '.join(reading.uncovered)}" if reading.uncovered else ""
    return words + "".join(f"; its type {text}" for text in lost if text)


def rule_lines(state: State, kg: KnowledgeGraph) -> list[str]:
    """Return the best rules as text, with labels and ids."""
    named = {e.id: f"{e.label} [{e.id}]" for e in state.linked if e.label != e.id}
    rules = [rule.text(named.get(rule.anchor, "")) for rule in state.rules[:RULES]]
    return [re.sub(r"(?<=-\[).+?(?=\]-)", lambda m: relation_names(kg, [m[0]])[0], rule) for rule in rules]


def opening(prompt: Prompt, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the first two messages of a conversation, rendered as before the first step."""
    first = {**values, "history": [], "step": 1, "begun": False}
    return prompt.render("system", **first), prompt.render("turn", **first)


def turns_of(steps: Sequence[Step]) -> tuple[Turn, ...]:
    """Return steps as the turns of a trajectory."""
    return tuple(Turn(s.thought, s.call, s.observation) for s in steps)


def nearest_examples(state: State, env: Environment) -> list[Seed]:
    """Return the solved questions most similar to this one, except itself; see `usable`."""
    spans = tuple((e.start, e.end) for e in state.linked if e.start >= 0)
    if env.examples is not None and (state.question, spans) not in env.nearest:
        by_query = dict[str, Seed]()
        for match in env.examples.search(state.question, list(spans), SEARCHED):
            for seed in match.seeds:
                if normalise(seed.question) != normalise(state.question):
                    by_query.setdefault(seed.answers[0], seed)
        env.nearest[state.question, spans] = usable(env.kg, list(by_query.values()), EXAMPLES)
    return env.nearest.get((state.question, spans), [])


def meaning_lines(state: State, kg: KnowledgeGraph) -> list[str]:
    """Return one line for each class and each entity that the question names, classes first."""
    short, lines = kg.profile.short, dict[str, str]()
    for node in dict.fromkeys(node for node, _ in _of_classes(state, kg).values()):
        number = class_card(kg, node).members
        several = f"{number} members{' or more' if number in (FEW, MEMBERS) else ''}"
        lines[short(node)] = f"{names(kg, [node])[node]}: {short(node)} (class, {several})"
    return [*lines.values(), *entity_lines(kg, [e for e in state.linked if e.id not in lines])]


def entity_lines(kg: KnowledgeGraph, linked: Sequence[LinkedEntity]) -> list[str]:
    """Return a line for each mention: the nodes it may mean, with descriptions or else classes."""
    meanings = [[c for c in e.candidates if c.score >= e.score - BEHIND][: 1 + RIVALS] for e in linked]
    nodes = {c.id: kg.profile.expand(c.id) for near in meanings for c in near if not c.description}
    types = node_types(kg, [iri for iri in nodes.values() if iri is not None])

    def text(candidate: EntityCandidate) -> str:
        iri = nodes.get(candidate.id)
        about = candidate.description or ", ".join(types.get(iri, ()) if iri is not None else ())
        about = about if len(about) <= LONG else f"{about[: LONG - 3]}..."
        return f"{candidate.label}: {candidate.id}{f' ({about})' if about else ''}"

    lines = []
    for entity, near in zip(linked, meanings, strict=True):
        best, *others = map(text, near) if near else (f"{entity.label}: {entity.id}",)
        lines.append(f"{best}; or {', '.join(others)}" if others else best)
    return list(dict.fromkeys(lines))


def around_lines(state: State, env: Environment, before: Sequence[str]) -> list[str]:
    """Return the relations around the task-relevant entities, as many as fit after the hints `before`."""
    kg, budget = env.kg, (HINTS // LATER if state.standing else HINTS) - sum(map(len, before))
    short, of_classes = kg.profile.short, _of_classes(state, kg)
    classes = names(kg, dict(of_classes.values()))
    all_seen = [NearbyFact(s.triple, s.through) for s in state.observation]
    groups = class_lines(kg, of_classes, FactTexts(kg, all_seen))
    held = {short(node): len(class_card(kg, node).held) for node in dict(of_classes.values())}
    totals = {node: count for node, count in held.items() if count}  # none where the graph took too long
    heads = {short(node): f"Members of {with_id(kg, node, name)} have" for node, name in classes.items()}
    facts = [fact for fact, s in zip(all_seen, state.observation, strict=True) if s not in of_classes]
    topics = [topic for topic in state.observed if topic not in groups]
    for topic in topics:  # cached since the observation
        with suppress(QueryFailedError):
            around = kg.relations(node) if (node := kg.profile.expand(topic)) is not None else None
            if around is not None and around.outcome is not Outcome.TRUNCATED:
                totals[topic], groups[topic] = len(around.forward) + len(around.backward), []
    groups |= grouped_lines(kg, facts, topics)
    used = set(re.findall(r"[^\s(),]+", state.program))  # lines that the query uses come first
    kept = {t: sorted(ls, key=lambda s: s.split()[1].strip(":,") not in used) for t, ls in groups.items()}
    more = {t: f"get_relation({t})" for t in kept}  # the calls that show the rest
    more |= {t: f"add_type(?x, {t}), get_relation(?x)" for t in heads}
    calls = {t: call for t, call in more.items() if call.partition("(")[0] in env.toolset.by_name}
    return within(kg, kept, budget, totals, heads, calls)


def _of_classes(state: State, kg: KnowledgeGraph) -> dict[ScoredTriple, tuple[IRI, IRI]]:
    """Return the observed facts of members of classes -> class and member."""
    found = dict[ScoredTriple, tuple[IRI, IRI]]()
    for seen in state.observation:
        is_a, ends = seen.through, (seen.triple.subject, seen.triple.object)
        if is_a is None or is_a.relation.value not in kg.profile.type_predicates:
            continue
        if isinstance(is_a.object, IRI) and is_a.object not in ends:
            found[seen] = is_a.object, is_a.subject
    return found


def class_lines(
    kg: KnowledgeGraph, observed: Mapping[ScoredTriple, tuple[IRI, IRI]], further: FactTexts
) -> dict[str, list[str]]:
    """Return lines for the observed facts of the members of each class, by its short id.

    A line: the relation, how many members have it if not all, a value as actions take it, what leads on.
    """
    facts, lines = [seen.triple for seen in observed], dict[str, dict[tuple[str, bool], str]]()
    outgoing = [fact.subject == member for fact, (_, member) in zip(facts, observed.values(), strict=True)]
    ends = [fact.object if out else fact.subject for fact, out in zip(facts, outgoing, strict=True)]
    kinds = node_types(kg, [end for end in ends if isinstance(end, IRI)])
    relations = relation_names(kg, [kg.profile.short(fact.relation) for fact in facts])
    texts = zip(facts, outgoing, ends, relations, as_written(kg, ends), strict=True)
    for (fact, out, end, relation, value), (node, _) in zip(texts, observed.values(), strict=True):
        share = class_card(kg, node).share(fact.relation, out)  # kept since the observation
        kind = f" ({', '.join(kinds[end])})" if isinstance(end, IRI) and kinds.get(end) else ""
        line = f"{'->' if out else '<-'} {relation}{share}: {value}{kind}{further.further(fact, end)}"
        lines.setdefault(kg.profile.short(node), {}).setdefault((relation, out), line)
    return {node: [*of.values()] for node, of in lines.items()}


def observation_lines(kg: KnowledgeGraph, state: State) -> list[str]:
    """Return the observation by entity and relation, best first, cut to a length; then what is left out."""
    facts = [NearbyFact(s.triple, s.through) for s in state.observation]
    groups = grouped_lines(kg, facts, topics_of(kg, facts, state.observed))
    return [*within(kg, groups, CHARACTERS), *(f"(not seen: {cut})" for cut in state.observation_cuts)]


def memory_lines(kg: KnowledgeGraph, memory: Sequence[Sequence[Triple]]) -> list[str]:
    """Return one line a path."""
    return [" -> ".join(triple_text(kg, path)) for path in memory]


def memory_texts(kg: KnowledgeGraph, state: State) -> list[str]:
    """Return the paths of memory with ids, similar ones as one line, then the facts a model wrote itself."""
    ways: dict[tuple[Triple, ...], list[Triple]] = {}
    for path in state.memory:
        ways.setdefault(path[:-1], []).append(path[-1])
    triples = [t for path in state.memory for t in path]
    terms = list(dict.fromkeys(n for t in triples for n in (t.subject, t.object)))
    shown = {term: with_id(kg, term, name) for term, name in names(kg, terms).items()}
    texts = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])

    def line(alike: Sequence[Triple]) -> str:
        sides = ({shown[t.subject]: None for t in alike}, {shown[t.object]: None for t in alike})
        head, tail = (
            "; ".join([*side][:ALIKE]) + (f"; ... ({len(side)} in all)" if len(side) > ALIKE else "")
            for side in sides
        )
        return f"({head}, {texts[kg.profile.short(alike[0].relation)].label}, {tail})"

    lines = [
        " -> ".join([*(line([t]) for t in before), line(alike)])
        for before, ends in ways.items()
        for alike in like_groups(ends)
    ]
    return [*lines, *(f"{fact} (not from the knowledge graph)" for fact in state.written)]


def like_groups(triples: Iterable[Triple]) -> list[list[Triple]]:
    """Group triples that share the relation and one end; each joins the larger of its two groups."""
    sharing = {t: ((t.subject, t.relation, None), (None, t.relation, t.object)) for t in triples}
    sizes = Counter[Any](key for keys in sharing.values() for key in keys)
    groups: dict[Any, list[Triple]] = {}
    for triple, keys in sharing.items():
        groups.setdefault(max(keys, key=lambda key: sizes[key]), []).append(triple)
    return list(groups.values())


def contains_name(text: str, name: str) -> bool:
    """Return whether a text contains a name as whole words, ignoring case; False for an empty name."""
    pattern = rf"(?<!\w){re.escape(name.casefold())}(?!\w)"
    return bool(name) and re.search(pattern, text.casefold()) is not None
