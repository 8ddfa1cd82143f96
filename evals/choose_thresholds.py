"""Choose the thresholds and weights by which chains are aligned to words, by training questions alone.

    python -m triplewise.evals.choose_thresholds [--encoder embedded] [--questions 60] [--rounds 1]

A coordinate search over the fields of `Thresholds`: each is moved up and down; a move stays where the mean
F1 of first chains over all sets of questions (`question_sets.py`) rises. No test file is read. What was
chosen is written to `tools/parsing/thresholds.yaml`. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import typer
import yaml

from triplewise.evals.question_sets import question_sets
from triplewise.tools.core.errors import TriplewiseError
from triplewise.tools.core.overlap import overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import AnswerCache
from triplewise.tools.learning.parser_training import Labelled
from triplewise.tools.linking.linker import LinkedEntity, link, without_brackets
from triplewise.tools.parsing.chains import Chain, ChainGrower, topics_of, wording_of
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.similarity import Thresholds, thresholds_of
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

SETS = ("webqsp", "wikiwebquestions", "qald10", "metaqa", "demo", "cars", "units", "elements")
STEPS: Mapping[str, float] = {
    "spoken": 0.05, "same": 0.05, "unrelated": 0.05, "floor": 0.1, "end": 0.2, "hint": 0.05, "join": 0.1,
    "relation": 0.2, "word": 0.15,
}  # fmt: skip
"""How far each threshold is moved at once."""
HEADER = """\
# What the cosines of an encoder mean, and how chains are aligned to words: `Thresholds` in `similarity.py`.
# Written by `python -m triplewise.evals.choose_thresholds`.
"""
_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """A training question, linked once; its session of the KG remembers what was asked for it before."""

    text: str
    kg: KnowledgeGraph
    linked: tuple[LinkedEntity, ...]
    gold: frozenset[str]

    def f1(self, encoder: Encoder) -> float:
        """Return the F1 of the best chain; a question without an answer wants none."""
        index = GraphIndex.of(self.kg, encoder)
        question = ground(self.text, index, linked=self.linked)
        for anchor in question.anchors:
            anchor.score = 1.0  # all that are linked count
        topics, chains = topics_of(question), list[Chain]()
        for topic in topics:
            grower = ChainGrower(index, self.kg, encoder, wording_of(question, topic, topics))
            chains += grower.chains(min(topic.mentions))
        best = max(chains, key=lambda chain: chain.score, default=None)
        terms = [index.terms[node] for node in best.denotation] if best else []
        short = self.kg.profile.short
        return overlap([short(v) if isinstance(v, IRI) else v.value for v in terms], self.gold).f1


def sample(
    kg: KnowledgeGraph, rows: Sequence[Labelled], count: int, seed: int, encoder: Encoder
) -> list[Question]:
    """Return some questions of a set, those whose entities the graph knows."""
    questions = []
    for text, entities, gold in random.Random(seed).sample(rows, min(count, len(rows))):
        session = kg.session(answers=AnswerCache())
        with suppress(TriplewiseError):
            linked = link(text, session, entities, encoder)
            iris = {a: kg.profile.expand(a.strip("<>")) for a in gold[0]}
            forms = {kg.profile.short(i) if i else a.partition("^^")[0].strip('"') for a, i in iris.items()}
            questions.append(Question(without_brackets(text), session, linked, frozenset(forms)))
    return questions


def choose(
    sets: Mapping[str, Sequence[Question]], encoder: Any, best: Thresholds, rounds: int
) -> tuple[Thresholds, dict[str, float]]:
    """Search by coordinates; return the best thresholds with the mean F1 of each set."""

    def measure(thresholds: Thresholds) -> dict[str, float]:
        encoder.thresholds = thresholds  # those that an encoder carries go before all others
        return {name: round(fmean(q.f1(encoder) for q in questions), 4) for name, questions in sets.items()}

    figures = measure(best)
    _log.info("%s %s", best, figures)
    for field in list(STEPS) * rounds:
        for move in (STEPS[field], -STEPS[field]):
            moved = replace(best, **{field: round(getattr(best, field) + move, 3)})
            measured = measure(moved)
            mean, before = fmean(measured.values()), fmean(figures.values())
            _log.info("%s %+.2f: %.4f, before %.4f", field, move, mean, before)
            if mean > before:
                best, figures = moved, measured
                break
    return best, figures


def main(
    encoder: str = "embedded",
    questions: Annotated[int, typer.Option(help="Questions of each set.")] = 60,
    rounds: int = 1,
    seed: Annotated[int, typer.Option(help="Of the questions drawn.")] = 1,
) -> None:
    """Choose the thresholds of one encoder and write them beside those of others."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    opened = open_encoder(encoder)
    sets = {s.name: sample(s.open(), s.questions, questions, seed, opened) for s in question_sets(SETS)}
    best, figures = choose(sets, opened, thresholds_of(opened), rounds)
    path = Path(str(files("triplewise.tools.parsing"))) / "thresholds.yaml"
    written = yaml.safe_load(path.read_text("utf-8"))
    written["encoders"][opened.name] = asdict(best)
    chosen = {"date": f"{date.today():%Y-%m-%d}", "questions": questions, "f1": figures}
    written["chosen"][opened.name] = chosen
    path.write_text(HEADER + yaml.safe_dump(written, sort_keys=False), "utf-8")
    _log.info("%s: %s %s", path, best, figures)


if __name__ == "__main__":
    typer.run(main)
