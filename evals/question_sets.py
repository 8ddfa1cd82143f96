"""Questions with answers that the parser is trained on, with the graphs that they are asked of.

No test file is read. Of every set a fifth, by a checksum of the id, is held out for the last report.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from triplewise.evals.data import benchmark, data_folder, graph, prepared, read_data, read_records
from triplewise.evals.training import seeds_of
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record, write_text
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.learning.parser_training import Labelled
from triplewise.tools.linking.linker import without_brackets

PARTIAL = 0.5  # F1 from which an answer counts as right where neither graph nor gold answers are complete
HELD_OUT = 5  # one question in so many is held out
FILES = {
    "geoquery": ("geoquery", "train"),
    **{name: ("strangers", name) for name in ("cars", "elements", "units")},
    **{name: ("overnight", f"{name}_train") for name in ("calendar", "housing", "recipes", "restaurants")},
}
"""Sets over small complete graphs -> folder, and file of the questions."""
OWN = ("company", "library", "league", "university", "airline", "festival", "clinic", "ferries")
"""Sets that come with the package, in `own`: a small graph each, and what somebody asked of it."""
PAIRS = ("staff", "rivers", "artists")
CLEAN = ("geoquery", "cars", "elements", "units", *OWN, "metaqa")
SETS = (*FILES, *OWN, *PAIRS, "demo", "metaqa", "webqsp", "wikiwebquestions", "qald10")
_ASKED = 2  # things that each phrase of a made-up graph is filled in with
_PREFIXES = "@prefix : <http://{}.example/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
UNRELIABLE = re.compile(
    r"(MAX|MIN)\( \S*ELEVATION|ELEVATION [<>]|COUNT\( (1|\S+\.(RIVER_NAME|TRAVERSE|CITY_NAME))"
)
"""Gold SQL of GeoQuery that is wrong: elevations compare as text, and rows of one thing count twice."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions over one graph, to train on and `held_out`, in a random order that is always the same.

    `source` is what `open_kg` opens; `least` the F1 from which an answer is right; `is_clean`: questions are
    ordinary and gold answers reliable, so that they give the threshold.
    """

    name: str
    graph: str
    source: str
    least: float
    is_clean: bool
    questions: list[Labelled] = field(repr=False)
    held_out: list[Labelled] = field(repr=False)

    def open(self) -> KnowledgeGraph:
        """The graph, opened."""
        return open_kg(self.source)


def question_sets(names: Iterable[str] = ()) -> Iterator[QuestionSet]:
    """Return the sets of some names (all by default). Raises `ConfigurationError` on an unknown one."""
    chosen = list(names) or list(SETS)
    if unknown := set(chosen) - set(SETS):
        raise ConfigurationError.unknown("set", unknown.pop(), SETS)
    yield from map(_load, chosen)


def _load(name: str) -> QuestionSet:
    """Small complete graphs and MetaQA are asked for all answers, benchmarks over partial graphs for most."""
    of, least, asked = name, 1.0, list[tuple[str, Labelled]]()
    if name in FILES:
        folder, file = FILES[name]
        records = read_records(data_folder() / folder / f"{file}.jsonl.gz", "question", "answers")
        plain = (r for r in records if not (r["answers"] and isinstance(r["answers"][0], list)))
        is_geo = name == "geoquery"
        asked = _plain(r for r in plain if not (is_geo and UNRELIABLE.search(str(r.get("query", "")))))
        source = str(data_folder() / folder / f"{name}.ttl.gz")
    elif name in OWN:
        own_files = Path(str(files("triplewise.evals"))) / "own"
        source, asked = str(own_files / f"{name}.ttl"), _plain(read_records(own_files / f"{name}.jsonl"))
    elif name in PAIRS:
        turtle, questions = pair_graph(name)
        key = f"pairs-{name}-{zlib.crc32(turtle.encode()):08x}.ttl"
        kept = user_cache_path("triplewise") / "evals" / key
        source = str(kept)
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text(kept, turtle)
        asked = [(question.question, question) for question in questions]
    elif name == "demo":  # questions that come with the graph are no part of them
        source, path = "demo", Path(str(files("triplewise.evals"))) / "demo_training.jsonl"
        asked = _plain(read_records(path))
    elif name == "metaqa":  # development questions of all hops, their topic named in them
        source = prepared(graph("metaqa")).path
        for hops in (1, 2, 3):
            for r in read_records(data_folder() / "metaqa" / f"dev_{hops}hop.jsonl.gz"):
                text = without_brackets(r["question"])
                asked.append((str(r["id"]), Labelled(text, {}, (tuple(r["answers"]),))))
    else:  # with the entities of their gold queries
        own = benchmark(name)
        loaded = prepared(graph(own.graph))
        of, source, least = own.graph, loaded.path, PARTIAL
        for r in read_records(Path(str(seeds_of(own, loaded, True).setting))):
            asked.append((str(r["id"]), Labelled(r["question"], r["entities"], (tuple(r["answers"]),))))
    parts: tuple[list[Labelled], list[Labelled]] = [], []
    for id_, labelled in asked:
        parts[zlib.crc32(id_.encode()) % HELD_OUT == 0].append(labelled)
    for part in parts:
        random.Random(0).shuffle(part)
    return QuestionSet(name, of, source, least, name in CLEAN, *parts)


def _plain(records: Iterable[Record]) -> list[tuple[str, Labelled]]:
    """Questions without entities by id, with all their complete answers."""
    asked = []
    for r in records:
        golds = (tuple(map(str, r["answers"])), *(tuple(map(str, gold)) for gold in r.get("also", ())))
        asked.append((str(r.get("id", r["question"])), Labelled(r["question"], {}, golds)))
    return asked


def pair_graph(name: str) -> tuple[str, list[Labelled]]:
    """Return a made-up graph of `pairs.yaml` in Turtle, and its questions. The same every time."""
    data = read_data("pairs.yaml")
    made, rng = data["graphs"][name], random.Random(name)
    names: list[str] = made["members"]
    count = len(names)
    numbers = [made["least"] + made["least"] // 10 * rank for rank in rng.sample(range(count), count)]
    lines = [f':C rdfs:label "{made["kind"]}" .', f':n rdfs:label "{made["number"]}" .']
    lines += [f':e{i} a :C ; rdfs:label "{names[i]}" ; :n {numbers[i]} .' for i in range(count)]
    questions = [*_aggregates(data["aggregates"], made, dict(zip(names, numbers, strict=True)))]
    for relation, (label, phrases) in enumerate(made["relations"].items()):
        order = rng.sample(range(count), count)
        # A forest: each thing but the first leads to an earlier one.
        facts = [(order[i], order[rng.randrange(i)]) for i in range(1, count)]
        lines += [f':r{relation} rdfs:label "{label}" .', *(f":e{a} :r{relation} :e{b} ." for a, b in facts)]
        for phrase, end in [(phrase, side) for side in (0, 1) for phrase in phrases[side]]:
            both = sorted({a for a, _ in facts} & {b for _, b in facts})
            for thing in rng.sample(both, min(_ASKED, len(both))):
                answers = tuple(names[fact[end]] for fact in facts if fact[1 - end] == thing)
                questions.append(Labelled(phrase.format(names[thing]), {}, (answers,)))
    return _PREFIXES.format(name) + "\n".join(lines), questions


def _aggregates(
    phrases: Mapping[str, list[str]], made: Mapping[str, Any], numbers: Mapping[str, int]
) -> Iterator[Labelled]:
    """Questions for an average, a sum, and the ends of the scale."""
    ranked = sorted(numbers, key=lambda name: numbers[name])
    total = sum(numbers.values())
    values = {"average": total / len(numbers), "sum": total, "maximum": numbers[ranked[-1]]}
    answers = {"highest": ranked[-1], "lowest": ranked[0], **{kind: str(v) for kind, v in values.items()}}
    for kind, phrase in ((kind, p) for kind, own in phrases.items() for p in own):
        yield Labelled(phrase.format(kind=made["kind"], number=made["number"]), {}, ((answers[kind],),))
