"""Observation of large neighbourhoods: how much faster than encoding every triple, and how alike the result.

Texts are real: relations and the ends that they really have in the partial Wikidata, around its largest hubs.
Ends that the partial graph has no name for get one of its other names. Sizes are distinct "relation tail"
texts, and every way ranks the same ones. Ratios within one run are what counts.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.data import DataFile, graph, locate, read_records
from triplewise.evals.kgs import prepared
from triplewise.tools.core.errors import DataError, TriplewiseError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.frontier import bundle_sizes, read_bundles
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, Encoder, open_encoder
from triplewise.tools.retrieval.observation.algorithm import tail_text, way_text
from triplewise.tools.retrieval.observation.preselect import MAP_PAIRS, Pair, PairRanker, fit_map
from triplewise.tools.retrieval.vectors import vectors_of

SIZES = (1_000, 10_000, 50_000)
WIDTH = 50
"""N: the best 50 are compared."""
HUBS, AT_ONCE = 2_000, 100
"""Hubs whose facts are used, largest first, and how many of them are read at once."""
QUESTIONS = "qald10/test_en.jsonl.gz"
EXHAUSTIVE, COLD, WARM, SEEN = (
    "every text encoded",
    "nothing cached",
    "the KG's vectors present",
    "seen before",
)
_SEED = 20240401
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Way:
    """One way of ranking at one size.

    Attributes:
        size: distinct texts. way: which. seconds: a question, median. ratio: exhaustive seconds by these.
        overlap: share of the exhaustive top 50, mean over questions; least: of the worst one.
        encoded: texts encoded a question, mean. questions: how many.
    """

    size: int
    way: str
    seconds: float
    ratio: float
    overlap: float
    least: float
    encoded: float
    questions: int


class CountingEncoder:
    """An encoder without a memory of its own; counts what it encodes."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self.count = encoder, 0
        self.name, self.dimension = encoder.name, encoder.dimension

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts."""
        self.count += len(texts)
        return self._encoder.encode(texts)


class _Home:
    """Stands for a KG: all that ranking wants of it is where its vectors lie."""

    def __init__(self, folder: Path) -> None:
        self.cache_dirs = (folder,)


def real_pairs(kg: KnowledgeGraph, count: int) -> list[Pair]:
    """Distinct (relation, tail) texts around the largest hubs of a graph, in an order that a seed decides.

    Raises:
        DataError: the graph has fewer.
    """
    hubs, found = _hubs(kg), dict[Pair, None]()
    names, named = _names(kg), dict[IRI, str]()
    for start in range(0, len(hubs), AT_ONCE):
        nodes, deadline = hubs[start : start + AT_ONCE], Deadline(_PATIENCE)
        sizes, _ = bundle_sizes(kg, nodes, "both", deadline)
        facts = read_bundles(kg, sizes, sizes, 0, deadline)[0]
        labels = kg.labels(f.far for f in facts)
        texts = relation_texts(kg, {kg.profile.short(f.triple.relation) for f in facts})
        for fact in facts:
            tail = tail_text(kg, fact.far, labels)
            if isinstance(fact.far, IRI) and fact.far not in labels:
                if fact.far not in named:
                    named[fact.far] = next(names, tail)
                tail = named[fact.far]
            found[way_text(texts[kg.profile.short(fact.triple.relation)], fact.forward), tail] = None
        if len(found) >= count:
            break
    else:
        raise DataError(f"{kg.name} has {len(found):,} distinct texts around its hubs, {count:,} are needed")
    pairs = list(found)
    random.Random(_SEED).shuffle(pairs)
    return pairs[:count]


def _hubs(kg: KnowledgeGraph) -> list[IRI]:
    result = kg.query(
        "SELECT ?o (COUNT(*) AS ?n) WHERE { ?s ?p ?o FILTER(isIRI(?o)) } GROUP BY ?o "
        f"ORDER BY DESC(?n) ?o LIMIT {HUBS}",
        timeout=_PATIENCE,
        limit=HUBS,
    )
    return [o for o, _ in result.rows if isinstance(o, IRI) and kg.profile.linkable(o.value)]


def _names(kg: KnowledgeGraph) -> Iterator[str]:
    """Other names of the graph, shuffled."""
    predicates = " ".join(f"<{p}>" for p in kg.profile.label_predicates)
    result = kg.query(
        f"SELECT DISTINCT ?l WHERE {{ VALUES ?p {{ {predicates} }} ?s ?p ?l }} ORDER BY ?l",
        timeout=_PATIENCE,
        limit=1_000_000,
    )
    names = [l.value for (l,) in result.rows if l is not None]  # noqa: E741
    random.Random(_SEED).shuffle(names)
    return iter(names)


def measure(
    sizes: Sequence[int] = SIZES, questions: int = 20, tell: Callable[[str], None] = lambda stage: None
) -> list[Way]:
    """Every way at every size.

    Args:
        sizes: of neighbourhoods, in distinct texts. questions: asked of each. tell: told what is done.

    Raises:
        DataError: a missing or broken file.
    """
    asked = _questions(questions)
    with open_graph() as kg:
        pool = real_pairs(kg, max(sizes) + MAP_PAIRS)
    encoder = EmbeddedEncoder(cached=0)
    for one in (encoder, open_encoder()):
        one.encode(["first"])  # the first text of a process takes longer, in every way
    ways: list[Way] = []
    for size in sizes:
        tell(f"{size:,} texts")
        with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
            ways += _of_size(pool[:size], pool[max(sizes) :], encoder, asked, Path(scratch), tell)
    return ways


def _of_size(
    pairs: Sequence[Pair],
    spare: Sequence[Pair],
    encoder: EmbeddedEncoder,
    questions: Sequence[str],
    root: Path,
    tell: Callable[[str], None],
) -> list[Way]:
    """Every way at one size: each question asked of a folder in the state that the way begins with."""
    remembering = EmbeddedEncoder(cached=len(pairs))
    start = time.perf_counter()
    exact = remembering.encode([" ".join(pair) for pair in pairs])
    exhaustive = time.perf_counter() - start
    warm, seen = _store(root / "warm", encoder), _store(root / "seen", remembering)
    warm.add(sorted({text for pair in (*pairs, *spare) for text in pair}))
    fit_map(warm, spare)
    seen.add(" ".join(pair) for pair in pairs)
    ways = [Way(len(pairs), EXHAUSTIVE, exhaustive, 1.0, 1.0, 1.0, len(pairs), 1)]
    for way, state in ((COLD, None), (WARM, root / "warm"), (SEEN, root / "seen")):
        seconds, overlaps, encoded = [], [], []
        for number, question in enumerate(questions):
            tell(f"{len(pairs):,}: {way}, question {number + 1}")
            folder = root / f"{way}{number}"
            if state is not None:
                shutil.copytree(state, folder)
            counting, kg = CountingEncoder(encoder), _Home(folder)
            start = time.perf_counter()
            best = PairRanker(kg, question, counting).best(pairs, WIDTH)  # type: ignore[arg-type]
            seconds.append(time.perf_counter() - start)
            shutil.rmtree(folder)
            gold = np.argsort(-(exact @ encoder.encode([question])[0]), kind="stable")[:WIDTH]
            overlaps.append(len({i for i, _ in best} & set(gold.tolist())) / WIDTH)
            encoded.append(counting.count)
        median = statistics.median(seconds)
        ways.append(
            Way(len(pairs), way, median, exhaustive / median, statistics.fmean(overlaps), min(overlaps),
                statistics.fmean(encoded), len(questions))
        )  # fmt: skip
    return ways


def _store(folder: Path, encoder: Encoder) -> Any:
    return vectors_of(_Home(folder), encoder)  # type: ignore[arg-type]


@contextmanager
def open_graph() -> Iterator[KnowledgeGraph]:
    """The partial Wikidata. Raises `DataError` where TRIPLEWISE_DATA does not name its folder."""
    kg = open_kg(prepared(graph("wikidata_kg")).path)
    try:
        yield kg
    finally:
        kg.close()


def _questions(count: int) -> list[str]:
    records = read_records(locate(DataFile(QUESTIONS, "", "the benchmark's own site")), "question")
    questions = [str(r["question"]) for r in records]
    return random.Random(_SEED).sample(questions, min(count, len(questions)))


def observe(
    size: Annotated[
        list[int] | None, typer.Option(help="Distinct texts of a neighbourhood. Repeatable.")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="Questions asked of each.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Ranking of large neighbourhoods beside encoding every text: cold, with the KG's vectors, seen before.

    Texts come from the partial Wikidata, where TRIPLEWISE_DATA names its folder.
    """
    console = Console(stderr=True)
    try:
        with console.status("observe") as status:
            ways = measure(sorted(size or SIZES), questions, status.update)
    except TriplewiseError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps([asdict(way) for way in ways], indent=2))
        return
    table = Table(title=f"Best {WIDTH} of a neighbourhood, a question (median), beside encoding every text")
    for heading in ("texts", "way", "seconds", "times as fast", f"same top {WIDTH}", "worst", "encoded"):
        table.add_column(heading)
    for way in ways:
        figures = (f"{way.seconds:.3f}", f"{way.ratio:,.1f}", f"{way.overlap:.3f}", f"{way.least:.2f}")
        table.add_row(f"{way.size:,}", way.way, *figures, f"{way.encoded:,.0f}")
    Console().print(table)
