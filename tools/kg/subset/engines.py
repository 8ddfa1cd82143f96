"""The engines that an extraction runs on: DuckDB here, Spark where one machine is not enough.

An engine reads a dump as tables of lines, reads and writes folders of Parquet, and nothing else: what is
computed stands in expressions that are the same for both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.rdf import line_blocks, open_file, readable_lines

if TYPE_CHECKING:
    import ibis.expr.types as ir

ENGINES = ("duckdb", "spark")
BLOCK = 64 << 20
"""Bytes of text that DuckDB is given at once: memory use is some times this."""


class Lines(NamedTuple):
    """A part of a dump.

    Attributes:
        table: `line`, without its end, and `n`, its place in the part from 0 (null if unknown).
        lines: how many; None if not counted. position: bytes of the file on disk that have been read.
    """

    table: ir.Table
    lines: int | None
    position: int


class DuckDB:
    """DuckDB, which moves to disk what does not fit into the memory it may use."""

    name = "duckdb"

    def __init__(self, spill: Path, memory: str = "4GB", threads: int | None = None) -> None:
        """Connect.

        Args:
            spill: folder for what does not fit in memory.
            memory: how much it may use, e.g. `4GB`. threads: all cores if None.

        Raises:
            ConfigurationError: the packages are missing, or `memory` is no size.
        """
        ibis = _import_ibis("duckdb")
        import duckdb

        spill.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {"threads": threads} if threads else {}
        try:
            self._con = ibis.duckdb.connect(
                temp_directory=str(spill), memory_limit=memory, preserve_insertion_order=False, **config
            )
        except duckdb.Error as error:
            raise ConfigurationError(f"memory {memory!r} is no size; write e.g. 4GB ({error})") from error

    def lines(self, path: Path) -> Iterator[Lines]:
        """The lines of a file, decompressed here, in parts that fit in memory."""
        import ibis
        import pyarrow as pa
        import pyarrow.compute as pc

        with open_file(path) as stream:
            try:
                for raw in line_blocks(stream, BLOCK):
                    text = readable_lines(raw)
                    count = text.count(b"\n") + (not text.endswith(b"\n"))
                    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
                    offsets = np.zeros(count + 1, np.int64)
                    offsets[1 : len(ends) + 1] = ends
                    offsets[count] = len(text)
                    buffers = pa.py_buffer(offsets), pa.py_buffer(text)
                    lines = pa.LargeStringArray.from_buffers(count, *buffers)
                    trimmed = pc.utf8_trim(lines, characters=" \t\r\n")
                    table = ibis.memtable(pa.table({"n": np.arange(count), "line": trimmed}))
                    yield Lines(table, count, stream.position)
            except OSError as error:
                raise DataError(f"cannot be read to its end: {error}", path) from error

    def read(self, folder: Path) -> ir.Table:
        """The Parquet files below a folder as one table."""
        return self._con.read_parquet(str(folder / "**" / "*.parquet"))

    def write(self, table: ir.Table, folder: Path) -> None:
        """Write a table as one Parquet file."""
        with _errors_of_duckdb(folder):
            self._con.to_parquet(table, folder / "part-0.parquet", compression="zstd")

    def count(self, table: ir.Table) -> int:
        """Number of rows."""
        with _errors_of_duckdb(None):
            return int(table.count().to_pyarrow().as_py())

    def close(self) -> None:
        """Close the connection."""
        self._con.disconnect()


class Spark:
    """A Spark session: the one that runs, or one as Spark's own settings have it (local without any)."""

    name = "spark"

    def __init__(self, session: Any = None) -> None:
        """Connect.

        Args:
            session: a `SparkSession`; found or started if None, and stopped again by `close`.

        Raises:
            ConfigurationError: the packages or Java are missing.
        """
        ibis = _import_ibis("spark")
        self._own = session is None
        self._session = _session() if session is None else session
        self._con = ibis.pyspark.connect(self._session)

    def lines(self, path: Path) -> Iterator[Lines]:
        """The lines of a file in one part: Spark splits it itself (bz2 and plain files, not gz)."""
        if path.name.lower().endswith(".zst"):
            raise DataError(
                "Spark cannot read zst; compress it as .bz2 (which Spark reads in parallel)", path
            )
        frame = self._session.read.text(path.absolute().as_uri())
        frame = frame.selectExpr(
            "cast(null as bigint) as n", r"regexp_replace(value, '[ \\t\\r]+$', '') as line"
        )
        frame.createOrReplaceTempView("lines")
        yield Lines(self._con.table("lines"), None, path.stat().st_size)

    def read(self, folder: Path) -> ir.Table:
        """The Parquet files below a folder as one table."""
        return self._con.read_parquet(folder, recursiveFileLookup=True, pathGlobFilter="*.parquet")

    def write(self, table: ir.Table, folder: Path) -> None:
        """Write a table as Parquet files, one a partition."""
        self._con.to_parquet(table, folder, mode="overwrite")

    def count(self, table: ir.Table) -> int:
        """Number of rows."""
        return int(self._session.sql(self._con.compile(table)).count())

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._own:
            self._session.stop()


Engine: TypeAlias = DuckDB | Spark


def engine_named(name: str, spill: Path, memory: str, threads: int | None) -> Engine:
    """An engine by its name.

    Raises:
        ConfigurationError: unknown name, missing packages, missing Java.
    """
    if name not in ENGINES:
        raise ConfigurationError.unknown("engine", name, ENGINES)
    return Spark() if name == "spark" else DuckDB(spill, memory, threads)


@contextmanager
def _errors_of_duckdb(folder: Path | None) -> Iterator[None]:
    """What goes wrong in a query of DuckDB, by who has to act. Ctrl-C reaches a query as a RuntimeError."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise DataError(f"cannot be read or written: {error}", folder) from error
    except duckdb.OutOfMemoryException as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"too little memory ({reason}); give more by --memory") from error
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _import_ibis(engine: str) -> Any:
    extra, package = ("spark", "pyspark") if engine == "spark" else ("cut", "duckdb")
    try:
        __import__(package)
        import ibis
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"cutting with {engine} needs the package {error.name}, which is not installed: "
            f"pip install 'triplewise[{extra}]'"
        ) from error
    return ibis


def _session() -> Any:
    from pyspark.sql import SparkSession

    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise ConfigurationError(
            "Spark needs Java 17 or newer, and no `java` was found; install one "
            "(e.g. apt-get install default-jre-headless) or set JAVA_HOME"
        )
    return SparkSession.builder.appName("triplewise kg cut").getOrCreate()


def column_table(engine: Engine, values: Sequence[str], name: str, folder: Path) -> ir.Table:
    """A table of one column of texts, from here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: pa.array(values, pa.string())}), folder / "part-0.parquet")
    return engine.read(folder)
