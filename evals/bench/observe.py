"""Observation of large neighbourhoods: how much faster than encoding every triple, and how alike the result.

Texts are real: relations and the ends that they have in the partial Wikidata, around its largest hubs; ends
without a name get another label of the graph. A size is a number of distinct "relation tail" texts, and every
way ranks the same ones. Ratios within one run are what counts.
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

from triplewise.evals.bench.gold import question_records
from triplewise.evals.data import graph, prepared
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import Deadline, KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, vectors_of
from triplewise.tools.retrieval.observation import bundle_sizes, read_bundles
from triplewise.tools.retrieval.ranking import MAP_PAIRS, Pair, PairRanker, fit_map, tail_text, way_text

WIDTH = 50
"""N: the best 50 are compared."""
HUBS, AT_ONCE = 2_000, 100
"""Hubs whose facts are used, largest first, and how many of them are read at once."""
SEED, PATIENCE = 20240401, 300.0


def observe(
    size: Annotated[list[int] | None, typer.Option(help="Texts [dim](1000, 10000, 50000)[/dim].")] = None,
    questions: int = 20,
) -> list[dict[str, Any]]:
    """Ranking of large neighbourhoods against encoding every text: cold, with the KG's vectors, seen before.

    Some questions of QALD-10 are asked of each size. Texts come from the partial Wikidata, where
    TRIPLEWISE_DATA names its folder.
    """
    sizes = sorted(size or (1_000, 10_000, 50_000))
    texts = [str(record["question"]) for record in question_records("qald10/test_en.jsonl.gz")]
    drawn = random.Random(SEED).sample(texts, min(questions, len(texts)))
    pool = real_pairs(prepared(graph("wikidata_kg")).open(), max(sizes) + MAP_PAIRS)
    encoder, rows = EmbeddedEncoder(cached=0), []
    encoder.encode(["first"])  # the first text of a process takes longer, in every way
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
            remembering = EmbeddedEncoder(cached=count)  # encodes nothing twice
            rows += of_size(pool[:count], pool[max(sizes) :], encoder, remembering, drawn, Path(scratch))
    return rows


def of_size(
    pairs: Sequence[Pair],
    spare: Sequence[Pair],
    encoder: EmbeddedEncoder,
    remembering: EmbeddedEncoder,
    questions: Sequence[str],
    root: Path,
) -> list[dict[str, Any]]:
    """Measure every way at one size, each question in a fresh copy of the folder that the way needs.

    The map of the KG is fitted on `spare` pairs from elsewhere; `remembering` is the encoder with a memory.
    """
    start = time.perf_counter()
    exact = remembering.encode([" ".join(pair) for pair in pairs])
    exhaustive = time.perf_counter() - start
    warm, seen = vectors_of(_kg_in(root / "warm"), encoder), vectors_of(_kg_in(root / "seen"), remembering)
    warm.add(sorted({text for pair in (*pairs, *spare) for text in pair}))
    fit_map(warm, spare)
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
            best = PairRanker(_kg_in(folder), question, encoder).best(pairs, WIDTH)
            seconds.append(time.perf_counter() - start)
            shutil.rmtree(folder, ignore_errors=True)
            gold = np.argsort(-(exact @ encoder.encode([question])[0]), kind="stable")[:WIDTH]
            overlaps.append(len({place for place, _ in best} & set(gold.tolist())) / WIDTH)
        median = statistics.median(seconds)
        about = {"texts": len(pairs), "way": way, "seconds": median, "times as fast": exhaustive / median}
        rows.append({**about, f"same top {WIDTH}": statistics.fmean(overlaps), "worst": min(overlaps)})
    return rows


def _kg_in(folder: Path) -> Any:
    """A stand-in for a KG: all that ranking needs of one is where its vectors lie."""
    kg: Any = type("Folder", (), {"cache_dirs": (folder,), "origin": None})()
    kg.shared = kg
    return kg


def real_pairs(kg: KnowledgeGraph, count: int) -> list[Pair]:
    """Return distinct (relation, tail) texts around the largest hubs of a graph, in a seeded order.

    Raises `DataError` where the graph has fewer.
    """
    short, predicates = kg.profile.short, " ".join(f"<{p}>" for p in kg.profile.label_predicates)
    query = (
        "SELECT ?o (COUNT(*) AS ?n) WHERE { ?s ?p ?o FILTER(isIRI(?o)) } GROUP BY ?o "
        f"ORDER BY DESC(?n) ?o LIMIT {HUBS}"
    )
    hubs = kg.query(query, timeout=PATIENCE, limit=HUBS).column("o")
    query = f"SELECT DISTINCT ?l WHERE {{ VALUES ?p {{ {predicates} }} ?s ?p ?l }} ORDER BY ?l"
    labels = kg.query(query, timeout=PATIENCE, limit=1_000_000).column("l")
    other_names = [str(getattr(name, "value", name)) for name in labels]
    random.Random(SEED).shuffle(other_names)
    nodes = [o for o in hubs if isinstance(o, IRI) and kg.profile.linkable(o.value)]
    pairs, renamed = dict[Pair, None](), dict[IRI, str]()
    for start in range(0, len(nodes), AT_ONCE):
        deadline = Deadline(PATIENCE)
        sizes, _ = bundle_sizes(kg, nodes[start : start + AT_ONCE], "both", deadline)
        facts = read_bundles(kg, sizes, sizes, 0, deadline)[0]
        names = kg.labels(fact.far for fact in facts)
        texts = relation_texts(kg, {short(fact.triple.relation) for fact in facts})
        for fact in facts:
            tail = tail_text(kg, fact.far, names)
            if isinstance(fact.far, IRI) and fact.far not in names:
                tail = renamed.setdefault(fact.far, other_names[len(renamed) % len(other_names)])
            pairs[way_text(texts[short(fact.triple.relation)], fact.forward), tail] = None
        if len(pairs) >= count:
            drawn = list(pairs)
            random.Random(SEED).shuffle(drawn)
            return drawn[:count]
    raise DataError(f"{kg.name} has {len(pairs):,} distinct texts around its hubs, {count:,} are needed")
