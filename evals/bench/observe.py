"""Observation of large neighbourhoods: how much faster than encoding every triple, and how alike the result.

Texts are real: relations and the ends that they really have in the partial Wikidata, around its largest hubs.
Ends that the partial graph has no name for get one of its other names. Sizes are distinct "relation tail"
texts, and every way ranks the same ones. Ratios within one run are what counts.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from triplewise.evals.data import DataFile, graph, locate, read_records
from triplewise.evals.kgs import prepared
from triplewise.tools.core.errors import DataError, TriplewiseError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.frontier import Fact, bundle_sizes, read_bundles
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, Encoder, RoughEncoder, open_encoder
from triplewise.tools.retrieval.observation.maps import MAP_PAIRS
from triplewise.tools.retrieval.observation.prepare import add_pairs, fit_map
from triplewise.tools.retrieval.observation.ranker import PairRanker
from triplewise.tools.retrieval.observation.reading import tail_text, way_text
from triplewise.tools.retrieval.vectors import VectorStore, vectors_of

SIZES = (1_000, 10_000, 50_000)
WIDTH = 50
"""N: the best 50 are compared."""
HUBS, AT_ONCE = 2_000, 100
"""Hubs whose facts are used, largest first, and how many of them are read at once."""
QUESTIONS = "qald10/test_en.jsonl.gz"
EXHAUSTIVE, COLD, WARM, SEEN_DISK, SEEN = (
    "every text encoded",
    "nothing cached",
    "the KG's vectors present",
    "seen before, new process",
    "seen before",
)
_SEED = 20240401
_PATIENCE = 300.0

Pair = tuple[str, str]
Order = list[int]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of ranking at one size.

    Attributes:
        size: distinct texts. way: which. seconds: a question, median. ratio: exhaustive seconds by these.
        overlap: share of the exhaustive top 50, mean over questions; least: of the worst one.
        encoded: texts encoded a question, mean. rough: those encoded roughly, to choose them.
        questions: how many.
    """

    size: int
    way: str
    seconds: float
    ratio: float
    overlap: float
    least: float
    encoded: float
    questions: int
    rough: float = 0.0


class CountingEncoder:
    """The embedded encoder without a memory of its own; counts what it encodes.

    Args:
        encoder: the real one. given: vectors that need no encoding.
    """

    def __init__(self, encoder: EmbeddedEncoder, given: Mapping[str, np.ndarray] | None = None) -> None:
        self._encoder, self._given, self.count, self.rough_count = encoder, given or {}, 0, 0

    @property
    def name(self) -> str:
        """The real encoder's."""
        return self._encoder.name

    @property
    def dimension(self) -> int:
        """The real encoder's."""
        return self._encoder.dimension

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts."""
        if texts and all(t in self._given for t in texts):
            return np.stack([self._given[t] for t in texts])
        self.count += len(texts)
        return self._encoder.encode(texts)

    def rough(self, texts: Sequence[str]) -> np.ndarray:
        """Rough vectors of texts."""
        self.rough_count += len(texts)
        return self._encoder.rough(texts)


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
        facts = _facts(kg, hubs[start : start + AT_ONCE])
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


def _facts(kg: KnowledgeGraph, nodes: Sequence[IRI]) -> list[Fact]:
    deadline = Deadline(_PATIENCE)
    sizes, _ = bundle_sizes(kg, nodes, "both", deadline)
    return read_bundles(kg, sizes, sizes, 0, deadline)[0]


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


class Neighbourhood:
    """The texts of one size with their exact vectors, and the folders that stand for each state of a KG."""

    def __init__(
        self, pairs: Sequence[Pair], spare: Sequence[Pair], encoder: EmbeddedEncoder, root: Path
    ) -> None:
        self.pairs, self._encoder, self._root = pairs, encoder, root
        texts = [f"{relation} {tail}" for relation, tail in pairs]
        start = time.perf_counter()
        self.vectors = encoder.encode(texts)
        self.seconds = time.perf_counter() - start
        self._exact = dict(zip(texts, self.vectors, strict=True))
        self._spare = spare

    def gold(self, query: np.ndarray) -> Order:
        """The exhaustive order's head."""
        return [int(i) for i in np.argsort(-(self.vectors @ query), kind="stable")[:WIDTH]]

    def warm(self) -> Path:
        """A folder with vectors of relations and tails, and a map fitted on pairs from elsewhere."""
        folder, aside = self._root / "warm", self._root / "aside"
        store, other = self._store(folder), self._store(aside)
        store.add(sorted({text for pair in (*self.pairs, *self._spare) for text in pair}))
        fit_map(other, self._spare)
        if store.path is not None and other.path is not None:
            for file in other.path.parent.glob("*.map.npy"):
                shutil.copy(file, store.path.parent)
        return folder

    def seen(self) -> Path:
        """A folder with the vectors of all pairs, as it is once somebody looked around there."""
        folder = self._root / "seen"
        add_pairs(self._store(folder, self._exact), self.pairs)
        kg: Any = _Home(folder)
        PairRanker(kg, "What is this?", CountingEncoder(self._encoder)).best(self.pairs, WIDTH)
        return folder

    def _store(self, folder: Path, given: Mapping[str, np.ndarray] | None = None) -> VectorStore:
        kg: Any = _Home(folder)
        return vectors_of(kg, CountingEncoder(self._encoder, given))


