"""MetaQA on a graph that was made incomplete (SymAgent, section 5 and appendix A.1): who still answers.

Triples on the shortest paths of the test questions are dropped, and written as documents in sentences that
share no word with the relations' names (`incomplete.yaml`). Then the planner alone, the executor alone, both,
and both with the documents answer the questions, without a language model. What was read from the documents
is then laid over the graph for another reader, which has nothing but the graph (figure 4).
"""

from __future__ import annotations

import json
import random
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import yaml

from triplewise.evals.data import Record, benchmark, graph, locate
from triplewise.evals.kgs import prepared
from triplewise.evals.rog import Change, Extraction, RogReader, changed, judged
from triplewise.evals.rules import drawn
from triplewise.evals.tasks.metaqa import ROW_LIMIT
from triplewise.evals.values import NOTHING, Overlap, best_overlap
from triplewise.graphs import Context, build_graph
from triplewise.nodes.resources import caps_of, encoder_of, kg_of, seeds_of
from triplewise.nodes.state import Answer
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.overlay.overlay import overlaid
from triplewise.tools.kg.overlay.store import FactStore
from triplewise.tools.kg.oxterms import from_ox, safe_iri
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.sources import Progress
from triplewise.tools.kg.subset.incomplete import DROPPED, ThinOrder, ThinReport, thin_kg
from triplewise.tools.linking.linker import link, without_brackets
from triplewise.tools.planning.bodies import answers
from triplewise.tools.planning.indexing import index_seeds
from triplewise.tools.planning.lexical.planner import make_plan
from triplewise.tools.planning.lexical.question import lexicon, stem

PAPER = {"hits_at_1": 0.570, "f1": 0.2576}
"""What SymAgent reports for MetaQA-3hop with a model of 7 billion parameters (table 1)."""
SHARE, QUESTIONS = 0.5, 200
"""Share of the collected triples that is dropped (the paper gives none); how many questions the paper has."""
NOTE = "documents: sentences that share no word, in any form, with the names of the relations"

_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Bench:
    """What the experiment runs on: the thinned graph, the questions, the documents, the seeds."""

    kg: Path
    questions: Path
    documents: Path
    seeds: str
    thinned: ThinReport | None = None

    @property
    def facts(self) -> Path:
        """Where triples read from the documents are kept, apart from the facts that a person reviews."""
        return self.documents.with_name("facts.sqlite")


@dataclass(frozen=True, slots=True)
class Row:
    """One way to answer, and how it did: macro-averages over questions; seconds a question (median)."""

    name: str
    questions: int
    f1: float
    hits_at_1: float
    precision: float
    recall: float
    answered: float
    seconds: float
    crashed: int = 0


