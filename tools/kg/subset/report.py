"""What is asked of a cut, and what is said of it afterwards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.subset import hops as x
from triplewise.tools.kg.subset.staging import Source
from triplewise.tools.kg.subset.work import Facts

FORMAT = 1


@dataclass(frozen=True)
class CutOrder:
    """What to cut.

    Attributes:
        hops: how far from the seeds, at least 1.
        direction: `both`, or `out` to follow triples from subject to object only.
        hub_limit: a node with more neighbours than this on one side (as subject, as object) is not expanded
            on that side; 0 for no limit. Seeds always are.
        hub_sample: triples of such a node and side that are taken all the same, by a hash with `seed`.
        seed: of the samples. languages: of labels to keep (all if empty; texts without a tag stay).
    """

    hops: int = 3
    direction: x.Direction = "both"
    hub_limit: int = 10_000
    hub_sample: int = 0
    seed: int = 0
    languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.direction not in x.DIRECTIONS:
            raise ConfigurationError.unknown("direction", self.direction, x.DIRECTIONS)
        for name, least in (("hops", 1), ("hub_limit", 0), ("hub_sample", 0)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop: nodes expanded, triples found that no hop before had, hubs not expanded."""

    number: int
    nodes: int
    triples: int
    hubs: int


@dataclass(frozen=True, slots=True)
class Hub:
    """A node that was not expanded on one side (`out`: as subject, `in`: as object), and in which hop."""

    hop: int
    id: str
    side: str
    neighbours: int


@dataclass(frozen=True)
class CutReport:
    """What a cut did.

    Attributes:
        path: the folder. order: what was asked for. profile, engine: their names.
        triples, labels: facts in each of the two files. hops: one by one.
        hub_count: nodes and sides that were not expanded. hubs: the first 1,000 of them.
        seeds: how many are in the dump. unknown, unknown_count: those that are not, or that are no ids.
        left_out: triples of relations that the profile leaves out. sources: the dumps.
        seconds: by stage, of this run: a stage done before takes none.
    """

    path: Path
    order: CutOrder
    profile: str
    engine: str
    triples: int
    labels: int
    hops: tuple[Hop, ...]
    hub_count: int
    hubs: tuple[Hub, ...]
    seeds: int
    unknown: tuple[str, ...]
    unknown_count: int
    left_out: int
    sources: tuple[Source, ...]
    seconds: dict[str, float] = field(default_factory=dict)


def manifest_of(report: CutReport, files: Facts) -> Facts:
    """What `cut.json` says of a cut. No times and no folders: the same cut has the same manifest."""
    order = asdict(report.order)
    order["hub_rule"] = (
        "a node with more distinct neighbours than hub_limit on one side is not expanded on that side "
        "(seeds always are; hub_sample of its triples are taken all the same); 0: no limit"
    )
    return {
        "format": FORMAT,
        "version": version("triplewise"),
        "profile": report.profile,
        "engine": report.engine,
        "order": order,
        "seeds": {
            "in_the_dump": report.seeds,
            "unknown_count": report.unknown_count,
            "unknown": list(report.unknown),
        },
        "triples": report.triples,
        "labels": report.labels,
        "hops": [asdict(hop) for hop in report.hops],
        "hub_count": report.hub_count,
        "hubs": [asdict(hub) for hub in report.hubs],
        "left_out_by_profile": report.left_out,
        "sources": [asdict(source) | {"path": source.path.name} for source in report.sources],
        "files": files,
    }
