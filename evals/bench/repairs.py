"""Verified corrections on gold steps that were broken: is the gold step among the fixes that are offered?

Each fact of a gold program is broken in every way that applies; what then fails is repaired with nothing but
the feedback, the memory and the question, and the fixes are compared with the fact that was broken.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.bench.gold import GRAPHS, Ends, GoldQuestion, gold_questions
from triplewise.evals.data import graph
from triplewise.evals.kgs import prepared
from triplewise.tools.actions import TOOLSETS, ActionContext, Call, ReasoningMemory
from triplewise.tools.actions.repair import Repair, VerifiedFix, find_fixes
from triplewise.tools.actions.repair.failed_step import TextSimilarity, nearness
from triplewise.tools.actions.repair.verify import finds
from triplewise.tools.core.errors import ActionError, ConfigurationError, TriplewiseError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import apply, read_iri
from triplewise.tools.retrieval.encoder import Encoder, open_encoder
from triplewise.tools.retrieval.relation_ranking import rank_relations

BREAKS = ("direction", "relation", "variable", "label", "misspelt")
"""Ways to break a step: turned around, over a relation that reads alike, a variable that does not exist, the
label of an entity that was not linked, and a linked entity's label with a letter left out."""
ALIKE = 5
"""A wrong relation is drawn among so many that read most like the right one."""
TOOLSET = TOOLSETS["pyql"]


@dataclass
class Tally:
    """What came of the steps that were broken in one way.

    Attributes:
        broken: how many were. failed: how many of them failed (the others find something all the same).
        offered: for how many that failed some fix was offered. among, first: for how many the gold step was
            one of them, or the first.
        queries, seconds: of each correction.
    """

    broken: int = 0
    failed: int = 0
    offered: int = 0
    among: int = 0
    first: int = 0
    queries: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, found: Repair, place: int | None, seconds: float) -> None:
        """Count a step that failed; `place` is the gold step's place among the fixes."""
        self.failed += 1
        self.offered += bool(found.fixes)
        self.among += place is not None
        self.first += place == 0
        self.queries.append(found.queries)
        self.seconds.append(seconds)

    def figures(self) -> dict[str, float]:
        """Shares of the failed steps, and means."""
        of = max(self.failed, 1)
        return {
            "broken": self.broken,
            "failed": self.failed,
            "offered": self.offered / of,
            "among": self.among / of,
            "first": self.first / of,
            "queries": statistics.mean(self.queries or [0]),
            "most_queries": max(self.queries, default=0),
            "seconds": statistics.median(self.seconds or [0.0]),
        }


@dataclass(frozen=True, slots=True)
class Settings:
    """What a correction may take, as in `Context`."""

    budget: int = 12
    most: int = 3
    cut: int = 40


def measure(
    names: Sequence[str],
    questions: int,
    seed: int,
    settings: Settings,
    kgs: Mapping[str, str] | None = None,
) -> dict[str, dict[str, Tally]]:
    """Break the steps of so many questions on each graph, and count what repairing them brings.

    Args:
        names: graphs of the catalog. questions: drawn on each. seed: for drawing and breaking.
        settings: budget and fixes of a correction. kgs: graph -> its loaded folder or endpoint, where it is
            not to be loaded from the data folder.

    Raises:
        DataError, ConfigurationError: files or graphs that cannot be used.
    """
    encoder, tallies = open_encoder(), {}
    for name in names:
        loaded = (kgs or {}).get(name)
        kg = open_kg(loaded, profile=graph(name).profile) if loaded else open_kg(prepared(graph(name)).path)
        every = list(gold_questions(name, kg.profile))
        order = random.Random(seed)
        drawn = order.sample(every, min(questions, len(every)))
        relations = sorted({fact[1] for q in every for fact in q.facts})
        tallies[name] = Breaker(kg, encoder, relations, order, settings).run(drawn)
    return tallies