def build(
    folder: Path,
    *,
    hops: int = 3,
    count: int = QUESTIONS,
    sample_seed: int = 0,
    order: ThinOrder | None = None,
    progress: Progress | None = None,
) -> Bench:
    """Make the thinned graph, the questions and the documents in a folder; what is there already is taken.

    The seed questions are the dev questions of that length, mined on the thinned graph: nothing is seen of
    what was dropped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = benchmark("metaqa")
    questions, target = folder / "questions.jsonl", folder / "kg"
    questions.write_text("\n".join(map(json.dumps, drawn(hops, count, sample_seed))), encoding="utf-8")
    report = None
    if not target.exists():
        whole = prepared(graph(own.graph)).path
        report = thin_kg(whole, questions, target, order or ThinOrder(SHARE), progress=progress)
        write_documents(target, folder / "documents")
    seeds = str(locate(own.files[f"metaqa/dev_{hops}hop.jsonl.gz"]))
    return Bench(target, questions, folder / "documents", seeds, report)


def write_documents(kg_folder: Path, folder: Path, seed: int = 1) -> int:
    """Write the dropped facts as documents, one about each subject; how many there are.

    Args:
        kg_folder: a thinned graph. folder: where the documents go. seed: draws a sentence for each fact.
    """
    kg = open_kg(kg_folder)
    forms = templates(kg.profile)
    text = (kg_folder / DROPPED).read_text(encoding="utf-8")
    triples = [(q.subject, q.predicate, q.object) for q in ox.parse(text, format=ox.RdfFormat.N_TRIPLES)]
    terms = [t for s, _, o in triples for n in (s, o) if isinstance(t := from_ox(n), IRI | Literal)]
    names = kg.labels(terms)
    about: dict[str, list[str]] = defaultdict(list)
    for s, p, o in triples:
        subject, value = (names.get(t) or kg.profile.short(t) for t in map(from_ox, (s, o)) if t is not None)
        relation = kg.profile.short(safe_iri(p.value))
        draw = random.Random(f"{seed} {s} {p} {o}")
        about[subject].append(draw.choice(forms[relation]).format(s=subject, o=value))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (subject, said) in enumerate(sorted(about.items())):
        (folder / f"{number:05}.md").write_text(f"# {subject}\n\n{' '.join(said)}\n", encoding="utf-8")
    return len(about)


def templates(profile: Profile) -> Mapping[str, Sequence[str]]:
    """Sentences by relation of a graph."""
    data = yaml.safe_load((resources.files("triplewise.evals") / "incomplete.yaml").read_text("utf-8"))
    found: Mapping[str, Sequence[str]] = data[profile.name]
    return found


def shared_words(profile: Profile) -> set[str]:
    """Stems that sentences share with the names of the relations, words that only join others left out."""
    forms, stop = templates(profile), lexicon()["stopwords"]

    def stems(text: str) -> set[str]:
        return {stem(w) for w in _WORD.findall(text.lower().replace("_", " ")) if w not in stop}

    return {
        w for r, said in forms.items() for text in said for w in stems(text.format(s="", o="")) & stems(r)
    }


Solve = Callable[[Record, Mapping[str, str | None]], tuple[Sequence[str], bool]]
"""A question and its entities to the labels of its answers, and whether the run says that it answered."""


def rows_of(
    bench: Bench,
    *,
    linking: str = "gold",
    steps: int = 30,
    encoder: str = "embedded",
    zero_shot: bool = False,
) -> Iterator[tuple[str, Solve]]:
    """The ways to answer that are compared.

    Args:
        linking: `gold` gives the topic entity. steps: the executor may take.
        encoder: another one, such as one that has learned. zero_shot: no seed questions of this graph at all.
    """
    alone = Context(
        kg=str(bench.kg),
        seeds="none",
        row_limit=ROW_LIMIT,
        encoder=encoder,
        max_steps=steps,
        max_seconds=120.0,
    )
    mined = alone if zero_shot else replace(alone, seeds=bench.seeds)
    yield "planner only: the first rule, run as it is", _planner(mined)
    yield "executor only: no mined rules, paths by the words of the question", _agent("symagent", alone)
    yield "both", _agent("symagent", mined)
    yield "both, rules run as queries (preset agent)", _agent("agent", mined)
    read = replace(mined, documents=str(bench.documents), facts=str(bench.facts))
    yield "both, with documents", _agent("symagent", read)


def _planner(context: Context) -> Solve:
    """The first rule's answers on the graph."""

    def solve(record: Record, entities: Mapping[str, str | None]) -> tuple[Sequence[str], bool]:
        kg, encoder = kg_of(context), encoder_of(context)
        question = without_brackets(record["question"])
        linked = link(question, kg, given=entities, encoder=encoder)
        rules = make_plan(question, linked, kg, encoder, seeds_of(context)).rules
        found = answers(kg, rules[0]) if rules else ()
        labels = kg.labels(found)
        return [labels.get(t) or kg.profile.short(t) for t in found], bool(found)

    return solve


