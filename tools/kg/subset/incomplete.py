"""Incomplete graphs for given questions (SymAgent, algorithm 1): what `triplewise kg thin` makes."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import write_json
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.load import load_kg, scratch_folder
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


@dataclass(frozen=True, slots=True)
class IncompleteSpec:
    """How a graph is made incomplete.

    Attributes:
        drop: share of the collected triples that is dropped, 0 to 1. seed: of all that is drawn.
        hops: longest shortest path that is looked for.
    """

    drop: float
    seed: int = 1
    hops: int = 4

    def __post_init__(self) -> None:
        if not 0 <= self.drop <= 1:
            raise ConfigurationError(f"the share to drop lies between 0 and 1, not {self.drop}")
        if self.hops < 1:
            raise ConfigurationError(f"paths have at least one hop, not {self.hops}")


@dataclass(frozen=True, slots=True)
class IncompleteReport:
    """What making a graph incomplete did.

    Attributes:
        path: the folder. triples: facts of the source, names included; kept: those of the new graph.
        collected: different triples on shortest paths. dropped: of these.
        questions: questions read; unknown: those whose topic the graph lacks.
        answers: their answers with a path; unreached: those without one of so many hops.
        hit_questions, hit_answers: those that lost a triple of their path.
        seconds: how long it took.
    """

    path: Path
    triples: int
    kept: int
    collected: int
    dropped: int
    questions: int
    unknown: int
    answers: int
    unreached: int
    hit_questions: int
    hit_answers: int
    seconds: float


def make_incomplete(
    source: Path | str,
    questions: Sequence[TopicQuestion],
    into: Path | str,
    spec: IncompleteSpec,
    *,
    questions_file: Path,
    profile: str | Path | Profile | None = None,
    progress: Progress | None = None,
) -> IncompleteReport:
    """Drop a random share of the triples on shortest paths of questions, and make a graph of the rest.

    Args:
        source: a folder made by `triplewise kg load`, a graph file, or `demo`.
        questions: for which the graph becomes incomplete. questions_file: where they are from.
        into: the folder to make for `ask --kg`; it also holds `dropped.nt` and `thinned.json`.
        spec: how. profile: of the source. progress: told stage, done, total.

    Raises:
        ConfigurationError: the folder exists, or the source is an endpoint.
        DataError: a source that cannot be read, or a folder that cannot be written.
    """
    start, tell = time.perf_counter(), progress or (lambda stage, done, total: None)
    target = Path(into).absolute()
    with scratch_folder(target, progress) as work:
        if target.exists():
            raise ConfigurationError(f"{target} exists already; choose another folder, or remove it")
        kg = _open_local(source, profile)
        tell("reading the graph", 0, None)
        graph = ShortestPaths(_facts(kg))
        paths, unknown, unreached = _paths_of(kg, graph, questions, spec, tell)
        collected = sorted({fact for answers in paths for path in answers for fact in path})
        # Lines 6 to 9 of the algorithm: a share of the facts on any path, drawn at random.
        numbers = set(random.Random(spec.seed).sample(collected, round(spec.drop * len(collected))))
        dropped = {graph.facts[i] for i in numbers}
        lines = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(dropped)).encode()
        tell("writing what stays", 0, None)
        total = _write_rest(kg, dropped, work / "rest.nq")
        kept = load_kg([work / "rest.nq"], work / "kg", profile=kg.profile, progress=progress).triples
        hit = [[not numbers.isdisjoint(path) for path in answers] for answers in paths]
        report = IncompleteReport(
            path=target,
            triples=total,
            kept=kept,
            collected=len(collected),
            dropped=len(dropped),
            questions=len(paths),
            unknown=unknown,
            answers=sum(map(len, paths)),
            unreached=unreached,
            hit_questions=sum(map(any, hit)),
            hit_answers=sum(map(sum, hit)),
            seconds=time.perf_counter() - start,
        )
        (work / "kg" / DROPPED).write_bytes(lines)
        write_json(work / "kg" / MANIFEST, _manifest(report, spec, source, questions_file, lines), indent=2)
        (work / "kg").rename(target)
    return report


def _write_rest(kg: EmbeddedKG, dropped: Collection[Fact], path: Path) -> int:
    """Write a graph without some facts; return how many it has with them."""
    total = 0

    def rest() -> Iterator[ox.Quad]:
        nonlocal total
        for quad in kg.quads():
            total += 1
            if (str(quad.subject), str(quad.predicate), str(quad.object)) not in dropped:
                yield quad

    ox.serialize(rest(), str(path), format=ox.RdfFormat.N_QUADS)
    return total


def _manifest(
    report: IncompleteReport, spec: IncompleteSpec, source: Path | str, questions: Path, dropped: bytes
) -> dict[str, object]:
    facts = {k: v for k, v in asdict(report).items() if k != "path"} | asdict(spec)
    with questions.open("rb") as opened:
        named = {"name": questions.name, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}
    digest = hashlib.sha256(dropped).hexdigest()
    return {**facts, "source": Path(source).name, "questions_file": named, "dropped_sha256": digest}


def _open_local(source: Path | str, profile: str | Path | Profile | None) -> EmbeddedKG:
    kg = open_kg(source, profile=profile)
    if not isinstance(kg, EmbeddedKG):
        remedy = "load its facts by `triplewise kg load` and thin that"
        raise ConfigurationError(f"{source} is an endpoint; {remedy}")
    return kg


def _facts(kg: EmbeddedKG) -> set[Fact]:
    """Facts that paths may run over: without names, and without what the profile leaves out."""
    profile = kg.profile
    naming = {*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates}

    @cache
    def is_followed(predicate: str) -> bool:
        return predicate not in naming and not profile.excludes(safe_iri(predicate))

    quads = (quad for quad in kg.quads() if is_followed(quad.predicate.value))
    return {(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in quads}


def _paths_of(
    kg: EmbeddedKG,
    graph: ShortestPaths,
    questions: Sequence[TopicQuestion],
    spec: IncompleteSpec,
    tell: Progress,
) -> tuple[list[list[list[int]]], int, int]:
    """For each question the facts of the path from its topic to each answer that was reached; how many
    questions have a topic that the graph lacks; how many answers have no path.
    """
    literals = {node[1 : node.rindex('"')]: node for node in graph.nodes if node.startswith('"')}

    def node_of(name: str) -> str:
        """The node in N-Triples form that a name or an id means, "" if the graph has none."""
        entries = kg.index.exact(name) if kg.index is not None else ()
        same = [e for e in entries if e.label == name] or list(entries)
        iri = kg.profile.expand(name)
        forms = [*([iri.n3()] if iri is not None else ()), *(e.iri.n3() for e in same)]
        return next((form for form in forms if form in graph.nodes), "") or literals.get(name, "")

    paths: list[list[list[int]]] = []
    unknown = unreached = 0
    for number, (question, topics, answers) in enumerate(questions):
        tell("searching paths", number, len(questions))
        topic = next((node for name in topics if (node := node_of(name))), "")
        unknown += not topic
        draw = random.Random(f"{spec.seed} {question} {topic}")
        targets = {a: node_of(a) for a in answers}
        reached = graph.between(topic, set(targets.values()), spec.hops, draw)
        unreached += sum(node not in reached for node in targets.values())
        paths.append([path for path in reached.values() if path])
    return paths, unknown, unreached


class ShortestPaths:
    """Breadth-first search over facts, walked in both directions.

    The facts are sorted first, so that the same graph gives the same paths whatever it was read from.

    Args:
        facts: distinct ones; nodes are what stands at their ends.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts: Sequence[Fact] = sorted(facts)
        self.nodes: Mapping[str, int] = {
            name: i for i, name in enumerate(sorted({n for s, _, o in self.facts for n in (s, o)}))
        }
        count = len(self.facts)
        heads = np.fromiter((self.nodes[s] for s, _, _ in self.facts), np.int32, count)
        tails = np.fromiter((self.nodes[o] for _, _, o in self.facts), np.int32, count)
        near, far = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        order = np.argsort(near, kind="stable")
        self._far, self._fact = far[order], order % max(count, 1)
        self._start = np.searchsorted(near[order], np.arange(len(self.nodes) + 1))

    def between(
        self, source: str, targets: Collection[str], hops: int, draw: random.Random
    ) -> dict[str, list[int]]:
        """Facts of the shortest path of at most so many hops to each target, as their numbers in `facts`.

        `draw` picks one of several. Targets that the graph lacks or that are out of reach are left out; the
        source itself has no facts.
        """
        if source not in self.nodes:
            return {}
        start = self.nodes[source]
        ends = {self.nodes[t]: t for t in sorted(targets) if t in self.nodes}
        depth = self._depths(start, np.array(sorted(ends), np.int64), hops)
        return {t: sorted(self._facts(node, depth, draw)) for node, t in ends.items() if depth[node] >= 0}

    def _depths(self, start: int, targets: np.ndarray, hops: int) -> np.ndarray:
        """Distance of each node from the start, -1 where it was not reached before all targets were."""
        depth: np.ndarray = np.full(len(self.nodes), -1, np.int16)
        depth[start] = 0
        frontier = np.array([start])
        for hop in range(1, hops + 1):
            if not len(frontier) or (depth[targets] >= 0).all():
                break
            starts, sizes = self._start[frontier], self._start[frontier + 1] - self._start[frontier]
            shifts = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
            reached = np.unique(self._far[np.arange(int(sizes.sum())) + shifts])
            frontier = reached[depth[reached] < 0]
            depth[frontier] = hop
        return depth

    def _facts(self, node: int, depth: np.ndarray, draw: random.Random) -> Iterator[int]:
        """Facts of one shortest path, drawn at random step by step from its end."""
        while depth[node] > 0:
            every = np.arange(self._start[node], self._start[node + 1])
            slot = draw.choice(every[depth[self._far[every]] == depth[node] - 1].tolist())
            yield int(self._fact[slot])
            node = int(self._far[slot])
