"""Made-up graphs with questions about the direction of relations, and bare aggregates (`pairs.yaml`)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from triplewise.evals.data import read_data
from triplewise.tools.learning.parser_training import Labelled

ASKED = 2  # things that each phrase is filled in with
_PREFIXES = "@prefix : <http://{}.example/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"


def pair_graph(name: str) -> tuple[str, list[Labelled]]:
    """Return a graph of `pairs.yaml` in Turtle, and its questions. The same every time."""
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
            for thing in rng.sample(both, min(ASKED, len(both))):
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
