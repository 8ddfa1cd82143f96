"""A file as blocks of lines in Arrow's form, decompressed as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.rdf import Stream, line_blocks, open_file, readable_lines

BLOCK = 64 << 20
"""Bytes of text in a block: memory use is some times this."""
READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file.

    Attributes:
        table: an Arrow table with `n`, the place in the block from 0, and `line`, trimmed.
        first: number of the first line, from 1. count: number of lines.
        end: bytes of the decompressed file up to the block's end. position: bytes of the file on disk.
    """

    table: Any
    first: int
    count: int
    end: int
    position: int


def blocks(path: Path, first: int = 1, offset: int = 0, size: int = BLOCK) -> Iterator[Block]:
    """The blocks of a file.

    Args:
        path: plain, .gz, .zst or .bz2. first, offset: number of the line to begin with, and its byte.
        size: bytes of text in a block, at least one line.

    Raises:
        DataError: the file cannot be read to its end.
    """
    with open_file(path) as stream:
        try:
            _skip(stream, offset)
            for raw in line_blocks(stream, size):
                offset += len(raw)
                text = readable_lines(raw)
                count = text.count(b"\n") + (not text.endswith(b"\n"))
                yield Block(_table(text, count), first, count, offset, stream.position)
                first += count
        except OSError as error:
            raise DataError(f"cannot be read to its end: {error}", path) from error


def _skip(stream: Stream, offset: int) -> None:
    """Go on to a byte: a compressed file has to be read up to there."""
    while offset > 0:
        data = stream.read(min(offset, READ))
        if not data:
            raise OSError("shorter than it was; start over with --overwrite")
        offset -= len(data)


def _table(data: bytes, count: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.zeros(count + 1, np.int64)
    offsets[1 : len(ends) + 1] = ends
    offsets[count] = len(data)
    lines = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
    trimmed = pc.utf8_trim(lines, characters=" \t\r\n")
    return pa.table({"n": np.arange(count), "line": trimmed})
