"""Relation ranking without a language model, after QueryAgent's table 7.

A case is a topic entity of a gold query, the relations the graph really has around it, and the one of them
that the gold query follows. A method is as good as the place it gives that relation. Part of the facts of the
two partial graphs were made from gold queries: there are fewer distractors than in the whole KGs, and figures
are of use beside one another only; `none` is the order that the graph gives.
"""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from triplewise.evals.bench.gold_programs import PREFIX, query_iri, question_records
from triplewise.evals.bench.observe import kg_in
from triplewise.evals.data import graph, prepared
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.vocabulary import relation_descriptions, relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, Encoder
from triplewise.tools.retrieval.ranking import CUT, DEFAULT, rank_relations

FILES = {
    "freebase_kg": ("webqsp/test.jsonl.gz", "grailqa/dev1000.jsonl.gz"),
    "wikidata_kg": ("qald10/test_en.jsonl.gz", "wikiwebquestions/test.jsonl.gz"),
}
LEAST = 6
"""Relations that a case must at least have: with fewer there is nothing to rank."""
_NODE = r"\?\w+|<[^<>\s]+>|[A-Za-z][\w-]*:[\w.-]*\w"
_FACT = re.compile(rf"({_NODE})\s+(<[^<>\s]+>|[A-Za-z][\w-]*:\w+)\s+({_NODE})(?=[\s.;}}])")


class Case(NamedTuple):
    """A question, the relations around an entity of its gold query, and the one that the query follows."""

    question: str
    entity: str
    relations: tuple[str, ...]
    gold: str


def ranking(
    graphs: Annotated[list[str] | None, typer.Option("--graph", help="freebase_kg, wikidata_kg.")] = None,
) -> list[dict[str, Any]]:
    """Where each strategy ranks the relation of the gold query (QueryAgent, table 7); no language model.

    Rows with the method `shuffled` are the default's forty in random order, as in the paper.
    """

    rows = []
    for name in graphs or FILES:
        kg = open_kg(prepared(graph(name)).path)
        found = cases(name, kg)
        names = list(dict.fromkeys(r for case in found for r in case.relations))
        labels = {n: text.label for n, text in relation_texts(kg, names).items()}
        described = relation_descriptions(kg, names)
        longer = {n: f"{label}: {described[n]}" if described.get(n) else label for n, label in labels.items()}
        methods = [("none", labels), ("hybrid", labels), (DEFAULT, labels), (DEFAULT, longer)]
        for method, texts in methods:
            with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as folder:
                _, cold = ranked(found, method, texts, EmbeddedEncoder(), Path(folder))
                orders, warm = ranked(found, method, texts, EmbeddedEncoder(), Path(folder))
            about = {"graph": name, "text": "label" if texts is labels else "with description"}
            seconds = {"ms, cold": cold, "ms, warm": warm}
            rows.append({"method": method, **about, **places(found, orders), **seconds})
            if (method, texts) == (DEFAULT, labels):
                shown = [order[:CUT] for order in orders]
                mixed = [random.Random(0).sample(order, len(order)) for order in shown]
                rows.append({"method": "shuffled", **about, **places(found, mixed), **seconds})
    return rows


def ranked(
    found: Sequence[Case], method: str, texts: Mapping[str, str], encoder: Encoder, folder: Path
) -> tuple[list[list[str]], float]:
    """Return the order of each case, and milliseconds a case; vectors of relation texts lie in a folder."""
    encoder.encode([case.question for case in found])  # the same for all: not what is measured
    start = time.perf_counter()
    kg = kg_in(folder)
    orders = [
        rank_relations(
            case.question,
            [(r, texts[r]) for r in case.relations],
            method,
            encoder,
            cut=len(case.relations),
            kg=kg,
        )
        for case in found
    ]
    return orders, (time.perf_counter() - start) / max(len(found), 1) * 1000


def places(found: Sequence[Case], orders: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return how the gold relations stand in some orders; those that are not shown have no place."""
    at = [order.index(c.gold) + 1 for c, order in zip(found, orders, strict=True) if c.gold in order]
    array = np.array([*at, *[np.inf] * (len(found) - len(at))], dtype=float)
    shares = {f"@{n}": float((array <= n).mean()) if found else 0.0 for n in (CUT, 10, 1)}
    reciprocal = float((1 / array).mean()) if found else 0.0
    return {"cases": len(found), **shares, "MRR": reciprocal, "mean place": statistics.fmean(at or [0])}


def cases(name: str, kg: KnowledgeGraph) -> list[Case]:
    """Return the cases of one graph: questions that it answers exactly, entities with enough relations.

    Raises:
        DataError: a missing or broken file.
    """
    found: dict[Case, None] = {}
    for record in (r for file in FILES[name] for r in question_records(file) if r.get("kg_exact")):
        sparql = str(record.get("sparql11") or record["sparql"])
        prefixes = dict(PREFIX.findall(sparql))
        for ends, relation in ((fact[::2], fact[1]) for fact in _FACT.findall(sparql)):
            entities = [iri for end in ends if (iri := query_iri(end, prefixes)) is not None]
            gold = query_iri(relation, prefixes)
            if len(entities) != 1 or gold is None or not kg.profile.linkable(entities[0].value):
                continue
            around, short = kg.relations(entities[0]), kg.profile.short
            names = tuple(dict.fromkeys(short(r) for r in (*around.forward, *around.backward)))
            if len(names) >= LEAST and short(gold) in names:
                found[Case(record["question"], short(entities[0]), names, short(gold))] = None
    return list(found)
