"""Incomplete graphs for given questions (SymAgent, algorithm 1): what `triplewise kg thin` makes.

For each question the shortest path from its topic to each answer is found; of all triples collected a random
share is dropped, and the rest becomes a graph of its own. What was dropped is kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import Progress, safe_iri

DROPPED, MANIFEST = "dropped.nt", "thinned.json"
"""In the folder made: what was dropped, and how."""
REST = "rest.nq"
EVERY = 20

Fact: TypeAlias = tuple[str, str, str]
"""A triple in N-Triples form: subject, relation, object."""


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
        every_path: collect all shortest paths of an answer, not one of them as the algorithm has it.
    """

    drop: float
    seed: int = 1
    hops: int = 4
    every_path: bool = False

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
    """Drop triples on the shortest paths of questions, and make a graph of the rest.

    What was broken off leaves nothing in the way: run it again.

    Args:
        source: a folder made by `triplewise kg load`, a graph file, or `demo`.
        questions: for which the graph becomes incomplete. questions_file: where they are from.
        into: the folder to make; `triplewise ask --kg` takes it. It also holds `dropped.nt` and
            `thinned.json`.
        spec: how. profile: of the source. progress: told stage, done, total.

    Raises:
        ConfigurationError: the folder exists, the source is an endpoint, or another process is making it.
        DataError: a source that cannot be read, or a folder that cannot be written.
    """
    start = time.perf_counter()
    target = Path(into).absolute()
    _refuse_existing(target)
    kg = open_kg(source, profile=profile)
    if not isinstance(kg, EmbeddedKG):
        remedy = "load its facts by `triplewise kg load` and thin that"
        raise ConfigurationError(f"{source} is an endpoint; {remedy}")
    tell = progress or (lambda stage, done, total: None)
    collected = _collect(kg, questions, spec, tell)
    distinct = sorted({f for answers in collected.paths for path in answers for f in path})
    # Lines 6 to 9 of the algorithm: a share of the facts on any path, drawn at random.
    dropped = set(random.Random(spec.seed).sample(distinct, round(spec.drop * len(distinct))))
    with _work_folder(target) as work:
        total, digest = _write(kg, [collected.facts[i] for i in sorted(dropped)], work, tell)
        kept = load_kg([work / REST], work / "kg", profile=kg.profile, progress=progress).triples
        hit = [[not dropped.isdisjoint(path) for path in answers] for answers in collected.paths]
        report = IncompleteReport(
            path=target,
            triples=total,
            kept=kept,
            collected=len(distinct),
            dropped=len(dropped),
            questions=len(collected.paths),
            unknown=collected.unknown,
            answers=sum(map(len, collected.paths)),
            unreached=collected.unreached,
            hit_questions=sum(map(any, hit)),
            hit_answers=sum(map(sum, hit)),
            seconds=time.perf_counter() - start,
        )
        with questions_file.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        facts = {k: v for k, v in asdict(report).items() if k != "path"} | {"source": Path(source).name}
        facts |= asdict(spec) | {"questions_file": {"name": questions_file.name, "sha256": checksum}}
        manifest = json.dumps(facts | {"dropped_sha256": digest}, indent=2, ensure_ascii=False)
        (work / DROPPED).rename(work / "kg" / DROPPED)
        (work / "kg" / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
        _refuse_existing(target)
        (work / "kg").rename(target)
    return report


def _refuse_existing(target: Path) -> None:
    """Never overwrite."""
    if target.exists():
        raise ConfigurationError(f"{target} exists already; choose another folder, or remove it")


@dataclass(frozen=True, slots=True)
class _Collected:
    """The paths of the questions.

    `paths`: for each question, the facts of the path to each answer that was reached. `unknown`: questions
    whose topic the graph lacks. `unreached`: answers without a path.
    """

    facts: Sequence[Fact]
    paths: Sequence[Sequence[Sequence[int]]]
    unknown: int
    unreached: int


def _collect(
    kg: EmbeddedKG, questions: Sequence[TopicQuestion], spec: IncompleteSpec, tell: Progress
) -> _Collected:
    """Shortest paths from the topic of each question to its answers."""
    tell("reading the graph", 0, None)
    graph = ShortestPaths(_facts(kg))
    names = _Names(kg, graph)
    paths: list[list[list[int]]] = []
    unknown = unreached = 0
    for number, (question, topics, answers) in enumerate(questions):
        if number % EVERY == 0:
            tell("searching paths", number, len(questions))
        topic = next((node for name in topics if (node := names.node(name))), "")
        unknown += not topic
        draw = random.Random(f"{spec.seed} {question} {topic}")
        targets = {a: names.node(a) for a in answers}
        reached = graph.between(topic, set(targets.values()), spec.hops, draw, spec.every_path)
        unreached += sum(node not in reached for node in targets.values())
        paths.append([path for path in reached.values() if path])
    return _Collected(graph.facts, paths, unknown, unreached)


def _facts(kg: EmbeddedKG) -> set[Fact]:
    """Facts that paths may run over: without names, and without what the profile leaves out."""
    profile = kg.profile
    naming = {*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates}
    followed: dict[ox.NamedNode, bool] = {}
    facts = set()
    for quad in kg.quads():
        predicate = quad.predicate
        if predicate not in followed:
            iri = safe_iri(predicate.value)
            followed[predicate] = predicate.value not in naming and not profile.excludes(iri)
        if followed[predicate]:
            facts.add((str(quad.subject), str(predicate), str(quad.object)))
    return facts


class _Names:
    """Finds the node that a name or an id of a question file means."""

    def __init__(self, kg: KnowledgeGraph, graph: ShortestPaths) -> None:
        self._kg, self._nodes = kg, graph.nodes
        self._literals: dict[str, str] | None = None

    def node(self, name: str) -> str:
        """The node in N-Triples form, "" if the graph has none."""
        entries = self._kg.index.exact(name) if self._kg.index is not None else ()
        same = [e for e in entries if e.label == name] or list(entries)
        iri = self._kg.profile.expand(name)
        forms = [*([iri.n3()] if iri is not None else ()), *(e.iri.n3() for e in same)]
        if form := next((form for form in forms if form in self._nodes), ""):
            return form
        if self._literals is None:
            literals = (n for n in self._nodes if n.startswith('"'))
            self._literals = {n[1 : n.rindex('"')]: n for n in literals}
        return self._literals.get(name, "")


def _write(kg: EmbeddedKG, dropped: Collection[Fact], work: Path, tell: Progress) -> tuple[int, str]:
    """Write what stays and what is dropped; how many facts the source has, and the latter's checksum."""
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(dropped)).encode()
    (work / DROPPED).write_bytes(lines)
    total, gone = 0, set(dropped)

    def rest() -> Iterator[ox.Quad]:
        nonlocal total
        for quad in kg.quads():
            total += 1
            if (str(quad.subject), str(quad.predicate), str(quad.object)) not in gone:
                yield quad

    tell("writing what stays", 0, None)
    ox.serialize(rest(), str(work / REST), format=ox.RdfFormat.N_QUADS)
    return total, hashlib.sha256(lines).hexdigest()


