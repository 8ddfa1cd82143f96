"""`triplewise kg`: load a graph, look at one, write down its shape; see `subsets` for cut and thin."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli import subsets
from triplewise.graphs.cli.console import examples, out, pairs, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError

SAMPLE, SHOWN, PATIENCE = 2_000, 12, 10.0
"""Facts read to describe a graph; how many are printed; seconds one query of `info` may take."""

Source = Annotated[str, typer.Argument(metavar="KG", help=o.KG_FORMS + ".")]

commands = typer.Typer(
    help="Load a knowledge graph, look at one, write down its shape.", no_args_is_help=True
)


@commands.command(
    epilog=examples(
        "triplewise kg load films.ttl --into films",
        "triplewise kg load kb.txt --into metaqa --profile metaqa",
        "triplewise kg load dump.nt.zst labels.tsv --into big --on-error skip",
        "triplewise kg load films.ttl --into films --vectors",
    )
)
def load(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCES...",
            help="RDF files (.nt .ttl .rdf .trig, also .gz .zst .bz2), subject|relation|object .txt, "
            "labels.tsv, folders made by `triplewise kg cut`.",
        ),
    ],
    into: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    profile: o.Profile = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(metavar="F", help="A further table of labels (id, label, ...). Repeatable."),
    ] = None,
    on_error: Annotated[Literal["skip", "stop"], typer.Option(help="What to do at a broken line.")] = "stop",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the graph that the folder holds.")
    ] = False,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", help="Also make the vectors of relations and ends: observing is faster."),
    ] = False,
    pair_vectors: Annotated[
        bool,
        typer.Option("--pair-vectors", help="Also those of every relation with its end: slow, but once."),
    ] = False,
) -> None:
    """Load files into a folder that opens at once, with an index of its labels.

    A load that is interrupted leaves nothing behind. Vectors are made as they are needed, unless they are
    asked for here.
    """
    from triplewise.tools.kg.load import load_kg

    try:
        with progress_bars() as progress:
            report = load_kg(
                sources,
                into,
                profile=profile,
                labels=labels or [],
                on_error=on_error,
                progress=progress,
                replace=replace,
            )
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("pass replace=True", "give --replace")) from error
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
    if vectors or pair_vectors:
        from triplewise.tools.kg import open_kg
        from triplewise.tools.retrieval.encoder import open_encoder
        from triplewise.tools.retrieval.observation.kg_vectors import make_vectors

        kg = open_kg(report.path)
        with progress_bars() as progress:
            made = make_vectors(report.path, kg, open_encoder(), pairs=pair_vectors, progress=progress)
        rows = [
            ("relations and ends", f"{made.texts:,} texts"),
            ("pairs", f"{made.pairs:,}" if pair_vectors else "as needed"),
            ("new vectors", f"{made.new:,}"),
            ("seconds", f"{made.seconds:.1f}"),
        ]
        out().print(pairs("\nVectors", rows))


@commands.command(epilog=examples("triplewise kg info demo", "triplewise kg info https://dbpedia.org/sparql"))
def info(source: Source, profile: o.Profile = None) -> None:
    """Show what a graph holds: size, relations, labels, profile, some facts.

    Only a sample is read, so that this is quick on any endpoint.
    """
    from triplewise.nodes.text import triple_text
    from triplewise.tools.kg import IRI, Triple, open_kg
    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.open import is_store, read_manifest
    from triplewise.tools.kg.vocabulary import relation_texts

    kg, console, folder = open_kg(source, profile=profile, timeout=PATIENCE), out(), Path(source).expanduser()
    shape = kg.profile
    size, names = "not counted: an endpoint may take minutes to", "looked up in the graph, no index here"
    if is_store(folder):
        manifest = read_manifest(folder)
        size, names = f"{manifest['triples']:,}", f"{manifest['names']:,} names in the index"
    elif isinstance(kg, EmbeddedKG):
        counted = kg.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }").rows
        size = f"{int(counted[0][0].value):,}" if counted and counted[0][0] else "too many to count"
        names = "in an index made while opening"
    rows = [
        ("triples", size),
        ("labels", names),
        ("profile", shape.name),
        ("label predicates", " ".join(shape.label_predicates)),
        ("type predicates", " ".join(shape.type_predicates)),
    ]
    console.print(pairs(source, rows))

    naming = (*shape.label_predicates, *shape.alias_predicates, *shape.description_predicates)
    others = f"FILTER(?p NOT IN ({', '.join(f'<{p}>' for p in naming)}))" if naming else ""
    result = kg.query(f"SELECT ?s ?p ?o WHERE {{ ?s ?p ?o {others} }} LIMIT {SAMPLE}")
    facts = [
        Triple(s, p, value)
        for s, p, value in result.rows
        if isinstance(s, IRI) and isinstance(p, IRI) and value is not None
    ]
    if not facts:
        why = f"{result.outcome}: {result.message}" if result.message else result.outcome
        console.print(f"No facts could be read ({why}).")
        return
    facts = [f for f in facts if not shape.excludes(f.relation)] or facts
    counts = Counter(shape.short(f.relation) for f in facts)
    texts = relation_texts(kg, [relation for relation, _ in counts.most_common(SHOWN)])
    rows = [(relation, f"{text.label} ({counts[relation]:,})") for relation, text in texts.items()]
    console.print(pairs(f"\nRelations ({len(counts)} in the first {len(facts):,} facts)", rows))
    spread = facts[:: max(1, len(facts) // 6)][:6]
    console.print(pairs("\nSome facts", [("", text) for text in triple_text(kg, spread, exact=False)]))


@commands.command(
    epilog=examples(
        "triplewise kg profile films.ttl --out films.yaml",
        'triplewise ask "Who directed Alien?" --kg films.ttl --profile films.yaml',
    )
)
def profile(
    source: Source,
    into: Annotated[Path, typer.Option("--out", metavar="FILE", help="The YAML file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write the profile of a graph as YAML, to edit and use with --profile."""
    from triplewise.tools.kg import open_kg
    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.infer import infer_profile

    if into.exists() and not force:
        raise ConfigurationError(f"{into} exists already; choose another file or give --force")
    kg = open_kg(source)
    generic = kg.profile.name == "generic" and not isinstance(kg, EmbeddedKG)
    (infer_profile(kg) if generic else kg.profile).dump(into)
    say(f"wrote {into}; edit it, then: triplewise ask ... --kg {source} --profile {into}")


commands.command(epilog=subsets.CUT_EXAMPLES)(subsets.cut)
commands.command(epilog=subsets.THIN_EXAMPLES)(subsets.thin)