@dataclass
class Breaker:
    """Breaks gold steps on one graph."""

    kg: KnowledgeGraph
    encoder: Encoder
    relations: Sequence[str]
    chance: random.Random
    settings: Settings

    def run(self, questions: Sequence[GoldQuestion]) -> dict[str, Tally]:
        """The tally of each way to break a step."""
        tallies = {way: Tally() for way in BREAKS}
        for question in questions:
            for bench, fact in self._steps(question):
                for way in BREAKS:
                    self._try(way, tallies[way], bench, fact)
        return tallies

    def _steps(self, question: GoldQuestion) -> Iterator[tuple[ActionContext, Ends]]:
        """The workbench before each fact that finds something, after a look at what it starts from."""
        bench = self._start(question)
        for fact in question.facts:
            anchor = next(e for e in (fact[0], fact[2]) if not e.startswith("?") or e in bench.memory.bound)
            looked = TOOLSET.execute(bench, Call("get_relation", (anchor,)))
            shown = {**bench.memory.looked_up, anchor: looked.relations}
            bench = replace(bench, memory=replace(bench.memory, looked_up=shown))
            feedback = TOOLSET.execute(bench, Call("add_fact", fact))
            if not finds(feedback) or fact[1] not in [r for side in looked.relations.values() for r in side]:
                return
            yield bench, fact
            memory = replace(
                bench.memory,
                bound=tuple(dict.fromkeys((*bench.memory.bound, *(f"?{v}" for v in feedback.values)))),
                seen=bench.memory.seen | {i for ids in feedback.ids.values() for i in ids},
            )
            bench = replace(bench, program=feedback.program, memory=memory)

    def _start(self, question: GoldQuestion) -> ActionContext:
        """A workbench with the entities of the gold query linked."""
        forms = dict.fromkeys(e for s, _, o in question.facts for e in (s, o) if not e.startswith("?"))
        terms = {form: iri for form in forms if (iri := read_iri(form, self.kg.profile)) is not None}
        labels = self.kg.labels(terms.values())
        linked = {self.kg.profile.short(iri): labels.get(iri, form) for form, iri in terms.items()}
        return ActionContext(
            self.kg,
            question.question,
            memory=ReasoningMemory(linked=linked),
            rank=lambda forward, backward: self._cut(question.question, forward, backward),
        )

    def _cut(self, question: str, forward: list[str], backward: list[str]) -> tuple[list[str], list[str]]:
        """Relations as they are offered: the ones most like the question."""
        texts = relation_texts(self.kg, [*forward, *backward])
        documents = [(r, text.label) for r, text in texts.items()]
        kept = rank_relations(question, documents, encoder=self.encoder, cut=self.settings.cut)
        order = {r: i for i, r in enumerate(kept)}
        forward, backward = (
            sorted((r for r in s if r in order), key=order.__getitem__) for s in (forward, backward)
        )
        return forward, backward

    def _broken(self, way: str, bench: ActionContext, fact: Ends) -> Ends | None:
        """The fact with something wrong; None where this cannot go wrong in it."""
        subject, relation, end = fact
        match way:
            case "direction":
                return end, relation, subject
            case "relation":
                other = self._alike(relation)
                return (subject, other, end) if other else None
            case "variable":
                return self._with(fact, lambda e: self._slip(e) if e in bench.memory.bound else None)
            case "label":
                return self._with(fact, lambda e: self._label(bench, e))
            case _:
                return self._with(fact, lambda e: self._slip(self._label(bench, e)))

    def _with(self, fact: Ends, change: object) -> Ends | None:
        """The fact with the first end changed that `change` has something for."""
        assert callable(change)
        for place in (0, 2):
            new = change(fact[place])
            if new and new != fact[place]:
                ends = [*fact]
                ends[place] = new
                return ends[0], ends[1], ends[2]
        return None

    def _alike(self, relation: str) -> str | None:
        """Another relation that reads alike, where there is another."""
        others = [r for r in self.relations if r != relation]
        texts = relation_texts(self.kg, [relation, *others])
        similarity = TextSimilarity("", self.encoder)
        like = similarity.between(texts[relation].label, [texts[r].label for r in others])
        best = sorted(range(len(others)), key=lambda i: (-like[i], others[i]))[:ALIKE]
        return others[self.chance.choice(best)] if best else None

    def _label(self, bench: ActionContext, form: str) -> str | None:
        """The label of a linked entity."""
        iri = None if form.startswith("?") else read_iri(form, self.kg.profile)
        label = bench.memory.linked.get(self.kg.profile.short(iri)) if isinstance(iri, IRI) else None
        return label if label and "," not in label else None

    def _slip(self, name: str | None) -> str | None:
        """A name with one letter left out, or one more where it is short."""
        if not name:
            return None
        if len(name) < 4:
            return name + self.chance.choice("abc")
        at = self.chance.randrange(1, len(name))
        slipped = name[:at] + name[at + 1 :]
        return slipped if nearness(slipped, name) < 1 else None

    def _try(self, way: str, tally: Tally, bench: ActionContext, fact: Ends) -> None:
        """Make the broken step; if it fails, repair it and see where the gold step is among the fixes."""
        broken = self._broken(way, bench, fact)
        if broken is None or broken == fact:
            return
        tally.broken += 1
        if way == "label":
            bench = replace(bench, memory=replace(bench.memory, linked={}, seen=frozenset()))
        feedback = TOOLSET.execute(bench, Call("add_fact", broken))
        new = [e for e in (broken[0], broken[2]) if e.startswith("?") and e not in bench.memory.bound]
        if finds(feedback) and len(new) < 2:
            return
        start = time.perf_counter()
        found = find_fixes(
            bench,
            TOOLSET,
            feedback,
            budget=self.settings.budget,
            most=self.settings.most,
            encoder=self.encoder,
        )
        seconds = time.perf_counter() - start
        tally.add(found, self._place(bench, fact, found.fixes), seconds)

    def _place(self, bench: ActionContext, fact: Ends, fixes: Sequence[VerifiedFix]) -> int | None:
        """Where the gold step is among the fixes; a longer fix that begins with it counts."""
        program = PyQL.parse(bench.program, self.kg.profile)
        gold = apply(program, "add_fact", fact, self.kg.profile)
        for place, verified_fix in enumerate(fixes):
            call = verified_fix.fix.calls[0]
            try:
                if apply(program, call.name, call.arguments, self.kg.profile) == gold:
                    return place
            except ActionError:
                continue
        return None


