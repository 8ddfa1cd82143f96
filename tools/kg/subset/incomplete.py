"""Incomplete graphs for given questions (SymAgent, algorithm 1): what `triplewise kg thin` makes."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import write_json
from triplewise.tools.kg.load import load_kg, scratch_folder
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.rdf import Progress, safe_iri

DROPPED, MANIFEST = "dropped.nt", "thinned.json"  # in the folder made: what was dropped, and how

Fact: TypeAlias = tuple[str, str, str]  # a triple in N-Triples form: subject, relation, object


class TopicQuestion(NamedTuple):
    """A question, what it is about and its answers, by name or id. The first topic in the graph counts."""

    question: str
    topics: Sequence[str]
    answers: Sequence[str]


@dataclass(slots=True)
class IncompleteReport:
    """What making a graph incomplete did, in numbers."""

    path: Path
    triples: int = 0  # of the source
    kept: int = 0  # of the new graph
    collected: int = 0  # on shortest paths
    dropped: int = 0
    questions: int = 0
    unknown: int = 0  # questions whose topic is not in the graph
    answers: int = 0  # with a path
    unreached: int = 0  # answers without one
    hit_questions: int = 0  # of whose paths a triple was dropped, and the same of answers
    hit_answers: int = 0
    seconds: float = 0.0


def make_incomplete(
    source: Path | str,
    questions: Sequence[TopicQuestion],
    into: Path | str,
    *,
    drop: float,
    questions_file: Path,
    seed: int = 1,
    hops: int = 4,
    profile: str | Path | Profile | None = None,
    progress: Progress | None = None,
) -> IncompleteReport:
    """Drop a random share of the triples on shortest paths of questions, and make a graph of the rest.

    `seed` is of all that is drawn at random; `hops` are those of the longest path.

    The folder `into` is one for `ask --kg`; it also holds `dropped.nt` and `thinned.json`. Raises
    `ConfigurationError`: it exists, or the source is an endpoint.
    """
    start, tell = time.perf_counter(), progress or (lambda stage, done, total: None)
    target = Path(into).absolute()
    report = IncompleteReport(target, questions=len(questions))
    with scratch_folder(target, progress) as work:
        if target.exists():
            raise ConfigurationError(f"{target} exists already; choose another folder, or remove it")
        kg = open_kg(source, profile=profile)
        if not isinstance(kg, LocalKG):
            remedy = "load its facts by `triplewise kg load` and thin that"
            raise ConfigurationError(f"{source} is an endpoint; {remedy}")
        tell("reading the graph", 0, None)
        graph = ShortestPaths(_facts(kg))
        # Lines 1 to 5 of the algorithm: the facts of a shortest path to each answer.
        literals = {node[1 : node.rindex('"')]: node for node in graph.edges if node.startswith('"')}
        paths: list[list[list[Fact]]] = []
        for number, (question, topics, answers) in enumerate(questions):
            tell("searching paths", number, len(questions))
            topic = next((node for name in topics if (node := _node_of(name, kg, graph, literals))), "")
            report.unknown += not topic
            draw = random.Random(f"{seed} {question} {topic}")
            ends = [_node_of(answer, kg, graph, literals) for answer in dict.fromkeys(answers)]
            reached = graph.between(topic, sorted(set(ends)), hops, draw)
            report.unreached += sum(node not in reached for node in ends)
            paths.append(list(filter(None, reached.values())))
        # Lines 6 to 9: a share of the facts on any path, drawn at random.
        collected = sorted({fact for answers in paths for path in answers for fact in path})
        dropped = set(random.Random(seed).sample(collected, round(drop * len(collected))))
        tell("writing what stays", 0, None)
        kept = (quad for quad in kg.quads() if _fact(quad) not in dropped)
        ox.serialize(kept, str(work / "rest.nq"), format=ox.RdfFormat.N_QUADS)
        report.kept = load_kg([work / "rest.nq"], work / "kg", profile=kg.profile, progress=progress).triples
        hit = [[not dropped.isdisjoint(path) for path in answers] for answers in paths]
        report.triples, report.collected, report.dropped = len(kg.store), len(collected), len(dropped)
        report.answers = sum(map(len, paths))
        report.hit_questions, report.hit_answers = sum(map(any, hit)), sum(map(sum, hit))
        report.seconds = time.perf_counter() - start
        lines = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(dropped))
        (work / "kg" / DROPPED).write_text(lines, encoding="utf-8")
        about = asdict(report) | {"drop": drop, "seed": seed, "hops": hops}
        about |= {"source": Path(source).name, "questions_file": questions_file.name}
        del about["path"]
        write_json(work / "kg" / MANIFEST, about, indent=2)
        (work / "kg").rename(target)
    return report


def _fact(quad: ox.Quad) -> Fact:
    return str(quad.subject), str(quad.predicate), str(quad.object)


def _facts(kg: LocalKG) -> set[Fact]:
    """Facts that paths may run over: without names, and without what the profile leaves out."""
    profile = kg.profile
    naming = {*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates}

    @cache
    def is_followed(predicate: str) -> bool:
        return predicate not in naming and not profile.excludes(safe_iri(predicate))

    return {_fact(quad) for quad in kg.quads() if is_followed(quad.predicate.value)}


def _node_of(name: str, kg: LocalKG, graph: ShortestPaths, literals: dict[str, str]) -> str:
    """The node in N-Triples form that a name or an id means, "" if the graph has none."""
    entries = kg.index.exact(name) if kg.index is not None else ()
    same = [e for e in entries if e.label == name] or list(entries)
    iri = kg.profile.expand(name)
    forms = [*([iri.n3()] if iri is not None else ()), *(e.iri.n3() for e in same)]
    return next((form for form in forms if form in graph.edges), "") or literals.get(name, "")


class ShortestPaths:
    """Breadth-first search over facts, walked in both directions; `edges` has the facts of each node.

    They are sorted first, so that the same graph gives the same paths whatever it was read from.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.edges: dict[str, list[Fact]] = defaultdict(list)
        for fact in sorted(facts):
            for node in {fact[0], fact[2]}:
                self.edges[node].append(fact)

    def between(
        self, source: str, targets: Collection[str], hops: int, draw: random.Random
    ) -> dict[str, list[Fact]]:
        """Facts of a shortest path of at most so many hops, drawn from several, to each target in reach."""
        if source not in self.edges:
            return {}
        depth, frontier = {source: 0}, [source]
        for hop in range(1, hops + 1):
            if depth.keys() >= set(targets):
                break
            ends = dict.fromkeys(end for n in frontier for s, _, o in self.edges[n] for end in (s, o))
            frontier = [node for node in ends if node not in depth]
            depth |= dict.fromkeys(frontier, hop)
        paths: dict[str, list[Fact]] = {}
        for target in filter(depth.__contains__, targets):
            node, paths[target] = target, []
            while node != source:  # back, step by step
                facts = ((fact, fact[2] if fact[0] == node else fact[0]) for fact in self.edges[node])
                before = [(fact, end) for fact, end in facts if depth.get(end) == depth[node] - 1]
                fact, node = draw.choice(before)
                paths[target].append(fact)
        return paths
