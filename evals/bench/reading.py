"""How well facts are read from sentences: precision and recall of the embedded reader with alignment.

Facts of a graph are taken out of a copy of it and written as sentences (`reading.yaml`): half with words of
the relation's name, half without any. Each sentence is read for its own relation, from either end, and for
other relations of the graph, of which it says nothing.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.reading import Asked, read_passages
from triplewise.tools.reading.alignment import align
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

ASIDE = 3
"""Other relations that a sentence is read for."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A fact that was taken out, as a sentence. `kind`: plain, or other (no word of the relation's name)."""

    fact: Triple
    text: str
    kind: str
    subject: str
    object: str


@dataclass(slots=True)
class Score:
    """What was read.

    Attributes:
        asked: sentences read for their relation. given: triples they gave. found: those that were right.
        aside: readings for other relations. astray: triples they gave.
        seconds: of all readings.
    """

    asked: int = 0
    given: int = 0
    found: int = 0
    aside: int = 0
    astray: int = 0
    seconds: float = 0.0

    @property
    def recall(self) -> float:
        """Share of facts that were read."""
        return self.found / max(self.asked, 1)

    @property
    def precision(self) -> float:
        """Share of triples that the sentence states, of all that were given for any relation."""
        return self.found / max(self.given + self.astray, 1)


def sample(kg: KnowledgeGraph, name: str, count: int, seed: int, part: int = 0) -> list[Sentence]:
    """Facts of a graph as sentences, as many plain as other ones, the same number of each relation.

    Args:
        kg: the graph. name: its key in `reading.yaml`. count: of sentences, about. seed: of the choice.
        part: 1 and 2 for either half of the sentence forms, 0 for all.
    """
    forms = yaml.safe_load(resources.files(__package__).joinpath("reading.yaml").read_text("utf-8"))[name]
    draw = random.Random(seed)
    each = max(count // (2 * len(forms)), 1)
    made: list[Sentence] = []
    for short, kinds in forms.items():
        relation = kg.profile.expand(short, relation=True)
        assert relation is not None
        rows = list(kg.query(f"SELECT ?s ?o WHERE {{ ?s {relation.n3()} ?o }}", limit=100_000).rows)
        draw.shuffle(rows)
        pairs = set(rows)
        # Of a fact that holds both ways, the graph keeps the other one.
        facts = [Triple(s, relation, o) for s, o in rows if isinstance(s, IRI) and o and (o, s) not in pairs]
        labels = kg.labels([t for f in facts[: 8 * each] for t in (f.subject, f.object)])
        named = iter([f for f in facts[: 8 * each] if f.subject in labels and _name(f.object, labels)])
        for kind, some in kinds.items():
            chosen = some[part - 1 :: 2] if part else some
            for i, fact in zip(range(each), named, strict=False):
                s, o = labels[fact.subject], _name(fact.object, labels)
                made.append(
                    Sentence(fact, (chosen or some)[i % len(chosen or some)].format(s=s, o=o), kind, s, o)
                )
    return made


def _name(term: Term, labels: dict[Term, str]) -> str:
    return labels.get(term, term.value if isinstance(term, Literal) else "")


def without(folder: Path, facts: Sequence[Triple], to: Path) -> KnowledgeGraph:
    """A copy of a loaded graph that lacks some facts."""
    import pyoxigraph as ox

    if not (folder / "store").is_dir():
        raise DataError("no folder made by `triplewise kg load`", folder)
    shutil.copytree(folder, to)
    store = ox.Store(str(to / "store"))
    for fact in facts:
        ends = ox.NamedNode(fact.subject.value), ox.NamedNode(fact.relation.value), _ox(fact.object)
        for quad in list(store.quads_for_pattern(*ends)):
            store.remove(quad)
    store.flush()
    del store
    return open_kg(to)


def _ox(term: Term) -> Any:
    import pyoxigraph as ox

    if isinstance(term, IRI):
        return ox.NamedNode(term.value)
    if term.language:
        return ox.Literal(term.value, language=term.language)
    return ox.Literal(term.value, datatype=ox.NamedNode(term.datatype))


def measure(kg: KnowledgeGraph, said: Sequence[Sentence], encoder: Encoder, seed: int) -> dict[str, Score]:
    """Scores by kind of sentence, on a graph that lacks the facts."""
    relations = sorted({s.fact.relation for s in said})
    draw = random.Random(seed)
    scores: dict[str, Score] = {}
    for one in said:
        score = scores.setdefault(one.kind, Score())
        backward = isinstance(one.fact.object, IRI) and draw.random() < 0.5
        others = draw.sample([r for r in relations if r != one.fact.relation], ASIDE)
        start = time.perf_counter()
        for relation in (one.fact.relation, *others):
            given = list(_read(kg, one, relation, backward, encoder))
            if relation == one.fact.relation:
                score.asked += 1
                score.given += len(given)
                score.found += one.fact in given
            else:
                score.aside += 1
                score.astray += len(given)
        score.seconds += time.perf_counter() - start
    return scores


def _read(
    kg: KnowledgeGraph, one: Sentence, relation: IRI, backward: bool, encoder: Encoder
) -> Iterator[Triple]:
    entity, name = (one.fact.object, one.object) if backward else (one.fact.subject, one.subject)
    assert isinstance(entity, IRI)
    asked = Asked(name, relation, entity)
    raw = read_passages([Passage(one.text, "", "sample")], asked, kg, encoder)
    yield from (f.triple for f in align(raw, kg, encoder, "", "embedded"))


def reading(
    graph: Annotated[Path, typer.Argument(help="A folder made by `triplewise kg load`.")],
    name: Annotated[str, typer.Option(help="Whose sentences: metaqa or wikidata.")] = "metaqa",
    count: Annotated[int, typer.Option(min=20, help="Sentences.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 1,
    part: Annotated[int, typer.Option(help="1 or 2: one half of the sentence forms; 0: all.")] = 0,
) -> None:
    """Precision and recall of facts read from sentences, without a language model."""
    with TemporaryDirectory() as place:
        said = sample(open_kg(graph), name, count, seed, part)
        kg = without(graph, [s.fact for s in said], Path(place) / "graph")
        scores = measure(kg, said, open_encoder(), seed)
        kg.close()
    table = Table("sentences", "facts", "recall", "precision", "astray", "ms a reading", box=None)
    for kind, s in scores.items():
        spent = f"{1000 * s.seconds / (s.asked + s.aside):.1f}"
        row = (f"{s.recall:.3f}", f"{s.precision:.3f}", f"{s.astray / max(s.aside, 1):.3f}", spent)
        table.add_row(kind, str(s.asked), *row)
    Console().print(table)
