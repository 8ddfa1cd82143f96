"""Relation ranking without a language model, after QueryAgent's table 7.

A case is a topic entity of a gold query, the relations the graph really has around it, and the one of them
that the gold query follows. A method is as good as the place it gives that relation. Part of the facts of the
two partial graphs were made from gold queries: there are fewer distractors than in the whole KGs, and figures
are of use beside one another only.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.data import DataFile, Record, graph, locate, read_records
from triplewise.evals.kgs import prepared
from triplewise.tools.core.errors import TriplewiseError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.profile import split_words
from triplewise.tools.kg.vocabulary import relation_descriptions, relation_texts
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.relation_ranking import CUT, DEFAULT, rank_relations
from triplewise.tools.retrieval.vectors import VectorStore

FILES = {
    "freebase_kg": ("webqsp/test.jsonl.gz", "grailqa/dev1000.jsonl.gz"),
    "wikidata_kg": ("qald10/test_en.jsonl.gz", "wikiwebquestions/test.jsonl.gz"),
}
LEAST = 6
"""Relations that a case must at least have: with fewer there is nothing to rank."""
SEEDS = range(20)
"""Seeds that shuffling is averaged over."""
HEAD = 10
"""The part of a list that is looked at besides what is kept."""

_PREFIX = re.compile(r"PREFIX\s+(\S*?):\s*<([^>]*)>", re.IGNORECASE)
_NODE = r"\?\w+|<[^<>\s]+>|[A-Za-z][\w-]*:[\w.-]*\w"
_FACT = re.compile(rf"({_NODE})\s+(<[^<>\s]+>|[A-Za-z][\w-]*:\w+)\s+({_NODE})(?=[\s.;}}])")


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the relations around an entity of its gold query, and the one that the query follows."""

    question: str
    entity: str
    relations: tuple[str, ...]
    gold: str


@dataclass(frozen=True, slots=True)
class Score:
    """How well one method ranks the cases of one graph.

    Attributes:
        graph: which. size: cases with more relations than this. method: of ranking. text: of relations.
        cases: how many. kept: share of gold relations within the cut. head: within the first ten.
        first: at the very top. mrr: mean reciprocal rank. cold: milliseconds a case where nothing is embedded
        yet. warm: the same, in a process that finds all relation texts in the store.
    """

    graph: str
    size: int
    method: str
    text: str
    cases: int
    kept: float
    head: float
    first: float
    mrr: float
    cold: float
    warm: float


@dataclass(frozen=True, slots=True)
class Order:
    """Where the gold relation stands in what a model is shown: its mean place, and its share of the head."""

    graph: str
    size: int
    order: str
    cases: int
    shown: float
    place: float
    head: float


def cases(name: str, kg: KnowledgeGraph) -> list[Case]:
    """The cases of one graph: questions that it answers exactly, entities with enough relations.

    Raises:
        DataError: a missing or broken file.
    """
    found: dict[Case, None] = {}
    for file in FILES[name]:
        for record in read_records(locate(DataFile(file, "", "the benchmark's own site")), "question"):
            if record.get("kg_exact"):
                found.update(dict.fromkeys(_of_record(record, kg)))
    return list(found)


def _of_record(record: Record, kg: KnowledgeGraph) -> Iterator[Case]:
    """The cases of one question: each fact of its gold query that joins an entity with a variable."""
    sparql = str(record.get("sparql11") or record["sparql"])
    prefixes = dict(_PREFIX.findall(sparql))
    for subject, relation, object_ in _FACT.findall(sparql):
        node = object_ if subject.startswith("?") else subject
        entity, gold = _iri(node, prefixes), _iri(relation, prefixes)
        if {subject[0], object_[0]} == {"?"} or "?" not in (subject[0], object_[0]):
            continue
        if entity is None or gold is None or not kg.profile.linkable(entity.value):
            continue
        around, short = kg.relations(entity), kg.profile.short
        names = tuple(dict.fromkeys(short(r) for r in (*around.forward, *around.backward)))
        if len(names) >= LEAST and short(gold) in names:
            yield Case(record["question"], short(entity), names, short(gold))


