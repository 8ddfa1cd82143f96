"""`triplewise kg thin`: an incomplete graph for given questions (SymAgent, algorithm 1).

For each question the shortest path from its topic to each answer is found; of all triples collected a random
share is dropped, and the rest becomes a graph of its own. What was dropped is kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import Progress, safe_iri
from triplewise.tools.kg.subset.shortest_paths import Fact, ShortestPaths
from triplewise.tools.planning.seeds import Seed, read_seeds

DROPPED, THINNED = "dropped.nt", "thinned.json"
"""In the folder made: what was dropped, and how."""
REST = "rest.nq"
EVERY = 20


@dataclass(frozen=True, slots=True)
class ThinOrder:
    """How a graph is thinned.

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
class ThinReport:
    """What thinning did.

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


def thin_kg(
    source: Path | str,
    questions: Path | str,
    into: Path | str,
    order: ThinOrder,
    *,
    profile: str | Path | Profile | None = None,
    progress: Progress | None = None,
) -> ThinReport:
    """Drop triples on the shortest paths of questions, and make a graph of the rest.

    What was broken off leaves nothing in the way: run it again.

    Args:
        source: a folder made by `triplewise kg load`, a graph file, or `demo`.
        questions: JSON lines with `question`, `answers`, and `topic_entity` or `entities`.
        into: the folder to make; `triplewise ask --kg` takes it. It also holds `dropped.nt` and
            `thinned.json`.
        order: how. profile: of the source. progress: told stage, done, total.

    Raises:
        ConfigurationError: the folder exists, the source is an endpoint, or another process is making it.
        DataError: a source or questions that cannot be read.
    """
    start = time.perf_counter()
    target, asked = Path(into).absolute(), Path(questions)
    _refuse(target)
    seeds = list(read_seeds(asked))
    kg = open_kg(source, profile=profile)
    if not isinstance(kg, EmbeddedKG):
        mend = "load its facts by `triplewise kg load` and thin that"
        raise ConfigurationError(f"{source} is an endpoint; {mend}")
    tell = progress or (lambda stage, done, total: None)
    collected = _collect(kg, seeds, order, tell)
    dropped = _select(collected, order)
    with _work_folder(target) as work:
        total, digest = _write(kg, [collected.facts[i] for i in dropped], work, tell)
        kept = load_kg([work / REST], work / "kg", profile=kg.profile, progress=progress).triples
        report = _report(target, total, kept, collected, dropped, time.perf_counter() - start)
        (work / DROPPED).rename(work / "kg" / DROPPED)
        told = _manifest(report, order, str(source), asked, digest)
        (work / "kg" / THINNED).write_text(told + "\n", encoding="utf-8")
        _refuse(target)
        (work / "kg").rename(target)
    return report


def _refuse(target: Path) -> None:
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

    @property
    def distinct(self) -> list[int]:
        """All facts on any path."""
        return sorted({f for answers in self.paths for path in answers for f in path})


def _collect(kg: EmbeddedKG, seeds: Sequence[Seed], order: ThinOrder, tell: Progress) -> _Collected:
    """Shortest paths from the topic of each question to its answers."""
    tell("reading the graph", 0, None)
    graph = ShortestPaths(_facts(kg))
    names = _Names(kg, graph)
    paths: list[list[list[int]]] = []
    unknown = unreached = 0
    for number, seed in enumerate(seeds):
        if number % EVERY == 0:
            tell("searching paths", number, len(seeds))
        topic = next((n for _, t in seed.named if (n := names.node(t))), "")
        unknown += not topic
        draw = random.Random(f"{order.seed} {seed.question} {topic}")
        targets = {a: names.node(a) for a in seed.answers}
        found = graph.between(topic, set(targets.values()), order.hops, draw, order.every_path)
        unreached += sum(node not in found for node in targets.values())
        paths.append([path for path in found.values() if path])
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
        found = next((form for form in forms if form in self._nodes), "")
        return found or self._literal(name)

    def _literal(self, text: str) -> str:
        """The literal that reads like this."""
        if self._literals is None:
            literals = (n for n in self._nodes if n.startswith('"'))
            self._literals = {n[1 : n.rindex('"')]: n for n in literals}
        return self._literals.get(text, "")


def _select(collected: _Collected, order: ThinOrder) -> list[int]:
    """The facts that are dropped, drawn at random (lines 6 to 9)."""
    distinct = collected.distinct
    return sorted(random.Random(order.seed).sample(distinct, round(order.drop * len(distinct))))


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


def _report(
    target: Path, total: int, kept: int, collected: _Collected, dropped: Collection[int], seconds: float
) -> ThinReport:
    """What was done."""
    gone = set(dropped)
    hit = [[any(f in gone for f in path) for path in answers] for answers in collected.paths]
    reached = sum(len(answers) for answers in collected.paths)
    return ThinReport(
        path=target,
        triples=total,
        kept=kept,
        collected=len(collected.distinct),
        dropped=len(gone),
        questions=len(collected.paths),
        unknown=collected.unknown,
        answers=reached,
        unreached=collected.unreached,
        hit_questions=sum(any(answers) for answers in hit),
        hit_answers=sum(sum(answers) for answers in hit),
        seconds=seconds,
    )


def _manifest(report: ThinReport, order: ThinOrder, source: str, questions: Path, digest: str) -> str:
    """How the graph was made, as JSON."""
    done: dict[str, Any] = {**asdict(report), "path": None, "source": Path(source).name, **asdict(order)}
    del done["path"]
    done["questions_file"] = {"name": questions.name, "sha256": _checksum(questions)}
    done["dropped_sha256"] = digest
    return json.dumps(done, indent=2, ensure_ascii=False)


def _checksum(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _work_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside the target, this process's alone; what a dead one left in it goes first."""
    folder = target.parent / f".{target.name}.thinning"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a") as lock:
            if not _lock(lock.fileno()):
                raise ConfigurationError(f"another process is making {target}; wait for it to end")
            for left in folder.iterdir():
                if left.name != "lock":
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield folder
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", target) from error


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file; False if another process holds it (True where there are no locks)."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
