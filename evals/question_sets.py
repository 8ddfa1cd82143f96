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

from triplewise.evals.data import catalog, data_folder, prepared, read_records
from triplewise.evals.training import seeds_of
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record, packaged
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.learning.parser_training import Labelled
from triplewise.tools.linking.linker import without_brackets

PARTIAL = 0.5  # F1 from which an answer counts as right where neither graph nor gold answers are complete
HELD_OUT = 5  # one question in so many is held out
SETS: Mapping[str, Mapping[str, Any]] = packaged("triplewise.evals", "sets.yaml")
UNRELIABLE = re.compile(
    r"(MAX|MIN)\( \S*ELEVATION|ELEVATION [<>]|COUNT\( (1|\S+\.(RIVER_NAME|TRAVERSE|CITY_NAME))"
)
"""Gold SQL of GeoQuery that is wrong: elevations compare as text, and rows of one thing count twice."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions over one graph, to train on and `held_out`, in a random order that is always the same."""

    name: str
    graph: str
    source: str  # what `open_kg` opens
    least: float  # the F1 from which an answer is right
    is_clean: bool  # questions are ordinary and gold answers reliable, so that they give the threshold
    questions: list[Labelled] = field(repr=False)
    held_out: list[Labelled] = field(repr=False)
    weight: int = 1  # of a question in training

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
    here = Path(str(files("triplewise.evals")))
    own_files = here / "own" / name
    if "file" in SETS[name]:
        folder, file = SETS[name]["folder"], SETS[name]["file"]
        records = read_records(data_folder() / folder / f"{file}.jsonl.gz", "question", "answers")
        plain = (r for r in records if not (r["answers"] and isinstance(r["answers"][0], list)))
        is_geo = name == "geoquery"
        asked = _plain(r for r in plain if not (is_geo and UNRELIABLE.search(str(r.get("query", "")))))
        if folder == "overnight":
            asked = [(id_, _with_others(question)) for id_, question in asked]
        source = str(data_folder() / folder / f"{name}.ttl.gz")
    elif "own" in SETS[name]:
        source, asked = f"{own_files}.ttl", _plain(read_records(own_files.with_suffix(".jsonl")))
    elif name == "demo":  # without the questions shipped with the graph
        source, asked = name, _plain(read_records(here / "demo_training.jsonl"))
    elif name == "metaqa":  # development questions of all hops, their topic named in them
        source = prepared(catalog().graphs["metaqa"]).path
        for hops in (1, 2, 3):
            for r in read_records(data_folder() / "metaqa" / f"dev_{hops}hop.jsonl.gz"):
                text = without_brackets(r["question"])
                asked.append((str(r["id"]), Labelled(text, {}, (tuple(r["answers"]),))))
    else:  # with the entities of their gold queries
        own = catalog().benchmarks[name]
        loaded = prepared(catalog().graphs[own.graph])
        of, source, least = own.graph, loaded.path, PARTIAL
        for r in read_records(Path(str(seeds_of(own, loaded, True).setting))):
            asked.append((str(r["id"]), Labelled(r["question"], r["entities"], (tuple(r["answers"]),))))
    parts: tuple[list[Labelled], list[Labelled]] = [], []
    for id_, labelled in asked:
        parts[zlib.crc32(id_.encode()) % HELD_OUT == 0].append(labelled)
    for part in parts:
        random.Random(0).shuffle(part)
    return QuestionSet(name, of, source, least, "clean" in SETS[name], *parts, SETS[name].get("weight", 1))


def _plain(records: Iterable[Record]) -> list[tuple[str, Labelled]]:
    """Questions without entities by id, with all their complete answers."""
    asked = []
    for r in records:
        golds = (tuple(map(str, r["answers"])), *(tuple(map(str, gold)) for gold in r.get("also", ())))
        asked.append((str(r.get("id", r["question"])), Labelled(r["question"], {}, golds)))
    return asked


def _with_others(question: Labelled) -> Labelled:
    """Overnight's programs keep X among what has "the same ... as X", where people mean the others: both are
    right."""
    text = question.question.lower()
    if "same" not in text.split() or not any(question.answers):
        return question
    names = {id_: id_.rsplit("/", 1)[-1].replace("_", " ") for id_ in question.answers[0]}
    others = tuple(id_ for id_, name in names.items() if name not in text or name.isdigit())
    return question._replace(answers=tuple(filter(None, dict.fromkeys((*question.answers, others)))))