def repairs(
    kg: Annotated[
        list[str] | None,
        typer.Option(help="GRAPH=PATH of a loaded graph; else it is loaded from TRIPLEWISE_DATA."),
    ] = None,
    graphs: Annotated[str, typer.Option(help="Graphs of the catalog, with commas between.")] = ",".join(
        GRAPHS
    ),
    questions: Annotated[int, typer.Option(min=1, help="Questions drawn on each graph.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed for drawing and breaking.")] = 0,
    budget: Annotated[int, typer.Option(min=1, help="KG queries a correction may take.")] = 12,
    fixes: Annotated[int, typer.Option(min=1, help="Fixes offered at one correction.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Break the steps of gold programs and see how often the gold step is among the verified corrections."""
    try:
        found = measure(_names(graphs), questions, seed, Settings(budget, fixes), _paths(kg or []))
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    figures = {name: {way: tally.figures() for way, tally in ways.items()} for name, ways in found.items()}
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
    else:
        Console().print(_table(figures))


def _names(graphs: str) -> list[str]:
    """The graphs asked for. Raises `ConfigurationError` on one that has no gold programs."""
    names = [name.strip() for name in graphs.split(",") if name.strip()]
    for name in names:
        if name not in GRAPHS:
            raise ConfigurationError.unknown("graph", name, GRAPHS)
    return names


def _paths(given: Sequence[str]) -> dict[str, str]:
    """Graph -> path, from `GRAPH=PATH`."""
    pairs = [text.partition("=") for text in given]
    for name, _, path in pairs:
        if name not in GRAPHS or not path:
            raise ConfigurationError.unknown("graph before =", name, GRAPHS)
    return {name: path for name, _, path in pairs}


def _table(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """One row for each graph and way to break a step."""
    table = Table(title="Verified corrections of broken gold steps", title_justify="left")
    headings = (
        "graph",
        "broken",
        "steps",
        "failed",
        "gold among",
        "gold first",
        "queries",
        "most",
        "seconds",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("graph", "broken") else "right")
    for name, ways in figures.items():
        for way, f in ways.items():
            shares = [f"{f[key]:.0%}" if f["failed"] else "-" for key in ("among", "first")]
            counts = [f"{f['broken']:g}", f"{f['failed']:g}", *shares]
            costs = [f"{f['queries']:.1f}", f"{f['most_queries']:g}", f"{f['seconds']:.3f}"]
            table.add_row(name, way, *counts, *costs)
    return table
