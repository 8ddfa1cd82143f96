"""What a question costs with each thrift measure on and off, on the same replies of a scripted model.

The scripts are gold programs as replies of an agent: look up, add a fact, ..., choose the answer, execute,
with a mistake now and then and its mend in the next reply. Every loop gets the same replies, so that
queries and tokens are the loop's own. The loop of QueryAgent's paper is the preset `queryagent-faithful`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import cycle, islice
from typing import Any

from triplewise.evals.bench.gold import Ends, gold_questions
from triplewise.evals.bench.replay import MODEL, ReplayServer, serving
from triplewise.evals.data import DATA_VARIABLE, graph
from triplewise.evals.kgs import prepared
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.open import close_all
from triplewise.tools.pyql.text import write_iri

KEY_VARIABLE = "TRIPLEWISE_REPLAY_KEY"
FAITHFUL = "faithful (QueryAgent's paper)"
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Loop:
    """One way to run: a preset, with some phases and settings changed."""

    name: str
    preset: str = "queryagent"
    phases: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


LOOPS = (
    Loop(FAITHFUL, "queryagent-faithful"),
    Loop(OURS),
    Loop("ours, history full", settings={"history": "full"}),
    Loop("ours, prompt as long as the paper's", settings={"prompt": "queryagent-faithful"}),
    Loop("ours, a query for each label", settings={"label_batch": False}),
    Loop("ours, the same query asked again", settings={"reuse_answers": False}),
    Loop("ours, mends not tried", settings={"verify_corrections": False}),
    Loop("ours, with a plan run at once (fast_path)", phases={"plan": "mined"}, settings={"fast_path": True}),
)


@dataclass(frozen=True, slots=True)
class Script:
    """A question with the replies that a model gives to it.

    Attributes:
        kg: what a `Context` takes for it. profile: None to infer it.
        source: name of the questions, for the table.
        mistakes: replies among `replies` that are wrong.
    """

    kg: str
    source: str
    question: str
    entities: dict[str, str]
    replies: tuple[str, ...]
    mistakes: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What one loop took over all questions: means a question, but for `questions` and `same`.

    `same` counts the questions answered with the values of the faithful loop.
    """

    name: str
    source: str
    questions: int
    queries: float
    tokens: float
    calls: float
    seconds: float
    corrections: float
    same: int


def measure(
    count: int = 24, loops: Sequence[Loop] = LOOPS, mistakes: bool = True, cold: bool = False
) -> list[Spent]:
    """Run every loop on up to `count` questions of each source.

    Args:
        count: questions of each source. mistakes: whether the scripts make some.
        loops: the ways to run; the first is what the others are compared with.
        cold: open the KG anew for each question, so that nothing is known from the one before; otherwise
            a loop opens it once and answers one question after the other, as a service does.

    Raises:
        DataError: the variable with the data folder is set, and a file is missing in it.
    """
    os.environ.setdefault(KEY_VARIABLE, "none")
    scripts = [s for source in _sources(count, mistakes) for s in source]
    found: list[Spent] = []
    with serving() as server:
        answers: dict[int, frozenset[str]] = {}
        for loop in loops:
            close_all()
            runs = [_run(loop, script, server, cold) for script in scripts]
            if not answers:
                answers = {i: frozenset(a.values) for i, (a, _) in enumerate(runs)}
            same = [frozenset(a.values) == answers[i] for i, (a, _) in enumerate(runs)]
            found += _summed(loop.name, scripts, runs, same)
    return found


def _summed(
    name: str, scripts: Sequence[Script], runs: Sequence[tuple[Answer, float]], same: Sequence[bool]
) -> Iterator[Spent]:
    """One row for each source and one for all."""
    for source in [*dict.fromkeys(s.source for s in scripts), "all"]:
        places = [i for i, s in enumerate(scripts) if source in (s.source, "all")]
        usages = [runs[i][0].usage for i in places]
        number = len(places)
        yield Spent(
            name,
            source,
            number,
            queries=sum(u.queries for u in usages) / number,
            tokens=sum(u.input_tokens for u in usages) / number,
            calls=sum(u.calls for u in usages) / number,
            seconds=sum(runs[i][1] for i in places) / number,
            corrections=sum(len(runs[i][0].corrections) for i in places) / number,
            same=sum(same[i] for i in places),
        )


