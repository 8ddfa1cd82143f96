"""Questions with answers that the parser is trained on, with the graphs that they are asked of.

No test file is read. Of every set a fifth, by a checksum of the id, is held out for the last report.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    for name in chosen:
        yield SETS[name](name)


def _set(
    name: str,
    of: str,
    source: str,
    asked: Iterable[tuple[str, Labelled]],
    least: float = 1.0,
    is_clean: bool = True,
) -> QuestionSet:
    """A set of questions by id, shuffled, the fifth that is held out apart."""
    kept: list[Labelled] = []
    held: list[Labelled] = []
    for id_, labelled in asked:
        (held if zlib.crc32(id_.encode()) % HELD_OUT == 0 else kept).append(labelled)
    for part in (kept, held):
        random.Random(0).shuffle(part)
    return QuestionSet(name, of, source, least, is_clean, kept, held)


def _plain(records: Iterable[Record]) -> Iterator[tuple[str, Labelled]]:
    """Questions without entities, with all their complete answers."""
    for r in records:
        golds = (tuple(map(str, r["answers"])), *(tuple(map(str, gold)) for gold in r.get("also", ())))
        yield str(r.get("id", r["question"])), Labelled(r["question"], {}, golds)


def _small(
    folder: str, facts: str, questions: str, unreliable: re.Pattern[str] | None = None
) -> Callable[[str], QuestionSet]:
    """A small complete graph in Turtle; questions whose gold query has what is `unreliable` are left out."""

    def load(name: str) -> QuestionSet:
        path = data_folder() / folder
        records = read_records(path / f"{questions.format(name)}.jsonl.gz", "question", "answers")
        rows = (
            r
            for r in records
            if not (r["answers"] and isinstance(r["answers"][0], list))
            and not (unreliable and unreliable.search(str(r.get("query", ""))))
        )
        source = str(path / f"{facts.format(name)}.ttl.gz")
        return _set(name, name, source, _plain(rows), is_clean=folder != "overnight")

    return load


def _demo(name: str) -> QuestionSet:
    """Training questions over the demo graph, but those that come with it."""
    path = Path(str(files("triplewise.evals"))) / "demo_training.jsonl"
    return _set(name, "demo", "demo", _plain(read_records(path)), is_clean=False)


def _metaqa(name: str) -> QuestionSet:
    """Development questions of all hops. Their topic is named in them."""

    def asked() -> Iterator[tuple[str, Labelled]]:
        for hops in (1, 2, 3):
            for r in read_records(data_folder() / "metaqa" / f"dev_{hops}hop.jsonl.gz"):
                text = without_brackets(r["question"])
                yield str(r["id"]), Labelled(text, {}, (tuple(r["answers"]),))

    return _set(name, "metaqa", prepared(graph("metaqa")).path, asked())


def _benchmark(name: str) -> QuestionSet:
    """Training questions of a benchmark over a partial graph, with the entities of their gold queries."""
    own = benchmark(name)
    loaded = prepared(graph(own.graph))
    seeds = read_records(Path(str(seeds_of(own, loaded, True).setting)))
    asked = ((str(r["id"]), Labelled(r["question"], r["entities"], (tuple(r["answers"]),))) for r in seeds)
    return _set(name, own.graph, loaded.path, asked, PARTIAL, is_clean=False)


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


def _pairs(name: str) -> QuestionSet:
    """A made-up graph, kept in the user's cache folder."""
    turtle, questions = pair_graph(name)
    path = user_cache_path("triplewise") / "evals" / f"pairs-{name}-{zlib.crc32(turtle.encode()):08x}.ttl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, turtle)
    return _set(name, name, str(path), ((q.question, q) for q in questions), is_clean=False)


SETS: Mapping[str, Callable[[str], QuestionSet]] = {
    "geoquery": _small("geoquery", "{}", "train", UNRELIABLE),
    "cars": _small("strangers", "{}", "{}"),
    "elements": _small("strangers", "{}", "{}"),
    "units": _small("strangers", "{}", "{}"),
    "calendar": _small("overnight", "{}", "{}_train"),
    "housing": _small("overnight", "{}", "{}_train"),
    "recipes": _small("overnight", "{}", "{}_train"),
    "restaurants": _small("overnight", "{}", "{}_train"),
    "staff": _pairs,
    "rivers": _pairs,
    "artists": _pairs,
    "demo": _demo,
    "metaqa": _metaqa,
    "webqsp": _benchmark,
    "wikiwebquestions": _benchmark,
    "qald10": _benchmark,
}
"""Name of a set -> what loads it."""
