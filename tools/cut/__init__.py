"""Cutting subgraphs out of dumps larger than memory (ODA, section 3.2)."""

from triplewise.tools.cut.cut import cut_kg
from triplewise.tools.cut.engines import DuckDB, Engine, Spark
from triplewise.tools.cut.report import CutOrder, CutReport, Hop, Hub
from triplewise.tools.cut.seeds import Seeds, read_seed_ids

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
