"""Train the parser without a model: its weights and its confidence, from questions and answers alone.

Every round parses all questions and trains on what was found, from the second on under weights trained
without their graph; figures and the confidence are by such weights too. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyoxigraph as ox
import typer

from triplewise.evals.question_sets import SETS, QuestionSet, question_sets
from triplewise.graphs.commands import flag, option
from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.protocol import origin_of
from triplewise.tools.learning import calibration
from triplewise.tools.learning.calibration import Row
from triplewise.tools.learning.parser_training import Labelled, derivations, labelled_example
from triplewise.tools.parsing import learn
from triplewise.tools.parsing.confidence import FILE, is_answer, trust_features
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.learn import Example, Features, Vocabulary, shares, train
from triplewise.tools.parsing.query import Nodes, Query, parts_of
from triplewise.tools.retrieval.encoder import open_encoder

MADE = 0.4  # share of the questions that are asked once more of a graph without what they need
FOREIGN = 25  # questions about other graphs that each small graph is asked: it has no answer to them
TALK = 10  # of `small_talk.yaml`
MADE_WEIGHT = 0.3  # what such a question counts for the confidence: they are more than people ask
ENTITIES = 3  # one in so many questions loses an entity, the others a relation
MOST_TRIPLES = 50_000  # nothing is taken from larger graphs
FOLDER = Path(str(files("triplewise.tools.parsing")))  # where weights and confidence are written
_PARTS: Mapping[str, Features] = packaged("triplewise.evals", "parser_prior.yaml")
PRIOR: Features = {name: weight for part in _PARTS.values() for name, weight in part.items()}
"""Hand-set weights, where training starts and what it is drawn to."""
_log = logging.getLogger(__name__)


# -- questions that a graph cannot answer: what the right reading of one uses is taken away. A plausible
# neighbour is usually left: the second-best relation, a part of the name.


class Taken(NamedTuple):
    """What is taken from a graph: a relation with all of its facts, or an entity with all facts about it."""

    iri: IRI
    is_relation: bool


def needed(query: Query, index: GraphIndex) -> tuple[Taken, ...]:
    """Return the relations and the named entities without which a query has another answer, or none."""
    found = list[Taken]()
    for node in parts_of(query):
        found += [Taken(index.rels[number].path[-1][0], True) for number, _ in getattr(node, "path", ())]
        if isinstance(node, Nodes) and len(node.nodes) == 1:
            found += [Taken(term, False) for n in node.nodes if isinstance(term := index.terms[n], IRI)]
    return tuple(dict.fromkeys(found))


def without(kg: KnowledgeGraph, taken: Taken) -> LocalKG | None:
    """Return a copy of a graph without something; None for one that is too large or not in this process."""
    origin = origin_of(kg)
    if not isinstance(origin, LocalKG) or len(quads := list(origin.quads())) > MOST_TRIPLES:
        return None
    node, rest = ox.NamedNode(taken.iri.value), ox.Store()
    for quad in quads:
        if quad.predicate != node if taken.is_relation else node not in (quad.subject, quad.object):
            rest.add(quad)
    return LocalKG(rest, origin.profile, f"{origin.name} without {taken.iri.value}")


def chosen(uses: Sequence[tuple[Taken, ...]], count: int) -> Mapping[Taken, list[int]]:
    """Return what to take, with the numbers of the questions, some `count`, that are then asked."""
    made: dict[Taken, list[int]] = defaultdict(list)
    usable = [(number, options) for number, options in enumerate(uses) if options]
    for turn, (number, options) in enumerate(usable[:count]):
        wanted = turn % ENTITIES != 0
        made[next((taken for taken in options if taken.is_relation is wanted), options[0])].append(number)
    return made


# -- parsing and training


@dataclass(slots=True)
class Pool:
    """Questions of a set with the derivations found for each.

    `uses` is what the best right derivation needs of the graph; `made`: how they were made unanswerable.
    """

    of: QuestionSet
    questions: Sequence[Labelled]
    examples: list[Example]
    uses: list[tuple[Taken, ...]]
    made: str = ""

    def rows(self, weights: Features, vocabulary: Vocabulary) -> list[Row]:
        """What comes of each question under some weights: whether the first answer is right, the evidence."""
        names, rows = list(vocabulary), list[Row]()
        vector = np.array([weights.get(name, 0.0) for name in names])
        for question, found in zip(self.questions, self.examples, strict=True):
            ranked, features = shares(found.scores(vector), found.answers.tolist()), found.features(names)
            is_given = bool(ranked) and is_answer(features[ranked[0].best])
            is_right = is_given and bool(found.right[ranked[0].best])
            evidence = trust_features(features, ranked) if is_given else {}
            counts = (any(question.answers), self.of.is_clean, MADE_WEIGHT if self.made else 1.0)
            rows.append(Row(self.of.graph, question.question, is_right, evidence, *counts))
        return rows

    @property
    def found(self) -> int:
        """Answerable questions with the right answer among the derivations."""
        pairs = zip(self.questions, self.examples, strict=True)
        return sum(bool(e.right.any()) for q, e in pairs if any(q.answers))


def parse(
    of: QuestionSet,
    questions: Sequence[Labelled],
    weights: Features,
    vocabulary: Vocabulary,
    rest: KnowledgeGraph | None = None,
) -> Pool:
    """Parse questions of a set under some weights, over its graph or over the rest of it."""
    kg = rest or of.open()
    pool = Pool(of, questions, [], [])
    for question in questions:
        index, found = derivations(question, kg, open_encoder(), weights)
        judged = labelled_example(of.graph, question, found, kg, index, vocabulary, of.least)
        pool.examples.append(judged)
        best = next((c for c, is_good in zip(found, judged.right, strict=True) if is_good and c.answer), None)
        pool.uses.append(needed(best.query, index) if best is not None else ())
    return pool


def made_unanswerable(pool: Pool, weights: Features, vocabulary: Vocabulary, share: float) -> Pool:
    """Parse a share of the questions over the graph without what their answers need."""
    kg, questions = pool.of.open(), list[Labelled]()
    made = Pool(pool.of, questions, [], [], "made")
    for taken, numbers in chosen(pool.uses, round(share * len(pool.questions))).items():
        if (rest := without(kg, taken)) is None:
            break
        asked = [pool.questions[number] for number in numbers]
        with closing(rest):
            parsed = parse(pool.of, asked, weights, vocabulary, rest)
        for question, found in zip(asked, parsed.examples, strict=True):
            if not found.right.any():
                questions.append(question._replace(answers=((),)))
                made.examples.append(found)
                made.uses.append(())
    return made


def foreign(pool: Pool, pools: Sequence[Pool], weights: Features, vocabulary: Vocabulary) -> Pool:
    """Ask a small graph questions about others, and small talk, of which it has no answer."""
    others = [q.question for p in pools if p.of.graph != pool.of.graph for q in p.questions]
    rng, talk = random.Random(pool.of.name), packaged("triplewise.evals", "small_talk.yaml")
    drawn = [t for of, most in ((others, FOREIGN), (talk, TALK)) for t in rng.sample(of, min(most, len(of)))]
    asked = [Labelled(text, {}, ((),)) for text in drawn]
    return replace(parse(pool.of, asked, weights, vocabulary), made="foreign")


def weighted(pools: Iterable[Pool]) -> list[Example]:
    """The examples of pools, each as often as one counts."""
    return [e for pool in pools for e in pool.examples for _ in range(pool.of.weight)]


def left_out(pools: Iterable[Pool], vocabulary: Vocabulary) -> dict[str, Features]:
    """Graph -> weights trained without it."""
    every = weighted(pools)
    graphs = dict.fromkeys(e.group for e in every)
    return {g: train([e for e in every if e.group != g], vocabulary, PRIOR) for g in graphs}


def table(pools: Sequence[Pool], rows: Sequence[Sequence[Row]], least: float, trained: Sequence[Row]) -> str:
    """The figures of pools and of all clean ones, by a confidence that saw none of their graphs."""
    given = [row for part in rows for row in part if row.features]
    estimates = calibration.cross_validated([row for row in trained if row.features], given).tolist()
    sure_of = {id(row): estimate for row, estimate in zip(given, estimates, strict=True)}
    parts = [(f"{p.of.name} {p.made}", part, p.found) for p, part in zip(pools, rows, strict=True)]
    for name, is_clean in (("clean", True), ("others", False)):
        own = [(p, part) for p, part in zip(pools, rows, strict=True) if p.of.is_clean is is_clean]
        asked = [(p, part) for p, part in own if not p.made]
        parts.append((name, [row for _, part in asked for row in part], sum(p.found for p, _ in asked)))
    measured = {}
    for name, part, found in parts:
        figures = calibration.figures(part, np.array([sure_of.get(id(row), 0.0) for row in part]), least)
        measured[name] = {**figures, "found": found / max(figures["answerable"], 1)}
    text: str = pd.DataFrame(measured).T.to_string(float_format="{:.4g}".format)
    return text


app = typer.Typer()


@app.command()
def main(
    sets: str = option("NAME,...", "Sets of questions; all by default.", ""),
    questions: int = option("N", "Questions of each set.", 200),
    rounds: int = option("N", "How often all questions are parsed.", 2),
    report: bool = flag("Only measure; write nothing.", "--report"),
    held_out: bool = flag("Measure the held-out questions too, in the same way.", "--held-out"),
) -> None:
    """Parse, train, report, write."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    used = list(question_sets(filter(None, sets.split(","))))
    vocabulary, pools = Vocabulary(), list[Pool]()
    without_graph: dict[str, Features] = {s.graph: PRIOR for s in used}
    for number in range(rounds):
        pools = []
        for s in used:
            start = time.monotonic()
            pools.append(parse(s, s.questions[:questions], without_graph[s.graph], vocabulary))
            seconds = (time.monotonic() - start) / max(len(pools[-1].questions), 1)
            _log.info("round %d: %s, %.2f s a question", number + 1, s.name, seconds)
        if len(without_graph) > 1:
            without_graph = left_out(pools, vocabulary)
    weights = train(weighted(pools), vocabulary, PRIOR)
    small = [pool for pool in pools if "small" in SETS[pool.of.name]]
    strange = [foreign(p, pools, without_graph[p.of.graph], vocabulary) for p in small]
    pools += [made_unanswerable(p, without_graph[p.of.graph], vocabulary, MADE) for p in pools] + strange
    rows = [pool.rows(without_graph[pool.of.graph], vocabulary) for pool in pools]
    trained = [row for part in rows for row in part]
    confidence = calibration.train(trained, {"questions": {p.of.name: len(p.questions) for p in pools}})
    _log.info("%s", table(pools, rows, confidence.min_confidence, trained))
    _log.info("min_confidence %g, floor %g", confidence.min_confidence, confidence.floor)
    if not report:
        learn.write_weights(weights, FOLDER / learn.FILE)
        confidence.write(FOLDER / FILE)
    if held_out:
        kept = [parse(s, s.held_out[:questions], without_graph[s.graph], vocabulary) for s in used]
        asked = [pool.rows(without_graph[pool.of.graph], vocabulary) for pool in kept]
        _log.info("held out\n%s", table(kept, asked, confidence.min_confidence, trained))


if __name__ == "__main__":
    app()
