"""Whether the planner's first rule is the gold path of a MetaQA question (SymAgent 4.1), and how soon.

MetaQA names the gold path of each question by kinds of nodes (`movie_to_director_to_movie`). What relation
joins two kinds is known here and nowhere else.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triplewise.evals.data import Record, benchmark, locate, read_records
from triplewise.evals.kgs import LoadedKG, prepared
from triplewise.evals.tasks.common import Linking
from triplewise.evals.tasks.metaqa import HOPS, ROW_LIMIT
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import LinkedEntity, link, without_brackets
from triplewise.tools.planning.bodies import answers, signature
from triplewise.tools.planning.indexing import index_seeds
from triplewise.tools.planning.lexical.planner import make_plan
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.planning.seed_index import Tell, seeds_for
from triplewise.tools.planning.seeds import SeedIndex, Signature
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

RELATIONS: Mapping[str, str] = {
    "director": "directed_by",
    "writer": "written_by",
    "actor": "starred_actors",
    "year": "release_year",
    "language": "in_language",
    "genre": "has_genre",
    "tag": "has_tags",
    "tags": "has_tags",
    "imdbrating": "has_imdb_rating",
    "imdbvotes": "has_imdb_votes",
}
"""What joins a film with a node of each kind; the film is always the subject."""

TARGET = 0.98


@dataclass(frozen=True, slots=True)
class Ruled:
    """How the planner did on the questions of one length.

    Attributes:
        first: share whose first rule is the gold path. listed: share whose gold path is among the rules.
        answers: share whose first rule leads to exactly the gold answers, by any path.
        linked: share whose topic was found. median, p95: seconds a question, linking included.
        wrong: most frequent gold paths among those missed, with the path that stood first.
    """

    hops: int
    linking: str
    questions: int
    first: float
    listed: float
    answers: float
    linked: float
    median: float
    p95: float
    wrong: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All of it: seeds and how many were mined, seconds of mining (0 where done before), the scores."""

    seeds: int
    mined: int
    index_seconds: float
    rows: tuple[Ruled, ...]


@dataclass(frozen=True, slots=True)
class _Planner:
    """What every question is planned with."""

    kg: KnowledgeGraph
    encoder: Encoder
    seeds: SeedIndex
    linking: Linking

    def rules(self, record: Record) -> tuple[tuple[LinkedEntity, ...], tuple[Rule, ...]]:
        """The entities and rules of a question."""
        question, topic = without_brackets(record["question"]), record["topic_entity"]
        known = {topic: self.kg.profile.short(self.kg.profile.name_iri(topic))}
        given: dict[str, str | None] = dict(known) if self.linking == "gold" else {}
        linked = link(question, self.kg, given=given, encoder=self.encoder)
        return linked, make_plan(question, linked, self.kg, self.encoder, self.seeds, PlanSettings()).rules


def gold_path(qtype: str) -> Signature:
    """The relations that a question type names, with their directions.

    Raises:
        KeyError: a kind of node that is not MetaQA's.
    """
    kinds = qtype.split("_to_")
    steps = itertools.pairwise(kinds)
    return tuple((RELATIONS[b], True) if a == "movie" else (RELATIONS[a], False) for a, b in steps)


def prepare(tell: Tell | None = None) -> tuple[LoadedKG, SeedIndex, Any]:
    """MetaQA's graph with its dev questions mined and kept; mined now where they are not yet."""
    loaded = prepared_graph()
    kg = open_kg(loaded.path, limit=ROW_LIMIT)
    own = benchmark("metaqa")
    path = ",".join(str(locate(own.files[f"metaqa/dev_{h}hop.jsonl.gz"])) for h in HOPS)
    report = index_seeds(path, loaded.path, kg, PlanSettings().mining, tell)
    seeds = seeds_for(loaded.path, kg, path, PlanSettings().mining)
    assert seeds is not None
    return loaded, seeds, report


def prepared_graph() -> LoadedKG:
    """The graph in the cache."""
    from triplewise.evals.data import graph

    return prepared(graph(benchmark("metaqa").graph))


