"""The engines that an extraction runs on: DuckDB here, Spark where one machine is not enough.

Both know three things: to give folders of Parquet a name, to write what a query yields, and to close.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.protocol import batches

ENGINES = ("duckdb", "spark")
ROWS = 100_000  # of a Parquet file that are read or written at once


class DuckDB:
    """DuckDB, which moves to the folder `spill` what does not fit into the memory it may use (`4GB`).

    Raises `ConfigurationError`: the packages are missing, or `memory` is no size.
    """

    name = "duckdb"

    def __init__(self, spill: Path, memory: str, threads: int | None) -> None:
        self._duckdb = _import("duckdb", "cut")
        spill.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {"threads": threads} if threads else {}
        config |= {"temp_directory": str(spill), "memory_limit": memory, "preserve_insertion_order": False}
        try:
            self._con = self._duckdb.connect(config=config)
        except self._duckdb.Error as error:
            raise ConfigurationError(f"memory {memory!r} is no size; write e.g. 4GB ({error})") from error
        self.close = self._con.close

    def name_table(self, name: str, *folders: Path) -> None:
        """Give the Parquet files below some folders a name in queries."""
        files = ", ".join(_quoted(folder / "**" / "*.parquet") for folder in folders)
        self._con.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet([{files}])")

    def write(self, query: str, folder: Path) -> None:
        """Write what a query yields as Parquet into a folder."""
        file = _quoted(folder / "part-0.parquet")
        try:
            self._con.execute(f"COPY ({query}) TO {file} (FORMAT parquet, COMPRESSION zstd)")
        except self._duckdb.IOException as error:
            raise DataError(f"cannot be read or written: {error}", folder) from error
        except self._duckdb.OutOfMemoryException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(f"too little memory ({reason}); give more by --memory") from error
        except RuntimeError as error:
            if "interrupted" in str(error).lower():  # this is how Ctrl-C reaches a query
                raise KeyboardInterrupt from error
            raise


class Spark:
    """A Spark session: the one given, which stays open, or one as Spark's own settings have it.

    Raises `ConfigurationError`: the packages or Java are missing.
    """

    name = "spark"

    def __init__(self, session: Any = None) -> None:
        sql = _import("pyspark.sql", "spark")
        self._own = session is None
        if self._own and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
            raise ConfigurationError(
                "Spark needs Java 17 or newer, and no `java` was found; install one "
                "(e.g. apt-get install default-jre-headless) or set JAVA_HOME"
            )
        self._session = session or sql.SparkSession.builder.appName("triplewise kg cut").getOrCreate()

    def name_table(self, name: str, *folders: Path) -> None:
        """As `DuckDB.name_table`."""
        reader = self._session.read.options(recursiveFileLookup=True, pathGlobFilter="*.parquet")
        reader.parquet(*(folder.absolute().as_uri() for folder in folders)).createOrReplaceTempView(name)

    def write(self, query: str, folder: Path) -> None:
        """As `DuckDB.write`."""
        self._session.sql(query).write.mode("overwrite").parquet(folder.absolute().as_uri())

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._own:
            self._session.stop()


Engine: TypeAlias = DuckDB | Spark


def read_rows(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of a folder of Parquet files, file by file in the order of their names."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def count_rows(folder: Path) -> int:
    """How many rows the Parquet files in a folder have."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(file).num_rows) for file in folder.glob("*.parquet"))


def write_rows(folder: Path, rows: Iterable[tuple[str, ...]], *names: str) -> None:
    """Write rows of texts as Parquet with these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in names])
    folder.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(folder / "part-0.parquet", schema, compression="zstd") as writer:
        for batch in batches(rows, ROWS):
            writer.write_table(pa.table([list(c) for c in zip(*batch, strict=True)], schema=schema))


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _import(module: str, extra: str) -> Any:
    try:
        import pyarrow  # noqa: F401

        return import_module(module)
    except ImportError as error:
        remedy = f"pip install 'triplewise[{extra}]'"
        raise ConfigurationError(f"the package {error.name} is not installed: {remedy}") from error