def _iri(term: str, prefixes: Mapping[str, str]) -> IRI | None:
    """The IRI that a term of a query stands for; None for a variable or an unknown prefix."""
    if term.startswith("<"):
        return IRI(term[1:-1])
    prefix, _, local = term.partition(":")
    return IRI(prefixes[prefix] + local) if prefix in prefixes and not term.startswith("?") else None


Texts = Mapping[str, str]


def texts_by_recipe(kg: KnowledgeGraph, names: Sequence[str]) -> dict[str, Texts]:
    """Recipe -> relation -> text: the label alone, and with what else is known of it."""
    texts, described = relation_texts(kg, names), relation_descriptions(kg, names)
    return {
        "label": {n: t.label for n, t in texts.items()},
        "label, description": {n: _joined(t.label, described.get(n, "")) for n, t in texts.items()},
        "label, aliases": {n: _joined(t.label, ", ".join(t.aliases)) for n, t in texts.items()},
        "words of the id": {n: split_words(n) for n in names},
    }


def _joined(label: str, more: str) -> str:
    return f"{label}: {more}" if more else label


Ranked = list[list[str]]


class Ranking:
    """Ranks all cases by one method and text, first with an empty store, then with what that left."""

    def __init__(self, encoder: Encoder, found: Sequence[Case], fresh: Callable[[], Encoder]) -> None:
        self._encoder, self._cases, self._fresh = encoder, found, fresh

    def run(self, method: str, texts: Texts) -> tuple[Ranked, float, float]:
        """The order of each case, and milliseconds a case, cold and warm."""
        with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as folder:
            _, cold = self._timed(method, texts, Path(folder))
            ranked, warm = self._timed(method, texts, Path(folder))
        return ranked, cold, warm

    def _timed(self, method: str, texts: Texts, folder: Path) -> tuple[Ranked, float]:
        encoder = self._fresh()
        encoder.encode([c.question for c in self._cases])  # the same for all: not what is measured
        start = time.perf_counter()
        store = VectorStore(encoder, folder)
        ranked = [
            rank_relations(
                c.question,
                [(r, texts[r]) for r in c.relations],
                method,
                encoder,
                cut=len(c.relations),
                vectors=store.vectors,
            )
            for c in self._cases
        ]
        return ranked, (time.perf_counter() - start) / max(len(self._cases), 1) * 1000


def scored(
    name: str,
    size: int,
    method: str,
    text: str,
    found: Sequence[Case],
    ranked: Ranked,
    ms: tuple[float, float],
) -> Score:
    """The score of one method over the cases with more than `size` relations; `ms` cold and warm."""
    places = np.array(_places(found, ranked, size))
    if not len(places):
        return Score(name, size, method, text, 0, 0.0, 0.0, 0.0, 0.0, *ms)
    kept, head, first = (float((places <= at).mean()) for at in (CUT, HEAD, 1))
    return Score(name, size, method, text, len(places), kept, head, first, float((1 / places).mean()), *ms)


def _places(found: Sequence[Case], ranked: Ranked, size: int) -> list[int]:
    """1-based places of the gold relations, of the cases with more than `size` relations."""
    both = zip(found, ranked, strict=True)
    return [order.index(c.gold) + 1 for c, order in both if len(c.relations) > size]


def orders(name: str, size: int, found: Sequence[Case], ranked: Ranked) -> list[Order]:
    """Rank order and shuffling compared by where the gold relation stands in what is shown."""
    shown = [order[:CUT] for c, order in zip(found, ranked, strict=True) if len(c.relations) > size]
    golds = [c.gold for c in found if len(c.relations) > size]
    kept = [(gold, list(order)) for gold, order in zip(golds, shown, strict=True) if gold in order]
    best = [order.index(gold) + 1 for gold, order in kept]
    mixed = []
    for seed in SEEDS:
        for gold, order in kept:
            random.Random(seed).shuffle(order)
            mixed.append(order.index(gold) + 1)
    length = statistics.fmean(len(order) for _, order in kept) if kept else 0.0
    return [
        Order(
            name,
            size,
            what,
            len(kept),
            length,
            statistics.fmean(at) if at else 0.0,
            statistics.fmean(p <= HEAD for p in at) if at else 0.0,
        )
        for what, at in (("best first", best), ("shuffled", mixed))
    ]