def measure(
    count: int, sample_seed: int = 0, linkings: Sequence[Linking] = ("gold", "own"), tell: Tell | None = None
) -> Measured:
    """Plan test questions of every length.

    Args:
        count: questions of each length. sample_seed: of the draw. linkings: whether the topic is given.
        tell: told stage, done, total.
    """
    loaded, seeds, report = prepare(tell)
    kg, encoder = open_kg(loaded.path, limit=ROW_LIMIT), open_encoder("embedded")
    rows = []
    for linking in linkings:
        planner = _Planner(kg, encoder, seeds, linking)
        for hops in HOPS:
            records = drawn(hops, count, sample_seed)
            rows.append(_score(planner, hops, records, tell))
    seconds = report.seconds if report.before < report.mined else 0.0
    return Measured(report.seeds, report.mined, seconds, tuple(rows))


def drawn(hops: int, count: int, sample_seed: int, split: str = "test") -> list[Record]:
    """Questions of one length in random order."""
    file = benchmark("metaqa").files[f"metaqa/{split}_{hops}hop.jsonl.gz"]
    records = read_records(locate(file), "question", "topic_entity", "answers", "qtype")
    random.Random(sample_seed).shuffle(records)
    return records[:count]


def _score(planner: _Planner, hops: int, records: Sequence[Record], tell: Tell | None) -> Ruled:
    """The scores of some questions."""
    seconds: list[float] = []
    found: list[tuple[bool, bool, bool, bool]] = []
    wrong: Counter[tuple[str, str]] = Counter()
    for number, record in enumerate(records):
        if tell is not None:
            tell(f"{hops} hops, {planner.linking} linking", number, len(records))
        start = time.perf_counter()
        linked, rules = planner.rules(record)
        seconds.append(time.perf_counter() - start)
        found.append(_judge(planner.kg, record, linked, rules))
        if not found[-1][0]:
            wrong[record["qtype"], _shown(rules)] += 1
    ranked = sorted(seconds)
    first, listed, same, topic = (sum(column) / len(found) for column in zip(*found, strict=True))
    return Ruled(
        hops,
        planner.linking,
        len(records),
        *(first, listed, same, topic),
        statistics.median(ranked),
        ranked[max(0, -(-len(ranked) * 95 // 100) - 1)],
        tuple((q, p, n) for (q, p), n in wrong.most_common(10)),
    )


def _judge(
    kg: KnowledgeGraph, record: Record, linked: Sequence[LinkedEntity], rules: Sequence[Rule]
) -> tuple[bool, bool, bool, bool]:
    """Whether the first rule is the gold path, any is, it leads to the gold answers, the topic was found."""
    gold, topic = gold_path(record["qtype"]), kg.profile.name_iri(record["topic_entity"])
    paths = [_is_gold(kg, rule, gold, topic) for rule in rules]
    same = bool(rules) and _names(kg, rules[0]) == set(map(str, record["answers"]))
    found = any(kg.profile.expand(e.id) == topic for e in linked)
    return bool(paths) and paths[0], any(paths), same, found


def _is_gold(kg: KnowledgeGraph, rule: Rule, gold: Signature, topic: IRI) -> bool:
    """Whether a rule is a gold path from its topic, with no condition besides that paths are simple."""
    plain = all(c.kind == "distinct" for c in rule.constraints)
    return plain and signature(rule.body) == gold and kg.profile.expand(rule.anchor) == topic


def _names(kg: KnowledgeGraph, rule: Rule) -> set[str]:
    """Labels of what a rule leads to."""
    found = answers(kg, rule)
    labels = kg.labels(found)
    return {labels.get(t) or kg.profile.short(t) for t in found}


def _shown(rules: Sequence[Rule]) -> str:
    """The path of the first rule."""
    if not rules:
        return "no rule"
    extras = "".join(f" {c.kind}" for c in rules[0].constraints if c.kind != "distinct")
    path = " ".join(f"{'' if a.forward else '^'}{a.relation}" for a in rules[0].body)
    return f"{path}{extras} from {rules[0].anchor}"
