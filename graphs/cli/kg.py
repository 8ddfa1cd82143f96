"""`triplewise kg`: load a graph, look at one, write down its shape, cut a part out, make one incomplete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import echo, echo_json, out, pairs, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.tools.kg import KnowledgeGraph

PATIENCE = 10.0
"""Seconds one query of `info` may take."""
SHOWN, SEEDS = 12, 5
"""Most broken lines printed, and seeds of a cut that are not in the dump."""

Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder to make.")]
Source = Annotated[str, typer.Argument(metavar="KG", help=o.KG_FORMS + ".")]

commands = typer.Typer(
    help="Load a knowledge graph, look at one, write down its shape.", no_args_is_help=True
)


@o.command(commands)
def load(
    into: Into,
    sources: list[Path] = o.argument(
        "SOURCES...",
        "RDF files (.nt .ttl .rdf .trig .jsonld, also .gz .zst .bz2), s|p|o lines (.txt), labels.tsv, "
        "folders of RDF files or made by `triplewise kg cut`.",
    ),
    profile: o.Profile = None,
    on_error: Literal["skip", "stop"] = o.option("", "What to do at a broken line.", "stop"),
    replace: bool = o.flag("Replace the graph that the folder holds.", "--replace"),
    vectors: bool = o.flag(
        "Also make vectors of relations and ends: observing is faster.",
        "--vectors",
    ),
) -> None:
    """Load files into a folder that opens at once, with an index of its labels.

    A load that is interrupted leaves nothing behind. Vectors are made as they are needed, unless they are
    asked for here.

    Examples:
        triplewise kg load films.ttl --into films
        triplewise kg load kb.txt --into metaqa --profile metaqa
        triplewise kg load dump.nt.zst labels.tsv --into big --on-error skip
        triplewise kg load films.ttl --into films --vectors
    """
    from triplewise.tools.kg.load import load_kg

    with progress_bars() as progress:
        report = load_kg(
            sources, into, profile=profile, on_error=on_error, progress=progress, replace=replace
        )
    for broken in report.broken[:SHOWN]:
        say(f"{broken.path}:{broken.line or '?'}: {broken.message}", "notice")
    if report.broken_count > SHOWN:
        say(f"and {report.broken_count - SHOWN:,} more broken lines", "notice")
    rows = [
        ("triples", f"{report.triples:,}"),
        ("labels", f"{report.names:,} names in the index"),
        ("profile", report.profile.name),
        ("broken lines", f"{report.broken_count:,}"),
        ("seconds", f"{report.seconds:.1f}"),
        ("use it", f'triplewise ask "..." --kg {report.path}'),
    ]
    out().print(pairs(f"Loaded {report.path}", rows))
    if vectors:
        from triplewise.tools.kg import open_kg
        from triplewise.tools.retrieval.encoder import open_encoder
        from triplewise.tools.retrieval.ranking import make_vectors

        kg, encoder = open_kg(report.path), open_encoder()
        with progress_bars() as progress:
            made = make_vectors(report.path, kg, encoder, progress=progress)
        counts = f"{made.texts:,} relations and ends, {made.new:,} of them new, in {made.seconds:.1f} s"
        out().print(pairs("\nVectors", [("vectors", counts)]))


@o.command(commands)
def index(
    login: o.Login,
    url: str = o.argument("URL", "A SPARQL 1.1 endpoint."),
    profile: o.Profile = None,
    force: bool = o.flag("Read the names anew.", "--force"),
    pause: float = o.option("SECONDS", "How long to wait after each request.", 0.2, min=0.0),
) -> None:
    """Read the names of an endpoint once into an index, so that entities are found in any spelling.

    It lies in the user's cache, and is used by itself whenever the URL is asked. One request is sent at a
    time. What is broken off goes on where it was when the same command is run again.

    Examples:
        triplewise kg index http://localhost:8890/sparql
        triplewise kg index https://sparql.example.org/query --pause 1
    """
    from triplewise.tools.kg.endpoint import EndpointKG
    from triplewise.tools.kg.endpoint_index import index_endpoint

    kg = login.open(url, profile=profile)
    if not isinstance(kg, EndpointKG):
        raise ConfigurationError(f"{url} is no endpoint: a graph of files is indexed as it is loaded")
    if (made := kg.indexed) and kg.index is not None and not force:
        say(f"{kg.name} was indexed on {made}; give --force to read its names anew")
        return
    with progress_bars("what was read is kept: run the same command again to go on") as progress:
        report = index_endpoint(kg, pause=pause, progress=progress)
    rows = [
        ("labels", f"{report.names:,} names in the index"),
        ("profile", report.profile.name),
        ("requests", f"{report.pages:,} pages"),
        ("seconds", f"{report.seconds:.1f}"),
        ("use it", f'triplewise ask "..." --kg {kg.name}'),
    ]
    out().print(pairs(f"Indexed {kg.name}", rows))


@o.command(commands)
def info(login: o.Login, source: Source, profile: o.Profile = None, as_json: o.Json = False) -> None:
    """Show what a graph holds: size, profile, classes, relations, some facts.

    Of a small graph, the schema card: classes with their members; relations with all their names, where they
    lead and some values. Of a large one only a sample is read, so that this is quick on any endpoint.

    Examples:
        triplewise kg info demo
        triplewise kg info https://dbpedia.org/sparql
    """
    from triplewise.graphs.around import sample_of, schema_of
    from triplewise.tools.kg.profile import BLANK
    from triplewise.tools.kg.vocabulary import triple_text
    from triplewise.tools.parsing.card import SchemaCard
    from triplewise.tools.retrieval.encoder import open_encoder

    kg, console = login.open(source, profile=profile, timeout=PATIENCE), out()
    if as_json:
        return echo_json(schema_of(kg, open_encoder()))
    shape, (size, names) = kg.profile, _size_of(kg, Path(source).expanduser())
    rows = [
        ("triples", size),
        ("labels", names),
        ("profile", shape.name),
        ("label predicates", "\n".join(shape.label_predicates)),
        ("type predicates", "\n".join(shape.type_predicates)),
    ]
    console.print(pairs(kg.name if kg.is_remote else source, rows))
    facts = sample_of(kg)
    if not facts:
        return console.print("No facts could be read (empty).")
    facts = [f for f in facts if not shape.excludes(f.relation)] or facts
    if (card := SchemaCard.of(kg)) is not None:
        echo(f"\n{card.text()}")
    else:
        schema = schema_of(kg, open_encoder())
        rows = [(r["id"], f"{r['names'][0]} ({r['facts']:,})") for r in schema["relations"]]
        console.print(pairs(f"\nRelations of the first {len(facts):,} facts", rows))
    facts = [f for f in facts if BLANK not in f.n3()] or facts
    spread = facts[:: max(1, len(facts) // 6)][:6]
    return console.print(pairs("\nSome facts", [("", text) for text in triple_text(kg, spread, exact=False)]))


def _size_of(kg: KnowledgeGraph, folder: Path) -> tuple[str, str]:
    """Return how many triples a graph has, and how its labels are found, in words."""
    from triplewise.tools.kg.endpoint import EndpointKG
    from triplewise.tools.kg.endpoint_names import full_text_of
    from triplewise.tools.kg.open import is_store, read_manifest

    if is_store(folder):
        manifest = read_manifest(folder)
        return f"{manifest['triples']:,}", f"{manifest['names']:,} names in the index"
    if isinstance(kg, EndpointKG):
        way = full_text_of(kg)
        asked = f"{way.name}, asked by words" if way else "asked for as they are written"
        names = f"index of {kg.indexed}" if kg.indexed else f"{asked}; make an index: triplewise kg index URL"
        return "not counted: an endpoint may take minutes to", names
    counted = kg.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")
    number = counted.rows[0][0] if counted.outcome.ok and counted.rows else None
    size = f"{int(number.value):,}" if number is not None else "too many to count"
    return size, "in an index made while opening"


@o.command(commands)
def name(
    graph: o.GraphOptions,
    relation: str = o.argument("RELATION", "Its id, as `triplewise kg info` shows it."),
    words: str = o.argument("NAME", "What it is also called, in quotes."),
) -> None:
    """Give a relation of a graph another name, by which questions then find it.

    It is kept in your data folder (names.jsonl) and belongs to the graph's profile from then on. In a profile
    file of your own it is a line under `aliases`.

    Examples:
        triplewise kg name salary "remuneration" --kg company.ttl
    """
    from triplewise.graphs.around import name_relation

    id, place = name_relation(graph.open_graph(), graph.source, relation, words)
    say(f"{id} is also called {' '.join(words.split())!r} (kept in {place})")


@o.command(commands)
def profile(
    source: Source,
    login: o.Login,
    out_: Path | None = o.option("FILE", "The YAML file to write.", None, "--out", shown="the terminal"),
    force: bool = o.flag("Overwrite the file.", "--force"),
) -> None:
    """Show the profile of a graph as YAML, each key explained, or write it to edit and use with --profile.

    Examples:
        triplewise kg profile films.ttl
        triplewise kg profile films.ttl --out films.yaml
        triplewise ask "Who directed Alien?" --kg films.ttl --profile films.yaml
    """
    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.infer import infer_profile

    if out_ is not None and out_.exists() and not force:
        raise ConfigurationError(f"{out_} exists already; choose another file or give --force")
    kg = login.open(source)
    source = source if isinstance(kg, EmbeddedKG) else kg.name
    generic = kg.profile.name == "generic" and not isinstance(kg, EmbeddedKG)
    shape = infer_profile(kg) if generic else kg.profile
    if out_ is None:
        echo(shape.yaml(), nl=False)
        return
    shape.dump(out_)
    say(f"wrote {out_}; edit it, then: triplewise ask ... --kg {source} --profile {out_}")


@o.command(commands)
def cut(
    into: Into,
    seeds: Path = o.option(
        "FILE",
        "Entities to cut around: ids or IRIs, one a line, or JSON lines with `entities`, `topic_entity` "
        "or `id`, as data sets have them.",
        ...,
    ),
    from_: list[Path] = o.option(
        "DUMP",
        "A file of any size in a format that `kg load` takes (N-Triples is read line by line). Repeatable.",
        ...,
        "--from",
    ),
    hops: int = o.option("N", "How far from the seeds.", 3, min=1),
    direction: Literal["both", "out"] = o.option(
        "", "Follow triples both ways, or from subject to object only.", "both"
    ),
    hub_limit: int = o.option(
        "N",
        "A node with more neighbours than this on one side is not expanded on that side (`United "
        "States`: what it is part of, but not all that is in it). 0: no limit.",
        10_000,
        min=0,
    ),
    language: list[str] | None = o.option("TAG", "Keep labels in this language only. Repeatable."),
    profile: o.Profile = None,
    engine: Literal["duckdb", "spark"] = o.option(
        "", "spark: for a cluster, with Spark's own settings.", "duckdb"
    ),
    memory: str = o.option("SIZE", "What DuckDB may use; the rest goes to disk.", "4GB"),
    threads: int | None = o.option("N", "Of DuckDB.", min=1, shown="all cores"),
    overwrite: bool = o.flag("Replace the cut that the folder holds.", "--overwrite"),
) -> None:
    """Cut all triples within some hops of given entities out of a dump, with their labels.

    The dump may be larger than memory. What is broken off goes on when the same command is run again: no dump
    is taken apart twice. DIR then holds triples.nt.gz, labels.nt.gz and cut.json (what was cut), and
    `triplewise kg load DIR` takes it as it is.

    Examples:
        triplewise kg cut --seeds ids.txt --from dump.nt.bz2 --into part --profile wikidata
        triplewise kg cut --seeds test.jsonl --from a.nt.gz --from labels.tsv.gz --into part --hops 2
        triplewise kg load part --into kg --profile wikidata
    """
    from triplewise.tools.kg.subset.extract import SubsetSpec, extract_subset

    spec = SubsetSpec(hops, direction, hub_limit, tuple(language or ()))
    options: Any = {"engine": engine, "memory": memory, "threads": threads, "overwrite": overwrite}
    with progress_bars(f"what is done is kept in {into}: run the same command again to go on") as progress:
        report = extract_subset(
            seeds, from_, into, spec, profile=profile or "generic", progress=progress, **options
        )
    for source in report.sources:
        if source.bad_lines:
            where = f"{source.path}:{source.first_bad or '?'}"
            say(f"{source.bad_lines:,} lines left out; the first is {where}: {source.message}", "notice")
    if report.unknown_count:
        names = ", ".join(report.unknown[:SEEDS]) + (", ..." if report.unknown_count > SEEDS else "")
        say(f"{report.unknown_count:,} seeds are not in the dump: {names}", "notice")
    hop_rows = [
        (f"hop {h.number}", f"{h.nodes:,} nodes, {h.triples:,} new triples, {h.hubs:,} hubs left")
        for h in report.hops
    ]
    rows = [
        ("seeds", f"{report.seeds:,} in the dump, {report.unknown_count:,} not"),
        *hop_rows,
        ("triples", f"{report.triples:,}"),
        ("labels", f"{report.labels:,}"),
        ("left out", f"{report.left_out:,} triples of relations that the profile leaves out"),
        ("seconds", f"{report.seconds:.1f}"),
        ("use it", f"triplewise kg load {report.path} --into KG{f' --profile {profile}' if profile else ''}"),
    ]
    out().print(pairs(f"Cut {report.path}", rows))


@o.command(commands)
def thin(
    into: Into,
    kg: str = o.option("KG", "A folder made by `triplewise kg load`, an RDF file, or demo. Only read.", ...),
    questions: Path = o.option(
        "FILE", "JSON lines (plain or .gz) with `question`, `answers`, and `topic_entity` or `entities`.", ...
    ),
    drop: float = o.option("SHARE", "Share of the collected triples that is dropped.", ..., min=0.0, max=1.0),
    seed: int = o.option("N", "Of all that is drawn at random.", 1),
    hops: int = o.option("N", "Longest path that is looked for.", 4, min=1),
    profile: o.Profile = None,
) -> None:
    """Make an incomplete graph: drop triples on the shortest paths from questions to their answers.

    For testing what an agent does where the graph has gaps (SymAgent, algorithm 1). Of all triples on the
    paths a share is drawn and dropped; the rest is a graph that `ask` takes. DIR also holds dropped.nt (what
    was dropped: with it the graph is whole again) and thinned.json (how it was done). The same seed drops the
    same triples. What is interrupted leaves nothing in the way: run it again.

    Examples:
        triplewise kg thin --kg films --questions test.jsonl --into films-thin --drop 0.5 --seed 1
        triplewise kg thin --kg films.ttl --questions test.jsonl --into thin --drop 1
        triplewise ask "Who directed Alien?" --kg films-thin --set documents=articles
    """
    from triplewise.tools.kg.subset.incomplete import IncompleteSpec, TopicQuestion, make_incomplete
    from triplewise.tools.planning.seeds import read_seeds

    spec = IncompleteSpec(drop, seed, hops)
    topics = [TopicQuestion(s.question, [t for _, t in s.named], s.answers) for s in read_seeds(questions)]
    with progress_bars() as progress:
        report = make_incomplete(
            kg, topics, into, spec, questions_file=questions, profile=profile, progress=progress
        )
    if report.unknown:
        say(f"{report.unknown:,} questions are about something that the graph does not have", "notice")
    if report.unreached:
        say(f"{report.unreached:,} answers are not within {hops} hops of their topic", "notice")
    share = f"{report.dropped / report.collected:.0%}" if report.collected else "none"
    rows = [
        ("triples", f"{report.kept:,} of {report.triples:,}"),
        ("on paths", f"{report.collected:,}, of which {report.dropped:,} dropped ({share})"),
        ("questions", f"{report.questions:,}, of which {report.hit_questions:,} lost part of a path"),
        ("answers", f"{report.answers:,}, of which {report.hit_answers:,} lost part of theirs"),
        ("seconds", f"{report.seconds:.1f}"),
        ("use it", f'triplewise ask "..." --kg {report.path}'),
    ]
    out().print(pairs(f"Thinned {report.path}", rows))
