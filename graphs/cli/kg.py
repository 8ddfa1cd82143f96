"""`triplewise kg`: load a graph, look at one, write down its shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, progress_bars, say
from triplewise.graphs.cli.subsets import add_cut, add_thin
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.tools.kg import KnowledgeGraph, Triple
    from triplewise.tools.kg.load import LoadReport

Vectors = Annotated[
    bool, typer.Option("--vectors", help="Also make the vectors of relations and ends: observing is faster.")
]
PairVectors = Annotated[
    bool, typer.Option("--pair-vectors", help="Also those of every relation with its end: slow, but once.")
]


def _make_vectors(folder: Path, every_pair: bool) -> None:
    """Make and keep the vectors in the graph's folder, and say what was made."""
    from triplewise.tools.kg import open_kg
    from triplewise.tools.retrieval.encoder import open_encoder
    from triplewise.tools.retrieval.observation.kg_vectors import make_vectors

    with progress_bars() as tell:
        made = make_vectors(folder, open_kg(folder), open_encoder(), pairs=every_pair, progress=tell)
    rows = [
        ("relations and ends", f"{made.texts:,} texts"),
        ("pairs", f"{made.pairs:,}" if every_pair else "as needed"),
        ("new vectors", f"{made.new:,}"),
        ("seconds", f"{made.seconds:.1f}"),
    ]
    out().print(pairs("\nVectors", rows))


SAMPLE, SHOWN, PATIENCE = 2_000, 12, 10.0
"""Facts read to describe a graph; how many are printed; seconds one query of `info` may take."""

