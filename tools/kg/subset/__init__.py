"""Cutting subgraphs out of dumps larger than memory (ODA, section 3.2)."""

from triplewise.tools.kg.subset.engines import DuckDB, Engine, Spark
from triplewise.tools.kg.subset.extract import cut_kg
from triplewise.tools.kg.subset.report import CutOrder, CutReport, Hop, Hub
from triplewise.tools.kg.subset.seeds import Seeds, read_seed_ids

__all__ = [
    "CutOrder",
    "CutReport",
    "DuckDB",
    "Engine",
    "Hop",
    "Hub",
    "Seeds",
    "Spark",
    "cut_kg",
    "read_seed_ids",
]