@contextmanager
def _work_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside the target, this process's alone; what a dead one left in it goes first."""
    folder = target.parent / f".{target.name}.thinning"

    def refuse() -> None:
        raise ConfigurationError(f"another process is making {target}; wait for it to end")

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(exclusive(folder / "lock", refuse))
            for left in folder.iterdir():
                if left.name != "lock":
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield folder
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", target) from error


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
        self, source: str, targets: Collection[str], hops: int, draw: random.Random, every: bool = False
    ) -> dict[str, list[int]]:
        """Facts of the shortest path to each target, as their numbers in `facts`.

        Args:
            source, targets: nodes; those that the graph lacks are no targets. hops: longest path.
            draw: picks one of several shortest paths. every: take the facts of all of them instead.

        Returns:
            target -> numbers of facts, sorted; () for a target that is the source. Targets out of reach are
            left out.
        """
        if source not in self.nodes:
            return {}
        start = self.nodes[source]
        target_names = {self.nodes[t]: t for t in sorted(targets) if t in self.nodes}
        depth = self._depths(start, np.array(sorted(target_names), np.int64), hops)
        paths = {}
        for node, name in target_names.items():
            if depth[node] >= 0:
                paths[name] = sorted(self._facts(node, depth, None if every else draw))
        return paths

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

    def _back(self, node: int, depth: np.ndarray) -> np.ndarray:
        """Where the neighbours of a node stand that are one step nearer to the start."""
        slots = np.arange(self._start[node], self._start[node + 1])
        return np.asarray(slots[depth[self._far[slots]] == depth[node] - 1])

    def _facts(self, node: int, depth: np.ndarray, draw: random.Random | None) -> set[int]:
        """Facts of one shortest path, drawn at random step by step, or of all of them."""
        facts: set[int] = set()
        open_nodes, seen = [node], {node}
        while open_nodes:
            if depth[at := open_nodes.pop()] <= 0:
                continue
            slots = self._back(at, depth).tolist()
            for slot in slots if draw is None else [draw.choice(slots)]:
                facts.add(int(self._fact[slot]))
                if (near := int(self._far[slot])) not in seen:
                    seen.add(near)
                    open_nodes.append(near)
        return facts
