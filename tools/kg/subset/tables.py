"""Tables of a cut in its work folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.rdf import safe_iri
from triplewise.tools.kg.subset.engines import Engine

if TYPE_CHECKING:
    import ibis.expr.types as ir


def kept(engine: Engine, table: ir.Table, folder: Path) -> ir.Table:
    """Compute a table now, into a folder of its own, and read it from there."""
    folder.mkdir(parents=True, exist_ok=True)
    engine.write(table, folder)
    return engine.read(folder)


def column(engine: Engine, values: Sequence[str], name: str, folder: Path) -> ir.Table:
    """A table of one column of texts, from here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: pa.array(values, pa.string())}), folder / "part-0.parquet")
    return engine.read(folder)


def naming_predicates(profile: Profile) -> frozenset[str]:
    """The predicates of labels, aliases and descriptions, as N-Triples writes them."""
    every = (*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates)
    return frozenset(f"<{predicate}>" for predicate in every)


def iri_of(term: str) -> IRI:
    """The IRI that N-Triples writes so."""
    return safe_iri(term[1:-1])
