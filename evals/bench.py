"""Benches behind published figures, each against a named alternative in the same run.

`python -m triplewise.evals.bench NAME` on a machine that does nothing else; each has `--help`.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from subprocess import PIPE, Popen
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from triplewise.evals.data import catalog, locate, prepared, read_records
from triplewise.evals.evaluation import make_task, run
from triplewise.graphs.console import relax_collector, run_command
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, vectors_of
from triplewise.tools.retrieval.ranking import Pair, PairRanker, way_text

# -- observation of large neighbourhoods: how much faster than encoding every triple, and how alike it is.
# Texts are real: relations of the partial Wikidata with the names of their ends.

WIDTH = 50  # N: the best 50 are compared
SEED, PATIENCE, MOST = 20240401, 300.0, 1_000_000


def observe(
    size: Annotated[list[int] | None, typer.Option(help="Texts [dim](1000, 10000, 50000)[/dim].")] = None,
    questions: int = 20,
) -> list[dict[str, Any]]:
    """Ranking of large neighbourhoods against encoding every text: cold, with the KG's vectors, seen before.

    Training questions of QALD are asked of each size, over texts of the partial Wikidata.
    """
    sizes = sorted(size or (1_000, 10_000, 50_000))
    (file,) = catalog().benchmarks["qald10"].seeds.values()
    texts = [str(record["question"]) for record in read_records(locate(file), "question")]
    drawn = random.Random(SEED).sample(texts, min(questions, len(texts)))
    pool = real_pairs(prepared(catalog().graphs["wikidata_kg"]).open(), max(sizes))
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
    """Measure every way at one size; `remembering` is an encoder with a memory."""

    def kg_in(folder: Path) -> Any:
        """A stand-in for a KG: all that ranking needs of one is where its vectors lie."""
        kg: Any = type("Folder", (), {"cache_dirs": (folder,), "origin": None})()
        kg.shared = kg
        return kg

    start = time.perf_counter()
    exact = remembering.encode([" ".join(pair) for pair in pairs])
    exhaustive = time.perf_counter() - start
    warm, seen = vectors_of(kg_in(root / "warm"), encoder), vectors_of(kg_in(root / "seen"), remembering)
    warm.vectors(sorted({text for pair in pairs for text in pair}))
    seen.vectors([" ".join(pair) for pair in pairs])
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
        typical = median(seconds)
        about = {"texts": len(pairs), "way": way, "seconds": typical, "times as fast": exhaustive / typical}
        rows.append({**about, f"same top {WIDTH}": fmean(overlaps), "worst": min(overlaps)})
    return rows


def real_pairs(kg: KnowledgeGraph, count: int) -> list[Pair]:
    """Return distinct (relation, tail) texts in a seeded order; `DataError` where there are fewer."""
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


# -- throughput with many questions in flight; the model is a process of its own, called over HTTP


@contextmanager
def served(seconds: float) -> Iterator[str]:
    """Serve the scripted model, which takes so long for a reply; its base URL."""
    command = [sys.executable, "-m", "triplewise.evals.scripted_model", "--port", "0"]
    with Popen([*command, "--latency", str(seconds)], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def inflight(jobs: int = 64, waves: int = 20, latency: float = 0.5) -> list[dict[str, Any]]:
    """Questions a second with many in flight, as a multiple of those with one in flight (MetaQA).

    As many as `jobs` times `waves` are asked; a reply of the model takes `latency` seconds.
    """
    relax_collector()  # as the command line does
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:  # the first run warms up
        for count, questions, wait in ((jobs, jobs, 0.0), (1, waves, latency), (jobs, jobs * waves, latency)):
            with served(wait) as url:
                given = {"hops": 1, "seeds": False, "n": questions, "preset": "queryagent"}
                task = make_task("metaqa", {**given, "model": "openai:scripted", "base_url": url})
                start, busy = time.perf_counter(), time.process_time()
                log = run(task, jobs=count, log_dir=Path(folder, f"{count} {questions}"))
                seconds, busy = time.perf_counter() - start, time.process_time() - busy
            done = log.results.completed_samples if log.results else 0
            about = {"in flight": count, "questions": done, "seconds": seconds}
            rows.append({**about, "questions/s": done / seconds, "CPU ms/question": 1e3 * busy / (done or 1)})
    return [{**row, "times as fast": row["questions/s"] / rows[1]["questions/s"]} for row in rows[1:]]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows that a bench returns."""
    typer.echo(pd.DataFrame(rows).to_string(index=False, float_format="{:,.4g}".format))


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, result_callback=show
)
for bench in (observe, inflight):
    app.command()(bench)

if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], app, "python -m triplewise.evals.bench"))