Source = Annotated[str, typer.Argument(metavar="KG", help=o.KG_FORMS + ".")]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCES...",
        help="RDF files (.nt .ttl .rdf .trig, also .gz .zst .bz2), subject|relation|object .txt, labels.tsv, "
        "folders made by `triplewise kg cut`.",
    ),
]
Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder to make.")]
Labels = Annotated[
    list[Path] | None,
    typer.Option("--labels", metavar="F", help="A further table of labels (id, label, ...). Repeatable."),
]
OnError = Annotated[Literal["skip", "stop"], typer.Option("--on-error", help="What to do at a broken line.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the graph that the folder holds.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The YAML file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    kg = typer.Typer(help="Load a knowledge graph, look at one, write down its shape.", no_args_is_help=True)
    kg.command(
        epilog=examples(
            "triplewise kg load films.ttl --into films",
            "triplewise kg load kb.txt --into metaqa --profile metaqa",
            "triplewise kg load dump.nt.zst labels.tsv --into big --on-error skip",
            "triplewise kg load films.ttl --into films --vectors",
        )
    )(load)
    kg.command(epilog=examples("triplewise kg info demo", "triplewise kg info https://dbpedia.org/sparql"))(
        info
    )
    kg.command(
        epilog=examples(
            "triplewise kg profile films.ttl --out films.yaml",
            'triplewise ask "Who directed Alien?" --kg films.ttl --profile films.yaml',
        )
    )(profile)
    add_cut(kg)
    add_thin(kg)
    app.add_typer(kg, name="kg")


def load(
    sources: Files,
    into: Into,
    profile: o.Profile = None,
    labels: Labels = None,
    on_error: OnError = "stop",
    replace: Replace = False,
    vectors: Vectors = False,
    pair_vectors: PairVectors = False,
) -> None:
    """Load files into a folder that opens at once, with an index of its labels.

    A load that is interrupted leaves nothing behind. Vectors are made as they are needed, unless they are
    asked for here.
    """
    from triplewise.tools.kg.load import load_kg

    try:
        with progress_bars() as tell:
            report = load_kg(
                sources,
                into,
                profile=profile,
                labels=labels or [],
                on_error=on_error,
                progress=tell,
                replace=replace,
            )
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("pass replace=True", "give --replace")) from error
    for broken in report.broken[:SHOWN]:
        say(f"{broken.path}:{broken.line or '?'}: {broken.message}", "notice")
    if report.broken_count > SHOWN:
        say(f"and {report.broken_count - SHOWN:,} more broken lines", "notice")
    out().print(_loaded(report))
    if vectors or pair_vectors:
        _make_vectors(report.path, pair_vectors)


def _loaded(report: LoadReport) -> Table:
    """What a load did."""
    return pairs(
        f"Loaded {report.path}",
        (
            ("triples", f"{report.triples:,}"),
            ("labels", f"{report.names:,} names in the index"),
            ("profile", report.profile.name),
            ("broken lines", f"{report.broken_count:,}"),
            ("seconds", f"{report.seconds:.1f}"),
            ("use it", f'triplewise ask "..." --kg {report.path}'),
        ),
    )


def info(source: Source, profile: o.Profile = None) -> None:
    """Show what a graph holds: size, relations, labels, profile, some facts.

    Only a sample is read, so that this is quick on any endpoint.
    """
    from triplewise.tools.kg import open_kg

    kg = open_kg(source, profile=profile, timeout=PATIENCE)
    facts, outcome = _sample(kg)
    console = out()
    size, names = _sizes(kg, source)
    rows = [
        ("triples", size),
        ("labels", names),
        ("profile", kg.profile.name),
        ("label predicates", " ".join(kg.profile.label_predicates)),
        ("type predicates", " ".join(kg.profile.type_predicates)),
    ]
    console.print(pairs(str(source), rows))
    if not facts:
        console.print(f"No facts could be read ({outcome}).")
        return
    _print_relations(kg, facts)
    _print_facts(kg, facts)


def _sample(kg: KnowledgeGraph) -> tuple[list[Triple], str]:
    """Some facts other than names, and what became of the query for them."""
    from triplewise.tools.kg import IRI, Triple

    profile = kg.profile
    naming = (*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates)
    others = ", ".join(f"<{predicate}>" for predicate in naming)
    telling = f"FILTER(?p NOT IN ({others}))" if others else ""
    result = kg.query(f"SELECT ?s ?p ?o WHERE {{ ?s ?p ?o {telling} }} LIMIT {SAMPLE}")
    rows = (row for row in result.rows if isinstance(row[0], IRI) and isinstance(row[1], IRI))
    facts = [Triple(s, p, o) for s, p, o in rows if o is not None]  # type: ignore[arg-type]
    return facts, f"{result.outcome}: {result.message}" if result.message else str(result.outcome)


def _sizes(kg: KnowledgeGraph, source: str) -> tuple[str, str]:
    """How many triples and labels there are, where that is known without a slow query."""
    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.open import is_store, read_manifest

    folder = Path(source).expanduser()
    if is_store(folder):
        manifest = read_manifest(folder)
        return f"{manifest['triples']:,}", f"{manifest['names']:,} names in the index"
    if not isinstance(kg, EmbeddedKG):
        return "not counted: an endpoint may take minutes to", "looked up in the graph, no index here"
    count = kg.query("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")
    number = int(count.rows[0][0].value) if count.rows and count.rows[0][0] is not None else 0
    return f"{number:,}", "in an index made while opening"


def _print_relations(kg: KnowledgeGraph, facts: Sequence[Triple]) -> None:
    """The relations of the sample, most frequent first."""
    from collections import Counter

    from triplewise.tools.kg.vocabulary import relation_texts

    counts = Counter(kg.profile.short(f.relation) for f in facts if not kg.profile.excludes(f.relation))
    texts = relation_texts(kg, [r for r, _ in counts.most_common(SHOWN)])
    title = f"\nRelations ({len(counts)} in the first {len(facts):,} facts)"
    rows = [(relation, f"{text.label} ({counts[relation]:,})") for relation, text in texts.items()]
    out().print(pairs(title, rows))


def _print_facts(kg: KnowledgeGraph, facts: Sequence[Triple]) -> None:
    """Some facts of the sample, spread over it, with labels."""
    from triplewise.nodes.text import triple_text

    telling = [f for f in facts if not kg.profile.excludes(f.relation)] or list(facts)
    chosen = telling[:: max(1, len(telling) // 6)][:6]
    rows = list(zip([""] * len(chosen), triple_text(kg, chosen), strict=True))
    out().print(pairs("\nSome facts", rows))


def profile(source: Source, into: Out, force: Force = False) -> None:
    """Write the profile of a graph as YAML, to edit and use with --profile."""
    from triplewise.tools.kg import open_kg
    from triplewise.tools.kg.embedded import EmbeddedKG
    from triplewise.tools.kg.infer import infer_profile

    if into.exists() and not force:
        raise ConfigurationError(f"{into} exists already; choose another file or give --force")
    kg = open_kg(source)
    found = kg.profile
    if found.name == "generic" and not isinstance(kg, EmbeddedKG):
        found = infer_profile(kg)
    found.dump(into)
    say(f"wrote {into}; edit it, then: triplewise ask ... --kg {source} --profile {into}")
