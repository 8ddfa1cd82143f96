"""Parts of graphs: extracted from dumps larger than memory (ODA, 3.2), and made incomplete (SymAgent)."""

from triplewise.tools.kg.subset.engines import DuckDB, Engine, Spark
from triplewise.tools.kg.subset.extract import SubsetReport, SubsetSpec, extract_subset, read_seed_ids

__all__ = ["DuckDB", "Engine", "Spark", "SubsetReport", "SubsetSpec", "extract_subset", "read_seed_ids"]