class _Measure:
    """Times one way over the questions."""

    def __init__(self, found: Neighbourhood, encoder: EmbeddedEncoder, questions: Sequence[str]) -> None:
        self._found, self._encoder, self._questions = found, encoder, questions
        self._gold = {q: found.gold(encoder.encode([q])[0]) for q in questions}

    def run(self, way: str, start: Callable[[], Path], again: bool, tick: Callable[[], None]) -> Way:
        """Rank for each question.

        Args:
            way: its name. start: gives the KG's folder for a question. again: whether one process asks all
                questions, its first one not counted. tick: called after each question.
        """
        seconds, overlaps, encoded, rough = [], [], [], []
        kg: Any = _Home(start())
        counting = CountingEncoder(self._encoder)
        if again:
            PairRanker(kg, "What is this?", counting).best(self._found.pairs, WIDTH)
        for question in self._questions:
            if not again:
                kg, counting = _Home(start()), CountingEncoder(self._encoder)
            before, before_rough, begun = counting.count, counting.rough_count, time.perf_counter()
            best = PairRanker(kg, question, counting).best(self._found.pairs, WIDTH)
            seconds.append(time.perf_counter() - begun)
            encoded.append(counting.count - before)
            rough.append(counting.rough_count - before_rough)
            overlaps.append(len({i for i, _ in best} & set(self._gold[question])) / WIDTH)
            tick()
        median = statistics.median(seconds)
        return Way(
            len(self._found.pairs), way, median, self._found.seconds / median, statistics.fmean(overlaps),
            min(overlaps), statistics.fmean(encoded), len(seconds), statistics.fmean(rough),
        )  # fmt: skip


def measure(
    sizes: Sequence[int] = SIZES, questions: int = 20, tick: Callable[[str], None] = lambda stage: None
) -> list[Way]:
    """Every way at every size.

    Args:
        sizes: of neighbourhoods, in distinct texts. questions: asked of each. tick: told what was done.

    Raises:
        DataError: a missing or broken file.
    """
    asked = _questions(questions)
    with open_graph() as kg:
        pool = real_pairs(kg, max(sizes) + MAP_PAIRS)
    tick("texts read")
    encoder = EmbeddedEncoder(cached=0)
    for one in (encoder, open_encoder()):
        _start(one)
    spare, found = pool[max(sizes) :], []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
            found += _of_size(pool[:size], spare, encoder, asked, Path(scratch), tick)
    return found


def _start(encoder: Encoder) -> None:
    """Have an encoder load what it needs: the first text of a process takes longer, in every way."""
    encoder.encode(["first"])
    if isinstance(encoder, RoughEncoder):
        encoder.rough(["first"])


