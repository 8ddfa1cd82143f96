"""`triplewise kg`: load a graph, look at one, write down its shape, cut a part out, make one incomplete."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import Json, echo, echo_json, out, pairs, progress_bars, say, summary
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.tools.kg import KnowledgeGraph

PATIENCE, SHOWN = 10.0, 12  # Seconds one query of `info` may take; most broken lines that are printed

SOURCES = "RDF files (.nt .ttl .rdf .trig .jsonld; .gz .zst .bz2), s|p|o lines (.txt), labels.tsv, folders."
CENTRES = "Entities to cut around: ids or IRIs, one a line."
DUMP = "A file of any size that `kg load` takes (N-Triples is read line by line). Repeatable."
HUBS = "A node with more neighbours than this on one side is not expanded on that side. 0: no limit."
TOPICS = "JSON lines with `question`, `answers`, and `topic_entity` or `entities`."

Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder to make.")]
Source = Annotated[str, typer.Argument(metavar="KG", help=o.KG_FORMS + ".")]

commands = typer.Typer(help="Load a knowledge graph, look at one, see its shape.", no_args_is_help=True)


@o.command(commands)
def load(
    into: Into,
    sources: list[Path] = o.argument("SOURCES...", SOURCES),
    profile: o.Profile = None,
    on_error: Literal["skip", "stop"] = o.option("", "What to do at a broken line.", "stop"),
    replace: bool = o.flag("Replace the graph that the folder holds.", "--replace"),
    vectors: bool = o.flag("Also make vectors of relations and ends: observing is faster.", "--vectors"),
) -> None:
    """Load files into a folder that opens at once, with an index of its labels.

    A load that is interrupted leaves nothing behind.

    Examples:
        triplewise kg load films.ttl --into films
        triplewise kg load dump.nt.zst labels.tsv --into big --on-error skip
    """
    from triplewise.tools.kg.load import load_kg

    settings: Any = {"on_error": on_error, "replace": replace}
    with progress_bars() as progress:
        report = load_kg(sources, into, profile=profile, progress=progress, **settings)
    for broken in report.broken[:SHOWN]:
        say(str(broken), "notice")
    title = f"Loaded {report.path}, profile {report.profile.name}"
    out().print(summary(title, report, f'triplewise ask "..." --kg {report.path}'))
    if vectors:
        from triplewise.tools.kg import open_kg
        from triplewise.tools.retrieval.encoder import open_encoder
        from triplewise.tools.retrieval.ranking import make_vectors

        with progress_bars() as progress:
            texts = make_vectors(report.path, open_kg(report.path), open_encoder(), progress)
        say(f"made vectors of {texts:,} relations and ends")


@o.command(commands)
def index(
    url: str = o.argument("URL", "A SPARQL 1.1 endpoint."),
    profile: o.Profile = None,
    force: bool = o.flag("Read the names anew.", "--force"),
    pause: float = o.option("SECONDS", "How long to wait after each request.", 0.2, min=0.0),
) -> None:
    """Read the names of an endpoint once into an index, so that entities are found in any spelling.

    It lies in the user's cache, and is used whenever the URL is queried. An interrupted run is resumed
    where it was when the same command is run again.

    Examples:
        triplewise kg index https://sparql.example.org/query --pause 1
    """
    from triplewise.tools.federation.sources import open_sources
    from triplewise.tools.kg.endpoint import EndpointKG
    from triplewise.tools.kg.endpoint_index import index_endpoint

    kg = open_sources(url, profile=profile)
    if not isinstance(kg, EndpointKG):
        raise ConfigurationError(f"{url} is not an endpoint: a graph of files is indexed as it is loaded")
    if (made := kg.indexed) and kg.index is not None and not force:
        return say(f"{kg.name} was indexed on {made}; give --force to read its names anew")
    with progress_bars("what was read is kept: run the same command again to go on") as progress:
        report = index_endpoint(kg, pause=pause, progress=progress)
    title = f"Indexed {kg.name}, profile {report.profile.name}"
    return out().print(summary(title, report, f'triplewise ask "..." --kg {kg.name}'))


@o.command(commands)
def info(source: Source, profile: o.Profile = None, as_json: Json = False) -> None:
    """Show what a graph holds: size, profile, classes, relations; of a large one, those of a sample.

    Examples:
        triplewise kg info demo
        triplewise kg info https://dbpedia.org/sparql
    """
    from triplewise.tools.federation.sources import open_sources
    from triplewise.tools.parsing.card import SchemaCard
    from triplewise.tools.retrieval.encoder import open_encoder

    kg = open_sources(source, profile=profile, timeout=PATIENCE)
    card = SchemaCard.of(kg, open_encoder())
    if as_json:
        return echo_json(asdict(card))
    rows = [*_size_of(kg, Path(source).expanduser()), ("profile", kg.profile.name)]
    out().print(pairs(kg.name if kg.is_remote else source, rows))
    return echo(f"\n{card.text()}" if card.classes or card.relations else "No facts could be read (empty).")


def _size_of(kg: KnowledgeGraph, folder: Path) -> list[tuple[str, str]]:
    """Return how many triples a graph has, and how its labels are found, in words."""
    from triplewise.tools.kg.endpoint import EndpointKG
    from triplewise.tools.kg.open import is_store, read_manifest

    if is_store(folder):
        manifest = read_manifest(folder)
        rows = [("triples", f"{manifest.triples:,}"), ("labels", f"{manifest.names:,} names in the index")]
        if not all("sha256" in facts for facts in manifest.files.values()):
            again = f"triplewise kg load SOURCES --into {folder} --replace"
            rows.append(("checksums", f"none, so damage may go unnoticed; to have them: {again}"))
        return rows
    if isinstance(kg, EndpointKG):
        names = f"index of {kg.indexed}" if kg.indexed else f"none; make one: triplewise kg index {kg.name}"
        return [("triples", "not counted: an endpoint may take minutes to"), ("labels", names)]
    counted = kg.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")
    number = counted.rows[0][0] if counted.outcome.ok and counted.rows else None
    return [("triples", f"{int(number.value):,}" if number is not None else "too many to count")]


@o.command(commands)
def name(
    graph: o.GraphOptions,
    relation: str = o.argument("RELATION", "Its id, as `triplewise kg info` shows it."),
    words: str = o.argument("NAME", "What it is also called, in quotes."),
) -> None:
    """Give a relation of a graph another name, by which questions then find it.

    It is kept in your data folder (names.jsonl) and belongs to the graph's profile from then on.

    Examples:
        triplewise kg name salary "remuneration" --kg company.ttl
    """
    from triplewise.graphs.around import name_relation

    id, place = name_relation(graph.open_graph(), graph.source, relation, words)
    say(f"{id} is also called {' '.join(words.split())!r} (kept in {place})")


@o.command(commands)
def profile(source: Source) -> None:
    """Print the profile of a graph as YAML, each key explained, to edit and use with --profile.

    Examples:
        triplewise kg profile films.ttl > films.yaml
        triplewise ask "Who directed Alien?" --kg films.ttl --profile films.yaml
    """
    from triplewise.tools.federation.sources import open_sources
    from triplewise.tools.kg.infer import infer_profile
    from triplewise.tools.kg.local import LocalKG

    kg = open_sources(source)
    is_unknown = kg.profile.name == "generic" and not isinstance(kg, LocalKG)
    echo((infer_profile(kg) if is_unknown else kg.profile).yaml(), nl=False)


@o.command(commands)
def cut(
    into: Into,
    seeds: Path = o.option("FILE", CENTRES, ...),
    from_: list[Path] = o.option("DUMP", DUMP, ..., "--from"),
    hops: int = o.option("N", "How far from the seeds.", 3, min=1),
    hub_limit: int = o.option("N", HUBS, 10_000, min=0),
    language: list[str] | None = o.option("TAG", "Keep labels in this language only. Repeatable."),
    profile: o.Profile = None,
    memory: str = o.option("SIZE", "What DuckDB may use; the rest goes to disk.", "4GB"),
    overwrite: bool = o.flag("Replace the cut that the folder holds.", "--overwrite"),
) -> None:
    """Cut all triples within some hops of given entities out of a dump, with their labels.

    The dump may be larger than memory. DIR then holds triples, labels and cut.json (what was cut), and
    `triplewise kg load DIR` takes it as it is.

    Examples:
        triplewise kg cut --seeds ids.txt --from a.nt.gz --from labels.tsv.gz --into part --hops 2
        triplewise kg load part --into kg --profile wikidata
    """
    from triplewise.tools.kg.subset.extract import SubsetSpec, extract_subset

    spec = SubsetSpec(hops, hub_limit, tuple(language or ()))
    options: Any = {"memory": memory, "overwrite": overwrite, "profile": profile or "generic"}
    with progress_bars() as progress:
        report = extract_subset(seeds, from_, into, spec, progress=progress, **options)
    for source in (s for s in report.sources if s.bad_lines):
        where = f"{source.path}:{source.first_bad or '?'}"
        say(f"{source.bad_lines:,} lines left out; the first is {where}: {source.message}", "notice")
    if report.unknown:
        names = ", ".join(report.unknown[:SHOWN])
        say(f"{len(report.unknown):,} seeds are not in the dump, e.g. {names}", "notice")
    for hop in report.hops:
        echo(f"hop {hop.number}: {hop.nodes:,} nodes, {hop.triples:,} new triples, {hop.hubs:,} hubs left")
    use = f"triplewise kg load {report.path} --into KG{f' --profile {profile}' if profile else ''}"
    out().print(summary(f"Cut {report.path}", report, use))


@o.command(commands)
def thin(
    into: Into,
    kg: str = o.option("KG", "A folder made by `triplewise kg load`, an RDF file, or demo. Only read.", ...),
    questions: Path = o.option("FILE", TOPICS, ...),
    drop: float = o.option("SHARE", "Share of the collected triples that is dropped.", ..., min=0.0, max=1.0),
    seed: int = o.option("N", "Of all that is drawn at random.", 1),
    hops: int = o.option("N", "Longest path that is looked for.", 4, min=1),
    profile: o.Profile = None,
) -> None:
    """Make an incomplete graph: drop triples on the shortest paths from questions to their answers.

    For testing what an agent does where the graph has gaps (SymAgent, algorithm 1). DIR also holds dropped.nt
    and thinned.json (how it was done). The same seed drops the same triples.

    Examples:
        triplewise kg thin --kg films --questions test.jsonl --into films-thin --drop 0.5 --seed 1
    """
    from triplewise.tools.kg.subset.incomplete import TopicQuestion, make_incomplete
    from triplewise.tools.planning.seeds import read_seeds

    topics = [TopicQuestion(s.question, [t for _, t in s.named], s.answers) for s in read_seeds(questions)]
    options: Any = {"questions_file": questions, "profile": profile, "seed": seed, "hops": hops}
    with progress_bars() as progress:
        report = make_incomplete(kg, topics, into, drop=drop, progress=progress, **options)
    out().print(summary(f"Thinned {report.path}", report, f'triplewise ask "..." --kg {report.path}'))
