"""The result of a cut: two files of N-Triples and what was done, put in place so that it never misleads."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.load import SUBSET_MANIFEST as CUT
from triplewise.tools.kg.subset.work import Facts, write_json

if TYPE_CHECKING:
    import pyarrow as pa

TRIPLES, LABELS = "triples.nt.gz", "labels.nt.gz"
FILES = (TRIPLES, LABELS, CUT)
_LEVEL = 4


def write_ntriples(batches: Iterable[pa.RecordBatch], path: Path) -> Facts:
    """Write triples (`s`, `p`, `o`) as N-Triples, compressed: the same bytes for the same triples.

    Returns:
        `triples`, `bytes` and `sha256` of the file.
    """
    total = 0
    with path.open("wb") as raw:
        with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
            for batch in batches:
                file.write(_text(batch))
                total += batch.num_rows
        raw.flush()
        os.fsync(raw.fileno())
    with path.open("rb") as done:
        digest = hashlib.file_digest(done, "sha256").hexdigest()
    return {"triples": total, "bytes": path.stat().st_size, "sha256": digest}


def _text(batch: pa.RecordBatch) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return b""
    kind = pa.large_string()
    columns = [batch.column(name).cast(kind) for name in ("s", "p", "o")]
    lines = pc.binary_join_element_wise(*columns, pa.scalar(".\n", kind), pa.scalar(" ", kind))
    return "".join(lines.to_pylist()).encode()


def publish(result: Path, target: Path, manifest: Facts) -> None:
    """Put the files of a result into their folder: the old manifest goes first, the new one comes last.

    The result stays, so that a publishing that was broken off can be done again.

    Raises:
        DataError: the folder cannot be written.
    """
    try:
        (target / CUT).unlink(missing_ok=True)
        for name in (TRIPLES, LABELS):
            _linked(result / name).replace(target / name)
        write_json(target / CUT, manifest)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", target) from error


def _linked(path: Path) -> Path:
    """The same file once more, under another name; a copy where there are no links."""
    other = path.with_name(path.name + ".new")
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:
        shutil.copyfile(path, other)
    return other
