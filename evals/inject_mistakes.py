"""Injected mistakes: how often each way of correcting leads from a wrong reply back to the right answer.

`python -m triplewise.evals.inject_mistakes` plays right programs of development questions as the replies of a
model, with one to three mistakes in each. Corrections are answered by a scripted model that follows them: the
first action that the feedback offers is put in the place of what was wrong; without an offer the action is
repeated once, then left out. So this measures whether feedback holds the cure, and not how well a model
understands it. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import typer

from triplewise.evals import statistics
from triplewise.evals.data import catalog, locate, read_records
from triplewise.evals.question_sets import QuestionSet, question_sets
from triplewise.evals.scripted_model import MODEL, Messages, OpenAIServer
from triplewise.graphs import Context, State, build_graph
from triplewise.graphs.commands import argument, option
from triplewise.nodes.correct import READ_ONLY, VARIANTS
from triplewise.nodes.environment import Environment
from triplewise.nodes.result import labels_of
from triplewise.tools.actions.pyql import PYQL, script
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.terms import Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.learning.exploration import agreements
from triplewise.tools.learning.parser_training import Labelled
from triplewise.tools.parsing.reading import VALUES, Reading, read_question
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.raw_sparql import parts_of
from triplewise.tools.pyql.text import scan_arguments
from triplewise.tools.retrieval.encoder import open_encoder

SETS = ("cars", "elements", "units", "geoquery", "metaqa", "webqsp")
RANK, STEPS = 5, 24  # readings among which right ones are looked for, and steps of a run
TRIES, REPLIES = 3, 12  # of one action, and in one run
EXECUTE = Call("execute")
PLACEHOLDERS = {p.name for a in PYQL.declared for p in a.parameters} | {"relation", "reason", "name"}
FAILED = re.compile("ERROR_INFO|Please check again|was undone|Read your last action|Here are examples")
"""Words by which each way of correcting says that the last action failed."""
_GENERAL = re.compile("Not carried out after it|Here are examples|Legal actions")  # offers end before these
_ANSWER = re.compile(r"SELECT (?:DISTINCT )?\?(\w+)")
_OPENING = re.compile(r"\b([a-z_]+)\(")
Calls: TypeAlias = Sequence[Call]


class Case(NamedTuple):
    """A question with the actions of a right program and of the best wrong reading; () for none."""

    of: QuestionSet
    question: Labelled
    right: Calls = ()
    wrong: Calls = ()


def cases(of: QuestionSet, count: int) -> Iterator[Case]:
    """Yield questions with programs, until `count` have a right one: the gold query, else a reading."""
    kg, gold = of.open(), gold_programs(of)
    for question in of.questions:
        if count == 0:
            return
        _, programs = written_programs(question, kg, gold, RANK)
        calls: tuple[list[Calls], list[Calls]] = [()], [()]
        for program, values in reversed(programs):
            calls[is_right(kg, question, values, of.least)].append(script(program, kg.profile)[:-1])
        yield Case(of, question, calls[True][-1], calls[False][-1])
        count -= len(calls[True]) > 1


def written_programs(
    question: Labelled, kg: KnowledgeGraph, gold: Mapping[str, PyQL], most: int
) -> tuple[Sequence[Reading], list[tuple[PyQL, tuple[str, ...]]]]:
    """Return the best readings of a question, and programs with their values: the gold query, and these."""
    linked = {mention: id_ for mention, id_ in question.entities.items() if id_ is not None}
    readings = read_question(question.question, kg, open_encoder(), linked or None, None, most)
    written = [(PyQL.parse(r.program, kg.profile), r.values) for r in readings]
    if (program := gold.get(question.question)) is not None:
        found = kg.query(program.sparql(kg.profile), limit=VALUES)
        column = found.column(program.answer[0].name) if found.rows else ()
        written.insert(0, (program, tuple(map(kg.profile.short, column))))
    return readings, written


def gold_programs(of: QuestionSet) -> dict[str, PyQL]:
    """Return the gold queries of a benchmark that are but facts, by question; {} for other sets."""
    programs = dict[str, PyQL]()
    benchmark = catalog().benchmarks.get(of.name)
    for file in benchmark.seeds.values() if benchmark else ():
        for record in read_records(locate(file)):
            sparql = str(record.get("sparql11") or record.get("sparql") or "")
            parts, answer = parts_of(sparql), _ANSWER.search(sparql)
            facts = PyQL(tuple(parts.patterns))
            if answer and Variable(answer[1]) in facts.variables and "OrderBy" not in parts.operations:
                programs[record["question"]] = facts.set_answer(Variable(answer[1]))
    return programs


def is_right(kg: KnowledgeGraph, question: Labelled, values: Sequence[str], least: float) -> bool:
    """Whether values are the gold ones, by id or by name."""
    found = agreements(kg, values, labels_of(kg, values), question.answers)
    return bool(values) and max(one.f1 for one in found) >= least


def with_mistakes(case: Case, count: int, draw: random.Random) -> tuple[Calls, list[str]]:
    """Return the right actions with so many mistakes, each in another action, and the kinds of these."""
    calls, kinds, kg = dict[int, Call | None](enumerate(case.right)), list[str](), case.of.open()
    for place in draw.sample(range(len(calls)), len(calls)):
        made = dict(_mistakes(case.right[place], kg, draw))
        if len(kinds) < count and made:
            kinds.append(draw.choice(sorted(made)))
            calls[place] = made[kinds[-1]]
    return [call for call in calls.values() if call is not None], kinds


def _mistakes(call: Call, kg: KnowledgeGraph, draw: random.Random) -> Iterator[tuple[str, Call | None]]:
    """Yield what may be written in place of an action, None for nothing at all, by the kind of mistake."""
    args, expand, short = call.arguments, kg.profile.expand, kg.profile.short
    if call.name != "add_fact":
        yield "left out", None
    else:
        head, relation, tail = args
        known = [iri for end in (head, tail) if (iri := expand(end)) is not None]
        around = kg.relations(known[0]) if known else kg.relations(Variable("o"), "?s ?p ?o")
        if others := sorted({short(r) for r in (*around.forward, *around.backward)} - {relation}):
            yield "another relation", Call(call.name, (head, draw.choice(others), tail))
        yield "invented relation", Call(call.name, (head, f"{relation}_of", tail))
        if not tail.startswith('"'):
            yield "wrong direction", Call(call.name, (tail, relation, head))
    if args:
        yield "malformed", draw.choice((Call(call.name, args[:-1]), Call(f"new_{call.name}", args)))
    if nodes := [i for i, a in enumerate(args) if i != 1 and a[0] not in '?"(' and expand(a) is not None]:
        i = draw.choice(nodes)
        yield "wrong id", Call(call.name, (*args[:i], args[i][:-1] + draw.choice("047xyz"), *args[i + 1 :]))


class Reader:
    """A scripted model that writes a known program, and follows corrections of it."""

    def __init__(self, calls: Calls) -> None:
        self.plan, self.written, self.replies = list(calls), set[str](), 0
        self.place, self.failed = -1, 0  # of the action that failed last, and how often in a row

    def __call__(self, messages: Messages) -> str:
        """Return the plan, or after a failure the rest of it, mended by what the observation offers."""
        prompt = "\n".join(str(message.get("content") or "") for message in messages)
        before, _, observation = prompt.rpartition("\nObservation ")
        observation, place, self.replies = observation.partition("\n\nWrite Thought")[0], 0, self.replies + 1
        if self.replies > 1:
            last = before.rpartition("\nAction ")[2].partition(": ")[2].strip()
            texts = [call.text() for call in self.plan]
            place = texts.index(last) if last in texts else len(texts)
            if FAILED.search(observation):
                self._mend(place, observation)
            else:
                place += 1
        rest = self.plan[place:] if self.replies < REPLIES else []
        return "\n".join(["Thought: I go on.", *(f"Action: {call.text()}" for call in rest or [EXECUTE])])

    def _mend(self, place: int, observation: str) -> None:
        """Put what is offered in place of an action; without an offer, repeat it once, then leave it out."""
        call = self.plan[place] if place < len(self.plan) else EXECUTE
        self.failed, self.place = self.failed + 1 if place == self.place else 1, place
        self.written.add(call.text())
        offered = self._offered(call, _GENERAL.split(observation)[0])
        if self.failed > TRIES or (not offered and self.failed > 1):
            del self.plan[place : place + 1]
        elif offered:
            later = [v for c in self.plan[place + 1 :] for v in c.arguments if v.startswith("?")]
            bound = {v for c in self.plan[:place] for v in c.arguments}
            own = next((v for v in later if v not in bound), "?value")  # what "?value" stands for
            offered = [Call(c.name, tuple(own if a == "?value" else a for a in c.arguments)) for c in offered]
            names = {EXECUTE.name, *(c.name for c in offered)}
            is_other = call.name in PYQL.by_name and call.name not in names
            self.plan[place : place + 1] = [*offered, *([call] if is_other else [])]

    def _offered(self, call: Call, text: str) -> Calls:
        """Return the actions that an observation offers, the same one first; all that `then` joins."""
        groups, end = list[list[Call]](), -1
        for match in _OPENING.finditer(text):
            arguments, close = scan_arguments(text, match.end())
            found, between = Call(match[1], tuple(arguments)), text[end : match.start()]
            follows, end = bool(groups) and between.strip(" ,") == "then", close
            is_whole = bool(arguments) or found.name == "ask"
            is_new = found.text() not in self.written and not PLACEHOLDERS & {*arguments}
            if found.name in PYQL.by_name and found.name not in READ_ONLY and is_whole and is_new:
                groups = [*groups[:-1], [*groups[-1], found]] if follows else [*groups, [found]]
        same = [group for group in groups if any(c.name == call.name for c in group)]
        return next(iter([*same, *groups]), [])


def replay(case: Case, calls: Calls, graph: Any, server: OpenAIServer, env: Environment) -> dict[str, Any]:
    """Return what comes of a run whose model wants to write some actions."""
    server.replies = Reader(calls)
    settings: dict[str, Any] = {"model": MODEL, "base_url": server.url, "api_key_env": "", "seeds": "none"}
    context = Context(kg=env.kg, min_confidence=0, max_steps=STEPS, **settings)
    given = {"question": case.question.question, "entities": dict(case.question.entities)}
    state = State.model_validate(graph.invoke(given, context=context))
    answer = state.answer
    assert answer is not None, "a run that ends has an answer"
    return {
        "graph": case.of.graph,
        "question": case.question.question,
        "right": is_right(env.kg, case.question, answer.values, case.of.least),
        "triggered": len(answer.corrections),
        "calls": answer.usage.calls,
        "tokens": answer.usage.input_tokens + answer.usage.output_tokens,
        "steps": [f"{step.call}{' # undone' * step.rolled_back}" for step in state.steps],
    }


def play(names: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
    """Yield runs of each question: right, misread, and with mistakes corrected in each way."""
    graphs = {mode: build_graph(correct=mode) for mode in VARIANTS}
    with OpenAIServer(Reader(()), count_tokens=lambda text: len(text) // 4) as server:
        for of in question_sets(names):
            env = Environment(Context(kg=of.source))
            for number, case in enumerate(cases(of, count)):
                calls, kinds = with_mistakes(case, 1 + number % 3, random.Random(f"0 {number}"))
                runs = {"right": case.right, "misread": case.wrong, **dict.fromkeys(VARIANTS, calls)}
                for mode, written in runs.items():
                    if written:
                        made = replay(case, written, graphs.get(mode, graphs["eraser"]), server, env)
                        yield {**made, "mode": mode, "mistakes": kinds if mode in VARIANTS else []}


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each way of correcting, of the questions whose replies without mistakes are right."""
    key = ["graph", "question"]
    known = runs[(runs["mode"] == "right") & runs["right"]][key]
    wrong, rows = runs[runs["mistakes"].str.len() > 0].merge(known, on=key), []
    first = wrong[wrong["mode"] == wrong["mode"].iloc[0]].set_index(key)["right"].astype(float)
    for mode, of in wrong.groupby("mode", sort=False):
        caught, right = of[of["triggered"] > 0], of.set_index(key)["right"].astype(float)
        less = statistics.difference(first, right)
        rows.append({
            "mode": mode, "questions": len(of), "triggered": len(caught) / len(of), "right": right.mean(),
            "right of triggered": caught["right"].mean(), "first is better by": less.mean, "from": less.low,
            "to": less.high, "calls": of["calls"].mean(), "tokens": of["tokens"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows).round(3)


def main(
    names: list[str] | None = argument("[SET...]", "Sets of questions.", None),
    out: Path = option("FILE", "JSON lines, a run each, to which runs are added.", Path("runs.jsonl")),
    count: int = option("N", "Questions of each set.", 20),
) -> None:
    """Play wrong replies, correct them in each way, and print a table."""
    with out.open("a", encoding="utf-8") as file:
        for run in play(names or SETS, count):
            file.write(json.dumps(run) + "\n")
    typer.echo(table(pd.read_json(out, lines=True)).to_string(index=False))


if __name__ == "__main__":
    typer.run(main)