def measure(
    names: Sequence[str], server: Callable[[], Encoder] | None = None, recipes: Sequence[str] = ()
) -> tuple[list[Score], list[Order]]:
    """Scores and orders of all methods over the cases of some graphs.

    Args:
        names: of the graphs, in the catalog. server: makes the encoder of the method `openai`; None leaves it
            out. recipes: texts of relations to compare; () for all.

    Raises:
        DataError: a missing or broken file.
        ConfigurationError, ModelUnavailableError: an embedding server that does not answer.
    """
    scores: list[Score] = []
    placed: list[Order] = []
    for name in names:
        kg = open_kg(prepared(graph(name)).path)
        found = cases(name, kg)
        texts = texts_by_recipe(kg, list(dict.fromkeys(r for c in found for r in c.relations)))
        default: Ranked = []
        for recipe in recipes or texts:
            methods = ["none", "hybrid", DEFAULT] if recipe == "label" else [DEFAULT]
            for method in [*methods, *(["openai"] if server else [])]:
                fresh = server if method == "openai" and server else _embedded
                ranked, *ms = Ranking(fresh(), found, fresh).run(method, texts[recipe])
                default = ranked if (method, recipe) == (DEFAULT, "label") else default
                scores += [
                    scored(name, size, method, recipe, found, ranked, (ms[0], ms[1]))
                    for size in (LEAST - 1, CUT)
                ]
        placed += [o for size in (LEAST - 1, CUT) for o in orders(name, size, found, default)]
    return scores, placed


def _embedded() -> Encoder:
    """An encoder that has embedded nothing yet."""
    from triplewise.tools.retrieval.encoder import EmbeddedEncoder

    return EmbeddedEncoder()


def ranking(
    graphs: Annotated[list[str] | None, typer.Option("--graph", help="freebase_kg, wikidata_kg.")] = None,
    openai: Annotated[str | None, typer.Option(help="Embedding model of a server, ranked besides.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The server; OpenAI by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Where each strategy ranks the relation of the gold query (QueryAgent, table 7); no language model."""
    console = Console(stderr=True)
    try:
        server = None if openai is None else partial(_served, openai, base_url)
        scores, placed = measure(graphs or list(FILES), server)
    except TriplewiseError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps([*map(asdict, scores), *map(asdict, placed)], indent=2))
        return
    Console().print(_score_table(scores))
    Console().print(_order_table(placed))


def _served(model: str, base_url: str | None) -> Encoder:
    from triplewise.nodes.embeddings import open_embeddings

    return open_embeddings(model, base_url)


def _score_table(scores: Sequence[Score]) -> Table:
    title = (
        "Place of the gold relation among those of its entity (ms a case: nothing embedded, all in the store)"
    )
    table = Table(title=title, title_justify="left")
    for heading in (
        "graph",
        "more than",
        "cases",
        "method",
        "text",
        "@40",
        "@10",
        "@1",
        "MRR",
        "cold",
        "warm",
    ):
        table.add_column(heading)
    for s in scores:
        shares = (f"{x:.3f}" for x in (s.kept, s.head, s.first, s.mrr))
        times = (f"{s.cold:.1f}", f"{s.warm:.1f}")
        table.add_row(s.graph, str(s.size), str(s.cases), s.method, s.text, *shares, *times)
    return table


def _order_table(placed: Sequence[Order]) -> Table:
    title = f"What is shown (at most {CUT}): mean place of the gold relation, share among the first {HEAD}"
    table = Table(title=title, title_justify="left")
    for heading in ("graph", "more than", "cases", "order", "shown", "place", f"first {HEAD}"):
        table.add_column(heading)
    for o in placed:
        figures = (f"{o.shown:.1f}", f"{o.place:.1f}", f"{o.head:.3f}")
        table.add_row(o.graph, str(o.size), str(o.cases), o.order, *figures)
    return table