def _of_size(
    pairs: Sequence[Pair],
    spare: Sequence[Pair],
    encoder: EmbeddedEncoder,
    questions: Sequence[str],
    root: Path,
    tick: Callable[[str], None],
) -> list[Way]:
    near = Neighbourhood(pairs, spare, encoder, root)
    tick(f"{len(pairs):,} texts encoded")
    number = iter(range(1_000_000))

    def empty() -> Path:
        return root / f"empty{next(number)}"

    warm, seen = near.warm(), near.seen()
    tick(f"{len(pairs):,}: vectors of the KG made")

    def copied() -> Path:
        return Path(shutil.copytree(warm, empty()))

    plan: list[tuple[str, Callable[[], Path], bool, Sequence[str]]] = [
        (COLD, empty, False, questions),
        (WARM, copied, False, questions),
        (SEEN_DISK, lambda: seen, False, questions),
        (SEEN, lambda: seen, True, questions),
    ]
    found = [Way(len(pairs), EXHAUSTIVE, near.seconds, 1.0, 1.0, 1.0, len(pairs), 1)]
    for way, start, again, asked in plan:
        step = f"{len(pairs):,}: {way}"
        found.append(_Measure(near, encoder, asked).run(way, start, again, lambda s=step: tick(s)))  # type: ignore[misc]
    return found


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
    asked = [str(r["question"]) for r in records]
    return random.Random(_SEED).sample(asked, min(count, len(asked)))


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
    sizes = tuple(sorted(size or SIZES))
    console = Console(stderr=True)
    try:
        with Progress(console=console) as progress:
            task = progress.add_task("observe", total=1 + len(sizes) * (2 + 4 * questions))
            found = measure(sizes, questions, lambda stage: _tick(progress, task, stage))
    except TriplewiseError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        import json

        typer.echo(json.dumps({"ways": [asdict(w) for w in found], "growth": growth(found)}, indent=2))
        return
    Console().print(_table(found))
    for line in totals(found):
        Console().print(line, highlight=False, soft_wrap=True)
    for way, slope in growth(found).items():
        Console().print(f"{way}: time grows with size to the power of {slope:.2f}", highlight=False)


def _tick(progress: Progress, task: TaskID, stage: str) -> None:
    progress.update(task, advance=1, description=stage)


def totals(found: Sequence[Way]) -> list[str]:
    """What to quote: a line for each way at the largest size."""
    size = max(w.size for w in found)
    return [
        f"{size:,} triples, {w.way}: {w.seconds:.3f} s, {w.ratio:,.1f} times as fast, "
        f"{w.overlap:.1%} of the best {WIDTH}"
        for w in found
        if w.size == size and w.way != EXHAUSTIVE
    ]


def growth(found: Sequence[Way]) -> dict[str, float]:
    """Slope of log seconds over log size, by way, least squares; empty for a single size."""
    slopes = {}
    for way in dict.fromkeys(w.way for w in found):
        own = [w for w in found if w.way == way]
        if len(own) > 1:
            x, y = [math.log(w.size) for w in own], [math.log(w.seconds) for w in own]
            slopes[way] = float(np.polyfit(x, y, 1)[0])
    return slopes


def _table(found: Sequence[Way]) -> Table:
    title = f"Best {WIDTH} of a neighbourhood, a question (median), beside encoding every text"
    table = Table(title=title, title_justify="left")
    heads = (
        "texts",
        "way",
        "seconds",
        "times as fast",
        f"same top {WIDTH}",
        "worst",
        "encoded",
        "roughly",
        "questions",
    )
    for heading in heads:
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for w in found:
        figures = (f"{w.seconds:.3f}", f"{w.ratio:,.1f}", f"{w.overlap:.3f}", f"{w.least:.2f}")
        table.add_row(
            f"{w.size:,}", w.way, *figures, f"{w.encoded:,.0f}", f"{w.rough:,.0f}", str(w.questions)
        )
    return table