def _run(loop: Loop, script: Script, server: ReplayServer, cold: bool) -> tuple[Answer, float]:
    """The answer of one loop to one script, and the seconds it took."""
    if cold:
        close_all()
    server.load(script.replies)
    context = Context(
        kg=script.kg,
        model=f"openai:{MODEL}",
        base_url=server.url,
        api_key_env=KEY_VARIABLE,
        **loop.settings,
    )
    open_kg(script.kg, timeout=context.query_timeout, limit=context.row_limit)
    built = build_graph(loop.preset, **loop.phases)
    start = time.perf_counter()
    state = built.invoke({"question": script.question, "entities": dict(script.entities)}, context=context)
    return state["answer"], time.perf_counter() - start


def _sources(count: int, mistakes: bool) -> Iterator[list[Script]]:
    """The scripts of each source: the demo's questions, and those of benchmarks where their data is."""
    yield list(islice(_demo(mistakes), count))
    if os.environ.get(DATA_VARIABLE, "").strip():
        for name in ("metaqa", "wikidata_kg", "freebase_kg"):
            yield _benchmark(name, count, mistakes)


def _benchmark(name: str, count: int, mistakes: bool) -> list[Script]:
    """Questions of a benchmark, spread over its files, whose program finds something."""
    loaded = prepared(graph(name))
    profile = open_kg(loaded.path).profile
    every = [q for q in gold_questions(name, profile) if len(q.facts) > 1 or name != "metaqa"]
    chosen: list[Script] = []
    step = max(len(every) // (count * 3), 1)
    for gold in every[::step]:
        kg = open_kg(loaded.path)
        where = " . ".join(_pattern(fact, profile) for fact in gold.facts)
        if kg.query(f"ASK {{ {where} }}").boolean:
            written = write(gold.facts, slips=_slips(len(chosen), mistakes))
            entities = {end: end for fact in gold.facts for end in (fact[0], fact[2]) if end[0] != "?"}
            chosen.append(Script(loaded.path, name, gold.question, entities, *written))
        if len(chosen) == count:
            break
    return chosen


def _pattern(fact: Ends, profile: Any) -> str:
    """A fact as SPARQL."""
    terms = (
        form if form.startswith("?") else profile.expand(form.strip('"'), relation=i == 1).n3()
        for i, form in enumerate(fact)
    )
    return " ".join(terms)


_DEMO = re.compile(r"SELECT \?(\w+) WHERE \{ ((?:[^{}?]|\?)*?) \}(?: ORDER BY (DESC\()?\?(\w+)\)? LIMIT 1)?$")
_DEMO_PREFIXES = {
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}


def _demo(mistakes: bool) -> Iterator[Script]:
    """The demo's questions whose query is made of facts, with or without a superlative."""
    profile = open_kg("demo").profile
    lines = (files("triplewise.tools.kg.demo") / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    made = 0
    for record in map(json.loads, lines):
        match = _DEMO.search(record["sparql"])
        if match is None or "FILTER" in match[2]:
            continue
        facts = _hung([_demo_fact(part, profile) for part in match[2].split(" . ")])
        if not facts:
            continue
        ending = [f"add_{'max' if match[3] else 'min'}(?{match[4]})"] if match[4] else []
        written = write(facts, f"?{match[1]}", ending, _slips(made, mistakes))
        labels = {write_iri(_demo_iri(i), profile): label for label, i in record["entities"].items()}
        ends = [end for fact in facts for end in (fact[0], fact[2]) if end[0] != "?"]
        yield Script("demo", "demo", record["question"], {labels.get(e, e): e for e in ends}, *written)
        made += 1


def _demo_iri(text: str) -> IRI:
    """An IRI that a record gives in full or as a Wikidata id."""
    return IRI(text if "://" in text else _DEMO_PREFIXES["wd"] + text)


def _demo_fact(part: str, profile: Any) -> Ends:
    """A triple pattern as an agent writes it."""

    def form(term: str, relation: bool) -> str:
        if term.startswith("?"):
            return term
        prefix, _, local = term.partition(":")
        iri = IRI(term[1:-1] if term.startswith("<") else _DEMO_PREFIXES[prefix] + local)
        return write_iri(iri, profile, relation)

    subject, relation, object_ = part.split()
    return form(subject, False), form(relation, True), form(object_, False)


def _hung(facts: list[Ends]) -> tuple[Ends, ...]:
    """Facts in an order in which each begins at an entity or a bound variable; () if there is none."""
    bound: set[str] = set()
    found: list[Ends] = []
    while facts:
        fact = next((f for f in facts if any(e[0] != "?" or e in bound for e in (f[0], f[2]))), None)
        if fact is None:
            return ()
        facts.remove(fact)
        bound |= {e for e in (fact[0], fact[2]) if e[0] == "?"}
        found.append(fact)
    return tuple(found)


def write(
    facts: Sequence[Ends], answer: str = "", ending: Sequence[str] = (), slips: Sequence[str] = ()
) -> tuple[tuple[str, ...], int]:
    """The replies of an agent that builds a query fact by fact, and how many of them are mistakes.

    Args:
        facts: in an order in which each hangs on what is known.
        answer: the variable asked for; by default the one bound last.
        ending: calls between the facts and the answer.
        slips: kinds of mistakes (`SLIPS`), made one after the other before the facts from the second on.
    """
    replies: list[str] = []
    bound: list[str] = []
    looked: set[str] = set()
    left, wrong = list(slips), 0
    for fact in facts:
        known = next(
            e for e in (*bound[::-1], fact[0], fact[2]) if e in (fact[0], fact[2]) and _given(e, bound)
        )
        if known not in looked:
            looked.add(known)
            said = f"I need the facts around {known}, so I look at its relations first."
            replies.append(_reply(said, f"get_relation({known})"))
        if left:
            replies.append(_slip(left.pop(0), fact))
            wrong += 1
        new = [e for e in (fact[0], fact[2]) if e[0] == "?" and e not in bound]
        side = "forward" if known == fact[0] else "backward"
        said = (
            f"Of these relations {fact[1]} says what the question says. It is a {side} relation of {known}, "
        )
        said += f"so it leads to {new[0]}." if new else "and it constrains what was found so far."
        replies.append(_reply(said, f"add_fact({', '.join(fact)})"))
        bound += new
    answer = answer or bound[-1]
    for start in _left_again(facts, answer):
        said = f"The same relation leads away from {start} and back, and the question asks for others."
        replies.append(_reply(said, f"add_filter({answer}, !=, {start})"))
    for call in ending:
        replies.append(_reply("The question asks for the one that stands out among these.", call))
    said = f"The values look like what is asked. {answer} holds the answer, so I return this variable."
    replies.append(_reply(said, f"set_answer({answer})"))
    replies.append(_reply("The query says what the question asks, so I run it.", "execute()"))
    return tuple(replies), wrong


def _left_again(facts: Sequence[Ends], answer: str) -> list[str]:
    """Entities that a relation leaves and comes back to in the answer: gold answers are others than these."""
    walks = [(s, r, o) for s, r, o in facts] + [(o, f"^{r}", s) for s, r, o in facts]
    starts = [
        one
        for one, r, middle in walks
        for two, same, met in walks
        if (two, same, met) == (answer, r, middle)
        if one[0] != "?"
    ]
    return list(dict.fromkeys(starts))


def _given(end: str, bound: Sequence[str]) -> bool:
    return end[0] != "?" or end in bound


def _reply(thought: str, action: str) -> str:
    return f"Thought: {thought}\nAction: {action}"


SLIPS = ("arity", "swapped", "relation", "unbound", "action", "none")
"""Kinds of mistakes: too few arguments, head and tail swapped, a relation that is not there, two unbound
variables, an action that does not exist, no action at all."""


def _slips(number: int, mistakes: bool) -> list[str]:
    """The mistakes of the question with some number: every second has one, every sixth has two."""
    if not mistakes or number % 2:
        return []
    kinds = islice(cycle(SLIPS), number // 2 % len(SLIPS), None)
    return list(islice(kinds, 2 if number % 6 == 0 else 1))


def _slip(kind: str, fact: Ends) -> str:
    """A wrong reply where a fact is due."""
    head, relation, tail = fact
    said = f"The relation {relation} fits, so I add it to the query."
    calls = {
        "arity": f"add_fact({head}, {relation})",
        "swapped": f"add_fact({tail}, {relation}, {head})",
        "relation": f"add_fact({head}, {relation}_of, {tail})",
        "unbound": f"add_fact(?one, {relation}, ?other)",
        "action": f"find_relation({head})",
    }
    return _reply(said, calls[kind]) if kind in calls else f"Thought: {said}"
