"""Observation of large neighbourhoods: how much faster than encoding every triple, and how alike the result.

Texts are real: relations of the partial Wikidata with the names of their ends. A size is a number of distinct
"relation tail" texts, and every way ranks the same ones. Ratios within one run are what counts.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.evals.data import benchmark, graph, locate, prepared, read_records
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, vectors_of
from triplewise.tools.retrieval.ranking import Pair, PairRanker, way_text

WIDTH = 50
"""N: the best 50 are compared."""
SEED, PATIENCE, MOST = 20240401, 300.0, 1_000_000


def observe(
    size: Annotated[list[int] | None, typer.Option(help="Texts [dim](1000, 10000, 50000)[/dim].")] = None,
    questions: int = 20,
) -> list[dict[str, Any]]:
    """Ranking of large neighbourhoods against encoding every text: cold, with the KG's vectors, seen before.

    Some training questions of QALD are asked of each size. Texts come from the partial Wikidata, where
    TRIPLEWISE_DATA names its folder.
    """
    sizes = sorted(size or (1_000, 10_000, 50_000))
    (file,) = benchmark("qald10").seeds.values()
    texts = [str(record["question"]) for record in read_records(locate(file), "question")]
    drawn = random.Random(SEED).sample(texts, min(questions, len(texts)))
    pool = real_pairs(prepared(graph("wikidata_kg")).open(), max(sizes))
    encoder, rows = EmbeddedEncoder(cached=0), []
    encoder.encode(["first"])  # the first text of a process takes longer, in every way
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
            remembering = EmbeddedEncoder(cached=count)  # encodes nothing twice
            rows += of_size(pool[:count], encoder, remembering, drawn, Path(scratch))
    return rows


def of_size(
    pairs: Sequence[Pair],
    encoder: EmbeddedEncoder,
    remembering: EmbeddedEncoder,
    questions: Sequence[str],
    root: Path,
) -> list[dict[str, Any]]:
    """Measure every way at one size, each question in a fresh copy of the folder that the way needs.

    `remembering` is the encoder with a memory.
    """

    def kg_in(folder: Path) -> Any:
        """A stand-in for a KG: all that ranking needs of one is where its vectors lie."""
        kg: Any = type("Folder", (), {"cache_dirs": (folder,), "origin": None})()
        kg.shared = kg
        return kg

    start = time.perf_counter()
    exact = remembering.encode([" ".join(pair) for pair in pairs])
    exhaustive = time.perf_counter() - start
    warm, seen = vectors_of(kg_in(root / "warm"), encoder), vectors_of(kg_in(root / "seen"), remembering)
    warm.add(sorted({text for pair in pairs for text in pair}))
    seen.add(" ".join(pair) for pair in pairs)
    about = {"texts": len(pairs), "way": "every text encoded", "seconds": exhaustive, "times as fast": 1.0}
    rows: list[dict[str, Any]] = [{**about, f"same top {WIDTH}": 1.0, "worst": 1.0}]
    states = {"nothing cached": None, "the KG's vectors present": root / "warm", "seen before": root / "seen"}
    for way, state in states.items():
        seconds, overlaps = [], []
        for number, question in enumerate(questions):
            folder = root / f"{way}{number}"
            if state is not None:
                shutil.copytree(state, folder)
            start = time.perf_counter()
            best = PairRanker(kg_in(folder), question, encoder).best(pairs, WIDTH)
            seconds.append(time.perf_counter() - start)
            shutil.rmtree(folder, ignore_errors=True)
            gold = np.argsort(-(exact @ encoder.encode([question])[0]), kind="stable")[:WIDTH]
            overlaps.append(len({place for place, _ in best} & set(gold.tolist())) / WIDTH)
        median = statistics.median(seconds)
        about = {"texts": len(pairs), "way": way, "seconds": median, "times as fast": exhaustive / median}
        rows.append({**about, f"same top {WIDTH}": statistics.fmean(overlaps), "worst": min(overlaps)})
    return rows


def real_pairs(kg: KnowledgeGraph, count: int) -> list[Pair]:
    """Return distinct (relation, tail) texts of a graph, both directions, in a seeded order.

    Raises `DataError` where the graph has fewer.
    """
    short, named = kg.profile.short, "|".join(f"<{p}>" for p in kg.profile.label_predicates)
    pairs = dict[Pair, None]()
    for forward, end in ((True, "?o"), (False, "?s")):
        query = f"SELECT DISTINCT ?p ?name WHERE {{ ?s ?p ?o . {end} {named} ?name FILTER(isIRI(?o)) }}"
        rows = kg.query(query, timeout=PATIENCE, limit=MOST).rows
        relations = {p for p, _ in rows if isinstance(p, IRI) and not kg.profile.excludes(p)}
        texts = relation_texts(kg, {short(relation) for relation in relations})
        for relation, name in rows:
            if relation in relations and isinstance(relation, IRI) and isinstance(name, Literal):
                pairs[way_text(texts[short(relation)], forward), name.value] = None
    if len(pairs) < count:
        raise DataError(f"{kg.name} has {len(pairs):,} distinct texts, {count:,} are needed")
    return random.Random(SEED).sample(list(pairs), count)