def _agent(preset: str, context: Context) -> Solve:
    """The whole machine."""
    machine = build_graph(preset)

    def solve(record: Record, entities: Mapping[str, str | None]) -> tuple[Sequence[str], bool]:
        asked: Any = {"question": without_brackets(record["question"]), "entities": dict(entities)}
        answer: Answer = machine.invoke(asked, context=context)["answer"]
        return answer.labels, answer.status == "answered"

    return solve


def measure(bench: Bench, progress: Progress | None = None, **options: Any) -> Iterator[Row]:
    """Answer every question in every way, a row as soon as it is done. `options` are those of `rows_of`.

    Triples that an earlier run had read are forgotten: `enrich` shall judge those of this one.
    """
    for part in ("", "-wal", "-shm"):
        bench.facts.with_name(bench.facts.name + part).unlink(missing_ok=True)
    if not options.get("zero_shot"):
        context = Context(kg=str(bench.kg), row_limit=ROW_LIMIT)
        index_seeds(bench.seeds, str(bench.kg), kg_of(context), caps_of(context), progress)
    records = _records(bench)
    linking = options.get("linking", "gold")
    for name, solve in rows_of(bench, **options):
        yield _score(name, solve, records, linking, open_kg(bench.kg).profile, progress)


def _records(bench: Bench) -> list[Record]:
    """The questions."""
    return [json.loads(line) for line in bench.questions.read_text("utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Enriched:
    """A reader of the graph alone, without the extracted triples and with them: its scores, what changed."""

    before: Row
    after: Row
    change: Change
    extraction: Extraction


def enrich(
    bench: Bench, *, linking: str = "gold", encoder: str = "embedded", progress: Progress | None = None
) -> Enriched:
    """Give a RoG-style reader the triples that `measure` had read from the documents (SymAgent, figure 4).

    Its paths are planned on the thinned graph both times; only what they retrieve differs.

    Args:
        linking: `gold` gives the topic entity. encoder: another one, such as one that has learned.
    """
    context = Context(kg=str(bench.kg), seeds=bench.seeds, row_limit=ROW_LIMIT, encoder=encoder)
    kg, records = kg_of(context), _records(bench)
    facts = [kept.fact for kept in FactStore(bench.facts).facts()]
    alone, more = RogReader(context, kg), RogReader(context, overlaid(kg, facts))
    before = _score("RoG-style reader, before", alone, records, linking, kg.profile, progress)
    after = _score("RoG-style reader, extracted triples added", more, records, linking, kg.profile, progress)
    change = changed(alone.said, more.said, [list(map(str, r["answers"])) for r in records])
    return Enriched(before, after, change, judged(facts, bench.kg / DROPPED))


def _score(
    name: str,
    solve: Solve,
    records: Sequence[Record],
    linking: str,
    profile: Profile,
    progress: Progress | None,
) -> Row:
    """How one way to answer does; a question that crashes scores 0."""
    seconds: list[float] = []
    scores: list[Overlap] = []
    answered = crashed = 0
    for number, record in enumerate(records):
        if progress is not None:
            progress(name, number, len(records))
        topic = record["topic_entity"]
        entities = {topic: profile.short(profile.name_iri(topic))} if linking == "gold" else {}
        start = time.perf_counter()
        try:
            labels, done = solve(record, entities)
        except Exception:  # noqa: BLE001 - one question must not end the experiment; it is counted
            labels, done, crashed = (), False, crashed + 1
        seconds.append(time.perf_counter() - start)
        answered += done
        gold = [[str(a) for a in record["answers"]]]
        scores.append(best_overlap(labels, gold, "names") if labels else NOTHING)
    return Row(
        name,
        questions=len(records),
        f1=statistics.fmean(s.f1 for s in scores),
        hits_at_1=statistics.fmean(s.hits_at_1 for s in scores),
        precision=statistics.fmean(s.precision for s in scores),
        recall=statistics.fmean(s.recall for s in scores),
        answered=answered / len(records),
        seconds=statistics.median(seconds),
        crashed=crashed,
    )
